#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "conf/hex.h"

static void bytes_become_lower_case_digits(void **state)
{
	static const uint8_t bytes[] = { 0x00, 0x0f, 0xa5, 0xff };
	char text[2 * sizeof(bytes) + 2] = "zzzzzzzzz";

	(void)state;
	hex_text(bytes, sizeof(bytes), text);
	assert_string_equal(text, "000fa5ff");
	assert_int_equal(text[sizeof(text) - 1], '\0');
	hex_text(bytes, 0, text);
	assert_string_equal(text, "");
}

static void a_digit_has_a_value_in_either_case(void **state)
{
	static const char digits[] = "0123456789abcdefABCDEF";

	(void)state;
	for (int i = 0; digits[i]; i++)
		assert_int_equal(hex_value(digits[i]), i < 16 ? i : i - 6);
}

static void nothing_else_is_a_digit(void **state)
{
	int values = 0;

	(void)state;
	for (int c = 0; c < 256; c++)
		values += hex_value((char)c) >= 0;
	assert_int_equal(values, 22);
	assert_int_equal(hex_value('g'), -1);
	assert_int_equal(hex_value('/'), -1);
	assert_int_equal(hex_value(':'), -1);
	assert_int_equal(hex_value('@'), -1);
	assert_int_equal(hex_value('\0'), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_become_lower_case_digits),
		cmocka_unit_test(a_digit_has_a_value_in_either_case),
		cmocka_unit_test(nothing_else_is_a_digit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
