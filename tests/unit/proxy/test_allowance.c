#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "proxy/allowance.h"

static void a_second_is_there_at_once_and_no_more(void **state)
{
	struct allowance a;

	(void)state;
	allowance_init(&a, 100, 5000);
	assert_true(allowance_has(&a, 5000));
	assert_int_equal(allowance_due(&a), 0);
	allowance_take(&a, 100);
	assert_false(allowance_has(&a, 5000));
	/* and after an hour, too */
	assert_true(allowance_has(&a, 3605000));
	allowance_take(&a, 100);
	assert_false(allowance_has(&a, 3605000));
}

static void it_fills_as_time_goes_by(void **state)
{
	struct allowance a;

	(void)state;
	allowance_init(&a, 100, 0);
	allowance_take(&a, 100);
	assert_false(allowance_has(&a, 0));
	assert_int_equal(allowance_due(&a), 1);
	assert_true(allowance_has(&a, 1));
	allowance_take(&a, 1);
	assert_false(allowance_has(&a, 2));
	assert_true(allowance_has(&a, 500));
}

static void a_debt_is_made_up_for(void **state)
{
	struct allowance a;

	(void)state;
	allowance_init(&a, 1000, 0);
	allowance_take(&a, 3500);
	assert_false(allowance_has(&a, 2499));
	assert_int_equal(allowance_due(&a), 2501);
	assert_false(allowance_has(&a, 2500));
	assert_true(allowance_has(&a, 2501));
}

static void what_is_given_back_is_there_again(void **state)
{
	struct allowance a;

	(void)state;
	allowance_init(&a, 1000, 0);
	allowance_take(&a, 5000);
	allowance_give_back(&a, 4900);
	assert_true(allowance_has(&a, 0));
	allowance_take(&a, 900);
	assert_false(allowance_has(&a, 0));
}

static void without_a_limit_there_is_always_something(void **state)
{
	struct allowance a;

	(void)state;
	allowance_init(&a, 0, 0);
	allowance_take(&a, UINT32_MAX);
	assert_true(allowance_has(&a, 0));
	assert_int_equal(allowance_due(&a), 0);
}

static void a_clock_that_stands_or_goes_back_gives_nothing(void **state)
{
	struct allowance a;

	(void)state;
	allowance_init(&a, 10, 1000);
	allowance_take(&a, 10);
	assert_false(allowance_has(&a, 1000));
	assert_false(allowance_has(&a, 0));
	assert_true(allowance_has(&a, 1001));
}

static void the_largest_rate_does_not_overflow(void **state)
{
	struct allowance a;

	(void)state;
	allowance_init(&a, UINT32_MAX, 0);
	allowance_take(&a, 1u << 20);
	assert_true(allowance_has(&a, UINT64_MAX));
	allowance_take(&a, UINT32_MAX);
	assert_false(allowance_has(&a, UINT64_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_second_is_there_at_once_and_no_more),
		cmocka_unit_test(it_fills_as_time_goes_by),
		cmocka_unit_test(a_debt_is_made_up_for),
		cmocka_unit_test(what_is_given_back_is_there_again),
		cmocka_unit_test(without_a_limit_there_is_always_something),
		cmocka_unit_test(a_clock_that_stands_or_goes_back_gives_nothing),
		cmocka_unit_test(the_largest_rate_does_not_overflow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
