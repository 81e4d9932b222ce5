#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "policy/limits_text.h"

static void a_rate_is_a_number_and_a_time(void **state)
{
	static const char *const bad[] = { "", "60", "/min", "60/", "60/m", "60/day", "0/s", "-1/s", "1.5/s",
					   " 6/s", "6/s ", "6/s/s", "1000001/h", "60min", "6/S" };
	uint32_t n, per_s;

	(void)state;
	assert_true(limit_read_rate(STR("5/s"), &n, &per_s) && n == 5 && per_s == 1);
	assert_true(limit_read_rate(STR("60/min"), &n, &per_s) && n == 60 && per_s == 60);
	assert_true(limit_read_rate(STR("1000000/h"), &n, &per_s) && n == LIMIT_COUNT_MAX && per_s == 3600);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (limit_read_rate(str_of(bad[i]), &n, &per_s))
			fail_msg("is read: %s", bad[i]);
}

static void limits_are_written_as_a_policy_has_them(void **state)
{
	const struct rule_limits all = { .requests = 60, .per_s = 60, .concurrent = 8, .upload = 10 << 20,
					 .download = 1 << 30, .idle_s = 3600, .total_s = 900 };
	const struct rule_limits none = { 0 }, few = { .requests = 7, .per_s = 3600, .total_s = 61 };
	char value[LIMIT_TEXT_MAX];
	struct buf out;

	(void)state;
	buf_init(&out, 4096);
	limits_put(&all, &out);
	assert_true(str_eq(buf_str(&out), STR("requests: 60/min, concurrent: 8, upload: 10MiB, download: 1GiB, "
					      "idle: 1h, total: 15m")));
	buf_free(&out);
	buf_init(&out, 4096);
	limits_put(&none, &out);
	assert_int_equal(out.n, 0);
	limits_put(&few, &out);
	assert_true(str_eq(buf_str(&out), STR("requests: 7/h, total: 61s")));
	buf_free(&out);
	assert_false(limit_value(&few, LIMIT_UPLOAD, value));
	assert_string_equal(limit_name(LIMIT_CONCURRENT), "concurrent");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rate_is_a_number_and_a_time),
		cmocka_unit_test(limits_are_written_as_a_policy_has_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
