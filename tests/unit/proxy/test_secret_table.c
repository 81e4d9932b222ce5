#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proxy/secret_table.h"

static enum err read_from(struct secret_table *t, struct msg_secret m, const char *text, mode_t mode,
			  const char **objection)
{
	int fd = memfd_create("secret", MFD_CLOEXEC);
	enum err e;

	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_int_equal(fchmod(fd, mode), 0);
	e = secret_table_read(t, &m, fd, objection);
	close(fd);
	return e;
}

#define HOSTS "api.test *.one.test **.deep.test 203.0.113.7"

static const struct msg_secret pat = { .name = { "pat", 3 }, .source = SECRET_FROM_ENV,
				       .hosts = { HOSTS, sizeof(HOSTS) - 1 } };

static void a_secret_is_found_by_its_name(void **state)
{
	struct secret_table *t = secret_table_new();
	const struct table_secret *s;
	const char *why;

	(void)state;
	assert_int_equal(read_from(t, pat, "s3cret-token\n", 0600, &why), OK);
	assert_null(why);
	s = secret_table_find(t, STR("pat"));
	assert_true(str_eq(secret_value(table_secret_value(s)), STR("s3cret-token")));
	assert_null(secret_table_find(t, STR("pa")));
	assert_null(secret_table_find(t, STR("pats")));
	assert_null(secret_table_find(t, STR("")));
	secret_table_free(t);
	secret_table_free(NULL);
}

static void a_secret_goes_to_the_hosts_of_the_settings_only(void **state)
{
	static const struct { const char *host; bool may; } cases[] = {
		{ "api.test", true }, { "a.api.test", false }, { "xapi.test", false }, { "test", false },
		{ "a.one.test", true }, { "one.test", false }, { "a.b.one.test", false }, { "xone.test", false },
		{ "a.deep.test", true }, { "a.b.deep.test", true }, { "deep.test", false }, { ".deep.test", false },
		{ "xdeep.test", false }, { "203.0.113.7", true }, { "203.0.113.70", false }, { "", false },
		{ "mine.test", false }, { "api.test *.one.test", false },
	};
	struct secret_table *t = secret_table_new();
	const struct table_secret *s;
	const char *why;

	(void)state;
	assert_int_equal(read_from(t, pat, "s3cret-token", 0600, &why), OK);
	s = secret_table_find(t, STR("pat"));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (table_secret_may_go_to(s, str_of(cases[i].host)) != cases[i].may)
			fail_msg("%s", cases[i].host);
	secret_table_free(t);
}

static void a_secret_without_hosts_goes_nowhere(void **state)
{
	struct secret_table *t = secret_table_new();
	struct msg_secret m = pat;
	const char *why;

	(void)state;
	m.hosts = STR("");
	assert_int_equal(read_from(t, m, "s3cret-token", 0600, &why), OK);
	assert_false(table_secret_may_go_to(secret_table_find(t, STR("pat")), STR("api.test")));
	m.name = STR("spaces");
	m.hosts = STR("  ");
	assert_int_equal(read_from(t, m, "s3cret-token", 0600, &why), OK);
	assert_false(table_secret_may_go_to(secret_table_find(t, STR("spaces")), STR("")));
	secret_table_free(t);
}

static void a_bad_value_leaves_a_name_without_one(void **state)
{
	struct secret_table *t = secret_table_new();
	const char *why = NULL;

	(void)state;
	assert_int_equal(read_from(t, pat, "", 0600, &why), ERR_SYNTAX);
	assert_string_equal(why, "is empty");
	assert_non_null(secret_table_find(t, STR("pat")));
	assert_null(table_secret_value(secret_table_find(t, STR("pat"))));
	secret_table_free(t);
}

static void the_mode_of_a_file_counts_and_that_of_a_variable_does_not(void **state)
{
	struct secret_table *t = secret_table_new();
	struct msg_secret m = pat;
	const char *why = NULL;

	(void)state;
	assert_int_equal(read_from(t, m, "s3cret-token", 0644, &why), OK);
	m.name = STR("file");
	m.source = SECRET_FROM_FILE;
	assert_int_equal(read_from(t, m, "s3cret-token", 0644, &why), ERR_DENIED);
	assert_null(table_secret_value(secret_table_find(t, STR("file"))));
	secret_table_free(t);
}

static void a_name_stands_once(void **state)
{
	struct secret_table *t = secret_table_new();
	const char *why = NULL;

	(void)state;
	assert_int_equal(read_from(t, pat, "first-value", 0600, &why), OK);
	assert_int_equal(read_from(t, pat, "second-value", 0600, &why), ERR_PROTOCOL);
	assert_string_equal(why, "is declared twice");
	assert_true(str_eq(secret_value(table_secret_value(secret_table_find(t, STR("pat")))),
			   STR("first-value")));
	secret_table_free(t);
}

static void the_table_takes_so_many_and_no_more(void **state)
{
	struct secret_table *t = secret_table_new();
	const char *why = NULL;
	char name[16];

	(void)state;
	for (int i = 0; i <= MSG_SECRETS_MAX; i++) {
		struct msg_secret m = pat;

		snprintf(name, sizeof(name), "s%d", i);
		m.name = str_of(name);
		assert_int_equal(read_from(t, m, "s3cret-token", 0600, &why), i < MSG_SECRETS_MAX ? OK : ERR_FULL);
	}
	assert_null(secret_table_find(t, str_of(name)));
	secret_table_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_secret_is_found_by_its_name),
		cmocka_unit_test(a_secret_goes_to_the_hosts_of_the_settings_only),
		cmocka_unit_test(a_secret_without_hosts_goes_nowhere),
		cmocka_unit_test(a_bad_value_leaves_a_name_without_one),
		cmocka_unit_test(the_mode_of_a_file_counts_and_that_of_a_variable_does_not),
		cmocka_unit_test(a_name_stands_once),
		cmocka_unit_test(the_table_takes_so_many_and_no_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
