/* proxy/upstream.h - one connection to an origin: dialled by the dialer, TLS verified, then used
 *
 * upstream_new() asks the dialer at once; those who wait for it are woken as things move. Nothing
 * is sent to the origin before upstream_ready(): with TLS that is after its certificate has
 * verified. What an exchange has of it is a leg: with HTTP/1 the whole connection, for as long as
 * its request and answer last, with HTTP/2 one stream of many. proxy/pool.h says which upstream a
 * leg is put on and what becomes of one that has no legs.
 *
 * Ownership   the pool makes and frees it. upstream_free() closes, takes back a question that is
 *             still open, gives the ticket back. Legs are their exchanges' (embedded).
 * Blocking    never.
 * Callbacks   a leg's wake, from the event loop only. It may take legs off and put others on.
 * Failure     upstream_failed(); then @trouble is the reason for a refusal and @why the exact text.
 * Limits      UPSTREAM_TLS_MS for the handshake; connecting is timed by the dialer.
 * Tests       tests/unit/proxy/test_engine.c, tests/unit/proxy/test_pool.c
 */
#ifndef PROXY_UPSTREAM_H
#define PROXY_UPSTREAM_H

#include "policy/name.h"
#include "proxy/http1.h"
#include "proxy/kept_grant.h"
#include "proxy/refusal.h"
#include "proxy/stream.h"
#include "proxy/tls_trust.h"
#include "proxy/worker.h"

#define UPSTREAM_TLS_MS 10000u
#define UPSTREAM_WHY_MAX 512

struct site {
	struct str name;	/* canonical name, or an address as text where @literal */
	bool literal;
	uint16_t port;
	enum proto proto;
};

struct h2;
struct h2_stream;
struct pool;
struct upstream;
struct origin_ops;

/* Which list of the pool's an upstream stands in. */
enum upstream_place {
	UPSTREAM_NEW,		/* not ready yet: legs may join those that wait */
	UPSTREAM_SHARED,	/* HTTP/2: legs may join */
	UPSTREAM_BUSY,		/* HTTP/1 with its leg; or HTTP/2 that takes no more */
	UPSTREAM_IDLE,		/* HTTP/1 without one */
};

struct leg {
	struct upstream *up;		/* NULL: it is on none */
	struct leg *next, **link;	/* of those on @up */
	bool woken;
	stream_wake_fn *wake;
	void *arg;
	bool reused;			/* @up had carried another before this */
	uint64_t left;			/* of the answer's body, where its length is known */
	/* HTTP/1 */
	bool chunked;			/* the request is sent in chunks */
	uint64_t sent_from;		/* the connection's bytes before this request's first */
	/* HTTP/2 */
	struct h2_stream *h2;
	bool headed;			/* the exchange has the answer's head */
};

struct upstream {
	struct pool *pool;
	struct worker *w;
	const struct tls_trust *trust;
	struct name name;
	struct site site;		/* its name is @name */
	enum upstream_place place;
	struct upstream *next, **link;	/* in the pool's list of its place */
	struct upstream *older, *newer;	/* of those that are idle: where @aging */
	struct upstream *next_touched;
	bool touched;			/* to be settled at the end of the pass */
	bool aging;
	bool outdated;			/* no further leg comes */
	unsigned holds;			/* it is at work: freed when that is over */
	bool dead;
	uint64_t ready_at, idle_since;

	struct leg *legs;
	const struct origin_ops *ops;	/* how it is spoken to; NULL until it is ready */
	ask_id dial;
	struct stream *stream;
	struct http1_parser *parser;	/* HTTP/1 */
	struct h2 *h2;			/* HTTP/2 */
	bool failed, used;
	enum refusal_reason trouble;
	char why[UPSTREAM_WHY_MAX];
	char attempts[UPSTREAM_WHY_MAX];

	uint64_t ticket;
	struct kept_grant *grant;	/* for the next request on it */
	unsigned dialer;		/* which one's ticket: w->dialers then */
	struct addr addr;
	char cert[TLS_FINGERPRINT_HEX + 1];
	uint64_t deadline;		/* of the handshake; 0 none */
	uint64_t tls_began;
	uint32_t ms_resolve, ms_connect, ms_tls;
};

/* What a dialer's answer means for who asked. */
enum refusal_reason upstream_dial_reason(const struct msg_dialed *a);
struct upstream *upstream_new(struct pool *pool, const struct site *site);
/* Without legs. Where it is at work, when that is over. */
void upstream_free(struct upstream *u);
void upstream_join(struct upstream *u, struct leg *leg);
void upstream_leave(struct leg *leg);
/* Looks at how the handshake goes. True when the origin can be spoken to. */
bool upstream_ready(struct upstream *u);
bool upstream_failed(struct upstream *u);
/* Is its ticket one that counts? A dialer's tickets end with it. */
bool upstream_has_ticket(const struct upstream *u);
/* Can an idle one carry another exchange, as far as is known? @look: and as far as the kernel can
 * say now, for a request that could not be sent again. */
bool upstream_usable(struct upstream *u, bool look);
void upstream_timeout(struct upstream *u);

#endif
