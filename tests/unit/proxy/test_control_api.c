#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <jansson.h>

#include "proxy/control_api.h"

static const struct {
	const char *name;
	const struct control_field *fields;
	size_t size;
	const char *pattern;
} rows[] = {
#define X(name, method, pattern, root, check) \
	{ #name, control_##name##_fields, sizeof(struct control_##name##_args), pattern },
	CONTROL_ROUTES(X)
#undef X
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static size_t size_of(enum control_type type)
{
	switch (type) {
	case CONTROL_TEXT:
		return sizeof(struct str);
	case CONTROL_NUMBER:
		return sizeof(uint64_t);
	case CONTROL_BOOL:
		return sizeof(bool);
	case CONTROL_TEXTS:
		break;
	}
	return sizeof(struct control_texts);
}

static void every_field_lies_in_its_struct_and_says_what_it_is(void **state)
{
	(void)state;
	for (size_t i = 0; i < ROWS; i++)
		for (const struct control_field *f = rows[i].fields; f->name; f++) {
			assert_true(f->offset + size_of(f->type) <= rows[i].size);
			assert_non_null(f->help);
			assert_true(f->type == CONTROL_BOOL || f->max > 0);
			for (const struct control_field *o = rows[i].fields; o != f; o++)
				assert_int_not_equal(o->offset, f->offset);
		}
}

static void every_segment_in_braces_is_a_required_field(void **state)
{
	unsigned found = 0;

	(void)state;
	for (size_t i = 0; i < ROWS; i++)
		for (const struct control_field *f = rows[i].fields; f->name; f++) {
			char braces[32];

			snprintf(braces, sizeof(braces), "{%s}", f->name);
			assert_int_equal(f->from == CONTROL_PATH, strstr(rows[i].pattern, braces) != NULL);
			assert_true(f->from != CONTROL_PATH || f->required);
			found += f->from == CONTROL_PATH;
		}
	assert_int_equal(found, 5);
}

/* What names a file, a folder or a namespace of the host. */
static void paths_of_the_host_are_roots(void **state)
{
	static const char *const paths[] = { "policy_file", "rootfs", "workspace", "output", "netns" };
	unsigned found = 0;

	(void)state;
	for (const struct control_field *f = control_sandbox_start_fields; f->name; f++) {
		bool path = false;

		for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
			path |= strcmp(f->name, paths[i]) == 0;
		assert_int_equal(f->root_only, path);
		found += path;
		if (path)
			assert_non_null(f->check(STR("a/b")));
		if (path)
			assert_null(f->check(STR("/a/b")));
	}
	assert_int_equal(found, 5);
}

static const char *name_check(const char *text)
{
	return control_sandbox_start_fields[0].check(str_of(text));
}

static void names_of_sandboxes_and_policies_are_plain(void **state)
{
	const struct control_field *policy = &control_sandbox_start_fields[1];

	(void)state;
	assert_null(name_check("Dev_1.a-b"));
	assert_non_null(name_check("a b"));
	assert_non_null(name_check("a/b"));
	assert_non_null(name_check(".."));
	assert_non_null(name_check("-x"));
	assert_non_null(name_check("\xc3\xb6"));
	assert_null(policy->check(STR("web.v2")));
	assert_non_null(policy->check(STR("../x")));
	assert_non_null(policy->check(STR(".x")));
	assert_non_null(policy->check(STR("a/b")));
}

static void a_start_has_one_policy_and_one_of_command_and_netns(void **state)
{
	struct str word = STR("x");
	struct control_sandbox_start_args a = { .policy = STR("p"), .command = { &word, 1 } };

	(void)state;
	assert_null(control_start_check(&a));
	a.policy_file = STR("/p");
	assert_non_null(control_start_check(&a));
	a.policy = STR_NONE;
	a.rootfs = STR("/r");
	assert_null(control_start_check(&a));
	a.netns = STR("/n");
	assert_non_null(control_start_check(&a));
	a.command.n = 0;
	assert_non_null(strstr(control_start_check(&a), "\"rootfs\""));
	a.rootfs = STR_NONE;
	assert_null(control_start_check(&a));
	a.netns = STR_NONE;
	assert_non_null(control_start_check(&a));
	a.policy_file = STR_NONE;
	assert_non_null(control_start_check(&a));
}

static void expect_sandbox(const struct control_sandbox *s, const char *text)
{
	struct buf out;
	struct json j;

	buf_init(&out, 4096);
	json_init(&j, &out);
	control_write_sandbox(&j, s);
	buf_put_c(&out, '\0');
	assert_string_equal(out.p, text);
	buf_free(&out);
}

static void a_sandbox_is_written_with_what_is_known_of_it(void **state)
{
	struct control_sandbox s = { .name = STR("dev"), .number = 3, .state = STR("starting"),
				     .policy = STR("web") };

	(void)state;
	expect_sandbox(&s, "{\"name\":\"dev\",\"number\":3,\"state\":\"starting\",\"policy\":{\"name\":\"web\"},"
		       "\"leases\":0,\"bytes_up\":0,\"bytes_down\":0,\"worker\":{\"crashes\":0}}");
	s.digest = STR("ab");
	s.isolation = STR("container/runc 1.1.5");
	s.address = STR("100.96.0.2");
	s.link = STR("ex-3");
	s.started = STR("2026-01-31T12:00:00.000001Z");
	s.limits = STR("leases 4");
	s.worker_pid = 9;
	s.has_exit = true;
	s.exit = 2;
	s.why = STR("it \"failed\"");
	expect_sandbox(&s, "{\"name\":\"dev\",\"number\":3,\"state\":\"starting\",\"policy\":{\"name\":\"web\","
		       "\"digest\":\"ab\"},\"isolation\":\"container/runc 1.1.5\",\"address\":\"100.96.0.2\","
		       "\"link\":\"ex-3\",\"started\":\"2026-01-31T12:00:00.000001Z\",\"limits\":\"leases 4\","
		       "\"leases\":0,\"bytes_up\":0,\"bytes_down\":0,\"worker\":{\"pid\":9,\"crashes\":0},\"exit\":2,"
		       "\"why\":\"it \\\"failed\\\"\"}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_field_lies_in_its_struct_and_says_what_it_is),
		cmocka_unit_test(every_segment_in_braces_is_a_required_field),
		cmocka_unit_test(paths_of_the_host_are_roots),
		cmocka_unit_test(names_of_sandboxes_and_policies_are_plain),
		cmocka_unit_test(a_start_has_one_policy_and_one_of_command_and_netns),
		cmocka_unit_test(a_sandbox_is_written_with_what_is_known_of_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
