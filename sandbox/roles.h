/* sandbox/roles.h - the processes that Exeat consists of
 *
 * Ownership   static texts.       Blocking  never.       Failure  none.
 * Tests       tests/unit/sandbox/test_roles.c
 */
#ifndef SANDBOX_ROLES_H
#define SANDBOX_ROLES_H

/* name, program, what it promises once confined */
#define ROLES(X)                                                                                  \
	X(SUPERVISOR, "supervisor", "namespaces, leases, lifecycle; no byte of a box or the internet") \
	X(WORKER,     "worker",     "speaks to one box and its origins; opens no socket, file, process") \
	X(DIALER,     "dialer",     "resolves and connects; reads no byte of a connection")        \
	X(BROKER,     "broker",     "secrets and CA keys; no network")                             \
	X(RECORDER,   "recorder",   "writes the audit log; no network")                            \
	X(READER,     "reader",     "compiles one policy and exits; nothing else at all")

enum role {
#define X(name, text, promise) ROLE_##name,
	ROLES(X)
#undef X
	ROLE_COUNT
};

const char *role_name(enum role r);
const char *role_promise(enum role r);

#endif
