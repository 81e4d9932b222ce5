/* The explicit proxy through the whole engine: three ways in, what is refused and how, what becomes
 * of a connection that was asked for. */
#include "proxy/notice.h"
#include "tests/unit/proxy/engine_rig.h"

#define GATEWAY 0x7f00004du	/* 127.0.0.77 */
#define HI "\r\n\r\nhi"

static void proxy_open(struct rig *r)
{
	rig_open(r);
	r->w.gateway = GATEWAY;
	r->w.proxy_port = r->port;
}

static void proxy_close(struct rig *r, struct peer *c)
{
	peer_close(c);
	rig_close(r);
}

static void client(struct rig *r, struct peer *c)
{
	peer_open(c, r, connect_to(r, GATEWAY), NULL, NULL, false);
}

static void send_bytes(struct peer *c, const void *p, size_t n)
{
	buf_put(stream_out(c->stream), p, n);
	stream_settle(c->stream);
}

/* In the text: "PORT" stands for the rig's port. */
static void ask(struct rig *r, struct peer *c, const char *text)
{
	char port[8];
	const char *at;

	snprintf(port, sizeof(port), "%u", r->port);
	while ((at = strstr(text, "PORT"))) {
		buf_put(stream_out(c->stream), text, (size_t)(at - text));
		buf_put_str(stream_out(c->stream), str_of(port));
		text = at + 4;
	}
	peer_send(c, text);
}

static void try(struct rig *r, struct peer *c, const char *text, const char *until)
{
	client(r, c);
	ask(r, c, text);
	rig_until(r, peer_has(c, until));
}

/* From here on the client speaks TLS on the same connection. */
static void start_tls(struct rig *r, struct peer *c, const char *sni)
{
	SSL *ssl = SSL_new(r->client_ctx);
	BIO *bio = tls_io_new(stream_fd(c->stream), STR_NONE);

	SSL_set_bio(ssl, bio, bio);
	SSL_set_connect_state(ssl);
	SSL_set_tlsext_host_name(ssl, sni);
	assert_int_equal(SSL_set1_host(ssl, sni), 1);
	c->got.n = 0;
	stream_start_tls(c->stream, ssl);
	stream_settle(c->stream);
}

#define SOCKS_GREETING "\5\1\0"
#define SOCKS_YES "\5\0\0\1\0\0\0\0\0\0"

static void socks_name(struct peer *c, uint8_t command, const char *name, uint16_t port)
{
	struct buf *out = stream_out(c->stream);

	buf_put(out, SOCKS_GREETING, 3);
	buf_put_c(out, 5);
	buf_put_c(out, (char)command);
	buf_put_c(out, 0);
	buf_put_c(out, 3);
	buf_put_c(out, (char)strlen(name));
	buf_put_str(out, str_of(name));
	buf_put_c(out, (char)(port >> 8));
	buf_put_c(out, (char)port);
	stream_settle(c->stream);
}

static void socks_v4(struct peer *c, uint32_t address, uint16_t port)
{
	const uint8_t bytes[] = { 5, 1, 0, 5, 1, 0, 1, (uint8_t)(address >> 24),
				  (uint8_t)(address >> 16), (uint8_t)(address >> 8),
				  (uint8_t)address, (uint8_t)(port >> 8), (uint8_t)port };

	send_bytes(c, bytes, sizeof(bytes));
}

/* The method's answer, then this reply. */
static void expect_socks(struct rig *r, struct peer *c, uint8_t code)
{
	rig_until(r, c->got.n >= 12);
	assert_memory_equal(c->got.p, "\5\0\5", 3);
	assert_int_equal((uint8_t)c->got.p[3], code);
	assert_int_equal(c->got.n, 12);
}

/* ---- what goes through ---- */

static void connect_becomes_an_ordinary_connection(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	proxy_open(&r);
	r.origin_tls = true;
	try(&r, &c, "CONNECT api.test:PORT HTTP/1.1\r\nHost: api.test:PORT\r\n\r\n", "\r\n\r\n");
	assert_true(peer_has(&c, "HTTP/1.1 200 Connection established\r\n\r\n"));
	assert_int_equal(r.dials, 0);
	start_tls(&r, &c, "api.test");
	peer_send(&c, "GET /x HTTP/1.1\r\nHost: api.test\r\n\r\n");
	rig_until(&r, peer_has(&c, HI));
	assert_int_equal(r.dials, 1);
	assert_true(peer_has(&r.origin[0], "GET /x HTTP/1.1\r\n"));
	assert_true(log_has(&r, "\"phase\":\"open\",\"connection\":1,\"via\":\"connect\",\"destination\":\"api.test\""));
	assert_true(log_has(&r, "\"rule\":\"api\""));
	assert_false(log_has(&r, "\"synthetic\""));
	proxy_close(&r, &c);
}

static void a_credential_is_put_on_inside_a_connection_that_was_asked_for(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	proxy_open(&r);
	r.origin_tls = true;
	origin_certificate(&r, "secret.test");
	try(&r, &c, "CONNECT SECRET.test.:PORT HTTP/1.1\r\nHost: secret.test\r\n\r\n", "\r\n\r\n");
	start_tls(&r, &c, "secret.test");
	peer_send(&c, "GET / HTTP/1.1\r\nHost: secret.test\r\n\r\n");
	rig_until(&r, peer_has(&c, HI));
	assert_true(peer_has(&r.origin[0], "authorization: Bearer " SECRET));
	proxy_close(&r, &c);
}

static void plain_http_goes_through_connect_too(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	proxy_open(&r);
	try(&r, &c, "CONNECT web.test:PORT HTTP/1.1\r\nHost: web.test\r\n\r\nGET /a HTTP/1.1\r\nHost: web.test\r\n\r\n", HI);
	assert_true(peer_has(&c, "established\r\n\r\nHTTP/1.1 200 OK"));
	assert_true(peer_has(&r.origin[0], "GET /a HTTP/1.1\r\n"));
	proxy_close(&r, &c);
}

static void a_connect_of_http_1_0_needs_no_host(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	proxy_open(&r);
	try(&r, &c, "CONNECT web.test:PORT HTTP/1.0\r\n\r\n", "established\r\n\r\n");
	c.got.n = 0;
	peer_send(&c, "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n");
	rig_until(&r, peer_has(&c, HI));
	proxy_close(&r, &c);
}

static void a_connect_may_come_byte_by_byte(void **state)
{
	static const char head[] = "CONNECT web.test:PORT HTTP/1.1\r\nHost: web.test\r\n\r\n";
	char text[128];
	struct rig r;
	struct peer c;

	(void)state;
	proxy_open(&r);
	client(&r, &c);
	snprintf(text, sizeof(text), "CONNECT web.test:%u HTTP/1.1%s", r.port, strstr(head, "\r\n"));
	for (size_t i = 0; text[i]; i++) {
		send_bytes(&c, text + i, 1);
		event_base_loop(r.base, EVLOOP_NONBLOCK);
	}
	rig_until(&r, peer_has(&c, "established"));
	proxy_close(&r, &c);
}

static void whole_urls_are_judged_one_by_one(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	proxy_open(&r);
	try(&r, &c, "GET http://web.test:PORT/1 HTTP/1.1\r\nHost: web.test:PORT\r\nProxy-Connection: keep-alive\r\n"
	    "Proxy-Authorization: Basic bWluZQ==\r\n\r\n", HI);
	assert_true(peer_has(&r.origin[0], "GET /1 HTTP/1.1\r\n"));
	assert_false(peer_has(&r.origin[0], "roxy-"));
	c.got.n = 0;
	ask(&r, &c, "GET http://evil.test:PORT/2 HTTP/1.1\r\nHost: evil.test:PORT\r\n\r\n");
	rig_until(&r, peer_has(&c, "}\n"));
	assert_true(peer_has(&c, "HTTP/1.1 403 "));
	assert_true(peer_has(&c, "\"host\":\"evil.test\""));
	c.got.n = 0;
	ask(&r, &c, "GET http://paths.test:PORT/pub/3 HTTP/1.1\r\nHost: paths.test:PORT\r\n\r\n");
	rig_until(&r, peer_has(&c, HI));
	assert_int_equal(r.dials, 2);
	assert_true(peer_has(&r.origin[1], "GET /pub/3 HTTP/1.1\r\n"));
	c.got.n = 0;
	ask(&r, &c, "GET http://paths.test:PORT/private HTTP/1.1\r\nHost: paths.test:PORT\r\n\r\n");
	rig_until(&r, peer_has(&c, "}\n"));
	assert_true(peer_has(&c, "HTTP/1.1 403 "));
	assert_true(log_has(&r, "\"via\":\"absolute\""));
	assert_true(log_has(&r, "\"host\":\"evil.test\""));
	assert_true(log_has(&r, "\"host\":\"paths.test\",\"path\":\"/pub/3\""));
	proxy_close(&r, &c);
}

static void a_whole_url_of_https_is_spoken_to_over_tls(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	proxy_open(&r);
	r.origin_tls = true;
	try(&r, &c, "GET https://api.test:PORT/ HTTP/1.1\r\nHost: api.test:PORT\r\n\r\n", HI);
	assert_true(log_has(&r, "\"scheme\":\"https\",\"host\":\"api.test\""));
	c.got.n = 0;
	ask(&r, &c, "GET http://api.test:PORT/ HTTP/1.1\r\nHost: api.test:PORT\r\n\r\n");
	rig_until(&r, peer_has(&c, "HTTP/1.1 403 "));
	assert_int_equal(r.dials, 1);
	proxy_close(&r, &c);
}

static void socks5_takes_a_name(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	proxy_open(&r);
	r.origin_tls = true;
	client(&r, &c);
	socks_name(&c, 1, "Api.test", r.port);
	expect_socks(&r, &c, 0);
	start_tls(&r, &c, "api.test");
	peer_send(&c, "GET / HTTP/1.1\r\nHost: api.test\r\n\r\n");
	rig_until(&r, peer_has(&c, HI));
	assert_true(log_has(&r, "\"via\":\"socks5\",\"destination\":\"api.test\""));
	proxy_close(&r, &c);
}

static void socks5_takes_the_address_that_a_name_has_in_the_box(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	proxy_open(&r);
	client(&r, &c);
	socks_v4(&c, lease(&r, "web.test"), r.port);
	expect_socks(&r, &c, 0);
	c.got.n = 0;
	peer_send(&c, "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n");
	rig_until(&r, peer_has(&c, HI));
	assert_true(log_has(&r, "\"destination\":\"web.test\",\"synthetic\":"));
	proxy_close(&r, &c);
}

static void an_address_is_judged_as_an_address(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	proxy_open(&r);
	client(&r, &c);
	socks_v4(&c, 0x7f000009, r.port);
	expect_socks(&r, &c, 0);
	peer_send(&c, "GET / HTTP/1.1\r\nHost: 127.0.0.9\r\n\r\n");
	rig_until(&r, peer_has(&c, HI));
	peer_close(&c);
	client(&r, &c);
	socks_v4(&c, 0xcb007163, r.port);
	expect_socks(&r, &c, 2);
	peer_close(&c);
	client(&r, &c);
	socks_name(&c, 1, "127.0.0.9", r.port);
	expect_socks(&r, &c, 0);
	peer_close(&c);
	try(&r, &c, "CONNECT 127.0.0.9:PORT HTTP/1.1\r\nHost: 127.0.0.9:PORT\r\n\r\n", "established");
	peer_close(&c);
	try(&r, &c, "CONNECT [2001:db8::1]:PORT HTTP/1.1\r\nHost: [2001:db8::1]:PORT\r\n\r\n", "}\n");
	assert_true(peer_has(&c, "HTTP/1.1 403 "));
	assert_true(peer_has(&c, "\"host\":\"2001:db8::1\""));
	proxy_close(&r, &c);
}

/* ---- what is refused ---- */

static void a_refused_connect_gets_its_403_before_any_tunnel(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	proxy_open(&r);
	try(&r, &c, "CONNECT evil.test:PORT HTTP/1.1\r\nHost: evil.test:PORT\r\n\r\n"
	    "GET http://web.test/ HTTP/1.1\r\nHost: web.test\r\n\r\n", "}\n");
	rig_until(&r, c.ended);
	assert_true(c.clean);
	assert_true(peer_has(&c, "HTTP/1.1 403 Refused by policy"));
	assert_true(peer_has(&c, "proxy-status: exeat; error=http_request_denied"));
	assert_true(peer_has(&c, "connection: close"));
	assert_true(peer_has(&c, "\"rule\":\"default\",\"host\":\"evil.test\",\"method\":\"CONNECT\""));
	assert_false(peer_has(&c, "200 OK"));
	assert_int_equal(r.dials, 0);
	peer_close(&c);
	rig_until(&r, log_has(&r, "\"via\":\"connect\",\"destination\":\"evil.test\""));
	assert_true(log_has(&r, "\"verdict\":\"deny\",\"rule\":\"default\""));
	rig_close(&r);
}

static void a_port_that_no_rule_has_is_refused(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	proxy_open(&r);
	try(&r, &c, "CONNECT api.test:1 HTTP/1.1\r\nHost: api.test:1\r\n\r\n", "HTTP/1.1 403 ");
	proxy_close(&r, &c);
}

static void sni_and_host_must_be_what_was_asked_for(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	proxy_open(&r);
	try(&r, &c, "CONNECT api.test:PORT HTTP/1.1\r\nHost: api.test\r\n\r\n", "established");
	start_tls(&r, &c, "secret.test");
	rig_until(&r, stream_failed(c.stream));
	peer_close(&c);
	rig_until(&r, log_has(&r, "sni-mismatch"));
	try(&r, &c, "CONNECT web.test:PORT HTTP/1.1\r\nHost: web.test\r\n\r\nGET / HTTP/1.1\r\nHost: api.test\r\n\r\n",
	    "HTTP/1.1 421 ");
	peer_close(&c);
	try(&r, &c, "CONNECT web.test:PORT HTTP/1.1\r\nHost: api.test\r\n\r\n", "HTTP/1.1 421 ");
	peer_close(&c);
	try(&r, &c, "CONNECT web.test:PORT HTTP/1.1\r\nHost: web.test:1\r\n\r\n", "HTTP/1.1 421 ");
	peer_close(&c);
	try(&r, &c, "GET http://web.test:PORT/ HTTP/1.1\r\nHost: api.test\r\n\r\n", "HTTP/1.1 421 ");
	peer_close(&c);
	/* But for a client that names the proxy. */
	try(&r, &c, "CONNECT web.test:PORT HTTP/1.1\r\nHost: exeat.internal:3128\r\n\r\n", "established");
	assert_int_equal(r.dials, 0);
	proxy_close(&r, &c);
}

static void no_proxy_is_inside_a_tunnel(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	proxy_open(&r);
	try(&r, &c, "CONNECT web.test:PORT HTTP/1.1\r\nHost: web.test\r\n\r\nCONNECT web.test:PORT HTTP/1.1\r\nHost: web.test\r\n\r\n",
	    "method-refused");
	peer_close(&c);
	try(&r, &c, "GET http://web.test:PORT/ HTTP/1.1\r\nHost: web.test\r\n\r\n", HI);
	c.got.n = 0;
	ask(&r, &c, "CONNECT web.test:PORT HTTP/1.1\r\nHost: web.test\r\n\r\n");
	rig_until(&r, peer_has(&c, "method-refused"));
	proxy_close(&r, &c);
}

/* Each is answered with this status, and nobody is dialled. */
static void malformed_requests_are_told(void **state)
{
	static const struct { const char *request, *status; } cases[] = {
		{ "CONNECT web.test HTTP/1.1\r\nHost: web.test\r\n\r\n", "400" },
		{ "CONNECT web.test:0 HTTP/1.1\r\nHost: web.test\r\n\r\n", "400" },
		{ "CONNECT web.test:65536 HTTP/1.1\r\nHost: web.test\r\n\r\n", "400" },
		{ "CONNECT /x HTTP/1.1\r\nHost: web.test\r\n\r\n", "400" },
		{ "CONNECT http://web.test/ HTTP/1.1\r\nHost: web.test\r\n\r\n", "400" },
		{ "CONNECT me@web.test:PORT HTTP/1.1\r\nHost: web.test\r\n\r\n", "400" },
		{ "CONNECT 0x7f.1:PORT HTTP/1.1\r\nHost: 0x7f.1:PORT\r\n\r\n", "400" },
		{ "CONNECT 2852039166:PORT HTTP/1.1\r\nHost: 2852039166:PORT\r\n\r\n", "400" },
		{ "CONNECT [::1:PORT HTTP/1.1\r\nHost: web.test\r\n\r\n", "400" },
		{ "CONNECT web.test:PORT HTTP/1.1\r\n\r\n", "400" },
		{ "CONNECT web.test:PORT HTTP/1.1\r\nHost: web.test\r\nHost: web.test\r\n\r\n", "400" },
		{ "CONNECT web.test:PORT HTTP/1.1\r\nHost: web.test\r\nContent-Length: 3\r\n\r\nabc", "400" },
		{ "CONNECT web.test:PORT HTTP/1.1\r\nHost: web.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400" },
		{ "CONNECT web.test:PORT HTTP/2.0\r\nHost: web.test\r\n\r\n", "505" },
		{ "CONNECT web.test:PORT\nHost: web.test\n\n", "400" },
		{ "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n", "400" },
		{ "OPTIONS * HTTP/1.1\r\nHost: web.test\r\n\r\n", "400" },
		{ "GET ftp://web.test/ HTTP/1.1\r\nHost: web.test\r\n\r\n", "400" },
		{ "GET http://0x7f.1:PORT/ HTTP/1.1\r\nHost: 0x7f.1\r\n\r\n", "400" },
		{ "GET http://127.1:PORT/ HTTP/1.1\r\nHost: 127.1\r\n\r\n", "400" },
		{ "GET http://:PORT/ HTTP/1.1\r\nHost: web.test\r\n\r\n", "400" },
		{ "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505" },
		{ "TRACE http://web.test:PORT/ HTTP/1.1\r\nHost: web.test\r\n\r\n", "403" },
	};
	struct rig r;
	struct peer c;

	(void)state;
	proxy_open(&r);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char line[16];

		snprintf(line, sizeof(line), "HTTP/1.1 %s ", cases[i].status);
		client(&r, &c);
		ask(&r, &c, cases[i].request);
		rig_until(&r, c.got.n && peer_has(&c, "}\n"));
		if (memcmp(c.got.p, line, strlen(line)) != 0)
			fail_msg("%s: %.40s", cases[i].request, c.got.p);
		peer_close(&c);
	}
	assert_int_equal(r.dials, 0);
	rig_close(&r);
}

static void a_head_over_the_limit_is_431(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	proxy_open(&r);
	client(&r, &c);
	ask(&r, &c, "CONNECT web.test:PORT HTTP/1.1\r\nHost: web.test\r\n");
	for (int i = 0; i < 70; i++) {
		char line[1100];

		snprintf(line, sizeof(line), "x-%d: %01000d\r\n", i, 0);
		peer_send(&c, line);
	}
	rig_until(&r, peer_has(&c, "HTTP/1.1 431 "));
	proxy_close(&r, &c);
}

static void socks5_refuses_in_its_own_words(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	proxy_open(&r);
	client(&r, &c);
	socks_name(&c, 1, "evil.test", r.port);
	expect_socks(&r, &c, 2);
	rig_until(&r, c.ended);
	assert_true(c.clean);
	peer_close(&c);
	client(&r, &c);
	socks_name(&c, 2, "web.test", r.port);
	expect_socks(&r, &c, 7);
	peer_close(&c);
	client(&r, &c);
	socks_name(&c, 3, "web.test", r.port);
	expect_socks(&r, &c, 7);
	peer_close(&c);
	client(&r, &c);
	socks_name(&c, 1, "0x7f.1", r.port);
	expect_socks(&r, &c, 1);
	peer_close(&c);
	client(&r, &c);
	socks_name(&c, 1, "web.test", 0);
	expect_socks(&r, &c, 1);
	peer_close(&c);
	client(&r, &c);
	send_bytes(&c, SOCKS_GREETING "\5\1\0\2\0\0\0\0\0\0", 13);
	expect_socks(&r, &c, 8);
	peer_close(&c);
	client(&r, &c);
	send_bytes(&c, "\5\1\2", 3);
	rig_until(&r, c.ended);
	assert_int_equal(c.got.n, 2);
	assert_memory_equal(c.got.p, "\5\377", 2);
	peer_close(&c);
	client(&r, &c);
	send_bytes(&c, "\4\1\1\273\313\0\161\12\0", 9);
	rig_until(&r, c.ended);
	assert_int_equal(c.got.n, 8);
	assert_memory_equal(c.got.p, "\0\133", 2);
	assert_int_equal(r.dials, 0);
	rig_until(&r, log_has(&r, "\"via\":\"socks5\",\"destination\":\"evil.test\""));
	assert_true(log_has(&r, "socks-unsupported: another command than CONNECT"));
	proxy_close(&r, &c);
}

static void what_is_no_protocol_of_a_proxy_is_refused(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	proxy_open(&r);
	peer_open(&c, &r, connect_to(&r, GATEWAY), r.client_ctx, "api.test", false);
	rig_until(&r, stream_failed(c.stream));
	assert_int_equal(stream_trouble(c.stream), STREAM_ALERT);
	peer_close(&c);
	client(&r, &c);
	send_bytes(&c, "\0\1\2", 3);
	rig_until(&r, c.ended);
	assert_true(stream_failed(c.stream));
	assert_true(log_has(&r, "not-http"));
	proxy_close(&r, &c);
}

static void the_gateway_itself_is_a_loop(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	proxy_open(&r);
	try(&r, &c, "CONNECT 127.0.0.77:PORT HTTP/1.1\r\nHost: 127.0.0.77:PORT\r\n\r\n", "proxy-loop");
	assert_true(peer_has(&c, "HTTP/1.1 502 "));
	assert_true(peer_has(&c, "error=proxy_loop_detected"));
	peer_close(&c);
	try(&r, &c, "CONNECT exeat.internal:3128 HTTP/1.1\r\nHost: exeat.internal:3128\r\n\r\n", "proxy-loop");
	peer_close(&c);
	try(&r, &c, "GET http://EXEAT.internal:PORT/ HTTP/1.1\r\nHost: exeat.internal\r\n\r\n", "proxy-loop");
	peer_close(&c);
	client(&r, &c);
	socks_name(&c, 1, "exeat.internal", 443);
	expect_socks(&r, &c, 2);
	assert_int_equal(r.dials, 0);
	proxy_close(&r, &c);
}

static void a_refused_name_s_address_is_refused(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	proxy_open(&r);
	client(&r, &c);
	socks_v4(&c, r.w.refusal_address, r.port);
	expect_socks(&r, &c, 2);
	peer_close(&c);
	client(&r, &c);
	socks_v4(&c, 0x7f400000 + 77, r.port);	/* leased to nobody */
	expect_socks(&r, &c, 2);
	proxy_close(&r, &c);
}

/* ---- the gateway's own page ---- */

static void the_gateways_page_is_reached_by_every_way(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	proxy_open(&r);
	r.w.notice = notice_new(&r.w, STR_NONE);
	try(&r, &c, "GET http://exeat.internal/ HTTP/1.1\r\nHost: exeat.internal\r\n\r\n", "only way out");
	rig_until(&r, c.ended);
	assert_true(c.clean && peer_has(&c, "HTTP/1.1 200 OK"));
	peer_close(&c);
	try(&r, &c, "CONNECT exeat.internal:80 HTTP/1.1\r\nHost: exeat.internal\r\n\r\n", "established");
	peer_send(&c, "GET /policy HTTP/1.1\r\nHost: exeat.internal\r\n\r\n");
	rig_until(&r, c.ended);
	assert_true(c.clean && peer_has(&c, "HTTP/1.1 200 OK"));
	peer_close(&c);
	client(&r, &c);
	socks_v4(&c, GATEWAY, 80);
	expect_socks(&r, &c, 0);
	peer_send(&c, "GET / HTTP/1.1\r\nHost: exeat.internal\r\n\r\n");
	rig_until(&r, c.ended);
	assert_true(c.clean && peer_has(&c, "only way out"));
	peer_close(&c);
	/* After others on the same connection, too, which ends with it. */
	try(&r, &c, "GET http://web.test:PORT/ HTTP/1.1\r\nHost: web.test:PORT\r\n\r\n", HI);
	ask(&r, &c, "GET http://exeat.internal/ HTTP/1.1\r\nHost: exeat.internal\r\n\r\n");
	rig_until(&r, c.ended);
	assert_true(c.clean && peer_has(&c, "only way out"));
	assert_int_equal(r.dials, 1);
	peer_close(&c);
	rig_until(&r, connections_count(r.w.connections) == 0);
	connections_free(r.w.connections);
	notice_free(r.w.notice);
	r.w.connections = NULL;
	assert_true(log_has(&r, "\"host\":\"exeat.internal\""));
	rig_close(&r);
}

/* ---- limits, policy, ends ---- */

static void it_counts_as_a_connection_of_the_box(void **state)
{
	struct rig r;
	struct peer c, d;

	(void)state;
	proxy_open(&r);
	r.w.max_connections = 1;
	try(&r, &c, "CONNECT web.test:PORT HTTP/1.1\r\nHost: web.test\r\n\r\n", "established");
	client(&r, &d);
	rig_until(&r, d.ended);
	assert_true(stream_failed(d.stream));
	peer_close(&d);
	proxy_close(&r, &c);
}

static void a_new_policy_judges_what_was_asked_for(void **state)
{
	static const struct rig_rule fewer[] = { { .id = "api", .host = "api.test", .protos = PROTO_HTTPS, .foreign = -1 } };
	struct rig r;
	struct peer c, d;

	(void)state;
	proxy_open(&r);
	try(&r, &c, "CONNECT web.test:PORT HTTP/1.1\r\nHost: web.test\r\n\r\nGET / HTTP/1.1\r\nHost: web.test\r\n\r\n", HI);
	client(&r, &d);
	peer_send(&d, "CONN");
	rig_until(&r, connections_count(r.w.connections) == 2);
	rig_new_policy(&r, fewer, 1);
	rig_until(&r, c.ended);
	ask(&r, &d, "ECT web.test:PORT HTTP/1.1\r\nHost: web.test\r\n\r\n");
	rig_until(&r, peer_has(&d, "HTTP/1.1 403 "));
	peer_close(&d);
	proxy_close(&r, &c);
}

static void repeated_refusals_are_counted(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	proxy_open(&r);
	for (int i = 0; i < 5; i++) {
		try(&r, &c, "CONNECT evil.test:PORT HTTP/1.1\r\nHost: evil.test\r\n\r\n", "}\n");
		peer_close(&c);
	}
	rig_until(&r, log_has(&r, "\"count\":4"));
	assert_true(log_has(&r, "\"destination\":\"evil.test\",\"via\":\"connect\"") ||
		    log_has(&r, "\"via\":\"connect\",\"destination\":\"evil.test\""));
	rig_close(&r);
}

static void a_client_that_goes_leaves_nothing(void **state)
{
	static const char *const beginnings[] = { "", "\5\1", "CONNECT", "CONNECT web.test:1 HTTP/1.1\r\n", "GET http://web.test" };
	struct rig r;
	struct peer c;

	(void)state;
	proxy_open(&r);
	for (size_t i = 0; i < 5; i++) {
		client(&r, &c);
		peer_send(&c, beginnings[i]);
		event_base_loop(r.base, EVLOOP_NONBLOCK);
		peer_close(&c);
		client(&r, &c);
		peer_send(&c, beginnings[i]);
		event_base_loop(r.base, EVLOOP_NONBLOCK);
		peer_reset(&c);
	}
	rig_until(&r, log_has(&r, "closed before it said where to") && connections_count(r.w.connections) == 0);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connect_becomes_an_ordinary_connection),
		cmocka_unit_test(a_credential_is_put_on_inside_a_connection_that_was_asked_for),
		cmocka_unit_test(plain_http_goes_through_connect_too),
		cmocka_unit_test(a_connect_of_http_1_0_needs_no_host),
		cmocka_unit_test(a_connect_may_come_byte_by_byte),
		cmocka_unit_test(whole_urls_are_judged_one_by_one),
		cmocka_unit_test(a_whole_url_of_https_is_spoken_to_over_tls),
		cmocka_unit_test(socks5_takes_a_name),
		cmocka_unit_test(socks5_takes_the_address_that_a_name_has_in_the_box),
		cmocka_unit_test(an_address_is_judged_as_an_address),
		cmocka_unit_test(a_refused_connect_gets_its_403_before_any_tunnel),
		cmocka_unit_test(a_port_that_no_rule_has_is_refused),
		cmocka_unit_test(sni_and_host_must_be_what_was_asked_for),
		cmocka_unit_test(no_proxy_is_inside_a_tunnel),
		cmocka_unit_test(malformed_requests_are_told),
		cmocka_unit_test(a_head_over_the_limit_is_431),
		cmocka_unit_test(socks5_refuses_in_its_own_words),
		cmocka_unit_test(what_is_no_protocol_of_a_proxy_is_refused),
		cmocka_unit_test(the_gateway_itself_is_a_loop),
		cmocka_unit_test(a_refused_name_s_address_is_refused),
		cmocka_unit_test(the_gateways_page_is_reached_by_every_way),
		cmocka_unit_test(it_counts_as_a_connection_of_the_box),
		cmocka_unit_test(a_new_policy_judges_what_was_asked_for),
		cmocka_unit_test(repeated_refusals_are_counted),
		cmocka_unit_test(a_client_that_goes_leaves_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
