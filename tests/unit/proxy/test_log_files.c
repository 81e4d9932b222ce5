#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/proxy/log_made.h"

static int setup(void **state)
{
	struct made_log *m = calloc(1, sizeof(*m));
	int fd;

	made_open(m);
	for (unsigned i = 0; i < 3; i++) {
		made_full(m, 3);
		assert_int_equal(log_rotate(m->path, 0, &fd), OK);
		close(fd);
	}
	*state = m;
	return 0;
}

static int teardown(void **state)
{
	made_close(*state);
	free(*state);
	return 0;
}

static uint64_t read_all(struct log_files *f, uint64_t from)
{
	struct log_head head;
	struct str line;
	enum err e;

	while ((e = log_files_next(f, &line)) == OK) {
		assert_true(log_line_head(line, &head));
		assert_int_equal(head.seq, ++from);
	}
	assert_int_equal(e, ERR_AGAIN);
	return from;
}

static void all_lines_come_in_their_order(void **state)
{
	struct made_log *m = *state;
	struct log_files *f;

	assert_int_equal(log_files_open(m->path, &f), OK);
	assert_int_equal(log_files_count(f), 4);
	assert_int_equal(read_all(f, 0), 15);
	assert_string_equal(log_files_name(f), m->path);
	assert_int_equal(log_files_line(f), 1);
	log_files_close(f);
}

static void a_log_that_is_rotated_meanwhile_is_read_as_it_was(void **state)
{
	struct made_log *m = *state;
	struct log_files *f;
	struct str line;
	int fd;

	assert_int_equal(log_files_open(m->path, &f), OK);
	assert_int_equal(log_files_next(f, &line), OK);
	made_full(m, 3);
	assert_int_equal(log_rotate(m->path, 0, &fd), OK);
	close(fd);
	assert_int_equal(read_all(f, 1), 19);
	log_files_close(f);
}

static void those_that_are_named_are_read_as_they_are_named(void **state)
{
	struct made_log *m = *state;
	struct log_files *f, *found;
	char *paths[2];

	assert_int_equal(log_files_open(m->path, &found), OK);
	paths[0] = (char *)(uintptr_t)log_files_path(found, 1);
	paths[1] = (char *)(uintptr_t)log_files_path(found, 2);
	assert_int_equal(log_files_open_list(paths, 2, &f), OK);
	assert_int_equal(read_all(f, 4), 14);
	log_files_close(f);
	log_files_close(found);
}

static void a_file_that_is_not_there_is_named(void **state)
{
	char *paths[1] = { (char *)(uintptr_t)"/tmp/no/such/log" };
	struct log_files *f;
	struct str line;

	(void)state;
	assert_int_equal(log_files_open(paths[0], &f), ERR_SYSTEM);
	assert_int_equal(log_files_open_list(paths, 1, &f), OK);
	assert_int_equal(log_files_next(f, &line), ERR_SYSTEM);
	assert_string_equal(log_files_name(f), paths[0]);
	log_files_close(f);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(all_lines_come_in_their_order),
		CASE(a_log_that_is_rotated_meanwhile_is_read_as_it_was),
		CASE(those_that_are_named_are_read_as_they_are_named),
		CASE(a_file_that_is_not_there_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
