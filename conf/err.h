/* conf/err.h - one dialect for what can go wrong inside Exeat
 *
 * Functions that can fail return enum err: OK (0) or a negative value from the list. Whose fault
 * it is decides what happens:
 *
 *   PEER    somebody else broke the rules: close what is theirs, and say why
 *   RETRY   not now: would block, queue full, over a quota
 *   LOCAL   this one thing fails, the process lives
 *   BUG     cannot happen: abort
 *
 * Errors in a file that an operator wrote are no enum err; they are diagnostics (conf/diag.h).
 *
 * Ownership   texts are static.       Blocking  never.      Failure  none.
 * Tests       tests/unit/conf/test_err.c
 */
#ifndef CONF_ERR_H
#define CONF_ERR_H

enum err_kind { ERR_KIND_NONE, ERR_KIND_PEER, ERR_KIND_RETRY, ERR_KIND_LOCAL, ERR_KIND_BUG };

/* name, kind, text */
#define ERRS(X)                                                                                   \
	X(NOMEM,     LOCAL, "out of memory")                                                      \
	X(SYSTEM,    LOCAL, "a system call failed")        /* errno says which way */             \
	X(AGAIN,     RETRY, "not ready yet")                                                      \
	X(FULL,      RETRY, "a queue or table is full")                                           \
	X(LIMIT,     PEER,  "over a limit")                                                       \
	X(SYNTAX,    PEER,  "malformed")                                                          \
	X(PROTOCOL,  PEER,  "not allowed at this point")                                          \
	X(CLOSED,    PEER,  "the other side is gone")                                             \
	X(TRUNCATED, PEER,  "ends too early")                                                     \
	X(NOTFOUND,  LOCAL, "no such thing")                                                      \
	X(DENIED,    LOCAL, "not permitted")                                                      \
	X(CRYPTO,    LOCAL, "a cryptographic operation failed")                                   \
	X(BUG,       BUG,   "a state that cannot be")

enum err_index {
#define X(name, kind, text) ERR_INDEX_##name,
	ERRS(X)
#undef X
	ERR_COUNT
};

enum err {
	OK = 0,
#define X(name, kind, text) ERR_##name = -1 - ERR_INDEX_##name,
	ERRS(X)
#undef X
};

#define must_use __attribute__((warn_unused_result))

const char *err_text(enum err e);
enum err_kind err_kind(enum err e);

#endif
