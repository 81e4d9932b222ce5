#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "conf/schema_show.h"

static const struct schema_row entry_rows[] = {
	{ .key = "from", .type = SCHEMA_TEXT },
	{ .key = "to", .type = SCHEMA_TEXTS, .without = "nowhere" },
	{ .type = SCHEMA_END },
};
static const struct schema_row entry = { .key = "NAME", .type = SCHEMA_GROUP, .rows = entry_rows };
static const struct schema_row group[] = {
	{ .key = "size", .type = SCHEMA_SIZE, .initial = "4KiB" },
	{ .key = "mode", .type = SCHEMA_TEXT, .without = "as it comes" },
	{ .type = SCHEMA_END },
};
static const struct schema_row rows[] = {
	{ .key = "name", .type = SCHEMA_TEXT },
	{ .key = "in", .type = SCHEMA_GROUP, .rows = group },
	{ .key = "each", .type = SCHEMA_MAP, .each = &entry, .without = "none" },
	{ .key = "wings", .type = SCHEMA_LATER },
	{ .type = SCHEMA_END },
};

static char shown[4096];

static const char *show(const char *text, bool json)
{
	struct diags diags;
	struct yaml *tree = NULL;
	struct buf out;

	diags_init(&diags, STR("f.yaml"), str_of(text));
	if (text)
		tree = yaml_parse(diags.text, &diags);
	assert_true(!text || tree);
	buf_init(&out, sizeof(shown) - 1);
	schema_show(rows, tree ? yaml_root(tree) : NULL, diags.file, json, &out);
	assert_false(out.failed);
	memcpy(shown, out.p, out.n);
	shown[out.n] = '\0';
	buf_free(&out);
	yaml_release(tree);
	diags_free(&diags);
	return shown;
}

static void without_a_file_all_are_defaults(void **state)
{
	(void)state;
	assert_string_equal(show(NULL, false), "name: (not set)                         # default\n"
					       "in.size: 4KiB                           # default\n"
					       "in.mode: (as it comes)                  # default\n"
					       "each: (none)                            # default\n");
}

static void what_is_written_says_where(void **state)
{
	(void)state;
	assert_string_equal(show("name: n\nin:\n  mode: fast\neach: {x: {from: a, to: [b, c]}, y: {from: d}}\n",
				 false),
			    "name: n                                 # f.yaml:1\n"
			    "in.size: 4KiB                           # default\n"
			    "in.mode: fast                           # f.yaml:3\n"
			    "each.x.from: a                          # f.yaml:4\n"
			    "each.x.to: [b, c]                       # f.yaml:4\n"
			    "each.y.from: d                          # f.yaml:4\n"
			    "each.y.to: (nowhere)                    # default\n");
}

static void a_value_cannot_drive_a_terminal(void **state)
{
	(void)state;
	assert_non_null(strstr(show("name: \"a\\x1b[2J\\u00e9\"\n", false), "name: \"a\\u001b[2J\xc3\xa9\""));
}

static void a_long_value_keeps_its_place_apart(void **state)
{
	(void)state;
	assert_non_null(strstr(show("name: 123456789012345678901234567890123456789012345\n", false),
			       "12345 # f.yaml:1\n"));
}

static void json_has_the_same(void **state)
{
	(void)state;
	assert_string_equal(show("name: \"n\\\"\"\neach: {x: {from: a, to: [b, c]}}\n", true),
			    "{\"file\":\"f.yaml\",\"keys\":["
			    "{\"key\":\"name\",\"value\":\"n\\\"\",\"from\":\"file\",\"line\":1},"
			    "{\"key\":\"in.size\",\"value\":\"4KiB\",\"from\":\"default\"},"
			    "{\"key\":\"in.mode\",\"value\":null,\"without\":\"as it comes\",\"from\":\"default\"},"
			    "{\"key\":\"each.x.from\",\"value\":\"a\",\"from\":\"file\",\"line\":2},"
			    "{\"key\":\"each.x.to\",\"value\":[\"b\",\"c\"],\"from\":\"file\",\"line\":2}]}\n");
	assert_ptr_equal(strstr(show(NULL, true), "{\"file\":null,\"keys\":["), shown);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_file_all_are_defaults),
		cmocka_unit_test(what_is_written_says_where),
		cmocka_unit_test(a_value_cannot_drive_a_terminal),
		cmocka_unit_test(a_long_value_keeps_its_place_apart),
		cmocka_unit_test(json_has_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
