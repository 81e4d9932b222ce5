#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

#include "proxy/show.h"

static char *shown;
static size_t shown_n;
static FILE *to;
static json_t *json;

static int setup(void **state)
{
	(void)state;
	to = open_memstream(&shown, &shown_n);
	return to ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	fclose(to);
	free(shown);
	json_decref(json);
	json = NULL;
	return 0;
}

static const json_t *parse(const char *text)
{
	json = json_loads(text, 0, NULL);
	assert_non_null(json);
	return json;
}

static void expect(const char *text)
{
	fflush(to);
	assert_string_equal(shown, text);
}

static const struct show_column columns[] = {
	{ "NAME", "name", SHOW_AS_IT_IS }, { "POLICY", "policy.name", SHOW_AS_IT_IS },
	{ "UP", "up", SHOW_BYTES }, { "FINE", "fine", SHOW_AS_IT_IS },
};

static void columns_are_as_wide_as_their_widest_cell(void **state)
{
	(void)state;
	show_table(to, columns, 4, parse("[{\"name\":\"a\",\"policy\":{\"name\":\"long-name\"},\"up\":1536,"
					 "\"fine\":true},{\"name\":\"b\xc3\xb6x-two\",\"up\":7,\"fine\":false}]"));
	expect("NAME     POLICY     UP       FINE\n"
	       "a        long-name  1.5 KiB  yes\n"
	       "b\xc3\xb6x-two  -          7 B      no\n");
}

static void a_table_of_nothing_is_its_titles(void **state)
{
	(void)state;
	show_table(to, columns, 2, parse("[]"));
	show_table(to, columns, 2, NULL);
	expect("NAME  POLICY\nNAME  POLICY\n");
}

static void nothing_drives_the_terminal(void **state)
{
	(void)state;
	show_table(to, columns, 1, parse("[{\"name\":\"a\\u001b[31m\\n\\u202eb\\u009b\"}]"));
	expect("NAME\na\\u001b[31m\\u000a\\u202eb\\u009b\n");
}

static void what_is_no_value_is_missing(void **state)
{
	(void)state;
	show_table(to, columns, 2, parse("[{\"name\":[1],\"policy\":\"x\"},{\"name\":\"\",\"policy\":{\"name\":null}},1]"));
	expect("NAME  POLICY\n-     -\n-     -\n-     -\n");
}

static void members_stand_one_a_line_and_those_missing_are_left_out(void **state)
{
	static const struct show_column members[] = {
		{ "name", "name", SHOW_AS_IT_IS }, { "is missing for sure", "missing", SHOW_AS_IT_IS },
		{ "policy", "policy.name", SHOW_AS_IT_IS }, { "bytes", "up", SHOW_BYTES },
		{ "rule", "rule", SHOW_AS_IT_IS }, { "null", "null", SHOW_AS_IT_IS },
	};

	(void)state;
	show_members(to, members, 6, parse("{\"name\":\"x\",\"policy\":{\"name\":\"p\"},\"up\":3221225472,"
					   "\"null\":null,\"rule\":\"- id: a\\n  hosts: [\\u001b]\\n\"}"));
	expect("name    x\npolicy  p\nbytes   3.0 GiB\nrule\n  - id: a\n    hosts: [\\u001b]\n");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(columns_are_as_wide_as_their_widest_cell),
		CASE(a_table_of_nothing_is_its_titles),
		CASE(nothing_drives_the_terminal),
		CASE(what_is_no_value_is_missing),
		CASE(members_stand_one_a_line_and_those_missing_are_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
