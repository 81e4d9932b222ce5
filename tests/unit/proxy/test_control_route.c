#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proxy/control_route.h"

static const struct control_route routes[] = {
	{ .method = "GET", .pattern = "/v1/boxes" },
	{ .method = "POST", .pattern = "/v1/boxes" },
	{ .method = "GET", .pattern = "/v1/boxes/{name}" },
	{ .method = "DELETE", .pattern = "/v1/boxes/{name}" },
	{ .method = "POST", .pattern = "/v1/boxes/{name}/ports/{port}" },
	{ 0 },
};

static struct arena arena;
static struct buf allow;
static struct control_values values;
static const struct control_route *route;

static int setup(void **state)
{
	(void)state;
	buf_init(&allow, 64);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	buf_free(&allow);
	arena_free(&arena);
	return 0;
}

static enum control_found find(const char *method, const char *path)
{
	values.n = 0;
	allow.n = 0;
	route = NULL;
	return control_route_find(routes, str_of(method), str_of(path), &arena, &route, &values, &allow);
}

static void a_path_and_a_method_name_a_row(void **state)
{
	(void)state;
	assert_int_equal(find("POST", "/v1/boxes"), CONTROL_FOUND);
	assert_ptr_equal(route, &routes[1]);
	assert_int_equal(values.n, 0);
	assert_int_equal(find("DELETE", "/v1/boxes/a"), CONTROL_FOUND);
	assert_ptr_equal(route, &routes[3]);
}

static void segments_in_braces_take_values(void **state)
{
	(void)state;
	assert_int_equal(find("POST", "/v1/boxes/my%20b%c3%b6x/ports/80"), CONTROL_FOUND);
	assert_int_equal(values.n, 2);
	assert_true(str_eq(values.items[0].name, STR("name")));
	assert_true(str_eq(values.items[0].value, STR("my b\xc3\xb6x")));
	assert_true(str_eq(values.items[1].name, STR("port")));
	assert_true(str_eq(values.items[1].value, STR("80")));
	assert_int_equal(find("GET", "/v1/boxes/a%2Fb"), CONTROL_FOUND);
	assert_true(str_eq(values.items[0].value, STR("a/b")));
}

static void nothing_else_is_a_path(void **state)
{
	static const char *const wrong[] = { "/", "", "/v1", "/v1/boxes/", "/v1//boxes", "/v1/boxes/a/",
					     "/v1/boxes//ports/1", "/v1/boxes/a/ports", "/V1/boxes",
					     "/v1/%62oxes", "/v1/./boxes", "v1/boxes" };

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(find("GET", wrong[i]), CONTROL_NO_PATH);
}

static void another_method_says_which_there_are(void **state)
{
	(void)state;
	assert_int_equal(find("PUT", "/v1/boxes"), CONTROL_NO_METHOD);
	assert_true(str_eq(buf_str(&allow), STR("GET, POST")));
	assert_int_equal(find("get", "/v1/boxes/a"), CONTROL_NO_METHOD);
	assert_true(str_eq(buf_str(&allow), STR("GET, DELETE")));
}

static void broken_escapes_are_refused(void **state)
{
	static const char *const wrong[] = { "/v1/boxes/%", "/v1/boxes/%4", "/v1/boxes/%zz", "/v1/boxes/%00",
					     "/v1/boxes/%0a", "/v1/boxes/%7f", "/v1/boxes/%ff",
					     "/v1/boxes/%c0%af" };

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(find("GET", wrong[i]), CONTROL_BAD_TARGET);
}

static bool split(const char *query)
{
	const char *why = NULL;

	values.n = 0;
	return control_query_split(str_of(query), &arena, &values, &why);
}

static void a_query_is_names_and_values(void **state)
{
	(void)state;
	assert_true(split("wait=true&text=a%26b%3Dc&empty=&bare"));
	assert_int_equal(values.n, 4);
	assert_true(str_eq(values.items[1].value, STR("a&b=c")));
	assert_int_equal(values.items[2].value.n, 0);
	assert_int_equal(values.items[3].value.n, 0);
	assert_true(split("plus=a+b"));
	assert_true(str_eq(values.items[0].value, STR("a+b")));
	assert_true(split(""));
	assert_int_equal(values.n, 0);
}

static void a_query_that_can_be_read_in_two_ways_is_refused(void **state)
{
	(void)state;
	assert_false(split("a=1&a=2"));
	assert_false(split("a=1&%61=2"));
	assert_false(split("=1"));
	assert_false(split("&a=1"));
	assert_false(split("a=%"));
}

static void a_query_has_a_limited_number_of_parameters(void **state)
{
	(void)state;
	assert_true(split("a&b&c&d&e&f&g&h"));
	assert_int_equal(values.n, CONTROL_VALUES_MAX);
	assert_false(split("a&b&c&d&e&f&g&h&i"));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(a_path_and_a_method_name_a_row),
		CASE(segments_in_braces_take_values),
		CASE(nothing_else_is_a_path),
		CASE(another_method_says_which_there_are),
		CASE(broken_escapes_are_refused),
		CASE(a_query_is_names_and_values),
		CASE(a_query_that_can_be_read_in_two_ways_is_refused),
		CASE(a_query_has_a_limited_number_of_parameters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
