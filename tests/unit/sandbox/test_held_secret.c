#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "sandbox/held_secret.h"

/* Reads @fd to its end, closes it, and holds it against @bytes. */
static void assert_holds(int fd, const char *bytes, size_t n)
{
	static char got[HELD_SECRET_MAX + 1];
	size_t have = 0;
	ssize_t r;

	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	while ((r = read(fd, got + have, sizeof(got) - have)) > 0)
		have += (size_t)r;
	assert_int_equal(r, 0);
	assert_int_equal(have, n);
	if (n)
		assert_memory_equal(got, bytes, n);
	close(fd);
}

static void each_copy_has_the_bytes_and_what_is_held_keeps_them(void **state)
{
	int held = held_secret_new("s3cret-token-value", 18);

	(void)state;
	for (int i = 0; i < 100; i++)
		assert_holds(held_secret_copy(held), "s3cret-token-value", 18);
	assert_holds(held, "s3cret-token-value", 18);
}

static void the_longest_secret_fits_and_one_byte_more_does_not(void **state)
{
	static char bytes[HELD_SECRET_MAX + 1];
	int held;

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(i * 31 + i / 4096);
	held = held_secret_new(bytes, HELD_SECRET_MAX);
	assert_holds(held_secret_copy(held), bytes, HELD_SECRET_MAX);
	assert_holds(held_secret_copy(held), bytes, HELD_SECRET_MAX);
	assert_holds(held, bytes, HELD_SECRET_MAX);
	errno = 0;
	assert_int_equal(held_secret_new(bytes, HELD_SECRET_MAX + 1), -1);
	assert_int_equal(errno, E2BIG);
}

static void nothing_can_be_held_too(void **state)
{
	int held = held_secret_new("", 0);

	(void)state;
	assert_holds(held_secret_copy(held), "", 0);
	assert_holds(held, "", 0);
}

static void what_is_no_pipe_has_no_copy(void **state)
{
	int file = open("/dev/zero", O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_int_equal(held_secret_copy(-1), -1);
	assert_int_equal(held_secret_copy(file), -1);
	close(file);
}

/* A role that has a copy cannot change what the next one gets. */
static void a_copy_leads_to_no_writing_end(void **state)
{
	int held = held_secret_new("12345678", 8), copy = held_secret_copy(held);

	(void)state;
	assert_int_equal(write(copy, "x", 1), -1);
	assert_int_equal(errno, EBADF);
	assert_holds(copy, "12345678", 8);
	assert_holds(held, "12345678", 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_copy_has_the_bytes_and_what_is_held_keeps_them),
		cmocka_unit_test(the_longest_secret_fits_and_one_byte_more_does_not),
		cmocka_unit_test(nothing_can_be_held_too),
		cmocka_unit_test(what_is_no_pipe_has_no_copy),
		cmocka_unit_test(a_copy_leads_to_no_writing_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
