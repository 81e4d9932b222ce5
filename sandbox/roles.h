/* sandbox/roles.h - the processes that Exeat consists of
 *
 * Ownership   static texts.       Blocking  never.       Failure  none.
 * Tests       tests/unit/sandbox/test_roles.c
 */
#ifndef SANDBOX_ROLES_H
#define SANDBOX_ROLES_H

/* SUPERVISOR	namespaces, leases, lifecycle; no byte of a box or of the internet
 * WORKER	speaks to one box and its origins; opens no socket, file or process
 * DIALER	resolves and connects; reads no byte of a connection
 * BROKER	secrets and CA keys; no network
 * RECORDER	writes the audit log; no network
 * READER	compiles one policy and exits; nothing else at all
 */
#define ROLES(X)                       \
	X(SUPERVISOR, "supervisor")    \
	X(WORKER,     "worker")        \
	X(DIALER,     "dialer")        \
	X(BROKER,     "broker")        \
	X(RECORDER,   "recorder")      \
	X(READER,     "reader")

enum role {
#define X(name, text) ROLE_##name,
	ROLES(X)
#undef X
	ROLE_COUNT
};

/* "unknown" for a number that is no role. */
const char *role_name(enum role r);

#endif
