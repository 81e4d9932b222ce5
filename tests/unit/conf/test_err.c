#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "conf/err.h"

static void every_error_has_a_text_of_its_own_and_a_kind(void **state)
{
	(void)state;
	for (int i = 0; i < ERR_COUNT; i++) {
		enum err e = (enum err)(-1 - i);

		assert_true(strlen(err_text(e)) > 0);
		assert_int_not_equal(err_kind(e), ERR_KIND_NONE);
		for (int k = 0; k < i; k++)
			assert_string_not_equal(err_text(e), err_text((enum err)(-1 - k)));
	}
}

static void whose_fault_it_is_is_told(void **state)
{
	(void)state;
	assert_int_equal(err_kind(ERR_SYNTAX), ERR_KIND_PEER);
	assert_int_equal(err_kind(ERR_AGAIN), ERR_KIND_RETRY);
	assert_int_equal(err_kind(ERR_NOMEM), ERR_KIND_LOCAL);
	assert_int_equal(err_kind(ERR_BUG), ERR_KIND_BUG);
}

static void ok_is_no_error(void **state)
{
	(void)state;
	assert_int_equal(OK, 0);
	assert_string_equal(err_text(OK), "no error");
	assert_int_equal(err_kind(OK), ERR_KIND_NONE);
}

static void numbers_that_are_no_error_are_bugs(void **state)
{
	(void)state;
	assert_string_equal(err_text((enum err)(-1 - ERR_COUNT)), "unknown error");
	assert_int_equal(err_kind((enum err)(-1 - ERR_COUNT)), ERR_KIND_BUG);
	assert_string_equal(err_text((enum err)1), "unknown error");
	assert_int_equal(err_kind((enum err)1), ERR_KIND_BUG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_error_has_a_text_of_its_own_and_a_kind),
		cmocka_unit_test(whose_fault_it_is_is_told),
		cmocka_unit_test(ok_is_no_error),
		cmocka_unit_test(numbers_that_are_no_error_are_bugs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
