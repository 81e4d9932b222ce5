#include "tests/unit/proxy/h2_rig.h"

#include <nghttp2/nghttp2.h>
#include <stdlib.h>

static struct fields sent;

static void add(const char *name, const char *value)
{
	fields_add(&sent, str_of(name), str_of(value));
}

static int setup(void **state)
{
	fields_init(&sent, 65536);
	return both_setup(state);
}

static int teardown(void **state)
{
	fields_free(&sent);
	return pair_teardown(state);
}

static struct h2_stream *ask_for(const char *method, const char *path)
{
	struct h2_request r = { .method = str_of(method), .scheme = STR("https"),
				.authority = STR("api.test"), .path = str_of(path), .fields = &sent };
	struct h2_stream *s = h2_request(pair.client.h, NULL, &r);

	assert_non_null(s);
	return s;
}

static struct h2_stream *get(void)
{
	struct h2_stream *s = ask_for("GET", "/");

	h2_end(s, NULL);
	return s;
}

static struct h2_stream *opened(unsigned i)
{
	assert_true(pair.server.n_opened > i);
	return pair.server.opened[i];
}

static void answer_whole(struct h2_stream *s, const char *body)
{
	struct fields none;

	fields_init(&none, 64);
	h2_answer(s, 200, &none);
	h2_put(s, str_of(body));
	h2_end(s, NULL);
	fields_free(&none);
}

/* ---- messages ---- */

static void a_request_and_its_answer_cross_as_they_were_given(void **state)
{
	struct h2_stream *c, *s;

	(void)state;
	add("Accept", "*/*");
	add("X-Empty", "");
	add("Connection", "close");
	add("Host", "other.test");
	c = ask_for("POST", "/a?b=c");
	h2_put(c, STR("hello"));
	h2_end(c, NULL);
	spin();
	s = opened(0);
	assert_str(s->head.method, "POST");
	assert_str(s->head.scheme, "https");
	assert_str(s->head.authority, "api.test");
	assert_str(s->head.path, "/a?b=c");
	assert_null(s->head.protocol.p);
	assert_int_equal(s->head.fields.n, 2);
	assert_str(fields_name(&s->head.fields, 0), "accept");
	assert_str(field(&s->head.fields, "x-empty"), "");
	assert_str(h2_body(s), "hello");
	assert_true(s->ended);
	fields_clear(&sent);
	add("Server", "it");
	add("Content-Length", "3");
	h2_answer(s, 201, &sent);
	h2_put(s, STR("yes"));
	h2_end(s, NULL);
	h2_leave(s);
	spin();
	assert_int_equal(c->head.status, 201);
	assert_true(c->head.has_length);
	assert_int_equal(c->head.length, 3);
	assert_str(field(&c->head.fields, "server"), "it");
	assert_str(h2_body(c), "yes");
	assert_true(c->ended);
	assert_false(c->reset);
	h2_leave(c);
	spin();
	assert_int_equal(h2_count(pair.client.h), 0);
	assert_int_equal(h2_count(pair.server.h), 0);
}

/* One frame where there is no body: a head that ends the stream. */
static void a_message_without_body_ends_with_its_head(void **state)
{
	struct h2_stream *c = get(), *s;

	(void)state;
	spin();
	s = opened(0);
	assert_true(s->ended);
	assert_int_equal(pair.server.n_moved, 0);
	h2_answer(s, 204, &sent);
	h2_end(s, NULL);
	h2_leave(s);
	spin();
	assert_true(c->ended);
	assert_int_equal(pair.client.n_moved, 1);
	h2_leave(c);
}

static void answers_before_the_answer_come_in_order(void **state)
{
	struct h2_stream *c = get(), *s;

	(void)state;
	spin();
	s = opened(0);
	h2_send_interim(s, 100, &sent);
	add("Link", "</a.css>");
	h2_send_interim(s, 103, &sent);
	answer_whole(s, "x");
	h2_leave(s);
	spin();
	assert_int_equal(c->interims->status, 100);
	h2_drop_interim(c);
	assert_int_equal(c->interims->status, 103);
	assert_str(field(&c->interims->fields, "link"), "</a.css>");
	h2_drop_interim(c);
	assert_null(c->interims);
	assert_int_equal(c->head.status, 200);
	assert_int_equal(c->head.fields.n, 0);
	h2_leave(c);
}

static void trailers_come_behind_the_body_both_ways(void **state)
{
	struct h2_stream *c = ask_for("POST", "/"), *s;

	(void)state;
	add("Grpc-Status", "0");
	h2_put(c, STR("in"));
	h2_end(c, &sent);
	spin();
	s = opened(0);
	assert_str(h2_body(s), "in");
	assert_str(field(&s->trailers, "grpc-status"), "0");
	h2_answer(s, 200, &s->head.fields);
	h2_end(s, &sent);
	h2_leave(s);
	spin();
	assert_int_equal(c->head.status, 200);
	assert_str(field(&c->trailers, "grpc-status"), "0");
	assert_true(c->ended);
	h2_leave(c);
}

static void crumbs_of_cookies_are_one_field_and_set_cookies_stay_apart(void **state)
{
	struct h2_stream *c, *s;

	(void)state;
	add("cookie", "a=1");
	add("accept", "x");
	add("cookie", "b=2");
	add("cookie", "c=3");
	c = get();
	spin();
	s = opened(0);
	assert_str(field(&s->head.fields, "cookie"), "a=1; b=2; c=3");
	assert_int_equal(s->head.fields.n, 2);
	fields_clear(&sent);
	add("set-cookie", "a=1");
	add("set-cookie", "b=2");
	h2_answer(s, 200, &sent);
	h2_end(s, NULL);
	h2_leave(s);
	spin();
	assert_int_equal(c->head.fields.n, 2);
	h2_leave(c);
}

/* ---- HPACK ---- */

/* What is in the raw peer's first HEADERS: which fields may not be indexed? */
static void look_at_head(const char *secret, bool *never)
{
	const uint8_t *p = (const uint8_t *)pair.got.p + 24;
	const uint8_t *end = (const uint8_t *)pair.got.p + pair.got.n;
	nghttp2_hd_inflater *hd;
	size_t n = 0;

	assert_int_equal(nghttp2_hd_inflate_new(&hd), 0);
	for (; p < end; p += 9 + n) {
		n = (size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2];
		if (p[3] == NGHTTP2_HEADERS)
			break;
	}
	assert_true(p < end);
	for (const uint8_t *in = p + 9, *stop = in + n; in < stop;) {
		nghttp2_nv nv;
		int flags = 0;
		ssize_t took = nghttp2_hd_inflate_hd2(hd, &nv, &flags, in, (size_t)(stop - in), 1);

		assert_true(took >= 0);
		in += took;
		if (flags & NGHTTP2_HD_INFLATE_EMIT &&
		    str_eq(str_n((char *)nv.name, nv.namelen), str_of(secret)))
			*never = nv.flags & NGHTTP2_NV_FLAG_NO_INDEX;
	}
	nghttp2_hd_inflate_del(hd);
}

static bool is_never_indexed(const char *name, const char *value, bool flagged)
{
	struct fields secrets;
	struct h2_request r = { .method = STR("GET"), .scheme = STR("https"),
				.authority = STR("api.test"), .path = STR("/"), .fields = &sent };
	bool never = false;

	raw_client_setup(NULL);
	fields_init(&secrets, 100);
	fields_add(&secrets, str_of(flagged ? name : "x-other"), STR("whatever"));
	r.secrets = &secrets;
	fields_clear(&sent);
	add(name, value);
	h2_end(h2_request(pair.client.h, NULL, &r), NULL);
	spin();
	look_at_head(name, &never);
	fields_free(&secrets);
	pair_teardown(NULL);
	return never;
}

static void what_may_hold_a_credential_is_never_indexed(void **state)
{
	(void)state;
	fields_init(&sent, 65536);
	assert_true(is_never_indexed("authorization", "Bearer abc", false));
	assert_true(is_never_indexed("cookie", "a=1", false));
	assert_false(is_never_indexed("cookie", "a=a-long-value-that-nobody-guesses", false));
	assert_true(is_never_indexed("x-api-key", "abc", true));
	assert_false(is_never_indexed("x-api-key", "abc", false));
	fields_free(&sent);
}

/* ---- windows and queues ---- */

static char megabyte[1 << 20];

static void put_much(struct h2_stream *s, size_t n)
{
	for (size_t piece; n; n -= piece) {
		piece = n < 65536 ? n : 65536;
		h2_put(s, str_n(megabyte, piece));
	}
}

static void a_reader_that_takes_nothing_holds_its_own_stream_alone(void **state)
{
	struct h2_stream *slow = get(), *fast, *s;

	(void)state;
	spin();
	s = opened(0);
	h2_answer(s, 200, &sent);
	for (int i = 0; i < 16; i++) {
		put_much(s, 65536);
		spin();
	}
	/* The window, and what still waits. */
	assert_int_equal(h2_body(slow).n, H2_STREAM_WINDOW);
	assert_true(h2_full(s));
	fast = get();
	spin();
	answer_whole(opened(1), "quick");
	h2_leave(opened(1));
	spin();
	assert_str(h2_body(fast), "quick");
	assert_true(fast->ended);
	h2_leave(fast);
	/* What is taken makes room for more of it. */
	h2_take(slow, H2_STREAM_WINDOW);
	spin();
	assert_int_equal(h2_body(slow).n, H2_STREAM_WINDOW);
	h2_leave(slow);
	spin();
	assert_true(s->reset);
	assert_int_equal(s->code, H2_CANCEL);
	h2_leave(s);
}

/* Whoever holds all of a session's window holds it up; none that leaves takes any of it along. */
static void what_was_not_taken_is_given_back_with_its_stream(void **state)
{
	size_t rounds = 3 * H2_WINDOW / H2_STREAM_WINDOW;

	(void)state;
	for (size_t i = 0; i < rounds; i++) {
		struct h2_stream *c = get(), *s;

		pair.server.n_opened = 0;
		spin();
		s = opened(0);
		h2_answer(s, 200, &sent);
		put_much(s, H2_STREAM_WINDOW);
		spin();
		assert_int_equal(h2_body(c).n, H2_STREAM_WINDOW);
		h2_leave(c);
		spin();
		h2_leave(s);
	}
}

static void a_full_stream_says_so_until_it_has_room_and_then_moves(void **state)
{
	struct h2_stream *c = get(), *s;

	(void)state;
	spin();
	s = opened(0);
	h2_answer(s, 200, &sent);
	put_much(s, H2_OUT_HIGH - 1);
	assert_false(h2_full(s));
	put_much(s, 1);
	assert_true(h2_full(s));
	spin();
	assert_false(h2_full(s));
	assert_int_equal(pair.server.n_moved, 1);
	assert_int_equal(h2_body(c).n, H2_OUT_HIGH);
	h2_end(s, NULL);
	h2_leave(s);
	h2_leave(c);
}

static void a_long_body_passes_whole_through_small_windows(void **state)
{
	struct h2_stream *c = get(), *s;
	size_t left = 32u << 20, got = 0;

	(void)state;
	spin();
	s = opened(0);
	h2_answer(s, 200, &sent);
	while (left) {
		while (left && !h2_full(s)) {
			h2_put(s, str_n(megabyte, 16384));
			left -= 16384;
		}
		spin();
		got += h2_body(c).n;
		h2_take(c, h2_body(c).n);
	}
	h2_end(s, NULL);
	h2_leave(s);
	spin();
	got += h2_body(c).n;
	assert_int_equal(got, 32u << 20);
	assert_true(c->ended);
	h2_leave(c);
}

/* More than the connection takes at once: it is left off in the middle, and goes on. */
static void long_bodies_of_many_streams_take_turns(void **state)
{
	enum { MANY = 8, PIECES = 500 };
	struct h2_stream *c[MANY];
	unsigned put[MANY] = { 0 }, whole = 0;
	size_t got[MANY] = { 0 };

	(void)state;
	for (int i = 0; i < MANY; i++)
		c[i] = get();
	spin();
	for (int i = 0; i < MANY; i++)
		h2_answer(opened((unsigned)i), 200, &sent);
	for (int rounds = 0; rounds < 10000 && whole < MANY; rounds++) {
		for (unsigned i = 0; i < MANY; i++) {
			for (; put[i] < PIECES && !h2_full(opened(i)); put[i]++)
				h2_put(opened(i), str_n(megabyte, 16384));
			if (put[i] == PIECES)
				h2_end(opened(i), NULL);
			got[i] += h2_body(c[i]).n;
			h2_take(c[i], h2_body(c[i]).n);
		}
		h2_write(pair.client.h);
		stream_settle(pair.client.stream);
		event_base_loop(pair.base, EVLOOP_NONBLOCK);
		h2_write(pair.server.h);
		stream_settle(pair.server.stream);
		whole = 0;
		for (unsigned i = 0; i < MANY; i++)
			whole += c[i]->ended && h2_body(c[i]).n == 0;
	}
	for (unsigned i = 0; i < MANY; i++) {
		assert_int_equal(got[i], (size_t)PIECES * 16384);
		assert_true(c[i]->ended);
		h2_leave(opened(i));
		h2_leave(c[i]);
	}
}

static void an_owner_that_does_not_ask_has_its_stream_reset(void **state)
{
	struct h2_stream *c = get(), *s;

	(void)state;
	spin();
	s = opened(0);
	h2_answer(s, 200, &sent);
	put_much(s, H2_OUT_MAX + 1);
	h2_end(s, NULL);
	spin();
	assert_true(c->reset);
	assert_int_equal(c->code, H2_INTERNAL_ERROR);
	assert_false(c->ended);
	h2_leave(s);
	h2_leave(c);
}

static void what_is_held_waits_and_other_streams_do_not(void **state)
{
	struct h2_stream *held = get(), *other = get();

	(void)state;
	spin();
	h2_hold(opened(0), true);
	answer_whole(opened(0), "late");
	answer_whole(opened(1), "now");
	spin();
	assert_true(other->ended);
	assert_int_equal(held->head.status, 200);
	assert_int_equal(h2_body(held).n, 0);
	assert_false(held->ended);
	h2_hold(opened(0), false);
	h2_leave(opened(0));
	h2_leave(opened(1));
	spin();
	assert_str(h2_body(held), "late");
	assert_true(held->ended);
	h2_leave(held);
	h2_leave(other);
}

/* ---- ends ---- */

static void an_answer_before_the_requests_end_is_whole_and_stops_the_request(void **state)
{
	struct h2_stream *c = ask_for("POST", "/"), *s;

	(void)state;
	h2_put(c, STR("some"));
	spin();
	s = opened(0);
	answer_whole(s, "no more, please");
	h2_leave(s);
	spin();
	assert_str(h2_body(c), "no more, please");
	assert_true(c->ended);
	assert_false(c->reset);
	h2_put(c, STR("into the void"));
	h2_leave(c);
	spin();
	assert_int_equal(h2_count(pair.client.h), 0);
	assert_int_equal(h2_count(pair.server.h), 0);
	assert_false(h2_failed(pair.server.h));
}

static void a_client_that_leaves_cancels(void **state)
{
	struct h2_stream *c = get(), *s;

	(void)state;
	spin();
	s = opened(0);
	h2_leave(c);
	spin();
	assert_true(s->reset);
	assert_int_equal(s->code, H2_CANCEL);
	assert_int_equal(pair.server.n_moved, 1);
	h2_leave(s);
	spin();
	assert_int_equal(h2_count(pair.server.h), 0);
}

static void a_server_that_leaves_midway_never_ends_it_cleanly(void **state)
{
	struct h2_stream *c = get(), *s;

	(void)state;
	spin();
	s = opened(0);
	h2_answer(s, 200, &sent);
	h2_put(s, STR("half"));
	spin();
	h2_leave(s);
	spin();
	assert_true(c->reset);
	assert_false(c->ended);
	assert_int_equal(c->code, H2_INTERNAL_ERROR);
	assert_false(c->unprocessed);
	h2_leave(c);
}

static void a_request_that_was_never_sent_leaves_no_trace(void **state)
{
	struct h2_stream *c = ask_for("POST", "/");

	(void)state;
	h2_put(c, STR("x"));
	h2_leave(c);
	spin();
	assert_int_equal(pair.server.n_opened, 0);
	assert_int_equal(h2_count(pair.client.h), 0);
}

static void a_refused_request_is_unprocessed(void **state)
{
	struct h2_stream *c = get();

	(void)state;
	spin();
	h2_reset(opened(0), H2_REFUSED_STREAM);
	h2_leave(opened(0));
	spin();
	assert_true(c->reset && c->unprocessed);
	h2_leave(c);
}

static void after_a_goaway_what_lives_goes_on_and_nothing_new_comes(void **state)
{
	struct h2_stream *c = get();

	(void)state;
	spin();
	h2_goaway(pair.server.h, H2_NO_ERROR);
	spin();
	assert_false(h2_can_open(pair.client.h));
	assert_false(h2_over(pair.server.h));
	answer_whole(opened(0), "last");
	h2_leave(opened(0));
	spin();
	assert_str(h2_body(c), "last");
	assert_true(h2_over(pair.server.h));
	h2_leave(c);
	spin();
	assert_true(h2_over(pair.client.h));
	assert_false(h2_failed(pair.client.h));
}

static void the_end_of_the_connection_resets_what_is_not_whole(void **state)
{
	struct h2_stream *whole = get(), *half = get();

	(void)state;
	spin();
	answer_whole(opened(0), "all of it");
	h2_leave(opened(0));
	h2_answer(opened(1), 200, &sent);
	h2_put(opened(1), STR("some"));
	spin();
	side_close(&pair.server);
	spin();
	assert_true(h2_failed(pair.client.h));
	assert_true(whole->ended && !whole->reset);
	assert_true(half->reset && !half->ended && !half->unprocessed);
	assert_str(h2_body(half), "some");
	h2_leave(half);
	h2_leave(whole);
	assert_false(h2_can_open(pair.client.h));
}

static void a_client_opens_as_many_as_it_may(void **state)
{
	struct h2_stream *all[H2_STREAMS_MAX];

	(void)state;
	pair.server.n_opened = 0;
	for (unsigned i = 0; i < H2_STREAMS_MAX; i++)
		all[i] = get();
	assert_false(h2_can_open(pair.client.h));
	h2_leave(all[0]);
	assert_true(h2_can_open(pair.client.h));
}

/* ---- raw peers ---- */

static void a_stream_behind_the_last_of_a_goaway_is_unprocessed(void **state)
{
	struct h2_stream *first, *second;

	(void)state;
	fields_init(&sent, 1000);
	first = get();
	second = get();
	spin();
	raw_frame(7, 0, 0, "\0\0\0\1\0\0\0\0", 8);
	spin();
	assert_false(first->reset);
	assert_true(second->reset && second->unprocessed);
	raw_frame(1, END_STREAM | END_HEADERS, 1, "\x88", 1);
	spin();
	assert_true(first->ended);
	h2_leave(first);
	h2_leave(second);
	fields_free(&sent);
}

static void a_reset_behind_a_whole_answer_takes_nothing_away(void **state)
{
	struct h2_stream *c;

	(void)state;
	fields_init(&sent, 1000);
	c = ask_for("POST", "/");
	h2_put(c, STR("some"));
	spin();
	raw_frame(1, END_HEADERS, 1, "\x88", 1);
	raw_frame(0, END_STREAM, 1, "whole", 5);
	raw_frame(3, 0, 1, "\0\0\0\0", 4);
	spin();
	assert_true(c->ended && !c->reset);
	assert_str(h2_body(c), "whole");
	h2_leave(c);
	fields_free(&sent);
}

static void malformed_requests_are_reset_and_nobody_hears_of_them(void **state)
{
	static const char *const heads[] = {
		RAW_GET "\x40\x05" "X-Upp" "\x01" "a",		/* upper case */
		RAW_GET "\x40\x01" "x" "\x02" " a",		/* a space before the value */
		RAW_GET "\x40\x01" "x" "\x02" "a\t",
		RAW_GET "\x40\x01" "x" "\x02" "a\n",
		RAW_GET "\x40\x03" "a b" "\x01" "a",		/* no token */
		RAW_GET "\x40\x0a" "connection" "\x05" "close",
		RAW_GET "\x40\x11" "transfer-encoding" "\x07" "chunked",
		RAW_GET "\x40\x02" "te" "\x04" "gzip",
		RAW_GET "\x40\x04" ":new" "\x01" "a",
		RAW_GET "\x40\x01" "x" "\x01" "a" "\x82",	/* a pseudo field behind others */
		RAW_GET "\x82",					/* twice */
		RAW_GET "\x0f\x0d" "\x01" "5",			/* a length, and no body */
		"\x82\x87\x84",					/* no authority and no host */
		"\x82\x84\x41\x09" "box.local",			/* no scheme */
	};
	uint32_t id = 1;

	(void)state;
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++, id += 2) {
		raw_frame(1, END_STREAM | END_HEADERS, id, heads[i], strlen(heads[i]));
		spin();
		if (got_code(3, id) != H2_PROTOCOL_ERROR)
			fail_msg("head %zu", i);
	}
	assert_int_equal(pair.server.n_opened, 0);
	assert_int_equal(h2_count(pair.server.h), 0);
	assert_false(h2_failed(pair.server.h));
}

static void te_trailers_passes(void **state)
{
	(void)state;
	raw_frame(1, END_STREAM | END_HEADERS, 1, RAW_GET "\x40\x02" "te" "\x08" "trailers",
		  sizeof(RAW_GET) + 12);
	spin();
	assert_str(field(&opened(0)->head.fields, "te"), "trailers");
}

static void padding_and_priorities_are_read_past(void **state)
{
	(void)state;
	raw_frame(2, 0, 5, "\x80\0\0\3\x10", 5);
	raw_frame(1, 0x08 | 0x20 | END_HEADERS, 1, "\x04" "\0\0\0\7\xff" RAW_GET "\0\0\0\0",
		  6 + sizeof(RAW_GET) - 1 + 4);
	raw_frame(0, 0x08 | END_STREAM, 1, "\x03" "body" "\0\0\0", 8);
	spin();
	assert_str(opened(0)->head.authority, "box.local");
	assert_str(h2_body(opened(0)), "body");
	assert_true(opened(0)->ended);
	assert_false(h2_failed(pair.server.h));
}

/* Behind a head that lacks its end nothing else can come. */
static void a_head_that_is_not_whole_is_known(void **state)
{
	(void)state;
	assert_false(h2_in_head(pair.server.h));
	raw_frame(1, END_STREAM, 1, RAW_GET, sizeof(RAW_GET) - 1);
	spin();
	assert_true(h2_in_head(pair.server.h));
	assert_int_equal(pair.server.n_opened, 0);
	raw_frame(9, END_HEADERS, 1, "\x40\x01x\x01y", 5);
	spin();
	assert_false(h2_in_head(pair.server.h));
	assert_int_equal(pair.server.n_opened, 1);
}

static void a_request_broken_off_before_anybody_heard_of_it_is_not_told(void **state)
{
	(void)state;
	raw_get(1);
	raw_frame(3, 0, 1, "\0\0\0\x08", 4);
	raw_get(3);
	spin();
	assert_int_equal(pair.server.n_opened, 1);
	assert_int_equal(opened(0)->id, 3);
}

static void answer_at_once(struct side *side, struct h2_stream *s)
{
	side->n_opened = 0;
	answer_whole(s, "no more, please");
	h2_leave(s);
}

/* A client may see the answer only when it has sent all; but not all can be waited for. */
static void what_goes_on_after_its_answer_is_read_past_and_stopped_where_it_is_too_much(void **state)
{
	static char body[16384];

	(void)state;
	pair.server.on_open = answer_at_once;
	for (uint32_t i = 0; i < H2_LINGERING_MAX; i++)
		raw_frame(1, END_HEADERS, 2 * i + 1, RAW_GET, sizeof(RAW_GET) - 1);
	spin();
	for (int i = 0; i < 40; i++) {
		raw_frame(0, 0, 1, body, sizeof(body));
		spin();
	}
	assert_int_equal(got_code(3, 1), -1);
	assert_false(h2_failed(pair.server.h));
	assert_true(h2_deadline(pair.server.h) > 0);
	raw_frame(1, END_HEADERS, 2 * H2_LINGERING_MAX + 1, RAW_GET, sizeof(RAW_GET) - 1);
	spin();
	assert_int_equal(got_code(3, 1), H2_NO_ERROR);
	assert_int_equal(got_code(3, 3), -1);
	raw_frame(0, END_STREAM, 3, body, 1);
	spin();
	assert_int_equal(h2_count(pair.server.h), H2_LINGERING_MAX - 1);
}


int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_request_and_its_answer_cross_as_they_were_given, setup, teardown),
		cmocka_unit_test_setup_teardown(a_message_without_body_ends_with_its_head, setup, teardown),
		cmocka_unit_test_setup_teardown(answers_before_the_answer_come_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(trailers_come_behind_the_body_both_ways, setup, teardown),
		cmocka_unit_test_setup_teardown(crumbs_of_cookies_are_one_field_and_set_cookies_stay_apart, setup, teardown),
		cmocka_unit_test(what_may_hold_a_credential_is_never_indexed),
		cmocka_unit_test_setup_teardown(a_reader_that_takes_nothing_holds_its_own_stream_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(what_was_not_taken_is_given_back_with_its_stream, setup, teardown),
		cmocka_unit_test_setup_teardown(a_full_stream_says_so_until_it_has_room_and_then_moves, setup, teardown),
		cmocka_unit_test_setup_teardown(a_long_body_passes_whole_through_small_windows, setup, teardown),
		cmocka_unit_test_setup_teardown(long_bodies_of_many_streams_take_turns, setup, teardown),
		cmocka_unit_test_setup_teardown(an_owner_that_does_not_ask_has_its_stream_reset, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_held_waits_and_other_streams_do_not, setup, teardown),
		cmocka_unit_test_setup_teardown(an_answer_before_the_requests_end_is_whole_and_stops_the_request, setup, teardown),
		cmocka_unit_test_setup_teardown(a_client_that_leaves_cancels, setup, teardown),
		cmocka_unit_test_setup_teardown(a_server_that_leaves_midway_never_ends_it_cleanly, setup, teardown),
		cmocka_unit_test_setup_teardown(a_request_that_was_never_sent_leaves_no_trace, setup, teardown),
		cmocka_unit_test_setup_teardown(a_refused_request_is_unprocessed, setup, teardown),
		cmocka_unit_test_setup_teardown(after_a_goaway_what_lives_goes_on_and_nothing_new_comes, setup, teardown),
		cmocka_unit_test_setup_teardown(the_end_of_the_connection_resets_what_is_not_whole, setup, teardown),
		cmocka_unit_test_setup_teardown(a_client_opens_as_many_as_it_may, setup, teardown),
		cmocka_unit_test_setup_teardown(a_stream_behind_the_last_of_a_goaway_is_unprocessed, raw_client_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(a_reset_behind_a_whole_answer_takes_nothing_away, raw_client_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(malformed_requests_are_reset_and_nobody_hears_of_them, raw_server_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(what_goes_on_after_its_answer_is_read_past_and_stopped_where_it_is_too_much, raw_server_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(te_trailers_passes, raw_server_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(padding_and_priorities_are_read_past, raw_server_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(a_head_that_is_not_whole_is_known, raw_server_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(a_request_broken_off_before_anybody_heard_of_it_is_not_told, raw_server_setup, pair_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
