#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sandbox/roles.h"

static void each_role_has_a_name_of_its_own_and_a_promise(void **state)
{
	(void)state;
	for (enum role a = 0; a < ROLE_COUNT; a++) {
		assert_true(strlen(role_name(a)) > 0 && strlen(role_name(a)) < 16);
		assert_true(strlen(role_promise(a)) > 0);
		for (enum role b = 0; b < a; b++)
			assert_string_not_equal(role_name(a), role_name(b));
	}
}

static void a_number_that_is_no_role_has_no_promise(void **state)
{
	(void)state;
	assert_string_equal(role_name(ROLE_COUNT), "unknown");
	assert_string_equal(role_promise((enum role)99), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_role_has_a_name_of_its_own_and_a_promise),
		cmocka_unit_test(a_number_that_is_no_role_has_no_promise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
