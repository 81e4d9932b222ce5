#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "conf/json.h"
#include "tests/unit/proxy/log_checks.h"
#include "proxy/log_write.h"

static char dir[] = "/tmp/exeat-log-XXXXXX";
static char path[64];

static int fresh(void **state)
{
	(void)state;
	snprintf(path, sizeof(path), "%s/audit.jsonl", dir);
	unlink(path);
	return 0;
}

static int make_dir(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : 1;
}

static int remove_dir(void **state)
{
	fresh(state);
	return rmdir(dir);
}

static struct log_file *open_log(void)
{
	struct log_file *l;
	int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(log_file_open(fd, &l), OK);
	return l;
}

static void text_field(void *arg, struct json *json)
{
	json_put_str(json, "name", str_of(arg));
}

static enum err put(struct log_file *l, const char *text)
{
	struct log_line line = { .time_us = 1790000000123456, .kind = "dns", .sandbox = STR("box"),
				 .fields = text_field, .arg = (void *)(uintptr_t)text };

	return log_batch_line(l, &line);
}

static void write_lines(struct log_file *l, unsigned n)
{
	assert_int_equal(log_batch_begin(l), OK);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(put(l, "a.test"), OK);
	assert_int_equal(log_batch_end(l), OK);
}

static void must_verify(uint64_t lines)
{
	struct log_checked c = check_file(path, NULL);

	assert_int_equal(c.e, OK);
	assert_int_equal(c.v.lines, lines);
}

static void append(const char *bytes, size_t n)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT, 0600);

	assert_int_equal(write(fd, bytes, n), n);
	close(fd);
}

static off_t size_of_file(void)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_size;
}

static void a_first_line_is_as_the_format_says(void **state)
{
	struct log_file *l = open_log();
	char text[512];
	int fd = open(path, O_RDONLY);
	ssize_t n;

	(void)state;
	write_lines(l, 1);
	n = read(fd, text, sizeof(text) - 1);
	assert_true(n > 0);
	text[n] = '\0';
	assert_string_equal(text, "{\"seq\":1,\"prev\":\"00000000000000000000000000000000000000000000000000000"
			    "00000000000\",\"time\":\"2026-09-21T14:13:20.123456Z\",\"kind\":\"dns\","
			    "\"sandbox\":\"box\",\"name\":\"a.test\"}\n");
	close(fd);
	log_file_close(l);
}

static void the_chain_goes_on_across_runs(void **state)
{
	(void)state;
	for (unsigned run = 0; run < 5; run++) {
		struct log_file *l = open_log();

		write_lines(l, 3);
		write_lines(l, 1);
		log_file_close(l);
	}
	must_verify(20);
}

static void a_torn_last_line_is_cut_off_and_told(void **state)
{
	struct log_file *l = open_log();

	(void)state;
	write_lines(l, 2);
	append("{\"seq\":3,\"prev\":\"ab", 19);
	write_lines(l, 1);
	assert_int_equal(log_take_torn(l), 19);
	assert_int_equal(log_take_torn(l), 0);
	log_file_close(l);
	must_verify(3);
}

static void a_torn_only_line_is_cut_off(void **state)
{
	struct log_file *l;

	(void)state;
	append("{\"seq\":1,\"pr", 12);
	l = open_log();
	write_lines(l, 1);
	assert_int_equal(log_take_torn(l), 12);
	log_file_close(l);
	must_verify(1);
}

static void a_file_that_is_no_audit_log_is_left_alone(void **state)
{
	static const char *const not_ours[] = {
		"hello\n", "hello", "{\"seq\":0,\"prev\":\"\"}\n", "{\"seq\":1}\n", "\n", "{\"seq\":1,\"prev\":\"\n",
		"{\"seq\":99999999999999999999,\"prev\":\"00\"}\n",
	};

	for (size_t i = 0; i < sizeof(not_ours) / sizeof(not_ours[0]); i++) {
		struct log_file *l;

		fresh(state);
		append(not_ours[i], strlen(not_ours[i]));
		l = open_log();
		assert_int_equal(log_batch_begin(l), ERR_SYNTAX);
		assert_int_equal(size_of_file(), strlen(not_ours[i]));
		log_file_close(l);
	}
}

static void a_line_beyond_the_limit_is_refused_and_the_batch_goes_on(void **state)
{
	struct log_file *l = open_log();
	char *big = malloc(LOG_LINE_MAX + 1);

	(void)state;
	memset(big, 'x', LOG_LINE_MAX);
	big[LOG_LINE_MAX] = '\0';
	assert_int_equal(log_batch_begin(l), OK);
	assert_int_equal(put(l, "a"), OK);
	assert_int_equal(put(l, big), ERR_LIMIT);
	assert_int_equal(put(l, "b"), OK);
	assert_int_equal(log_batch_end(l), OK);
	free(big);
	log_file_close(l);
	must_verify(2);
}

static void a_full_batch_says_so(void **state)
{
	struct log_file *l = open_log();
	unsigned n = 0;
	enum err e;

	(void)state;
	assert_int_equal(log_batch_begin(l), OK);
	while ((e = put(l, "a.test")) == OK)
		n++;
	assert_int_equal(e, ERR_FULL);
	assert_true(log_batch_full(l));
	assert_int_equal(log_batch_end(l), OK);
	log_file_close(l);
	must_verify(n);
}

static void a_dropped_batch_leaves_nothing(void **state)
{
	struct log_file *l = open_log();

	(void)state;
	write_lines(l, 1);
	assert_int_equal(log_batch_begin(l), OK);
	assert_int_equal(put(l, "x"), OK);
	log_batch_drop(l);
	write_lines(l, 1);
	assert_int_equal(log_last_seq(l), 2);
	log_file_close(l);
	must_verify(2);
}

static void a_lock_that_another_holds_is_not_waited_for(void **state)
{
	struct log_file *a = open_log(), *b = open_log();

	(void)state;
	assert_int_equal(log_batch_begin(a), OK);
	assert_int_equal(log_batch_begin(b), ERR_AGAIN);
	log_batch_drop(a);
	assert_int_equal(log_batch_begin(b), OK);
	log_batch_drop(b);
	log_file_close(a);
	log_file_close(b);
}

static void an_emptied_file_starts_a_new_chain(void **state)
{
	struct log_file *l = open_log();

	(void)state;
	write_lines(l, 2);
	assert_int_equal(truncate(path, 0), 0);
	write_lines(l, 1);
	assert_int_equal(log_last_seq(l), 1);
	log_file_close(l);
	must_verify(1);
}

#define WRITERS 4
#define BATCHES 50

static _Noreturn void writer(void)
{
	struct log_file *l = open_log();

	for (unsigned i = 0; i < BATCHES; i++) {
		while (log_batch_begin(l) == ERR_AGAIN)
			;
		for (unsigned k = 0; k < 3; k++)
			if (put(l, "a.test") != OK)
				_exit(1);
		if (log_batch_end(l) != OK)
			_exit(1);
	}
	log_file_close(l);
	_exit(0);
}

static void writers_at_once_keep_one_chain(void **state)
{
	(void)state;
	for (unsigned i = 0; i < WRITERS; i++)
		if (fork() == 0)
			writer();
	for (unsigned i = 0; i < WRITERS; i++) {
		int status;

		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	must_verify(WRITERS * BATCHES * 3);
}

/* A file system of sixteen pages, twelve of them taken. */
static void a_full_disk_takes_whole_batches_or_nothing_and_goes_on_when_there_is_room(void **state)
{
	char filler[64];
	struct log_file *l;
	uint64_t before;
	off_t size;
	int fd;
	enum err e = OK;

	(void)state;
	if (geteuid() != 0 || mount("none", dir, "tmpfs", 0, "size=65536") < 0)
		skip();
	snprintf(filler, sizeof(filler), "%s/filler", dir);
	fd = open(filler, O_WRONLY | O_CREAT, 0600);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(posix_fallocate(fd, 0, 49152), 0);
	close(fd);
	l = open_log();
	while (e == OK) {
		before = log_last_seq(l);
		size = before ? size_of_file() : 0;
		assert_int_equal(log_batch_begin(l), OK);
		for (unsigned i = 0; i < 7; i++)
			assert_int_equal(put(l, "a.test"), OK);
		e = log_batch_end(l);
	}
	assert_int_equal(e, ERR_SYSTEM);
	assert_int_equal(errno, ENOSPC);
	assert_int_equal(log_last_seq(l), before);
	assert_int_equal(size_of_file(), size);
	must_verify(before);
	unlink(filler);
	write_lines(l, 7);
	must_verify(before + 7);
	log_file_close(l);
	assert_int_equal(umount(dir), 0);
}

static void no_file_is_opened_for_what_is_no_file(void **state)
{
	struct log_file *l;
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(log_file_open(fds[1], &l), OK);
	assert_int_not_equal(log_batch_begin(l), OK);
	log_file_close(l);
	close(fds[0]);
}

#define CASE(f) cmocka_unit_test_setup(f, fresh)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_first_line_is_as_the_format_says),
		CASE(the_chain_goes_on_across_runs),
		CASE(a_torn_last_line_is_cut_off_and_told),
		CASE(a_torn_only_line_is_cut_off),
		CASE(a_file_that_is_no_audit_log_is_left_alone),
		CASE(a_line_beyond_the_limit_is_refused_and_the_batch_goes_on),
		CASE(a_full_batch_says_so),
		CASE(a_dropped_batch_leaves_nothing),
		CASE(a_lock_that_another_holds_is_not_waited_for),
		CASE(an_emptied_file_starts_a_new_chain),
		CASE(writers_at_once_keep_one_chain),
		CASE(a_full_disk_takes_whole_batches_or_nothing_and_goes_on_when_there_is_room),
		CASE(no_file_is_opened_for_what_is_no_file),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
