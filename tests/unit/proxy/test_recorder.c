/* The recorder's program itself, started and confined as it is in service. Needs root, and the
 * programs beside the tests' folder; skipped without them. */
#include <dirent.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/log_key.h"
#include "proxy/log_path.h"
#include "proxy/log_rotate.h"
#include "proxy/log_write.h"
#include "tests/unit/proxy/log_checks.h"
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
	struct ring_fds ring;
	struct ring *worker;
	unsigned ready, drained, states, closed, full, ended;
	struct msg_recorder_start start;
	bool signs;
	int no_file;		/* what LOG_FULL is answered with, instead of a file */
	struct msg_log_state state;
};

/* What the launcher does for the supervisor. */
static void rotate(struct fixture *f)
{
	struct msg_log_file msg = { .code = (uint32_t)f->no_file };
	int fd = -1;

	if (!f->no_file)
		assert_int_equal(log_rotate(f->path, 0, &fd), OK);
	assert_int_equal(channel_send(f->c, MSG_LOG_FILE, &msg, &fd, f->no_file ? 0 : 1), OK);
	if (fd >= 0)
		close(fd);
}

static void on_message(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	struct fixture *f = arg;

	(void)fds;
	assert_int_equal(n_fds, 0);
	if (type == MSG_LOG_FULL) {
		f->full++;
		rotate(f);
	} else if (type == MSG_RING_ENDED) {
		f->ended++;
	} else if (type == MSG_READY) {
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
	int fd, fds[2] = { f->log, -1 };

	f->start.path = str_of(f->path);
	f->ready = 0;
	if (f->signs)
		assert_int_equal(log_key_open(f->path, &fds[1]), OK);

	assert_int_equal(spawn_role(f->programs, ROLE_RECORDER, SPAWN_CHILD, &fd, &f->pid), OK);
	f->c = channel_new(f->base, fd, &peer);
	assert_non_null(f->c);
	assert_int_equal(channel_send(f->c, MSG_RECORDER_START, &f->start, fds, f->signs ? 2 : 1), OK);
	if (f->signs)
		close(fds[1]);
	wait_until(f, &f->ready, 1);
	channel_set_phase(f->c, PHASE_RUN);
}

static void give_ring(struct fixture *f)
{
	struct msg_ring msg = { .number = 5, .role = ROLE_WORKER, .sandbox = STR("box"),
				.policy = STR("digest") };
	int v[3] = { f->ring.memory, f->ring.wake, f->ring.room };

	assert_int_equal(channel_send(f->c, MSG_RING, &msg, v, 3), OK);
}

static void open_ring(struct fixture *f)
{
	struct ring_fds own;

	assert_int_equal(ring_create(&f->ring), OK);
	own = (struct ring_fds){ dup(f->ring.memory), dup(f->ring.wake), dup(f->ring.room) };
	assert_int_equal(ring_open_writer(&own, &f->worker), OK);
}

static void close_ring(struct fixture *f)
{
	if (!f->worker)
		return;
	ring_close(f->worker);
	close(f->ring.memory);
	close(f->ring.wake);
	close(f->ring.room);
	f->worker = NULL;
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
	open_ring(f);
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

static void empty(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *entry;

	while ((entry = readdir(d)) != NULL)
		unlinkat(dirfd(d), entry->d_name, 0);
	closedir(d);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	if (f->c)
		stop(f);
	close_ring(f);
	if (f->log >= 0)
		close(f->log);
	umount(f->dir);		/* where a test that failed has left it */
	empty(f->dir);
	assert_int_equal(rmdir(f->dir), 0);
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
	struct log_checked c = check_file(f->path, NULL);

	assert_int_equal(c.e, OK);
	assert_int_equal(c.v.lines, lines);
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

/* A recorder that was killed between a record's stamp and its line. */
static void stamp_the_next(struct fixture *f)
{
	struct ring_fds fds = { dup(f->ring.memory), dup(f->ring.wake), dup(f->ring.room) };
	struct ring *reader;
	struct str record;

	assert_int_equal(ring_open_reader(&fds, &reader), OK);
	assert_int_equal(ring_next(reader, &record), OK);
	ring_set_stamp(reader, ring_position(reader), 12345);
	ring_close(reader);
}

static void a_successor_looks_through_a_long_file_for_what_may_be_written(void **state)
{
	struct fixture *f = *state;

	if (!find_programs(f))
		skip();
	assert_int_equal(log_path_open(f->path, &f->log), OK);
	start(f);
	give_ring(f);
	for (unsigned i = 0; i < 500; i++)
		assert_int_equal(dns(f), OK);
	drain(f);
	wait_until(f, &f->drained, 1);
	stop(f);
	assert_int_equal(dns(f), OK);
	stamp_the_next(f);
	start(f);
	give_ring(f);
	drain(f);
	wait_until(f, &f->drained, 2);
	must_have(f, 501);
}

/* Waits, by the ring's own means, until the recorder takes records again or does not. */
static void dns_of(struct fixture *f, const char *name, const char *policy)
{
	struct record r;

	record_begin(&r, RECORD_dns);
	record_str(&r, REC_name, str_of(name));
	record_str(&r, REC_policy, str_of(policy));
	assert_int_equal(record_commit(&r, f->worker), OK);
}

/* Stopped, with a ring that has woken it: it does not linger, but waits for that. */
static void stop_woken(struct fixture *f)
{
	struct pollfd woken = { .fd = f->ring.wake, .events = POLLIN };
	int status;

	for (;;) {
		kill(f->pid, SIGSTOP);
		assert_int_equal(waitpid(f->pid, &status, WUNTRACED), f->pid);
		dns_of(f, "first.test", "digest");
		if (poll(&woken, 1, 0) == 1)
			return;
		kill(f->pid, SIGCONT);
		poll(NULL, 0, 20);
	}
}

static void a_policy_that_was_announced_is_heard_before_records_of_it_are_written(void **state)
{
	const struct msg_ring_policy now = { .number = 5, .policy = STR("digest2") };
	char text[65536] = "";
	struct fixture *f = *state;
	FILE *file;

	if (!find_programs(f))
		skip();
	assert_int_equal(log_path_open(f->path, &f->log), OK);
	start(f);
	give_ring(f);
	drain(f);
	wait_until(f, &f->drained, 1);
	stop_woken(f);
	assert_int_equal(channel_send(f->c, MSG_RING_POLICY, &now, NULL, 0), OK);
	dns_of(f, "second.test", "digest2");
	kill(f->pid, SIGCONT);
	drain(f);
	wait_until(f, &f->drained, 2);
	file = fopen(f->path, "r");
	assert_true(file && fread(text, 1, sizeof(text) - 1, file) > 0);
	fclose(file);
	assert_non_null(strstr(text, "\"policy\":\"digest\",\"name\":\"first.test\""));
	assert_non_null(strstr(text, "\"policy\":\"digest2\",\"name\":\"second.test\""));
}

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

/* The name of each record is its number: all of them are there, once, in order. */
static void must_have_each_once(struct fixture *f, unsigned n, size_t min_files, bool signatures)
{
	struct log_question q = { 0 };
	struct log_files *files;
	struct log_verdict v;
	struct log_keys *keys = NULL;
	char pub[80];
	unsigned seen = 0;
	struct str line;

	snprintf(pub, sizeof(pub), "%s.pub", f->path);
	if (signatures)
		assert_int_equal(log_keys_open(pub, &keys), OK);
	q.keys = keys;
	assert_int_equal(log_files_open(f->path, &q.files), OK);
	assert_int_equal(log_verify(&q, &v), OK);
	assert_true(log_files_count(q.files) >= min_files);
	assert_true(!signatures || v.signatures >= min_files);
	log_files_close(q.files);
	log_keys_close(keys);
	assert_int_equal(log_files_open(f->path, &files), OK);
	while (log_files_next(files, &line) == OK) {
		char name[48];

		snprintf(name, sizeof(name), "\"name\":\"%u.test\"", seen);
		if (memmem(line.p, line.n, "\"kind\":\"dns\"", 12)) {
			assert_non_null(memmem(line.p, line.n, name, strlen(name)));
			seen++;
		}
	}
	log_files_close(files);
	assert_int_equal(seen, n);
}

/* Waits for room like a worker. */
static void put_numbered(struct fixture *f, unsigned number)
{
	struct record r;
	char name[16];
	enum err e;

	snprintf(name, sizeof(name), "%u.test", number);
	do {
		record_begin(&r, RECORD_dns);
		record_str(&r, REC_name, str_of(name));
		e = record_commit(&r, f->worker);
		event_base_loop(f->base, e == ERR_FULL ? EVLOOP_ONCE : EVLOOP_NONBLOCK);
	} while (e == ERR_FULL);
	assert_int_equal(e, OK);
}

static void pump_until_room(evutil_socket_t fd, short what, void *arg)
{
	struct fixture *f = arg;

	(void)fd;
	(void)what;
	ring_room_seen(f->worker);
}

static struct event *watch_room(struct fixture *f)
{
	struct event *e = event_new(f->base, ring_room_fd(f->worker), EV_READ | EV_PERSIST, pump_until_room, f);

	assert_int_equal(event_add(e, NULL), 0);
	return e;
}

static void a_full_file_is_put_aside_and_nothing_is_lost(void **state)
{
	struct fixture *f = *state;
	struct event *room;

	if (!find_programs(f))
		skip();
	f->start.rotate_bytes = 100000;
	f->signs = true;
	assert_int_equal(log_path_open(f->path, &f->log), OK);
	start(f);
	give_ring(f);
	room = watch_room(f);
	for (unsigned i = 0; i < 30000; i++)
		put_numbered(f, i);
	drain(f);
	wait_until(f, &f->drained, 1);
	event_free(room);
	assert_true(f->full >= 2);
	stop(f);
	must_have_each_once(f, 30000, f->full, true);
}

static void a_file_that_cannot_be_put_aside_is_gone_on_with(void **state)
{
	struct fixture *f = *state;

	if (!find_programs(f))
		skip();
	f->start.rotate_bytes = 1;
	f->no_file = ENOSPC;
	assert_int_equal(log_path_open(f->path, &f->log), OK);
	start(f);
	give_ring(f);
	put_numbered(f, 0);
	wait_until(f, &f->full, 1);
	put_numbered(f, 1);
	drain(f);
	wait_until(f, &f->drained, 1);
	/* Not again so soon. */
	assert_int_equal(f->full, 1);
	/* The two, "rotated", and why it goes on. */
	must_have(f, 4);
	assert_int_equal(f->states, 0);
}

static void a_file_that_another_has_put_aside_is_followed_by_its_successor(void **state)
{
	struct fixture *f = *state;
	struct log_line line = { .time_us = 1790000000000000, .kind = "rotated" };
	struct log_file *other;
	int fd;

	if (!find_programs(f))
		skip();
	assert_int_equal(log_path_open(f->path, &f->log), OK);
	start(f);
	give_ring(f);
	put_numbered(f, 0);
	drain(f);
	wait_until(f, &f->drained, 1);
	assert_int_equal(log_path_open(f->path, &fd), OK);
	assert_int_equal(log_file_open(fd, &other), OK);
	assert_int_equal(log_batch_begin(other), OK);
	assert_int_equal(log_batch_line(other, &line), OK);
	assert_int_equal(log_batch_end(other), OK);
	log_file_close(other);
	put_numbered(f, 1);
	drain(f);
	wait_until(f, &f->drained, 2);
	assert_int_equal(f->full, 1);
	must_have_each_once(f, 2, 2, false);
}

static void a_ring_that_has_ended_is_told_when_it_is_written(void **state)
{
	struct fixture *f = *state;
	struct msg_ring_end end = { .number = 5 };
	struct record r;

	if (!find_programs(f))
		skip();
	assert_int_equal(log_path_open(f->path, &f->log), OK);
	start(f);
	for (unsigned i = 1; i <= 50; i++) {
		give_ring(f);
		assert_int_equal(dns(f), OK);
		record_begin(&r, RECORD_request);
		record_str(&r, REC_phase, STR("begin"));
		record_u64(&r, REC_exchange, 1);
		assert_int_equal(record_commit(&r, f->worker), OK);
		assert_int_equal(channel_send(f->c, MSG_RING_END, &end, NULL, 0), OK);
		wait_until(f, &f->ended, i);
		must_have(f, 2 * i);
		close_ring(f);
		open_ring(f);
	}
}

/* Killed wherever it is; its successor finds the rings as they were left. */
static void of_a_recorder_that_is_killed_nothing_is_lost_and_nothing_is_there_twice(void **state)
{
	struct fixture *f = *state;
	unsigned n = 0;

	if (!find_programs(f))
		skip();
	assert_int_equal(log_path_open(f->path, &f->log), OK);
	for (unsigned i = 0; i < 25; i++) {
		int status;

		start(f);
		give_ring(f);
		for (unsigned k = 0; k < 200 + 97 * i && ring_has_room(f->worker, 100); k++)
			put_numbered(f, n++);
		kill(f->pid, SIGKILL);
		channel_free(f->c);
		f->c = NULL;
		assert_int_equal(waitpid(f->pid, &status, 0), f->pid);
		for (unsigned k = 0; k < 50 && ring_has_room(f->worker, 100); k++)
			put_numbered(f, n++);
	}
	start(f);
	give_ring(f);
	drain(f);
	wait_until(f, &f->drained, 1);
	stop(f);
	must_have_each_once(f, n, 1, false);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(what_is_drained_is_in_the_file),
		CASE(a_successor_looks_through_a_long_file_for_what_may_be_written),
		CASE(a_policy_that_was_announced_is_heard_before_records_of_it_are_written),
		CASE(what_is_in_the_rings_is_written_when_the_supervisor_goes),
		CASE(a_full_disk_refuses_loses_nothing_and_goes_on_when_there_is_room),
		CASE(a_lock_that_is_never_given_back_refuses),
		CASE(a_full_file_is_put_aside_and_nothing_is_lost),
		CASE(a_file_that_cannot_be_put_aside_is_gone_on_with),
		CASE(a_file_that_another_has_put_aside_is_followed_by_its_successor),
		CASE(a_ring_that_has_ended_is_told_when_it_is_written),
		CASE(of_a_recorder_that_is_killed_nothing_is_lost_and_nothing_is_there_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
