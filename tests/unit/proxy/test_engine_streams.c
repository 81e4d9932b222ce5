/* How long the engine waits: streams that stand still, for as long as they may and no longer. The clock is put
 * forward, so that an hour passes at once. */
#include <sys/syscall.h>

#include "proxy/pool.h"
#include "tests/unit/proxy/engine_rig.h"

#define GET "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n"
#define HOUR_MS 3600000u
#define A_BIT_MS 60000u		/* far more than a test takes */

static uint64_t ahead_ms;

/* In the C library's place, for the engine and for libevent. */
int clock_gettime(clockid_t id, struct timespec *now)
{
	long rc = syscall(SYS_clock_gettime, id, now);

	if (rc == 0 && id != CLOCK_REALTIME) {
		now->tv_sec += (time_t)(ahead_ms / 1000);
		now->tv_nsec += (long)(ahead_ms % 1000) * 1000000;
		now->tv_sec += now->tv_nsec / 1000000000;
		now->tv_nsec %= 1000000000;
	}
	return (int)rc;
}

static void pass(struct rig *r, uint64_t ms)
{
	ahead_ms += ms;
	for (int i = 0; i < 30; i++)
		event_base_loop(r->base, EVLOOP_NONBLOCK);
}

static void open_by_hand(struct rig *r, struct peer *c, const char *request)
{
	rig_open(r);
	r->w.idle_ms = HOUR_MS;
	r->script = NULL;
	client_plain(r, c, "web.test");
	peer_send(c, request);
	rig_until(r, r->n_origins == 1 && peer_has(&r->origin[0], "\r\n\r\n"));
}

static void the_clock_can_be_put_forward(void **state)
{
	uint64_t before = clock_ms();

	(void)state;
	ahead_ms += HOUR_MS;
	assert_in_range(clock_ms() - before, HOUR_MS, HOUR_MS + A_BIT_MS);
}

static void an_answer_is_waited_for_as_long_as_a_connection_may_be_idle(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_by_hand(&r, &c, GET);
	pass(&r, HOUR_MS - A_BIT_MS);
	assert_false(c.ended);
	assert_int_equal(c.got.n, 0);
	peer_send(&r.origin[0], "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate");
	rig_until(&r, peer_has(&c, "\r\n\r\nlate"));
	peer_close(&c);
	rig_close(&r);
}

static void an_origin_that_never_answers_is_a_504_after_that(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_by_hand(&r, &c, GET);
	pass(&r, HOUR_MS + 1);
	rig_until(&r, peer_has(&c, "HTTP/1.1 504 "));
	rig_until(&r, log_has(&r, "response-timeout: nothing moved for 3600 s"));
	peer_close(&c);
	rig_close(&r);
}

static void a_stream_of_events_may_stand_still_and_go_on_without_end(void **state)
{
	struct rig r;
	struct peer c;
	char event[32];

	(void)state;
	open_by_hand(&r, &c, GET);
	peer_send(&r.origin[0], "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
	for (int day = 0; day < 3; day++)
		for (int hour = 0; hour < 24; hour++) {
			snprintf(event, sizeof(event), "data: %d.%02d\n\n", day, hour);
			peer_send(&r.origin[0], "c\r\n");
			peer_send(&r.origin[0], event);
			peer_send(&r.origin[0], "\r\n");
			rig_until(&r, peer_has(&c, event));
			pass(&r, HOUR_MS - A_BIT_MS);
			assert_false(c.ended);
		}
	peer_send(&r.origin[0], "0\r\n\r\n");
	rig_until(&r, peer_has(&c, "\r\n0\r\n\r\n"));
	peer_close(&c);
	rig_close(&r);
}

static void a_stream_that_stands_still_for_too_long_breaks_off(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_by_hand(&r, &c, GET);
	peer_send(&r.origin[0], "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nevent\n\r\n");
	rig_until(&r, peer_has(&c, "event\n\r\n"));
	pass(&r, HOUR_MS + 1);
	rig_until(&r, c.ended);
	assert_false(c.clean);
	assert_false(peer_has(&c, "\r\n0\r\n"));
	rig_until(&r, log_has(&r, "response-timeout: nothing moved for "));
	peer_close(&c);
	rig_close(&r);
}

static void a_streamed_request_may_stand_still_as_long(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_by_hand(&r, &c, "POST / HTTP/1.1\r\nHost: web.test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n");
	pass(&r, HOUR_MS - A_BIT_MS);
	assert_false(c.ended);
	peer_send(&c, "5\r\nwhole\r\n0\r\n\r\n");
	rig_until(&r, peer_has(&r.origin[0], "5\r\nwhole\r\n0\r\n\r\n"));
	peer_close(&c);
	rig_close(&r);
}

static void a_body_of_known_length_may_not(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_by_hand(&r, &c, "POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 10\r\n\r\nhalf");
	rig_until(&r, peer_has(&r.origin[0], "half"));
	pass(&r, EXCHANGE_BODY_MS - A_BIT_MS);
	assert_false(c.ended);
	pass(&r, A_BIT_MS + 1);
	rig_until(&r, peer_has(&c, "HTTP/1.1 408 "));
	rig_until(&r, log_has(&r, "request-timeout: nothing moved for 300 s"));
	peer_close(&c);
	rig_close(&r);
}

static void nor_where_a_rule_lets_a_stream_stand_still_for_longer(void **state)
{
	static const struct rig_rule patient = { .id = "patient", .host = "web.test", .protos = PROTO_HTTP,
						 .foreign = -1, .limits = { .idle_s = 7200 } };
	struct rig r;
	struct peer c;

	(void)state;
	rig_open_with(&r, &patient, 1, false);
	r.w.idle_ms = HOUR_MS;
	r.script = NULL;
	client_plain(&r, &c, "web.test");
	peer_send(&c, "POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 10\r\n\r\nhalf");
	rig_until(&r, r.n_origins == 1 && peer_has(&r.origin[0], "half"));
	pass(&r, EXCHANGE_BODY_MS + 1);
	rig_until(&r, peer_has(&c, "HTTP/1.1 408 "));
	peer_close(&c);
	rig_close(&r);
}

static void an_answer_that_is_not_read_breaks_off_and_says_whose_fault_it_was(void **state)
{
	enum { PIECE = 65536 };
	static char piece[PIECE];
	struct rig r;
	struct peer c;
	uint64_t sent;

	(void)state;
	open_by_hand(&r, &c, GET);
	stream_want(c.stream, false);
	stream_settle(c.stream);
	memset(piece, 'y', sizeof(piece));
	peer_send(&r.origin[0], "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
	do {
		sent = stream_bytes_out(r.origin[0].stream);
		while (stream_queued(r.origin[0].stream) < PIECE)
			buf_put(stream_out(r.origin[0].stream), piece, sizeof(piece));
		stream_settle(r.origin[0].stream);
		pass(&r, 0);
	} while (stream_bytes_out(r.origin[0].stream) != sent);
	pass(&r, HOUR_MS + 1);
	rig_until(&r, log_has(&r, "answer-unread: nothing moved for "));
	rig_until(&r, log_has(&r, "\"verdict\":\"allow\""));
	peer_close(&c);
	rig_close(&r);
}

static void answer_again(struct peer *p)
{
	if (peer_has(p, "\r\n\r\n")) {
		p->got.n = 0;
		buf_put_str(stream_out(p->stream), str_of(p->rig->reply));
	}
}

static void asks_once_more(struct rig *r, struct peer *c)
{
	c->got.n = 0;
	peer_send(c, GET);
	rig_until(r, peer_has(c, "\r\n\r\nhi"));
}

/* Used all the time, or not at all. */
static void a_connection_to_an_origin_is_used_for_so_long_and_no_longer(void **state)
{
	struct rig r;
	struct peer c;
	uint64_t age = 0;

	(void)state;
	rig_open(&r);
	r.w.idle_ms = HOUR_MS;
	r.script = answer_again;
	client_plain(&r, &c, "web.test");
	asks_once_more(&r, &c);
	for (; age + POOL_IDLE_MS / 2 < POOL_AGE_MS - A_BIT_MS; age += POOL_IDLE_MS / 2) {
		pass(&r, POOL_IDLE_MS / 2);
		asks_once_more(&r, &c);
	}
	assert_int_equal(r.dials, 1);
	for (; age < POOL_AGE_MS; age += POOL_IDLE_MS / 2) {
		pass(&r, POOL_IDLE_MS / 2);
		asks_once_more(&r, &c);
	}
	assert_int_equal(r.dials, 2);
	assert_int_equal(pool_idle(r.w.upstreams), 1);
	pass(&r, POOL_IDLE_MS + 1000);
	assert_int_equal(pool_count(r.w.upstreams), 0);
	peer_close(&c);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_clock_can_be_put_forward),
		cmocka_unit_test(an_answer_is_waited_for_as_long_as_a_connection_may_be_idle),
		cmocka_unit_test(an_origin_that_never_answers_is_a_504_after_that),
		cmocka_unit_test(a_stream_of_events_may_stand_still_and_go_on_without_end),
		cmocka_unit_test(a_stream_that_stands_still_for_too_long_breaks_off),
		cmocka_unit_test(a_streamed_request_may_stand_still_as_long),
		cmocka_unit_test(a_body_of_known_length_may_not),
		cmocka_unit_test(nor_where_a_rule_lets_a_stream_stand_still_for_longer),
		cmocka_unit_test(an_answer_that_is_not_read_breaks_off_and_says_whose_fault_it_was),
		cmocka_unit_test(a_connection_to_an_origin_is_used_for_so_long_and_no_longer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
