#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "proxy/resolver_cache.h"

static struct resolver_cache *cache;

static int setup(void **state)
{
	(void)state;
	cache = resolver_cache_new(4);
	return cache ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	resolver_cache_free(cache);
	return 0;
}

static void put(const char *name, enum resolve_status status, uint32_t ttl, uint64_t now)
{
	struct resolver_answer a = { .status = status, .ttl = ttl, .server = "s" };

	if (status == RESOLVE_OK) {
		a.addrs[0] = addr_v4(0xcb00710a);
		a.n = 1;
	}
	resolver_cache_put(cache, str_of(name), &a, now);
}

static const struct resolver_answer *get(const char *name, uint64_t now)
{
	return resolver_cache_get(cache, str_of(name), now);
}

/* F141 */
static void an_address_is_used_until_its_time_is_over_and_not_longer(void **state)
{
	(void)state;
	put("a.test", RESOLVE_OK, 2, 1000);
	assert_int_equal(get("a.test", 1000)->ttl, 2);
	assert_int_equal(get("a.test", 2500)->ttl, 1);
	assert_true(get("a.test", 2999)->cached);
	assert_null(get("a.test", 3000));
	assert_int_equal(resolver_cache_count(cache), 0);
}

/* F141 */
static void that_a_name_is_gone_replaces_its_address_at_once(void **state)
{
	(void)state;
	put("a.test", RESOLVE_OK, 600, 0);
	put("a.test", RESOLVE_NXDOMAIN, 0, 1000);
	assert_int_equal(get("a.test", 1001)->status, RESOLVE_NXDOMAIN);
	assert_null(get("a.test", 1000 + RESOLVER_NEGATIVE_TTL * 1000));
}

/* F141 */
static void a_failure_is_not_kept_and_neither_is_what_was_known_before(void **state)
{
	(void)state;
	put("a.test", RESOLVE_OK, 600, 0);
	put("a.test", RESOLVE_SERVFAIL, 0, 1000);
	assert_null(get("a.test", 1001));
	put("b.test", RESOLVE_TIMEOUT, 60, 0);
	assert_null(get("b.test", 0));
}

static void times_to_live_have_a_floor_and_a_ceiling(void **state)
{
	(void)state;
	put("a.test", RESOLVE_OK, 0, 0);
	assert_int_equal(get("a.test", 0)->ttl, RESOLVER_TTL_MIN);
	put("a.test", RESOLVE_OK, UINT32_MAX, 0);
	assert_int_equal(get("a.test", 0)->ttl, RESOLVER_TTL_MAX);
}

static void what_was_used_longest_ago_makes_room(void **state)
{
	const char *names[] = { "a.test", "b.test", "c.test", "d.test" };

	(void)state;
	for (size_t i = 0; i < 4; i++)
		put(names[i], RESOLVE_OK, 60, 0);
	assert_non_null(get("a.test", 1));
	put("e.test", RESOLVE_OK, 60, 0);
	assert_int_equal(resolver_cache_count(cache), 4);
	assert_null(get("b.test", 1));
	assert_non_null(get("a.test", 1));
	assert_non_null(get("e.test", 1));
}

/* F43 */
static void memory_is_bounded_whatever_is_put_in(void **state)
{
	struct resolver_answer a = { .status = RESOLVE_OK, .ttl = 60, .n = RESOLVER_ADDRS_MAX };
	char name[32];

	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "n%u.test", i);
		resolver_cache_put(cache, str_of(name), &a, 0);
	}
	assert_int_equal(resolver_cache_count(cache), 4);
	assert_int_equal(get("n999.test", 0)->n, RESOLVER_ADDRS_MAX);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(an_address_is_used_until_its_time_is_over_and_not_longer),
		CASE(that_a_name_is_gone_replaces_its_address_at_once),
		CASE(a_failure_is_not_kept_and_neither_is_what_was_known_before),
		CASE(times_to_live_have_a_floor_and_a_ceiling),
		CASE(what_was_used_longest_ago_makes_room),
		CASE(memory_is_bounded_whatever_is_put_in),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
