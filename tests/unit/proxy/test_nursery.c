#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <event2/event.h>
#include <openssl/rand.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/messages.h"
#include "proxy/nursery.h"
#include "proxy/tls_trust.h"
#include "sandbox/channel.h"
#include "sandbox/spawn.h"

#define LIMIT_S 10

/* What a worker of these tests says of itself on its channel. */
struct words {
	pid_t pid, parent, group;
	unsigned descriptors;	/* bit N: descriptor N is open; bit 31: one above 30 is */
	char name[32], title[32];
	unsigned char random[32], key[256];
	size_t key_n;
};

static struct event_base *base;
static struct channel *nursery;
static pid_t nursery_pid;
static struct {
	bool ready, closed, launched;
	struct msg_launched answer;
	int fds[2];
} got;
static char title[] = "exeat-nursery";

/* ---- in the worker ---- */

static unsigned open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned bits = 0;
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		int fd = atoi(e->d_name);

		if (e->d_name[0] != '.' && fd != dirfd(dir))
			bits |= 1u << (fd < 31 ? fd : 31);
	}
	if (dir)
		closedir(dir);
	return bits;
}

static void read_name(char *out, size_t n)
{
	FILE *f = fopen("/proc/self/comm", "r");

	if (!f || !fgets(out, (int)n, f))
		_exit(3);
	out[strcspn(out, "\n")] = '\0';
	fclose(f);
}

/* Tells, and then lives as long as its channel. */
static int tell(int channel, struct tls_trust *trust)
{
	struct words w = { .pid = getpid(), .parent = getppid(), .group = getpgrp() };
	struct pollfd end = { .fd = channel };
	struct str key;

	w.descriptors = open_descriptors();
	read_name(w.name, sizeof(w.name));
	snprintf(w.title, sizeof(w.title), "%s", title);
	if (RAND_bytes(w.random, sizeof(w.random)) != 1 || !tls_trust_make_key(trust))
		return 1;
	key = tls_trust_public_key(trust);
	memcpy(w.key, key.p, key.n < sizeof(w.key) ? key.n : sizeof(w.key));
	w.key_n = key.n;
	if (write(channel, &w, sizeof(w)) != sizeof(w) || poll(&end, 1, -1) != 1)
		return 2;
	return 7;
}

/* ---- the supervisor's side ---- */

static void on_message(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	(void)arg;
	if (type == MSG_READY) {
		got.ready = true;
		channel_set_phase(nursery, PHASE_RUN);
		return;
	}
	assert_int_equal(type, MSG_LAUNCHED);
	got.answer = *(const struct msg_launched *)msg;
	got.launched = true;
	assert_int_equal(n_fds, got.answer.pid ? 2 : 0);
	for (size_t i = 0; i < n_fds; i++)
		got.fds[i] = fds[i];
}

static void on_closed(void *arg, const char *why)
{
	(void)arg;
	assert_true(channel_ended(why));
	got.closed = true;
}

static void on_late(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	*(bool *)arg = true;
}

static void wait_for(const bool *what)
{
	struct timeval tv = { .tv_sec = LIMIT_S };
	bool late = false;
	struct event *limit = evtimer_new(base, on_late, &late);

	event_add(limit, &tv);
	while (!*what && !late)
		event_base_loop(base, EVLOOP_ONCE);
	event_free(limit);
	assert_true(*what);
}

static _Noreturn void be_nursery(int channel)
{
	dup2(channel, ROLE_CHANNEL_FD);
	close_range(ROLE_CHANNEL_FD + 1, 1000, 0);
	/* As after exec, what the parent's tests hold is no leak of this process. */
	_exit(nursery_main(title, tell));
}

static void open_nursery(const struct msg_nursery_start *start)
{
	struct channel_peer peer = { .self = ROLE_SUPERVISOR, .other = ROLE_NURSERY, .table = exeat_messages,
				     .on_message = on_message, .on_closed = on_closed };
	int ends[2];

	memset(&got, 0, sizeof(got));
	assert_int_equal(channel_pair(ends), OK);
	nursery_pid = fork();
	if (nursery_pid == 0)
		be_nursery(ends[1]);
	close(ends[1]);
	base = event_base_new();
	nursery = channel_new(base, ends[0], &peer);
	assert_non_null(nursery);
	assert_int_equal(channel_send(nursery, MSG_NURSERY_START, start, NULL, 0), OK);
}

static int setup(void **state)
{
	struct msg_nursery_start start = { .trust_system = 1 };

	(void)state;
	open_nursery(&start);
	wait_for(&got.ready);
	return 0;
}

static int end_of(pid_t pid)
{
	int status = -1;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static int teardown(void **state)
{
	(void)state;
	channel_free(nursery);
	if (nursery_pid)
		assert_int_equal(end_of(nursery_pid), 0);
	event_base_free(base);
	return 0;
}

static void launch(enum role role, uint32_t id)
{
	struct msg_launch m = { .id = id, .role = (uint8_t)role };

	got.launched = false;
	assert_int_equal(channel_send(nursery, MSG_LAUNCH, &m, NULL, 0), OK);
	wait_for(&got.launched);
	assert_int_equal(got.answer.id, id);
}

static void hear(int channel, struct words *w)
{
	struct pollfd p = { .fd = channel, .events = POLLIN };

	assert_int_equal(poll(&p, 1, LIMIT_S * 1000), 1);
	assert_int_equal(read(channel, w, sizeof(*w)), sizeof(*w));
}

/* Its channel is closed, so it ends, and is ours to wait for. */
static void end_worker(pid_t pid, const int fds[2])
{
	int status;

	close(fds[0]);
	close(fds[1]);
	status = end_of(pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

/* ---- the cases ---- */

static void a_worker_is_the_supervisors_child_and_a_group_of_its_own(void **state)
{
	struct pollfd gone;
	struct words w;

	(void)state;
	launch(ROLE_WORKER, 41);
	hear(got.fds[0], &w);
	assert_int_equal(got.answer.code, 0);
	assert_int_equal(w.pid, got.answer.pid);
	assert_int_equal(w.parent, getpid());
	assert_int_equal(w.group, w.pid);
	assert_string_equal(w.name, "exeat-worker");
	assert_string_equal(w.title, "exeat-worker");
	gone = (struct pollfd){ .fd = got.fds[1], .events = POLLIN };
	assert_int_equal(poll(&gone, 1, 0), 0);
	assert_int_equal(kill(w.pid, SIGKILL), 0);
	assert_int_equal(poll(&gone, 1, LIMIT_S * 1000), 1);
	assert_true(WIFSIGNALED(end_of(w.pid)));
	close(got.fds[0]);
	close(got.fds[1]);
}

static void a_worker_has_descriptors_0_to_3_and_no_others(void **state)
{
	struct words w;

	(void)state;
	launch(ROLE_WORKER, 1);
	hear(got.fds[0], &w);
	assert_int_equal(w.descriptors, 0xf);
	end_worker(w.pid, got.fds);
}

static void two_workers_have_different_keys_and_random_numbers(void **state)
{
	struct words a, b;
	int fds[2];

	(void)state;
	launch(ROLE_WORKER, 1);
	hear(got.fds[0], &a);
	memcpy(fds, got.fds, sizeof(fds));
	launch(ROLE_WORKER, 2);
	hear(got.fds[0], &b);
	assert_true(a.key_n > 64 && a.key_n == b.key_n && a.key_n <= sizeof(a.key));
	assert_memory_not_equal(a.key, b.key, a.key_n);
	assert_memory_not_equal(a.random, b.random, sizeof(a.random));
	end_worker(a.pid, fds);
	end_worker(b.pid, got.fds);
}

static void a_worker_outlives_the_nursery(void **state)
{
	struct words w;

	(void)state;
	launch(ROLE_WORKER, 1);
	hear(got.fds[0], &w);
	kill(nursery_pid, SIGKILL);
	wait_for(&got.closed);
	assert_true(WIFSIGNALED(end_of(nursery_pid)));
	nursery_pid = 0;
	assert_int_equal(kill(w.pid, 0), 0);
	end_worker(w.pid, got.fds);
}

static void nothing_but_workers_is_launched(void **state)
{
	(void)state;
	launch(ROLE_DIALER, 5);
	assert_int_equal(got.answer.pid, 0);
	assert_int_equal(got.answer.code, EINVAL);
	launch(ROLE_COUNT, 6);
	assert_int_equal(got.answer.pid, 0);
}

static void a_hundred_workers_leave_no_descriptor_in_the_nursery(void **state)
{
	char path[64];
	struct words w;
	unsigned n = 0;
	struct dirent *e;
	DIR *dir;

	(void)state;
	for (uint32_t i = 0; i < 100; i++) {
		launch(ROLE_WORKER, i);
		hear(got.fds[0], &w);
		end_worker(w.pid, got.fds);
	}
	snprintf(path, sizeof(path), "/proc/%d/fd", nursery_pid);
	dir = opendir(path);
	assert_non_null(dir);
	while ((e = readdir(dir)))
		n += e->d_name[0] != '.';
	closedir(dir);
	assert_in_range(n, 4, 8);	/* 0 to 3, and the loop's own */
}

static void a_trust_file_that_cannot_be_read_ends_the_nursery(void **state)
{
	struct str path = STR("/nonexistent/trust.pem");
	struct msg_nursery_start start = { .trust_files = { &path, 1 } };
	int status;

	(void)state;
	open_nursery(&start);
	wait_for(&got.closed);
	status = end_of(nursery_pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	nursery_pid = 0;
	assert_false(got.ready);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_worker_is_the_supervisors_child_and_a_group_of_its_own),
		CASE(a_worker_has_descriptors_0_to_3_and_no_others),
		CASE(two_workers_have_different_keys_and_random_numbers),
		CASE(a_worker_outlives_the_nursery),
		CASE(nothing_but_workers_is_launched),
		CASE(a_hundred_workers_leave_no_descriptor_in_the_nursery),
		cmocka_unit_test_teardown(a_trust_file_that_cannot_be_read_ends_the_nursery, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
