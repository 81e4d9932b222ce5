/* What a peer does that means no good: it ends the session, with the right word, and nothing grows. */
#include "tests/unit/proxy/h2_rig.h"

#include <stdlib.h>

#define FLOOD 5000

static void expect_end(enum h2_code code)
{
	spin();
	assert_true(h2_failed(pair.server.h));
	assert_true(h2_over(pair.server.h));
	assert_int_equal(got_code(7, 0), code);
	/* What still comes is read past. */
	raw_get(100001);
	spin();
	assert_int_equal(h2_count(pair.server.h), 0);
}

static void flood(uint8_t type, uint8_t flags, uint32_t id, const void *p, size_t n)
{
	for (int i = 0; i < FLOOD && !h2_failed(pair.server.h); i++) {
		raw_frame(type, flags, id, p, n);
		spin();
	}
}

static void pings(void **state)
{
	(void)state;
	flood(6, 0, 0, "12345678", 8);
	expect_end(H2_ENHANCE_YOUR_CALM);
}

static void answers_to_pings(void **state)
{
	(void)state;
	flood(6, 1, 0, "12345678", 8);
	expect_end(H2_ENHANCE_YOUR_CALM);
}

static void settings(void **state)
{
	(void)state;
	flood(4, 0, 0, "\0\3\0\0\0\1", 6);
	expect_end(H2_ENHANCE_YOUR_CALM);
}

static void many_settings_in_one_frame(void **state)
{
	static char entries[6 * 200];

	(void)state;
	for (size_t i = 0; i < 200; i++)
		memcpy(entries + 6 * i, "\0\3\0\0\0\1", 6);
	raw_frame(4, 0, 0, entries, sizeof(entries));
	expect_end(H2_ENHANCE_YOUR_CALM);
}

static void empty_bodies(void **state)
{
	(void)state;
	raw_frame(1, END_HEADERS, 1, RAW_GET, sizeof(RAW_GET) - 1);
	flood(0, 0, 1, "", 0);
	expect_end(H2_ENHANCE_YOUR_CALM);
}

static void priorities(void **state)
{
	(void)state;
	flood(2, 0, 3, "\0\0\0\0\1", 5);
	expect_end(H2_ENHANCE_YOUR_CALM);
}

static void window_updates(void **state)
{
	(void)state;
	flood(8, 0, 0, "\0\0\0\1", 4);
	expect_end(H2_ENHANCE_YOUR_CALM);
}

/* They cost no more than their bytes (RFC 9113 5.5). */
static void unknown_frames_are_read_past(void **state)
{
	(void)state;
	flood(0x77, 0, 0, "x", 1);
	raw_get(1);
	spin();
	assert_false(h2_failed(pair.server.h));
	assert_int_equal(pair.server.n_opened, 1);
}

static void a_window_that_overflows(void **state)
{
	(void)state;
	raw_frame(8, 0, 0, "\x7f\xff\xff\xff", 4);
	spin();
	assert_int_equal(got_code(7, 0), 3);	/* FLOW_CONTROL_ERROR */
	assert_true(h2_over(pair.server.h));
}

/* CVE-2023-44487. The owners hear of each, so that they can end what they have begun. */
static void on_open_leave_when_moved(struct side *side, struct h2_stream *s)
{
	(void)s;
	side->n_opened = 0;
}

static void on_move_leave(struct side *side, struct h2_stream *s)
{
	(void)side;
	h2_leave(s);
}

static void break_off(uint32_t id)
{
	raw_get(id);
	spin();
	raw_frame(3, 0, id, "\0\0\0\x08", 4);
	spin();
}

static void streams_that_are_broken_off_at_once(void **state)
{
	uint32_t n = 0;

	(void)state;
	pair.server.on_open = on_open_leave_when_moved;
	pair.server.on_move = on_move_leave;
	for (; n < FLOOD && !h2_failed(pair.server.h); n++)
		break_off(2 * n + 1);
	assert_true(n <= 2 * H2_BREAKS_MAX);
	expect_end(H2_ENHANCE_YOUR_CALM);
}

static void on_open_answer(struct side *side, struct h2_stream *s)
{
	struct fields none;

	fields_init(&none, 64);
	h2_answer(s, 204, &none);
	h2_end(s, NULL);
	h2_leave(s);
	side->n_opened = 0;
}

static void many_streams_one_after_the_other_are_welcome(void **state)
{
	(void)state;
	pair.server.on_open = on_open_answer;
	for (uint32_t i = 0; i < FLOOD; i++) {
		raw_get(2 * i + 1);
		spin();
		pair.got.n = 0;
	}
	assert_false(h2_failed(pair.server.h));
	assert_int_equal(h2_count(pair.server.h), 0);
}

static void malformed_requests_without_end(void **state)
{
	uint32_t n = 0;

	(void)state;
	for (; n < FLOOD && !h2_failed(pair.server.h); n++) {
		raw_frame(1, END_STREAM | END_HEADERS, 2 * n + 1, "\x84", 1);
		spin();
	}
	assert_true(n <= 2 * H2_BREAKS_MAX);
	expect_end(H2_ENHANCE_YOUR_CALM);
}

static void more_streams_than_may_be_open(void **state)
{
	uint32_t id = 1;

	(void)state;
	raw_frame(4, 1, 0, "", 0);
	pair.server.on_open = on_open_leave_when_moved;
	for (; id <= 2 * H2_STREAMS_MAX + 1; id += 2) {
		raw_get(id);
		spin();
	}
	assert_true(h2_over(pair.server.h) || got_code(3, id - 2) == H2_REFUSED_STREAM);
	assert_true(h2_count(pair.server.h) <= H2_STREAMS_MAX);
}

/* ---- heads ---- */

static void continuations_without_end(void **state)
{
	(void)state;
	raw_frame(1, END_STREAM, 1, RAW_GET, sizeof(RAW_GET) - 1);
	flood(9, 0, 1, "", 0);
	expect_end(H2_ENHANCE_YOUR_CALM);
}

/* A literal that is indexed, and then named again and again, one byte each. */
static void a_head_that_unpacks_to_far_more_than_it_is(void **state)
{
	static char head[16000];
	size_t n = sizeof(RAW_GET) - 1;

	(void)state;
	memcpy(head, RAW_GET, n);
	memcpy(head + n, "\x40\x01x\x7f\x91\x1e", 6);	/* 4000 bytes of value */
	memset(head + n + 6, 'v', 4000);
	memset(head + n + 4006, 0xbe, sizeof(head) - n - 4006);
	raw_frame(1, END_STREAM | END_HEADERS, 1, head, sizeof(head));
	expect_end(H2_ENHANCE_YOUR_CALM);
	assert_int_equal(pair.server.n_opened, 0);
}

static void a_head_over_the_limit_is_told_without_its_fields(void **state)
{
	static char head[16384];
	size_t n = sizeof(RAW_GET) - 1;

	(void)state;
	memcpy(head, RAW_GET, n);
	while (n + 5 < 4000) {
		memcpy(head + n, "\x40\x01x\x01y", 5);
		n += 5;
	}
	raw_frame(1, END_STREAM | END_HEADERS, 1, head, n);
	spin();
	assert_int_equal(pair.server.n_opened, 1);
	assert_true(pair.server.opened[0]->too_large);
	assert_str(pair.server.opened[0]->head.authority, "box.local");
	assert_int_equal(pair.server.opened[0]->head.fields.n, 0);
	assert_false(h2_failed(pair.server.h));
	/* The connection goes on, and so does its HPACK. */
	raw_get(3);
	spin();
	assert_int_equal(pair.server.n_opened, 2);
	assert_false(pair.server.opened[1]->too_large);
}

static void trailers_over_the_limit_break_the_stream_off(void **state)
{
	static char trailers[16384];

	(void)state;
	raw_frame(1, END_HEADERS, 1, RAW_GET, sizeof(RAW_GET) - 1);
	spin();
	for (size_t i = 0; i + 5 <= 2000; i += 5)
		memcpy(trailers + i, "\x40\x01x\x01y", 5);
	raw_frame(1, END_STREAM | END_HEADERS, 1, trailers, 2000);
	spin();
	assert_true(pair.server.opened[0]->reset);
	assert_false(pair.server.opened[0]->ended);
	assert_false(h2_failed(pair.server.h));
}

static void another_preface(void **state)
{
	int fds[2];

	pair_teardown(state);
	pair_begin(fds);
	pair.other = fds[0];
	side_open(&pair.server, fds[1], true, 16384);
	raw("GET / HTTP/1.1\r\nHost: box.local\r\n\r\n", 35);
	expect_end(H2_PROTOCOL_ERROR);
}

static void a_frame_that_is_longer_than_allowed(void **state)
{
	(void)state;
	raw("\0\x50\0\0\0\0\0\0\1", 9);
	spin();
	assert_int_equal(got_code(7, 0), 6);	/* FRAME_SIZE_ERROR */
	assert_true(h2_over(pair.server.h));
}

/* A peer that never reads: what waits for it stays bounded. */
static void answers_that_nobody_reads(void **state)
{
	int other = pair.other;

	(void)state;
	for (int i = 0; i < FLOOD && !h2_failed(pair.server.h); i++) {
		pair.other = other;
		raw_frame(6, 0, 0, "12345678", 8);
		pair.other = -1;
		event_base_loop(pair.base, EVLOOP_NONBLOCK);
		assert_true(stream_queued(pair.server.stream) < STREAM_HIGH + 65536);
	}
	pair.other = other;
	expect_end(H2_ENHANCE_YOUR_CALM);
}

/* ---- an origin that means no good ---- */

static void interim_heads_without_end(void **state)
{
	struct h2_request r = { .method = STR("GET"), .scheme = STR("https"),
				.authority = STR("api.test"), .path = STR("/") };
	struct h2_stream *c = h2_request(pair.client.h, NULL, &r);

	(void)state;
	h2_end(c, NULL);
	spin();
	for (unsigned i = 0; i <= H2_INTERIMS_MAX; i++)
		raw_frame(1, END_HEADERS, 1, "\x48\x03" "103", 5);
	spin();
	assert_true(c->reset);
	assert_int_equal(c->interims_n, H2_INTERIMS_MAX);
	assert_false(h2_failed(pair.client.h));
	h2_leave(c);
}

static void pushes(void **state)
{
	struct h2_request r = { .method = STR("GET"), .scheme = STR("https"),
				.authority = STR("api.test"), .path = STR("/") };
	struct h2_stream *c = h2_request(pair.client.h, NULL, &r);

	(void)state;
	h2_end(c, NULL);
	spin();
	raw_frame(4, 1, 0, "", 0);
	raw_frame(5, END_HEADERS, 1, "\0\0\0\2" RAW_GET, 4 + sizeof(RAW_GET) - 1);
	spin();
	assert_true(c->reset);
	assert_true(h2_failed(pair.client.h));
	assert_int_equal(got_code(7, 0), H2_PROTOCOL_ERROR);
	h2_leave(c);
}


int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(pings, raw_server_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(answers_to_pings, raw_server_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(settings, raw_server_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(many_settings_in_one_frame, raw_server_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(empty_bodies, raw_server_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(priorities, raw_server_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(window_updates, raw_server_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(unknown_frames_are_read_past, raw_server_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(a_window_that_overflows, raw_server_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(streams_that_are_broken_off_at_once, raw_server_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(many_streams_one_after_the_other_are_welcome, raw_server_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(malformed_requests_without_end, raw_server_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(more_streams_than_may_be_open, raw_server_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(continuations_without_end, raw_server_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(a_head_that_unpacks_to_far_more_than_it_is, raw_server_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(a_head_over_the_limit_is_told_without_its_fields, raw_server_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(trailers_over_the_limit_break_the_stream_off, raw_server_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(another_preface, raw_server_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(a_frame_that_is_longer_than_allowed, raw_server_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(answers_that_nobody_reads, raw_server_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(interim_heads_without_end, raw_client_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(pushes, raw_client_setup, pair_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
