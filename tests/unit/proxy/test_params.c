#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "proxy/params.h"

static struct params p;

static int setup(void **state)
{
	(void)state;
	p = (struct params){ 0 };
	params_add(&p, "method", 8);
	params_add(&p, "url", 64);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	params_free(&p);
	return 0;
}

static const char *form(const char *text)
{
	params_free(&p);
	setup(NULL);
	return params_read_form(&p, str_of(text));
}

static const char *json(const char *text)
{
	params_free(&p);
	setup(NULL);
	return params_read_json(&p, str_of(text));
}

#define assert_value(name, text)                                                                  \
	do {                                                                                      \
		struct str got_ = params_get(&p, name);                                           \
		if (!str_eq(got_, str_of(text)))                                                  \
			fail_msg("%s is \"%.*s\"", name, STR_ARG(got_));                          \
	} while (0)

static void a_form_is_decoded(void **state)
{
	(void)state;
	assert_null(form("method=GET&url=https%3A%2F%2Fx.test%2fa%3Fb%3D1%26c+d=e"));
	assert_value("method", "GET");
	assert_value("url", "https://x.test/a?b=1&c d=e");
	assert_null(form("%75rl=%C3%BC"));
	assert_value("url", "\xc3\xbc");
	assert_false(p.v[0].given);
	assert_value("method", "");
	assert_null(form(""));
	assert_null(form("url="));
	assert_true(p.v[1].given);
}

static void json_is_decoded(void **state)
{
	(void)state;
	assert_null(json(" { \"url\" : \"https:\\/\\/x.test/\\u00fc\\ud83d\\ude00\\\"\\\\\" ,\"method\":\"GET\" }\n"));
	assert_value("url", "https://x.test/\xc3\xbc\xf0\x9f\x98\x80\"\\");
	assert_value("method", "GET");
	assert_null(json("{}"));
	assert_null(json("{\"u\\u0072l\":\"\\u20ac\"}"));
	assert_value("url", "\xe2\x82\xac");
}

static void what_is_no_form_is_refused(void **state)
{
	static const char *const texts[] = {
		"method", "=GET", "&method=GET", "method=GET&", "method=GET&&url=x", "method=%", "method=%4",
		"method=%4x", "%4=GET", "method=GET&method=GET", "other=x", "METHOD=GET", "url=a%00b",
		"url=a%0ab", "url=%ff", "url=%c0%80", "url=%ed%a0%80", "url=%7f", "url=%c2%85", "method=123456789",
		"method=GET;url=x&x", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa=1", "method\x01=x",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		if (!form(texts[i]))
			fail_msg("is read: %s", texts[i]);
}

static void what_is_no_flat_object_of_texts_is_refused(void **state)
{
	static const char *const texts[] = {
		"", "null", "[]", "{", "}", "{\"url\"}", "{\"url\":}", "{\"url\":1}", "{\"url\":null}", "{\"url\":true}",
		"{\"url\":{}}", "{\"url\":[\"a\"]}", "{\"url\":\"a\",}", "{,}", "{\"url\":\"a\"}x", "{\"url\":\"a\"}{}",
		"{\"url\":\"a\" \"method\":\"b\"}", "{'url':'a'}", "{url:\"a\"}", "{\"url\":\"a}", "{\"url\":\"\\x\"}",
		"{\"url\":\"\\u12\"}", "{\"url\":\"\\u12x4\"}", "{\"url\":\"\\ud800\"}", "{\"url\":\"\\udc00\"}",
		"{\"url\":\"\\ud800\\u0041\"}", "{\"url\":\"\\ud800x\"}", "{\"url\":\"a\nb\"}", "{\"url\":\"a\\nb\"}",
		"{\"url\":\"\\u0000\"}", "{\"url\":\"\xff\"}", "{\"url\":\"a\",\"url\":\"b\"}", "{\"other\":\"a\"}",
		"{\"url\":\"\\", "{\"url\":\"\\u", "{\"method\":\"123456789\"}", "\xef\xbb\xbf{}",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		if (!json(texts[i]))
			fail_msg("is read: %s", texts[i]);
}

static void what_is_wrong_is_told_with_its_name(void **state)
{
	(void)state;
	assert_string_equal(form("method=GET&url=%"), "has a % that no two hex digits follow");
	assert_string_equal(p.wrong, "url");
	assert_string_equal(form("url=1&url=2"), "is given twice");
	assert_string_equal(p.wrong, "url");
	assert_string_equal(json("{\"method\":\"123456789\"}"), "is too long");
	assert_string_equal(p.wrong, "method");
	assert_non_null(form("x=1"));
	assert_null(p.wrong);
	assert_null(form("url=1"));
	assert_null(p.wrong);
}

static void a_value_may_be_as_long_as_its_limit(void **state)
{
	(void)state;
	assert_null(form("method=12345678"));
	assert_value("method", "12345678");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(a_form_is_decoded),
		CASE(json_is_decoded),
		CASE(what_is_no_form_is_refused),
		CASE(what_is_no_flat_object_of_texts_is_refused),
		CASE(what_is_wrong_is_told_with_its_name),
		CASE(a_value_may_be_as_long_as_its_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
