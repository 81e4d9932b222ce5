/* Theory of operation
 *
 * From its dial on an upstream is one callback, on_event(): what the dialer says and what its
 * stream does end there. It looks how far the connection is, wakes those whose legs are on it, and
 * settles what they and it have to send. Several legs may wait for one that is being dialled; if it
 * turns out to speak HTTP/1, which carries one at a time, all but the first are woken without an
 * upstream and ask the pool again.
 */
#include "proxy/upstream.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "proxy/clock.h"
#include "proxy/h1_origin.h"
#include "proxy/h2_origin.h"
#include "proxy/pool.h"

#define FAIL_ROW(dial_, refusal_) [DIAL_##dial_] = REFUSAL_##refusal_

static const enum refusal_reason dial_reasons[] = {
	FAIL_ROW(OK, internal),
	FAIL_ROW(REFUSED, connection_refused),
	FAIL_ROW(TIMEOUT, connection_timeout),
	FAIL_ROW(UNREACHABLE, destination_unreachable),
	FAIL_ROW(NO_NAME, dns_failed),
	FAIL_ROW(PROHIBITED, destination_prohibited),
	FAIL_ROW(DENIED, policy),
	FAIL_ROW(QUOTA, too_many_dials),
	FAIL_ROW(FAILED, internal),
};
#define DIAL_STATUSES (sizeof(dial_reasons) / sizeof(dial_reasons[0]))

static const enum refusal_reason stream_reasons[] = {
	[STREAM_FINE] = REFUSAL_internal,
	[STREAM_RESET] = REFUSAL_connection_terminated,
	[STREAM_CUT] = REFUSAL_connection_terminated,
	[STREAM_ALERT] = REFUSAL_tls_alert,
	[STREAM_PROTOCOL] = REFUSAL_tls_protocol,
	[STREAM_CERTIFICATE] = REFUSAL_tls_certificate,
	[STREAM_OVERFLOW] = REFUSAL_internal,
};

static void fail(struct upstream *u, enum refusal_reason trouble, struct str why)
{
	u->failed = true;
	u->trouble = trouble;
	u->deadline = 0;
	snprintf(u->why, sizeof(u->why), "%.*s%s%.*s", STR_ARG(u->site.name), why.n ? ": " : "",
		 (int)(why.n < UPSTREAM_WHY_MAX ? why.n : UPSTREAM_WHY_MAX), why.n ? why.p : "");
}

enum refusal_reason upstream_dial_reason(const struct msg_dialed *a)
{
	if (a->status >= DIAL_STATUSES)
		return REFUSAL_internal;
	if (a->status == DIAL_NO_NAME && a->resolve == RESOLVE_TIMEOUT)
		return REFUSAL_dns_timeout;
	return dial_reasons[a->status];
}

/* ---- legs ---- */

/* Those that are marked. A wake may take any leg off, and end the connection: so it is held, and
 * its legs are looked at from the beginning after each. */
static void wake_legs(struct upstream *u)
{
	struct leg *l;

	do {
		for (l = u->legs; l && !l->woken; l = l->next)
			;
		if (l) {
			l->woken = false;
			l->wake(l->arg);
		}
	} while (l);
}

/* It carries one exchange at a time: the first that has waited. */
static void send_others_on(struct upstream *u)
{
	while (u->legs && u->legs->next) {
		struct leg *l = u->legs;

		upstream_leave(l);
		l->wake(l->arg);
	}
}

void upstream_join(struct upstream *u, struct leg *l)
{
	l->up = u;
	l->woken = false;
	l->reused = u->used;
	u->used = true;
	l->next = u->legs;
	l->link = &u->legs;
	if (l->next)
		l->next->link = &l->next;
	u->legs = l;
}

void upstream_leave(struct leg *l)
{
	if (l->up->ops)
		l->up->ops->leave(l);
	*l->link = l->next;
	if (l->next)
		l->next->link = l->link;
	l->up = NULL;
}

/* ---- dialling ---- */

/* Which HTTP (RFC 9113 3.2), and its state. */
static void begin(struct upstream *u)
{
	SSL *ssl = stream_ssl(u->stream);

	u->ops = ssl && str_eq(tls_trust_alpn(ssl), STR("h2")) ? &h2_origin : &h1_origin;
	if (!u->ops->open(u)) {
		u->ops = NULL;
		fail(u, REFUSAL_internal, STR("out of memory"));
		return;
	}
	pool_ready(u);
	if (!u->ops->shared)
		send_others_on(u);
}

static void look(struct upstream *u)
{
	for (struct leg *l = u->legs; l && !u->ops; l = l->next)
		l->woken = true;
	if (u->ops)
		u->ops->look(u);
	if (u->ops || upstream_failed(u) || !u->stream || stream_handshaking(u->stream))
		return;
	if (u->deadline) {
		u->deadline = 0;
		u->ms_tls = (uint32_t)(clock_ms() - u->tls_began);
		tls_trust_fingerprint(stream_ssl(u->stream), u->cert);
	}
	begin(u);
}

static void on_event(void *arg)
{
	struct upstream *u = arg;
	struct pool *pool = u->pool;

	u->holds++;
	look(u);
	wake_legs(u);
	u->holds--;
	if (u->dead)
		upstream_free(u);
	else if (u->legs)
		pool_touch(u);
	else
		pool_look(u);
	pool_settle(pool);
}

static void speak(struct upstream *u)
{
	const struct tls_site site = { u->site.name, u->site.literal, u->site.port,
				       TLS_ALPN_H2_H1 };
	SSL *ssl;

	if (u->site.proto != PROTO_HTTPS)
		return;
	ssl = tls_trust_connect(u->trust, &site, stream_fd(u->stream));
	if (!ssl) {
		fail(u, REFUSAL_internal, STR("no TLS state"));
		return;
	}
	u->tls_began = clock_ms();
	u->deadline = u->tls_began + UPSTREAM_TLS_MS;
	stream_start_tls(u->stream, ssl);
}

static void on_dialed(void *arg, const struct msg_dialed *a, int fd)
{
	struct upstream *u = arg;

	u->dial = 0;
	u->ms_resolve = a->resolve_ms;
	u->ms_connect = a->connect_ms;
	snprintf(u->attempts, sizeof(u->attempts), "%.*s",
		 (int)(a->attempts.n < UPSTREAM_WHY_MAX ? a->attempts.n : UPSTREAM_WHY_MAX),
		 a->attempts.n ? a->attempts.p : "");
	if (a->status == DIAL_OK && fd >= 0 && addr_unpack(a->addr, &u->addr)) {
		u->ticket = a->ticket;
		u->dialer = u->w->dialers;
		u->stream = stream_new(u->w->base, fd, on_event, u);
		if (u->stream)
			speak(u);
		else
			fail(u, REFUSAL_internal, STR("out of memory"));
	} else {
		if (fd >= 0)
			close(fd);
		(void)addr_unpack(a->addr, &u->addr);
		fail(u, upstream_dial_reason(a), a->attempts);
	}
	on_event(u);
}

/* ---- life ---- */

struct upstream *upstream_new(struct pool *pool, const struct site *site)
{
	struct upstream *u = calloc(1, sizeof(*u));

	if (!u)
		return NULL;
	u->pool = pool;
	u->w = pool_worker(pool);
	u->grant = kept_grant_new(u->w->base);
	if (!u->grant || site->name.n >= sizeof(u->name.s)) {
		kept_grant_free(u->grant);
		free(u);
		return NULL;
	}
	u->trust = pool_trust(pool);
	u->site = *site;
	u->name.n = (uint8_t)site->name.n;
	memcpy(u->name.s, site->name.p, site->name.n);
	u->site.name = name_str(&u->name);
	u->dial = ask_dial(u->w, u->site.name, site->literal, site->port, on_dialed, u);
	return u;
}

void upstream_free(struct upstream *u)
{
	if (u->holds) {
		u->dead = true;
		return;
	}
	pool_forget(u);
	if (u->dial)
		ask_cancel(u->w, u->dial);
	if (u->ticket)
		hang_up(u->w, u->ticket);
	if (u->ops)
		u->ops->close(u);
	stream_free(u->stream);
	kept_grant_free(u->grant);
	free(u);
}

/* ---- how it goes ---- */

bool upstream_failed(struct upstream *u)
{
	if (!u->failed && u->stream && stream_failed(u->stream))
		fail(u, stream_reasons[stream_trouble(u->stream)], str_of(stream_why(u->stream)));
	return u->failed;
}

bool upstream_ready(struct upstream *u)
{
	return u->ops && !upstream_failed(u);
}

bool upstream_has_ticket(const struct upstream *u)
{
	return u->w->dialer && u->dialer == u->w->dialers;
}

bool upstream_usable(struct upstream *u, bool look)
{
	bool clean;

	if (!upstream_ready(u) || !upstream_has_ticket(u))
		return false;
	if (look)
		stream_poll(u->stream);
	return !stream_failed(u->stream) && !stream_ended(u->stream, &clean) &&
	       stream_in(u->stream).n == 0;
}

void upstream_timeout(struct upstream *u)
{
	fail(u, REFUSAL_connection_timeout, STR("TLS handshake timed out"));
}
