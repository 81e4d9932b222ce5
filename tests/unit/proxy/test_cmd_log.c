#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/cmd_log.h"
#include "proxy/log_write.h"
#include "proxy/record.h"

static char dir[] = "/tmp/exeat-cmd-XXXXXX";
static char path[96], folder[64];

static void put_lines(unsigned n)
{
	int fd = open(path, O_RDWR | O_APPEND | O_CREAT, 0600);
	struct log_line line = { .time_us = 1, .kind = "dns" };
	struct log_file *l;

	assert_int_equal(log_file_open(fd, &l), OK);
	assert_int_equal(log_batch_begin(l), OK);
	while (n--)
		assert_int_equal(log_batch_line(l, &line), OK);
	assert_int_equal(log_batch_end(l), OK);
	log_file_close(l);
}

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return 1;
	snprintf(folder, sizeof(folder), "%s/exeat", dir);
	snprintf(path, sizeof(path), "%s/audit.jsonl", folder);
	setenv("XDG_STATE_HOME", dir, 1);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(path);
	rmdir(folder);
	return rmdir(dir);
}

/* Runs the command with its output in @out; the arguments end with NULL. */
static int run(char *out, size_t n, const char *a, const char *b, const char *c)
{
	char *argv[] = { (char *)(uintptr_t)"log", (char *)(uintptr_t)a, (char *)(uintptr_t)b,
			 (char *)(uintptr_t)c, NULL };
	int argc = a ? b ? c ? 4 : 3 : 2 : 1, rc, keep[2] = { dup(1), dup(2) }, pipes[2];
	ssize_t got;

	assert_int_equal(pipe2(pipes, O_NONBLOCK), 0);
	fflush(stdout);
	dup2(pipes[1], 1);
	dup2(pipes[1], 2);
	rc = cmd_log(argc, argv);
	fflush(stdout);
	dup2(keep[0], 1);
	dup2(keep[1], 2);
	close(pipes[1]);
	got = read(pipes[0], out, n - 1);
	out[got > 0 ? got : 0] = '\0';
	close(pipes[0]);
	close(keep[0]);
	close(keep[1]);
	return rc;
}

static void usage_errors_exit_64(void **state)
{
	char out[4096];

	(void)state;
	assert_int_equal(run(out, sizeof(out), NULL, NULL, NULL), 64);
	assert_int_equal(run(out, sizeof(out), "shred", NULL, NULL), 64);
	assert_int_equal(run(out, sizeof(out), "verify", "--nonsense", NULL), 64);
	assert_int_equal(run(out, sizeof(out), "verify", "--last", "abc"), 64);
	assert_int_equal(run(out, sizeof(out), "tail", "-n", "many"), 64);
	assert_int_equal(run(out, sizeof(out), "tail", "-n", "-1"), 64);
	assert_int_equal(run(out, sizeof(out), "tail", "one", "two"), 64);
	assert_string_equal(out, "exeat log tail: one file at a time\n"
				 "exeat log tail: its use is shown by exeat log tail --help\n");
}

static void help_is_no_error(void **state)
{
	char out[4096];

	(void)state;
	assert_int_equal(run(out, sizeof(out), "--help", NULL, NULL), 0);
	assert_non_null(strstr(out, "usage:"));
	assert_int_equal(run(out, sizeof(out), "verify", "--help", NULL), 0);
	assert_int_equal(run(out, sizeof(out), "tail", "-h", NULL), 0);
}

static void words_that_no_record_has_are_no_filter(void **state)
{
	char out[8192];

	(void)state;
	assert_int_equal(run(out, sizeof(out), "query", "--verdict", "denied"), 64);
	assert_non_null(strstr(out, "--verdict \"denied\": it takes allow or deny"));
	assert_int_equal(run(out, sizeof(out), "query", "--kind", "request,dsn"), 64);
	assert_non_null(strstr(out, "--kind: no record is of kind \"dsn\""));
	assert_int_equal(run(out, sizeof(out), "summary", "--kind", "request,"), 64);
	assert_non_null(strstr(out, "--kind: no record is of kind \"\""));
}

static void help_names_every_kind(void **state)
{
	char out[8192];

	(void)state;
	assert_int_equal(run(out, sizeof(out), "query", "--help", NULL), 0);
	for (size_t k = 0; k < RECORD_KIND_COUNT; k++)
		assert_non_null(strstr(out, record_kind_name((enum record_kind)k)));
}

static void a_file_that_is_not_there_is_said(void **state)
{
	char out[4096];

	(void)state;
	assert_int_equal(run(out, sizeof(out), "verify", NULL, NULL), 1);
	assert_non_null(strstr(out, "audit.jsonl: No such file"));
	assert_int_equal(run(out, sizeof(out), "tail", NULL, NULL), 1);
}

static void the_default_file_is_verified_and_shown(void **state)
{
	char out[4096], hash[65], *at;

	(void)state;
	assert_int_equal(mkdir(folder, 0700), 0);
	put_lines(3);
	assert_int_equal(run(out, sizeof(out), "verify", NULL, NULL), 0);
	assert_non_null(strstr(out, "whole: 3 lines, the last one has hash "));
	at = strstr(out, "hash ");
	snprintf(hash, sizeof(hash), "%.64s", at + 5);
	put_lines(2);
	assert_int_equal(run(out, sizeof(out), "verify", "--last", hash), 0);
	assert_int_equal(run(out, sizeof(out), "tail", "--json", "-n2"), 0);
	assert_memory_equal(out, "{\"seq\":4,", 9);
	assert_int_equal(run(out, sizeof(out), "tail", "-n", "1"), 0);
	assert_string_equal(out, "1970-01-01T00:00:00.000001Z -            -     dns \n");
}

static void a_wrong_line_is_named_and_an_end_that_is_gone_is_found(void **state)
{
	char out[4096], hash[65];
	int fd;

	(void)state;
	unlink(path);
	put_lines(3);
	assert_int_equal(run(out, sizeof(out), "verify", NULL, NULL), 0);
	snprintf(hash, sizeof(hash), "%.64s", strstr(out, "hash ") + 5);
	unlink(path);
	put_lines(2);
	assert_int_equal(run(out, sizeof(out), "verify", "--last", hash), 1);
	assert_non_null(strstr(out, "no line has the hash"));
	fd = open(path, O_WRONLY);
	assert_int_equal(pwrite(fd, "X", 1, 30), 1);
	close(fd);
	assert_int_equal(run(out, sizeof(out), "verify", path, NULL), 1);
	assert_non_null(strstr(out, "audit.jsonl:1: this line is wrong"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(usage_errors_exit_64),
		cmocka_unit_test(help_is_no_error),
		cmocka_unit_test(words_that_no_record_has_are_no_filter),
		cmocka_unit_test(help_names_every_kind),
		cmocka_unit_test(a_file_that_is_not_there_is_said),
		cmocka_unit_test(the_default_file_is_verified_and_shown),
		cmocka_unit_test(a_wrong_line_is_named_and_an_end_that_is_gone_is_found),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
