#include "tests/unit/proxy/engine_rig.h"

#include "proxy/repeats.h"

static size_t lines_with(struct rig *r, const char *text)
{
	size_t n = 0;

	read_log(r);
	for (const char *at = r->log.p, *end = at + r->log.n; at && at < end; n++) {
		at = memmem(at, (size_t)(end - at), text, strlen(text));
		if (!at)
			break;
		at++;
	}
	return n;
}

static struct repeat some_request(const char *path)
{
	return (struct repeat){ .kind = RECORD_request, .reason = REFUSAL_bad_request, .proto = PROTO_HTTPS,
				.port = 443, .host = STR("api.test"), .method = STR("GET"),
				.path = str_of(path), .why = STR("a reason") };
}

static void the_same_refusal_shares_the_firsts_id_and_is_counted(void **state)
{
	struct repeat what = some_request("/a");
	char first[17] = "1111111111111111", second[17] = "2222222222222222";
	struct rig r;

	(void)state;
	rig_open(&r);
	assert_true(repeats_first(r.w.repeats, &what, first));
	for (int i = 0; i < 3; i++)
		assert_false(repeats_first(r.w.repeats, &what, second));
	assert_string_equal(second, first);
	rig_until(&r, log_has(&r, "\"count\":3"));
	assert_true(log_has(&r, "\"verdict\":\"deny\""));
	assert_true(log_has(&r, "\"reason\":\"bad-request\""));
	assert_true(log_has(&r, "\"host\":\"api.test\""));
	assert_int_equal(lines_with(&r, "1111111111111111"), 1);
	rig_close(&r);
}

static void whatever_differs_is_another_kind(void **state)
{
	struct repeat what[7];
	char id[17] = "1111111111111111";
	struct rig r;

	(void)state;
	rig_open(&r);
	for (int i = 0; i < 7; i++)
		what[i] = some_request("/a");
	what[1].path = STR("/b");
	what[2].method = STR("PUT");
	what[3].why = STR("another");
	what[4].host = STR("web.test");
	what[5].port = 80;
	what[6].kind = RECORD_connection;
	for (int i = 0; i < 7; i++)
		assert_true(repeats_first(r.w.repeats, &what[i], id));
	rig_close(&r);
}

static void what_could_not_be_written_is_a_first_again(void **state)
{
	struct repeat what = some_request("/a");
	char id[17] = "1111111111111111";
	struct rig r;

	(void)state;
	rig_open(&r);
	assert_true(repeats_first(r.w.repeats, &what, id));
	repeats_drop(r.w.repeats, &what);
	assert_true(repeats_first(r.w.repeats, &what, id));
	rig_close(&r);
}

static void kinds_without_room_share_an_id_that_is_on_record(void **state)
{
	char path[16], id[17], rest[17] = "";
	struct rig r;

	(void)state;
	rig_open(&r);
	for (unsigned i = 0; i < 256 + 10; i++) {
		struct repeat what;

		snprintf(path, sizeof(path), "/%u", i);
		snprintf(id, sizeof(id), "%016u", i);
		what = some_request(path);
		assert_int_equal(repeats_first(r.w.repeats, &what, id), i < 256);
		if (i == 256)
			memcpy(rest, id, sizeof(rest));
		if (i >= 256)
			assert_string_equal(id, rest);
	}
	rig_until(&r, log_has(&r, "\"suppressed\":10"));
	assert_true(log_has(&r, rest));
	rig_close(&r);
}

static void denied_requests_are_one_record_and_a_count(void **state)
{
	enum { TIMES = 50 };
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	client_plain(&r, &c, "web.test");
	for (int i = 0; i < TIMES; i++) {
		c.got.n = 0;
		peer_send(&c, "GET /gists/1 HTTP/1.1\r\nHost: web.test\r\n\r\n");
		rig_until(&r, peer_has(&c, "\"retry\":\"ask\"}\n"));
	}
	rig_until(&r, log_has(&r, "\"count\":"));
	assert_true(lines_with(&r, "\"kind\":\"request\"") <= 6);
	peer_close(&c);
	rig_close(&r);
}

static void allowed_requests_are_each_on_record(void **state)
{
	enum { TIMES = 50 };
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	r.dial_status = DIAL_REFUSED;
	client_plain(&r, &c, "web.test");
	for (int i = 0; i < TIMES; i++) {
		c.got.n = 0;
		peer_send(&c, "GET /a HTTP/1.1\r\nHost: web.test\r\n\r\n");
		rig_until(&r, peer_has(&c, "\"retry_after\":5}\n"));
	}
	assert_int_equal(lines_with(&r, "\"phase\":\"end\""), TIMES);
	peer_close(&c);
	rig_close(&r);
}

static void refused_hellos_are_one_record_and_a_count(void **state)
{
	enum { TIMES = 20 };
	struct rig r;

	(void)state;
	rig_open(&r);
	for (int i = 0; i < TIMES; i++) {
		struct peer c;

		client_plain(&r, &c, "api.test");
		peer_send(&c, "\x16 is no hello");
		rig_until(&r, c.ended);
		peer_close(&c);
	}
	rig_until(&r, log_has(&r, "\"count\":"));
	assert_true(lines_with(&r, "bad-hello") <= 8);
	assert_int_equal(lines_with(&r, "\"phase\":\"open\""), 0);
	rig_close(&r);
}

static void a_connection_that_says_nothing_names_no_rule(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	client_plain(&r, &c, "api.test");
	stream_finish(c.stream);
	stream_settle(c.stream);
	rig_until(&r, log_has(&r, "closed before the first byte"));
	assert_false(log_has(&r, "\"rule\""));
	peer_close(&c);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_refusal_shares_the_firsts_id_and_is_counted),
		cmocka_unit_test(whatever_differs_is_another_kind),
		cmocka_unit_test(what_could_not_be_written_is_a_first_again),
		cmocka_unit_test(kinds_without_room_share_an_id_that_is_on_record),
		cmocka_unit_test(denied_requests_are_one_record_and_a_count),
		cmocka_unit_test(allowed_requests_are_each_on_record),
		cmocka_unit_test(refused_hellos_are_one_record_and_a_count),
		cmocka_unit_test(a_connection_that_says_nothing_names_no_rule),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
