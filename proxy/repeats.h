/* proxy/repeats.h - refusals of connections and requests, told apart from their repetitions
 *
 * A box that repeats a refused connection or request must not drown the log: the first of a kind
 * has its own record, what repeats it shares the first one's refusal id and is counted into one
 * record a second (proxy/tally.h). Kinds beyond TALLY_MAX share one id and one record a second.
 * What is allowed never comes here.
 *
 * Ownership   repeats_free() tells what was counted and not yet told. What is noted is copied.
 * Blocking    never.
 * Failure     a count that the ring does not take is told later.
 * Limits      proxy/tally.h.
 * Tests       tests/unit/proxy/test_repeats.c
 */
#ifndef PROXY_REPEATS_H
#define PROXY_REPEATS_H

#include "proxy/refusal.h"
#include "proxy/worker.h"

struct repeats;

/* What makes two refusals the same, and what the record of a count says. */
struct repeat {
	enum record_kind kind;		/* connection or request */
	enum refusal_reason reason;
	struct decision decision;	/* for REFUSAL_policy */
	enum proto proto;
	uint8_t via;			/* enum explicit_via, of a connection */
	uint16_t port;
	struct str host, method, path, why;	/* a connection's path: its server name */
};

struct repeats *repeats_new(struct worker *w);
void repeats_free(struct repeats *r);
/* True: the first of its kind; the caller writes its record with @id, or says repeats_drop().
 * False: it is counted, and @id becomes that of the record which tells of it. */
bool repeats_first(struct repeats *r, const struct repeat *what, char id[17]);
/* The record could not be written: as if it had not been noted. */
void repeats_drop(struct repeats *r, const struct repeat *what);
const char *proto_name(enum proto proto);

#endif
