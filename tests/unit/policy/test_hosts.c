#include <stdio.h>

#include "make_policy.h"
#include "policy/hosts.h"

static void patterns_part_into_kind_and_name(void **state)
{
	struct str name;

	(void)state;
	assert_int_equal(host_pattern(STR("a.test"), &name), HOST_EXACT);
	assert_true(str_eq(name, STR("a.test")));
	assert_int_equal(host_pattern(STR("*.a.test"), &name), HOST_ONE);
	assert_true(str_eq(name, STR("a.test")));
	assert_int_equal(host_pattern(STR("**.a.test"), &name), HOST_MANY);
	assert_true(str_eq(name, STR("a.test")));
	assert_int_equal(host_pattern(STR("**"), &name), HOST_ANY);
	assert_int_equal(name.n, 0);
}

/* F09: what is no whole leftmost label is no wildcard, and the image refuses it as a name. */
static void a_star_inside_a_label_builds_no_image(void **state)
{
	static const char *const bad[] = { "*ample.test", "ex*mple.test", "a.*.test", "*", "*.", "*.*",
					   "***.test", "", ".", "UPPER.test", "a.test." };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const struct test_rule rule = { .id = "r", .hosts = { LIST(bad[i]) } };
		struct policy_build *b = policy_build_new(STR("f"), false);
		int fd = new_memfd();

		assert_int_equal(add_rule(b, &rule, 1), OK);
		assert_int_equal(policy_build_finish(b, fd), ERR_SYNTAX);
		policy_build_free(b);
		close(fd);
	}
}

static void one_name_matches_by_whole_labels(void **state)
{
	struct str name = STR("a.test");

	(void)state;
	assert_true(host_matches(HOST_EXACT, name, STR("a.test")));
	assert_false(host_matches(HOST_EXACT, name, STR("b.a.test")));
	assert_true(host_matches(HOST_ONE, name, STR("b.a.test")));
	assert_false(host_matches(HOST_ONE, name, STR("a.test")));
	assert_false(host_matches(HOST_ONE, name, STR("c.b.a.test")));
	assert_false(host_matches(HOST_ONE, name, STR("xa.test")));
	assert_true(host_matches(HOST_MANY, name, STR("b.a.test")));
	assert_true(host_matches(HOST_MANY, name, STR("c.b.a.test")));
	assert_false(host_matches(HOST_MANY, name, STR("a.test")));
	assert_false(host_matches(HOST_MANY, name, STR("xa.test")));
	assert_true(host_matches(HOST_ANY, STR(""), STR("x")));
	assert_false(host_matches(HOST_ANY, STR(""), STR("")));
}

/* Each list of the walk, as the rules in it. */
static size_t walk(const struct policy *p, const char *host, uint32_t *rules, size_t max)
{
	struct host_walk w;
	struct image_span list;
	size_t n = 0;

	host_walk_start(&w, &p->images[0], str_of(host));
	while (host_walk_next(&w, &list))
		for (uint32_t i = 0; i < list.count; i++) {
			assert_true(n < max);
			rules[n++] = p->images[0].refs[list.first + i];
		}
	return n;
}

static void a_walk_gives_the_lists_of_each_suffix(void **state)
{
	const struct test_rule rules[] = {
		{ .id = "0", .hosts = { LIST("**.test") } },
		{ .id = "1", .hosts = { LIST("*.a.test", "**.a.test") } },
		{ .id = "2", .hosts = { LIST("b.a.test") } },
		{ .id = "3", .hosts = { LIST("*.test", "b.a.test") } },
		{ .id = "4", .hosts = { LIST("*.b.a.test") } },
	};
	struct policy *p = MAKE_POLICY(rules);
	uint32_t got[8];

	(void)state;
	assert_int_equal(walk(p, "b.a.test", got, 8), 5);
	/* test: many; a.test: one, many; b.a.test: exact */
	assert_int_equal(got[0], 0);
	assert_int_equal(got[1], 1);
	assert_int_equal(got[2], 1);
	assert_int_equal(got[3], 2);
	assert_int_equal(got[4], 3);
	assert_int_equal(walk(p, "a.test", got, 8), 2);
	assert_int_equal(walk(p, "c.b.a.test", got, 8), 3);
	assert_int_equal(walk(p, "test", got, 8), 0);
	assert_int_equal(walk(p, "", got, 8), 0);
	/* Not canonical: asked all the same, found nowhere, never out of bounds. */
	assert_int_equal(walk(p, "..", got, 8), 0);
	assert_int_equal(walk(p, "A.TEST", got, 8), 0);
	policy_free(p);
}

static void many_hosts_are_all_found_and_no_bucket_is_over_the_limit(void **state)
{
	enum { HOSTS = 20000 };
	struct policy_build *b = policy_build_new(STR("f"), false);
	int fd = new_memfd();
	struct policy *p;
	char text[32];
	uint32_t got[2];

	(void)state;
	for (uint32_t i = 0; i < HOSTS; i++) {
		int n = snprintf(text, sizeof(text), "h%u.x%u.test", i, i % 7);
		struct str host = str_n(text, (size_t)n);
		struct build_rule r = { .id = STR("r"), .line = i, .hosts = &host, .n_hosts = 1,
					.credential = NO_CREDENTIAL };

		assert_int_equal(policy_build_rule(b, &r), OK);
	}
	assert_int_equal(policy_build_finish(b, fd), OK);
	policy_build_free(b);
	p = map_images(&fd, 1);
	for (uint32_t i = 0; i < HOSTS; i++) {
		snprintf(text, sizeof(text), "h%u.x%u.test", i, i % 7);
		assert_int_equal(walk(p, text, got, 2), 1);
		assert_int_equal(got[0], i);
	}
	snprintf(text, sizeof(text), "h%u.x0.test", (unsigned)HOSTS);
	assert_int_equal(walk(p, text, got, 2), 0);
	policy_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(patterns_part_into_kind_and_name),
		cmocka_unit_test(a_star_inside_a_label_builds_no_image),
		cmocka_unit_test(one_name_matches_by_whole_labels),
		cmocka_unit_test(a_walk_gives_the_lists_of_each_suffix),
		cmocka_unit_test(many_hosts_are_all_found_and_no_bucket_is_over_the_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
