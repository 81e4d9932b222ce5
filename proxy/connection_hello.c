/* Theory of operation
 *
 * What a connection is about is known from its destination: a synthetic address stands for the name
 * that was resolved, the refusal address for a name that was refused, any other is an address that
 * a rule admits. Where a rule admits raw TCP to it, that is all there is to know (it is
 * connection_tunnel.c's). Else the first byte says whether the box speaks TLS or HTTP; the port
 * says nothing.
 *
 * All of the hello that can be refused is refused here, before there is TLS state, by an alert made
 * by hand: no or another server name, a protocol that is not spoken, a name that no request could
 * be allowed for.
 */
#include <stdio.h>

#include "proxy/connection.h"
#include "proxy/connections.h"

/* ---- the destination ---- */

static void set_name(struct connection *c, const struct name *name)
{
	c->name = *name;
	c->env.site.name = name_str(&c->name);
}

bool connection_look_up(struct connection *c)
{
	struct str leased;
	struct name name;

	if (c->destination.family == 4 && addr_to_v4(&c->destination) == c->w->refusal_address) {
		c->refusal_address = c->env.refusal_address = true;
		return policy_explains(c->policy);
	}
	if (addr_in_range(&c->destination, &c->w->pool)) {
		if (!lease_name(c->w->leases, addr_to_v4(&c->destination), &leased) ||
		    name_canon(leased, &name) != NAME_OK)
			return false;
		set_name(c, &name);
		return true;
	}
	addr_format(&c->destination, c->literal);
	c->env.site.literal = true;
	c->env.site.name = str_of(c->literal);
	c->env.literal = c->destination;
	return true;
}

/* ---- refusing ---- */

/* False: there are none that it would understand. */
static bool put_last_words(struct connection *c)
{
	uint8_t alert[HELLO_ALERT_LEN];

	if (c->state == CS_EXPLICIT && explicit_put_refusal(c))
		return true;
	if (c->env.site.proto != PROTO_HTTPS || !connection_edge(c->state, CE_REFUSED))
		return false;
	hello_alert(refusal_alert(c->refusal.reason), alert);
	buf_put(stream_out(c->stream), alert, sizeof(alert));
	return true;
}

void connection_refuse(struct connection *c, enum refusal_reason reason, const char *why)
{
	c->refused = true;
	c->refusal.reason = reason;
	refusal_id(&c->refusal);
	snprintf(c->ended, sizeof(c->ended), "%s%s%s", refusal_name(reason), why[0] ? ": " : "", why);
	if (put_last_words(c)) {
		connection_step(c, CE_REFUSED);
		return;
	}
	stream_abort(c->stream);
	connection_step(c, CE_FAIL);
}

/* ---- TLS ---- */

struct facts connection_facts(const struct connection *c)
{
	struct facts f = { .literal = c->env.site.literal, .port = c->env.site.port,
			   .proto = c->env.site.proto };

	if (f.literal)
		f.addr = c->destination;
	else
		f.host = c->env.site.name;
	return f;
}

void connection_decide(struct connection *c)
{
	struct facts f = connection_facts(c);

	c->decision = policy_decide(c->policy, &f);
	c->decided = true;
}

/* Is the server name the one that was resolved? On the refusal address it is the one to refuse. */
static bool check_sni(struct connection *c)
{
	struct str sni = str_n(c->hello.sni, c->hello.sni_n);
	struct name name;
	enum name_result r;

	if (c->hello.sni_bad) {
		connection_refuse(c, REFUSAL_bad_hello, "malformed server name");
		return false;
	}
	if (!c->hello.has_sni) {
		if (!c->env.site.literal)
			connection_refuse(c, REFUSAL_no_sni, "");
		return c->env.site.literal;
	}
	r = name_canon(sni, &name);
	if (c->refusal_address && r == NAME_OK)
		set_name(c, &name);
	if (r == NAME_OK && !c->env.site.literal && str_eq(name_str(&name), c->env.site.name))
		return true;
	connection_refuse(c, REFUSAL_sni_mismatch, r != NAME_OK ? name_result_text(r)
						   : c->env.site.literal ? "literal address, no rule" : "");
	return false;
}

static void judge_hello(struct connection *c)
{
	if (!check_sni(c))
		return;
	connection_decide(c);
	if (connection_passes_through(c)) {
		connection_step(c, CE_UNOPENED);
		return;
	}
	if (!tls_trust_speaks(connections_trust(c->all),
			      str_n((const char *)c->hello.alpn, c->hello.alpn_n))) {
		connection_refuse(c, REFUSAL_no_alpn, "");
		return;
	}
	if (c->decision.verdict == VERDICT_DENY && !c->refusal_address) {
		connection_refuse(c, REFUSAL_policy, "");
		return;
	}
	if (!connection_record_open(c)) {
		c->waits_for_room = true;
		return;
	}
	/* A log that cannot be written is told at the request, in words. */
	connection_step(c, CE_TLS);
}

static void look_tls(struct connection *c)
{
	bool clean;

	c->env.site.proto = PROTO_HTTPS;
	switch (hello_parse(stream_in(c->stream), &c->hello)) {
	case HELLO_MORE:
		if (stream_ended(c->stream, &clean) || stream_failed(c->stream))
			connection_close(c, "closed inside the hello");
		return;
	case HELLO_DONE:
		judge_hello(c);
		return;
	case HELLO_TOO_LONG:
		connection_refuse(c, REFUSAL_hello_too_long, "");
		return;
	case HELLO_NOT_TLS:
	case HELLO_BAD:
		connection_refuse(c, REFUSAL_bad_hello, "");
		return;
	}
}

/* ---- HTTP, or neither ---- */

#define H2_PREFACE STR("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")

static void look_plain(struct connection *c, struct str in)
{
	const struct str preface = H2_PREFACE;
	bool h2 = str_starts(in, preface), clean;
	char first = in.p[0];
	struct facts f;

	/* A part of it may be part of a request, too. */
	if (in.n < preface.n && str_starts(preface, in) &&
	    !stream_ended(c->stream, &clean) && !stream_failed(c->stream))
		return;

	c->env.site.proto = PROTO_HTTP;
	if (c->env.site.name.n)
		connection_decide(c);
	/* An empty line may stand before a request (RFC 9112 2.2); else it begins with a method. */
	if (first != '\r' && !http_is_token(str_n(&first, 1))) {
		f = connection_facts(c);
		f.proto = PROTO_HTTPS;
		connection_refuse(c,
				  policy_decide(c->policy, &f).verdict == VERDICT_DENY
					  ? REFUSAL_not_http
					  : REFUSAL_not_tls,
				  "");
		return;
	}
	/* A policy's no is told at the request, in words; so is a log that cannot be written. */
	if (!connection_record_open(c))
		c->waits_for_room = true;
	else
		connection_step(c, h2 ? CE_H2 : CE_PLAIN);
}

#define TLS_HANDSHAKE_RECORD 0x16

void connection_look_hello(struct connection *c)
{
	struct str in = stream_in(c->stream);
	bool clean;

	if (connection_is_raw(c))
		connection_judge_raw(c);
	else if (in.n && in.p[0] == TLS_HANDSHAKE_RECORD)
		look_tls(c);
	else if (in.n)
		look_plain(c, in);
	else if (stream_ended(c->stream, &clean) || stream_failed(c->stream))
		connection_close(c, "closed before the first byte");
}
