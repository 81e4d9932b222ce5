/* proxy/pool.h - a worker's connections to origins: which one a request goes out on
 *
 * An origin is a site: name or address, port, protocol. A worker is one sandbox's, so connections
 * are never shared between sandboxes. One that speaks HTTP/1 carries one exchange at a time and is
 * idle between them; one that speaks HTTP/2 carries many. Credentials are no matter of connections:
 * each request's is judged for itself, by the ticket of the connection that it goes out on.
 *
 * Ownership   the pool owns every upstream; exchanges own their legs. pool_free() when no leg is
 *             on any of them.
 * Blocking    never.
 * Callbacks   none of its own (proxy/upstream.h: wake).
 * Failure     pool_get() is false without memory, or at POOL_MAX.
 * Limits      POOL_MAX connections, POOL_IDLE_MAX of them idle (the longest idle goes first),
 *             POOL_SITE_IDLE_MAX to one site, for POOL_IDLE_MS. After POOL_AGE_MS no request more
 *             goes out on one: a name's new address, or its end, is felt by then.
 * Tests       tests/unit/proxy/test_pool.c, tests/unit/proxy/test_engine.c
 */
#ifndef PROXY_POOL_H
#define PROXY_POOL_H

#include "proxy/upstream.h"

#define POOL_MAX MSG_CONNECTIONS_MAX
#define POOL_IDLE_MAX 512u
#define POOL_SITE_IDLE_MAX 256u
#define POOL_IDLE_MS 60000u
#define POOL_AGE_MS 600000u

struct pool *pool_new(struct worker *w, const struct tls_trust *trust);
void pool_free(struct pool *p);

struct pool_wish {
	bool fresh;	/* none that has been idle: the last one turned out to be dead */
	bool look;	/* the request could not be sent again: is it alive, as far as is seen? */
};

/* Puts @leg on an upstream that is idle, shared, dialled already or dialled now. @leg's wake is set
 * by its owner. It can find itself on none again (leg->up NULL, woken): the upstream that it waited
 * for speaks HTTP/1 and carries another. Then it asks again. */
must_use bool pool_get(struct pool *p, const struct site *site, struct pool_wish wish,
		       struct leg *leg);
/* Takes @leg off. @clean: its exchange is over and has left the connection as it found it. */
void pool_put(struct leg *leg, bool clean);
/* ---- for upstream.c ---- */
/* It can be spoken to: it gets its place. */
void pool_ready(struct upstream *u);
/* Something has happened to one without legs. May free it. */
void pool_look(struct upstream *u);
void pool_forget(struct upstream *u);

/* ---- for whoever has made a pass ---- */
/* Bytes may have to go out, or interest to change, at the end of the pass. */
void pool_touch(struct upstream *u);
/* The end of the pass. */
void pool_settle(struct pool *p);
/* No request more on any that is there: policy or dialer are new. */
void pool_drain(struct pool *p);
/* So many connections, and so many of them idle. */
size_t pool_count(const struct pool *p);
size_t pool_idle(const struct pool *p);

struct worker *pool_worker(const struct pool *p);
const struct tls_trust *pool_trust(const struct pool *p);

#endif
