#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proxy/foreign.h"

static struct fields f;
static struct buf out;

static int setup(void **state)
{
	(void)state;
	fields_init(&f, 4096);
	buf_init(&out, 4096);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fields_free(&f);
	buf_free(&out);
	return 0;
}

static void check_query(const char *query, const char *left, const char *found_name)
{
	struct foreign_found found;

	out.n = 0;
	foreign_find(&f, str_of(query), &found);
	if (found_name) {
		assert_int_equal(found.n, 1);
		assert_string_equal(found.names[0], found_name);
	} else {
		assert_int_equal(found.n, 0);
	}
	foreign_strip(&f, str_of(query), &out);
	assert_true(str_eq(buf_str(&out), str_of(left)));
}

static void query_without_credentials_stays_as_it_is(void **state)
{
	(void)state;
	check_query("", "", NULL);
	check_query("?a=1&b=2", "?a=1&b=2", NULL);
	check_query("?monkey=1&tokens=2&accesstoken", "?monkey=1&tokens=2&accesstoken", NULL);
	check_query("?a=access_token", "?a=access_token", NULL);
}

static void query_keys_are_taken_off_wherever_they_stand(void **state)
{
	(void)state;
	check_query("?access_token=x", "", "access_token");
	check_query("?access_token=x&a=1", "?a=1", "access_token");
	check_query("?a=1&access_token=x", "?a=1", "access_token");
	check_query("?a=1&access_token=x&b=2", "?a=1&b=2", "access_token");
	check_query("?a=1;access_token=x;b=2", "?a=1;b=2", "access_token");
}

static void query_keys_are_known_in_any_case_and_escape(void **state)
{
	(void)state;
	check_query("?X-AMZ-SIGNATURE=x", "", "x-amz-signature");
	check_query("?a%63cess_token=x&z", "?z", "access_token");
	check_query("?access%5Ftoken=x", "", "access_token");
	check_query("?sig=a%3D&sv=1", "?sv=1", "sig");
	check_query("?access_token%", "?access_token%", NULL);
}

static void presigned_url_loses_all_that_signs_it(void **state)
{
	struct foreign_found found;
	struct str q = STR("?X-Amz-Algorithm=A&X-Amz-Credential=b&X-Amz-Security-Token=c&X-Amz-Signature=d");

	(void)state;
	foreign_find(&f, q, &found);
	assert_int_equal(found.n, 3);
	foreign_strip(&f, q, &out);
	assert_true(str_eq(buf_str(&out), STR("?X-Amz-Algorithm=A")));
}

static void fields_that_bear_credentials_are_taken_off(void **state)
{
	struct foreign_found found;

	(void)state;
	fields_add(&f, STR("Accept"), STR("*/*"));
	fields_add(&f, STR("AUTHORIZATION"), STR("Bearer mine"));
	fields_add(&f, STR("Cookie"), STR("a=b"));
	fields_add(&f, STR("X-Api-Key"), STR("k"));
	fields_add(&f, STR("Cookie"), STR("c=d"));
	foreign_find(&f, STR_NONE, &found);
	assert_int_equal(found.n, 3);
	foreign_strip(&f, STR_NONE, &out);
	assert_int_equal(f.n, 1);
	assert_true(str_eq(fields_name(&f, 0), STR("Accept")));
	assert_int_equal(out.n, 0);
}

static void names_past_the_limit_are_counted_and_taken_off(void **state)
{
	static const char *const names[] = { "authorization", "cookie", "x-api-key", "api-key", "apikey", "x-apikey",
					     "x-auth-token", "x-auth-key", "x-access-token", "private-token" };
	struct foreign_found found;

	(void)state;
	for (size_t i = 0; i < 10; i++)
		fields_add(&f, str_of(names[i]), STR("v"));
	foreign_find(&f, STR_NONE, &found);
	assert_int_equal(found.n, 10);
	foreign_strip(&f, STR_NONE, &out);
	assert_int_equal(f.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(query_without_credentials_stays_as_it_is, setup, teardown),
		cmocka_unit_test_setup_teardown(query_keys_are_taken_off_wherever_they_stand, setup, teardown),
		cmocka_unit_test_setup_teardown(query_keys_are_known_in_any_case_and_escape, setup, teardown),
		cmocka_unit_test_setup_teardown(presigned_url_loses_all_that_signs_it, setup, teardown),
		cmocka_unit_test_setup_teardown(fields_that_bear_credentials_are_taken_off, setup, teardown),
		cmocka_unit_test_setup_teardown(names_past_the_limit_are_counted_and_taken_off, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
