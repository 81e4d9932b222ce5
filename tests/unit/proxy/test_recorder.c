/* The recorder's program itself, started and confined as it is in service. Needs root, and the
 * programs beside the tests' folder; skipped without them. */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/log_path.h"
#include "proxy/log_verify.h"
#include "proxy/messages.h"
#include "proxy/record.h"
#include "sandbox/channel.h"
#include "sandbox/spawn.h"

struct fixture {
	char programs[PATH_MAX], dir[32], path[64], filler[64];
	struct event_base *base;
	struct channel *c;
	pid_t pid;
	int log;
	struct ring *worker;
	unsigned ready, drained, states, closed;
	struct msg_log_state state;
};

static void on_message(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	struct fixture *f = arg;

	(void)fds;
	assert_int_equal(n_fds, 0);
	if (type == MSG_READY) {
		f->ready++;
	} else if (type == MSG_DRAINED) {
		f->drained++;
	} else if (type == MSG_LOG_STATE) {
		f->states++;
		f->state = *(const struct msg_log_state *)msg;
	}
}

static void on_closed(void *arg, const char *why)
{
	struct fixture *f = arg;

	(void)why;
	f->closed++;
}

/* Turns the loop until *@counter has come to @n, or the recorder is gone. */
static void wait_until(struct fixture *f, const unsigned *counter, unsigned n)
{
	while (*counter < n && !f->closed)
		event_base_loop(f->base, EVLOOP_ONCE);
	assert_int_equal(*counter, n);
}

/* build/MODE/tests/unit/proxy/test_recorder: the programs are in build/MODE. */
static bool find_programs(struct fixture *f)
{
	char recorder[PATH_MAX + 32];
	ssize_t n = readlink("/proc/self/exe", f->programs, sizeof(f->programs) - 1);

	for (unsigned up = 0; n > 0 && up < 4; n--)
		up += f->programs[n - 1] == '/';
	if (n <= 0)
		return false;
	f->programs[n] = '\0';
	snprintf(recorder, sizeof(recorder), "%s/exeat-recorder", f->programs);
	return access(recorder, X_OK) == 0 && geteuid() == 0;
}

static void start(struct fixture *f)
{
	struct channel_peer peer = { .self = ROLE_SUPERVISOR, .other = ROLE_RECORDER, .table = exeat_messages,
				     .on_message = on_message, .on_closed = on_closed, .arg = f };
	struct msg_recorder_start msg = { .path = str_of(f->path) };
	int fd;

	assert_int_equal(spawn_role(f->programs, ROLE_RECORDER, SPAWN_CHILD, &fd, &f->pid), OK);
	f->c = channel_new(f->base, fd, &peer);
	assert_non_null(f->c);
	assert_int_equal(channel_send(f->c, MSG_RECORDER_START, &msg, &f->log, 1), OK);
	wait_until(f, &f->ready, 1);
	channel_set_phase(f->c, PHASE_RUN);
}

static void give_ring(struct fixture *f)
{
	struct msg_ring msg = { .role = ROLE_WORKER, .sandbox = STR("box"), .policy = STR("digest") };
	struct ring_fds fds;
	int v[3];

	assert_int_equal(ring_create(&fds), OK);
	v[0] = fds.memory;
	v[1] = fds.wake;
	v[2] = fds.room;
	assert_int_equal(channel_send(f->c, MSG_RING, &msg, v, 3), OK);
	assert_int_equal(ring_open_writer(&fds, &f->worker), OK);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	snprintf(f->dir, sizeof(f->dir), "/tmp/exeat-recorder-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->path, sizeof(f->path), "%s/audit.jsonl", f->dir);
	snprintf(f->filler, sizeof(f->filler), "%s/filler", f->dir);
	f->base = event_base_new();
	f->log = -1;
	*state = f;
	return 0;
}

/* The supervisor goes: the recorder writes what there is and ends. */
static void stop(struct fixture *f)
{
	int status;

	channel_free(f->c);
	f->c = NULL;
	assert_int_equal(waitpid(f->pid, &status, 0), f->pid);
	assert_int_equal(status, 0);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	if (f->c)
		stop(f);
	ring_close(f->worker);
	if (f->log >= 0)
		close(f->log);
	umount(f->dir);		/* where a test that failed has left it */
	unlink(f->path);
	rmdir(f->dir);
	event_base_free(f->base);
	free(f);
	return 0;
}

static enum err dns(struct fixture *f)
{
	struct record r;

	record_begin(&r, RECORD_dns);
	record_str(&r, REC_name, STR("a.test"));
	return record_commit(&r, f->worker);
}

static void must_have(struct fixture *f, uint64_t lines)
{
	struct log_verdict v;
	int fd = open(f->path, O_RDONLY);

	assert_int_equal(log_verify(fd, NULL, &v), OK);
	assert_int_equal(v.lines, lines);
	close(fd);
}

static void drain(struct fixture *f)
{
	struct msg_drain msg = { .id = 1 };

	assert_int_equal(channel_send(f->c, MSG_DRAIN, &msg, NULL, 0), OK);
}

static void what_is_drained_is_in_the_file(void **state)
{
	struct fixture *f = *state;

	if (!find_programs(f))
		skip();
	assert_int_equal(log_path_open(f->path, &f->log), OK);
	start(f);
	give_ring(f);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(dns(f), OK);
	drain(f);
	wait_until(f, &f->drained, 1);
	must_have(f, 100);
}

static void what_is_in_the_rings_is_written_when_the_supervisor_goes(void **state)
{
	struct fixture *f = *state;
	struct record r;

	if (!find_programs(f))
		skip();
	assert_int_equal(log_path_open(f->path, &f->log), OK);
	start(f);
	give_ring(f);
	drain(f);
	wait_until(f, &f->drained, 1);
	assert_int_equal(dns(f), OK);
	record_begin(&r, RECORD_request);
	record_str(&r, REC_phase, STR("begin"));
	record_u64(&r, REC_exchange, 1);
	assert_int_equal(record_commit(&r, f->worker), OK);
	stop(f);
	must_have(f, 2);
}

/* Waits, by the ring's own means, until the recorder takes records again or does not. */
static void wait_refusing(struct fixture *f, bool refuses)
{
	unsigned states = f->states;

	wait_until(f, &f->states, states + 1);
	assert_int_equal(f->state.writable, !refuses);
	assert_int_equal(ring_refuses(f->worker), refuses);
}

static void a_full_disk_refuses_loses_nothing_and_goes_on_when_there_is_room(void **state)
{
	struct fixture *f = *state;
	uint64_t written = 0;
	int fd;

	if (!find_programs(f) || mount("none", f->dir, "tmpfs", 0, "size=64k") < 0)
		skip();
	assert_int_equal(log_path_open(f->path, &f->log), OK);
	fd = open(f->filler, O_WRONLY | O_CREAT, 0600);
	assert_int_equal(posix_fallocate(fd, 0, 49152), 0);
	close(fd);
	start(f);
	give_ring(f);
	while (written < 200 && dns(f) == OK)
		written++;
	wait_refusing(f, true);
	assert_int_equal(f->state.code, ENOSPC);
	assert_int_equal(dns(f), ERR_DENIED);
	drain(f);
	unlink(f->filler);
	wait_refusing(f, false);
	wait_until(f, &f->drained, 1);
	must_have(f, written);
	assert_int_equal(dns(f), OK);
	stop(f);
	must_have(f, written + 1);
	close(f->log);
	f->log = -1;
	assert_int_equal(umount(f->dir), 0);
}

static void a_lock_that_is_never_given_back_refuses(void **state)
{
	struct fixture *f = *state;
	int other;

	if (!find_programs(f))
		skip();
	assert_int_equal(log_path_open(f->path, &f->log), OK);
	start(f);
	give_ring(f);
	drain(f);
	wait_until(f, &f->drained, 1);
	other = open(f->path, O_RDONLY);
	assert_int_equal(flock(other, LOCK_EX), 0);
	assert_int_equal(dns(f), OK);
	wait_refusing(f, true);
	close(other);
	wait_refusing(f, false);
	drain(f);
	wait_until(f, &f->drained, 2);
	must_have(f, 1);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(what_is_drained_is_in_the_file),
		CASE(what_is_in_the_rings_is_written_when_the_supervisor_goes),
		CASE(a_full_disk_refuses_loses_nothing_and_goes_on_when_there_is_room),
		CASE(a_lock_that_is_never_given_back_refuses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
