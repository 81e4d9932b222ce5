#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sandbox/roles.h"

static void each_role_has_a_name_of_its_own(void **state)
{
	(void)state;
	for (enum role a = 0; a < ROLE_COUNT; a++) {
		assert_true(strlen(role_name(a)) > 0 && strlen(role_name(a)) < 16);
		for (enum role b = 0; b < a; b++)
			assert_string_not_equal(role_name(a), role_name(b));
	}
}

static void a_number_that_is_no_role_is_unknown(void **state)
{
	(void)state;
	assert_string_equal(role_name(ROLE_COUNT), "unknown");
	assert_string_equal(role_name((enum role)99), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_role_has_a_name_of_its_own),
		cmocka_unit_test(a_number_that_is_no_role_is_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
