/* Children that look at file systems which may never answer: what they say, and what is made of silence. */
#include "proxy/asker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_S 20
#define LONG_MS 60000u

static struct event_base *base;
static struct askers *askers;
static unsigned answers;
static struct asked last;

static void take(void *arg, struct asked *asked)
{
	(void)arg;
	answers++;
	if (last.fd >= 0)
		close(last.fd);
	last = *asked;
}

static const char *const here[] = { "/here", NULL }, *const there[] = { "/there", NULL };

static int ask(void (*what)(void *, int, struct asked *), const char *const *paths, int fd, unsigned patience_ms)
{
	const struct asker_job job = { .ask = what, .done = take, .fd = fd, .patience_ms = patience_ms, .paths = paths };

	return asker_ask(askers, &job);
}

static void turn(void)
{
	pid_t pid;

	event_base_loop(base, EVLOOP_NONBLOCK);
	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		askers_reap(askers, pid);
}

#define until(condition)                                                                          \
	do {                                                                                      \
		time_t end_ = time(NULL) + LIMIT_S;                                               \
		while (!(condition) && time(NULL) < end_)                                         \
			turn();                                                                   \
		assert_true(condition);                                                           \
	} while (0)

static void speak(void *arg, int fd, struct asked *out)
{
	(void)arg;
	out->fd = open("/dev/null", O_RDONLY);
	snprintf(out->text, sizeof(out->text), "given %d", fd >= 0);
}

static void refuse(void *arg, int fd, struct asked *out)
{
	(void)arg;
	(void)fd;
	out->code = ENOENT;
}

static void die(void *arg, int fd, struct asked *out)
{
	(void)arg;
	(void)fd;
	(void)out;
	_exit(3);
}

static void hang(void *arg, int fd, struct asked *out)
{
	(void)arg;
	(void)fd;
	(void)out;
	for (;;)
		pause();
}

/* Counts what it holds. */
static void look(void *arg, int fd, struct asked *out)
{
	int n = 0;

	(void)arg;
	(void)fd;
	for (int i = 0; i < 256; i++)
		n += fcntl(i, F_GETFD) >= 0;
	snprintf(out->text, sizeof(out->text), "%d", n);
}

static int setup(void **state)
{
	(void)state;
	base = event_base_new();
	askers = askers_new(base);
	answers = 0;
	last = (struct asked){ .fd = -1 };
	return base && askers ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	askers_free(askers);
	event_base_free(base);
	if (last.fd >= 0)
		close(last.fd);
	last.fd = -1;
	while (waitpid(-1, NULL, 0) > 0)
		;
	return 0;
}

static void what_it_found_comes_back(void **state)
{
	(void)state;
	assert_int_equal(ask(speak, here, -1, LONG_MS), 0);
	until(answers == 1 && askers_children(askers) == 0);
	assert_int_equal(last.code, 0);
	assert_string_equal(last.text, "given 0");
	assert_true(fcntl(last.fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(ask(speak, here, last.fd, LONG_MS), 0);
	until(answers == 2);
	assert_string_equal(last.text, "given 1");
	assert_int_equal(ask(refuse, here, -1, LONG_MS), 0);
	until(answers == 3);
	assert_int_equal(last.code, ENOENT);
	assert_int_equal(last.fd, -1);
}

static void it_holds_nothing_but_what_it_needs(void **state)
{
	int open_one = open("/dev/null", O_RDONLY);

	(void)state;
	assert_int_equal(ask(look, here, -1, LONG_MS), 0);
	until(answers == 1);
	assert_string_equal(last.text, "4");	/* its standard three, and the way back */
	close(open_one);
}

static void one_that_dies_is_told(void **state)
{
	(void)state;
	assert_int_equal(ask(die, here, -1, LONG_MS), 0);
	until(answers == 1 && askers_children(askers) == 0);
	assert_int_equal(last.code, EPROTO);
}

static void one_that_does_not_answer_is_given_up_after_its_time(void **state)
{
	(void)state;
	assert_int_equal(ask(hang, here, -1, 50), 0);
	until(answers == 1);
	assert_int_equal(last.code, ETIMEDOUT);
	until(askers_children(askers) == 0);
	assert_string_equal(asked_why(ETIMEDOUT), "the file system that it lies on does not answer");
}

/* As where even a kill has to wait: the dead are not reaped here. */
static void one_path_cannot_take_all_places(void **state)
{
	(void)state;
	for (unsigned i = 0; i < ASKERS_STUCK_MAX; i++) {
		assert_int_equal(ask(hang, here, -1, 20), 0);
		while (answers == i)
			event_base_loop(base, EVLOOP_ONCE);
	}
	assert_int_equal(ask(speak, here, -1, LONG_MS), ETIMEDOUT);
	assert_int_equal(ask(speak, there, -1, LONG_MS), 0);
	until(answers == ASKERS_STUCK_MAX + 1 && last.code == 0);
	until(askers_children(askers) == 0);
	assert_int_equal(ask(speak, here, -1, LONG_MS), 0);
	until(answers == ASKERS_STUCK_MAX + 2);
}

static void so_many_at_once_and_the_others_wait_for_a_place(void **state)
{
	(void)state;
	for (unsigned i = 0; i < ASKERS_MAX; i++)
		assert_int_equal(ask(hang, here, -1, 1500), 0);
	assert_int_equal(ask(speak, there, -1, LONG_MS), 0);
	assert_int_equal(askers_children(askers), ASKERS_MAX);
	assert_int_equal(askers_waiting(askers), 1);
	until(answers == ASKERS_MAX + 1);
	assert_int_equal(askers_waiting(askers), 0);
}

static void who_waits_too_long_for_a_place_and_one_too_many_are_refused(void **state)
{
	(void)state;
	for (unsigned i = 0; i < ASKERS_MAX; i++)
		assert_int_equal(ask(hang, here, -1, LONG_MS), 0);
	assert_int_equal(ask(speak, there, -1, 20), 0);
	until(answers == 1);
	assert_int_equal(last.code, EUSERS);
	for (unsigned i = 0; i < ASKERS_WAITING_MAX; i++)
		assert_int_equal(ask(speak, there, -1, LONG_MS), 0);
	assert_int_equal(ask(speak, there, -1, LONG_MS), EUSERS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_it_found_comes_back, setup, teardown),
		cmocka_unit_test_setup_teardown(it_holds_nothing_but_what_it_needs, setup, teardown),
		cmocka_unit_test_setup_teardown(one_that_dies_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(one_that_does_not_answer_is_given_up_after_its_time, setup, teardown),
		cmocka_unit_test_setup_teardown(one_path_cannot_take_all_places, setup, teardown),
		cmocka_unit_test_setup_teardown(so_many_at_once_and_the_others_wait_for_a_place, setup, teardown),
		cmocka_unit_test_setup_teardown(who_waits_too_long_for_a_place_and_one_too_many_are_refused, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
