#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/log_line.h"

#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"
#define TIME "2026-01-31T12:00:00.000001Z"

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
	char out[LOG_TIME_MAX];
	uint64_t back;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		date_format(cases[i].us, out);
		assert_string_equal(out, cases[i].text);
		assert_true(log_time_parse(str_of(out), &back));
		assert_int_equal(back, cases[i].us);
	}
}

static void each_day_comes_back_as_itself(void **state)
{
	char out[LOG_TIME_MAX];
	uint64_t back;

	(void)state;
	for (uint64_t day = 0; day < 60000; day++) {
		date_format(day * 86400000000, out);
		assert_true(log_time_parse(str_of(out), &back));
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
		assert_false(log_time_parse(str_of(bad[i]), &us));
}

static void a_head_is_read_without_the_rest(void **state)
{
	struct log_head h;

	(void)state;
	assert_true(log_line_head(STR("{\"seq\":17,\"prev\":\"" ZEROS "\",\"time\":\"" TIME "\",\"kind\":\"log_fault\","
				      "\"x\":\"\xff\"}"), &h));
	assert_int_equal(h.seq, 17);
	assert_true(str_eq(h.prev, STR(ZEROS)));
	assert_true(str_eq(h.kind, STR("log_fault")));
	assert_int_equal(h.time_us, 1769860800000001);
}

static void a_head_that_is_spelled_otherwise_is_none(void **state)
{
	static const char *const bad[] = {
		"", "}", "{}", "{\"seq\":1}",
		"{\"seq\":0,\"prev\":\"" ZEROS "\",\"time\":\"" TIME "\",\"kind\":\"dns\"}",
		"{\"seq\":01,\"prev\":\"" ZEROS "\",\"time\":\"" TIME "\",\"kind\":\"dns\"}",
		"{\"seq\":-1,\"prev\":\"" ZEROS "\",\"time\":\"" TIME "\",\"kind\":\"dns\"}",
		"{\"seq\":9223372036854775807,\"prev\":\"" ZEROS "\",\"time\":\"" TIME "\",\"kind\":\"dns\"}",
		"{\"seq\":1,\"prev\":\"0" ZEROS "\",\"time\":\"" TIME "\",\"kind\":\"dns\"}",
		"{\"seq\":1,\"prev\":\"\",\"time\":\"" TIME "\",\"kind\":\"dns\"}",
		"{\"seq\":1,\"prev\":\"" ZEROS "\",\"time\":\"now\",\"kind\":\"dns\"}",
		"{\"seq\":1,\"prev\":\"" ZEROS "\",\"time\":\"" TIME "\",\"kind\":\"\"}",
		"{\"seq\":1,\"prev\":\"" ZEROS "\",\"time\":\"" TIME "\",\"kind\":\"D\"}",
		"{\"seq\":1,\"prev\":\"" ZEROS "\",\"time\":\"" TIME "\",\"kind\":\"dns\"",
		"{\"seq\": 1,\"prev\":\"" ZEROS "\",\"time\":\"" TIME "\",\"kind\":\"dns\"}",
	};
	struct log_head h;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(log_line_head(str_of(bad[i]), &h));
}

static void names_of_what_was_put_aside_are_known_and_in_order(void **state)
{
	static const char *const in_order[] = { "a.jsonl.20260131T120000Z-1", "a.jsonl.20260131T120000Z-9",
						"a.jsonl.20260131T120000Z-10", "a.jsonl.20260131T120001Z-2",
						"a.jsonl.20270101T000000Z-1" };
	static const char *const others[] = { "a.jsonl", "a.jsonl.key", "a.jsonl.20260131T120000Z",
					      "a.jsonl.20260131T120000Z-", "a.jsonl.20260131T120000Z-x",
					      "a.jsonl.20260131T12000Z-1", "b.jsonl.20260131T120000Z-1" };
	char name[LOG_NAME_MAX], longest[LOG_NAME_MAX];

	(void)state;
	assert_true(log_aside_name(STR("a.jsonl"), 1769860800000001, 1, name));
	assert_string_equal(name, in_order[0]);
	for (size_t i = 0; i < 5; i++) {
		assert_true(log_is_aside(STR("a.jsonl"), str_of(in_order[i])));
		for (size_t k = 0; k < 5; k++) {
			int order = log_aside_order(in_order[i], in_order[k]);

			assert_true(i < k ? order < 0 : i > k ? order > 0 : order == 0);
		}
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_false(log_is_aside(STR("a.jsonl"), str_of(others[i])));
	memset(longest, 'n', sizeof(longest));
	assert_false(log_aside_name(str_n(longest, LOG_NAME_MAX - 19), 0, 1, name));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_are_right_to_the_microsecond_in_any_year),
		cmocka_unit_test(each_day_comes_back_as_itself),
		cmocka_unit_test(times_that_are_none_are_known),
		cmocka_unit_test(a_head_is_read_without_the_rest),
		cmocka_unit_test(a_head_that_is_spelled_otherwise_is_none),
		cmocka_unit_test(names_of_what_was_put_aside_are_known_and_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
