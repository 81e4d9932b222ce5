/* proxy/broker_state.h - what the parts of the broker share: its sandboxes and what they have
 *
 * Ownership   the broker owns its sandboxes, its secrets, its ring and the sealing key; a sandbox
 *             all that it points to.
 * Blocking    never.
 * Failure     where a function says that the sandbox is gone, it has been freed.
 * Tests       tests/unit/proxy/test_broker_service.c, test_broker_successors.c
 */
#ifndef PROXY_BROKER_STATE_H
#define PROXY_BROKER_STATE_H

#include "broker/ca.h"
#include "policy/policy.h"
#include "proxy/broker_service.h"
#include "proxy/leaf_cache.h"
#include "proxy/record.h"
#include "proxy/tickets.h"
#include "sandbox/channel.h"

/* What one sandbox did in the second that runs. */
struct second {
	uint64_t at;
	unsigned grants, refusals;
	uint64_t suppressed;	/* refusals that no record tells of yet */
};

struct sandbox {
	struct sandbox *next;
	struct broker *broker;
	uint32_t number, join;
	struct buf name;
	struct channel *worker;		/* NULL: it is gone, and the sandbox is to be taken away */
	struct channel *dialer;		/* NULL: it is gone, and its successor to come */
	bool hears_dialer;		/* its messages are being handled inside a worker's */
	bool dialer_broke_rules;
	struct policy *policy;
	struct ca *ca;
	struct buf ca_der, spki;
	struct tickets *tickets;
	struct leaf_cache *leaves;
	struct second second;
};

struct broker {
	struct event_base *base;
	struct ring *ring;
	struct seal_key *seal_key;
	broker_clock_fn *now;
	struct secret_table *secrets;
	struct sandbox *first;
	size_t n;
	uint32_t max_grants;
	size_t max_queued;
	struct record record;
	broker_lost_fn *on_lost;
	void *on_lost_arg;
};

/* ---- broker_service.c ---- */
/* The sandbox is gone; the supervisor is told why. */
void broker_lose(struct sandbox *s, const char *why);
/* An answer that does not go out costs the worker's channel, or the sandbox, which may be gone. */
void broker_answer(struct sandbox *s, uint16_t type, const void *msg);
/* All that the dialer has said so far. False: the sandbox is gone. */
bool broker_hear_dialer(struct sandbox *s);

/* ---- broker_asks.c ---- */
void broker_on_pubkey(struct sandbox *s, const struct msg_pubkey *m);
void broker_on_leaf(struct sandbox *s, const struct msg_leaf *m);
void broker_on_grant(struct sandbox *s, const struct msg_grant *m);
/* What was counted and no record has told yet. */
void broker_record_rest(struct sandbox *s);

#endif
