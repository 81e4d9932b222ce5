#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <event2/event.h>

#include "proxy/clock.h"
#include "proxy/http1.h"
#include "proxy/kept_grant.h"

static struct event_base *base;
static struct kept_grant *kept;
static struct fields edits;
static struct scrub *scrub;
static const struct rule_ref rule = { 0, 3 }, other = { 0, 4 };

static int setup(void **state)
{
	(void)state;
	base = event_base_new();
	kept = kept_grant_new(base);
	fields_init(&edits, HTTP1_HEADERS_MAX);
	scrub = NULL;
	return base && kept ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	kept_grant_free(kept);
	fields_wipe(&edits);
	scrub_free(scrub);
	event_base_free(base);
	return 0;
}

/* What an exchange that has ended hands over. */
static void put(uint64_t lasts_ms)
{
	struct lasting_grant grant = { .until_ms = lasts_ms ? clock_ms() + lasts_ms : 0, .rule = rule,
				       .policies = 7, .credential = "github" };
	struct str pattern = STR("the-secret-value"), name = STR("github");

	fields_add(&edits, STR("authorization"), STR("Bearer the-secret-value"));
	assert_int_equal(scrub_new(&pattern, &name, 1, &scrub), OK);
	kept_grant_put(kept, &grant, &edits, &scrub);
	assert_null(scrub);
	assert_int_equal(edits.n, 0);
}

static bool take(struct rule_ref wanted, unsigned policies)
{
	struct lasting_grant grant;

	if (!kept_grant_take(kept, wanted, policies, &grant, &edits, &scrub))
		return false;
	assert_string_equal(grant.credential, "github");
	assert_int_equal(edits.n, 1);
	assert_true(str_eq(fields_value(&edits, 0), STR("Bearer the-secret-value")));
	assert_non_null(scrub);
	return true;
}

static void the_next_request_under_the_same_rule_has_it_and_no_third_unless_given_back(void **state)
{
	(void)state;
	put(GRANT_LASTS_MS);
	assert_true(take(rule, 7));
	assert_false(take(rule, 7));
}

static void another_rule_has_nothing_of_it(void **state)
{
	(void)state;
	put(GRANT_LASTS_MS);
	assert_false(take(other, 7));
	assert_true(take(rule, 7));
}

static void as_many_are_kept_as_there_were_at_once_and_no_more_than_the_limit(void **state)
{
	(void)state;
	for (unsigned i = 0; i < KEPT_GRANTS_MAX + 5; i++)
		put(GRANT_LASTS_MS);
	for (unsigned i = 0; i < KEPT_GRANTS_MAX; i++) {
		assert_true(take(rule, 7));
		fields_wipe(&edits);
		scrub_free(scrub);
		scrub = NULL;
	}
	assert_false(take(rule, 7));
}

static void a_new_policy_ends_it(void **state)
{
	(void)state;
	put(GRANT_LASTS_MS);
	assert_false(take(rule, 8));
	assert_false(take(rule, 7));
}

static void one_that_does_not_last_is_not_kept(void **state)
{
	(void)state;
	put(0);
	assert_false(take(rule, 7));
}

static void it_is_wiped_when_its_time_is_over_without_a_request(void **state)
{
	(void)state;
	put(20);
	/* Its timer is the only event: the loop ends with it. */
	assert_int_equal(event_base_dispatch(base), 1);
	assert_false(take(rule, 7));
}

static void time_runs_from_the_grant_not_from_its_last_use(void **state)
{
	struct lasting_grant grant;
	uint64_t until;

	(void)state;
	put(GRANT_LASTS_MS);
	assert_true(kept_grant_take(kept, rule, 7, &grant, &edits, &scrub));
	until = grant.until_ms;
	kept_grant_put(kept, &grant, &edits, &scrub);
	assert_true(kept_grant_take(kept, rule, 7, &grant, &edits, &scrub));
	assert_int_equal(grant.until_ms, until);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(the_next_request_under_the_same_rule_has_it_and_no_third_unless_given_back),
		CASE(another_rule_has_nothing_of_it),
		CASE(as_many_are_kept_as_there_were_at_once_and_no_more_than_the_limit),
		CASE(a_new_policy_ends_it),
		CASE(one_that_does_not_last_is_not_kept),
		CASE(it_is_wiped_when_its_time_is_over_without_a_request),
		CASE(time_runs_from_the_grant_not_from_its_last_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
