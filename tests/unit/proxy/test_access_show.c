#include "tests/unit/proxy/access_rig.h"

#include "proxy/access_show.h"

static char told[65536];

static const char *show(const struct access *a, bool closed)
{
	struct buf out;
	struct json j;

	buf_init(&out, sizeof(told) - 1);
	json_init(&j, &out);
	if (a)
		access_show_one(a, NULL, &j);
	else
		access_show_list(table, closed, &j);
	assert_false(out.failed);
	snprintf(told, sizeof(told), "%.*s", STR_ARG(buf_str(&out)));
	buf_free(&out);
	return told;
}

static void open_ones_are_listed_and_closed_ones_where_asked_for(void **state)
{
	(void)state;
	assert_string_equal(show(NULL, true), "[]");
	assert_int_equal(ask_at("dev", "GET", "https://a.test/", NOW), 1);
	assert_int_equal(ask_at("dev", "PUT", "https://b.test/", NOW), 2);
	assert_int_equal(access_table_close(table, world.ring, 1, STR("no"), NOW), OK);
	assert_non_null(strstr(show(NULL, false),
			       "[{\"number\":2,\"state\":\"open\",\"asked\":\"2026-11-30T00:53:20.000000Z\","
			       "\"sandbox\":\"dev\",\"method\":\"PUT\",\"url\":\"https://b.test/\"}]"));
	assert_non_null(strstr(show(NULL, true), "{\"number\":1,\"state\":\"closed\""));
	assert_non_null(strstr(told, "{\"number\":2,\"state\":\"open\""));
}

static void one_is_shown_with_reason_note_and_rule(void **state)
{
	(void)state;
	assert_int_equal(ask_at("dev", "GET", "https://a.test/x", NOW), 1);
	assert_non_null(strstr(show(access_table_find(table, 1), false), "\"reason\":\"to build it\",\"rule\":\"  # request 1 of"));
	assert_non_null(strstr(told, "hosts: [\\\"a.test\\\"]\\u000a"));
	assert_null(strstr(told, "\"note\""));
	assert_int_equal(access_table_close(table, world.ring, 1, STR("no"), NOW + 1000000), OK);
	assert_non_null(strstr(show(access_table_find(table, 1), false),
			       "\"closed\":\"2026-11-30T00:53:21.000000Z\",\"note\":\"no\""));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, access_setup, access_teardown)
	const struct CMUnitTest tests[] = {
		CASE(open_ones_are_listed_and_closed_ones_where_asked_for),
		CASE(one_is_shown_with_reason_note_and_rule),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
