#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/log_query.h"

#define HEAD "{\"seq\":1,\"prev\":\"0000000000000000000000000000000000000000000000000000000000000000\",\"time\":" \
	     "\"2026-01-31T12:00:00.500000Z\",\"kind\":\"request\","
#define LINE HEAD "\"sandbox\":\"box\",\"verdict\":\"allow\",\"rule\":\"api\",\"host\":\"www.api.test\"," \
		  "\"credential\":\"github\"}"
#define AT UINT64_C(1769860800500000)

static bool matches(struct log_query q)
{
	json_t *object = log_query_match(&q, STR(LINE));
	bool yes = object != NULL;

	json_decref(object);
	return yes;
}

static void each_question_asks_for_its_member(void **state)
{
	(void)state;
	assert_true(matches((struct log_query){ 0 }));
	assert_true(matches((struct log_query){ .sandbox = STR("box"), .rule = STR("api"), .verdict = STR("allow"),
						.credential = STR("github"), .kinds = STR("dns, request") }));
	assert_false(matches((struct log_query){ .sandbox = STR("bo") }));
	assert_false(matches((struct log_query){ .rule = STR("apis") }));
	assert_false(matches((struct log_query){ .verdict = STR("deny") }));
	assert_false(matches((struct log_query){ .credential = STR("gitlab") }));
	assert_false(matches((struct log_query){ .kinds = STR("dns,connect") }));
	assert_false(matches((struct log_query){ .sandbox = STR("box"), .verdict = STR("deny") }));
}

static void a_host_is_a_name_or_all_below_one(void **state)
{
	static const char *const yes[] = { "www.api.test", "WWW.api.TEST", "www.api.test.", "*.api.test", "*.test" };
	static const char *const no[] = { "api.test", "*.www.api.test", "*.pi.test", "www.api", "*" };

	(void)state;
	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		assert_true(matches((struct log_query){ .host = str_of(yes[i]) }));
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		assert_false(matches((struct log_query){ .host = str_of(no[i]) }));
}

static void since_is_included_and_until_is_not(void **state)
{
	(void)state;
	assert_true(matches((struct log_query){ .since_us = AT }));
	assert_false(matches((struct log_query){ .since_us = AT + 1 }));
	assert_true(matches((struct log_query){ .until_us = AT + 1 }));
	assert_false(matches((struct log_query){ .until_us = AT }));
}

static void what_is_no_line_matches_nothing(void **state)
{
	struct log_query q = { 0 };

	(void)state;
	assert_null(log_query_match(&q, STR("")));
	assert_null(log_query_match(&q, STR("{}")));
	assert_null(log_query_match(&q, STR(HEAD "\"x\":}")));
}

static void times_are_read_as_they_are_said(void **state)
{
	static const struct {
		const char *text;
		uint64_t us;
	} good[] = {
		{ "2026-01-31", UINT64_C(1769817600000000) },
		{ "2026-01-31T12:00:00Z", UINT64_C(1769860800000000) },
		{ "2026-01-31T12:00:00.5Z", AT },
		{ "2026-01-31T12:00:00.500000999Z", AT },
		{ "2026-01-31T13:30:00.5+01:30", AT },
		{ "2026-01-31T05:00:00.5-07:00", AT },
		{ "10m", AT - 600000000 }, { "45s", AT - 45000000 }, { "2h", AT - 7200000000 }, { "0s", AT },
		{ "1000000d", 1 },
	};
	static const char *const bad[] = { "", "m", "10", "10w", "-10m", "1000001s", "yesterday", "2026-02-30",
					   "2026-01-31T12:00", "2026-01-31T12:00:00", "2026-01-31T12:00:00.Z",
					   "2026-01-31T12:00:00+25:00", "2026-01-31T12:00:00+1:00", "2026-01-31 12:00:00Z",
					   "1970-01-01T00:00:00+01:00", "2026-01-31T12:00:00ZZ" };
	uint64_t us;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_true(log_query_time(str_of(good[i].text), AT, &us));
		assert_int_equal(us, good[i].us);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(log_query_time(str_of(bad[i]), AT, &us));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_question_asks_for_its_member),
		cmocka_unit_test(a_host_is_a_name_or_all_below_one),
		cmocka_unit_test(since_is_included_and_until_is_not),
		cmocka_unit_test(what_is_no_line_matches_nothing),
		cmocka_unit_test(times_are_read_as_they_are_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
