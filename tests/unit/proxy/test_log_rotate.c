#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tests/unit/proxy/log_made.h"

static int setup(void **state)
{
	struct made_log *m = calloc(1, sizeof(*m));

	made_open(m);
	*state = m;
	return 0;
}

static int teardown(void **state)
{
	made_close(*state);
	free(*state);
	return 0;
}

static int rotate(struct made_log *m, unsigned keep)
{
	int fd = -1;

	assert_int_equal(log_rotate(m->path, keep, &fd), OK);
	assert_true(fd >= 0);
	return fd;
}

static void the_chain_goes_on_in_the_next_file(void **state)
{
	struct made_log *m = *state;
	struct log_verdict v;
	struct log_file *l;
	struct stat st;
	size_t files;

	for (unsigned i = 0; i < 3; i++) {
		made_full(m, 4);
		close(rotate(m, 0));
	}
	l = made_file(m);
	made_put(m, l, "dns");
	log_file_close(l);
	assert_int_equal(made_verify(m, &v, &files), OK);
	assert_int_equal(files, 4);
	assert_int_equal(v.lines, 3 * 5 + 3 + 1);
	assert_int_equal(v.last_seq, v.lines);
	assert_int_equal(stat(m->path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

static void what_is_given_is_written_to_and_has_the_name(void **state)
{
	struct made_log *m = *state;
	struct log_verdict v;
	struct log_file *l;
	size_t files;

	made_full(m, 1);
	assert_int_equal(log_file_open(rotate(m, 0), &l), OK);
	made_put(m, l, "dns");
	assert_int_equal(log_last_seq(l), 4);
	log_file_close(l);
	assert_int_equal(made_verify(m, &v, &files), OK);
	assert_int_equal(v.lines, 4);
}

static void a_file_that_has_not_ended_stays_and_is_given(void **state)
{
	struct made_log *m = *state;
	struct log_file *l = made_file(m);
	struct stat ours, given;
	int fd;

	made_put(m, l, "dns");
	log_file_close(l);
	fd = rotate(m, 1);
	assert_int_equal(stat(m->path, &ours), 0);
	assert_int_equal(fstat(fd, &given), 0);
	assert_int_equal(ours.st_ino, given.st_ino);
	assert_int_equal(made_entries(m), 1);
	close(fd);
}

static void nobody_writes_into_what_was_put_aside(void **state)
{
	struct made_log *m = *state;
	struct log_file *l = made_file(m), *other = made_file(m);
	struct log_line line = { .time_us = 1, .kind = "dns" };
	struct log_verdict v;
	size_t files;

	made_put(m, l, "dns");
	made_put(m, l, LOG_KIND_ROTATED);
	assert_int_equal(log_batch_begin(l), ERR_CLOSED);
	assert_int_equal(log_batch_begin(other), ERR_CLOSED);
	/* Who had to go on without a successor sees that there is one now. */
	log_file_stay(other);
	log_file_switch(l, rotate(m, 0));
	assert_int_equal(log_batch_begin(other), ERR_CLOSED);
	log_file_switch(other, rotate(m, 0));
	assert_int_equal(log_batch_begin(other), OK);
	assert_int_equal(log_batch_line(other, &line), OK);
	assert_int_equal(log_batch_end(other), OK);
	made_put(m, l, "dns");
	log_file_close(l);
	log_file_close(other);
	assert_int_equal(made_verify(m, &v, &files), OK);
	assert_int_equal(v.lines, 5);
	assert_int_equal(files, 2);
}

static void who_stays_goes_on_behind_the_line_that_says_rotated(void **state)
{
	struct made_log *m = *state;
	struct log_file *l = made_file(m);
	struct log_verdict v;
	size_t files;

	made_put(m, l, LOG_KIND_ROTATED);
	log_file_stay(l);
	made_put(m, l, "log_fault");
	made_put(m, l, LOG_KIND_ROTATED);
	/* Once. */
	assert_int_equal(log_batch_begin(l), ERR_CLOSED);
	log_file_close(l);
	assert_int_equal(made_verify(m, &v, &files), OK);
	assert_int_equal(v.lines, 3);
}

static void the_oldest_go_and_the_rest_is_a_log(void **state)
{
	struct made_log *m = *state;
	struct log_verdict v;
	size_t files;

	for (unsigned i = 0; i < 6; i++) {
		made_full(m, 2);
		close(rotate(m, 2));
	}
	assert_int_equal(made_verify(m, &v, &files), OK);
	assert_int_equal(files, 3);
	assert_int_equal(made_entries(m), 3);
	assert_int_equal(v.last_seq, 6 * 3 + 6);
	assert_int_equal(v.first_seq, v.last_seq - v.lines + 1);
}

static void aside_name(struct made_log *m, char out[320])
{
	char name[LOG_NAME_MAX];

	assert_true(log_aside_name(STR("audit.jsonl"), m->time_us - 1000000, 1, name));
	snprintf(out, 320, "%s/%s", m->dir, name);
}

static void a_file_that_has_the_name_already_is_not_touched(void **state)
{
	struct made_log *m = *state;
	struct log_file *l;
	char name[320], text[8] = "";
	int fd;

	made_full(m, 2);
	aside_name(m, name);
	fd = open(name, O_RDWR | O_CREAT, 0600);
	assert_int_equal(write(fd, "mine\n", 5), 5);
	close(fd);
	assert_int_equal(log_rotate(m->path, 0, &fd), ERR_SYSTEM);
	assert_int_equal(errno, EEXIST);
	fd = open(name, O_RDONLY);
	assert_int_equal(read(fd, text, 7), 5);
	assert_string_equal(text, "mine\n");
	close(fd);
	/* And the log can be gone on with. */
	l = made_file(m);
	log_file_stay(l);
	made_put(m, l, "dns");
	log_file_close(l);
}

static void what_a_try_that_died_has_left_is_cleared_away(void **state)
{
	static const char *const left[] = { "", "{\"seq\":4,\"pre" };
	struct log_verdict v;
	size_t files;

	for (size_t i = 0; i < 2; i++) {
		struct made_log *m = *state;
		char name[320];
		int fd;

		made_full(m, 2);
		aside_name(m, name);
		fd = open(name, O_RDWR | O_CREAT, 0600);
		assert_int_equal(write(fd, left[i], strlen(left[i])), strlen(left[i]));
		close(fd);
		close(rotate(m, 0));
		assert_int_equal(made_verify(m, &v, &files), OK);
		assert_int_equal(files, 2);
		teardown(state);
		setup(state);
	}
}

static void two_at_once_are_one(void **state)
{
	struct made_log *m = *state;
	struct log_verdict v;
	size_t files;

	for (unsigned round = 0; round < 20; round++) {
		made_full(m, 1);
		for (unsigned i = 0; i < 3; i++)
			if (fork() == 0) {
				int fd;

				_exit(log_rotate(m->path, 0, &fd) != OK);
			}
		for (unsigned i = 0; i < 3; i++) {
			int status;

			assert_true(wait(&status) > 0);
			assert_int_equal(status, 0);
		}
	}
	assert_int_equal(made_verify(m, &v, &files), OK);
	assert_int_equal(files, 21);
}

static void a_lock_that_is_never_given_back_is_an_error(void **state)
{
	struct made_log *m = *state;
	int fd, other;

	made_full(m, 1);
	other = open(m->path, O_RDONLY);
	assert_int_equal(flock(other, LOCK_EX), 0);
	assert_int_equal(log_rotate(m->path, 0, &fd), ERR_SYSTEM);
	assert_int_equal(errno, EWOULDBLOCK);
	close(other);
	close(rotate(m, 0));
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(the_chain_goes_on_in_the_next_file),
		CASE(what_is_given_is_written_to_and_has_the_name),
		CASE(a_file_that_has_not_ended_stays_and_is_given),
		CASE(nobody_writes_into_what_was_put_aside),
		CASE(who_stays_goes_on_behind_the_line_that_says_rotated),
		CASE(the_oldest_go_and_the_rest_is_a_log),
		CASE(a_file_that_has_the_name_already_is_not_touched),
		CASE(what_a_try_that_died_has_left_is_cleared_away),
		CASE(two_at_once_are_one),
		CASE(a_lock_that_is_never_given_back_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
