#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "conf/utf8.h"

static size_t length(const char *bytes, size_t n)
{
	uint32_t code;

	return utf8_next(str_n(bytes, n), &code);
}

static void whole_characters_are_read(void **state)
{
	uint32_t code = 0;

	(void)state;
	assert_int_equal(utf8_next(STR("a"), &code), 1);
	assert_int_equal(code, 'a');
	assert_int_equal(utf8_next(STR("\xc3\xbcx"), &code), 2);
	assert_int_equal(code, 0xfc);
	assert_int_equal(utf8_next(STR("\xe2\x84\xaa"), &code), 3);
	assert_int_equal(code, 0x212a);
	assert_int_equal(utf8_next(STR("\xf0\x9f\x98\x80"), &code), 4);
	assert_int_equal(code, 0x1f600);
}

static void other_bytes_are_none(void **state)
{
	(void)state;
	assert_int_equal(length("", 0), 0);
	assert_int_equal(length("\x80", 1), 0);
	assert_int_equal(length("\xc3", 1), 0);
	assert_int_equal(length("\xc3(", 2), 0);
	assert_int_equal(length("\xc0\xaf", 2), 0);
	assert_int_equal(length("\xe0\x80\xaf", 3), 0);
	assert_int_equal(length("\xed\xa0\x80", 3), 0);
	assert_int_equal(length("\xf4\x90\x80\x80", 4), 0);
	assert_int_equal(length("\xf8\x88\x80\x80\x80", 5), 0);
	assert_int_equal(length("\xff", 1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_characters_are_read),
		cmocka_unit_test(other_bytes_are_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
