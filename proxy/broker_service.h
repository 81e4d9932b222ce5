/* proxy/broker_service.h - what the broker does for its sandboxes: leaves and grants
 *
 * A sandbox goes when the supervisor says so, when another comes with its number, or when its
 * worker breaks the rules of its channel; not when its worker, or the dialer, has merely ended.
 *
 * Ownership   broker_new() takes the ring and the key over where it works; broker_sandbox(),
 *             broker_peer() and broker_policy() take all descriptors over, whatever comes of it.
 *             broker_free().
 * Blocking    never; a leaf costs a signature.
 * Callbacks   from the event loop, by the channels.
 * Failure     broker_sandbox(): ERR_FULL at SANDBOXES_MAX, ERR_SYNTAX for a policy that does not
 *             hold and for a sealed CA that does not open, ERR_NOMEM, ERR_CRYPTO; its channels are
 *             then closed, which is what its worker sees. broker_policy(): the policy in force
 *             stays. broker_peer(), broker_policy(): ERR_NOTFOUND where there is no such sandbox.
 * Limits      SANDBOXES_MAX; for each TICKETS_MAX, LEAVES_MAX, and what broker_limit() says:
 *             grants a second (then QUOTA), bytes that wait for a worker that does not read
 *             (then its sandbox is given up); REFUSALS_PER_SECOND records (then counted).
 * Tests       tests/unit/proxy/test_broker_service.c, test_broker_successors.c
 */
#ifndef PROXY_BROKER_SERVICE_H
#define PROXY_BROKER_SERVICE_H

#include "broker/ca_seal.h"
#include "proxy/secret_table.h"
#include "sandbox/ring.h"

#define SANDBOXES_MAX 1024
#define REFUSALS_PER_SECOND 32

struct event_base;
struct broker;

/* Seconds of a clock that does not go back. */
typedef uint64_t broker_clock_fn(void);

/* @key: what sandboxes' CAs are sealed with. */
struct broker *broker_new(struct event_base *base, struct ring *ring, struct seal_key *key,
			  broker_clock_fn *now);
void broker_free(struct broker *b);
/* Is told of each sandbox that is given up because its worker, or its dialer, broke the rules of
 * its channel or takes no message; not of one whose worker has just gone. */
typedef void broker_lost_fn(void *arg, uint32_t sandbox, uint32_t join, const char *why);
void broker_on_lost(struct broker *b, broker_lost_fn *fn, void *arg);
/* Before the first sandbox. */
void broker_limit(struct broker *b, uint32_t grants_per_second, size_t queued);
/* To be filled before the first sandbox. */
struct secret_table *broker_secrets(struct broker *b);
/* What is told of a sandbox's CA. */
struct broker_ca {
	struct buf pem, sealed;
};

/* Fills *out, empty where it fails; broker_ca_free(). */
must_use enum err broker_sandbox(struct broker *b, const struct msg_sandbox *m, int *fds,
				 size_t n_fds, struct broker_ca *out);
void broker_ca_free(struct broker_ca *ca);
/* All of it is forgotten; none of that number: nothing to do. */
void broker_sandbox_gone(struct broker *b, uint32_t number);
/* The channel to the dialer's successor: what the old one has vouched for is nothing any more. */
must_use enum err broker_peer(struct broker *b, const struct msg_peer *m, int fd);
must_use enum err broker_policy(struct broker *b, const struct msg_policy *m, const int *fds,
				size_t n_fds);
size_t broker_sandboxes(const struct broker *b);

#endif
