#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "conf/diag.h"

static char *printed(const struct diags *d)
{
	char *text = NULL;
	size_t n = 0;
	FILE *to = open_memstream(&text, &n);

	assert_non_null(to);
	diags_print(d, to);
	fclose(to);
	return text;
}

static void assert_prints(const struct diags *d, const char *want)
{
	char *text = printed(d);

	assert_string_equal(text, want);
	free(text);
}

static void line_caret_and_advice_stand_under_each_other(void **state)
{
	struct diags d;

	(void)state;
	diags_init(&d, STR("p.yaml"), STR("exeat: 1\nalow:\n"));
	diag_add(&d, DIAG_ERROR, (struct mark){ 2, 1, 4 }, "did you mean \"allow\"?",
		 "unknown key \"%s\"",
		 "alow");
	assert_prints(&d, "p.yaml:2:1: error: unknown key \"alow\"\n"
			  "  2 | alow:\n"
			  "    | ^~~~\n"
			  "      did you mean \"allow\"?\n");
	diags_free(&d);
}

static void printed_in_order_of_position(void **state)
{
	struct diags d;

	(void)state;
	diags_init(&d, STR("p"), STR("ab\ncd\n"));
	diag_add(&d, DIAG_NOTE, (struct mark){ 2, 2, 1 }, NULL, "third");
	diag_add(&d, DIAG_ERROR, (struct mark){ 2, 1, 0 }, NULL, "second");
	diag_add(&d, DIAG_WARNING, (struct mark){ 1, 2, 1 }, NULL, "first");
	assert_prints(&d, "p:1:2: warning: first\n  1 | ab\n    |  ^\n"
			  "p:2:1: error: second\n  2 | cd\n    | ^\n"
			  "p:2:2: note: third\n  2 | cd\n    |  ^\n");
	assert_int_equal(d.errors, 1);
	assert_int_equal(d.warnings, 1);
	diags_free(&d);
}

static void a_place_of_none_prints_no_line(void **state)
{
	struct diags d;

	(void)state;
	diags_init(&d, STR("p"), STR_NONE);
	diag_add(&d, DIAG_ERROR, (struct mark){ 0 }, NULL, "out of memory");
	assert_prints(&d, "p: error: out of memory\n");
	diags_free(&d);
}

static void the_file_cannot_drive_the_terminal(void **state)
{
	struct diags d;

	(void)state;
	diags_init(&d, STR("p\x1b[2J"),
		   STR("\x1b]0;x\x07\xff\xc2\x9b\xe2\x80\xae ok \xc3\xbc\r\n"));
	diag_add(&d, DIAG_ERROR, (struct mark){ 1, 10, 3 }, "\x7f", "\x1b[31m");
	assert_prints(&d, "p\\x1b[2J:1:10: error: \\x1b[31m\n"
			  "  1 | \\x1b]0;x\\x07\\xff\\xc2\\x9b\\xe2\\x80\\xae ok \xc3\xbc\n"
			  "    |                         ^~~~~~~~~~~~\n"
			  "      \\x7f\n");
	diags_free(&d);
}

static void the_caret_counts_what_is_shown(void **state)
{
	struct diags d;

	(void)state;
	diags_init(&d, STR("p"), STR("\t\xc3\xbc: \x01x\n"));
	diag_add(&d, DIAG_ERROR, (struct mark){ 1, 6, 2 }, NULL, "here");
	assert_prints(&d, "p:1:6: error: here\n"
			  "  1 | \\x09\xc3\xbc: \\x01x\n"
			  "    |        ^~~~~\n");
	diags_free(&d);
}

static void a_long_line_is_shown_in_part(void **state)
{
	struct diags d;
	char line[2000];
	char *text;

	(void)state;
	memset(line, 'a', sizeof(line));
	line[1000] = 'X';
	diags_init(&d, STR("p"), str_n(line, sizeof(line)));
	diag_add(&d, DIAG_ERROR, (struct mark){ 1, 1001, 900 }, NULL, "here");
	text = printed(&d);
	assert_true(strlen(text) < 400);
	assert_non_null(strstr(text, "aXa"));
	free(text);
	diags_free(&d);
}

static void a_place_behind_the_end_is_held_at_the_end(void **state)
{
	struct diags d;

	(void)state;
	diags_init(&d, STR("p"), STR("ab"));
	diag_add(&d, DIAG_ERROR, (struct mark){ 1, 50, 3 }, NULL, "here");
	diag_add(&d, DIAG_ERROR, (struct mark){ 9, 1, 3 }, NULL, "there");
	assert_prints(&d, "p:1:50: error: here\n  1 | ab\n    |   ^\n"
			  "p:9:1: error: there\n  9 | \n    | ^\n");
	diags_free(&d);
}

static void past_the_limit_errors_take_the_place_of_notes(void **state)
{
	struct diags d;
	char *text;

	(void)state;
	diags_init(&d, STR("p"), STR("a"));
	for (size_t i = 0; i < DIAGS_MAX + 5; i++)
		diag_add(&d, DIAG_NOTE, (struct mark){ 1, 1, 1 }, NULL, "note");
	assert_int_equal(d.n, DIAGS_MAX);
	assert_int_equal(d.dropped, 5);
	diag_add(&d, DIAG_ERROR, (struct mark){ 1, 1, 1 }, NULL, "the error");
	assert_int_equal(d.n, DIAGS_MAX);
	assert_int_equal(d.dropped, 6);
	text = printed(&d);
	assert_non_null(strstr(text, "the error"));
	assert_non_null(strstr(text, "p: and 6 more that are not shown\n"));
	free(text);
	diags_free(&d);
}

static void the_nearest_word_is_a_likely_slip(void **state)
{
	static const char *const keys[] = { "allow", "deny", "methods", "ports", "hosts" };

	(void)state;
	assert_string_equal(diag_nearest(STR("alow"), keys, 5), "allow");
	assert_string_equal(diag_nearest(STR("methosd"), keys, 5), "methods");
	assert_string_equal(diag_nearest(STR("Ports"), keys, 5), "ports");
	assert_null(diag_nearest(STR("zebra"), keys, 5));
	assert_null(diag_nearest(STR(""), keys, 5));
	assert_null(diag_nearest(STR("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), keys, 5));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(line_caret_and_advice_stand_under_each_other),
		cmocka_unit_test(printed_in_order_of_position),
		cmocka_unit_test(a_place_of_none_prints_no_line),
		cmocka_unit_test(the_file_cannot_drive_the_terminal),
		cmocka_unit_test(the_caret_counts_what_is_shown),
		cmocka_unit_test(a_long_line_is_shown_in_part),
		cmocka_unit_test(a_place_behind_the_end_is_held_at_the_end),
		cmocka_unit_test(past_the_limit_errors_take_the_place_of_notes),
		cmocka_unit_test(the_nearest_word_is_a_likely_slip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
