#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "conf/schema.h"

struct inner {
	bool flag;
	uint64_t wait, size;
	uint32_t count;
};

struct filled {
	struct str name;
	unsigned mode;
	struct inner in;
	const struct yaml_node *texts, *list, *map;
};

static const char *check_name(struct str s)
{
	return s.p[0] == '!' ? "starts with an exclamation" : NULL;
}

static const char *const modes[] = { "slow", "fast", NULL };

static const struct schema_row group[] = {
	{ .key = "flag", .type = SCHEMA_BOOL, .offset = offsetof(struct filled, in.flag),
	 .initial = "true" },
	{ .key = "wait", .type = SCHEMA_DURATION, .offset = offsetof(struct filled, in.wait),
	 .min = 1000,
	  .max = 3600000, .initial = "2s" },
	{ .key = "size", .type = SCHEMA_SIZE, .offset = offsetof(struct filled, in.size),
	 .max = 1 << 30, .initial = "64KiB" },
	{ .key = "count", .type = SCHEMA_NUMBER, .offset = offsetof(struct filled, in.count),
	 .min = 1,
	  .max = 9 },
	{ .type = SCHEMA_END },
};

static const struct schema_row rows[] = {
	{ .key = "name", .type = SCHEMA_TEXT, .offset = offsetof(struct filled, name), .max = 8,
	  .required = true, .check = check_name, .help = "who it is" },
	{ .key = "mode", .type = SCHEMA_CHOICE, .offset = offsetof(struct filled, mode),
	 .choices = modes,
	  .later = "warp light", .initial = "fast" },
	{ .key = "group", .type = SCHEMA_GROUP, .rows = group },
	{ .key = "texts", .type = SCHEMA_TEXTS, .offset = offsetof(struct filled, texts), .max = 3 },
	{ .key = "list", .type = SCHEMA_LIST, .offset = offsetof(struct filled, list) },
	{ .key = "map", .type = SCHEMA_MAP, .offset = offsetof(struct filled, map), .max = 2 },
	{ .key = "wings", .type = SCHEMA_LATER, .help = "walk" },
	{ .type = SCHEMA_END },
};

static struct diags diags;
static struct yaml *tree;
static struct filled filled;

static bool read(const char *text)
{
	yaml_release(tree);
	diags_free(&diags);
	diags_init(&diags, STR("t"), str_of(text));
	filled = (struct filled){ .in.count = 5 };
	tree = yaml_parse(diags.text, &diags);
	assert_non_null(tree);
	return schema_read(rows, "a thing", yaml_root(tree), &filled, &diags);
}

static void refuse(const char *text, const char *says, const char *advice)
{
	assert_false(read(text));
	assert_int_equal(diags.errors, 1);
	assert_string_equal(diags.items[0].text, says);
	if (advice)
		assert_string_equal(diags.items[0].advice, advice);
	else
		assert_null(diags.items[0].advice);
}

static int teardown(void **state)
{
	(void)state;
	yaml_release(tree);
	diags_free(&diags);
	return 0;
}

static void every_type_fills_its_field(void **state)
{
	(void)state;
	assert_true(read("{name: n, mode: slow, group: {flag: false, wait: 1h, size: 10MiB, count: 9},"
			 " texts: [a, b], list: [{}], map: {a: b}}"));
	assert_true(str_eq(filled.name, STR("n")));
	assert_int_equal(filled.mode, 0);
	assert_false(filled.in.flag);
	assert_int_equal(filled.in.wait, 3600000);
	assert_int_equal(filled.in.size, 10 << 20);
	assert_int_equal(filled.in.count, 9);
	assert_int_equal(schema_count(filled.texts), 2);
	assert_int_equal(schema_count(filled.list), 1);
	assert_non_null(schema_key(filled.map, "a"));
	assert_null(schema_key(filled.map, "b"));
}

static void defaults_are_written_as_values_are(void **state)
{
	(void)state;
	assert_true(read("name: n"));
	assert_int_equal(filled.mode, 1);
	assert_true(filled.in.flag);
	assert_int_equal(filled.in.wait, 2000);
	assert_int_equal(filled.in.size, 65536);
	assert_int_equal(filled.in.count, 5);
	assert_null(filled.texts);
}

static void keys_are_known_or_errors(void **state)
{
	(void)state;
	refuse("{name: n, txets: [a]}", "unknown key \"txets\" in a thing",
	       "did you mean \"texts\"?");
	refuse("{name: n, zebra: 1}", "unknown key \"zebra\" in a thing", NULL);
	/* no advice to write what would be refused again */
	refuse("{name: n, wing: 1}", "unknown key \"wing\" in a thing", NULL);
	refuse("{name: n, group: {flags: true}}", "unknown key \"flags\" in group",
	       "did you mean \"flag\"?");
	refuse("mode: fast", "\"name\" is missing in a thing", "who it is");
}

static void what_is_not_there_yet_says_so(void **state)
{
	(void)state;
	refuse("{name: n, wings: 2}", "this version does not have \"wings\" in a thing", "walk");
	refuse("{name: n, mode: warp}", "this version does not have \"mode: warp\"",
	       "it is slow or fast");
	refuse("{name: n, mode: war}", "\"mode\" cannot be \"war\"", "it is slow or fast");
}

static void types_are_not_bent(void **state)
{
	(void)state;
	refuse("[a]", "a thing: a map of keys is wanted, not a list", NULL);
	refuse("{name: [n]}", "\"name\" is text, not a list", NULL);
	refuse("{name: n, texts: a}", "\"texts\" is a list", "write texts: [a]");
	refuse("{name: n, texts: }", "\"texts\" is a list, not nothing",
	       "each item of a list stands behind a \"- \", or all stand in [ ]");
	refuse("{name: n, texts: [a, [b]]}", "an item of \"texts\" is text, not a list", NULL);
	refuse("{name: n, map: [a]}", "\"map\" is a map, not a list", NULL);
	refuse("{name: n, group: a}", "\"group\" is a map, not text", NULL);
	refuse("{name: n, group: {flag: yes}}", "\"flag\" is true or false, not \"yes\"", NULL);
	refuse("{name: n, group: {count: 0x1}}", "\"count\" is a number, not \"0x1\"", NULL);
	refuse("{name: }", "\"name\" has no value", NULL);
}

static void empty_lists_are_errors(void **state)
{
	(void)state;
	refuse("{name: n, texts: []}", "\"texts\" is an empty list",
	       "leave the key out, or write what it is to hold");
	assert_null(filled.texts);
}

static void ranges_are_told_as_they_are_written(void **state)
{
	(void)state;
	refuse("{name: n, group: {wait: 2h}}", "\"wait\" must be from 1s to 1h", NULL);
	assert_int_equal(filled.in.wait, 2000);
	refuse("{name: n, group: {wait: 999ms}}", "\"wait\" must be from 1s to 1h", NULL);
	refuse("{name: n, group: {count: 10}}", "\"count\" must be from 1 to 9", NULL);
	refuse("{name: n, group: {size: 4GiB}}", "\"size\" must be from 0 to 1GiB", NULL);
	refuse("{name: longerthan8}", "\"name\" is longer than 8 bytes", NULL);
	refuse("{name: '!x'}", "\"name\": starts with an exclamation", NULL);
}

static void lists_and_maps_hold_so_many_items(void **state)
{
	(void)state;
	refuse("{name: n, texts: [a, b, c, d]}", "\"texts\" has more than 3 items", NULL);
	assert_null(filled.texts);
	refuse("{name: n, map: {a: 1, b: 2, c: 3}}", "\"map\" has more than 2 items", NULL);
	assert_null(filled.map);
	assert_true(read("{name: n, texts: [a, b, c], map: {a: 1, b: 2}}"));
}

static void all_errors_are_told_at_once(void **state)
{
	(void)state;
	assert_false(read("{mode: x, group: {wait: 1, count: 0}, zebra: 1}"));
	assert_int_equal(diags.errors, 5);
}

static void truth_has_two_words(void **state)
{
	bool b = false;

	(void)state;
	assert_true(schema_parse_bool(STR("true"), &b) && b);
	assert_false(schema_parse_bool(STR("True"), &b));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_type_fills_its_field),
		cmocka_unit_test(defaults_are_written_as_values_are),
		cmocka_unit_test(keys_are_known_or_errors),
		cmocka_unit_test(what_is_not_there_yet_says_so),
		cmocka_unit_test(types_are_not_bent),
		cmocka_unit_test(empty_lists_are_errors),
		cmocka_unit_test(ranges_are_told_as_they_are_written),
		cmocka_unit_test(lists_and_maps_hold_so_many_items),
		cmocka_unit_test(all_errors_are_told_at_once),
		cmocka_unit_test(truth_has_two_words),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}
