/* The engine with what it does not open: raw TCP, and TLS that is passed through. */
#include "tests/unit/proxy/tunnel_rig.h"

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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
