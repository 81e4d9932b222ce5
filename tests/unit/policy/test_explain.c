#include <stdio.h>

#include "make_policy.h"
#include "policy/explain.h"

static const struct test_rule github[] = {
	{ .id = "github-read", .hosts = { LIST("api.github.test", "*.raw.test") }, .ports = { LIST("443") },
	  .protos = PROTO_HTTPS, .methods = { LIST("GET", "HEAD") },
	  .paths = { LIST("/repos/acme/**", "/search/*") } },
	{ .deny = true, .id = "no-gists", .reason = "Ask security@ first.",
	  .hosts = { LIST("api.github.test") }, .paths = { LIST("/gists/**") } },
	{ .id = "all", .hosts = { LIST("api.github.test") }, .methods = { LIST("DELETE") } },
};

static char *explain(const struct policy *p, struct explain_request r, enum verdict expected)
{
	char *text = NULL;
	size_t n = 0;
	FILE *to = open_memstream(&text, &n);

	assert_non_null(to);
	assert_int_equal(policy_explain(p, &r, to), expected);
	fclose(to);
	return text;
}

static void assert_says(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" is not in:\n%s", part, text);
}

static void assert_silent(const char *text, const char *part)
{
	if (strstr(text, part))
		fail_msg("\"%s\" is in:\n%s", part, text);
}

static void each_step_is_told_with_its_rule_and_place(void **state)
{
	struct policy *p = MAKE_POLICY(github);
	char *text = explain(p, (struct explain_request){ EXPLAIN_REQUEST,
		request("api.github.test", "GET", "/repos/acme/x"), STR_NONE, false }, VERDICT_ALLOW);

	(void)state;
	assert_says(text, "name lookup    undecided  api.github.test\n");
	assert_says(text, "connection     undecided  api.github.test port 443\n");
	assert_says(text, "request        allow      GET /repos/acme/x to api.github.test port 443 https\n"
			  "    github-read (test.yaml:10)\n");
	assert_says(text, "verdict        allow\n");
	free(text);
	policy_free(p);
}

static void what_is_still_open_says_how_it_goes_on(void **state)
{
	struct policy *p = MAKE_POLICY(github);
	struct facts f = request("api.github.test", "", "");
	char *text;

	(void)state;
	f.method = f.path = STR_NONE;
	text = explain(p, (struct explain_request){ EXPLAIN_RESOLVE, f, STR_NONE, false }, VERDICT_UNDECIDED);
	assert_says(text, "verdict        undecided: the name is answered, and each");
	free(text);
	text = explain(p, (struct explain_request){ EXPLAIN_CONNECT, f, STR_NONE, false }, VERDICT_UNDECIDED);
	assert_says(text, "verdict        undecided: the connection is accepted, and each");
	free(text);
	policy_free(p);
}

static void a_deny_is_told_with_reason_and_what_it_overrules(void **state)
{
	struct policy *p = MAKE_POLICY(github);
	char *text = explain(p, (struct explain_request){ EXPLAIN_REQUEST,
		request("api.github.test", "DELETE", "/gists/1"), STR_NONE, false }, VERDICT_DENY);

	(void)state;
	assert_says(text, "no-gists (test.yaml:20): Ask security@ first.\n");
	assert_says(text, "overrules: all (test.yaml:30) would allow it\n");
	free(text);
	policy_free(p);
}

static void near_misses_name_the_one_fact_that_is_off(void **state)
{
	struct policy *p = MAKE_POLICY(github);
	struct facts f = request("api.github.test", "POST", "/repos/acme/x");
	char *text = explain(p, (struct explain_request){ EXPLAIN_REQUEST, f, STR_NONE, false }, VERDICT_DENY);

	(void)state;
	assert_says(text, "near: github-read (test.yaml:10) would match if the method were GET or HEAD\n");
	free(text);
	f = request("api.github.test", "GET", "/other");
	text = explain(p, (struct explain_request){ EXPLAIN_REQUEST, f, STR_NONE, false }, VERDICT_DENY);
	assert_says(text, "would match if the path were /repos/acme/** or /search/*\n");
	assert_says(text, "near: all (test.yaml:30) would match if the method were DELETE\n");
	free(text);
	f = (struct facts){ .host = STR("a.raw.test"), .port = 80 };
	text = explain(p, (struct explain_request){ EXPLAIN_CONNECT, f, STR_NONE, false }, VERDICT_DENY);
	assert_says(text, "would match if the port were 443\n");
	free(text);
	policy_free(p);
}

/* F08 */
static void apex_and_wildcard_are_told_apart(void **state)
{
	struct policy *p = MAKE_POLICY(github);
	struct facts f = { .host = STR("raw.test") };
	char *text = explain(p, (struct explain_request){ EXPLAIN_RESOLVE, f, STR_NONE, false }, VERDICT_DENY);

	(void)state;
	assert_says(text, "default (test.yaml): no allow rule matches\n");
	assert_says(text, "near: github-read (test.yaml:10) would match if the host were a name below raw.test");
	free(text);
	f.host = STR("www.api.github.test");
	text = explain(p, (struct explain_request){ EXPLAIN_RESOLVE, f, STR_NONE, false }, VERDICT_DENY);
	assert_says(text, "github-read (test.yaml:10) would match if the host were api.github.test: it does not");
	free(text);
	f.host = STR("evil.test");
	text = explain(p, (struct explain_request){ EXPLAIN_RESOLVE, f, STR_NONE, false }, VERDICT_DENY);
	assert_silent(text, "near:");
	free(text);
	policy_free(p);
}

static void a_prohibited_address_is_a_reason_of_its_own(void **state)
{
	const struct test_rule rules[] = {
		{ .id = "all", .hosts = { LIST("*.test") } },
		{ .id = "db", .hosts = { LIST("db.test") }, .resolves_to = { LIST("10.0.0.0/8") } },
	};
	struct policy *p = MAKE_POLICY(rules);
	struct facts f = request("x.test", "GET", "/");
	char *text;

	(void)state;
	f.addr = literal("10.0.0.5", 1).addr;
	text = explain(p, (struct explain_request){ EXPLAIN_REQUEST, f, STR_NONE, false }, VERDICT_DENY);
	assert_says(text, "10.0.0.5 is private (RFC 1918): a name may resolve to it only by resolves_to");
	assert_says(text, "verdict        deny\n");
	free(text);
	f.host = STR("db.test");
	text = explain(p, (struct explain_request){ EXPLAIN_REQUEST, f, STR_NONE, false }, VERDICT_ALLOW);
	assert_says(text, "10.0.0.5 is private (RFC 1918), and in resolves_to of a rule\n");
	free(text);
	text = explain(p, (struct explain_request){ EXPLAIN_CONNECT, literal("169.254.169.254", 80),
						    STR_NONE, false }, VERDICT_DENY);
	assert_says(text, "169.254.169.254 is link-local");
	assert_silent(text, "name lookup");
	free(text);
	policy_free(p);
}

static void a_path_with_two_readings_is_told(void **state)
{
	struct policy *p = MAKE_POLICY(github);
	struct explain_request r = { EXPLAIN_REQUEST, request("api.github.test", "GET", ""),
				     STR("https://api.github.test/a%2fb"), false };
	char *text = explain(p, r, VERDICT_DENY);

	(void)state;
	assert_says(text, "request        deny       GET https://api.github.test/a%2fb to api.github.test");
	assert_silent(text, "may allow it, once the address is known");
	assert_says(text, "the path can be read in more than one way");
	free(text);
	policy_free(p);
}

static struct policy *with_credential(void)
{
	const struct str hosts[] = { STR("api.test") };
	const struct build_credential c = { .name = STR("github"), .secret = STR("github_pat"),
					    .kind = CREDENTIAL_BEARER, .hosts = hosts, .n_hosts = 1 };
	const struct test_rule rule = { .id = "r", .credential = 1, .hosts = { LIST("**.test") } };
	struct policy_build *b = policy_build_new(STR("c.yaml"), false);
	int fd = new_memfd();
	uint32_t index = 9;

	assert_int_equal(policy_build_credential(b, &c, &index), OK);
	assert_int_equal(index, 0);
	assert_int_equal(add_rule(b, &rule, 1), OK);
	assert_int_equal(policy_build_finish(b, fd), OK);
	policy_build_free(b);
	return map_images(&fd, 1);
}

static void what_would_be_put_on_is_told_by_name(void **state)
{
	struct policy *p = with_credential();
	struct explain_request r = { EXPLAIN_REQUEST, request("api.test", "GET", "/"), STR_NONE, false };
	char *text = explain(p, r, VERDICT_ALLOW);

	(void)state;
	assert_says(text, "credential github is put on, in field authorization, from secret github_pat\n");
	free(text);
	r.facts.host = STR("evil.test");
	text = explain(p, r, VERDICT_ALLOW);
	assert_says(text, "credential github is not for this host: the request is refused\n");
	free(text);
	r.facts = request("api.test", "GET", "/");
	r.facts.proto = PROTO_HTTP;
	text = explain(p, r, VERDICT_ALLOW);
	assert_says(text, "credential github does not go over plain HTTP");
	free(text);
	policy_free(p);
}

static void a_box_is_told_no_file_no_credential_and_no_secret(void **state)
{
	struct policy *p = with_credential();
	struct explain_request r = { EXPLAIN_REQUEST, request("api.test", "GET", "/"), STR_NONE, true };
	char *text = explain(p, r, VERDICT_ALLOW);

	(void)state;
	assert_says(text, "a credential");
	assert_silent(text, "github");
	assert_silent(text, ".yaml");
	assert_silent(text, "secret");
	free(text);
	policy_free(p);
	p = MAKE_POLICY(github);
	r.facts = request("api.github.test", "POST", "/repos/acme/x");
	text = explain(p, r, VERDICT_DENY);
	assert_says(text, "    default: no allow rule matches\n");
	assert_says(text, "near: github-read would match if the method were GET or HEAD\n");
	assert_silent(text, ".yaml");
	free(text);
	policy_free(p);
}

static void near_misses_past_the_limit_are_counted(void **state)
{
	const struct test_rule rule = { .id = "r", .hosts = { LIST("a.test") },
					.methods = { LIST("GET") } };
	struct test_rule rules[EXPLAIN_NEAR_MAX + 3];
	struct policy *p;
	char *text;

	(void)state;
	for (size_t i = 0; i < EXPLAIN_NEAR_MAX + 3; i++)
		rules[i] = rule;
	p = MAKE_POLICY(rules);
	text = explain(p, (struct explain_request){ EXPLAIN_REQUEST, request("a.test", "PUT", "/"),
						    STR_NONE, false }, VERDICT_DENY);
	assert_says(text, "and 3 more near misses\n");
	free(text);
	policy_free(p);
}

static void bytes_of_the_file_do_not_drive_the_terminal(void **state)
{
	const struct test_rule rule = { .deny = true, .id = "r", .reason = "a\n\tb\xff\xc2\x9b",
					.hosts = { LIST("a.test") } };
	struct policy *p = make_policy(&rule, 1);
	char *text = explain(p, (struct explain_request){ EXPLAIN_RESOLVE,
		(struct facts){ .host = STR("a.test") }, STR_NONE, false }, VERDICT_DENY);

	(void)state;
	assert_says(text, "a\\u000a\\u0009b");
	assert_silent(text, "\xc2\x9b");
	assert_silent(text, "\xff");
	free(text);
	policy_free(p);
}

static const struct test_rule tunnels[] = {
	{ .id = "pinned", .hosts = { LIST("pin.test") }, .ports = { LIST("443") },
	  .protos = PROTO_HTTPS, .passthrough = true, .limits = { .concurrent = 2, .total_s = 900 } },
	{ .id = "db", .hosts = { LIST("db.test") }, .ports = { LIST("5432") }, .protos = PROTO_TCP,
	  .limits = { .upload = 10 << 20, .download = 1ull << 30, .idle_s = 3600 } },
	{ .deny = true, .id = "net", .addresses = { LIST("203.0.113.0/24") } },
	{ .id = "web", .hosts = { LIST("db.test") }, .ports = { LIST("443") }, .protos = PROTO_HTTPS,
	  .limits = { .requests = 60, .per_s = 60 } },
	{ .id = "get", .hosts = { LIST("db.test") }, .ports = { LIST("443") }, .protos = PROTO_HTTPS,
	  .methods = { LIST("GET") }, .limits = { .requests = 5, .per_s = 1, .concurrent = 8 } },
};

/* "connect" is asked as the worker asks: raw TCP first, where a rule is for it. */
static void a_raw_connection_is_told_as_one(void **state)
{
	struct policy *p = MAKE_POLICY(tunnels);
	struct facts f = { .host = STR("db.test"), .port = 5432 };
	char *text;

	(void)state;
	text = explain(p, (struct explain_request){ EXPLAIN_CONNECT, f, STR_NONE, false }, VERDICT_UNDECIDED);
	assert_says(text, "connection     undecided  db.test port 5432 tcp\n"
			  "    db (test.yaml:20): may allow it, once the address is known\n");
	assert_says(text, "verdict        undecided: the address that the name resolves to decides\n");
	free(text);
	f.addr = literal("198.51.100.1", 1).addr;
	text = explain(p, (struct explain_request){ EXPLAIN_CONNECT, f, STR_NONE, false }, VERDICT_ALLOW);
	assert_says(text, "    db (test.yaml:20)\n"
			  "    raw TCP: goes through as it comes, unread\n"
			  "    limits of db (test.yaml:20): upload: 10MiB, download: 1GiB, idle: 1h\n");
	free(text);
	f.addr = literal("203.0.113.1", 1).addr;
	text = explain(p, (struct explain_request){ EXPLAIN_CONNECT, f, STR_NONE, false }, VERDICT_DENY);
	assert_says(text, "net (test.yaml:30)\n    overrules: db (test.yaml:20) would allow it\n");
	free(text);
	f = (struct facts){ .host = STR("db.test"), .port = 443, .proto = PROTO_TCP };
	text = explain(p, (struct explain_request){ EXPLAIN_CONNECT, f, STR_NONE, false }, VERDICT_DENY);
	assert_says(text, "near: db (test.yaml:20) would match if the port were 5432\n");
	assert_says(text, "near: web (test.yaml:40) would match if the protocol were https\n");
	free(text);
	policy_free(p);
}

static void what_is_not_opened_is_told_and_its_limits(void **state)
{
	struct policy *p = MAKE_POLICY(tunnels);
	struct facts f = request("pin.test", "GET", "/x");
	char *text;

	(void)state;
	f.addr = literal("198.51.100.1", 1).addr;
	text = explain(p, (struct explain_request){ EXPLAIN_REQUEST, f, STR_NONE, false }, VERDICT_ALLOW);
	assert_says(text, "    passthrough: TLS is not opened, so that neither method nor path is seen\n"
			  "    limits of pinned (test.yaml:10): concurrent: 2, total: 15m\n");
	free(text);
	policy_free(p);
}

static void all_limits_that_hold_are_told(void **state)
{
	struct policy *p = MAKE_POLICY(tunnels);
	struct facts f = request("db.test", "GET", "/x");
	char *text;

	(void)state;
	f.addr = literal("198.51.100.1", 1).addr;
	text = explain(p, (struct explain_request){ EXPLAIN_REQUEST, f, STR_NONE, true }, VERDICT_ALLOW);
	assert_says(text, "    limits of web: requests: 60/min\n"
			  "    limits of get: requests: 5/s, concurrent: 8\n");
	free(text);
	policy_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_still_open_says_how_it_goes_on),
		cmocka_unit_test(each_step_is_told_with_its_rule_and_place),
		cmocka_unit_test(a_deny_is_told_with_reason_and_what_it_overrules),
		cmocka_unit_test(near_misses_name_the_one_fact_that_is_off),
		cmocka_unit_test(apex_and_wildcard_are_told_apart),
		cmocka_unit_test(a_prohibited_address_is_a_reason_of_its_own),
		cmocka_unit_test(a_path_with_two_readings_is_told),
		cmocka_unit_test(what_would_be_put_on_is_told_by_name),
		cmocka_unit_test(a_box_is_told_no_file_no_credential_and_no_secret),
		cmocka_unit_test(near_misses_past_the_limit_are_counted),
		cmocka_unit_test(bytes_of_the_file_do_not_drive_the_terminal),
		cmocka_unit_test(a_raw_connection_is_told_as_one),
		cmocka_unit_test(what_is_not_opened_is_told_and_its_limits),
		cmocka_unit_test(all_limits_that_hold_are_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
