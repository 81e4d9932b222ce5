#include "tests/unit/proxy/journal_harness.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

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
