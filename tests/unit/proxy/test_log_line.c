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
		cmocka_unit_test(a_head_is_read_without_the_rest),
		cmocka_unit_test(a_head_that_is_spelled_otherwise_is_none),
		cmocka_unit_test(names_of_what_was_put_aside_are_known_and_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
