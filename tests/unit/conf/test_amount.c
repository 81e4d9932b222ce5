#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "conf/amount.h"

static void amounts_have_units(void **state)
{
	uint64_t v = 0;

	(void)state;
	assert_true(amount_parse(AMOUNT_DURATION, STR("500ms"), &v) && v == 500);
	assert_true(amount_parse(AMOUNT_DURATION, STR("2d"), &v) && v == 172800000);
	assert_false(amount_parse(AMOUNT_DURATION, STR("2"), &v));
	assert_false(amount_parse(AMOUNT_DURATION, STR("1h30m"), &v));
	assert_false(amount_parse(AMOUNT_DURATION, STR("-1s"), &v));
	assert_false(amount_parse(AMOUNT_DURATION, STR("18446744073709551615d"), &v));
	assert_true(amount_parse(AMOUNT_SIZE, STR("1GiB"), &v) && v == 1u << 30);
	assert_true(amount_parse(AMOUNT_SIZE, STR("7"), &v) && v == 7);
	assert_false(amount_parse(AMOUNT_SIZE, STR("64kb"), &v));
	assert_false(amount_parse(AMOUNT_SIZE, STR("KiB"), &v));
	assert_true(amount_parse(AMOUNT_NUMBER, STR("60"), &v) && v == 60);
	assert_false(amount_parse(AMOUNT_NUMBER, STR("60s"), &v));
	assert_false(amount_parse(AMOUNT_NUMBER, STR(""), &v));
	assert_false(amount_parse(AMOUNT_SIZE, STR("1 KiB"), &v));
}

static void amounts_are_written_in_the_largest_unit_that_fits(void **state)
{
	char out[32];

	(void)state;
	assert_string_equal(amount_written(AMOUNT_SIZE, 3ull << 30, out, sizeof(out)), "3GiB");
	assert_string_equal(amount_written(AMOUNT_SIZE, 1000, out, sizeof(out)), "1000");
	assert_string_equal(amount_written(AMOUNT_SIZE, 0, out, sizeof(out)), "0");
	assert_string_equal(amount_written(AMOUNT_DURATION, 90000, out, sizeof(out)), "90s");
	assert_string_equal(amount_written(AMOUNT_DURATION, 604800000, out, sizeof(out)), "7d");
	assert_string_equal(amount_written(AMOUNT_DURATION, 1500, out, sizeof(out)), "1500ms");
	assert_string_equal(amount_written(AMOUNT_NUMBER, 4096, out, sizeof(out)), "4096");
}

static void what_is_written_is_read_back(void **state)
{
	static const uint64_t values[] = { 0, 1, 999, 1000, 1024, 60000, 86400000, 1u << 30, UINT64_MAX };
	char out[32];
	uint64_t v;

	(void)state;
	for (enum amount kind = AMOUNT_NUMBER; kind <= AMOUNT_SIZE; kind++)
		for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
			amount_written(kind, values[i], out, sizeof(out));
			assert_true(amount_parse(kind, str_of(out), &v));
			assert_int_equal(v, values[i]);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(amounts_have_units),
		cmocka_unit_test(amounts_are_written_in_the_largest_unit_that_fits),
		cmocka_unit_test(what_is_written_is_read_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
