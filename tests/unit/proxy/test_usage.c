#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/usage.h"

static char said[512];

/* Reads into @said what was written to the end of a pipe that stood in for @fd. */
static void take_back(int fd, int keep, const int pipes[2])
{
	ssize_t got;

	dup2(keep, fd);
	close(keep);
	close(pipes[1]);
	got = read(pipes[0], said, sizeof(said) - 1);
	said[got > 0 ? got : 0] = '\0';
	close(pipes[0]);
}

static void wrong_use_is_one_line_and_where_help_is(void **state)
{
	int pipes[2], keep = dup(2), rc;

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	dup2(pipes[1], 2);
	rc = usage_wrong("exeat log", "no \"%s\"", "shred");
	take_back(2, keep, pipes);
	assert_int_equal(rc, 64);
	assert_string_equal(said, "exeat log: no \"shred\"\n"
				  "exeat log: its use is shown by exeat log --help\n");
}

static void what_getopt_has_said_is_not_said_again(void **state)
{
	int pipes[2], keep = dup(2), rc;

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	dup2(pipes[1], 2);
	rc = usage_wrong("exeat run", NULL);
	take_back(2, keep, pipes);
	assert_int_equal(rc, 64);
	assert_string_equal(said, "exeat run: its use is shown by exeat run --help\n");
}

static void help_goes_to_stdout(void **state)
{
	int pipes[2], keep = dup(1), rc;

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	fflush(stdout);
	dup2(pipes[1], 1);
	rc = usage_show("usage: exeat\n");
	take_back(1, keep, pipes);
	assert_int_equal(rc, 0);
	assert_string_equal(said, "usage: exeat\n");
}

static void help_has_three_spellings(void **state)
{
	(void)state;
	assert_true(usage_asked("--help") && usage_asked("-h") && usage_asked("help"));
	assert_false(usage_asked("") || usage_asked("--hel") || usage_asked("h"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_use_is_one_line_and_where_help_is),
		cmocka_unit_test(what_getopt_has_said_is_not_said_again),
		cmocka_unit_test(help_goes_to_stdout),
		cmocka_unit_test(help_has_three_spellings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
