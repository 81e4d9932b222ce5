#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "proxy/leaf_cache.h"

static void a_leaf_is_found_by_its_whole_name(void **state)
{
	struct leaf_cache *c = leaf_cache_new();

	(void)state;
	assert_int_equal(leaf_cache_find(c, STR("a.test"), 0).n, 0);
	leaf_cache_put(c, STR("a.test"), STR("der of a"), 10);
	leaf_cache_put(c, STR("b.test"), STR("der of b"), 10);
	assert_true(str_eq(leaf_cache_find(c, STR("a.test"), 11), STR("der of a")));
	assert_true(str_eq(leaf_cache_find(c, STR("b.test"), 11), STR("der of b")));
	assert_int_equal(leaf_cache_find(c, STR("a.tes"), 11).n, 0);
	assert_int_equal(leaf_cache_find(c, STR("a.test2"), 11).n, 0);
	leaf_cache_free(c);
	leaf_cache_free(NULL);
}

static void past_the_limit_the_oldest_goes(void **state)
{
	struct leaf_cache *c = leaf_cache_new();
	char name[32];

	(void)state;
	for (int i = 0; i < LEAVES_MAX + 3; i++) {
		snprintf(name, sizeof(name), "n%d.test", i);
		leaf_cache_put(c, str_of(name), str_of(name), 10);
	}
	for (int i = 0; i < LEAVES_MAX + 3; i++) {
		snprintf(name, sizeof(name), "n%d.test", i);
		assert_int_equal(leaf_cache_find(c, str_of(name), 10).n != 0, i >= 3);
	}
	leaf_cache_free(c);
}

static void a_leaf_that_is_too_old_is_made_again(void **state)
{
	struct leaf_cache *c = leaf_cache_new();

	(void)state;
	leaf_cache_put(c, STR("a.test"), STR("old"), 10);
	assert_true(str_eq(leaf_cache_find(c, STR("a.test"), 10 + LEAF_FRESH_SECONDS), STR("old")));
	assert_int_equal(leaf_cache_find(c, STR("a.test"), 11 + LEAF_FRESH_SECONDS).n, 0);
	leaf_cache_put(c, STR("a.test"), STR("new"), 11 + LEAF_FRESH_SECONDS);
	assert_true(str_eq(leaf_cache_find(c, STR("a.test"), 12 + LEAF_FRESH_SECONDS), STR("new")));
	leaf_cache_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_leaf_is_found_by_its_whole_name),
		cmocka_unit_test(past_the_limit_the_oldest_goes),
		cmocka_unit_test(a_leaf_that_is_too_old_is_made_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
