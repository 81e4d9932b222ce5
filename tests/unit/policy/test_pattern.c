#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "policy/pattern.h"

static void covers(const char *outer, const char *inner, bool want)
{
	if (pattern_covers(str_of(outer), str_of(inner)) != want)
		fail_msg("%s over %s is not %d", outer, inner, want);
}

static void a_name_covers_itself_alone(void **state)
{
	(void)state;
	covers("x.test", "x.test", true);
	covers("x.test", "a.x.test", false);
	covers("x.test", "*.x.test", false);
	covers("x.test", "evilx.test", false);
}

static void one_star_is_one_label(void **state)
{
	(void)state;
	covers("*.x.test", "a.x.test", true);
	covers("*.x.test", "*.x.test", true);
	covers("*.x.test", "x.test", false);
	covers("*.x.test", "a.b.x.test", false);
	covers("*.x.test", "**.x.test", false);
	covers("*.x.test", "*.a.x.test", false);
}

static void two_stars_are_one_label_or_more(void **state)
{
	(void)state;
	covers("**.x.test", "a.x.test", true);
	covers("**.x.test", "a.b.x.test", true);
	covers("**.x.test", "*.x.test", true);
	covers("**.x.test", "*.a.x.test", true);
	covers("**.x.test", "**.a.x.test", true);
	covers("**.x.test", "**.x.test", true);
	covers("**.x.test", "x.test", false);
	covers("**.a.x.test", "**.x.test", false);
	covers("**.x.test", "**", false);
}

/* F06: allow trusted.test must not admit eviltrusted.test */
static void a_suffix_without_a_dot_is_another_name(void **state)
{
	(void)state;
	covers("*.trusted.test", "eviltrusted.test", false);
	covers("**.trusted.test", "eviltrusted.test", false);
	covers("**.trusted.test", "*.eviltrusted.test", false);
	covers("**.trusted.test", "trusted.test.evil.test", false);
}

static void any_host_covers_all_and_is_covered_by_itself(void **state)
{
	(void)state;
	covers("**", "x.test", true);
	covers("**", "**.test", true);
	covers("**", "**", true);
	covers("x.test", "**", false);
}

static void canon(const char *text, const char *want)
{
	struct host_pattern p;

	assert_int_equal(pattern_canon(str_of(text), &p), NAME_OK);
	assert_string_equal(p.s, want);
	assert_int_equal(p.n, strlen(want));
}

/* F01: one spelling for each name */
static void the_canonical_form_is_lower_case_without_final_dot(void **state)
{
	(void)state;
	canon("API.Test.", "api.test");
	canon("*.API.Test.", "*.api.test");
	canon("**.API.Test", "**.api.test");
	canon("**", "**");
}

static void what_is_no_pattern_says_why(void **state)
{
	struct host_pattern p;

	(void)state;
	assert_int_equal(pattern_canon(STR("*"), &p), NAME_BYTE);
	assert_int_equal(pattern_canon(STR("*."), &p), NAME_EMPTY);
	assert_int_equal(pattern_canon(STR("*ample.test"), &p), NAME_BYTE);
	assert_int_equal(pattern_canon(STR("*.*"), &p), NAME_BYTE);
	assert_int_equal(pattern_canon(STR("a.*.test"), &p), NAME_BYTE);
	assert_int_equal(pattern_canon(STR("127.1"), &p), NAME_NUMERIC);
	assert_int_equal(pattern_canon(STR("*.127.0.0.1"), &p), NAME_LITERAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_covers_itself_alone),
		cmocka_unit_test(one_star_is_one_label),
		cmocka_unit_test(two_stars_are_one_label_or_more),
		cmocka_unit_test(a_suffix_without_a_dot_is_another_name),
		cmocka_unit_test(any_host_covers_all_and_is_covered_by_itself),
		cmocka_unit_test(the_canonical_form_is_lower_case_without_final_dot),
		cmocka_unit_test(what_is_no_pattern_says_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
