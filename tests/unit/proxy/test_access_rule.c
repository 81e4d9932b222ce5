/* What is suggested loads, and allows what was asked for and nothing beside it. */
#include "tests/unit/policy/make_policy.h"

#include <stdio.h>

#include "conf/diag.h"
#include "policy/load.h"
#include "policy/request_text.h"
#include "proxy/access_rule.h"

static char said[ACCESS_RULE_MAX];

static const char *suggest(const char *method, const char *url, const struct policy *p)
{
	struct access a = { .number = 3, .open = true, .asked_us = UINT64_C(1796000000000000),
			    .sandbox = STR("dev"), .method = str_of(method), .url = str_of(url) };
	struct buf out;

	buf_init(&out, ACCESS_RULE_MAX - 1);
	access_rule_put(&a, p, &out);
	assert_false(out.failed);
	snprintf(said, sizeof(said), "%.*s", STR_ARG(buf_str(&out)));
	buf_free(&out);
	return said;
}

/* A policy of that one rule. */
static struct policy *load_rule(const char *rule)
{
	struct load_env env = { 0 };
	struct policy *p = NULL;
	struct diags diags;
	struct buf text;
	int fd = new_memfd();

	buf_init(&text, 2 * ACCESS_RULE_MAX);
	buf_printf(&text, "exeat: 1\nprecedence: deny-over-allow\nallow:\n%s", rule);
	diags_init(&diags, STR("p.yaml"), buf_str(&text));
	if (!policy_load(diags.file, diags.text, &env, fd, &diags))
		fail_msg("does not load: %s\n%s", diags.n ? diags.items[0].text : "", rule);
	assert_int_equal(policy_map(&fd, 1, &p), OK);
	diags_free(&diags);
	buf_free(&text);
	close(fd);
	return p;
}

static enum verdict decide(const struct policy *p, const char *method, const char *url)
{
	struct explain_request r;
	struct request_text parts;
	enum verdict v;

	buf_init(&parts.path, 65536);
	assert_null(request_text_url(str_of(method), str_of(url), &parts, &r));
	v = policy_decide(p, &r.facts).verdict;
	buf_free(&parts.path);
	return v;
}

static void what_is_suggested_is_short_and_readable(void **state)
{
	(void)state;
	assert_string_equal(suggest("GET", "https://API.github.test/x?y#z", NULL),
			    "  # request 3 of \"dev\": GET https://API.github.test/x?y#z\n"
			    "  - id: request-20261130-3\n"
			    "    hosts: [\"api.github.test\"]\n"
			    "    methods: [\"GET\"]\n"
			    "    paths: [\"/x\"]\n");
}

static void it_loads_and_allows_just_that(void **state)
{
	static const char *const urls[] = {
		"https://api.test/", "https://api.test", "http://api.test/x", "https://api.test:8443/x/y",
		"http://api.test:443/", "https://203.0.113.7/x", "http://203.0.113.7:8080/", "https://a_b.api.test./x",
		"https://api.test/*", "https://api.test/a/**/b*c", "https://api.test/%2A", "https://api.test/%7Ea/../b",
		"https://api.test/a\"],x:[\"b", "https://api.test/{a}'&*!|>%@`", "https://api.test/#x: y",
		"https://api.test/x?q=\"]}", "https://api.test/\\u0041", "https://xn--bcher-kva.test/",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(urls) / sizeof(*urls); i++) {
		struct policy *p;

		suggest("GET", urls[i], NULL);
		if (strstr(said, "no rule can allow just that"))
			continue;
		p = load_rule(said);
		if (decide(p, "GET", urls[i]) != VERDICT_ALLOW)
			fail_msg("does not allow %s:\n%s", urls[i], said);
		assert_int_equal(policy_rules(p, 0), 1);
		assert_int_not_equal(decide(p, "POST", urls[i]), VERDICT_ALLOW);
		assert_int_not_equal(decide(p, "GET", "https://other.test/"), VERDICT_ALLOW);
		assert_int_not_equal(decide(p, "GET", "https://api.test/other/path"), VERDICT_ALLOW);
		policy_free(p);
	}
}

static void raw_tcp_gets_a_rule_for_its_port(void **state)
{
	static const char *const urls[] = { "tcp://db.test:5432", "tcp://db.test:443", "tcp://203.0.113.7:27000" };

	(void)state;
	for (size_t i = 0; i < sizeof(urls) / sizeof(*urls); i++) {
		struct policy *p = load_rule(suggest("GET", urls[i], NULL));

		assert_int_equal(decide(p, "GET", urls[i]), VERDICT_ALLOW);
		assert_int_equal(decide(p, "GET", "tcp://db.test:80"), VERDICT_DENY);
		assert_int_equal(decide(p, "GET", "https://db.test/"), VERDICT_DENY);
		policy_free(p);
	}
}

static void a_star_that_was_asked_for_is_no_wildcard(void **state)
{
	struct policy *p = load_rule(suggest("GET", "https://api.test/a/**", NULL));

	(void)state;
	assert_int_equal(decide(p, "GET", "https://api.test/a/**"), VERDICT_ALLOW);
	assert_int_equal(decide(p, "GET", "https://api.test/a/b"), VERDICT_DENY);
	assert_int_equal(decide(p, "GET", "https://api.test/a/b/c"), VERDICT_DENY);
	policy_free(p);
}

static void a_path_with_two_readings_gets_no_rule(void **state)
{
	char url[4096];

	(void)state;
	assert_non_null(strstr(suggest("GET", "https://api.test/a%2f..%2fb", NULL), "no rule can allow just that"));
	assert_null(strstr(said, "- id:"));
	snprintf(url, sizeof(url), "https://api.test/%03000u", 1);
	assert_non_null(strstr(suggest("GET", url, NULL), "longer than a rule's may be"));
	assert_null(strstr(said, "- id:"));
}

static const struct test_rule rules[] = {
	{ .id = "read", .hosts = { LIST("api.test") }, .methods = { LIST("GET") } },
	{ .deny = true, .id = "no-gists", .hosts = { LIST("api.test") }, .paths = { LIST("/gists/**") } },
};

static void a_rule_that_would_change_nothing_is_told_as_such(void **state)
{
	struct policy *p = MAKE_POLICY(rules);

	(void)state;
	assert_non_null(strstr(suggest("GET", "https://api.test/x", p), "# rule read allows it by now\n"));
	assert_null(strstr(said, "- id:"));
	assert_non_null(strstr(suggest("POST", "https://api.test/gists/1", p),
			       "# rule no-gists denies it, and a deny wins"));
	assert_non_null(strstr(said, "- id:"));
	assert_null(strstr(suggest("POST", "https://api.test/x", p), "# rule"));
	policy_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_suggested_is_short_and_readable),
		cmocka_unit_test(it_loads_and_allows_just_that),
		cmocka_unit_test(raw_tcp_gets_a_rule_for_its_port),
		cmocka_unit_test(a_star_that_was_asked_for_is_no_wildcard),
		cmocka_unit_test(a_path_with_two_readings_gets_no_rule),
		cmocka_unit_test(a_rule_that_would_change_nothing_is_told_as_such),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
