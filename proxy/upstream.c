#include "proxy/upstream.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "proxy/clock.h"

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

static enum refusal_reason dial_reason(const struct msg_dialed *a)
{
	if (a->status >= DIAL_STATUSES)
		return REFUSAL_internal;
	if (a->status == DIAL_NO_NAME && a->resolve == RESOLVE_TIMEOUT)
		return REFUSAL_dns_timeout;
	return dial_reasons[a->status];
}

static void speak(struct upstream *u)
{
	SSL *ssl;

	if (u->site.proto != PROTO_HTTPS)
		return;
	ssl = tls_trust_connect(u->trust, u->site.name, u->site.literal, stream_fd(u->stream),
				TLS_ALPN_H1);
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
		u->stream = stream_new(u->w->base, fd, u->wake, u->arg);
		u->parser = http1_new(true, u->w->max_headers);
		if (u->stream && u->parser)
			speak(u);
		else
			fail(u, REFUSAL_internal, STR("out of memory"));
	} else {
		if (fd >= 0)
			close(fd);
		(void)addr_unpack(a->addr, &u->addr);
		fail(u, dial_reason(a), a->attempts);
	}
	u->wake(u->arg);
}

struct upstream *upstream_new(struct worker *w, const struct tls_trust *trust,
			      const struct site *site, stream_wake_fn *wake, void *arg)
{
	struct upstream *u = calloc(1, sizeof(*u));

	if (u)
		u->grant = kept_grant_new(w->base);
	if (!u || !u->grant) {
		free(u);
		return NULL;
	}
	u->w = w;
	u->trust = trust;
	u->site = *site;
	u->wake = wake;
	u->arg = arg;
	u->dial = ask_dial(w, site->name, site->literal, site->port, on_dialed, u);
	return u;
}

void upstream_free(struct upstream *u)
{
	if (!u)
		return;
	if (u->dial)
		ask_cancel(u->w, u->dial);
	if (u->ticket)
		hang_up(u->w, u->ticket);
	stream_free(u->stream);
	http1_free(u->parser);
	kept_grant_free(u->grant);
	free(u);
}

bool upstream_failed(struct upstream *u)
{
	if (!u->failed && u->stream && stream_failed(u->stream))
		fail(u, stream_reasons[stream_trouble(u->stream)], str_of(stream_why(u->stream)));
	return u->failed;
}

bool upstream_ready(struct upstream *u)
{
	if (upstream_failed(u) || !u->stream || stream_handshaking(u->stream))
		return false;
	if (u->deadline) {
		u->deadline = 0;
		u->ms_tls = (uint32_t)(clock_ms() - u->tls_began);
		tls_trust_fingerprint(stream_ssl(u->stream), u->cert);
	}
	return true;
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
