/* Theory of operation
 *
 * The first byte says which protocol is spoken: 5 is SOCKS5's, a token's is a method's, and what is
 * neither is refused in its own words where it has any (an alert, SOCKS4's reply). All three ways
 * end in aim(), the one place where what a client has asked for becomes the connection's site: a
 * name in its canonical form, or an address, which stands for a name where DNS has given it out.
 *
 *   SOCKS5, CONNECT   aim(), judged with name and port alone. Allowed, or not decided yet: the
 *                     protocol's yes, and CS_HELLO. What comes next is looked at as on any
 *                     connection, SNI and Host have to be the name, and nothing has been dialled.
 *   whole URLs        CS_HTTP. The exchange calls explicit_aim() with each request, before it
 *                     checks and judges it; the site is that request's.
 *
 * A client that uses a proxy for everything uses it for http://exeat.internal/, too. That page is
 * the worker's own: the stream is handed to it with what has not been read yet. So that a
 * connection never goes back and forth, the page closes it after its answer. Everything else at the
 * gateway is a loop, and refused.
 */
#include "proxy/explicit.h"

#include <stdio.h>

#include "proxy/answer.h"
#include "proxy/connection.h"
#include "proxy/notice.h"
#include "proxy/socks5.h"
#include "sandbox/wire.h"

#define TLS_HANDSHAKE_RECORD 0x16
#define WHY_MAX 96
#define HOST_SHOWN_MAX 40u
#define NO_REFUSAL REFUSAL_COUNT

const char *explicit_via_name(enum explicit_via via)
{
	static const char *const names[] = {
		[VIA_NOTHING] = "", [VIA_CONNECT] = "connect", [VIA_ABSOLUTE] = "absolute",
		[VIA_SOCKS5] = "socks5",
	};

	return names[via];
}

/* ---- where to ---- */

/* What stands between brackets is an IPv6 address, as name_canon() has seen. */
static bool parse_literal(struct str host, struct addr *out)
{
	if (host.n > 2 && host.p[0] == '[')
		host = str_n(host.p + 1, host.n - 2);
	return addr_parse(host, out);
}

static bool is_own(const struct worker *w, struct str host)
{
	struct name name;
	struct addr a;

	switch (name_canon(host, &name)) {
	case NAME_OK:
		return str_eq(name_str(&name), STR(NOTICE_NAME));
	case NAME_LITERAL:
		return parse_literal(host, &a) && worker_is_gateway(w, &a);
	case NAME_EMPTY:
	case NAME_LONG:
	case NAME_LABEL:
	case NAME_BYTE:
	case NAME_NUMERIC:
	case NAME_UNICODE:
	case NAME_PORT:
		break;
	}
	return false;
}

/* The connection is about this from now on. NO_REFUSAL, or why it cannot be. */
static enum refusal_reason aim(struct connection *c, struct str host, uint16_t port,
			       const char **why)
{
	enum name_result r = name_canon(host, &c->name);

	c->env.site = (struct site){ .port = port };
	c->destination = (struct addr){ 0 };
	c->refusal_address = c->env.refusal_address = false;
	if (r == NAME_OK) {
		c->env.site.name = name_str(&c->name);
		return NO_REFUSAL;
	}
	if (r != NAME_LITERAL || !parse_literal(host, &c->destination)) {
		*why = name_result_text(r);
		return REFUSAL_bad_host;
	}
	if (connection_look_up(c))
		return NO_REFUSAL;
	*why = "no name stands for this address";
	return REFUSAL_policy;
}

/* @authority: "host:port"; @port: where it has none, 0: it must have one. */
static enum refusal_reason aim_authority(struct connection *c, struct str authority, uint16_t port,
					 const char **why)
{
	struct str host;
	uint16_t given;
	enum name_result r = name_split_authority(authority, &host, &given);

	if (r == NAME_OK && given == 0 && port == 0)
		r = NAME_PORT;
	if (r == NAME_OK)
		return aim(c, host, given ? given : port, why);
	*why = name_result_text(r);
	return r == NAME_PORT ? REFUSAL_bad_request : REFUSAL_bad_host;
}

/* ---- the gateway's own page ---- */

static bool has_page(const struct connection *c)
{
	return c->w->notice && notice_has_room(c->w->notice);
}

/* Where it has carried nothing else, it is on record as the page's requests alone. */
static void give_to_notice(struct connection *c)
{
	struct stream *stream = c->stream;

	c->bytes_up = stream_bytes_in(stream);
	c->bytes_down = stream_bytes_out(stream);
	c->stream = NULL;
	c->close_recorded = !c->open_recorded;
	connection_close(c, "handed to the gateway's own page");
	notice_take_stream(c->w->notice, stream);
}

enum page { PAGE_ELSEWHERE, PAGE_OWN, PAGE_NOT_KNOWN };

static size_t line_end(struct str in)
{
	size_t cr = str_find(in, '\r'), lf = str_find(in, '\n');

	return cr < lf ? cr : lf;
}

/* Whose is the request whose first line stands here? */
static enum page find_page(const struct connection *c)
{
	struct str in = stream_in(c->stream), line = str_n(in.p, line_end(in)), method, host;
	struct http1_target t;
	uint16_t port;

	if (line.n == in.n)
		return in.n < HTTP1_LINE_MAX ? PAGE_NOT_KNOWN : PAGE_ELSEWHERE;
	method = str_cut(&line, ' ');
	t = http1_split_target(method, str_cut(&line, ' '));
	if (t.form != TARGET_ABSOLUTE || !str_eq_nocase(t.scheme, STR("http")) ||
	    name_split_authority(t.authority, &host, &port) != NAME_OK ||
	    (port != 0 && port != WIRE_NOTICE_PORT))
		return PAGE_ELSEWHERE;
	return is_own(c->w, host) ? PAGE_OWN : PAGE_ELSEWHERE;
}

bool explicit_is_notice(struct connection *c)
{
	if (c->via != VIA_ABSOLUTE || stream_in(c->stream).n == 0 || find_page(c) != PAGE_OWN ||
	    !has_page(c))
		return false;
	give_to_notice(c);
	return true;
}

/* ---- refusing ---- */

static void put_socks_refusal(struct connection *c)
{
	uint8_t reply[SOCKS5_REPLY_LEN];
	enum socks5_reply code = SOCKS5_FAILURE;

	if (!c->greeted) {
		socks5_put_method(SOCKS5_NO_METHOD, reply);
		buf_put(stream_out(c->stream), reply, SOCKS5_METHOD_LEN);
		return;
	}
	if (c->refusal.reason == REFUSAL_policy || c->refusal.reason == REFUSAL_proxy_loop)
		code = SOCKS5_NOT_ALLOWED;
	else if (c->refusal.reason == REFUSAL_socks_unsupported)
		code = c->bad_address_type ? SOCKS5_NO_ADDRESS_TYPE : SOCKS5_NO_COMMAND;
	socks5_put_reply(code, reply);
	buf_put(stream_out(c->stream), reply, sizeof(reply));
}

static void put_socks4_refusal(struct connection *c)
{
	uint8_t reply[SOCKS4_REPLY_LEN];

	socks4_put_reply(reply);
	buf_put(stream_out(c->stream), reply, sizeof(reply));
}

/* c->ended is the reason's name, then its text. */
static struct str why_of(const struct connection *c)
{
	size_t name = strlen(refusal_name(c->refusal.reason));
	struct str text = str_of(c->ended);

	return text.n > name + 2 ? str_from(text, name + 2) : STR_NONE;
}

static bool put_http_refusal(struct connection *c)
{
	struct refusal r = c->refusal;
	struct answer_parts parts;
	bool made;

	r.host = c->env.site.name;
	r.why = why_of(c);
	if (c->via == VIA_CONNECT)
		r.method = STR("CONNECT");
	if (c->decided && r.reason == REFUSAL_policy) {
		r.rule = policy_rule(c->policy, c->decision.rule).id;
		r.why = policy_rule(c->policy, c->decision.rule).reason;
	}
	made = answer_make(&r, &parts);
	fields_add(&parts.fields, STR("connection"), STR("close"));
	if (made && !fields_failed(&parts.fields)) {
		http1_write_response(stream_out(c->stream), refusal_status(r.reason),
				     buf_str(&parts.phrase), &parts.fields);
		buf_put_str(stream_out(c->stream), buf_str(&parts.body));
	}
	answer_free(&parts);
	return made;
}

bool explicit_put_refusal(struct connection *c)
{
	struct str in = stream_in(c->stream);

	switch (c->via) {
	case VIA_CONNECT:
	case VIA_ABSOLUTE:
		return put_http_refusal(c);
	case VIA_SOCKS5:
		put_socks_refusal(c);
		return true;
	case VIA_NOTHING:
		break;
	}
	if (in.n == 0 || in.p[0] != SOCKS4_VERSION)
		return false;
	put_socks4_refusal(c);
	return true;
}

/* With what was asked for, which the record would not have otherwise. */
static void refuse_host(struct connection *c, enum refusal_reason reason, struct str asked,
			const char *why)
{
	char text[WHY_MAX];

	snprintf(text, sizeof(text), "%.*s: %s",
		 (int)(asked.n < HOST_SHOWN_MAX ? asked.n : HOST_SHOWN_MAX), asked.p, why);
	connection_refuse(c, reason, reason == REFUSAL_policy ? why : text);
}

/* ---- a connection is asked for ---- */

static void say_yes(struct connection *c)
{
	struct buf *out = stream_out(c->stream);
	uint8_t reply[SOCKS5_REPLY_LEN];
	struct fields none;

	if (c->via == VIA_SOCKS5) {
		socks5_put_reply(SOCKS5_SUCCEEDED, reply);
		buf_put(out, reply, sizeof(reply));
		return;
	}
	fields_init(&none, 1);
	http1_write_response(out, 200, STR("Connection established"), &none);
	fields_free(&none);
}

static void admit_to_gateway(struct connection *c)
{
	if (c->env.site.port != WIRE_NOTICE_PORT) {
		connection_refuse(c, REFUSAL_proxy_loop, "");
	} else if (!has_page(c)) {
		connection_refuse(c, REFUSAL_too_many_connections, "");
	} else {
		say_yes(c);
		give_to_notice(c);
	}
}

/* Where to is known. */
static void admit(struct connection *c)
{
	if (is_own(c->w, c->env.site.name)) {
		admit_to_gateway(c);
		return;
	}
	/* On the address of refused names only the next bytes say which name is meant. */
	if (c->env.site.name.n)
		connection_decide(c);
	if (c->decided && c->decision.verdict == VERDICT_DENY) {
		connection_refuse(c, REFUSAL_policy, "");
		return;
	}
	say_yes(c);
	connection_step(c, CE_KNOWN);
}

/* ---- CONNECT ---- */

/* Host must be what is asked for (RFC 9110 7.2). Some clients name the proxy there (node's undici):
 * no harm, since nobody else reads this head. */
static bool same_host(const struct connection *c, const struct fields *fields)
{
	struct str value, host;
	struct name name;
	struct addr a;
	uint16_t port;

	if (!fields_get(fields, STR("host"), &value))
		return true;
	if (name_split_authority(value, &host, &port) != NAME_OK)
		return false;
	if (is_own(c->w, host))
		return true;
	if (port != 0 && port != c->env.site.port)
		return false;
	if (c->destination.family)
		return addr_parse(host, &a) && addr_eq(&a, &c->destination);
	return name_canon(host, &name) == NAME_OK && str_eq(name_str(&name), c->env.site.name);
}

static void take_connect(struct connection *c, const struct http1_head *h)
{
	struct http1_target t = http1_split_target(h->method, h->target);
	enum refusal_reason r;
	const char *why = "";

	if (t.form != TARGET_AUTHORITY) {
		connection_refuse(c, REFUSAL_bad_request, "malformed request target");
		return;
	}
	r = aim_authority(c, t.authority, 0, &why);
	if (r != NO_REFUSAL)
		refuse_host(c, r, t.authority, why);
	else if (h->framing == H1_CHUNKED || (h->framing == H1_LENGTH && h->length))
		connection_refuse(c, REFUSAL_bad_request, "CONNECT has no content");
	else if (!same_host(c, h->fields))
		connection_refuse(c, REFUSAL_host_mismatch, "Host is not what CONNECT asks for");
	else
		admit(c);
}

static void look_connect(struct connection *c)
{
	struct str in = stream_in(c->stream);
	size_t had = in.n;
	enum http1_event e = had ? http1_read(c->head, &in) : H1_MORE;

	stream_take(c->stream, had - in.n);
	if (e == H1_HEAD)
		take_connect(c, http1_head(c->head));
	else if (e != H1_MORE)
		connection_refuse(c, h1_box_refusal(c->head), http1_error(c->head));
}

/* ---- SOCKS5 ---- */

static void take_socks(struct connection *c, const struct socks5_request *r)
{
	char text[ADDR_TEXT_MAX];
	struct str host = r->addr.family ? str_of(addr_format(&r->addr, text))
					 : str_n(r->name, r->name_n);
	const char *why = "";
	enum refusal_reason refused = aim(c, host, r->port, &why);

	if (refused != NO_REFUSAL)
		refuse_host(c, refused, host, why);
	else if (r->command != SOCKS5_CONNECT)
		connection_refuse(c, REFUSAL_socks_unsupported, "another command than CONNECT");
	else if (r->port == 0)
		connection_refuse(c, REFUSAL_bad_request, name_result_text(NAME_PORT));
	else
		admit(c);
}

static void look_socks_request(struct connection *c)
{
	struct socks5_request r;
	size_t n;

	switch (socks5_request(stream_in(c->stream), &r, &n)) {
	case SOCKS5_MORE:
		return;
	case SOCKS5_DONE:
		stream_take(c->stream, n);
		take_socks(c, &r);
		return;
	case SOCKS5_BAD_ADDRESS:
		c->bad_address_type = true;
		connection_refuse(c, REFUSAL_socks_unsupported, "an unknown type of address");
		return;
	case SOCKS5_BAD:
		break;
	}
	connection_refuse(c, REFUSAL_bad_request, "malformed SOCKS request");
}

static void look_socks(struct connection *c)
{
	uint8_t method[SOCKS5_METHOD_LEN];
	bool no_auth;
	size_t n;

	if (c->greeted) {
		look_socks_request(c);
		return;
	}
	switch (socks5_greeting(stream_in(c->stream), &no_auth, &n)) {
	case SOCKS5_MORE:
		return;
	case SOCKS5_DONE:
		stream_take(c->stream, n);
		break;
	case SOCKS5_BAD:
	case SOCKS5_BAD_ADDRESS:
		connection_refuse(c, REFUSAL_bad_request, "malformed SOCKS greeting");
		return;
	}
	if (!no_auth) {
		connection_refuse(c, REFUSAL_socks_unsupported, "authentication");
		return;
	}
	socks5_put_method(SOCKS5_NO_AUTHENTICATION, method);
	buf_put(stream_out(c->stream), method, sizeof(method));
	c->greeted = true;
	look_socks_request(c);
}

/* ---- whole URLs ---- */

enum refusal_reason explicit_aim(void *connection, const struct request *r, const char **why)
{
	struct connection *c = connection;
	struct http1_target t = http1_split_target(r->method, r->target);
	bool https = str_eq_nocase(t.scheme, STR("https"));
	enum refusal_reason refused;

	c->env.site = (struct site){ 0 };
	if (str_eq(r->method, STR("CONNECT")))
		return NO_REFUSAL;	/* after another request: as on any connection */
	if (t.form != TARGET_ABSOLUTE || (!https && !str_eq_nocase(t.scheme, STR("http")))) {
		*why = "a proxy is asked with a whole URL, of http or https";
		return REFUSAL_bad_request;
	}
	refused = aim_authority(c, t.authority, https ? 443 : 80, why);
	/* Of this request, not of the connection. */
	c->refusal_address = false;
	c->destination = (struct addr){ 0 };
	c->env.site.proto = https ? PROTO_HTTPS : PROTO_HTTP;
	if (refused == NO_REFUSAL && is_own(c->w, c->env.site.name)) {
		*why = "only its own page, at port 80, is served";
		return REFUSAL_proxy_loop;
	}
	return refused;
}

static void look_absolute(struct connection *c)
{
	if (find_page(c) == PAGE_NOT_KNOWN || explicit_is_notice(c))
		return;
	if (!connection_record_open(c)) {
		c->waits_for_room = true;
		return;
	}
	c->env.aim = explicit_aim;
	connection_step(c, CE_PLAIN);
}

/* ---- the first bytes ---- */

/* Nothing that is spoken here. */
static void refuse_protocol(struct connection *c, char first)
{
	if (first == TLS_HANDSHAKE_RECORD)
		c->env.site.proto = PROTO_HTTPS;	/* it is refused by an alert */
	connection_refuse(c, first == SOCKS4_VERSION ? REFUSAL_socks_unsupported : REFUSAL_not_http,
			  "");
}

static void choose_way(struct connection *c, struct str in)
{
	const struct str connect = STR("CONNECT ");
	size_t n = in.n < connect.n ? in.n : connect.n;

	if (in.p[0] == SOCKS5_VERSION) {
		c->via = VIA_SOCKS5;
	} else if (in.p[0] != '\r' && !http_is_token(str_n(in.p, 1))) {
		refuse_protocol(c, in.p[0]);
	} else if (!str_eq(str_n(in.p, n), str_n(connect.p, n))) {
		c->via = VIA_ABSOLUTE;
	} else if (n == connect.n) {
		c->via = VIA_CONNECT;
		c->head = http1_new(false, c->w->max_headers);
		if (!c->head)
			connection_close(c, "out of memory");
	}
}

static void (*const ways[])(struct connection *) = {
	[VIA_CONNECT] = look_connect, [VIA_ABSOLUTE] = look_absolute, [VIA_SOCKS5] = look_socks,
};

void explicit_look(struct connection *c)
{
	struct str in = stream_in(c->stream);
	bool clean;

	if (c->via == VIA_NOTHING && in.n)
		choose_way(c, in);
	if (c->state == CS_EXPLICIT && c->via != VIA_NOTHING)
		ways[c->via](c);
	if (c->state == CS_EXPLICIT && !c->waits_for_room &&
	    (stream_failed(c->stream) || stream_ended(c->stream, &clean)))
		connection_close(c, "closed before it said where to");
}
