#include "tests/unit/proxy/names_world.h"

#include "proxy/dial.h"

static struct world world;
static struct dial_result got;
static char attempts[DIAL_ATTEMPTS_TEXT_MAX + 1];
static unsigned calls, judged;
static const char *objection;	/* to 127.0.0.9 */

static void on_dialed(void *arg, const struct dial_result *r)
{
	(void)arg;
	got = *r;
	snprintf(attempts, sizeof(attempts), "%.*s", STR_ARG(r->attempts));
	calls++;
}

static const char *judge(void *arg, const struct addr *a)
{
	(void)arg;
	judged++;
	return a->family == 4 && addr_to_v4(a) == 0x7f000009 ? objection : NULL;
}

static int setup(void **state)
{
	(void)state;
	world_open(&world);
	got = (struct dial_result){ .fd = -1 };
	calls = judged = 0;
	objection = "loopback";
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (got.fd >= 0)
		close(got.fd);
	world_close(&world);
	return 0;
}

static struct dial *start(const char *const *texts, size_t n, uint16_t port, uint32_t timeout_ms)
{
	struct addr addrs[32];
	const struct dial_order order = { .addrs = addrs, .n = n, .port = port, .timeout_ms = timeout_ms,
					  .judge = judge, .fn = on_dialed };

	for (size_t i = 0; i < n; i++)
		assert_true(addr_parse(str_of(texts[i]), &addrs[i]));
	return dial_start(world.base, &order);
}

static enum dial_status dial(const char *const *texts, size_t n, uint16_t port, uint32_t timeout_ms)
{
	assert_non_null(start(texts, n, port, timeout_ms));
	assert_int_equal(calls, 0);
	WAIT_UNTIL(&world, calls == 1);
	return got.status;
}

#define DIAL(port, timeout_ms, ...)                                                               \
	dial((const char *const[]){ __VA_ARGS__ }, sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *), \
	     port, timeout_ms)

static int listener(uint16_t *port)
{
	int fd = bound_socket(SOCK_STREAM, port);

	assert_int_equal(listen(fd, 16), 0);
	return fd;
}

/* A port on loopback where connecting gets no answer: its queue of connections is full. */
static int black_hole(uint16_t *port, int fill[3])
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001) };
	int fd = bound_socket(SOCK_STREAM, port);

	assert_int_equal(listen(fd, 0), 0);
	to.sin_port = htons(*port);
	for (unsigned i = 0; i < 3; i++) {
		fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (connect(fill[i], (struct sockaddr *)&to, sizeof(to)) < 0)
			assert_int_equal(errno, EINPROGRESS);
	}
	return fd;
}

static void a_listening_address_is_connected_to(void **state)
{
	uint16_t port = 0;
	int fd = listener(&port), peer;

	(void)state;
	assert_int_equal(DIAL(port, 0, "127.0.0.1"), DIAL_OK);
	assert_true(got.fd >= 0);
	assert_int_equal(addr_to_v4(&got.addr), 0x7f000001);
	peer = accept(fd, NULL, NULL);
	assert_true(peer >= 0);
	assert_int_equal(send(got.fd, "x", 1, 0), 1);
	close(peer);
	close(fd);
}

static void refused_everywhere_is_refused_and_each_attempt_is_told(void **state)
{
	uint16_t port = 0;
	int fd = bound_socket(SOCK_STREAM, &port);

	(void)state;
	assert_int_equal(DIAL(port, 0, "127.0.0.1", "127.0.0.2"), DIAL_REFUSED);
	assert_int_equal(got.fd, -1);
	assert_string_equal(attempts, "127.0.0.1: connection refused; 127.0.0.2: connection refused");
	close(fd);
}

/* F142 */
static void the_first_refuses_and_the_second_is_taken_at_once(void **state)
{
	uint16_t port = 0;
	int fd = listener(&port);

	(void)state;
	/* bound to 127.0.0.1 alone: 127.0.0.2 refuses */
	assert_int_equal(DIAL(port, 0, "127.0.0.2", "127.0.0.1"), DIAL_OK);
	assert_string_equal(attempts, "127.0.0.2: connection refused");
	assert_true(got.ms < DIAL_STAGGER_MS);
	close(fd);
}

/* F142 */
static void a_silent_address_holds_the_next_up_for_the_stagger_only(void **state)
{
	uint16_t port = 0;
	int fill[3], hole = black_hole(&port, fill), fd = -1, on = 1;
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000002),
				  .sin_port = htons(port) };

	(void)state;
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 16), 0);
	assert_int_equal(DIAL(port, 0, "127.0.0.1", "127.0.0.2"), DIAL_OK);
	assert_int_equal(addr_to_v4(&got.addr), 0x7f000002);
	assert_true(got.ms >= DIAL_STAGGER_MS - 10 && got.ms < 2000);
	for (unsigned i = 0; i < 3; i++)
		close(fill[i]);
	close(hole);
	close(fd);
}

static void nobody_answering_ends_at_the_limit(void **state)
{
	uint16_t port = 0;
	int fill[3], hole = black_hole(&port, fill);

	(void)state;
	assert_int_equal(DIAL(port, 300, "127.0.0.1"), DIAL_TIMEOUT);
	assert_string_equal(attempts, "127.0.0.1: timed out");
	for (unsigned i = 0; i < 3; i++)
		close(fill[i]);
	close(hole);
}

/* F142 */
static void families_take_turns(void **state)
{
	uint16_t port = 0;
	int fd = bound_socket(SOCK_STREAM, &port);

	(void)state;
	DIAL(port, 0, "127.0.0.1", "127.0.0.2", "::1");
	assert_true(strncmp(attempts, "::1: ", 5) == 0);
	assert_non_null(strstr(attempts, "; 127.0.0.1: connection refused; 127.0.0.2: connection refused"));
	close(fd);
}

static void each_address_is_judged_right_before_it_is_connected_to(void **state)
{
	uint16_t port = 0;
	int fd = listener(&port);

	(void)state;
	assert_int_equal(DIAL(port, 0, "127.0.0.9", "127.0.0.1"), DIAL_OK);
	assert_string_equal(attempts, "127.0.0.9: loopback");
	assert_int_equal(judged, 2);
	close(fd);
}

static void nothing_but_objections_is_prohibited(void **state)
{
	(void)state;
	assert_int_equal(DIAL(9, 0, "127.0.0.9"), DIAL_PROHIBITED);
	assert_int_equal(got.fd, -1);
}

static void no_address_at_all_is_unreachable(void **state)
{
	(void)state;
	assert_non_null(start(NULL, 0, 9, 0));
	WAIT_UNTIL(&world, calls == 1);
	assert_int_equal(got.status, DIAL_UNREACHABLE);
}

/* F43 */
static void more_addresses_than_the_limit_are_not_tried(void **state)
{
	const char *many[32];
	uint16_t port = 0;
	int fd = bound_socket(SOCK_STREAM, &port);

	(void)state;
	for (size_t i = 0; i < 32; i++)
		many[i] = "127.0.0.2";
	assert_int_equal(dial(many, 32, port, 0), DIAL_REFUSED);
	assert_int_equal(judged, DIAL_ADDRS_MAX);
	close(fd);
}

static void a_cancelled_dial_calls_nobody_back(void **state)
{
	uint16_t port = 0;
	int fd = listener(&port);
	const char *one[] = { "127.0.0.1" };

	(void)state;
	dial_cancel(start(one, 1, port, 0));
	event_base_loop(world.base, EVLOOP_NONBLOCK);
	assert_int_equal(calls, 0);
	close(fd);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_listening_address_is_connected_to),
		CASE(refused_everywhere_is_refused_and_each_attempt_is_told),
		CASE(the_first_refuses_and_the_second_is_taken_at_once),
		CASE(a_silent_address_holds_the_next_up_for_the_stagger_only),
		CASE(nobody_answering_ends_at_the_limit),
		CASE(families_take_turns),
		CASE(each_address_is_judged_right_before_it_is_connected_to),
		CASE(nothing_but_objections_is_prohibited),
		CASE(no_address_at_all_is_unreachable),
		CASE(more_addresses_than_the_limit_are_not_tried),
		CASE(a_cancelled_dial_calls_nobody_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
