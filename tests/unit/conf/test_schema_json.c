#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "conf/schema_json.h"

static char made[4096];

static const char *schema(const struct schema_row *row)
{
	struct schema_row rows[] = { *row, { .type = SCHEMA_END } };
	struct buf out;

	buf_init(&out, sizeof(made) - 1);
	schema_json(rows, "a thing", &out);
	assert_false(out.failed);
	memcpy(made, out.p, out.n);
	made[out.n] = '\0';
	buf_free(&out);
	return made;
}

static void expect(const struct schema_row *row, const char *what)
{
	if (!strstr(schema(row), what))
		fail_msg("not there: %s\nis: %s", what, made);
}

static void a_table_is_an_object_with_no_other_keys(void **state)
{
	const struct schema_row row = { .key = "k", .type = SCHEMA_BOOL, .required = true,
					.initial = "true", .help = "why" };

	(void)state;
	assert_string_equal(schema(&row),
			    "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"title\":\"a thing\","
			    "\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"k\"],"
			    "\"properties\":{\"k\":{\"description\":\"why\",\"type\":\"boolean\",\"default\":true}}}\n");
}

static void each_type_has_its_form(void **state)
{
	static const char *const modes[] = { "slow", "2", NULL };

	(void)state;
	expect(&(struct schema_row){ .key = "k", .type = SCHEMA_TEXT, .max = 9, .pattern = "^/" },
	       "{\"type\":\"string\",\"minLength\":1,\"pattern\":\"^/\",\"maxLength\":9}");
	expect(&(struct schema_row){ .key = "k", .type = SCHEMA_NUMBER, .min = 1, .max = 9, .initial = "3" },
	       "{\"type\":\"integer\",\"minimum\":1,\"maximum\":9,\"default\":3}");
	expect(&(struct schema_row){ .key = "k", .type = SCHEMA_DURATION, .initial = "2s" },
	       "{\"type\":\"string\",\"pattern\":\"^[0-9]+(ms|s|m|h|d)$\",\"default\":\"2s\"}");
	expect(&(struct schema_row){ .key = "k", .type = SCHEMA_SIZE, .max = 1024 },
	       "{\"type\":[\"integer\",\"string\"],\"pattern\":\"^[0-9]+(KiB|MiB|GiB)?$\",\"minimum\":0,\"maximum\":1024}");
	expect(&(struct schema_row){ .key = "k", .type = SCHEMA_CHOICE, .choices = modes },
	       "{\"enum\":[\"slow\",\"2\",2]}");
	expect(&(struct schema_row){ .key = "k", .type = SCHEMA_TEXTS, .max = 8 },
	       "{\"type\":\"array\",\"minItems\":1,\"maxItems\":8,\"items\":{\"type\":\"string\"}}");
	expect(&(struct schema_row){ .key = "k", .type = SCHEMA_LIST }, "{\"type\":\"array\",\"minItems\":1}");
}

static void maps_say_what_each_value_is(void **state)
{
	static const struct schema_row inner[] = {
		{ .key = "a", .type = SCHEMA_TEXT, .required = true }, { .type = SCHEMA_END },
	};
	static const struct schema_row each = { .key = "NAME", .type = SCHEMA_GROUP, .rows = inner };

	(void)state;
	expect(&(struct schema_row){ .key = "k", .type = SCHEMA_MAP, .max = 5, .each = &each },
	       "{\"type\":\"object\",\"maxProperties\":5,\"additionalProperties\":{\"type\":\"object\","
	       "\"additionalProperties\":false,\"required\":[\"a\"],\"properties\":{\"a\":{");
}

static void keys_of_a_wider_language_are_left_out(void **state)
{
	(void)state;
	expect(&(struct schema_row){ .key = "k", .type = SCHEMA_LATER }, "\"properties\":{}}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_table_is_an_object_with_no_other_keys),
		cmocka_unit_test(each_type_has_its_form),
		cmocka_unit_test(maps_say_what_each_value_is),
		cmocka_unit_test(keys_of_a_wider_language_are_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
