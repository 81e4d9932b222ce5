#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "conf/buf.h"
#include "conf/yaml.h"

static struct diags diags;

static struct yaml *parse(struct str text)
{
	diags_free(&diags);
	diags_init(&diags, STR("t.yaml"), text);
	return yaml_parse(text, &diags);
}

/* The text must not parse, and the first error is at that place and says so. */
static void refuse(struct str text, uint32_t line, uint32_t column, const char *says)
{
	assert_null(parse(text));
	assert_true(diags.n > 0);
	assert_non_null(strstr(diags.items[0].text, says));
	assert_int_equal(diags.items[0].at.line, line);
	assert_int_equal(diags.items[0].at.column, column);
}

static int teardown(void **state)
{
	(void)state;
	diags_free(&diags);
	return 0;
}

static void every_value_knows_its_place(void **state)
{
	struct yaml *y = parse(STR("a: 1\nb:\n  - x\n  - {\"c\": 'd'}\n"));
	const struct yaml_node *n;

	(void)state;
	assert_non_null(y);
	n = yaml_root(y);
	assert_int_equal(n->kind, YAML_MAP);
	n = n->first->next->next->next;		/* b's list */
	assert_int_equal(n->kind, YAML_LIST);
	assert_int_equal(n->at.line, 3);
	assert_int_equal(n->at.column, 3);
	n = n->first->next;			/* the map in it */
	assert_int_equal(n->kind, YAML_MAP);
	assert_string_equal(n->first->text.p, "c");
	assert_true(n->first->quoted);
	n = n->first->next;
	assert_string_equal(n->text.p, "d");
	assert_int_equal(n->at.line, 4);
	assert_int_equal(n->at.column, 11);
	assert_int_equal(n->at.len, 3);
	yaml_release(y);
}

static void columns_count_bytes(void **state)
{
	struct yaml *y = parse(STR("{a: \xc3\xbc, b: \xe2\x82\xac, c: x}\n"));
	const struct yaml_node *n;

	(void)state;
	assert_non_null(y);
	n = yaml_root(y)->first->next;
	assert_int_equal(n->at.column, 5);
	n = n->next->next;
	assert_int_equal(n->at.column, 12);
	n = n->next->next;
	assert_int_equal(n->at.column, 20);
	yaml_release(y);
}

static void no_scalar_is_retyped(void **state)
{
	static const char *const words[] = { "no", "on", "1e3", "0123", "~", "null", "2030-01-01" };
	struct yaml *y = parse(STR("[no, on, 1e3, 0123, ~, null, 2030-01-01]"));
	const struct yaml_node *n;

	(void)state;
	assert_non_null(y);
	n = yaml_root(y)->first;
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++, n = n->next) {
		assert_int_equal(n->kind, YAML_TEXT);
		assert_string_equal(n->text.p, words[i]);
		assert_false(n->quoted);
	}
	yaml_release(y);
}

static void what_is_not_in_the_subset_is_refused(void **state)
{
	(void)state;
	refuse(STR("a: &x 1\n"), 1, 4, "anchors");
	refuse(STR("a: *x\n"), 1, 4, "aliases");
	refuse(STR("a: !!str 1\n"), 1, 4, "tags");
	refuse(STR("<<: {a: 1}\n"), 1, 1, "merge keys");
	refuse(STR("a: 1\nb: 2\na: 3\n"), 3, 1, "there twice: first in line 1");
	refuse(STR("{[a]: 1}\n"), 1, 2, "a list as a key");
	refuse(STR("\"\": 1\n"), 1, 1, "an empty key");
	refuse(STR("a: 1\n---\nb: 2\n"), 2, 1, "a second document");
	refuse(STR("%YAML 1.1\n---\na: 1\n"), 1, 1, "directives");
	refuse(STR(""), 1, 1, "empty");
	refuse(STR("# nothing\n"), 1, 1, "empty");
	refuse(STR("a: [1\n"), 2, 1, "expected");
}

static void bytes_that_hide_are_refused(void **state)
{
	(void)state;
	refuse(STR("a: \0b\n"), 1, 4, "NUL");
	refuse(STR("a: \"\\0\"\n"), 1, 4, "NUL");
	refuse(STR("a: \x1b\n"), 1, 4, "control");
	refuse(STR("a: \xff\n"), 1, 4, "UTF-8");
	refuse(STR("a: \xc0\xaf\n"), 1, 4, "UTF-8");
	refuse(STR("\xef\xbb\xbf" "a: 1\n"), 1, 1, "byte order mark");
	refuse(STR("a: 1\rb: 2\n"), 1, 5, "carriage return");
	refuse(STR("a: 1\xe2\x80\xa8" "b: 2\n"), 1, 5, "line break");
	refuse(STR("a:\n\tb: 1\n"), 2, 1, "tab");
	refuse(STR("a:\n  \tb: 1\n"), 2, 3, "tab");
}

static void lines_may_end_in_crlf(void **state)
{
	struct yaml *y = parse(STR("a: 1\r\nb: 2\r\n"));

	(void)state;
	assert_non_null(y);
	assert_int_equal(yaml_root(y)->first->next->next->at.line, 2);
	yaml_release(y);
}

static void all_errors_are_told_at_once(void **state)
{
	(void)state;
	assert_null(parse(STR("a: &x 1\nb: *x\nb: !t 2\n")));
	assert_int_equal(diags.errors, 4);
}

static struct str nested(char *out, size_t levels)
{
	memset(out, '[', levels);
	memset(out + levels, ']', levels);
	return str_n(out, 2 * levels);
}

static void depth_is_limited(void **state)
{
	char text[2 * (YAML_DEPTH_MAX + 1)];
	struct yaml *y = parse(nested(text, YAML_DEPTH_MAX));

	(void)state;
	assert_non_null(y);
	yaml_release(y);
	refuse(nested(text, YAML_DEPTH_MAX + 1), 1, YAML_DEPTH_MAX + 1, "nested too deep");
}

static void very_deep_text_stops_early(void **state)
{
	size_t n = 1 << 20;
	char *text = malloc(n);

	(void)state;
	assert_non_null(text);
	memset(text, '[', n);
	refuse(str_n(text, n), 1, YAML_DEPTH_MAX + 1, "nested too deep");
	for (size_t i = 0; i < n; i++)
		text[i] = "- "[i % 2];
	refuse(str_n(text, n), 1, 2 * YAML_DEPTH_MAX + 1, "nested too deep");
	free(text);
}

static void duplicates_are_found_in_large_maps(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 1 << 20);
	for (int i = 0; i < 5000; i++)
		buf_printf(&b, "key%d: 1\n", i * 7919 % 5000);
	assert_non_null(b.p);
	struct yaml *y = parse(buf_str(&b));

	assert_non_null(y);
	yaml_release(y);
	buf_printf(&b, "key42: 1\nkey42: 1\n");
	assert_null(parse(buf_str(&b)));
	assert_int_equal(diags.errors, 2);
	assert_int_equal(diags.items[0].at.line, 5001);
	buf_free(&b);
}

static void kinds_have_names(void **state)
{
	(void)state;
	assert_string_equal(yaml_kind_name(YAML_TEXT), "text");
	assert_string_equal(yaml_kind_name(YAML_LIST), "a list");
	assert_string_equal(yaml_kind_name(YAML_MAP), "a map");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_value_knows_its_place),
		cmocka_unit_test(columns_count_bytes),
		cmocka_unit_test(no_scalar_is_retyped),
		cmocka_unit_test(what_is_not_in_the_subset_is_refused),
		cmocka_unit_test(bytes_that_hide_are_refused),
		cmocka_unit_test(lines_may_end_in_crlf),
		cmocka_unit_test(all_errors_are_told_at_once),
		cmocka_unit_test(depth_is_limited),
		cmocka_unit_test(very_deep_text_stops_early),
		cmocka_unit_test(duplicates_are_found_in_large_maps),
		cmocka_unit_test(kinds_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}
