/* A tunnel between two TCP connections of the test's own: at the far ends the box's program and the
 * origin are plain descriptors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/clock.h"
#include "proxy/tunnel.h"

#define LIMIT_MS 5000
#define SMALL (64 << 10)	/* of a socket's buffers */
#define LOT (8u << 20)

static struct event_base *base;
static struct tunnel *tunnel;
static int box, origin;		/* the far ends */
static unsigned wakes;
static const struct tunnel_limits no_limits;

/* Runs the loop until the condition holds. */
#define until(condition)                                                                          \
	do {                                                                                      \
		uint64_t end_ = clock_ms() + LIMIT_MS;                                            \
		while (!(condition)) {                                                            \
			event_base_loop(base, EVLOOP_NONBLOCK);                                   \
			if (clock_ms() > end_)                                                    \
				fail_msg("waited too long for %s", #condition);                   \
		}                                                                                 \
	} while (0)

static void on_wake(void *arg)
{
	(void)arg;
	wakes++;
}

static void set_buffers(int fd)
{
	int n = SMALL;

	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &n, sizeof(n));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &n, sizeof(n));
}

/* @*far: the other end of the returned one. */
static int connection(int *far)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(sa);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), near;

	set_buffers(listener);
	assert_int_equal(bind(listener, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&sa, &n), 0);
	*far = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	set_buffers(*far);
	assert_int_equal(connect(*far, (struct sockaddr *)&sa, sizeof(sa)), 0);
	fcntl(*far, F_SETFL, O_NONBLOCK);
	near = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	assert_true(near >= 0);
	close(listener);
	return near;
}

static void open_tunnel(struct str said, const struct tunnel_limits *limits)
{
	struct tunnel_ends ends = { .said = said };

	wakes = 0;
	base = event_base_new();
	ends.box = connection(&box);
	ends.origin = connection(&origin);
	tunnel = tunnel_new(base, &ends, limits, on_wake, NULL);
	assert_non_null(tunnel);
}

static void shut(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static int setup(void **state)
{
	(void)state;
	signal(SIGPIPE, SIG_IGN);
	open_tunnel(STR_NONE, &no_limits);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	tunnel_free(tunnel);
	tunnel = NULL;
	shut(&box);
	shut(&origin);
	event_base_free(base);
	return 0;
}

static void again_with(struct str said, const struct tunnel_limits *limits)
{
	teardown(NULL);
	open_tunnel(said, limits);
}

static void reset(int *fd)
{
	struct linger now = { .l_onoff = 1, .l_linger = 0 };

	setsockopt(*fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	shut(fd);
}

static void say(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), 0), (ssize_t)strlen(text));
}

/* The far end reads exactly this. */
static void hear(int fd, const char *text)
{
	char got[256];
	size_t n = 0, all = strlen(text);

	while (n < all) {
		ssize_t more;

		until((more = recv(fd, got + n, all - n, 0)) > 0);
		n += (size_t)more;
	}
	assert_memory_equal(got, text, all);
}

static bool is_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void hear_end(int fd)
{
	char byte;

	until(is_readable(fd));
	assert_int_equal(recv(fd, &byte, 1, 0), 0);
}

static void hear_reset(int fd)
{
	char byte;

	until(is_readable(fd));
	assert_int_equal(recv(fd, &byte, 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
}

static void spin(void)
{
	for (int i = 0; i < 50; i++)
		event_base_loop(base, EVLOOP_NONBLOCK);
}

static char pattern(size_t at)
{
	return (char)(at * 7 + (at >> 8) + (at >> 16) * 5);
}

/* As much of @most bytes as will go, from the @at-th of the pattern on; until it stays stuck. */
static size_t send_until_stuck(int fd, size_t at, size_t most)
{
	static char piece[16384];
	size_t sent = 0;
	int stuck = 0;

	while (stuck < 50 && sent < most) {
		size_t n = most - sent < sizeof(piece) ? most - sent : sizeof(piece);
		ssize_t put;

		for (size_t i = 0; i < n; i++)
			piece[i] = pattern(at + sent + i);
		put = send(fd, piece, n, 0);
		stuck = put > 0 ? 0 : stuck + 1;
		sent += put > 0 ? (size_t)put : 0;
		event_base_loop(base, EVLOOP_NONBLOCK);
	}
	return sent;
}

/* The next bytes to read, which must go on with the pattern at @at. */
static size_t read_pattern(int fd, size_t at)
{
	static char piece[65536];
	ssize_t n;

	until((n = recv(fd, piece, sizeof(piece), 0)) > 0);
	for (ssize_t i = 0; i < n; i++)
		assert_int_equal(piece[i], pattern(at + (size_t)i));
	return (size_t)n;
}

/* ---- cases ---- */

static void bytes_go_both_ways_and_are_counted(void **state)
{
	(void)state;
	say(origin, "220 banner\r\n");	/* a server may speak first */
	hear(box, "220 banner\r\n");
	say(box, "HELO\r\n");
	hear(origin, "HELO\r\n");
	assert_int_equal(tunnel_bytes_to(tunnel, TUNNEL_BOX), 12);
	assert_int_equal(tunnel_bytes_to(tunnel, TUNNEL_ORIGIN), 6);
	assert_int_equal(tunnel_state(tunnel), TUNNEL_RUNS);
}

static void what_the_box_had_said_goes_out_first(void **state)
{
	(void)state;
	again_with(STR("hello,"), &no_limits);
	say(box, " world");
	hear(origin, "hello, world");
}

static void an_end_goes_on_behind_the_last_byte_and_the_other_way_lives_on(void **state)
{
	(void)state;
	say(box, "all of it");
	shutdown(box, SHUT_WR);
	hear(origin, "all of it");
	hear_end(origin);
	spin();
	assert_int_equal(tunnel_state(tunnel), TUNNEL_RUNS);
	say(origin, "the sum");
	hear(box, "the sum");
	assert_int_equal(wakes, 0);
	shutdown(origin, SHUT_WR);
	hear_end(box);
	until(wakes);
	assert_int_equal(tunnel_state(tunnel), TUNNEL_OVER);
}

static void what_is_over_is_closed_without_a_reset(void **state)
{
	char byte;

	(void)state;
	shutdown(box, SHUT_WR);
	shutdown(origin, SHUT_WR);
	until(wakes);
	tunnel_free(tunnel);
	tunnel = NULL;
	assert_int_equal(recv(box, &byte, 1, 0), 0);
	assert_int_equal(recv(origin, &byte, 1, 0), 0);
}

static void a_reset_goes_on_as_a_reset(void **state)
{
	(void)state;
	for (int of_box = 0; of_box < 2; of_box++) {
		again_with(STR_NONE, &no_limits);
		reset(of_box ? &box : &origin);
		until(wakes);
		assert_int_equal(tunnel_state(tunnel), TUNNEL_BROKEN);
		assert_int_equal(tunnel_breaker(tunnel), of_box ? TUNNEL_BOX : TUNNEL_ORIGIN);
		assert_int_equal(tunnel_error(tunnel), ECONNRESET);
		tunnel_free(tunnel);
		tunnel = NULL;
		hear_reset(of_box ? origin : box);
	}
}

static void a_reset_behind_an_end_is_heard_of(void **state)
{
	(void)state;
	shutdown(box, SHUT_WR);
	hear_end(origin);
	spin();
	reset(&box);
	until(wakes);
	assert_int_equal(tunnel_state(tunnel), TUNNEL_BROKEN);
	assert_int_equal(tunnel_breaker(tunnel), TUNNEL_BOX);
}

static void a_reset_of_a_sender_that_is_held_is_heard_of(void **state)
{
	(void)state;
	assert_true(send_until_stuck(origin, 0, LOT) < LOT);
	reset(&origin);
	until(wakes);
	assert_int_equal(tunnel_state(tunnel), TUNNEL_BROKEN);
	assert_int_equal(tunnel_breaker(tunnel), TUNNEL_ORIGIN);
}

/* Four sockets' buffers, which the kernel doubles, and one piece. */
static void who_does_not_read_holds_who_sends(void **state)
{
	size_t sent = send_until_stuck(origin, 0, LOT), got = 0;

	(void)state;
	assert_true(sent < 4 * 2 * SMALL + TUNNEL_PIECE);
	while (got < LOT) {
		got += read_pattern(box, got);
		sent += send_until_stuck(origin, sent, LOT - sent);
	}
	assert_int_equal(sent, LOT);
	assert_int_equal(tunnel_bytes_to(tunnel, TUNNEL_BOX), LOT);
}

static void a_slow_reader_one_way_does_not_hold_the_other(void **state)
{
	(void)state;
	assert_true(send_until_stuck(origin, 0, LOT) < LOT);
	say(box, "still here");
	hear(origin, "still here");
}

static void an_end_waits_for_what_its_reader_has_not_taken(void **state)
{
	size_t sent = send_until_stuck(box, 0, LOT), got = 0;

	(void)state;
	shutdown(box, SHUT_WR);
	while (got < sent)
		got += read_pattern(origin, got);
	hear_end(origin);
}

/* Who answers and closes with bytes unread makes its kernel send a reset. */
static void what_was_said_before_a_reset_goes_on(void **state)
{
	(void)state;
	assert_true(send_until_stuck(box, 0, LOT) < LOT);
	say(origin, "no more, please");
	shut(&origin);
	hear(box, "no more, please");
	until(wakes);
	assert_int_equal(tunnel_state(tunnel), TUNNEL_BROKEN);
	tunnel_free(tunnel);
	tunnel = NULL;
	hear_reset(box);
}

static void a_limit_lets_so_much_pass_and_not_a_byte_more(void **state)
{
	static const struct tunnel_limits limits = { .up = 4, .down = 6 };

	(void)state;
	again_with(STR_NONE, &limits);
	say(box, "four");
	hear(origin, "four");
	say(origin, "sixsix");
	hear(box, "sixsix");
	spin();
	assert_int_equal(tunnel_state(tunnel), TUNNEL_RUNS);
	say(box, "5");
	until(wakes);
	assert_int_equal(tunnel_state(tunnel), TUNNEL_UPLOADED);
	assert_int_equal(tunnel_bytes_to(tunnel, TUNNEL_ORIGIN), 4);
	again_with(STR_NONE, &limits);
	say(origin, "seven..");
	until(wakes);
	assert_int_equal(tunnel_state(tunnel), TUNNEL_DOWNLOADED);
	assert_int_equal(tunnel_bytes_to(tunnel, TUNNEL_BOX), 0);
}

static void a_limit_holds_for_what_was_said_before(void **state)
{
	static const struct tunnel_limits limits = { .up = 4 };

	(void)state;
	again_with(STR("12345"), &limits);
	assert_int_equal(wakes, 0);
	until(wakes);
	assert_int_equal(tunnel_state(tunnel), TUNNEL_UPLOADED);
	assert_int_equal(tunnel_bytes_to(tunnel, TUNNEL_ORIGIN), 0);
}

static void a_new_limit_counts_what_has_passed(void **state)
{
	static const struct tunnel_limits limits = { .down = 8 };

	(void)state;
	say(origin, "12345678");
	hear(box, "12345678");
	tunnel_limit(tunnel, &limits);
	spin();
	assert_int_equal(tunnel_state(tunnel), TUNNEL_RUNS);
	say(origin, "9");
	until(wakes);
	assert_int_equal(tunnel_state(tunnel), TUNNEL_DOWNLOADED);
}

static void one_that_is_freed_while_it_runs_resets_both(void **state)
{
	(void)state;
	say(box, "cut off");
	hear(origin, "cut off");
	tunnel_free(tunnel);
	tunnel = NULL;
	hear_reset(box);
	hear_reset(origin);
}

static void freeing_in_the_wake_is_fine(void *arg)
{
	(void)arg;
	wakes++;
	tunnel_free(tunnel);
	tunnel = NULL;
}

static void the_owner_may_free_it_when_woken(void **state)
{
	struct tunnel_ends ends = { .said = STR_NONE };

	(void)state;
	teardown(NULL);
	wakes = 0;
	base = event_base_new();
	ends.box = connection(&box);
	ends.origin = connection(&origin);
	tunnel = tunnel_new(base, &ends, &no_limits, freeing_in_the_wake_is_fine, NULL);
	reset(&box);
	until(wakes);
	hear_reset(origin);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(bytes_go_both_ways_and_are_counted),
		CASE(what_the_box_had_said_goes_out_first),
		CASE(an_end_goes_on_behind_the_last_byte_and_the_other_way_lives_on),
		CASE(what_is_over_is_closed_without_a_reset),
		CASE(a_reset_goes_on_as_a_reset),
		CASE(a_reset_behind_an_end_is_heard_of),
		CASE(a_reset_of_a_sender_that_is_held_is_heard_of),
		CASE(who_does_not_read_holds_who_sends),
		CASE(a_slow_reader_one_way_does_not_hold_the_other),
		CASE(an_end_waits_for_what_its_reader_has_not_taken),
		CASE(what_was_said_before_a_reset_goes_on),
		CASE(a_limit_lets_so_much_pass_and_not_a_byte_more),
		CASE(a_limit_holds_for_what_was_said_before),
		CASE(a_new_limit_counts_what_has_passed),
		CASE(one_that_is_freed_while_it_runs_resets_both),
		CASE(the_owner_may_free_it_when_woken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
