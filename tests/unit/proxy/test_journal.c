#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <signal.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/journal.h"
#include "proxy/log_read.h"
#include "tests/unit/proxy/log_checks.h"

struct fixture {
	char path[64];
	int fd;
	struct log_file *log;
	struct journal *j;
	struct ring *worker;
	struct ring_fds kept;
	struct log_reader *reader;
};

static const struct journal_config plain;

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
	assert_int_equal(journal_new(f->log, &plain, &f->j), OK);
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

	/* Whatever a test did: the file is a chain. */
	assert_int_equal(check_file(f->path, NULL).e, OK);
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

static void batch(struct fixture *f, uint64_t now, enum journal_want all)
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
	batch(f, 0, JOURNAL_NORMAL);
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
	batch(f, 1000, JOURNAL_NORMAL);
	assert_null(next(f, "phase"));
	assert_int_equal(journal_due(f->j), 1000 + RECORD_BEGIN_HOLD_MS);
	request(f, "end", 1);
	batch(f, 1999, JOURNAL_NORMAL);
	assert_string_equal(next(f, "phase"), "end");
	batch(f, 9999, JOURNAL_ALL);
	assert_null(next(f, "phase"));
	assert_int_equal(journal_due(f->j), JOURNAL_NEVER);
}

static void a_begin_whose_end_is_over_a_second_away_is_a_line_of_its_own(void **state)
{
	struct fixture *f = *state;

	request(f, "begin", 1);
	batch(f, 1000, JOURNAL_NORMAL);
	batch(f, 1000 + RECORD_BEGIN_HOLD_MS - 1, JOURNAL_NORMAL);
	assert_null(next(f, "phase"));
	batch(f, 1000 + RECORD_BEGIN_HOLD_MS, JOURNAL_NORMAL);
	assert_string_equal(next(f, "phase"), "begin");
	request(f, "end", 1);
	batch(f, 3000, JOURNAL_NORMAL);
	assert_string_equal(next(f, "phase"), "end");
	assert_null(next(f, "phase"));
}

static void a_begin_is_written_when_all_is_wanted(void **state)
{
	struct fixture *f = *state;

	request(f, "begin", 1);
	batch(f, 0, JOURNAL_NORMAL);
	request(f, "begin", 2);
	batch(f, 1, JOURNAL_ALL);
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
	batch(f, 0, JOURNAL_NORMAL);
	assert_string_equal(next(f, "exchange"), "1029");
	assert_null(next(f, "exchange"));
	request(f, "end", 5);
	batch(f, 1, JOURNAL_NORMAL);
	assert_string_equal(next(f, "phase"), "end");
	batch(f, 2, JOURNAL_ALL);
	assert_null(next(f, "phase"));
}

static void a_held_begin_stays_in_the_ring_for_a_successor(void **state)
{
	struct fixture *f = *state;

	request(f, "begin", 1);
	dns(f, "a.test");
	batch(f, 0, JOURNAL_NORMAL);
	assert_string_equal(next(f, "kind"), "dns");
	/* The recorder dies: its memory is gone. */
	journal_free(f->j);
	assert_int_equal(journal_new(f->log, &plain, &f->j), OK);
	add_worker(f, dup_fds(&f->kept));
	batch(f, 5000, JOURNAL_ALL);
	assert_string_equal(next(f, "phase"), "begin");
	assert_null(next(f, "kind"));
}

/* Another journal, on what the one before it has left. */
static void succeed(struct fixture *f)
{
	journal_free(f->j);
	assert_int_equal(journal_new(f->log, &plain, &f->j), OK);
	add_worker(f, dup_fds(&f->kept));
}

static void a_begin_that_was_written_on_its_own_is_not_written_again(void **state)
{
	struct fixture *f = *state;

	request(f, "begin", 1);
	batch(f, 0, JOURNAL_NORMAL);
	/* The same slot: this one is written at once, while the other is held. */
	request(f, "begin", 1 + JOURNAL_HELD_MAX);
	dns(f, "a.test");
	batch(f, 1, JOURNAL_NORMAL);
	assert_string_equal(next(f, "exchange"), "1025");
	assert_string_equal(next(f, "kind"), "dns");
	succeed(f);
	request(f, "end", 1);
	batch(f, 2, JOURNAL_NORMAL);
	assert_string_equal(next(f, "phase"), "end");
	batch(f, 3, JOURNAL_ALL);
	assert_null(next(f, "kind"));
}

static void an_end_that_is_written_lets_a_successor_forget_its_begin(void **state)
{
	struct fixture *f = *state;

	request(f, "begin", 1);
	request(f, "begin", 2);
	batch(f, 0, JOURNAL_NORMAL);
	request(f, "end", 2);
	batch(f, 1, JOURNAL_NORMAL);
	assert_string_equal(next(f, "phase"), "end");
	succeed(f);
	batch(f, 2, JOURNAL_ALL);
	assert_string_equal(next(f, "exchange"), "1");
	assert_null(next(f, "kind"));
}

/* A process that dies inside write() leaves some of the batch's lines, and rings whose tails have
 * not moved. */
static void a_batch_of_which_a_part_is_in_the_file_is_completed(void **state)
{
	struct fixture *f = *state;
	struct ring_fds copy = dup_fds(&f->kept);
	struct ring *again;
	struct stat st;
	char name[16];

	for (unsigned i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "%u.test", i);
		dns(f, name);
	}
	assert_int_equal(ring_open_reader(&copy, &again), OK);
	batch(f, 0, JOURNAL_NORMAL);
	ring_advance(again);	/* puts the tail back to where it was */
	ring_close(again);
	/* One line and a half are missing. */
	assert_int_equal(fstat(f->fd, &st), 0);
	assert_int_equal(truncate(f->path, st.st_size - st.st_size / 4 - st.st_size / 8), 0);
	succeed(f);
	batch(f, 1, JOURNAL_NORMAL);
	for (unsigned i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "%u.test", i);
		assert_string_equal(next(f, "name"), name);
	}
	assert_string_equal(next(f, "kind"), "log_fault");
	assert_null(next(f, "kind"));
}

static void a_stamp_that_no_line_bears_is_not_believed(void **state)
{
	struct fixture *f = *state;
	struct ring_fds copy = dup_fds(&f->kept);
	struct ring *hostile;
	struct str bytes;

	dns(f, "a.test");
	assert_int_equal(ring_open_reader(&copy, &hostile), OK);
	assert_int_equal(ring_next(hostile, &bytes), OK);
	ring_set_stamp(hostile, ring_position(hostile), 1234);
	ring_close(hostile);
	succeed(f);
	batch(f, 0, JOURNAL_NORMAL);
	assert_string_equal(next(f, "name"), "a.test");
}

static void rings_come_and_go_and_their_numbers_are_used_again(void **state)
{
	struct fixture *f = *state;
	struct journal_writer w = { .role = ROLE_DIALER };
	int before = dup(0);

	close(before);
	for (unsigned i = 0; i < 3 * JOURNAL_RINGS_MAX; i++) {
		struct ring_fds fds, copy;
		struct ring *writer;
		struct record r;
		size_t number;

		assert_int_equal(ring_create(&fds), OK);
		copy = dup_fds(&fds);
		assert_int_equal(ring_open_writer(&copy, &writer), OK);
		assert_int_equal(journal_add(f->j, &fds, &w, &number), OK);
		assert_int_equal(number, 1);
		record_begin(&r, RECORD_dial);
		assert_int_equal(record_commit(&r, writer), OK);
		journal_end(f->j, number);
		assert_false(journal_ended(f->j, number));
		if (i % 500 == 0) {
			batch(f, i, JOURNAL_NORMAL);
			assert_true(journal_ended(f->j, number));
			assert_string_equal(next(f, "kind"), "dial");
		}
		journal_remove(f->j, number);
		ring_close(writer);
	}
	assert_int_equal(dup(0), before);
	close(before);
}

static void a_ring_that_ends_gives_up_its_begins(void **state)
{
	struct fixture *f = *state;

	request(f, "begin", 1);
	batch(f, 0, JOURNAL_NORMAL);
	journal_end(f->j, 0);
	dns(f, "a.test");
	request(f, "begin", 2);
	batch(f, 0, JOURNAL_NORMAL);
	assert_true(journal_ended(f->j, 0));
	assert_string_equal(next(f, "kind"), "dns");
	assert_string_equal(next(f, "exchange"), "2");
	assert_string_equal(next(f, "exchange"), "1");
	journal_remove(f->j, 0);
	batch(f, 0, JOURNAL_NORMAL);
	assert_null(next(f, "kind"));
}

static void a_broken_ring_ends_once_its_fault_is_told(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(ring_write(f->worker, STR("garbage")), OK);
	journal_end(f->j, 0);
	batch(f, 0, JOURNAL_NORMAL);
	assert_true(journal_ended(f->j, 0));
	assert_string_equal(next(f, "kind"), "log_fault");
}

static void policy(struct fixture *f, const char *digest)
{
	struct record r;

	record_begin(&r, RECORD_dns);
	record_str(&r, REC_policy, str_of(digest));
	assert_int_equal(record_commit(&r, f->worker), OK);
}

static void a_record_may_name_the_policy_in_force_or_the_one_before(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(journal_policy(f->j, 0, STR("second")), OK);
	policy(f, "digest");
	policy(f, "second");
	policy(f, "third");
	policy(f, "");
	batch(f, 0, JOURNAL_NORMAL);
	assert_int_equal(journal_policy(f->j, 0, STR("third")), OK);
	policy(f, "digest");
	policy(f, "second");
	batch(f, 0, JOURNAL_NORMAL);
	assert_string_equal(next(f, "policy"), "digest");
	assert_string_equal(next(f, "policy"), "second");
	assert_string_equal(next(f, "policy"), "second");
	assert_string_equal(next(f, "policy"), "second");
	assert_string_equal(next(f, "policy"), "third");
	assert_string_equal(next(f, "policy"), "second");
}

/* ---- checkpoints, files ---- */

static void with(struct fixture *f, const struct journal_config *config)
{
	journal_free(f->j);
	assert_int_equal(journal_new(f->log, config, &f->j), OK);
	add_worker(f, dup_fds(&f->kept));
}

static struct log_signer *open_signer(void)
{
	static const char key[] = "-----BEGIN PRIVATE KEY-----\n"
				  "MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n"
				  "-----END PRIVATE KEY-----\n";
	struct log_signer *s;
	int fd = memfd_create("key", MFD_CLOEXEC);

	assert_int_equal(write(fd, key, sizeof(key) - 1), sizeof(key) - 1);
	assert_int_equal(log_signer_open(fd, &s), OK);
	return s;
}

static void a_checkpoint_comes_after_a_thousand_lines_or_a_minute(void **state)
{
	struct fixture *f = *state;
	struct journal_config config = { .signer = open_signer() };

	with(f, &config);
	assert_int_equal(journal_due(f->j), JOURNAL_NEVER);
	for (unsigned i = 0; i < JOURNAL_CHECKPOINT_LINES + 1; i++)
		dns(f, "a.test");
	batch(f, 5, JOURNAL_NORMAL);
	for (unsigned i = 0; i < JOURNAL_CHECKPOINT_LINES; i++)
		assert_string_equal(next(f, "kind"), "dns");
	assert_string_equal(next(f, "kind"), "checkpoint");
	assert_string_equal(next(f, "kind"), "dns");
	assert_int_equal(journal_due(f->j), 5 + JOURNAL_CHECKPOINT_MS);
	batch(f, 4 + JOURNAL_CHECKPOINT_MS, JOURNAL_NORMAL);
	assert_null(next(f, "kind"));
	batch(f, 5 + JOURNAL_CHECKPOINT_MS, JOURNAL_NORMAL);
	assert_int_equal(strlen(next(f, "signature")), LOG_SIGNATURE_HEX);
	/* No new line, no checkpoint. */
	assert_int_equal(journal_due(f->j), JOURNAL_NEVER);
	batch(f, 9 * JOURNAL_CHECKPOINT_MS, JOURNAL_END);
	assert_null(next(f, "kind"));
	dns(f, "a.test");
	batch(f, 9 * JOURNAL_CHECKPOINT_MS, JOURNAL_END);
	assert_string_equal(next(f, "kind"), "dns");
	assert_string_equal(next(f, "kind"), "checkpoint");
	journal_free(f->j);
	f->j = NULL;
	log_signer_close(config.signer);
}

static void a_file_ends_with_all_that_was_held_and_a_signature(void **state)
{
	struct fixture *f = *state;
	struct journal_config config = { .signer = open_signer() };
	bool more;

	with(f, &config);
	request(f, "begin", 1);
	batch(f, 0, JOURNAL_NORMAL);
	assert_false(journal_has_written(f->j));
	request(f, "begin", 2);
	batch(f, 1, JOURNAL_ROTATE);
	assert_string_equal(next(f, "exchange"), "1");
	assert_string_equal(next(f, "exchange"), "2");
	assert_string_equal(next(f, "kind"), "checkpoint");
	assert_string_equal(next(f, "kind"), "rotated");
	dns(f, "a.test");
	assert_int_equal(journal_batch(f->j, 2, JOURNAL_NORMAL, &more), ERR_CLOSED);
	assert_false(ring_refuses(f->worker));
	log_file_stay(f->log);
	journal_note(f->j, "no room");
	batch(f, 3, JOURNAL_NORMAL);
	assert_string_equal(next(f, "kind"), "dns");
	assert_string_equal(next(f, "reason"), "no room");
	assert_true(journal_has_written(f->j));
	journal_free(f->j);
	f->j = NULL;
	log_signer_close(config.signer);
}

static void a_file_ends_also_under_load(void **state)
{
	struct fixture *f = *state;
	uint64_t put = 0, n = 0, batches = 0;
	bool more = true;
	const char *kind;

	for (; put < 100; put++)
		request(f, "begin", put);
	batch(f, 0, JOURNAL_NORMAL);
	while (more) {
		for (; ring_has_room(f->worker, 200); put++)
			dns(f, "a-name-that-takes-some-room.test");
		assert_int_equal(journal_batch(f->j, 0, JOURNAL_ROTATE, &more), OK);
		assert_true(++batches < 10);
	}
	while ((kind = next(f, "kind")) != NULL && strcmp(kind, "rotated") != 0)
		n++;
	assert_non_null(kind);
	assert_true(n > 100 && n < put);
	assert_null(next(f, "kind"));
	log_file_stay(f->log);
	batch(f, 0, JOURNAL_NORMAL);
	while (next(f, "kind"))
		n++;
	assert_int_equal(n, put);
}

static void a_synced_log_holds_no_begin_and_says_what_is_on_the_disk(void **state)
{
	struct fixture *f = *state;
	struct journal_config config = { .synced = true };
	uint64_t at;

	with(f, &config);
	request(f, "begin", 1);
	at = ring_written(f->worker);
	assert_false(ring_synced(f->worker, at));
	batch(f, 0, JOURNAL_NORMAL);
	assert_string_equal(next(f, "phase"), "begin");
	assert_true(ring_synced(f->worker, at));
	dns(f, "a.test");
	assert_true(ring_synced(f->worker, at));
	assert_false(ring_synced(f->worker, ring_written(f->worker)));
}

/* Stands before the C library's. */
static bool disk_fails;

int fdatasync(int fd)
{
	if (disk_fails) {
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_fdatasync, fd);
}

static void a_disk_that_does_not_take_it_refuses_and_what_was_written_stays_once(void **state)
{
	struct fixture *f = *state;
	struct journal_config config = { .synced = true };
	bool more;

	with(f, &config);
	dns(f, "a.test");
	disk_fails = true;
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(journal_batch(f->j, i, JOURNAL_NORMAL, &more), ERR_SYSTEM);
		assert_int_equal(errno, EIO);
		assert_true(ring_refuses(f->worker));
		assert_false(ring_synced(f->worker, ring_written(f->worker)));
	}
	disk_fails = false;
	batch(f, 5, JOURNAL_NORMAL);
	assert_false(ring_refuses(f->worker));
	assert_true(ring_synced(f->worker, ring_written(f->worker)));
	assert_string_equal(next(f, "name"), "a.test");
	assert_string_equal(next(f, "kind"), "log_fault");
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
	batch(f, 0, JOURNAL_NORMAL);
	assert_true(ring_has_room(f->worker, RING_RECORD_MAX));
	assert_true(ring_has_room(f->worker, RING_BYTES / 2 > RING_RECORD_MAX ? RING_RECORD_MAX : 0));
	batch(f, 0, JOURNAL_ALL);
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
	batch(f, 0, JOURNAL_NORMAL);
	assert_true(ring_refuses(f->worker));
	assert_string_equal(next(f, "name"), "a.test");
	assert_string_equal(next(f, "kind"), "log_fault");
	batch(f, 0, JOURNAL_ALL);
	assert_null(next(f, "kind"));
	/* A batch that succeeds does not make it good again. */
	assert_true(ring_refuses(f->worker));
}

static void a_begin_that_is_held_when_its_worker_breaks_the_rules_is_written(void **state)
{
	struct fixture *f = *state;

	request(f, "begin", 1);
	batch(f, 0, JOURNAL_NORMAL);
	assert_int_equal(ring_write(f->worker, STR("garbage")), OK);
	batch(f, 1, JOURNAL_NORMAL);
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
	batch(f, 0, JOURNAL_NORMAL);
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
	batch(f, 0, JOURNAL_NORMAL);
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
	batch(f, 0, JOURNAL_NORMAL);
	request(f, "begin", 1);
	batch(f, 0, JOURNAL_NORMAL);
	request(f, "end", 1);
	request(f, "begin", 2);
	dns(f, "b.test");
	set_limit(400);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(journal_batch(f->j, 5000 * i, JOURNAL_NORMAL, &more), ERR_SYSTEM);
		assert_true(ring_refuses(f->worker));
		assert_int_equal(ring_write(f->worker, STR("x")), ERR_DENIED);
	}
	set_limit(RLIM_INFINITY);
	batch(f, 20000, JOURNAL_NORMAL);
	assert_false(ring_refuses(f->worker));
	dns(f, "c.test");
	batch(f, 30000, JOURNAL_ALL);
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
	assert_int_equal(journal_batch(f->j, 0, JOURNAL_NORMAL, &more), ERR_SYSTEM);
	set_limit(RLIM_INFINITY);
	batch(f, 0, JOURNAL_NORMAL);
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
	batch(f, 0, JOURNAL_NORMAL);
	assert_false(ring_refuses(w));
	ring_close(w);
}

/* A journal whose sandboxes may write so much in a second, and a second sandbox. */
static struct ring *limited(struct fixture *f, uint32_t bytes)
{
	const struct journal_config config = { .sandbox_bytes = bytes };
	const struct journal_writer w = { .role = ROLE_WORKER, .sandbox = STR("other") };
	struct ring *writer = NULL;
	struct ring_fds made, kept;
	size_t number;

	journal_free(f->j);
	assert_int_equal(journal_new(f->log, &config, &f->j), OK);
	add_worker(f, dup_fds(&f->kept));
	assert_int_equal(ring_create(&made), OK);
	kept = dup_fds(&made);
	assert_int_equal(ring_open_writer(&made, &writer), OK);
	assert_int_equal(journal_add(f->j, &kept, &w, &number), OK);
	return writer;
}

/* Of the lines that have come since. */
static unsigned lines_of(struct fixture *f, const char *sandbox)
{
	unsigned n = 0;

	for (const char *s = next(f, "sandbox"); s; s = next(f, "sandbox"))
		n += strcmp(s, sandbox) == 0;
	return n;
}

static void a_sandbox_that_writes_too_much_waits_and_its_neighbour_does_not(void **state)
{
	const unsigned most = 4096 / 16;	/* no record is shorter */
	struct fixture *f = *state;
	struct ring *loud = f->worker, *other = limited(f, 4096);

	for (unsigned i = 0; i < 1500; i++)
		dns(f, "loud.test");
	batch(f, 1000, JOURNAL_NORMAL);
	assert_in_range(lines_of(f, "box"), 10, most);
	assert_in_range(journal_due(f->j), 1001, 1100);
	f->worker = other;
	dns(f, "quiet.test");
	batch(f, 1001, JOURNAL_NORMAL);
	assert_in_range(lines_of(f, "other"), 1, 1);
	batch(f, 2000, JOURNAL_NORMAL);
	assert_in_range(lines_of(f, "box"), 10, most);
	/* What is left is written when all is wanted. */
	batch(f, 2000, JOURNAL_ALL);
	assert_true(lines_of(f, "box") > 1500 - 3 * most);
	f->worker = loud;
	ring_close(other);
}

static void a_sandbox_that_ends_leaves_nothing_to_wait_for(void **state)
{
	struct fixture *f = *state;
	struct ring *other = limited(f, 4096);

	for (unsigned i = 0; i < 500; i++)
		dns(f, "loud.test");
	batch(f, 0, JOURNAL_NORMAL);
	assert_true(lines_of(f, "box") < 500);
	journal_end(f->j, 0);
	assert_false(journal_ended(f->j, 0));
	batch(f, 0, JOURNAL_NORMAL);
	assert_true(journal_ended(f->j, 0));
	assert_true(lines_of(f, "box") > 300);
	ring_close(other);
}

static void a_torn_line_becomes_a_line_that_says_so(void **state)
{
	struct fixture *f = *state;
	int fd = open(f->path, O_WRONLY | O_APPEND);

	assert_int_equal(write(fd, "{\"seq\":1,", 9), 9);
	close(fd);
	batch(f, 0, JOURNAL_NORMAL);
	assert_string_equal(next(f, "kind"), "log_fault");
	batch(f, 0, JOURNAL_NORMAL);
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
		CASE(a_begin_that_was_written_on_its_own_is_not_written_again),
		CASE(an_end_that_is_written_lets_a_successor_forget_its_begin),
		CASE(a_batch_of_which_a_part_is_in_the_file_is_completed),
		CASE(a_stamp_that_no_line_bears_is_not_believed),
		CASE(rings_come_and_go_and_their_numbers_are_used_again),
		CASE(a_ring_that_ends_gives_up_its_begins),
		CASE(a_broken_ring_ends_once_its_fault_is_told),
		CASE(a_record_may_name_the_policy_in_force_or_the_one_before),
		CASE(a_checkpoint_comes_after_a_thousand_lines_or_a_minute),
		CASE(a_file_ends_with_all_that_was_held_and_a_signature),
		CASE(a_file_ends_also_under_load),
		CASE(a_synced_log_holds_no_begin_and_says_what_is_on_the_disk),
		CASE(a_disk_that_does_not_take_it_refuses_and_what_was_written_stays_once),
		CASE(a_ring_over_half_full_holds_no_begins),
		CASE(a_worker_that_writes_what_it_may_not_is_stopped_and_told),
		CASE(a_begin_that_is_held_when_its_worker_breaks_the_rules_is_written),
		CASE(another_ring_is_not_touched_by_a_broken_one),
		CASE(more_than_one_batch_comes_in_order),
		CASE(a_log_that_cannot_be_written_refuses_and_loses_nothing),
		CASE(what_a_worker_wrote_before_its_fault_is_not_lost_on_a_full_disk),
		CASE(a_ring_that_comes_while_nothing_can_be_written_refuses),
		CASE(a_sandbox_that_writes_too_much_waits_and_its_neighbour_does_not),
		CASE(a_sandbox_that_ends_leaves_nothing_to_wait_for),
		CASE(a_torn_line_becomes_a_line_that_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
