/* The whole engine, end to end: what works, what is refused, what is put on and taken off. */
#include "tests/unit/proxy/engine_rig.h"

#include <sys/resource.h>

static void plain_http_get_reaches_the_origin(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	ask_plain(&r, &c, "web.test", "GET /a/../b?x=1 HTTP/1.1\r\nHost: WEB.test\r\nX-Y: z\r\n\r\n", "\r\n\r\nhi");
	assert_true(peer_has(&r.origin[0], "GET /b?x=1 HTTP/1.1\r\n"));
	assert_true(peer_has(&r.origin[0], "host: web.test"));
	assert_true(peer_has(&r.origin[0], "X-Y: z\r\n"));
	assert_true(peer_has(&c, "HTTP/1.1 200 OK\r\n"));
	assert_int_equal(r.dials, 1);
	peer_close(&c);
	rig_close(&r);
}

static void tls_get_reaches_the_origin_over_verified_tls(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	r.origin_tls = true;
	ask_tls(&r, &c, "api.test", "GET / HTTP/1.1\r\nHost: api.test\r\n\r\n", "\r\n\r\nhi");
	assert_int_equal(r.leafs, 1);
	assert_int_equal(r.grants, 0);
	assert_true(log_has(&r, "\"phase\":\"open\""));
	assert_true(log_has(&r, "\"rule\":\"api\""));
	peer_close(&c);
	rig_close(&r);
}

static void second_request_uses_the_same_upstream(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	ask_plain(&r, &c, "web.test", "GET /1 HTTP/1.1\r\nHost: web.test\r\n\r\n", "\r\n\r\nhi");
	c.got.n = 0;
	r.origin[0].requests = 0;
	r.origin[0].got.n = 0;
	peer_send(&c, "GET /2 HTTP/1.1\r\nHost: web.test\r\n\r\n");
	rig_until(&r, peer_has(&c, "\r\n\r\nhi"));
	assert_true(peer_has(&r.origin[0], "GET /2 "));
	assert_int_equal(r.dials, 1);
	peer_close(&c);
	rig_close(&r);
}

static void denied_path_gets_403_without_dialling(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	ask_plain(&r, &c, "web.test", "GET /gists/1 HTTP/1.1\r\nHost: web.test\r\n\r\n", "no-gists");
	assert_true(peer_has(&c, "HTTP/1.1 403 "));
	assert_true(peer_has(&c, "application/problem+json"));
	assert_true(peer_has(&c, "because"));
	assert_int_equal(r.dials, 0);
	assert_true(log_has(&r, "\"verdict\":\"deny\",\"rule\":\"no-gists\""));
	peer_close(&c);
	rig_close(&r);
}

static void denied_method_gets_403_and_the_connection_goes_on(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	ask_plain(&r, &c, "paths.test", "DELETE /pub/x HTTP/1.1\r\nHost: paths.test\r\n\r\n", "}\n");
	assert_true(peer_has(&c, "HTTP/1.1 403 "));
	c.got.n = 0;
	peer_send(&c, "GET /pub/x HTTP/1.1\r\nHost: paths.test\r\n\r\n");
	rig_until(&r, peer_has(&c, "\r\n\r\nhi"));
	peer_close(&c);
	rig_close(&r);
}

static void ambiguous_path_is_refused_where_a_path_rule_stands(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	ask_plain(&r, &c, "paths.test", "GET /pub/..%2fx HTTP/1.1\r\nHost: paths.test\r\n\r\n", "ambiguous-path");
	assert_int_equal(r.dials, 0);
	peer_close(&c);
	rig_close(&r);
}

static void connect_and_trace_are_refused(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	ask_plain(&r, &c, "web.test", "CONNECT other.test:443 HTTP/1.1\r\nHost: web.test\r\n\r\n", "method-refused");
	peer_close(&c);
	ask_plain(&r, &c, "web.test", "TRACE / HTTP/1.1\r\nHost: web.test\r\n\r\n", "method-refused");
	peer_close(&c);
	assert_int_equal(r.dials, 0);
	rig_close(&r);
}

static void credential_is_put_on_after_foreign_ones_are_stripped(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	r.origin_tls = true;
	origin_certificate(&r, "secret.test");
	ask_tls(&r, &c, "secret.test",
		"GET /x?a=1&access_token=mine&b=2 HTTP/1.1\r\nHost: secret.test\r\nAuthorization: Bearer mine\r\n"
		"Cookie: a=b\r\nAccept-Encoding: gzip\r\n\r\n", "\r\n\r\nhi");
	assert_true(peer_has(&r.origin[0], "authorization: Bearer " SECRET));
	assert_true(peer_has(&r.origin[0], "GET /x?a=1&b=2 HTTP/1.1\r\n"));
	assert_true(peer_has(&r.origin[0], "accept-encoding: identity"));
	assert_false(peer_has(&r.origin[0], "mine"));
	assert_false(peer_has(&r.origin[0], "ookie"));
	assert_true(log_has(&r, "\"event\":\"stripped\""));
	assert_true(log_has(&r, "\"credential\":\"token\""));
	assert_false(log_has(&r, SECRET));
	assert_false(log_has(&r, "mine"));
	peer_close(&c);
	rig_close(&r);
}

static void credential_is_cut_out_of_fields_and_body_and_trailers(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	r.origin_tls = true;
	origin_certificate(&r, "secret.test");
	r.reply = "HTTP/1.1 200 " SECRET "\r\nX-Echo: <" SECRET ">\r\nTransfer-Encoding: chunked\r\n\r\n"
		  "9\r\nA=s3cr3t-\r\n14\r\nvalue-of-the-token=Z\r\n0\r\nX-T: " SECRET "\r\n\r\n";
	ask_tls(&r, &c, "secret.test", "GET / HTTP/1.1\r\nHost: secret.test\r\n\r\n", "0\r\n");
	rig_until(&r, peer_has(&c, "=Z") && log_has(&r, "\"scrubbed\":4"));
	assert_false(peer_has(&c, "value-of"));
	assert_true(peer_has(&c, "[exeat:token]"));
	peer_close(&c);
	rig_close(&r);
}

static void encoded_answer_to_a_credential_is_refused(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	r.origin_tls = true;
	origin_certificate(&r, "secret.test");
	r.reply = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nhi";
	ask_tls(&r, &c, "secret.test", "GET / HTTP/1.1\r\nHost: secret.test\r\n\r\n", "answer-undecodable");
	assert_true(peer_has(&c, "HTTP/1.1 502 "));
	peer_close(&c);
	rig_close(&r);
}

static void credential_is_not_put_on_over_plain_http(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	ask_plain(&r, &c, "plain.test", "GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n", "credential-plaintext");
	assert_int_equal(r.grants, 0);
	assert_int_equal(r.origin[0].got.n, 0);
	peer_close(&c);
	rig_close(&r);
}

static void credential_without_a_value_refuses_the_request(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	r.origin_tls = true;
	r.grant_status = GRANT_UNAVAILABLE;
	origin_certificate(&r, "secret.test");
	ask_tls(&r, &c, "secret.test", "GET / HTTP/1.1\r\nHost: secret.test\r\n\r\n", "credential-unavailable");
	assert_true(peer_has(&c, "HTTP/1.1 502 "));
	assert_int_equal(r.origin[0].got.n, 0);
	peer_close(&c);
	rig_close(&r);
}

static void foreign_credential_is_refused_where_the_rule_says_so(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	ask_plain(&r, &c, "refuse.test", "GET /?X-Amz-Signature=00 HTTP/1.1\r\nHost: refuse.test\r\n\r\n",
		  "foreign-credential");
	assert_true(log_has(&r, "\"event\":\"refused\",\"field\":\"x-amz-signature\""));
	assert_int_equal(r.origin[0].got.n, 0);
	peer_close(&c);
	rig_close(&r);
}

static void host_of_another_name_never_gets_the_credential(void **state)
{
	static const char *const requests[] = {
		"GET / HTTP/1.1\r\nHost: secret.test\r\n\r\n",
		"GET http://secret.test/ HTTP/1.1\r\nHost: web.test\r\n\r\n",
		"GET http://web.test/ HTTP/1.1\r\nHost: secret.test\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: web.test:1\r\n\r\n",
	};
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		ask_plain(&r, &c, "web.test", requests[i], "host-mismatch");
		assert_true(peer_has(&c, "HTTP/1.1 421 "));
		peer_close(&c);
	}
	ask_plain(&r, &c, "web.test", "GET / HTTP/1.1\r\nHost: web.test\r\nHost: secret.test\r\n\r\n", "bad-request");
	peer_close(&c);
	assert_int_equal(r.dials, 0);
	assert_int_equal(r.grants, 0);
	rig_close(&r);
}

static void host_switched_on_the_second_request_is_refused(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	ask_plain(&r, &c, "web.test", "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n", "\r\n\r\nhi");
	peer_send(&c, "GET / HTTP/1.1\r\nHost: secret.test\r\n\r\n");
	rig_until(&r, peer_has(&c, "host-mismatch"));
	peer_close(&c);
	rig_close(&r);
}

static void origins_own_403_is_not_marked_as_ours(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	r.reply = "HTTP/1.1 403 No\r\nProxy-Status: exeat; error=http_request_denied\r\nAlt-Svc: h3=\":443\"\r\n"
		  "Content-Length: 2\r\n\r\nno";
	ask_plain(&r, &c, "web.test", "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n", "\r\n\r\nno");
	assert_false(peer_has(&c, "xeat"));
	assert_false(peer_has(&c, "h3="));
	peer_close(&c);
	rig_close(&r);
}

static void literal_address_with_a_rule_is_served(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	peer_open(&c, &r, connect_to(&r, 0x7f000009), NULL, NULL, false);
	peer_send(&c, "GET / HTTP/1.1\r\nHost: 127.0.0.9\r\n\r\n");
	rig_until(&r, peer_has(&c, "\r\n\r\nhi"));
	c.got.n = 0;
	peer_send(&c, "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n");
	rig_until(&r, peer_has(&c, "literal address"));
	peer_close(&c);
	rig_close(&r);
}

static void literal_address_with_a_name_in_its_hello_is_refused(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	peer_open(&c, &r, connect_to(&r, 0x7f000008), r.client_ctx, "api.test", false);
	rig_until(&r, c.ended);
	assert_int_equal(stream_trouble(c.stream), STREAM_ALERT);
	rig_until(&r, log_has(&r, "literal address, no rule"));
	peer_close(&c);
	rig_close(&r);
}

static void connections_over_the_limit_are_reset_and_counted(void **state)
{
	struct rig r;
	struct peer c[3];

	(void)state;
	rig_open(&r);
	r.w.max_connections = 1;
	for (int i = 0; i < 3; i++)
		client_plain(&r, &c[i], "web.test");
	rig_until(&r, c[1].ended && c[2].ended);
	rig_until(&r, log_has(&r, "too-many-connections\",\"count\":2"));
	assert_int_equal(connections_count(r.w.connections), 1);
	for (int i = 0; i < 3; i++)
		peer_close(&c[i]);
	rig_until(&r, connections_count(r.w.connections) == 0);
	rig_close(&r);
}

static void accepting_stops_without_descriptors_and_goes_on_with_them(void **state)
{
	struct rlimit was, few;
	struct rig r;
	struct peer c;
	int fd;

	(void)state;
	rig_open(&r);
	fd = connect_to(&r, lease(&r, "web.test"));
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	few = (struct rlimit){ .rlim_cur = (rlim_t)fd + 1, .rlim_max = was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	peer_open(&c, &r, fd, NULL, NULL, false);
	peer_send(&c, "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n");
	/* A listener that were still asked would be ready each time. */
	for (int i = 0; i < 20; i++)
		event_base_loop(r.base, EVLOOP_NONBLOCK);
	assert_int_equal(event_base_get_num_events(r.base, EVENT_BASE_COUNT_ACTIVE), 0);
	assert_int_equal(connections_count(r.w.connections), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	rig_until(&r, peer_has(&c, "\r\n\r\nhi"));
	rig_until(&r, log_has(&r, "new connections wait\",\"count\":"));
	peer_close(&c);
	rig_close(&r);
}

static void refusal_address_explains_to_each_request(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open_with(&r, usual_rules, sizeof(usual_rules) / sizeof(usual_rules[0]), true);
	peer_open(&c, &r, connect_to(&r, r.w.refusal_address), NULL, NULL, false);
	peer_send(&c, "GET /x HTTP/1.1\r\nHost: evil.test\r\n\r\n");
	rig_until(&r, peer_has(&c, "\"host\":\"evil.test\""));
	assert_true(peer_has(&c, "HTTP/1.1 403 "));
	peer_close(&c);
	peer_open(&c, &r, connect_to(&r, r.w.refusal_address), r.client_ctx, "evil.test", false);
	peer_send(&c, "GET /x HTTP/1.1\r\nHost: evil.test\r\n\r\n");
	rig_until(&r, peer_has(&c, "\"rule\":\"default\""));
	peer_close(&c);
	assert_int_equal(r.dials, 0);
	rig_close(&r);
}

static void refusal_address_resets_without_explain(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	peer_open(&c, &r, connect_to(&r, r.w.refusal_address), NULL, NULL, false);
	rig_until(&r, c.ended);
	assert_int_equal(stream_trouble(c.stream), STREAM_RESET);
	peer_close(&c);
	rig_close(&r);
}

static void log_that_cannot_be_written_refuses_requests(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	ring_set_refusing(r.reader, true);
	ask_plain(&r, &c, "web.test", "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n", "log-unavailable");
	assert_true(peer_has(&c, "HTTP/1.1 503 "));
	assert_true(r.n_origins == 0 || r.origin[0].got.n == 0);
	ring_set_refusing(r.reader, false);
	peer_close(&c);
	rig_close(&r);
}

static void a_request_waits_until_its_begin_is_on_the_disk(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	r.w.synced = true;
	client_plain(&r, &c, "web.test");
	peer_send(&c, "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n");
	rig_until(&r, log_has(&r, "\"phase\":\"begin\""));
	for (int i = 0; i < 20; i++)
		event_base_loop(r.base, EVLOOP_NONBLOCK);
	assert_true(r.n_origins == 0 || r.origin[0].got.n == 0);
	ring_set_synced(r.reader);
	rig_until(&r, peer_has(&c, "\r\n\r\nhi"));
	peer_close(&c);
	rig_close(&r);
}

static void a_disk_that_does_not_take_the_begin_refuses_the_request(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	r.w.synced = true;
	client_plain(&r, &c, "web.test");
	peer_send(&c, "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n");
	rig_until(&r, log_has(&r, "\"phase\":\"begin\""));
	ring_set_refusing(r.reader, true);
	rig_until(&r, peer_has(&c, "HTTP/1.1 503 "));
	assert_true(peer_has(&c, "log-unavailable"));
	assert_true(r.n_origins == 0 || r.origin[0].got.n == 0);
	/* Its begin is on record, and so is its end. */
	assert_true(log_has(&r, "\"phase\":\"end\""));
	ring_set_refusing(r.reader, false);
	peer_close(&c);
	rig_close(&r);
}

static void full_ring_holds_a_request_until_there_is_room(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	client_plain(&r, &c, "web.test");
	fill_ring(&r);
	peer_send(&c, "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n");
	for (int i = 0; i < 20; i++)
		event_base_loop(r.base, EVLOOP_NONBLOCK);
	assert_int_equal(r.dials, 0);
	read_log(&r);
	rig_until(&r, peer_has(&c, "\r\n\r\nhi"));
	peer_close(&c);
	rig_close(&r);
}

static void full_ring_holds_the_answers_last_byte(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	r.script = NULL;
	client_plain(&r, &c, "web.test");
	peer_send(&c, "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n");
	rig_until(&r, r.n_origins == 1 && peer_has(&r.origin[0], "\r\n\r\n"));
	fill_ring(&r);
	peer_send(&r.origin[0], "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
	for (int i = 0; i < 20; i++)
		event_base_loop(r.base, EVLOOP_NONBLOCK);
	assert_false(peer_has(&c, "hi"));
	read_log(&r);
	rig_until(&r, peer_has(&c, "\r\n\r\nhi"));
	rig_until(&r, log_has(&r, "\"phase\":\"end\""));
	peer_close(&c);
	rig_close(&r);
}

static void hundreds_of_connections_leave_nothing_behind(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	for (int i = 0; i < 300; i++) {
		ask_plain(&r, &c, "web.test", "GET /gists/ HTTP/1.1\r\nHost: web.test\r\nConnection: close\r\n\r\n", "}\n");
		rig_until(&r, c.ended && c.clean);
		peer_close(&c);
		read_log(&r);
	}
	rig_until(&r, connections_count(r.w.connections) == 0);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_http_get_reaches_the_origin),
		cmocka_unit_test(tls_get_reaches_the_origin_over_verified_tls),
		cmocka_unit_test(second_request_uses_the_same_upstream),
		cmocka_unit_test(denied_path_gets_403_without_dialling),
		cmocka_unit_test(denied_method_gets_403_and_the_connection_goes_on),
		cmocka_unit_test(ambiguous_path_is_refused_where_a_path_rule_stands),
		cmocka_unit_test(connect_and_trace_are_refused),
		cmocka_unit_test(credential_is_put_on_after_foreign_ones_are_stripped),
		cmocka_unit_test(credential_is_cut_out_of_fields_and_body_and_trailers),
		cmocka_unit_test(encoded_answer_to_a_credential_is_refused),
		cmocka_unit_test(credential_is_not_put_on_over_plain_http),
		cmocka_unit_test(credential_without_a_value_refuses_the_request),
		cmocka_unit_test(foreign_credential_is_refused_where_the_rule_says_so),
		cmocka_unit_test(host_of_another_name_never_gets_the_credential),
		cmocka_unit_test(host_switched_on_the_second_request_is_refused),
		cmocka_unit_test(origins_own_403_is_not_marked_as_ours),
		cmocka_unit_test(literal_address_with_a_rule_is_served),
		cmocka_unit_test(literal_address_with_a_name_in_its_hello_is_refused),
		cmocka_unit_test(connections_over_the_limit_are_reset_and_counted),
		cmocka_unit_test(accepting_stops_without_descriptors_and_goes_on_with_them),
		cmocka_unit_test(refusal_address_explains_to_each_request),
		cmocka_unit_test(refusal_address_resets_without_explain),
		cmocka_unit_test(log_that_cannot_be_written_refuses_requests),
		cmocka_unit_test(a_request_waits_until_its_begin_is_on_the_disk),
		cmocka_unit_test(a_disk_that_does_not_take_the_begin_refuses_the_request),
		cmocka_unit_test(full_ring_holds_a_request_until_there_is_room),
		cmocka_unit_test(full_ring_holds_the_answers_last_byte),
		cmocka_unit_test(hundreds_of_connections_leave_nothing_behind),
	};


	return cmocka_run_group_tests(tests, NULL, NULL);
}
