#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <event2/event.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/stream.h"

struct end {
	struct stream *s;
	unsigned wakes;
};

static struct event_base *base;
static struct end end;
static int other;

static void on_wake(void *arg)
{
	struct end *e = arg;

	e->wakes++;
	stream_settle(e->s);
}

static int setup(void **state)
{
	int fds[2];

	(void)state;
	signal(SIGPIPE, SIG_IGN);
	base = event_base_new();
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
	end = (struct end){ .s = stream_new(base, fds[0], on_wake, &end) };
	assert_non_null(end.s);
	other = fds[1];
	stream_settle(end.s);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	stream_free(end.s);
	if (other >= 0)
		close(other);
	event_base_free(base);
	return 0;
}

static void spin(void)
{
	for (int i = 0; i < 10; i++)
		event_base_loop(base, EVLOOP_NONBLOCK);
}

static size_t read_all(void)
{
	static char bytes[65536];
	size_t all = 0;
	ssize_t n;

	while ((n = read(other, bytes, sizeof(bytes))) > 0)
		all += (size_t)n;
	return all;
}

static void bytes_are_read_and_taken_in_any_pieces(void **state)
{
	(void)state;
	assert_int_equal(write(other, "hello", 5), 5);
	spin();
	assert_int_equal(end.wakes, 1);
	assert_true(str_eq(stream_in(end.s), STR("hello")));
	stream_take(end.s, 2);
	assert_true(str_eq(stream_in(end.s), STR("llo")));
	assert_int_equal(write(other, "!", 1), 1);
	spin();
	assert_true(str_eq(stream_in(end.s), STR("llo!")));
	stream_take(end.s, 4);
	assert_int_equal(stream_in(end.s).n, 0);
}

static void unwanted_bytes_stay_in_the_socket(void **state)
{
	(void)state;
	stream_want(end.s, false);
	stream_settle(end.s);
	assert_int_equal(write(other, "hello", 5), 5);
	spin();
	assert_int_equal(end.wakes, 0);
	stream_want(end.s, true);
	stream_settle(end.s);
	spin();
	assert_true(str_eq(stream_in(end.s), STR("hello")));
}

static void reading_stops_at_the_limit_and_goes_on_when_room_was_made(void **state)
{
	static char piece[32768];
	size_t sent = 0, seen = 0;
	ssize_t n;

	(void)state;
	while ((n = write(other, piece, sizeof(piece))) > 0) {
		sent += (size_t)n;
		spin();
		stream_settle(end.s);
	}
	assert_int_equal(stream_in(end.s).n, STREAM_IN_MAX);
	while (seen < sent) {
		size_t here = stream_in(end.s).n;

		assert_true(here > 0);
		stream_take(end.s, here);
		seen += here;
		stream_settle(end.s);
		spin();
	}
	assert_int_equal(seen, sent);
}

static void nothing_goes_out_before_settling_or_while_held(void **state)
{
	(void)state;
	buf_put_str(stream_out(end.s), STR("hello"));
	spin();
	assert_int_equal(read_all(), 0);
	stream_hold(end.s, true);
	stream_settle(end.s);
	spin();
	assert_int_equal(read_all(), 0);
	stream_hold(end.s, false);
	stream_settle(end.s);
	assert_int_equal(read_all(), 5);
	assert_int_equal(stream_bytes_out(end.s), 5);
}

static void full_is_said_until_the_queue_is_low_and_then_the_owner_is_woken(void **state)
{
	static char piece[STREAM_HIGH];
	unsigned before;

	(void)state;
	/* More than the socket takes. */
	for (int i = 0; i < 5; i++)
		buf_put(stream_out(end.s), piece, sizeof(piece));
	assert_true(stream_full(end.s));
	stream_settle(end.s);
	before = end.wakes;
	while (stream_queued(end.s) > STREAM_LOW) {
		assert_true(stream_full(end.s));
		read_all();
		stream_settle(end.s);
	}
	spin();
	assert_false(stream_full(end.s));
	assert_true(end.wakes > before);
}

/* Between the two passes the wake that the first has asked for has not come yet. */
static void what_two_passes_queue_before_a_wake_goes_out_whole(void **state)
{
	static char piece[STREAM_HIGH];
	size_t all = 10 * sizeof(piece), got = 0, more;

	(void)state;
	for (int i = 0; i < 5; i++)
		buf_put(stream_out(end.s), piece, sizeof(piece));
	assert_true(stream_full(end.s));
	while (stream_queued(end.s) > 0) {
		got += read_all();
		stream_settle(end.s);
	}
	for (int i = 0; i < 5; i++)
		buf_put(stream_out(end.s), piece, sizeof(piece));
	stream_settle(end.s);
	assert_true(stream_queued(end.s) > 0);
	do {
		spin();
		more = read_all();
		got += more;
	} while (more);
	assert_int_equal(got, all);
}

static void queue_over_its_limit_is_a_failure(void **state)
{
	static char piece[STREAM_HIGH];

	(void)state;
	for (size_t n = 0; n <= STREAM_OUT_MAX; n += sizeof(piece))
		buf_put(stream_out(end.s), piece, sizeof(piece));
	stream_settle(end.s);
	assert_true(stream_failed(end.s));
	assert_int_equal(stream_trouble(end.s), STREAM_OVERFLOW);
	spin();
	assert_int_equal(end.wakes, 1);
}

static void end_is_told_after_the_last_bytes(void **state)
{
	bool clean = false;

	(void)state;
	assert_int_equal(write(other, "x", 1), 1);
	shutdown(other, SHUT_WR);
	spin();
	assert_true(stream_ended(end.s, &clean));
	assert_true(clean);
	assert_true(str_eq(stream_in(end.s), STR("x")));
	assert_false(stream_failed(end.s));
	/* Its own half is open still. */
	buf_put_str(stream_out(end.s), STR("answer"));
	stream_finish(end.s);
	stream_settle(end.s);
	assert_true(stream_finished(end.s));
	assert_int_equal(read_all(), 6);
}

static void finish_waits_for_what_is_queued(void **state)
{
	static char piece[STREAM_HIGH];
	size_t got = 0;

	(void)state;
	for (int i = 0; i < 5; i++)
		buf_put(stream_out(end.s), piece, sizeof(piece));
	stream_finish(end.s);
	stream_settle(end.s);
	assert_false(stream_finished(end.s));
	while (!stream_finished(end.s)) {
		got += read_all();
		stream_settle(end.s);
	}
	got += read_all();
	assert_int_equal(got, 5 * sizeof(piece));
}

static void writing_to_a_peer_that_is_gone_fails_and_wakes(void **state)
{
	(void)state;
	stream_want(end.s, false);
	stream_settle(end.s);
	close(other);
	other = -1;
	buf_put_str(stream_out(end.s), STR("x"));
	stream_settle(end.s);
	assert_int_equal(stream_trouble(end.s), STREAM_RESET);
	spin();
	assert_int_equal(end.wakes, 1);
}

static void poll_sees_the_end_of_an_idle_stream(void **state)
{
	bool clean;

	(void)state;
	stream_want(end.s, false);
	stream_settle(end.s);
	stream_poll(end.s);
	assert_false(stream_ended(end.s, &clean));
	shutdown(other, SHUT_WR);
	stream_poll(end.s);
	assert_true(stream_ended(end.s, &clean));
}

/* A TCP connection to ourselves in the place of the socket pair. */
static void use_tcp(void)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(sa);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(listener, (struct sockaddr *)&sa, n), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&sa, &n), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, n), 0);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	stream_free(end.s);
	close(other);
	end.s = stream_new(base, fd, on_wake, &end);
	assert_non_null(end.s);
	other = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	close(listener);
	stream_want(end.s, false);
	stream_settle(end.s);
}

/* Writes until the peer's reset is felt. */
static void write_until_it_fails(void)
{
	while (!stream_failed(end.s)) {
		buf_put_str(stream_out(end.s), STR("more"));
		stream_settle(end.s);
	}
}

static void what_a_peer_said_before_it_reset_can_still_be_read(void **state)
{
	bool clean = true;

	(void)state;
	use_tcp();
	buf_put_str(stream_out(end.s), STR("unread"));
	stream_settle(end.s);
	assert_int_equal(write(other, "answer", 6), 6);
	close(other);
	other = -1;
	write_until_it_fails();
	assert_int_equal(stream_trouble(end.s), STREAM_RESET);
	stream_poll(end.s);
	assert_true(str_eq(stream_in(end.s), STR("answer")));
	stream_poll(end.s);
	assert_true(stream_ended(end.s, &clean));
	assert_false(clean);
}

static void an_end_that_came_before_the_reset_stays_clean(void **state)
{
	bool clean = false;

	(void)state;
	use_tcp();
	assert_int_equal(write(other, "answer", 6), 6);
	close(other);
	other = -1;
	write_until_it_fails();
	stream_poll(end.s);
	assert_true(str_eq(stream_in(end.s), STR("answer")));
	assert_true(stream_ended(end.s, &clean));
	assert_true(clean);
}

/* The peer ends its half, and some time later is gone. */
static void end_and_reset(bool watched)
{
	struct linger now = { .l_onoff = 1, .l_linger = 0 };
	bool clean = false;

	use_tcp();
	if (watched)
		stream_watch(end.s);
	stream_want(end.s, true);
	stream_settle(end.s);
	assert_int_equal(write(other, "hi", 2), 2);
	assert_int_equal(shutdown(other, SHUT_WR), 0);
	spin();
	assert_true(stream_ended(end.s, &clean) && clean);
	assert_false(stream_failed(end.s));
	end.wakes = 0;
	spin();
	assert_int_equal(end.wakes, 0);		/* an end that stands wakes nobody again */
	assert_int_equal(setsockopt(other, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
	close(other);
	other = -1;
	spin();
	assert_true(stream_ended(end.s, &clean) && clean);	/* what was sent is whole all the same */
	assert_true(str_eq(stream_in(end.s), STR("hi")));
}

static void a_watched_stream_tells_of_a_reset_behind_the_end(void **state)
{
	(void)state;
	end_and_reset(true);
	assert_int_equal(end.wakes, 1);
	assert_int_equal(stream_trouble(end.s), STREAM_RESET);
}

static void another_stream_hears_of_it_when_it_writes(void **state)
{
	(void)state;
	end_and_reset(false);
	assert_int_equal(end.wakes, 0);
	assert_false(stream_failed(end.s));
	write_until_it_fails();
}

static void a_watched_stream_still_writes_behind_the_end(void **state)
{
	char got[8] = "";

	(void)state;
	use_tcp();
	stream_watch(end.s);
	stream_want(end.s, true);
	stream_settle(end.s);
	assert_int_equal(shutdown(other, SHUT_WR), 0);
	spin();
	buf_put_str(stream_out(end.s), STR("answer"));
	stream_settle(end.s);
	assert_int_equal(read(other, got, sizeof(got)), 6);
	assert_memory_equal(got, "answer", 6);
	assert_false(stream_failed(end.s));
}

static void the_end_of_writing_wakes_its_owner(void **state)
{
	bool clean;

	(void)state;
	shutdown(other, SHUT_WR);
	spin();
	assert_true(stream_ended(end.s, &clean));
	end.wakes = 0;
	stream_finish(end.s);
	stream_settle(end.s);
	assert_true(stream_finished(end.s));
	spin();
	assert_int_equal(end.wakes, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(bytes_are_read_and_taken_in_any_pieces, setup, teardown),
		cmocka_unit_test_setup_teardown(unwanted_bytes_stay_in_the_socket, setup, teardown),
		cmocka_unit_test_setup_teardown(reading_stops_at_the_limit_and_goes_on_when_room_was_made, setup, teardown),
		cmocka_unit_test_setup_teardown(nothing_goes_out_before_settling_or_while_held, setup, teardown),
		cmocka_unit_test_setup_teardown(full_is_said_until_the_queue_is_low_and_then_the_owner_is_woken, setup, teardown),
		cmocka_unit_test_setup_teardown(what_two_passes_queue_before_a_wake_goes_out_whole, setup, teardown),
		cmocka_unit_test_setup_teardown(queue_over_its_limit_is_a_failure, setup, teardown),
		cmocka_unit_test_setup_teardown(end_is_told_after_the_last_bytes, setup, teardown),
		cmocka_unit_test_setup_teardown(finish_waits_for_what_is_queued, setup, teardown),
		cmocka_unit_test_setup_teardown(writing_to_a_peer_that_is_gone_fails_and_wakes, setup, teardown),
		cmocka_unit_test_setup_teardown(what_a_peer_said_before_it_reset_can_still_be_read, setup, teardown),
		cmocka_unit_test_setup_teardown(an_end_that_came_before_the_reset_stays_clean, setup, teardown),
		cmocka_unit_test_setup_teardown(a_watched_stream_tells_of_a_reset_behind_the_end, setup, teardown),
		cmocka_unit_test_setup_teardown(another_stream_hears_of_it_when_it_writes, setup, teardown),
		cmocka_unit_test_setup_teardown(a_watched_stream_still_writes_behind_the_end, setup, teardown),
		cmocka_unit_test_setup_teardown(the_end_of_writing_wakes_its_owner, setup, teardown),
		cmocka_unit_test_setup_teardown(poll_sees_the_end_of_an_idle_stream, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
