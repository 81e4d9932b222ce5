/* proxy/broker_service.h - what the broker does for its sandboxes: leaves and grants
 *
 * Ownership   broker_new() takes the ring over; broker_sandbox() takes all descriptors over,
 *             whatever comes of it. A sandbox's state goes when its worker's channel closes, or
 *             when another comes with its number. broker_free().
 * Blocking    never; a leaf costs a signature.
 * Callbacks   from the event loop, by the channels.
 * Failure     broker_sandbox(): ERR_FULL at SANDBOXES_MAX, ERR_SYNTAX for a policy that does not
 *             hold, ERR_NOMEM, ERR_CRYPTO; its channels are then closed, which is what its worker
 *             sees.
 * Limits      SANDBOXES_MAX; for each TICKETS_MAX, LEAVES_MAX, GRANTS_PER_SECOND (then UNAVAILABLE)
 *             and REFUSALS_PER_SECOND records (then counted).
 * Tests       tests/unit/proxy/test_broker_service.c
 */
#ifndef PROXY_BROKER_SERVICE_H
#define PROXY_BROKER_SERVICE_H

#include "proxy/secret_table.h"
#include "sandbox/ring.h"

#define SANDBOXES_MAX 1024
#define GRANTS_PER_SECOND 100000
#define REFUSALS_PER_SECOND 32

struct event_base;
struct broker;

/* Seconds of a clock that does not go back. */
typedef uint64_t broker_clock_fn(void);

struct broker *broker_new(struct event_base *base, struct ring *ring, broker_clock_fn *now);
void broker_free(struct broker *b);
/* Is told of each sandbox that is given up because its worker broke the rules of its channel; not
 * of one whose worker has just gone. */
typedef void broker_lost_fn(void *arg, uint32_t sandbox, const char *why);
void broker_on_lost(struct broker *b, broker_lost_fn *fn, void *arg);
/* To be filled before the first sandbox. */
struct secret_table *broker_secrets(struct broker *b);
/* Appends the CA certificate's PEM to @pem. */
must_use enum err broker_sandbox(struct broker *b, const struct msg_sandbox *m, const int *fds,
				 size_t n_fds, struct buf *pem);
size_t broker_sandboxes(const struct broker *b);

#endif
