/* proxy/resolver.h - addresses of names: the operator's list, then the cache, then DNS servers
 *
 * Who asks for a name that is being asked for already waits for the same answer. Answers are not
 * vetted here: they are the same for all sandboxes, policies are not.
 *
 * Ownership   answers are borrowed for the callback or until the next call.
 * Blocking    resolver_new() reads resolv.conf; then never.
 * Failure     by the answer's status.
 * Limits      RESOLVER_CACHE_MAX names kept, RESOLVER_UNDERWAY_MAX names asked for at a time.
 * Tests       tests/unit/proxy/test_resolver.c
 */
#ifndef PROXY_RESOLVER_H
#define PROXY_RESOLVER_H

#include "proxy/resolver_cache.h"

#define RESOLVER_CACHE_MAX 8192
#define RESOLVER_UNDERWAY_MAX 2048
#define RESOLVER_NAMES_TTL 60		/* seconds, for names from the settings */

struct event_base;
struct resolver;
struct resolver_wait;

typedef void resolver_fn(void *arg, const struct resolver_answer *a);

struct resolver *resolver_new(struct event_base *base, const struct msg_dialer_start *start,
			      const char **why);
/* Waiters are not called back. */
void resolver_free(struct resolver *r);
/* What is known without asking, or NULL. */
const struct resolver_answer *resolver_known(struct resolver *r, struct str name);
/* Asks. The callback comes once, from the event loop. NULL: too many under way, or no memory. */
struct resolver_wait *resolver_ask(struct resolver *r, struct str name, resolver_fn *fn, void *arg);
/* The callback will not come. The answer still goes into the cache. */
void resolver_cancel(struct resolver_wait *w);

#endif
