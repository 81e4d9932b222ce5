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

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		date_format(cases[i].us, out);
		assert_string_equal(out, cases[i].text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_are_right_to_the_microsecond_in_any_year),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
