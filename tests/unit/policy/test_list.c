#include "make_policy.h"

#include <stdio.h>

#include "policy/list.h"

static const struct test_rule some[] = {
	{ .id = "read", .hosts = { LIST("b.test", "**.wide.test", "*.b.test", "a.test") },
	  .ports = { LIST("443", "8000-8099") }, .protos = PROTO_HTTPS | PROTO_HTTP,
	  .methods = { LIST("GET", "HEAD") }, .paths = { LIST("/repos/**") } },
	{ .deny = true, .id = "no", .hosts = { LIST("**", "a.test") } },
	{ .id = "net", .addresses = { LIST("203.0.113.0/24", "198.51.100.7/32") }, .ports = { LIST("443") } },
	{ .deny = true, .id = "no-delete", .methods = { LIST("DELETE") } },
};

/* All items that can be told, with spaces between. */
static const char *told(const struct policy_list *l, uint32_t rule, enum listed what)
{
	static char text[65536];
	struct rule_ref ref = { 0, rule };
	struct buf out;

	buf_init(&out, sizeof(text) - 1);
	for (size_t i = 0; i < policy_list_kept(l, ref, what); i++) {
		if (i)
			buf_put_c(&out, ' ');
		policy_list_item(l, ref, what, i, &out);
	}
	assert_false(out.failed);
	snprintf(text, sizeof(text), "%.*s", STR_ARG(buf_str(&out)));
	buf_free(&out);
	return text;
}

static void each_rules_items_are_told_hosts_by_name(void **state)
{
	struct policy *p = MAKE_POLICY(some);
	struct policy_list *l = policy_list_new(p);

	(void)state;
	assert_non_null(l);
	assert_string_equal(told(l, 0, LISTED_HOSTS), "a.test b.test *.b.test **.wide.test");
	assert_string_equal(told(l, 0, LISTED_PORTS), "443 8000-8099");
	assert_string_equal(told(l, 0, LISTED_PROTOCOLS), "https http");
	assert_string_equal(told(l, 0, LISTED_METHODS), "GET HEAD");
	assert_string_equal(told(l, 0, LISTED_PATHS), "/repos/**");
	assert_string_equal(told(l, 0, LISTED_ADDRESSES), "");
	assert_string_equal(told(l, 1, LISTED_HOSTS), "** a.test");
	assert_string_equal(told(l, 2, LISTED_ADDRESSES), "198.51.100.7 203.0.113.0/24");
	assert_string_equal(told(l, 3, LISTED_HOSTS), "");
	assert_string_equal(told(l, 3, LISTED_METHODS), "DELETE");
	policy_list_free(l);
	policy_free(p);
}

static void a_rule_or_item_that_is_not_there_has_nothing(void **state)
{
	struct policy *p = MAKE_POLICY(some);
	struct policy_list *l = policy_list_new(p);
	struct rule_ref none[] = { { 0, 4 }, { 0, RULE_DEFAULT }, { 9, 0 } };
	struct buf out;

	(void)state;
	buf_init(&out, 64);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(policy_list_count(l, none[i], LISTED_HOSTS), 0);
		policy_list_item(l, none[i], LISTED_HOSTS, 0, &out);
	}
	policy_list_item(l, (struct rule_ref){ 0, 0 }, LISTED_HOSTS, 4, &out);
	policy_list_item(l, (struct rule_ref){ 0, 0 }, LISTED_PROTOCOLS, 2, &out);
	assert_int_equal(out.n, 0);
	assert_false(out.failed);
	buf_free(&out);
	policy_list_free(l);
	policy_free(p);
}

/* @rules rules of @each hosts, every name another. */
static struct policy *many_hosts(size_t rules, size_t each)
{
	struct policy_build *b = policy_build_new(STR("many.yaml"), false);
	struct str *hosts = calloc(each, sizeof(*hosts));
	char (*names)[64] = calloc(each, sizeof(*names)), id[32];
	int fd = new_memfd();

	for (size_t r = 0; r < rules; r++) {
		struct build_rule rule = { .hosts = hosts, .n_hosts = each, .credential = NO_CREDENTIAL };

		for (size_t i = 0; i < each; i++) {
			snprintf(names[i], sizeof(names[i]), "h%05zu.r%zu.test", each - i, r);
			hosts[i] = str_of(names[i]);
		}
		snprintf(id, sizeof(id), "r%zu", r);
		rule.id = str_of(id);
		assert_int_equal(policy_build_rule(b, &rule), OK);
	}
	assert_int_equal(policy_build_finish(b, fd), OK);
	policy_build_free(b);
	free(hosts);
	free(names);
	return map_images(&fd, 1);
}

static void hosts_past_the_limit_of_a_rule_are_counted(void **state)
{
	struct policy *p = many_hosts(2, LIST_HOSTS_A_RULE + 1);
	struct policy_list *l = policy_list_new(p);
	struct rule_ref ref = { 0, 1 };

	(void)state;
	assert_int_equal(policy_list_count(l, ref, LISTED_HOSTS), LIST_HOSTS_A_RULE + 1);
	assert_int_equal(policy_list_kept(l, ref, LISTED_HOSTS), LIST_HOSTS_A_RULE);
	policy_list_free(l);
	policy_free(p);
}

static void hosts_past_the_limit_of_all_are_counted(void **state)
{
	size_t rules = LIST_HOSTS_MAX / LIST_HOSTS_A_RULE + 1;
	struct policy *p = many_hosts(rules, LIST_HOSTS_A_RULE);
	struct policy_list *l = policy_list_new(p);
	struct rule_ref last = { 0, (uint32_t)rules - 1 }, before = { 0, (uint32_t)rules - 2 };

	(void)state;
	assert_int_equal(policy_list_kept(l, before, LISTED_HOSTS), LIST_HOSTS_A_RULE);
	assert_int_equal(policy_list_count(l, last, LISTED_HOSTS), LIST_HOSTS_A_RULE);
	assert_int_equal(policy_list_kept(l, last, LISTED_HOSTS), 0);
	policy_list_free(l);
	policy_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_rules_items_are_told_hosts_by_name),
		cmocka_unit_test(a_rule_or_item_that_is_not_there_has_nothing),
		cmocka_unit_test(hosts_past_the_limit_of_a_rule_are_counted),
		cmocka_unit_test(hosts_past_the_limit_of_all_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
