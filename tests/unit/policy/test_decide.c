#include "make_policy.h"
#include "policy/name.h"
#include "policy/path.h"

/* ---- what the language says ---- */

static void a_deny_wins_in_either_order(void **state)
{
	const struct test_rule allow = { .id = "allow", .hosts = { LIST("api.test") } };
	const struct test_rule deny = { .deny = true, .id = "deny", .hosts = { LIST("api.test") } };
	const struct test_rule orders[2][2] = { { allow, deny }, { deny, allow } };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct policy *p = MAKE_POLICY(orders[i]);

		assert_decides(p, request("api.test", "GET", "/"), VERDICT_DENY, "deny");
		policy_free(p);
	}
}

static void a_deny_wins_from_any_image_of_the_stack(void **state)
{
	const struct test_rule allow = { .id = "allow", .hosts = { LIST("api.test") } };
	const struct test_rule deny = { .deny = true, .id = "deny", .hosts = { LIST("**.test") } };
	int one[] = { make_image(&allow, 1), make_image(&deny, 1) };
	int two[] = { make_image(&deny, 1), make_image(&allow, 1) };
	struct policy *p = map_images(one, 2), *q = map_images(two, 2);

	(void)state;
	assert_decides(p, request("api.test", "GET", "/"), VERDICT_DENY, "deny");
	assert_decides(q, request("api.test", "GET", "/"), VERDICT_DENY, "deny");
	policy_free(p);
	policy_free(q);
}

static void the_first_rule_in_file_order_decides(void **state)
{
	const struct test_rule rules[] = {
		{ .id = "wide", .hosts = { LIST("**.test") } },
		{ .id = "narrow", .hosts = { LIST("api.test") } },
		{ .deny = true, .id = "late", .hosts = { LIST("bad.api.test") } },
		{ .deny = true, .id = "later", .hosts = { LIST("**") }, .methods = { LIST("PUT") } },
	};
	struct policy *p = MAKE_POLICY(rules);

	(void)state;
	assert_decides(p, request("api.test", "GET", "/"), VERDICT_ALLOW, "wide");
	assert_decides(p, request("bad.api.test", "PUT", "/"), VERDICT_DENY, "late");
	assert_decides(p, request("api.test", "PUT", "/"), VERDICT_DENY, "later");
	policy_free(p);
}

/* F06 */
static void a_name_that_only_ends_alike_is_refused(void **state)
{
	const struct test_rule rules[] = {
		{ .id = "trusted", .hosts = { LIST("trusted.test", "*.trusted.test") } },
	};
	struct policy *p = MAKE_POLICY(rules);
	static const char *const names[] = { "eviltrusted.test", "trusted.test.evil.test",
					     "xtrusted.test", "a.b.trusted.test", "test" };

	(void)state;
	assert_decides(p, request("trusted.test", "GET", "/"), VERDICT_ALLOW, "trusted");
	assert_decides(p, request("www.trusted.test", "GET", "/"), VERDICT_ALLOW, "trusted");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_decides(p, request(names[i], "GET", "/"), VERDICT_DENY, "default");
	policy_free(p);
}

/* F08 */
static void apex_and_names_below_it_are_apart(void **state)
{
	const struct test_rule apex = { .id = "apex", .hosts = { LIST("apex.test") } };
	const struct test_rule one = { .id = "one", .hosts = { LIST("*.apex.test") } };
	const struct test_rule many = { .id = "many", .hosts = { LIST("**.apex.test") } };
	struct policy *a = make_policy(&apex, 1), *o = make_policy(&one, 1);
	struct policy *m = make_policy(&many, 1);

	(void)state;
	assert_decides(a, request("www.apex.test", "GET", "/"), VERDICT_DENY, "default");
	assert_decides(o, request("apex.test", "GET", "/"), VERDICT_DENY, "default");
	assert_decides(o, request("www.apex.test", "GET", "/"), VERDICT_ALLOW, "one");
	assert_decides(o, request("a.www.apex.test", "GET", "/"), VERDICT_DENY, "default");
	assert_decides(m, request("apex.test", "GET", "/"), VERDICT_DENY, "default");
	assert_decides(m, request("a.www.apex.test", "GET", "/"), VERDICT_ALLOW, "many");
	/* The name lookup says the same. */
	assert_decides(o, (struct facts){ .host = STR("apex.test") }, VERDICT_DENY, "default");
	policy_free(a);
	policy_free(o);
	policy_free(m);
}

/* F14 */
static void methods_and_paths_narrow_a_host(void **state)
{
	const struct test_rule rules[] = {
		{ .id = "read", .hosts = { LIST("git.test") }, .methods = { LIST("GET") },
		  .paths = { LIST("/**") } },
		{ .id = "write", .hosts = { LIST("git.test") }, .paths = { LIST("/myorg/**") } },
	};
	struct policy *p = MAKE_POLICY(rules);

	(void)state;
	assert_decides(p, request("git.test", "POST", "/other/x"), VERDICT_DENY, "default");
	assert_decides(p, request("git.test", "POST", "/myorg/x"), VERDICT_ALLOW, "write");
	assert_decides(p, request("git.test", "POST", "/myorgevil/x"), VERDICT_DENY, "default");
	assert_decides(p, request("git.test", "GET", "/other/x"), VERDICT_ALLOW, "read");
	assert_decides(p, request("git.test", "get", "/other/x"), VERDICT_DENY, "default");
	assert_decides(p, request("git.test", "PROPFIND", "/other"), VERDICT_DENY, "default");
	policy_free(p);
}

static void what_is_not_known_yet_leaves_it_open(void **state)
{
	const struct test_rule rules[] = {
		{ .id = "api", .hosts = { LIST("api.test") }, .ports = { LIST("443") },
		  .protos = PROTO_HTTPS },
		{ .deny = true, .id = "gists", .hosts = { LIST("api.test") },
		  .paths = { LIST("/gists/**") } },
	};
	struct policy *p = MAKE_POLICY(rules);
	struct facts f = { 0 };

	(void)state;
	assert_decides(p, f, VERDICT_UNDECIDED, "api");
	f.host = STR("api.test");
	assert_decides(p, f, VERDICT_UNDECIDED, "api");
	f.port = 443;
	f.proto = PROTO_HTTPS;
	assert_decides(p, f, VERDICT_UNDECIDED, "api");
	f.method = STR("GET");
	f.path = STR("/repos");
	assert_decides(p, f, VERDICT_ALLOW, "api");
	f.path = STR("/gists");
	assert_decides(p, f, VERDICT_DENY, "gists");
	f.port = 80;
	f.path = STR("/repos");
	assert_decides(p, f, VERDICT_DENY, "default");
	assert_decides(p, (struct facts){ .host = STR("evil.test") }, VERDICT_DENY, "default");
	policy_free(p);
}

static void an_allow_by_address_admits_literals_only(void **state)
{
	const struct test_rule rules[] = {
		{ .id = "licence", .addresses = { LIST("203.0.113.0/28", "203.0.113.2", "2001:db8::/127") },
		  .ports = { LIST("27000-27009") } },
	};
	struct policy *p = MAKE_POLICY(rules);
	struct facts named = request("evil.test", "GET", "/");

	(void)state;
	assert_decides(p, literal("203.0.113.15", 27009), VERDICT_ALLOW, "licence");
	assert_decides(p, literal("2001:db8::1", 27000), VERDICT_ALLOW, "licence");
	assert_decides(p, literal("2001:db8::2", 27000), VERDICT_DENY, "default");
	assert_decides(p, literal("203.0.113.16", 27000), VERDICT_DENY, "default");
	assert_decides(p, literal("203.0.113.1", 443), VERDICT_DENY, "default");
	named.port = 27000;
	named.addr = literal("203.0.113.1", 1).addr;
	assert_decides(p, named, VERDICT_DENY, "default");
	policy_free(p);
}

static void a_deny_by_address_holds_for_what_a_name_resolves_to(void **state)
{
	const struct test_rule rules[] = {
		{ .id = "all", .hosts = { LIST("**") } },
		{ .deny = true, .id = "net", .addresses = { LIST("203.0.113.0/24") } },
	};
	struct policy *p = MAKE_POLICY(rules);
	struct facts f = request("api.test", "GET", "/");

	(void)state;
	assert_decides(p, f, VERDICT_UNDECIDED, "all");
	f.addr = literal("198.51.100.1", 1).addr;
	assert_decides(p, f, VERDICT_ALLOW, "all");
	f.addr = literal("203.0.113.9", 1).addr;
	assert_decides(p, f, VERDICT_DENY, "net");
	policy_free(p);
}

static void any_host_in_an_allow_is_no_literal_and_in_a_deny_it_is(void **state)
{
	const struct test_rule allow = { .id = "any", .hosts = { LIST("**") } };
	const struct test_rule both[] = {
		{ .id = "box", .addresses = { LIST("203.0.113.1") }, .ports = { LIST("25") } },
		{ .deny = true, .id = "mail", .hosts = { LIST("**") }, .ports = { LIST("25") } },
	};
	struct policy *a = make_policy(&allow, 1), *b = MAKE_POLICY(both);

	(void)state;
	assert_decides(a, literal("203.0.113.1", 443), VERDICT_DENY, "default");
	assert_decides(b, literal("203.0.113.1", 25), VERDICT_DENY, "mail");
	policy_free(a);
	policy_free(b);
}

/* F13 */
static void ports_of_a_name_are_those_of_its_allow_rules(void **state)
{
	const struct test_rule rules[] = {
		{ .id = "a", .hosts = { LIST("svc.test") }, .ports = { LIST("443", "8000-8002") } },
		{ .id = "b", .hosts = { LIST("*.test") }, .ports = { LIST("8002-8003") } },
		{ .id = "c", .hosts = { LIST("other.test") }, .ports = { LIST("1") } },
		{ .deny = true, .id = "d", .hosts = { LIST("svc.test") }, .ports = { LIST("9") } },
	};
	static const uint16_t expected[] = { 443, 8000, 8001, 8002, 8003 };
	struct policy *p = MAKE_POLICY(rules);
	uint16_t ports[8];

	(void)state;
	assert_int_equal(policy_ports(p, STR("svc.test"), ports, 8), 5);
	assert_memory_equal(ports, expected, sizeof(expected));
	/* More than there is room for: told, not written. */
	memset(ports, 0, sizeof(ports));
	assert_int_equal(policy_ports(p, STR("svc.test"), ports, 2), 5);
	assert_int_equal(ports[1], 8000);
	assert_int_equal(ports[2], 0);
	assert_int_equal(policy_ports(p, STR("evil.example"), ports, 8), 0);
	assert_int_equal(policy_ports(p, STR_NONE, ports, 8), 0);
	policy_free(p);
}

static void path_rules_are_known_by_host(void **state)
{
	const struct test_rule rules[] = {
		{ .id = "plain", .hosts = { LIST("plain.test") } },
		{ .deny = true, .id = "gists", .hosts = { LIST("**.api.test") }, .paths = { LIST("/g") } },
	};
	const struct test_rule any = { .deny = true, .id = "any", .hosts = { LIST("**") },
				       .paths = { LIST("/g") } };
	struct policy *p = MAKE_POLICY(rules), *q = make_policy(&any, 1);

	(void)state;
	assert_false(policy_has_paths(p, STR("plain.test")));
	assert_false(policy_has_paths(p, STR("api.test")));
	assert_true(policy_has_paths(p, STR("a.b.api.test")));
	assert_false(policy_has_paths(p, STR_NONE));
	assert_true(policy_has_paths(q, STR("plain.test")));
	assert_true(policy_has_paths(q, STR_NONE));
	policy_free(p);
	policy_free(q);
}

/* F25 */
static void a_name_resolves_into_a_private_range_only_where_a_rule_says_so(void **state)
{
	static const char *const bad[] = { "169.254.169.254", "127.0.0.1", "10.0.0.5", "100.64.0.1",
					   "0.0.0.0", "fe80::1", "::1", "::ffff:10.20.0.1" };
	const struct test_rule rules[] = {
		{ .id = "all", .hosts = { LIST("*.test") }, .ports = { LIST("443") } },
		{ .id = "db", .hosts = { LIST("db.test") }, .ports = { LIST("5432") },
		  .resolves_to = { LIST("10.20.0.0/16") } },
		{ .deny = true, .id = "no", .hosts = { LIST("x.test") },
		  .resolves_to = { LIST("10.20.0.0/16") } },
	};
	struct policy *p = MAKE_POLICY(rules);
	struct facts x = { .host = STR("x.test") }, db = { .host = STR("db.test") };
	struct addr a;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_true(addr_parse(str_of(bad[i]), &a));
		assert_false(policy_resolve_ok(p, &x, &a));
		assert_false(policy_resolve_ok(p, &db, &a));
	}
	assert_true(addr_parse(STR("203.0.113.4"), &a));
	assert_true(policy_resolve_ok(p, &x, &a));
	assert_true(addr_parse(STR("10.20.3.4"), &a));
	assert_false(policy_resolve_ok(p, &x, &a));
	assert_true(policy_resolve_ok(p, &db, &a));
	/* At the connection the port is known, and the rule that names the range is not for it. */
	db.port = 443;
	assert_false(policy_resolve_ok(p, &db, &a));
	db.port = 5432;
	assert_true(policy_resolve_ok(p, &db, &a));
	policy_free(p);
}

struct seen {
	size_t n, stop_after;
	struct addr last;
	uint16_t last_port;
};

static bool see(void *arg, struct addr addr, uint16_t port)
{
	struct seen *s = arg;

	s->n++;
	s->last = addr;
	s->last_port = port;
	return s->n != s->stop_after;
}

static void literals_are_told_one_by_one(void **state)
{
	const struct test_rule rules[] = {
		{ .id = "a", .addresses = { LIST("203.0.113.0/28") }, .ports = { LIST("1-10") } },
		{ .deny = true, .id = "no", .addresses = { LIST("0.0.0.0/0") }, .ports = { LIST("1") } },
		{ .id = "b", .addresses = { LIST("255.255.255.255") }, .ports = { LIST("7") } },
	};
	struct policy *p = MAKE_POLICY(rules);
	struct seen all = { 0 }, some = { .stop_after = 3 };

	(void)state;
	policy_literals(p, see, &all);
	assert_int_equal(all.n, 161);
	assert_int_equal(addr_to_v4(&all.last), 0xffffffff);
	assert_int_equal(all.last_port, 7);
	policy_literals(p, see, &some);
	assert_int_equal(some.n, 3);
	policy_free(p);
}

static void literals_of_a_whole_stack_end_at_the_limit(void **state)
{
	const struct test_rule rule = { .id = "r", .addresses = { LIST("203.0.112.0/20") },
					.ports = { LIST("1") } };
	int fds[] = { make_image(&rule, 1), make_image(&rule, 1) };
	struct policy *p = map_images(fds, 2);
	struct seen all = { 0 };

	(void)state;
	policy_literals(p, see, &all);
	assert_int_equal(all.n, POLICY_LITERALS_MAX);
	policy_free(p);
}

/* F13: raw tcp is asked for before any byte, and an https rule for the same port says nothing of it. */
static void a_tcp_rule_matches_raw_tcp_and_nothing_else(void **state)
{
	const struct test_rule rules[] = {
		{ .id = "web", .hosts = { LIST("db.test") }, .ports = { LIST("443") },
		  .protos = PROTO_HTTPS },
		{ .id = "db", .hosts = { LIST("db.test") }, .ports = { LIST("5432") },
		  .protos = PROTO_TCP },
		{ .id = "licence", .addresses = { LIST("203.0.113.0/28") },
		  .ports = { LIST("27000-27009") }, .protos = PROTO_TCP },
	};
	struct policy *p = MAKE_POLICY(rules);
	struct facts f = { .host = STR("db.test") };
	uint16_t ports[4];
	struct seen all = { 0 };

	(void)state;
	assert_decides(p, f, VERDICT_UNDECIDED, "web");
	f.port = 5432;
	assert_decides(p, f, VERDICT_UNDECIDED, "db");
	f.proto = PROTO_TCP;
	assert_decides(p, f, VERDICT_ALLOW, "db");
	f.proto = PROTO_HTTPS;
	assert_decides(p, f, VERDICT_DENY, "default");
	f.proto = PROTO_HTTP;
	assert_decides(p, f, VERDICT_DENY, "default");
	f.port = 443;
	f.proto = PROTO_TCP;
	assert_decides(p, f, VERDICT_DENY, "default");
	assert_decides(p, literal("203.0.113.1", 27000), VERDICT_ALLOW, "licence");
	assert_int_equal(policy_ports(p, STR("db.test"), ports, 4), 2);
	assert_int_equal(ports[1], 5432);
	policy_literals(p, see, &all);
	assert_int_equal(all.n, 160);
	policy_free(p);
}

static void raw_tcp_is_known_by_target_and_port_whatever_is_denied(void **state)
{
	const struct test_rule rules[] = {
		{ .id = "db", .hosts = { LIST("db.test") }, .ports = { LIST("5432") },
		  .protos = PROTO_TCP },
		{ .id = "any", .hosts = { LIST("*.test") }, .ports = { LIST("443") } },
		{ .id = "licence", .addresses = { LIST("203.0.113.0/28") },
		  .ports = { LIST("27000") }, .protos = PROTO_TCP },
		{ .deny = true, .id = "no", .hosts = { LIST("db.test") } },
	};
	struct policy *p = MAKE_POLICY(rules);
	struct facts f = { .host = STR("db.test"), .port = 5432, .proto = PROTO_HTTPS }, at;

	(void)state;
	assert_true(policy_allows_raw(p, &f));
	f.port = 443;
	assert_false(policy_allows_raw(p, &f));
	f.port = 0;
	assert_true(policy_allows_raw(p, &f));
	f.host = STR("web.test");
	assert_false(policy_allows_raw(p, &f));
	at = literal("203.0.113.9", 27000);
	assert_true(policy_allows_raw(p, &at));
	at = literal("203.0.113.9", 27001);
	assert_false(policy_allows_raw(p, &at));
	at = literal("203.0.113.99", 27000);
	assert_false(policy_allows_raw(p, &at));
	policy_free(p);
}

static void a_passthrough_rule_is_decided_at_the_hello(void **state)
{
	const struct test_rule rules[] = {
		{ .id = "pinned", .hosts = { LIST("pin.test") }, .ports = { LIST("443") },
		  .protos = PROTO_HTTPS, .passthrough = true },
		{ .deny = true, .id = "net", .addresses = { LIST("203.0.113.0/24") } },
	};
	struct policy *p = MAKE_POLICY(rules);
	struct facts f = { .host = STR("pin.test"), .port = 443, .proto = PROTO_HTTPS };

	(void)state;
	/* Not before the address is known: a deny could still be for it. */
	assert_decides(p, f, VERDICT_UNDECIDED, "pinned");
	assert_true(policy_rule(p, policy_decide(p, &f).rule).passthrough);
	f.addr = literal("198.51.100.1", 1).addr;
	assert_decides(p, f, VERDICT_ALLOW, "pinned");
	f.addr = literal("203.0.113.1", 1).addr;
	assert_decides(p, f, VERDICT_DENY, "net");
	policy_free(p);
}

static void limits_of_all_rules_that_match_hold(void **state)
{
	const struct test_rule rules[] = {
		{ .id = "all", .hosts = { LIST("**.test", "a.test") }, .limits = { .concurrent = 9 } },
		{ .id = "free", .hosts = { LIST("a.test") } },
		{ .id = "get", .hosts = { LIST("a.test", "*.test") }, .methods = { LIST("GET") },
		  .limits = { .requests = 5, .per_s = 60, .upload = 1, .download = 2, .idle_s = 3,
			      .total_s = 4 } },
	};
	struct policy *p = MAKE_POLICY(rules);
	struct facts f = request("a.test", "GET", "/");
	struct rule_ref all[POLICY_LIMITS_MAX];
	struct rule_limits k;

	(void)state;
	assert_int_equal(policy_limits(p, &f, all, POLICY_LIMITS_MAX), 2);
	assert_int_equal(all[0].rule, 0);
	assert_int_equal(all[1].rule, 2);
	k = policy_rule(p, all[1]).limits;
	assert_int_equal(k.requests, 5);
	assert_int_equal(k.per_s, 60);
	assert_int_equal(k.concurrent, 0);
	assert_int_equal(k.upload, 1);
	assert_int_equal(k.download, 2);
	assert_int_equal(k.idle_s, 3);
	assert_int_equal(k.total_s, 4);
	assert_int_equal(policy_rule(p, (struct rule_ref){ 0, 1 }).limits.concurrent, 0);
	/* One that is only not known to say no yet does not count. */
	f.method = STR_NONE;
	assert_int_equal(policy_limits(p, &f, all, POLICY_LIMITS_MAX), 1);
	f = request("x.example", "GET", "/");
	assert_int_equal(policy_limits(p, &f, all, POLICY_LIMITS_MAX), 0);
	policy_free(p);
}

static void one_rule_is_asked_matcher_by_matcher(void **state)
{
	const struct test_rule rules[] = {
		{ .id = "read", .hosts = { LIST("api.test") }, .methods = { LIST("GET") },
		  .paths = { LIST("/a/*") } },
	};
	struct policy *p = MAKE_POLICY(rules);
	struct facts f = request("api.test", "POST", "");
	struct rule_answer a = policy_ask_rule(p, (struct rule_ref){ 0, 0 }, &f);

	(void)state;
	assert_int_equal(a.each[MATCH_HOST], ANSWER_YES);
	assert_int_equal(a.each[MATCH_PORT], ANSWER_YES);
	assert_int_equal(a.each[MATCH_METHOD], ANSWER_NO);
	assert_int_equal(a.each[MATCH_PATH], ANSWER_UNKNOWN);
	assert_int_equal(a.all, ANSWER_NO);
	a = policy_ask_rule(p, (struct rule_ref){ 7, 7 }, &f);
	assert_int_equal(a.all, ANSWER_NO);
	assert_string_equal(matcher_name(MATCH_METHOD), "method");
	policy_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_deny_wins_in_either_order),
		cmocka_unit_test(a_deny_wins_from_any_image_of_the_stack),
		cmocka_unit_test(the_first_rule_in_file_order_decides),
		cmocka_unit_test(a_name_that_only_ends_alike_is_refused),
		cmocka_unit_test(apex_and_names_below_it_are_apart),
		cmocka_unit_test(methods_and_paths_narrow_a_host),
		cmocka_unit_test(what_is_not_known_yet_leaves_it_open),
		cmocka_unit_test(an_allow_by_address_admits_literals_only),
		cmocka_unit_test(a_deny_by_address_holds_for_what_a_name_resolves_to),
		cmocka_unit_test(any_host_in_an_allow_is_no_literal_and_in_a_deny_it_is),
		cmocka_unit_test(ports_of_a_name_are_those_of_its_allow_rules),
		cmocka_unit_test(path_rules_are_known_by_host),
		cmocka_unit_test(a_name_resolves_into_a_private_range_only_where_a_rule_says_so),
		cmocka_unit_test(literals_are_told_one_by_one),
		cmocka_unit_test(literals_of_a_whole_stack_end_at_the_limit),
		cmocka_unit_test(a_tcp_rule_matches_raw_tcp_and_nothing_else),
		cmocka_unit_test(raw_tcp_is_known_by_target_and_port_whatever_is_denied),
		cmocka_unit_test(a_passthrough_rule_is_decided_at_the_hello),
		cmocka_unit_test(limits_of_all_rules_that_match_hold),
		cmocka_unit_test(one_rule_is_asked_matcher_by_matcher),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
