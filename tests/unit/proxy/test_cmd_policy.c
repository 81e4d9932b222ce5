#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sysexits.h>

#include "proxy/cmd_policy.h"
#include "said.h"

static int run(char *a, char *b, char *c, char *d)
{
	char *argv[] = { (char[]){ "policy" }, a, b, c, d, NULL }, said[SAID_MAX];
	struct said s = said_begin();
	int argc = 1, status;

	while (argv[argc])
		argc++;
	status = cmd_policy(argc, argv);
	said_end(s, said);
	if (status == EX_USAGE)
		assert_true(said[0] != '\0');
	return status;
}

static void a_wrong_command_line_is_a_usage_error(void **state)
{
	char check[] = "check", explain[] = "explain", what[] = "what", file[] = "/nonexistent.yaml";
	char settings[] = "--settings", other[] = "--other", request_text[] = "resolve";

	(void)state;
	assert_int_equal(run(NULL, NULL, NULL, NULL), EX_USAGE);
	assert_int_equal(run(check, NULL, NULL, NULL), EX_USAGE);
	assert_int_equal(run(what, file, NULL, NULL), EX_USAGE);
	assert_int_equal(run(check, file, file, NULL), EX_USAGE);
	assert_int_equal(run(check, file, settings, NULL), EX_USAGE);
	assert_int_equal(run(check, file, other, NULL), EX_USAGE);
	assert_int_equal(run(explain, file, NULL, NULL), EX_USAGE);
	assert_int_equal(run(explain, file, request_text, NULL), EX_USAGE);
}

static void help_is_no_error(void **state)
{
	char check[] = "check", explain[] = "explain", help[] = "--help", h[] = "-h";

	(void)state;
	assert_int_equal(run(help, NULL, NULL, NULL), 0);
	assert_int_equal(run(check, help, NULL, NULL), 0);
	assert_int_equal(run(explain, h, NULL, NULL), 0);
}

static void a_file_that_is_not_there_is_a_failure(void **state)
{
	char check[] = "check", file[] = "/nonexistent.yaml", settings[] = "--settings";

	(void)state;
	assert_int_equal(run(check, file, NULL, NULL), 1);
	assert_int_equal(run(check, file, settings, file), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_wrong_command_line_is_a_usage_error),
		cmocka_unit_test(help_is_no_error),
		cmocka_unit_test(a_file_that_is_not_there_is_a_failure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
