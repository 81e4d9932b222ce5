/* The engine with what it does not open: raw TCP, and TLS that is passed through. */
#include "tests/unit/proxy/engine_rig.h"

#include "proxy/refusal_list.h"

#define NEW_POLICY(r, rules) rig_new_policy(r, rules, sizeof(rules) / sizeof((rules)[0]))
#define OPEN_RIG(r, rules) rig_open_with(r, rules, sizeof(rules) / sizeof((rules)[0]), false)

#define RAW { .id = "raw", .host = "raw.test", .protos = PROTO_TCP, .foreign = -1 }
#define SEALED { .id = "sealed", .host = "api.test", .protos = PROTO_HTTPS, .passthrough = true, .foreign = -1 }

static const struct rig_rule rules[] = {
	RAW, SEALED,
	{ .id = "literal-raw", .address = "127.0.0.9/32", .protos = PROTO_TCP, .foreign = -1 },
	{ .id = "literal-sealed", .address = "127.0.0.8/32", .protos = PROTO_HTTPS, .passthrough = true, .foreign = -1 },
	{ .id = "web", .host = "web.test", .protos = PROTO_HTTP, .foreign = -1 },
};

static void open_rig(struct rig *r)
{
	OPEN_RIG(r, rules);
	r->script = NULL;
}

static void turns(struct rig *r)
{
	for (int i = 0; i < 20; i++)
		event_base_loop(r->base, EVLOOP_NONBLOCK);
}

static void greet(struct peer *p)
{
	if (!p->step++)
		buf_put_str(stream_out(p->stream), STR("220 ready\r\n"));
}

/* A client that verifies the origin's own certificate, as one that is pinned does. */
static SSL_CTX *pinned_context(struct rig *r)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());

	assert_int_equal(SSL_CTX_load_verify_locations(ctx, r->trust_path, NULL), 1);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	return ctx;
}

/* A client's hello as OpenSSL writes it. */
static void hello_for(const char *name, struct buf *out)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(ctx);
	BIO *mem = BIO_new(BIO_s_mem());
	char *p;

	SSL_set_bio(ssl, BIO_new(BIO_s_mem()), mem);
	SSL_set_connect_state(ssl);
	if (name)
		SSL_set_tlsext_host_name(ssl, name);
	assert_int_equal(SSL_do_handshake(ssl), -1);
	buf_init(out, 1 << 16);
	buf_put(out, p, (size_t)BIO_get_mem_data(mem, &p));
	SSL_free(ssl);
	SSL_CTX_free(ctx);
}

static void send_bytes(struct peer *p, const char *bytes, size_t n)
{
	buf_put(stream_out(p->stream), bytes, n);
	stream_settle(p->stream);
}

static void end(struct peer *p)
{
	stream_finish(p->stream);
	stream_settle(p->stream);
}

static bool is_reset(const struct peer *p)
{
	return stream_failed(p->stream) && stream_trouble(p->stream) == STREAM_RESET;
}

/* A fatal alert of this description, and nothing else. */
static bool is_alert(const struct peer *p, uint8_t description)
{
	return p->got.n == HELLO_ALERT_LEN && p->got.p[0] == 21 && (uint8_t)p->got.p[6] == description;
}

static void start_raw(struct rig *r, struct peer *c)
{
	size_t before = r->n_origins;

	client_plain(r, c, "raw.test");
	peer_send(c, "up");
	rig_until(r, r->n_origins > before && peer_has(&r->origin[before], "up"));
}

/* A hello for @sni to the address of api.test, over plain sockets on both sides. */
static void start_sealed(struct rig *r, struct peer *c, const char *sni)
{
	struct buf hello;

	hello_for(sni, &hello);
	client_plain(r, c, "api.test");
	send_bytes(c, hello.p, hello.n);
	buf_free(&hello);
}

/* ---- raw TCP ---- */

static void a_server_may_speak_first(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_rig(&r);
	r.script = greet;
	client_plain(&r, &c, "raw.test");
	rig_until(&r, peer_has(&c, "220 ready\r\n"));
	peer_send(&c, "EHLO box\r\n");
	rig_until(&r, peer_has(&r.origin[0], "EHLO box\r\n"));
	assert_int_equal(r.leafs + r.grants, 0);
	peer_close(&c);
	rig_close(&r);
}

static void each_side_ends_by_itself_and_the_record_says_how_it_went(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_rig(&r);
	start_raw(&r, &c);
	assert_true(log_has(&r, "\"phase\":\"open\",\"connection\":1,\"destination\":\"raw.test\""));
	assert_true(log_has(&r, "\"protocol\":\"tcp\",\"verdict\":\"allow\",\"rule\":\"raw\",\"rule_at\":\"test.yaml:1\","
				"\"address\":\"203.0.113.10\""));
	end(&c);
	rig_until(&r, r.origin[0].ended && r.origin[0].clean);
	peer_send(&r.origin[0], "the answer");
	rig_until(&r, peer_has(&c, "the answer"));
	end(&r.origin[0]);
	rig_until(&r, c.ended && c.clean);
	rig_until(&r, log_has(&r, "\"phase\":\"close\""));
	assert_true(log_has(&r, "\"bytes_up\":2,\"bytes_down\":10,"));
	assert_true(log_has(&r, "\"ended\":\"ended by both sides\""));
	rig_until(&r, r.hangups == 1);
	peer_close(&c);
	rig_close(&r);
}

static void any_bytes_pass_even_tls_and_http(void **state)
{
	static const char *const first[] = { "GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02", "\r\n" };
	struct rig r;
	struct peer c;

	(void)state;
	open_rig(&r);
	for (size_t i = 0; i < 3; i++) {
		client_plain(&r, &c, "raw.test");
		peer_send(&c, first[i]);
		rig_until(&r, r.n_origins == i + 1 && peer_has(&r.origin[i], first[i]));
		peer_close(&c);
	}
	rig_close(&r);
}

static void an_address_that_a_rule_names_is_reached_by_it(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_rig(&r);
	peer_open(&c, &r, connect_to(&r, 0x7f000009), NULL, NULL, false);
	peer_send(&c, "license?");
	rig_until(&r, r.n_origins && peer_has(&r.origin[0], "license?"));
	assert_true(log_has(&r, "\"destination\":\"127.0.0.9\",\"address\":\"127.0.0.9\""));
	assert_true(log_has(&r, "\"rule\":\"literal-raw\""));
	peer_close(&c);
	rig_close(&r);
}

static void what_a_deny_covers_is_reset_at_once_and_listed(void **state)
{
	static const struct rig_rule denied[] = {
		RAW, { .id = "not-raw", .host = "raw.test", .deny = true, .foreign = -1 },
	};
	struct rig r;
	struct peer c;
	struct buf text;

	(void)state;
	OPEN_RIG(&r, denied);
	r.w.refusals = refusal_list_new();
	client_plain(&r, &c, "raw.test");
	rig_until(&r, is_reset(&c));
	rig_until(&r, log_has(&r, "\"protocol\":\"tcp\",\"verdict\":\"deny\",\"rule\":\"not-raw\""));
	assert_int_equal(r.dials, 0);
	buf_init(&text, 65536);
	refusal_list_text(r.w.refusals, &text);
	assert_non_null(memmem(text.p, text.n, "not-raw", 7));
	buf_free(&text);
	peer_close(&c);
	refusal_list_free(r.w.refusals);
	r.w.refusals = NULL;
	rig_close(&r);
}

/* No fact will follow: what the address leaves open is denied, and what it forbids, too. */
static void a_deny_by_address_is_kept_once_the_address_is_known(void **state)
{
	static const struct rig_rule denied[] = {
		RAW, SEALED, { .id = "not-there", .address = "203.0.113.0/24", .deny = true, .foreign = -1 },
	};
	struct rig r;
	struct peer c;

	(void)state;
	OPEN_RIG(&r, denied);
	client_plain(&r, &c, "raw.test");
	rig_until(&r, is_reset(&c));
	rig_until(&r, log_has(&r, "\"verdict\":\"deny\",\"rule\":\"not-there\""));
	rig_until(&r, r.hangups == 1);
	peer_close(&c);
	start_sealed(&r, &c, "api.test");
	rig_until(&r, is_alert(&c, 49));
	rig_until(&r, r.hangups == 2);
	rig_until(&r, r.origin[0].ended && r.origin[1].ended);
	assert_int_equal(r.origin[0].got.n + r.origin[1].got.n, 0);
	assert_false(log_has(&r, "\"phase\":\"open\""));
	peer_close(&c);
	rig_close(&r);
}

static void an_origin_that_cannot_be_reached_is_a_reset_or_an_alert_and_on_record(void **state)
{
	static const struct { enum dial_status status; const char *reason, *error; uint8_t alert; } rows[] = {
		{ DIAL_REFUSED, "connection-refused: ", "connection_refused", 80 },
		{ DIAL_TIMEOUT, "connection-timeout: ", "connection_timeout", 80 },
		{ DIAL_PROHIBITED, "destination-prohibited: ", "destination_ip_prohibited", 49 },
		{ DIAL_QUOTA, "too-many-dials: ", "connection_limit_reached", 80 },
		{ DIAL_NO_NAME, "dns-failed: ", "dns_error", 80 },
	};
	struct rig r;
	struct peer c;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		open_rig(&r);
		r.dial_status = rows[i].status;
		client_plain(&r, &c, "raw.test");
		rig_until(&r, is_reset(&c));
		rig_until(&r, log_has(&r, rows[i].reason));
		peer_close(&c);
		start_sealed(&r, &c, "api.test");
		rig_until(&r, is_alert(&c, rows[i].alert));
		peer_close(&c);
		if (rows[i].status != DIAL_QUOTA) {
			rig_until(&r, log_has(&r, "\"verdict\":\"allow\",\"rule\":\"sealed\""));
			assert_true(log_has(&r, rows[i].error));
		}
		rig_close(&r);
	}
}

static void resets_go_on_as_resets(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_rig(&r);
	start_raw(&r, &c);
	peer_reset(&c);
	rig_until(&r, is_reset(&r.origin[0]));
	rig_until(&r, log_has(&r, "\"ended\":\"reset by the client: "));
	start_raw(&r, &c);
	peer_reset(&r.origin[1]);
	rig_until(&r, is_reset(&c));
	rig_until(&r, log_has(&r, "\"ended\":\"reset by the origin: "));
	r.n_origins = 1;
	peer_close(&c);
	rig_close(&r);
}

static void a_worker_that_ends_resets_what_runs(void **state)
{
	struct rig r;
	struct peer c;
	int fd, error = 0;
	socklen_t n = sizeof(error);

	(void)state;
	open_rig(&r);
	start_raw(&r, &c);
	fd = dup(stream_fd(c.stream));
	peer_close(&c);
	turns(&r);
	rig_close(&r);
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n);
	assert_int_equal(error, ECONNRESET);
	close(fd);
}

/* ---- TLS passed through ---- */

static void a_pinned_client_sees_the_origins_own_certificate(void **state)
{
	struct rig r;
	struct peer c;
	SSL_CTX *pinned;

	(void)state;
	open_rig(&r);
	r.origin_tls = true;
	r.script = answer_each;
	pinned = pinned_context(&r);
	peer_open(&c, &r, connect_to(&r, lease(&r, "api.test")), pinned, "api.test", false);
	peer_send(&c, "GET / HTTP/1.1\r\nHost: api.test\r\n\r\n");
	rig_until(&r, peer_has(&c, "\r\n\r\nhi"));
	assert_int_equal(r.leafs + r.grants, 0);
	assert_true(log_has(&r, "\"sni\":\"api.test\",\"tls\":\"passthrough\",\"verdict\":\"allow\",\"rule\":\"sealed\""));
	assert_false(log_has(&r, "\"kind\":\"request\""));
	peer_close(&c);
	SSL_CTX_free(pinned);
	rig_close(&r);
}

static void the_hello_goes_out_byte_for_byte_with_what_came_behind_it(void **state)
{
	static const size_t steps[] = { 1, 7, 100, 4096 };
	struct rig r;
	struct peer c;
	struct buf hello;

	(void)state;
	hello_for("api.test", &hello);
	buf_put_str(&hello, STR("\x14\x03\x03\x00\x01\x01 and whatever comes"));
	open_rig(&r);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		client_plain(&r, &c, "api.test");
		for (size_t at = 0; at < hello.n; at += steps[i]) {
			send_bytes(&c, hello.p + at, hello.n - at < steps[i] ? hello.n - at : steps[i]);
			event_base_loop(r.base, EVLOOP_NONBLOCK);
		}
		rig_until(&r, r.n_origins == i + 1 && r.origin[i].got.n == hello.n);
		assert_memory_equal(r.origin[i].got.p, hello.p, hello.n);
		peer_close(&c);
	}
	buf_free(&hello);
	rig_close(&r);
}

/* What is spoken inside is no matter of ours. */
static void any_alpn_passes(void **state)
{
	struct rig r;
	struct peer c;
	SSL_CTX *pinned;

	(void)state;
	open_rig(&r);
	r.origin_tls = true;
	pinned = pinned_context(&r);
	assert_int_equal(SSL_CTX_set_alpn_protos(pinned, (const unsigned char *)"\x05xmpp!", 6), 0);
	peer_open(&c, &r, connect_to(&r, lease(&r, "api.test")), pinned, "api.test", false);
	peer_send(&c, "<stream>");
	rig_until(&r, r.n_origins && peer_has(&r.origin[0], "<stream>"));
	peer_close(&c);
	SSL_CTX_free(pinned);
	rig_close(&r);
}

static void the_server_name_must_be_the_name_that_was_resolved(void **state)
{
	static const struct { const char *sni, *reason; } rows[] = {
		{ "raw.test", "sni-mismatch" }, { "evil.test", "sni-mismatch" }, { NULL, "no-sni" },
		{ "api.test.evil.test", "sni-mismatch" }, { "xapi.test", "sni-mismatch" },
	};
	struct rig r;
	struct peer c;

	(void)state;
	open_rig(&r);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		start_sealed(&r, &c, rows[i].sni);
		rig_until(&r, is_alert(&c, 112));
		rig_until(&r, log_has(&r, rows[i].reason));
		peer_close(&c);
	}
	start_sealed(&r, &c, "API.test");
	rig_until(&r, r.n_origins == 1);
	assert_int_equal(r.dials, 1);
	peer_close(&c);
	rig_close(&r);
}

static void a_hello_without_a_name_passes_to_an_address_that_a_rule_names(void **state)
{
	struct rig r;
	struct peer c;
	struct buf hello;

	(void)state;
	open_rig(&r);
	hello_for(NULL, &hello);
	peer_open(&c, &r, connect_to(&r, 0x7f000008), NULL, NULL, false);
	send_bytes(&c, hello.p, hello.n);
	rig_until(&r, r.n_origins && r.origin[0].got.n == hello.n);
	assert_true(log_has(&r, "\"rule\":\"literal-sealed\""));
	peer_close(&c);
	buf_free(&hello);
	/* One with a name goes to that name, and no rule says that it is there. */
	hello_for("api.test", &hello);
	peer_open(&c, &r, connect_to(&r, 0x7f000008), NULL, NULL, false);
	send_bytes(&c, hello.p, hello.n);
	rig_until(&r, is_alert(&c, 112));
	peer_close(&c);
	/* By an address that no rule names nothing passes. */
	peer_open(&c, &r, connect_to(&r, 0x7f000007), NULL, NULL, false);
	send_bytes(&c, hello.p, hello.n);
	rig_until(&r, is_alert(&c, 112));
	assert_int_equal(r.dials, 1);
	peer_close(&c);
	buf_free(&hello);
	rig_close(&r);
}

static void what_is_not_tls_is_not_passed_through(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_rig(&r);
	ask_plain(&r, &c, "api.test", "GET / HTTP/1.1\r\nHost: api.test\r\n\r\n", "HTTP/1.1 403 ");
	peer_close(&c);
	client_plain(&r, &c, "api.test");
	peer_send(&c, "\x01\x02 not TLS");
	rig_until(&r, is_reset(&c));
	rig_until(&r, log_has(&r, "not-tls"));
	peer_close(&c);
	client_plain(&r, &c, "api.test");
	send_bytes(&c, "\x16\x03\x01\x00\x04\x02\x00\x00\x00", 9);	/* a ServerHello */
	rig_until(&r, is_alert(&c, 50));
	rig_until(&r, log_has(&r, "bad-hello"));
	assert_int_equal(r.dials, 0);
	peer_close(&c);
	rig_close(&r);
}

/* ---- the record ---- */

static void nothing_goes_out_before_the_open_record_is_in_the_ring(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	for (int sealed = 0; sealed < 2; sealed++) {
		open_rig(&r);
		fill_ring(&r);
		if (sealed)
			start_sealed(&r, &c, "api.test");
		else
			client_plain(&r, &c, "raw.test");
		if (!sealed)
			peer_send(&c, "early");
		rig_until(&r, r.n_origins == 1);
		turns(&r);
		assert_int_equal(r.origin[0].got.n, 0);
		read_log(&r);
		rig_until(&r, r.origin[0].got.n > 0);
		assert_true(log_has(&r, "\"phase\":\"open\""));
		peer_close(&c);
		rig_close(&r);
	}
}

static void nothing_goes_out_before_the_open_record_is_on_the_disk(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_rig(&r);
	r.w.synced = true;
	client_plain(&r, &c, "raw.test");
	peer_send(&c, "early");
	rig_until(&r, log_has(&r, "\"phase\":\"open\""));
	turns(&r);
	assert_true(r.n_origins == 0 || r.origin[0].got.n == 0);
	ring_set_synced(r.reader);
	rig_until(&r, r.n_origins && peer_has(&r.origin[0], "early"));
	peer_close(&c);
	/* A disk that does not take it. */
	client_plain(&r, &c, "raw.test");
	rig_until(&r, log_has(&r, "\"connection\":2"));
	ring_set_refusing(r.reader, true);
	rig_until(&r, is_reset(&c));
	rig_until(&r, log_has(&r, "log-unavailable"));
	ring_set_refusing(r.reader, false);
	peer_close(&c);
	rig_close(&r);
}

static void a_log_that_cannot_be_written_refuses(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_rig(&r);
	ring_set_refusing(r.reader, true);
	client_plain(&r, &c, "raw.test");
	rig_until(&r, is_reset(&c));
	peer_close(&c);
	start_sealed(&r, &c, "api.test");
	rig_until(&r, is_alert(&c, 80));
	peer_close(&c);
	rig_until(&r, r.hangups == 2);
	rig_until(&r, r.n_origins == 2 && r.origin[1].ended);
	assert_int_equal(r.origin[0].got.n + r.origin[1].got.n, 0);
	ring_set_refusing(r.reader, false);
	rig_close(&r);
}

/* ---- limits ---- */

#define LIMITED(...) { { .id = "limited", .host = "*.test", .protos = PROTO_TCP, .foreign = -1, \
			 .limits = { __VA_ARGS__ } } }

static void bytes_past_a_limit_end_it_by_a_reset(void **state)
{
	static const struct rig_rule upload[] = LIMITED(.upload = 4), download[] = LIMITED(.download = 4);
	struct rig r;
	struct peer c;

	(void)state;
	OPEN_RIG(&r, upload);
	r.script = NULL;
	start_raw(&r, &c);
	peer_send(&c, "12");
	rig_until(&r, peer_has(&r.origin[0], "up12"));
	peer_send(&c, "3");
	rig_until(&r, is_reset(&c) && is_reset(&r.origin[0]));
	rig_until(&r, log_has(&r, "\"verdict\":\"deny\",\"rule\":\"limited\",\"rule_at\":\"test.yaml:1\","
				  "\"reason\":\"limit-reached: upload of 4 bytes\""));
	assert_true(log_has(&r, "\"bytes_up\":4,"));
	peer_close(&c);
	rig_close(&r);
	OPEN_RIG(&r, download);
	r.script = greet;
	client_plain(&r, &c, "raw.test");
	rig_until(&r, is_reset(&c));
	rig_until(&r, log_has(&r, "limit-reached: download of 4 bytes"));
	peer_close(&c);
	rig_close(&r);
}

static void so_many_at_once_and_no_more(void **state)
{
	static const struct rig_rule two[] = LIMITED(.concurrent = 2);
	struct rig r;
	struct peer c[4];

	(void)state;
	OPEN_RIG(&r, two);
	r.script = NULL;
	start_raw(&r, &c[0]);
	start_raw(&r, &c[1]);
	client_plain(&r, &c[2], "other.test");
	rig_until(&r, is_reset(&c[2]));
	rig_until(&r, log_has(&r, "limit-reached: 2 at once, by limited"));
	assert_int_equal(r.dials, 2);
	peer_reset(&c[0]);
	rig_until(&r, r.hangups == 1);
	start_raw(&r, &c[3]);
	for (int i = 1; i < 4; i++)
		peer_close(&c[i]);
	rig_close(&r);
}

static void time_limits_of_the_rule_end_it(void **state)
{
	static const struct rig_rule idle[] = LIMITED(.idle_s = 1), total[] = LIMITED(.total_s = 1);
	struct rig r;
	struct peer c;

	(void)state;
	OPEN_RIG(&r, idle);
	r.script = NULL;
	start_raw(&r, &c);
	rig_until(&r, is_reset(&c) && is_reset(&r.origin[0]));
	rig_until(&r, log_has(&r, "limit-reached: 1 seconds without a byte"));
	peer_close(&c);
	rig_close(&r);
	OPEN_RIG(&r, total);
	r.script = NULL;
	start_raw(&r, &c);
	while (!c.ended) {
		peer_send(&c, "x");
		event_base_loop(r.base, EVLOOP_ONCE);
	}
	rig_until(&r, log_has(&r, "limit-reached: 1 seconds in all"));
	peer_close(&c);
	rig_close(&r);
}

static void without_a_limit_of_its_rule_the_settings_idle_holds(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_rig(&r);
	r.w.idle_ms = 100;
	start_raw(&r, &c);
	rig_until(&r, is_reset(&c));
	rig_until(&r, log_has(&r, "\"ended\":\"idle\""));
	peer_close(&c);
	rig_close(&r);
}

/* ---- a new policy ---- */

static const struct rig_rule nothing[] = {
	{ .id = "closed", .host = "*.test", .deny = true, .foreign = -1 },
};

static void what_a_new_policy_denies_is_reset(void **state)
{
	static const struct rig_rule by_address[] = {
		RAW, SEALED, { .id = "closed", .address = "203.0.113.10/32", .deny = true, .foreign = -1 },
	};
	struct rig r;
	struct peer c[2];

	(void)state;
	for (int by = 0; by < 2; by++) {
		open_rig(&r);
		start_raw(&r, &c[0]);
		start_sealed(&r, &c[1], "api.test");
		rig_until(&r, r.n_origins == 2 && r.origin[1].got.n);
		if (by)
			NEW_POLICY(&r, by_address);
		else
			NEW_POLICY(&r, nothing);
		for (int i = 0; i < 2; i++) {
			rig_until(&r, is_reset(&c[i]) && is_reset(&r.origin[i]));
			peer_close(&c[i]);
		}
		rig_until(&r, log_has(&r, "\"verdict\":\"deny\",\"rule\":\"closed\",\"rule_at\":\"test.yaml:1\","
					  "\"reason\":\"a new policy denies it: because\""));
		rig_close(&r);
	}
}

static void what_a_new_policy_allows_goes_on(void **state)
{
	struct rig r;
	struct peer c[2];

	(void)state;
	open_rig(&r);
	start_raw(&r, &c[0]);
	start_sealed(&r, &c[1], "api.test");
	rig_until(&r, r.n_origins == 2 && r.origin[1].got.n);
	NEW_POLICY(&r, rules);
	NEW_POLICY(&r, rules);
	for (int i = 0; i < 2; i++) {
		peer_send(&r.origin[i], "still");
		rig_until(&r, peer_has(&c[i], "still"));
		peer_close(&c[i]);
	}
	rig_close(&r);
}

static void a_new_policy_that_would_open_it_ends_it(void **state)
{
	static const struct rig_rule opened[] = {
		{ .id = "opened", .host = "api.test", .protos = PROTO_HTTPS, .foreign = -1 },
	};
	struct rig r;
	struct peer c;

	(void)state;
	open_rig(&r);
	start_sealed(&r, &c, "api.test");
	rig_until(&r, r.n_origins == 1 && r.origin[0].got.n);
	NEW_POLICY(&r, opened);
	rig_until(&r, is_reset(&c));
	rig_until(&r, log_has(&r, "\"verdict\":\"deny\",\"rule\":\"opened\""));
	peer_close(&c);
	rig_close(&r);
}

static void a_new_policy_while_it_is_dialled_is_told_by_reset_or_alert(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	for (int sealed = 0; sealed < 2; sealed++) {
		open_rig(&r);
		fill_ring(&r);	/* so that it stays where it is */
		if (sealed)
			start_sealed(&r, &c, "api.test");
		else
			client_plain(&r, &c, "raw.test");
		rig_until(&r, r.dials == 1 && r.n_origins == 1);
		turns(&r);
		NEW_POLICY(&r, nothing);
		rig_until(&r, sealed ? is_alert(&c, 49) : is_reset(&c));
		rig_until(&r, r.hangups == 1);
		assert_int_equal(r.origin[0].got.n, 0);
		rig_until(&r, log_has(&r, "a new policy denies it: because"));
		peer_close(&c);
		rig_close(&r);
	}
}

static void new_limits_hold_for_what_runs(void **state)
{
	static const struct rig_rule free_rule[] = LIMITED(.concurrent = 9),
				     upload[] = LIMITED(.upload = 3, .concurrent = 1);
	struct rig r;
	struct peer c[2];

	(void)state;
	OPEN_RIG(&r, free_rule);
	r.script = NULL;
	start_raw(&r, &c[0]);
	start_raw(&r, &c[1]);
	NEW_POLICY(&r, upload);
	turns(&r);
	assert_false(c[0].ended || c[1].ended);
	peer_send(&c[1], "12");
	rig_until(&r, is_reset(&c[1]));
	assert_false(c[0].ended);
	peer_close(&c[0]);
	peer_close(&c[1]);
	rig_close(&r);
}

/* ---- other roles ---- */

static void a_dialer_that_dies_takes_no_tunnel_along(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_rig(&r);
	start_raw(&r, &c);
	rig_lose(&r, ROLE_DIALER);
	rig_replace(&r, ROLE_DIALER);
	peer_send(&r.origin[0], "alive");
	rig_until(&r, peer_has(&c, "alive"));
	peer_close(&c);
	start_raw(&r, &c);
	peer_close(&c);
	rig_close(&r);
}

static void who_goes_while_it_is_dialled_is_no_tunnel(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_rig(&r);
	client_plain(&r, &c, "raw.test");
	peer_reset(&c);
	rig_until(&r, log_has(&r, "\"phase\":\"close\""));
	rig_until(&r, r.hangups == 1);
	rig_until(&r, r.n_origins == 1 && r.origin[0].ended);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_may_speak_first),
		cmocka_unit_test(each_side_ends_by_itself_and_the_record_says_how_it_went),
		cmocka_unit_test(any_bytes_pass_even_tls_and_http),
		cmocka_unit_test(an_address_that_a_rule_names_is_reached_by_it),
		cmocka_unit_test(what_a_deny_covers_is_reset_at_once_and_listed),
		cmocka_unit_test(a_deny_by_address_is_kept_once_the_address_is_known),
		cmocka_unit_test(an_origin_that_cannot_be_reached_is_a_reset_or_an_alert_and_on_record),
		cmocka_unit_test(resets_go_on_as_resets),
		cmocka_unit_test(a_worker_that_ends_resets_what_runs),
		cmocka_unit_test(a_pinned_client_sees_the_origins_own_certificate),
		cmocka_unit_test(the_hello_goes_out_byte_for_byte_with_what_came_behind_it),
		cmocka_unit_test(any_alpn_passes),
		cmocka_unit_test(the_server_name_must_be_the_name_that_was_resolved),
		cmocka_unit_test(a_hello_without_a_name_passes_to_an_address_that_a_rule_names),
		cmocka_unit_test(what_is_not_tls_is_not_passed_through),
		cmocka_unit_test(nothing_goes_out_before_the_open_record_is_in_the_ring),
		cmocka_unit_test(nothing_goes_out_before_the_open_record_is_on_the_disk),
		cmocka_unit_test(a_log_that_cannot_be_written_refuses),
		cmocka_unit_test(bytes_past_a_limit_end_it_by_a_reset),
		cmocka_unit_test(so_many_at_once_and_no_more),
		cmocka_unit_test(time_limits_of_the_rule_end_it),
		cmocka_unit_test(without_a_limit_of_its_rule_the_settings_idle_holds),
		cmocka_unit_test(what_a_new_policy_denies_is_reset),
		cmocka_unit_test(what_a_new_policy_allows_goes_on),
		cmocka_unit_test(a_new_policy_that_would_open_it_ends_it),
		cmocka_unit_test(a_new_policy_while_it_is_dialled_is_told_by_reset_or_alert),
		cmocka_unit_test(new_limits_hold_for_what_runs),
		cmocka_unit_test(a_dialer_that_dies_takes_no_tunnel_along),
		cmocka_unit_test(who_goes_while_it_is_dialled_is_no_tunnel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
