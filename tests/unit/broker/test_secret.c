#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/secret.h"

static int file_with(struct str content, mode_t mode)
{
	int fd = memfd_create("secret", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, content.p, content.n), (ssize_t)content.n);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_int_equal(fchmod(fd, mode), 0);
	return fd;
}

static int pipe_with(struct str content)
{
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(write(fds[1], content.p, content.n), (ssize_t)content.n);
	close(fds[1]);
	return fds[0];
}

static void assert_refused(int fd, bool check_mode, enum err want, const char *part)
{
	const char *objection = NULL;
	struct secret *s = NULL;

	assert_int_equal(secret_read(fd, check_mode, &s, &objection), want);
	assert_null(s);
	assert_non_null(objection);
	assert_non_null(strstr(objection, part));
	close(fd);
}

static void assert_value(int fd, bool check_mode, struct str want)
{
	const char *objection = "unset";
	struct secret *s = NULL;

	assert_int_equal(secret_read(fd, check_mode, &s, &objection), OK);
	assert_null(objection);
	assert_true(str_eq(secret_value(s), want));
	secret_free(s);
	close(fd);
}

static void a_value_is_copied(void **state)
{
	char text[] = "s3cret-value";
	struct secret *s;

	(void)state;
	assert_int_equal(secret_new(str_of(text), &s), OK);
	memset(text, 'x', sizeof(text) - 1);
	assert_true(str_eq(secret_value(s), STR("s3cret-value")));
	secret_free(s);
	secret_free(NULL);
}

static void one_newline_is_trimmed_and_no_more(void **state)
{
	(void)state;
	assert_true(str_eq(secret_trim(STR("value")), STR("value")));
	assert_true(str_eq(secret_trim(STR("value\n")), STR("value")));
	assert_true(str_eq(secret_trim(STR("value\r\n")), STR("value")));
	assert_true(str_eq(secret_trim(STR("value\n\n")), STR("value\n")));
	assert_true(str_eq(secret_trim(STR("value\r")), STR("value\r")));
	assert_true(str_eq(secret_trim(STR("\n")), STR("")));
	assert_true(str_eq(secret_trim(STR("")), STR("")));
}

static void each_bad_value_has_its_objection(void **state)
{
	static const struct {
		struct str value;
		const char *part;
	} bad[] = {
		{ { "", 0 }, "empty" },
		{ { "1234567", 7 }, "shorter" },
		{ { "12345\n78", 8 }, "control" },
		{ { "12345\r78", 8 }, "control" },
		{ { "12345\0" "78", 8 }, "control" },
		{ { "12345\t78", 8 }, "control" },
		{ { "12345\x7f" "78", 8 }, "control" },
		{ { "12345\x01" "78", 8 }, "control" },
		{ { "12345\xc3\xa9" "8", 8 }, "not ASCII" },
		{ { "12345\x80" "78", 8 }, "not ASCII" },
		{ { "12345\xff" "78", 8 }, "not ASCII" },
		{ { " 2345678", 8 }, "space" },
		{ { "1234567 ", 8 }, "space" },
		{ { "********", 8 }, "repeated" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const char *why = secret_objection(bad[i].value);
		struct secret *s = NULL;

		assert_non_null(why);
		assert_non_null(strstr(why, bad[i].part));
		assert_int_equal(secret_new(bad[i].value, &s), ERR_SYNTAX);
		assert_null(s);
	}
	assert_null(secret_objection(STR("12345678")));
	assert_null(secret_objection(STR("with a space inside and ~!")));
}

static void every_control_and_high_byte_is_refused_at_every_place(void **state)
{
	(void)state;
	for (int c = 0; c < 256; c++) {
		for (size_t at = 0; at < 10; at++) {
			char value[10];
			bool plain = c > 0x20 && c < 0x7f;

			memcpy(value, "0123456789", 10);
			value[at] = (char)c;
			if (c == 0x20)
				plain = at > 0 && at < 9;
			assert_int_equal(secret_objection(str_n(value, 10)) == NULL, plain);
		}
	}
}

static void the_longest_value_is_taken_and_one_more_byte_is_not(void **state)
{
	char *big = malloc(SECRET_MAX + 3);

	(void)state;
	memset(big, 'k', SECRET_MAX + 3);
	big[0] = 'j';
	assert_null(secret_objection(str_n(big, SECRET_MAX)));
	assert_non_null(strstr(secret_objection(str_n(big, SECRET_MAX + 1)), "longer"));
	assert_value(file_with(str_n(big, SECRET_MAX), 0600), true, str_n(big, SECRET_MAX));
	assert_refused(file_with(str_n(big, SECRET_MAX + 1), 0600), true, ERR_SYNTAX, "longer");
	assert_refused(file_with(str_n(big, SECRET_MAX + 3), 0600), true, ERR_SYNTAX, "longer");
	memcpy(big + SECRET_MAX, "\r\n", 2);
	assert_value(file_with(str_n(big, SECRET_MAX + 2), 0600), true, str_n(big, SECRET_MAX));
	free(big);
}

static void a_file_is_read_and_its_newline_trimmed(void **state)
{
	(void)state;
	assert_value(file_with(STR("file-secret\n"), 0600), true, STR("file-secret"));
	assert_value(file_with(STR("file-secret"), 0400), true, STR("file-secret"));
}

static void an_empty_file_is_refused(void **state)
{
	(void)state;
	assert_refused(file_with(STR(""), 0600), true, ERR_SYNTAX, "empty");
	assert_refused(file_with(STR("\n"), 0600), true, ERR_SYNTAX, "empty");
}

static void a_file_with_a_header_injection_is_refused_without_its_bytes(void **state)
{
	const char *objection = NULL;
	struct secret *s = NULL;
	int fd = file_with(STR("tok3n\r\nX-Evil: yes"), 0600);

	(void)state;
	assert_int_equal(secret_read(fd, true, &s, &objection), ERR_SYNTAX);
	assert_null(strstr(objection, "tok3n"));
	assert_null(strstr(objection, "Evil"));
	close(fd);
}

static void a_file_that_others_can_use_is_refused(void **state)
{
	static const mode_t open_modes[] = { 0640, 0604, 0620, 0602, 0644, 0660, 0666, 0777 };

	(void)state;
	for (size_t i = 0; i < sizeof(open_modes) / sizeof(open_modes[0]); i++)
		assert_refused(file_with(STR("file-secret"), open_modes[i]), true, ERR_DENIED, "others");
	assert_value(file_with(STR("file-secret"), 0644), false, STR("file-secret"));
}

static void a_file_of_somebody_else_is_refused(void **state)
{
	int fd = file_with(STR("file-secret"), 0600);

	(void)state;
	if (geteuid() != 0) {
		close(fd);
		skip();
	}
	assert_int_equal(fchown(fd, 65534, 65534), 0);
	assert_refused(fd, true, ERR_DENIED, "somebody else");
}

static void a_pipe_is_no_file_but_serves_where_modes_do_not_matter(void **state)
{
	(void)state;
	assert_refused(pipe_with(STR("env-secret")), true, ERR_DENIED, "regular file");
	assert_value(pipe_with(STR("env-secret")), false, STR("env-secret"));
}

static void a_source_that_cannot_be_read_says_so(void **state)
{
	int fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	assert_true(fd >= 0);
	assert_refused(fd, false, ERR_SYSTEM, "cannot be read");
	fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_refused(fd, true, ERR_DENIED, "regular file");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_value_is_copied),
		cmocka_unit_test(one_newline_is_trimmed_and_no_more),
		cmocka_unit_test(each_bad_value_has_its_objection),
		cmocka_unit_test(every_control_and_high_byte_is_refused_at_every_place),
		cmocka_unit_test(the_longest_value_is_taken_and_one_more_byte_is_not),
		cmocka_unit_test(a_file_is_read_and_its_newline_trimmed),
		cmocka_unit_test(an_empty_file_is_refused),
		cmocka_unit_test(a_file_with_a_header_injection_is_refused_without_its_bytes),
		cmocka_unit_test(a_file_that_others_can_use_is_refused),
		cmocka_unit_test(a_file_of_somebody_else_is_refused),
		cmocka_unit_test(a_pipe_is_no_file_but_serves_where_modes_do_not_matter),
		cmocka_unit_test(a_source_that_cannot_be_read_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
