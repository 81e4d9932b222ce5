#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "conf/json.h"

static struct buf out;

static struct json begin(void)
{
	struct json j;

	buf_free(&out);
	buf_init(&out, 65536);
	json_init(&j, &out);
	return j;
}

static void must_be(const char *text)
{
	assert_false(out.failed);
	assert_true(str_eq(buf_str(&out), str_of(text)));
}

static int free_out(void **state)
{
	(void)state;
	buf_free(&out);
	return 0;
}

static void commas_stand_where_they_belong(void **state)
{
	struct json j = begin();

	(void)state;
	json_object(&j);
	json_put_str(&j, "a", STR("x"));
	json_put_u64(&j, "b", UINT64_MAX);
	json_put_bool(&j, "c", true);
	json_key(&j, "d");
	json_array(&j);
	json_u64(&j, 1);
	json_bool(&j, false);
	json_object(&j);
	json_object_end(&j);
	json_array(&j);
	json_array_end(&j);
	json_array_end(&j);
	json_key(&j, "e");
	json_object(&j);
	json_put_u64(&j, "f", 1);
	json_object_end(&j);
	json_object_end(&j);
	must_be("{\"a\":\"x\",\"b\":18446744073709551615,\"c\":true,\"d\":[1,false,{},[]],\"e\":{\"f\":1}}");
}

static void texts_are_escaped(void **state)
{
	struct json j = begin();

	(void)state;
	json_str(&j, STR("\"\\/\b\n\x1b\x7f\0z"));
	must_be("\"\\\"\\\\/\\u0008\\u000a\\u001b\\u007f\\u0000z\"");
}

static void c1_controls_are_escaped_and_their_neighbours_are_not(void **state)
{
	struct json j = begin();

	(void)state;
	json_str(&j, STR("\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0\xc3\xa4"));
	must_be("\"\\u0080\\u009b\\u009f\xc2\xa0\xc3\xa4\"");
}

static void keys_are_escaped_too(void **state)
{
	struct json j = begin();

	(void)state;
	json_object(&j);
	json_put_u64(&j, "a\"b", 1);
	json_object_end(&j);
	must_be("{\"a\\\"b\":1}");
}

static void valid_utf8_stays_and_the_rest_is_replaced(void **state)
{
	static const struct {
		const char *in, *text;
	} cases[] = {
		{ "\xc3\xa4", "\"\xc3\xa4\"" },
		{ "\xe2\x82\xac", "\"\xe2\x82\xac\"" },
		{ "\xf0\x9f\x99\x82", "\"\xf0\x9f\x99\x82\"" },
		{ "\xef\xbf\xbf", "\"\xef\xbf\xbf\"" },
		{ "\xf4\x8f\xbf\xbf", "\"\xf4\x8f\xbf\xbf\"" },
		{ "\xff", "\"\xef\xbf\xbd\"" },
		{ "\xc3", "\"\xef\xbf\xbd\"" },
		{ "\xc3(", "\"\xef\xbf\xbd(\"" },
		{ "\xc0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\"" },
		{ "\xe0\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
		{ "\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
		{ "\xf4\x90\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
		{ "\xf0\x80\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
		{ "\xe2\x82", "\"\xef\xbf\xbd\xef\xbf\xbd\"" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct json j = begin();

		json_str(&j, str_of(cases[i].in));
		must_be(cases[i].text);
	}
}

/* Whatever two bytes stand in a text: another implementation reads the line, and it is one line. */
static void any_two_bytes_make_json_that_others_read(void **state)
{
	(void)state;
	for (unsigned a = 0; a < 256; a++)
		for (unsigned b = 0; b < 256; b++) {
			char text[2] = { (char)a, (char)b };
			struct json j = begin();
			json_t *read;

			json_array(&j);
			json_str(&j, str_n(text, 2));
			json_array_end(&j);
			assert_int_equal(str_find(buf_str(&out), '\n'), out.n);
			read = json_loadb(out.p, out.n, JSON_ALLOW_NUL, NULL);
			assert_non_null(read);
			if (a < 0x80 && b < 0x80) {
				assert_int_equal(json_string_length(json_array_get(read, 0)), 2);
				assert_memory_equal(json_string_value(json_array_get(read, 0)), text, 2);
			}
			json_decref(read);
		}
}

static void an_empty_text_is_a_text(void **state)
{
	struct json j = begin();

	(void)state;
	json_str(&j, STR_NONE);
	must_be("\"\"");
}

static void a_full_buffer_is_told_by_the_buffer(void **state)
{
	struct buf small;
	struct json j;

	(void)state;
	buf_init(&small, 5);
	json_init(&j, &small);
	json_str(&j, STR("more than five"));
	assert_true(small.failed);
	buf_free(&small);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(commas_stand_where_they_belong),
		cmocka_unit_test(texts_are_escaped),
		cmocka_unit_test(c1_controls_are_escaped_and_their_neighbours_are_not),
		cmocka_unit_test(keys_are_escaped_too),
		cmocka_unit_test(valid_utf8_stays_and_the_rest_is_replaced),
		cmocka_unit_test(any_two_bytes_make_json_that_others_read),
		cmocka_unit_test(an_empty_text_is_a_text),
		cmocka_unit_test(a_full_buffer_is_told_by_the_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, free_out);
}
