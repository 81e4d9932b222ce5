#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <jansson.h>

#include "proxy/control_fields.h"

struct args {
	struct str text, only, path;
	uint64_t number, count;
	bool flag, ask;
	struct control_texts words;
};

static const char *no_spaces(struct str s)
{
	return str_find(s, ' ') < s.n ? "has a space in it" : NULL;
}

#define AT(member) .offset = offsetof(struct args, member)

static const struct control_field table[] = {
	{ .name = "name", .from = CONTROL_PATH, .type = CONTROL_TEXT, AT(path), .required = true, .min = 1,
	  .max = 8, .check = no_spaces, .help = "a name" },
	{ .name = "count", .from = CONTROL_QUERY, .type = CONTROL_NUMBER, AT(count), .min = 1, .max = 10,
	  .help = "how many" },
	{ .name = "ask", .from = CONTROL_QUERY, .type = CONTROL_BOOL, AT(ask), .help = "whether to" },
	{ .name = "text", .from = CONTROL_BODY, .type = CONTROL_TEXT, AT(text), .required = true, .min = 2,
	  .max = 4, .check = no_spaces, .help = "a text" },
	{ .name = "only", .from = CONTROL_BODY, .type = CONTROL_TEXT, AT(only), .root_only = true, .max = 4,
	  .help = "root's text" },
	{ .name = "number", .from = CONTROL_BODY, .type = CONTROL_NUMBER, AT(number), .max = 7,
	  .help = "a number" },
	{ .name = "flag", .from = CONTROL_BODY, .type = CONTROL_BOOL, AT(flag), .help = "a choice" },
	{ .name = "words", .from = CONTROL_BODY, .type = CONTROL_TEXTS, AT(words), .min = 1, .max = 2,
	  .help = "words" },
	{ 0 },
};

static struct args got;
static struct control_errors errors;
static struct arena arena;
static json_t *body;

static void put(struct control_values *v, const char *name, const char *value)
{
	v->items[v->n].name = str_of(name);
	v->items[v->n++].value = str_of(value);
}

/* @query: "name", "value", ..., NULL. */
static void take(bool root, const char *json, const char *const *query)
{
	struct control_values path = { 0 }, asked = { 0 };
	struct control_given given = { .path = &path, .query = &asked, .root = root };
	char why[CONTROL_WHY_MAX];

	json_decref(body);
	body = NULL;
	arena_free(&arena);
	memset(&got, 0, sizeof(got));
	memset(&errors, 0, sizeof(errors));
	put(&path, "name", "dev");
	for (; query && *query; query += 2)
		put(&asked, query[0], query[1]);
	if (json)
		assert_true(control_body_parse(str_of(json), &body, why));
	given.body = body;
	control_fields_read(table, &given, &arena, &got, &errors);
}

static int teardown(void **state)
{
	(void)state;
	json_decref(body);
	body = NULL;
	arena_free(&arena);
	return 0;
}

static void expect_error(const char *at, const char *text)
{
	for (size_t i = 0; i < errors.n; i++)
		if (strcmp(errors.items[i].at, at) == 0 && strstr(errors.items[i].text, text))
			return;
	fail_msg("no error at %s that says \"%s\"", at, text);
}

static void every_type_is_read_from_where_it_stands(void **state)
{
	const char *const query[] = { "count", "10", "ask", "true", NULL };

	(void)state;
	take(true, "{\"text\":\"abc\",\"only\":\"x\",\"number\":7,\"flag\":true,\"words\":[\"\",\"b c\"]}", query);
	assert_int_equal(errors.n, 0);
	assert_true(str_eq(got.path, STR("dev")) && str_eq(got.text, STR("abc")));
	assert_true(str_eq(got.only, STR("x")));
	assert_int_equal(got.number, 7);
	assert_int_equal(got.count, 10);
	assert_true(got.flag && got.ask);
	assert_int_equal(got.words.n, 2);
	assert_int_equal(got.words.items[0].n, 0);
	assert_true(str_eq(got.words.items[1], STR("b c")));
}

static void what_is_not_given_stays_zero_unless_it_is_required(void **state)
{
	(void)state;
	take(true, "{\"text\":\"ab\"}", NULL);
	assert_int_equal(errors.n, 0);
	assert_int_equal(got.number + got.count + got.flag + got.words.n, 0);
	take(true, NULL, NULL);
	assert_int_equal(errors.n, 1);
	expect_error("#/text", "is missing: a text");
}

static void wrong_types_are_errors(void **state)
{
	(void)state;
	take(true, "{\"text\":1,\"number\":\"7\",\"flag\":0,\"words\":\"a\"}", NULL);
	assert_int_equal(errors.n, 4);
	expect_error("#/text", "is no text");
	expect_error("#/number", "is no whole number from 0 to 7");
	expect_error("#/flag", "is neither true nor false");
	expect_error("#/words", "is no list of texts");
	take(true, "{\"text\":null,\"number\":1.5,\"flag\":null,\"words\":[1]}", NULL);
	assert_int_equal(errors.n, 4);
	take(true, "{\"text\":\"ab\",\"number\":-1,\"words\":{\"0\":\"a\"}}", NULL);
	assert_int_equal(errors.n, 2);
}

static void ranges_hold_at_both_ends(void **state)
{
	const char *const query[] = { "count", "0", NULL }, *const high[] = { "count", "11", NULL },
		   *const odd[] = { "count", "+1", "ask", "yes", NULL };

	(void)state;
	take(true, "{\"text\":\"a\",\"number\":8,\"words\":[]}", query);
	assert_int_equal(errors.n, 4);
	expect_error("#/text", "has 1 bytes, and may have 2 to 4");
	expect_error("#/words", "has 0 texts, and may have 1 to 2");
	expect_error("?count", "from 1 to 10");
	take(true, "{\"text\":\"abcde\",\"words\":[\"\",\"\",\"\"]}", high);
	assert_int_equal(errors.n, 3);
	take(true, "{\"text\":\"ab\"}", odd);
	assert_int_equal(errors.n, 2);
	expect_error("?ask", "is neither true nor false");
}

static void a_check_says_what_is_wrong(void **state)
{
	(void)state;
	take(true, "{\"text\":\"a b\"}", NULL);
	assert_int_equal(errors.n, 1);
	expect_error("#/text", "has a space in it");
	assert_int_equal(got.text.n, 0);
}

static void what_no_row_names_is_an_error_with_what_was_meant(void **state)
{
	const char *const query[] = { "cuont", "1", "text", "x", NULL };

	(void)state;
	take(true, "{\"text\":\"ab\",\"txt\":1,\"a/b~c\":1}", query);
	assert_int_equal(errors.n, 4);
	expect_error("#/txt", "did you mean \"text\"?");
	expect_error("#/a~1b~0c", "leave it out");
	expect_error("?cuont", "did you mean \"count\"?");
	expect_error("?text", "is not known here");
}

static void what_is_roots_is_denied_to_others_and_said_first(void **state)
{
	(void)state;
	take(false, "{\"txt\":1,\"only\":\"x\"}", NULL);
	assert_true(errors.denied);
	assert_string_equal(errors.items[0].at, "#/only");
	assert_string_equal(errors.items[0].text, "may be given by root alone: root's text");
	assert_int_equal(got.only.n, 0);
	take(false, "{\"text\":\"ab\"}", NULL);
	assert_false(errors.denied);
	assert_int_equal(errors.n, 0);
}

static void errors_over_the_limit_are_counted(void **state)
{
	char json[1024] = "{\"text\":\"ab\"";
	size_t n = strlen(json);

	(void)state;
	for (unsigned i = 0; i < CONTROL_ERRORS_MAX + 3; i++)
		n += (size_t)snprintf(json + n, sizeof(json) - n, ",\"unknown%u\":1", i);
	snprintf(json + n, sizeof(json) - n, "}");
	take(true, json, NULL);
	assert_int_equal(errors.n, CONTROL_ERRORS_MAX);
	assert_int_equal(errors.dropped, 3);
}

static void a_long_name_is_cut_in_its_error(void **state)
{
	char json[600];

	(void)state;
	snprintf(json, sizeof(json), "{\"text\":\"ab\",\"%0*d\":1}", 500, 0);
	take(true, json, NULL);
	assert_int_equal(errors.n, 1);
	assert_true(strlen(errors.items[0].at) < sizeof(errors.items[0].at));
}

static bool parses(const char *text)
{
	char why[CONTROL_WHY_MAX] = "";
	json_t *j;
	bool ok = control_body_parse(str_of(text), &j, why);

	assert_int_equal(ok, why[0] == '\0');
	json_decref(j);
	return ok;
}

static void a_body_is_one_object(void **state)
{
	(void)state;
	assert_true(parses("{}"));
	assert_true(parses(" {\"a\": {\"b\": []}} \n"));
	assert_false(parses(""));
	assert_false(parses("[]"));
	assert_false(parses("1"));
	assert_false(parses("{} {}"));
	assert_false(parses("{\"a\":1,}"));
	assert_false(parses("{\"a\":1,\"a\":2}"));
	assert_false(parses("{\"a\":99999999999999999999}"));
	assert_false(parses("{\"a\":NaN}"));
}

static void a_body_is_not_too_deep(void **state)
{
	(void)state;
	assert_true(parses("{\"a\":[[[[[[[]]]]]]]}"));
	assert_false(parses("{\"a\":[[[[[[[[]]]]]]]]}"));
	assert_true(parses("{\"[[[[[[[[[[\":\"{{{{{{{{{{\\\"[[[[[[[[[[\"}"));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_teardown(name, teardown)
	const struct CMUnitTest tests[] = {
		CASE(every_type_is_read_from_where_it_stands),
		CASE(what_is_not_given_stays_zero_unless_it_is_required),
		CASE(wrong_types_are_errors),
		CASE(ranges_hold_at_both_ends),
		CASE(a_check_says_what_is_wrong),
		CASE(what_no_row_names_is_an_error_with_what_was_meant),
		CASE(what_is_roots_is_denied_to_others_and_said_first),
		CASE(errors_over_the_limit_are_counted),
		CASE(a_long_name_is_cut_in_its_error),
		CASE(a_body_is_one_object),
		CASE(a_body_is_not_too_deep),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
