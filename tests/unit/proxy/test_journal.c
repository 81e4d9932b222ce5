#include "tests/unit/proxy/journal_harness.h"

#include <sys/stat.h>

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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
