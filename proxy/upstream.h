/* proxy/upstream.h - one connection to an origin: dialled by the dialer, TLS verified, then used
 *
 * upstream_new() asks the dialer at once; the owner is woken as things move. Nothing is sent to the
 * origin before upstream_ready(): with TLS that is after its certificate has verified. When an
 * exchange has left it clean it can be kept for the next exchange of the same box connection.
 *
 * Ownership   upstream_free() closes, takes back a question that is still open, gives the ticket
 *             back. The name is borrowed for the life of the upstream.
 * Blocking    never.
 * Callbacks   wake, from the event loop only.
 * Failure     upstream_failed(); then @trouble is the reason for a refusal and @why the exact text.
 * Limits      UPSTREAM_TLS_MS for the handshake; connecting is timed by the dialer.
 * Tests       tests/unit/proxy/test_engine.c
 */
#ifndef PROXY_UPSTREAM_H
#define PROXY_UPSTREAM_H

#include "proxy/http1.h"
#include "proxy/refusal.h"
#include "proxy/kept_grant.h"
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

struct upstream {
	struct worker *w;
	const struct tls_trust *trust;
	struct site site;
	stream_wake_fn *wake;
	void *arg;

	ask_id dial;
	struct stream *stream;
	struct http1_parser *parser;
	bool chunked;			/* the request under way is sent in chunks */
	uint64_t left;			/* of the answer's body, where its length is known */
	bool failed;
	bool reused;			/* it has carried an exchange before this one */
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

struct upstream *upstream_new(struct worker *w, const struct tls_trust *trust,
			      const struct site *site, stream_wake_fn *wake, void *arg);
void upstream_free(struct upstream *u);
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
