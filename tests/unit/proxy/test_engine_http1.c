/* HTTP/1.1 through the engine: framing, interim answers, ends of all kinds (field cases F68 to F90). */
#include "tests/unit/proxy/engine_rig.h"

#define GET "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n"

/* Opens a request whose answers the test itself sends. */
static void open_by_hand(struct rig *r, struct peer *c, const char *request)
{
	rig_open(r);
	r->script = NULL;
	client_plain(r, c, "web.test");
	peer_send(c, request);
	rig_until(r, r->n_origins == 1 && peer_has(&r->origin[0], "\r\n\r\n"));
}

static void spin(struct rig *r)
{
	for (int i = 0; i < 30; i++)
		event_base_loop(r->base, EVLOOP_NONBLOCK);
}

static void length_stays_length_and_chunks_stay_chunks(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	r.reply = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi";
	ask_plain(&r, &c, "web.test", "POST /a HTTP/1.1\r\nHost: web.test\r\nContent-Length: 5\r\n\r\nhello", "\r\n\r\nhi");
	assert_true(peer_has(&r.origin[0], "content-length: 5\r\n"));
	assert_true(peer_has(&r.origin[0], "\r\n\r\nhello"));
	assert_false(peer_has(&r.origin[0], "chunked"));
	peer_close(&c);
	ask_plain(&r, &c, "web.test",
		  "POST /b HTTP/1.1\r\nHost: web.test\r\nTransfer-Encoding: chunked\r\n\r\n"
		  "5;ext=1\r\nhello\r\n0\r\nX-T: 1\r\n\r\n", "\r\n\r\nhi");
	assert_true(peer_has(&r.origin[1], "5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n"));
	assert_false(peer_has(&r.origin[1], "ext"));
	assert_false(peer_has(&r.origin[1], "content-length"));
	peer_close(&c);
	rig_close(&r);
}

static void http_1_0_client_keeps_its_length_and_gets_no_chunks(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	r.reply = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
	ask_plain(&r, &c, "web.test", "POST / HTTP/1.0\r\nHost: web.test\r\nContent-Length: 2\r\n\r\nab", "\r\n\r\nhi");
	rig_until(&r, c.ended && c.clean);
	assert_true(peer_has(&r.origin[0], "content-length: 2\r\n"));
	assert_false(peer_has(&c, "chunked"));
	assert_true(peer_has(&c, "connection: close"));
	peer_close(&c);
	rig_close(&r);
}

static void smuggling_forms_are_400_and_nothing_goes_upstream(void **state)
{
	static const char *const heads[] = {
		"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
		"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
		"Content-Length: +5\r\n\r\n",
		"Content-Length: 5, 5\r\n\r\n",
		"Transfer-Encoding: chunked, identity\r\n\r\n",
		"X-A: b\r\n folded\r\n\r\n",
		"X-A : b\r\n\r\n",
		"X-A: b\nX-C: d\r\n\r\n",
	};
	struct rig r;
	struct peer c;
	char request[256];

	(void)state;
	rig_open(&r);
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		snprintf(request, sizeof(request), "POST / HTTP/1.1\r\nHost: web.test\r\n%s", heads[i]);
		ask_plain(&r, &c, "web.test", request, "}\n");
		assert_true(peer_has(&c, "HTTP/1.1 400 "));
		rig_until(&r, c.ended);
		peer_close(&c);
	}
	assert_int_equal(r.dials, 0);
	assert_true(log_has(&r, "bad-request"));
	rig_close(&r);
}

static void bad_chunk_in_a_request_aborts_it_upstream(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_by_hand(&r, &c, "POST / HTTP/1.1\r\nHost: web.test\r\nTransfer-Encoding: chunked\r\n\r\n");
	peer_send(&c, "5;\nxx\r\nGET /smuggled HTTP/1.1\r\n\r\n");
	rig_until(&r, peer_has(&c, "HTTP/1.1 400 "));
	rig_until(&r, r.origin[0].ended);
	assert_false(peer_has(&r.origin[0], "smuggled"));
	assert_false(peer_has(&r.origin[0], "0\r\n\r\n"));
	peer_close(&c);
	rig_close(&r);
}

static void bad_chunk_in_an_answer_aborts_the_connection(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_by_hand(&r, &c, GET);
	peer_send(&r.origin[0], "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n5\n");
	rig_until(&r, c.ended);
	assert_false(peer_has(&c, "0\r\n\r\n"));
	rig_until(&r, log_has(&r, "response-malformed"));
	peer_close(&c);
	rig_close(&r);
}

static void interim_answers_are_passed_on_and_the_next_answer_is_right(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_by_hand(&r, &c, GET);
	peer_send(&r.origin[0], "HTTP/1.1 102 P\r\n\r\nHTTP/1.1 103 Early\r\nLink: </a>\r\n\r\nHTTP/1.1 103 Early\r\n\r\n"
				"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none");
	rig_until(&r, peer_has(&c, "\r\n\r\none"));
	assert_true(peer_has(&c, "HTTP/1.1 103"));
	assert_true(peer_has(&c, "Link: </a>"));
	peer_send(&c, GET);
	r.origin[0].got.n = 0;
	rig_until(&r, peer_has(&r.origin[0], "\r\n\r\n"));
	peer_send(&r.origin[0], "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo");
	rig_until(&r, peer_has(&c, "\r\n\r\ntwo"));
	peer_close(&c);
	rig_close(&r);
}

static void interim_answers_never_reach_an_http_1_0_client(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_by_hand(&r, &c, "GET / HTTP/1.0\r\n\r\n");
	peer_send(&r.origin[0], "HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none");
	rig_until(&r, peer_has(&c, "one"));
	assert_false(peer_has(&c, "103"));
	peer_close(&c);
	rig_close(&r);
}

static void switching_protocols_is_refused(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_by_hand(&r, &c, "GET / HTTP/1.1\r\nHost: web.test\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n");
	assert_false(peer_has(&r.origin[0], "h2c"));
	peer_send(&r.origin[0], "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n");
	rig_until(&r, peer_has(&c, "upgrade-unsupported"));
	peer_close(&c);
	rig_close(&r);
}

static void head_and_304_keep_their_length_and_have_no_body(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_by_hand(&r, &c, "HEAD / HTTP/1.1\r\nHost: web.test\r\n\r\n");
	peer_send(&r.origin[0], "HTTP/1.1 200 OK\r\nContent-Length: 1488324\r\n\r\n");
	rig_until(&r, peer_has(&c, "\r\n\r\n"));
	assert_true(peer_has(&c, "ontent-") && peer_has(&c, "1488324"));
	r.origin[0].got.n = c.got.n = 0;
	peer_send(&c, GET);
	rig_until(&r, peer_has(&r.origin[0], "\r\n\r\n"));
	peer_send(&r.origin[0], "HTTP/1.1 304 Not\r\nContent-Length: 77\r\n\r\n");
	rig_until(&r, peer_has(&c, "77\r\n\r\n"));
	r.origin[0].got.n = c.got.n = 0;
	peer_send(&c, GET);
	rig_until(&r, peer_has(&r.origin[0], "\r\n\r\n"));
	peer_send(&r.origin[0], "HTTP/1.1 204 No\r\n\r\n");
	rig_until(&r, peer_has(&c, "204 No\r\n"));
	r.origin[0].got.n = c.got.n = 0;
	peer_send(&c, GET);
	rig_until(&r, peer_has(&r.origin[0], "\r\n\r\n"));
	peer_send(&r.origin[0], "HTTP/1.1 205 R\r\nContent-Length: 0\r\n\r\n");
	rig_until(&r, peer_has(&c, "205 R\r\n"));
	assert_int_equal(r.dials, 1);
	peer_close(&c);
	rig_close(&r);
}

#define PUT_EXPECT "PUT / HTTP/1.1\r\nHost: web.test\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"

static void origins_100_is_passed_on_and_the_body_goes_once(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_by_hand(&r, &c, PUT_EXPECT);
	peer_send(&r.origin[0], "HTTP/1.1 100 Continue\r\n\r\n");
	rig_until(&r, peer_has(&c, "100 Continue\r\n\r\n"));
	peer_send(&c, "body");
	rig_until(&r, peer_has(&r.origin[0], "\r\n\r\nbody"));
	peer_send(&r.origin[0], "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	rig_until(&r, peer_has(&c, "200 OK"));
	peer_close(&c);
	rig_close(&r);
}

static void silent_origin_is_not_waited_for_longer_than_a_second(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_by_hand(&r, &c, PUT_EXPECT);
	rig_until(&r, peer_has(&c, "100 Continue\r\n\r\n"));
	peer_send(&c, "body");
	rig_until(&r, peer_has(&r.origin[0], "\r\n\r\nbody"));
	peer_send(&r.origin[0], "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	c.got.n = 0;
	rig_until(&r, peer_has(&c, "200 OK"));
	assert_false(peer_has(&c, "100 "));
	peer_close(&c);
	rig_close(&r);
}

static void final_answer_to_an_expectation_reaches_the_client_without_its_body(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_by_hand(&r, &c, PUT_EXPECT);
	peer_send(&r.origin[0], "HTTP/1.1 417 No\r\nContent-Length: 2\r\n\r\nno");
	rig_until(&r, peer_has(&c, "\r\n\r\nno") && c.ended && c.clean);
	assert_true(peer_has(&c, "connection: close"));
	assert_false(peer_has(&r.origin[0], "body"));
	peer_close(&c);
	rig_close(&r);
}

static void early_answer_is_delivered_while_the_client_still_sends(void **state)
{
	static char piece[65537];
	struct rig r;
	struct peer c;

	(void)state;
	open_by_hand(&r, &c, "POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 100000000\r\n\r\n");
	memset(piece, 'x', sizeof(piece) - 1);
	for (int i = 0; i < 4; i++)
		peer_send(&c, piece);
	peer_send(&r.origin[0], "HTTP/1.1 413 Large\r\nContent-Length: 3\r\n\r\nbig");
	rig_until(&r, peer_has(&c, "\r\n\r\nbig"));
	peer_send(&c, piece);
	rig_until(&r, c.ended && c.clean);
	rig_until(&r, log_has(&r, "answered early"));
	peer_close(&c);
	rig_close(&r);
}

static void large_upload_to_a_slow_origin_is_held_back_and_whole(void **state)
{
	enum { PIECES = 100 };
	static char piece[65537];
	struct rig r;
	struct peer c;
	char head[128];
	size_t before;

	(void)state;
	snprintf(head, sizeof(head), "POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: %zu\r\n\r\n",
		 PIECES * (sizeof(piece) - 1));
	open_by_hand(&r, &c, head);
	memset(piece, 'x', sizeof(piece) - 1);
	/* The origin does not read: what the engine takes is bounded. */
	stream_want(r.origin[0].stream, false);
	stream_settle(r.origin[0].stream);
	before = r.origin[0].got.n;
	for (int i = 0; i < PIECES; i++) {
		rig_until(&r, !stream_full(c.stream) || i > 40);
		if (stream_queued(c.stream) + sizeof(piece) < STREAM_OUT_MAX)
			peer_send(&c, piece);
		else
			stream_want(r.origin[0].stream, true);
		stream_settle(r.origin[0].stream);
		while (stream_queued(c.stream) + sizeof(piece) >= STREAM_OUT_MAX)
			event_base_loop(r.base, EVLOOP_ONCE);
	}
	stream_want(r.origin[0].stream, true);
	stream_settle(r.origin[0].stream);
	rig_until(&r, r.origin[0].got.n + sizeof(piece) >= before + PIECES * (sizeof(piece) - 1));
	peer_close(&c);
	rig_close(&r);
}

static void client_that_dies_inside_its_request_never_completes_it(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_by_hand(&r, &c, "POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 1007\r\n\r\nabc");
	stream_finish(c.stream);
	stream_settle(c.stream);
	rig_until(&r, r.origin[0].ended);
	assert_int_equal(stream_trouble(r.origin[0].stream), STREAM_RESET);
	rig_until(&r, log_has(&r, "closed by the client inside its request"));
	peer_close(&c);
	rig_close(&r);
}

static void client_that_resets_inside_its_chunks_never_completes_them(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_by_hand(&r, &c, "POST / HTTP/1.1\r\nHost: web.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
	rig_until(&r, peer_has(&r.origin[0], "abc"));
	peer_reset(&c);
	rig_until(&r, r.origin[0].ended);
	assert_false(peer_has(&r.origin[0], "0\r\n\r\n"));
	rig_until(&r, log_has(&r, "reset by the client"));
	rig_close(&r);
}

static void half_closed_client_still_gets_its_answer(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_by_hand(&r, &c, GET);
	stream_finish(c.stream);
	stream_settle(c.stream);
	spin(&r);
	peer_send(&r.origin[0], "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
	rig_until(&r, peer_has(&c, "\r\n\r\nhi") && c.ended);
	peer_close(&c);
	rig_close(&r);
}

static void connection_close_delivers_every_byte(void **state)
{
	enum { SIZE = 5 << 20 };
	struct rig r;
	struct peer c;
	char *body = malloc(SIZE + 1);

	(void)state;
	assert_non_null(body);
	memset(body, 'y', SIZE);
	body[SIZE] = '\0';
	open_by_hand(&r, &c, "GET / HTTP/1.1\r\nHost: web.test\r\nConnection: close\r\n\r\n");
	peer_send(&r.origin[0], "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
	for (size_t sent = 0; sent < SIZE; sent += 1 << 18) {
		rig_until(&r, !stream_full(r.origin[0].stream));
		buf_put(stream_out(r.origin[0].stream), body + sent, 1 << 18);
		stream_settle(r.origin[0].stream);
	}
	stream_finish(r.origin[0].stream);
	stream_settle(r.origin[0].stream);
	rig_until(&r, c.ended);
	assert_true(c.clean);
	assert_true(peer_has(&c, "transfer-encoding: chunked"));
	assert_true(c.got.n > SIZE);
	assert_memory_equal(c.got.p + c.got.n - 5, "0\r\n\r\n", 5);
	peer_close(&c);
	rig_close(&r);
	free(body);
}

/* First exchange, then the origin ends its idle connection. */
static void go_stale(struct rig *r, struct peer *c, bool reset)
{
	rig_open(r);
	ask_plain(r, c, "web.test", GET, "\r\n\r\nhi");
	c->got.n = 0;
	if (reset)
		peer_reset(&r->origin[0]);
	else
		peer_close(&r->origin[0]);
}

static void forget_first_origin(struct rig *r)
{
	for (size_t i = 1; i < r->n_origins; i++)
		peer_close(&r->origin[i]);
	r->n_origins = 0;
}

static void idle_upstream_that_closed_is_replaced(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	for (int reset = 0; reset < 2; reset++) {
		go_stale(&r, &c, reset);
		peer_send(&c, "POST /again HTTP/1.1\r\nHost: web.test\r\nContent-Length: 1\r\n\r\nx");
		rig_until(&r, peer_has(&c, "\r\n\r\nhi"));
		assert_true(peer_has(&r.origin[1], "POST /again"));
		assert_int_equal(r.dials, 2);
		peer_close(&c);
		forget_first_origin(&r);
		rig_close(&r);
	}
}

/* Closes without an answer when the second request comes. */
static void close_on_second(struct peer *p)
{
	if (!peer_has(p, "second")) {
		answer_each(p);
		return;
	}
	p->rig->script = answer_each;
	stream_free(p->stream);
	p->stream = NULL;
}

static void get_on_a_dying_upstream_is_retried_and_post_is_not(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	for (int post = 0; post < 2; post++) {
		rig_open(&r);
		r.script = close_on_second;
		ask_plain(&r, &c, "web.test", GET, "\r\n\r\nhi");
		c.got.n = 0;
		peer_send(&c, post ? "POST /second HTTP/1.1\r\nHost: web.test\r\nContent-Length: 1\r\n\r\nx"
				   : "GET /second HTTP/1.1\r\nHost: web.test\r\n\r\n");
		rig_until(&r, peer_has(&c, post ? "connection-terminated" : "\r\n\r\nhi"));
		assert_int_equal(r.dials, post ? 1 : 2);
		peer_close(&c);
		buf_free(&r.origin[0].got);
		forget_first_origin(&r);
		rig_close(&r);
	}
}

static void fresh_upstream_that_closes_is_502_once(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_by_hand(&r, &c, GET);
	peer_close(&r.origin[0]);
	r.n_origins = 0;
	rig_until(&r, peer_has(&c, "connection-terminated"));
	assert_true(peer_has(&c, "HTTP/1.1 502 "));
	assert_int_equal(r.dials, 1);
	peer_close(&c);
	rig_close(&r);
}

static void upstream_that_closes_inside_its_head_is_502(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_by_hand(&r, &c, GET);
	peer_send(&r.origin[0], "HTTP/1.1 200 OK\r\nConte");
	spin(&r);
	stream_finish(r.origin[0].stream);
	stream_settle(r.origin[0].stream);
	rig_until(&r, peer_has(&c, "response-incomplete"));
	assert_true(peer_has(&c, "HTTP/1.1 502 "));
	peer_close(&c);
	rig_close(&r);
}

static void upstream_that_closes_inside_its_body_is_seen_as_an_abort(void **state)
{
	static const char *const heads[] = {
		"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nhalf", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
	};
	struct rig r;
	struct peer c;

	(void)state;
	for (int i = 0; i < 2; i++) {
		open_by_hand(&r, &c, GET);
		peer_send(&r.origin[0], heads[i]);
		rig_until(&r, peer_has(&c, "half"));
		stream_finish(r.origin[0].stream);
		stream_settle(r.origin[0].stream);
		rig_until(&r, c.ended);
		assert_int_equal(stream_trouble(c.stream), STREAM_RESET);
		assert_false(peer_has(&c, "0\r\n\r\n"));
		rig_until(&r, log_has(&r, "response-incomplete"));
		peer_close(&c);
		rig_close(&r);
	}
}

static void dial_failures_are_told_with_their_reason(void **state)
{
	static const struct { enum dial_status status; const char *line, *reason; } cases[] = {
		{ DIAL_REFUSED, "HTTP/1.1 502 ", "connection-refused" },
		{ DIAL_TIMEOUT, "HTTP/1.1 504 ", "connection-timeout" },
		{ DIAL_UNREACHABLE, "HTTP/1.1 502 ", "destination-unreachable" },
		{ DIAL_NO_NAME, "HTTP/1.1 502 ", "dns-failed" },
		{ DIAL_PROHIBITED, "HTTP/1.1 502 ", "destination-prohibited" },
	};
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		r.dial_status = cases[i].status;
		ask_plain(&r, &c, "web.test", GET, cases[i].reason);
		assert_true(peer_has(&c, cases[i].line));
		assert_true(log_has(&r, cases[i].reason));
		peer_close(&c);
	}
	rig_close(&r);
}

static void bytes_after_an_answer_end_the_upstream_not_the_client(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	r.reply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
	ask_plain(&r, &c, "web.test", GET, "\r\n\r\nhi");
	c.got.n = 0;
	r.reply = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood";
	peer_send(&c, GET);
	rig_until(&r, peer_has(&c, "good"));
	assert_false(peer_has(&c, "evil"));
	assert_int_equal(r.dials, 2);
	rig_until(&r, r.hangups == 1);
	peer_close(&c);
	rig_close(&r);
}

static void garbage_from_the_origin_is_502(void **state)
{
	static const char *const replies[] = {
		"<html>HTTP/0.9</html>\r\n\r\n", "HTTP/1.1 2x0 OK\r\n\r\n", "HTTP/2.0 200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi",
	};
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	for (size_t i = 0; i < sizeof(replies) / sizeof(replies[0]); i++) {
		r.reply = replies[i];
		ask_plain(&r, &c, "web.test", GET, "response-malformed");
		assert_true(peer_has(&c, "HTTP/1.1 502 "));
		peer_close(&c);
	}
	rig_close(&r);
}

static void header_line_over_the_limit_is_431_or_502(void **state)
{
	enum { LONG = 70000 };
	struct rig r;
	struct peer c;
	char *text = malloc(LONG + 256);
	int n;

	(void)state;
	assert_non_null(text);
	rig_open(&r);
	n = sprintf(text, "GET / HTTP/1.1\r\nHost: web.test\r\nX-Long: ");
	memset(text + n, 'a', LONG);
	strcpy(text + n + LONG, "\r\n\r\n");
	ask_plain(&r, &c, "web.test", text, "headers-too-large");
	peer_close(&c);
	n = sprintf(text, "HTTP/1.1 200 OK\r\nX-Long: ");
	memset(text + n, 'a', LONG);
	strcpy(text + n + LONG, "\r\n\r\n");
	r.reply = text;
	ask_plain(&r, &c, "web.test", GET, "response-headers-large");
	peer_close(&c);
	rig_close(&r);
	free(text);
}

static void pipelined_requests_are_answered_in_order(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	client_plain(&r, &c, "web.test");
	peer_send(&c, "GET /gists/1 HTTP/1.1\r\nHost: web.test\r\n\r\nGET /2 HTTP/1.1\r\nHost: web.test\r\n\r\n"
		      "GET /gists/3 HTTP/1.1\r\nHost: web.test\r\nConnection: close\r\n\r\n");
	rig_until(&r, c.ended && c.clean);
	assert_true(peer_has(&c, "\r\n\r\nhi"));
	assert_true(peer_has(&c, "/gists/1") && peer_has(&c, "/gists/3"));
	assert_true(peer_has(&r.origin[0], "GET /2 "));
	peer_close(&c);
	rig_close(&r);
}

static void events_are_passed_on_as_they_come(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_by_hand(&r, &c, GET);
	peer_send(&r.origin[0], "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n");
	rig_until(&r, peer_has(&c, "data: 1\n\n"));
	peer_send(&r.origin[0], "data: 2\n\n");
	rig_until(&r, peer_has(&c, "data: 2\n\n"));
	peer_close(&c);
	rig_close(&r);
}

static void idle_connection_is_closed_and_recorded(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	r.w.idle_ms = 50;
	ask_plain(&r, &c, "web.test", GET, "\r\n\r\nhi");
	rig_until(&r, c.ended);
	rig_until(&r, log_has(&r, "\"ended\":\"idle\""));
	assert_int_equal(connections_count(r.w.connections), 0);
	peer_close(&c);
	rig_close(&r);
}

static void origin_that_stalls_inside_its_body_is_an_abort(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_by_hand(&r, &c, GET);
	r.w.idle_ms = 50;
	peer_send(&r.origin[0], "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n");
	rig_until(&r, c.ended);
	assert_false(peer_has(&c, "0\r\n\r\n"));
	rig_until(&r, log_has(&r, "response-timeout"));
	peer_close(&c);
	rig_close(&r);
}

static void client_that_stalls_inside_its_body_is_told_so(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_by_hand(&r, &c, "POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 10\r\n\r\nhalf");
	r.w.idle_ms = 50;
	peer_send(&c, "!");
	rig_until(&r, c.ended);
	assert_true(peer_has(&c, "HTTP/1.1 408 "));
	assert_true(peer_has(&c, "connection: close"));
	rig_until(&r, log_has(&r, "request-timeout"));
	peer_close(&c);
	rig_close(&r);
}

static void interim_answers_without_end_are_a_502(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_by_hand(&r, &c, GET);
	for (unsigned i = 0; i <= EXCHANGE_INTERIM_MAX; i++)
		peer_send(&r.origin[0], "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
	rig_until(&r, peer_has(&c, "HTTP/1.1 502 "));
	assert_true(peer_has(&c, "too many interim answers"));
	peer_close(&c);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(length_stays_length_and_chunks_stay_chunks),
		cmocka_unit_test(http_1_0_client_keeps_its_length_and_gets_no_chunks),
		cmocka_unit_test(smuggling_forms_are_400_and_nothing_goes_upstream),
		cmocka_unit_test(bad_chunk_in_a_request_aborts_it_upstream),
		cmocka_unit_test(bad_chunk_in_an_answer_aborts_the_connection),
		cmocka_unit_test(interim_answers_are_passed_on_and_the_next_answer_is_right),
		cmocka_unit_test(interim_answers_never_reach_an_http_1_0_client),
		cmocka_unit_test(switching_protocols_is_refused),
		cmocka_unit_test(head_and_304_keep_their_length_and_have_no_body),
		cmocka_unit_test(origins_100_is_passed_on_and_the_body_goes_once),
		cmocka_unit_test(silent_origin_is_not_waited_for_longer_than_a_second),
		cmocka_unit_test(final_answer_to_an_expectation_reaches_the_client_without_its_body),
		cmocka_unit_test(early_answer_is_delivered_while_the_client_still_sends),
		cmocka_unit_test(large_upload_to_a_slow_origin_is_held_back_and_whole),
		cmocka_unit_test(client_that_dies_inside_its_request_never_completes_it),
		cmocka_unit_test(client_that_resets_inside_its_chunks_never_completes_them),
		cmocka_unit_test(half_closed_client_still_gets_its_answer),
		cmocka_unit_test(connection_close_delivers_every_byte),
		cmocka_unit_test(idle_upstream_that_closed_is_replaced),
		cmocka_unit_test(get_on_a_dying_upstream_is_retried_and_post_is_not),
		cmocka_unit_test(fresh_upstream_that_closes_is_502_once),
		cmocka_unit_test(upstream_that_closes_inside_its_head_is_502),
		cmocka_unit_test(upstream_that_closes_inside_its_body_is_seen_as_an_abort),
		cmocka_unit_test(dial_failures_are_told_with_their_reason),
		cmocka_unit_test(bytes_after_an_answer_end_the_upstream_not_the_client),
		cmocka_unit_test(garbage_from_the_origin_is_502),
		cmocka_unit_test(header_line_over_the_limit_is_431_or_502),
		cmocka_unit_test(pipelined_requests_are_answered_in_order),
		cmocka_unit_test(events_are_passed_on_as_they_come),
		cmocka_unit_test(client_that_stalls_inside_its_body_is_told_so),
		cmocka_unit_test(interim_answers_without_end_are_a_502),
		cmocka_unit_test(idle_connection_is_closed_and_recorded),
		cmocka_unit_test(origin_that_stalls_inside_its_body_is_an_abort),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
