/* proxy/resolver_query.h - asks DNS servers for one name's addresses: c-ares on the event loop
 *
 * Both A and AAAA are asked, over UDP with EDNS, over TCP where the answer was cut (TC). Nothing
 * else is looked into: no hosts file, no search list, no aliases. What comes back are the final
 * addresses of whatever chain of aliases there was; the chain itself counts for nothing.
 *
 * Ownership   resolver_net_free() ends what is under way; nobody is called back then.
 * Blocking    resolver_net_new() reads the system's resolv.conf (before confinement); then never.
 * Failure     by the answer's status; resolver_net_new() says why.
 * Limits      QUERY_GRACE_MS is how long one family's addresses wait for the other's answer.
 * Tests       tests/unit/proxy/test_resolver.c
 */
#ifndef PROXY_RESOLVER_QUERY_H
#define PROXY_RESOLVER_QUERY_H

#include "proxy/resolver_cache.h"

#define QUERY_GRACE_MS 250
#define QUERY_TRIES 2

struct event_base;
struct resolver_net;

typedef void resolver_query_fn(void *arg, const struct resolver_answer *a);

/* @servers empty: the system's. @timeout_ms: for one try. */
struct resolver_net *resolver_net_new(struct event_base *base, const struct str_list *servers,
				      uint32_t timeout_ms, const char **why);
void resolver_net_free(struct resolver_net *n);
/* The callback comes once, from the event loop. */
must_use enum err resolver_net_ask(struct resolver_net *n, struct str name, resolver_query_fn *fn,
				   void *arg);

#endif
