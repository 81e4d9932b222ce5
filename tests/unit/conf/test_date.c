#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "conf/date.h"

static void times_are_right_to_the_microsecond_in_any_year(void **state)
{
	static const struct {
		uint64_t us;
		const char *text;
	} cases[] = {
		{ 0, "1970-01-01T00:00:00.000000Z" },
		{ 951782400000001, "2000-02-29T00:00:00.000001Z" },
		{ 951868799999999, "2000-02-29T23:59:59.999999Z" },
		{ 4107542400000000, "2100-03-01T00:00:00.000000Z" },
		{ 1767225599000000, "2025-12-31T23:59:59.000000Z" },
		{ UINT64_C(253402300799999999), "9999-12-31T23:59:59.999999Z" },
	};
	char out[DATE_TEXT_MAX];
	uint64_t back;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		date_format(cases[i].us, out);
		assert_string_equal(out, cases[i].text);
		assert_true(date_parse(str_of(out), &back));
		assert_int_equal(back, cases[i].us);
	}
}

static void each_day_comes_back_as_itself(void **state)
{
	char out[DATE_TEXT_MAX];
	uint64_t back;

	(void)state;
	for (uint64_t day = 0; day < 60000; day++) {
		date_format(day * 86400000000, out);
		assert_true(date_parse(str_of(out), &back));
		assert_int_equal(back, day * 86400000000);
	}
}

static void times_that_are_none_are_known(void **state)
{
	static const char *const bad[] = {
		"", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000000", "2026-01-01T00:00:00.000000z",
		"2026-13-01T00:00:00.000000Z", "2026-00-01T00:00:00.000000Z", "2026-02-29T00:00:00.000000Z",
		"2100-02-29T00:00:00.000000Z", "2026-01-00T00:00:00.000000Z", "2026-01-01T24:00:00.000000Z",
		"2026-01-01T00:60:00.000000Z", "2026-01-01T00:00:60.000000Z", "2026-01-01 00:00:00.000000Z",
		"2026-01-01T00:00:00,000000Z", "+026-01-01T00:00:00.000000Z", "2026-01-01T00:00:00.000000ZZ",
		"1969-12-31T23:59:59.999999Z",
	};
	uint64_t us;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(date_parse(str_of(bad[i]), &us));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_are_right_to_the_microsecond_in_any_year),
		cmocka_unit_test(each_day_comes_back_as_itself),
		cmocka_unit_test(times_that_are_none_are_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
