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
 * LAUNCHER	starts the others and makes wires and boxes for the confined supervisor
 * NURSERY	a worker's program, loaded and waiting: workers are forked from it
 */
#define ROLES(X)                       \
	X(SUPERVISOR, "supervisor")    \
	X(WORKER,     "worker")        \
	X(DIALER,     "dialer")        \
	X(BROKER,     "broker")        \
	X(RECORDER,   "recorder")      \
	X(READER,     "reader")        \
	X(LAUNCHER,   "launcher")      \
	X(NURSERY,    "nursery")

enum role {
#define X(name, text) ROLE_##name,
	ROLES(X)
#undef X
	ROLE_COUNT
};

/* Those after it live to start others, and are as strong as whoever starts Exeat. */
#define ROLE_CONFINED_LAST ROLE_READER

/* "unknown" for a number that is no role. */
const char *role_name(enum role r);

#endif
