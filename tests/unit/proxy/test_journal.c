#include <fcntl.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <signal.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/journal.h"
#include "proxy/log_read.h"
#include "proxy/log_verify.h"

struct fixture {
	char path[64];
	int fd;
	struct log_file *log;
	struct journal *j;
	struct ring *worker;
	struct ring_fds kept;
	struct log_reader *reader;
};

static struct ring_fds dup_fds(const struct ring_fds *f)
{
	return (struct ring_fds){ dup(f->memory), dup(f->wake), dup(f->room) };
}

static void add_worker(struct fixture *f, struct ring_fds fds)
{
	struct journal_writer w = { .role = ROLE_WORKER, .sandbox = STR("box"), .policy = STR("digest") };
	size_t number;

	assert_int_equal(journal_add(f->j, &fds, &w, &number), OK);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct ring_fds w;
	int fd;

	snprintf(f->path, sizeof(f->path), "/tmp/exeat-journal-XXXXXX");
	fd = mkstemp(f->path);
	fcntl(fd, F_SETFL, O_APPEND);
	f->fd = open(f->path, O_RDONLY);
	assert_int_equal(log_file_open(fd, &f->log), OK);
	assert_int_equal(journal_new(f->log, &f->j), OK);
	assert_int_equal(ring_create(&f->kept), OK);
	w = dup_fds(&f->kept);
	assert_int_equal(ring_open_writer(&w, &f->worker), OK);
	add_worker(f, dup_fds(&f->kept));
	assert_int_equal(log_reader_open(f->fd, &f->reader), OK);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	struct log_verdict v;

	/* Whatever a test did: the file is a chain. */
	assert_int_equal(log_verify(f->fd, NULL, &v), OK);
	log_reader_close(f->reader);
	journal_free(f->j);
	log_file_close(f->log);
	ring_close(f->worker);
	close(f->kept.memory);
	close(f->kept.wake);
	close(f->kept.room);
	close(f->fd);
	unlink(f->path);
	free(f);
	return 0;
}

static void request(struct fixture *f, const char *phase, uint64_t exchange)
{
	struct record r;

	record_begin(&r, RECORD_request);
	record_str(&r, REC_phase, str_of(phase));
	record_u64(&r, REC_exchange, exchange);
	assert_int_equal(record_commit(&r, f->worker), OK);
}

static void dns(struct fixture *f, const char *name)
{
	struct record r;

	record_begin(&r, RECORD_dns);
	record_str(&r, REC_name, str_of(name));
	assert_int_equal(record_commit(&r, f->worker), OK);
}

static void batch(struct fixture *f, uint64_t now, bool all)
{
	bool more = true;

	while (more)
		assert_int_equal(journal_batch(f->j, now, all, &more), OK);
}

/* What has been counted into an eventfd. */
static uint64_t read_count(int fd)
{
	uint64_t n = 0;

	return read(fd, &n, sizeof(n)) == sizeof(n) ? n : 0;
}

/* The next line's member, as text; "" where there is none, NULL where there is no line. */
static const char *next(struct fixture *f, const char *key)
{
	static char out[256];
	struct str line;
	json_t *o, *m;

	if (log_reader_next(f->reader, &line) != OK)
		return NULL;
	o = json_loadb(line.p, line.n, JSON_ALLOW_NUL, NULL);
	assert_non_null(o);
	m = json_object_get(o, key);
	if (json_is_integer(m))
		snprintf(out, sizeof(out), "%lld", (long long)json_integer_value(m));
	else
		snprintf(out, sizeof(out), "%s", m ? json_string_value(m) : "");
	json_decref(o);
	return out;
}

static void a_record_is_stamped_with_who_wrote_it(void **state)
{
	struct fixture *f = *state;
	struct record r;

	record_begin(&r, RECORD_dns);
	record_str(&r, REC_policy, STR("a lie"));
	assert_int_equal(record_commit(&r, f->worker), OK);
	dns(f, "b.test");
	batch(f, 0, false);
	assert_string_equal(next(f, "policy"), "digest");
	assert_string_equal(next(f, "sandbox"), "box");
	assert_null(next(f, "seq"));
}

static void a_batch_that_found_no_record_was_idle(void **state)
{
	struct fixture *f = *state;

	batch(f, 1000, false);
	assert_true(journal_idle(f->j));
	request(f, "begin", 1);
	batch(f, 1000, false);
	/* It was held, and no line was written: but it came. */
	assert_false(journal_idle(f->j));
	journal_linger(f->j, true);
	batch(f, 1001, false);
	assert_true(journal_idle(f->j));
	journal_wake_seen(f->j, 0);
	dns(f, "a.example");
	assert_int_equal(read_count(journal_wake_fd(f->j, 0)), 0);
	journal_linger(f->j, false);
	batch(f, 1002, false);
	dns(f, "b.example");
	assert_int_equal(read_count(journal_wake_fd(f->j, 0)), 1);
}

static void a_begin_with_an_end_within_the_second_is_one_line(void **state)
{
	struct fixture *f = *state;

	request(f, "begin", 1);
	batch(f, 1000, false);
	assert_null(next(f, "phase"));
	assert_int_equal(journal_due(f->j), 1000 + RECORD_BEGIN_HOLD_MS);
	request(f, "end", 1);
	batch(f, 1999, false);
	assert_string_equal(next(f, "phase"), "end");
	batch(f, 9999, true);
	assert_null(next(f, "phase"));
	assert_int_equal(journal_due(f->j), JOURNAL_NEVER);
}

static void a_begin_whose_end_is_over_a_second_away_is_a_line_of_its_own(void **state)
{
	struct fixture *f = *state;

	request(f, "begin", 1);
	batch(f, 1000, false);
	batch(f, 1000 + RECORD_BEGIN_HOLD_MS - 1, false);
	assert_null(next(f, "phase"));
	batch(f, 1000 + RECORD_BEGIN_HOLD_MS, false);
	assert_string_equal(next(f, "phase"), "begin");
	request(f, "end", 1);
	batch(f, 3000, false);
	assert_string_equal(next(f, "phase"), "end");
	assert_null(next(f, "phase"));
}

static void a_begin_is_written_when_all_is_wanted(void **state)
{
	struct fixture *f = *state;

	request(f, "begin", 1);
	batch(f, 0, false);
	request(f, "begin", 2);
	batch(f, 1, true);
	/* What was held is written after what has just come. */
	assert_string_equal(next(f, "exchange"), "2");
	assert_string_equal(next(f, "exchange"), "1");
	assert_null(next(f, "exchange"));
}

static void a_begin_whose_slot_is_taken_is_written_at_once(void **state)
{
	struct fixture *f = *state;

	request(f, "begin", 5);
	request(f, "begin", 5 + JOURNAL_HELD_MAX);
	batch(f, 0, false);
	assert_string_equal(next(f, "exchange"), "1029");
	assert_null(next(f, "exchange"));
	request(f, "end", 5);
	batch(f, 1, false);
	assert_string_equal(next(f, "phase"), "end");
	batch(f, 2, true);
	assert_null(next(f, "phase"));
}

static void a_held_begin_stays_in_the_ring_for_a_successor(void **state)
{
	struct fixture *f = *state;

	request(f, "begin", 1);
	dns(f, "a.test");
	batch(f, 0, false);
	assert_string_equal(next(f, "kind"), "dns");
	/* The recorder dies: its memory is gone. */
	journal_free(f->j);
	assert_int_equal(journal_new(f->log, &f->j), OK);
	add_worker(f, dup_fds(&f->kept));
	batch(f, 5000, true);
	assert_string_equal(next(f, "phase"), "begin");
	assert_string_equal(next(f, "kind"), "dns");
	assert_null(next(f, "kind"));
}

static void a_ring_over_half_full_holds_no_begins(void **state)
{
	struct fixture *f = *state;
	unsigned begins = 0;
	struct record r;

	record_begin(&r, RECORD_request);
	record_str(&r, REC_phase, STR("begin"));
	record_u64(&r, REC_exchange, 1);
	while (record_commit(&r, f->worker) == OK) {
		begins++;
		record_begin(&r, RECORD_request);
		record_str(&r, REC_phase, STR("begin"));
		record_u64(&r, REC_exchange, begins + 1);
	}
	batch(f, 0, false);
	assert_true(ring_has_room(f->worker, RING_RECORD_MAX));
	assert_true(ring_has_room(f->worker, RING_BYTES / 2 > RING_RECORD_MAX ? RING_RECORD_MAX : 0));
	batch(f, 0, true);
	for (unsigned i = 0; i < begins; i++)
		assert_non_null(next(f, "seq"));
	assert_null(next(f, "seq"));
}

static void a_worker_that_writes_what_it_may_not_is_stopped_and_told(void **state)
{
	struct fixture *f = *state;
	struct record r;

	dns(f, "a.test");
	record_begin(&r, RECORD_sandbox_stop);
	assert_int_equal(record_commit(&r, f->worker), OK);
	dns(f, "b.test");
	batch(f, 0, false);
	assert_true(ring_refuses(f->worker));
	assert_string_equal(next(f, "name"), "a.test");
	assert_string_equal(next(f, "kind"), "log_fault");
	batch(f, 0, true);
	assert_null(next(f, "kind"));
	/* A batch that succeeds does not make it good again. */
	assert_true(ring_refuses(f->worker));
}

static void a_begin_that_is_held_when_its_worker_breaks_the_rules_is_written(void **state)
{
	struct fixture *f = *state;

	request(f, "begin", 1);
	batch(f, 0, false);
	assert_int_equal(ring_write(f->worker, STR("garbage")), OK);
	batch(f, 1, false);
	assert_string_equal(next(f, "phase"), "begin");
	assert_string_equal(next(f, "kind"), "log_fault");
}

static void another_ring_is_not_touched_by_a_broken_one(void **state)
{
	struct fixture *f = *state;
	struct journal_writer dialer = { .role = ROLE_DIALER };
	struct ring_fds fds, copy;
	struct ring *w;
	struct record r;
	size_t number;

	assert_int_equal(ring_create(&fds), OK);
	copy = dup_fds(&fds);
	assert_int_equal(ring_open_writer(&copy, &w), OK);
	assert_int_equal(journal_add(f->j, &fds, &dialer, &number), OK);
	assert_int_equal(ring_write(f->worker, STR("garbage")), OK);
	record_begin(&r, RECORD_dial);
	record_str(&r, REC_sandbox, STR("other"));
	assert_int_equal(record_commit(&r, w), OK);
	batch(f, 0, false);
	assert_string_equal(next(f, "sandbox"), "other");
	assert_false(ring_refuses(w));
	ring_close(w);
}

static void more_than_one_batch_comes_in_order(void **state)
{
	struct fixture *f = *state;
	char name[32];
	unsigned n = 0;

	while (ring_has_room(f->worker, 100)) {
		snprintf(name, sizeof(name), "%u.test", n++);
		dns(f, name);
	}
	batch(f, 0, false);
	for (unsigned i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "%u.test", i);
		assert_string_equal(next(f, "name"), name);
	}
	assert_null(next(f, "name"));
}

/* The limit of the file's size stands for a full disk: write() falls short, then fails. */
static void set_limit(rlim_t to)
{
	struct rlimit r;

	getrlimit(RLIMIT_FSIZE, &r);
	r.rlim_cur = to == RLIM_INFINITY ? r.rlim_max : to;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &r), 0);
}

static void a_log_that_cannot_be_written_refuses_and_loses_nothing(void **state)
{
	struct fixture *f = *state;
	bool more;

	signal(SIGXFSZ, SIG_IGN);
	dns(f, "a.test");
	batch(f, 0, false);
	request(f, "begin", 1);
	batch(f, 0, false);
	request(f, "end", 1);
	request(f, "begin", 2);
	dns(f, "b.test");
	set_limit(400);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(journal_batch(f->j, 5000 * i, false, &more), ERR_SYSTEM);
		assert_true(ring_refuses(f->worker));
		assert_int_equal(ring_write(f->worker, STR("x")), ERR_DENIED);
	}
	set_limit(RLIM_INFINITY);
	batch(f, 20000, false);
	assert_false(ring_refuses(f->worker));
	dns(f, "c.test");
	batch(f, 30000, true);
	assert_string_equal(next(f, "name"), "a.test");
	assert_string_equal(next(f, "phase"), "end");
	assert_string_equal(next(f, "name"), "b.test");
	assert_string_equal(next(f, "name"), "c.test");
	assert_string_equal(next(f, "phase"), "begin");
	assert_null(next(f, "name"));
}

static void what_a_worker_wrote_before_its_fault_is_not_lost_on_a_full_disk(void **state)
{
	struct fixture *f = *state;
	bool more;

	signal(SIGXFSZ, SIG_IGN);
	dns(f, "a.test");
	assert_int_equal(ring_write(f->worker, STR("garbage")), OK);
	set_limit(0);
	assert_int_equal(journal_batch(f->j, 0, false, &more), ERR_SYSTEM);
	set_limit(RLIM_INFINITY);
	batch(f, 0, false);
	assert_string_equal(next(f, "name"), "a.test");
	assert_string_equal(next(f, "kind"), "log_fault");
	assert_null(next(f, "kind"));
	assert_true(ring_refuses(f->worker));
}

static void a_ring_that_comes_while_nothing_can_be_written_refuses(void **state)
{
	struct fixture *f = *state;
	struct ring_fds fds, copy;
	struct ring *w;

	journal_refuse(f->j);
	assert_int_equal(ring_create(&fds), OK);
	copy = dup_fds(&fds);
	assert_int_equal(ring_open_writer(&copy, &w), OK);
	add_worker(f, fds);
	assert_true(ring_refuses(w));
	batch(f, 0, false);
	assert_false(ring_refuses(w));
	ring_close(w);
}

static void a_torn_line_becomes_a_line_that_says_so(void **state)
{
	struct fixture *f = *state;
	int fd = open(f->path, O_WRONLY | O_APPEND);

	assert_int_equal(write(fd, "{\"seq\":1,", 9), 9);
	close(fd);
	batch(f, 0, false);
	assert_string_equal(next(f, "kind"), "log_fault");
	batch(f, 0, false);
	assert_null(next(f, "kind"));
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_record_is_stamped_with_who_wrote_it),
		CASE(a_batch_that_found_no_record_was_idle),
		CASE(a_begin_with_an_end_within_the_second_is_one_line),
		CASE(a_begin_whose_end_is_over_a_second_away_is_a_line_of_its_own),
		CASE(a_begin_is_written_when_all_is_wanted),
		CASE(a_begin_whose_slot_is_taken_is_written_at_once),
		CASE(a_held_begin_stays_in_the_ring_for_a_successor),
		CASE(a_ring_over_half_full_holds_no_begins),
		CASE(a_worker_that_writes_what_it_may_not_is_stopped_and_told),
		CASE(a_begin_that_is_held_when_its_worker_breaks_the_rules_is_written),
		CASE(another_ring_is_not_touched_by_a_broken_one),
		CASE(more_than_one_batch_comes_in_order),
		CASE(a_log_that_cannot_be_written_refuses_and_loses_nothing),
		CASE(what_a_worker_wrote_before_its_fault_is_not_lost_on_a_full_disk),
		CASE(a_ring_that_comes_while_nothing_can_be_written_refuses),
		CASE(a_torn_line_becomes_a_line_that_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
