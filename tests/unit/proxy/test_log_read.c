#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/log_read.h"
#include "proxy/log_write.h"

struct fixture {
	int fd;
	struct log_reader *r;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->fd = memfd_create("log", MFD_CLOEXEC);
	assert_int_equal(log_reader_open(f->fd, &f->r), OK);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	log_reader_close(f->r);
	close(f->fd);
	free(f);
	return 0;
}

static void put(struct fixture *f, const char *text)
{
	assert_int_equal(write(f->fd, text, strlen(text)), strlen(text));
}

static void must_give(struct fixture *f, const char *text)
{
	struct str line;

	assert_int_equal(log_reader_next(f->r, &line), OK);
	assert_true(str_eq(line, str_of(text)));
}

static void must_say(struct fixture *f, enum err e)
{
	struct str line;

	assert_int_equal(log_reader_next(f->r, &line), e);
}

static void lines_come_without_their_newlines(void **state)
{
	must_say(*state, ERR_AGAIN);
	put(*state, "one\n\nthree\n");
	must_give(*state, "one");
	must_give(*state, "");
	must_give(*state, "three");
	must_say(*state, ERR_AGAIN);
}

static void a_line_that_grows_comes_when_it_has_ended(void **state)
{
	put(*state, "he");
	must_say(*state, ERR_TRUNCATED);
	put(*state, "ll");
	must_say(*state, ERR_TRUNCATED);
	put(*state, "o\nx");
	must_give(*state, "hello");
	must_say(*state, ERR_TRUNCATED);
}

static void the_longest_line_comes_and_a_longer_one_is_refused(void **state)
{
	struct fixture *f = *state;
	char *big = malloc(LOG_LINE_MAX + 2);
	struct str line;

	memset(big, 'x', LOG_LINE_MAX + 1);
	big[LOG_LINE_MAX + 1] = '\0';
	big[LOG_LINE_MAX] = '\n';
	put(f, big);
	put(f, "next\n");
	assert_int_equal(log_reader_next(f->r, &line), OK);
	assert_int_equal(line.n, LOG_LINE_MAX);
	must_give(f, "next");
	big[LOG_LINE_MAX] = 'x';
	put(f, big);
	must_say(f, ERR_LIMIT);
	free(big);
}

static void the_last_lines_are_found(void **state)
{
	struct fixture *f = *state;

	put(f, "1\n2\n3\n4\n");
	assert_int_equal(log_reader_seek_last(f->r, 2), OK);
	must_give(f, "3");
	must_give(f, "4");
	assert_int_equal(log_reader_seek_last(f->r, 0), OK);
	must_say(f, ERR_AGAIN);
	assert_int_equal(log_reader_seek_last(f->r, 4), OK);
	must_give(f, "1");
	assert_int_equal(log_reader_seek_last(f->r, 99), OK);
	must_give(f, "1");
}

static void the_last_lines_are_found_over_many_blocks(void **state)
{
	struct fixture *f = *state;
	char text[1001];

	memset(text, 'y', 999);
	text[999] = '\n';
	text[1000] = '\0';
	for (unsigned i = 0; i < 500; i++) {
		char number[8];

		snprintf(number, sizeof(number), "%06u", i);
		memcpy(text, number, 6);
		put(f, text);
	}
	for (uint64_t n = 1; n <= 500; n += 83) {
		struct str line;
		char number[8];

		assert_int_equal(log_reader_seek_last(f->r, n), OK);
		assert_int_equal(log_reader_next(f->r, &line), OK);
		snprintf(number, sizeof(number), "%06u", (unsigned)(500 - n));
		assert_memory_equal(line.p, number, 6);
	}
}

static void nothing_is_read_beyond_the_end_that_was_set(void **state)
{
	struct fixture *f = *state;

	put(f, "one\ntwo\nthree\n");
	log_reader_stop_at(f->r, 8);
	must_give(f, "one");
	must_give(f, "two");
	must_say(f, ERR_AGAIN);
}

static void a_beginning_that_was_forgotten_is_read_again(void **state)
{
	struct fixture *f = *state;

	put(f, "one\nhal");
	must_give(f, "one");
	must_say(f, ERR_TRUNCATED);
	assert_int_equal(log_reader_position(f->r), 7);
	assert_int_equal(ftruncate(f->fd, 4), 0);
	log_reader_unread(f->r);
	assert_int_equal(log_reader_position(f->r), 4);
	lseek(f->fd, 0, SEEK_END);
	put(f, "two\n");
	must_give(f, "two");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(lines_come_without_their_newlines),
		CASE(a_line_that_grows_comes_when_it_has_ended),
		CASE(the_longest_line_comes_and_a_longer_one_is_refused),
		CASE(the_last_lines_are_found),
		CASE(the_last_lines_are_found_over_many_blocks),
		CASE(nothing_is_read_beyond_the_end_that_was_set),
		CASE(a_beginning_that_was_forgotten_is_read_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
