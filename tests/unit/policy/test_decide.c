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

/* ---- drawn policies against an evaluator written only for this ---- */

static uint64_t dice_state;

static unsigned dice(unsigned sides)
{
	dice_state ^= dice_state << 13;
	dice_state ^= dice_state >> 7;
	dice_state ^= dice_state << 17;
	return (unsigned)(dice_state >> 33) % sides;
}

static const char *const host_pool[] = { "a.test", "b.a.test", "c.b.a.test", "*.a.test", "**.a.test",
					 "*.b.a.test", "**.b.a.test", "**.test", "**", "x.y", "*.test" };
static const char *const name_pool[] = { "a.test", "b.a.test", "c.b.a.test", "d.c.b.a.test", "x.y",
					 "xa.test", "test", "a.test.x" };
static const char *const range_pool[] = { "203.0.113.0/24", "203.0.113.7", "0.0.0.0/0",
					  "2001:db8::/32", "198.51.100.0/24", "203.0.113.0/28" };
static const char *const addr_pool[] = { "203.0.113.7", "203.0.113.200", "198.51.100.3", "2001:db8::1",
					 "192.0.2.1", "2001:db9::" };
static const char *const method_pool[] = { "GET", "POST", "get" };
static const char *const path_pool[] = { "/a/**", "/a/*", "/**/b", "/a", "/**", "/a*c" };
static const char *const request_path_pool[] = { "/a", "/a/b", "/a/b/c", "/abc", "/", "/a/" };
static const char *const port_pool[] = { "443", "80-90", "1-300", "8443" };
static const uint16_t request_port_pool[] = { 443, 85, 8443, 9000 };

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define DRAWN_RULES 5
#define DRAWN_ITEMS 3

struct drawn {
	struct test_rule rules[DRAWN_RULES];
	const char *items[DRAWN_RULES][6][DRAWN_ITEMS + 1];
	size_t n;
};

static struct texts draw_list(const char *const *pool, size_t pool_n, const char **items,
			      unsigned odds)
{
	size_t n = dice(odds) == 0 ? 1 + dice(DRAWN_ITEMS) : 0;

	for (size_t i = 0; i < n; i++)
		items[i] = pool[dice((unsigned)pool_n)];
	items[n] = NULL;
	return (struct texts){ n ? items : NULL };
}

#define DRAW(pool, slot, odds) draw_list(pool, COUNT(pool), d->items[i][slot], odds)

/* What an allow may have, and what it may not have where it is not opened. */
static void draw_allow(struct test_rule *r)
{
	r->passthrough = dice(6) == 0;
	if (r->passthrough)
		r->protos = PROTO_HTTPS;
	if (r->passthrough || (r->protos & PROTO_TCP))
		r->methods = r->paths = (struct texts){ 0 };
	if (dice(2))
		r->limits.concurrent = 1 + dice(9);
}

static void draw_policy(struct drawn *d)
{
	d->n = 1 + dice(DRAWN_RULES);
	for (size_t i = 0; i < d->n; i++) {
		struct test_rule *r = &d->rules[i];

		*r = (struct test_rule){ .deny = dice(5) < 2, .id = "r", .reason = "" };
		r->hosts = DRAW(host_pool, 0, dice(4) ? 1 : 2);
		/* An allow may expand to no more literals than the limit: it has no port then. */
		r->addresses = DRAW(range_pool, 1, 4);
		r->methods = DRAW(method_pool, 2, 3);
		r->paths = DRAW(path_pool, 3, 3);
		if (r->deny || !r->addresses.v)
			r->ports = DRAW(port_pool, 4, 2);
		r->protos = dice(3) ? 0 : 1 + dice(7);
		if (!r->deny)
			draw_allow(r);
	}
}

static struct facts draw_facts(void)
{
	struct facts f = { .port = request_port_pool[dice(COUNT(request_port_pool))],
			   .proto = (enum proto)(1u << dice(3)) };

	f.literal = dice(4) == 0;
	if (f.literal || dice(2))
		addr_parse(str_of(addr_pool[dice(COUNT(addr_pool))]), &f.addr);
	if (!f.literal)
		f.host = str_of(name_pool[dice(COUNT(name_pool))]);
	f.method = str_of(method_pool[dice(COUNT(method_pool))]);
	f.path = str_of(request_path_pool[dice(COUNT(request_path_pool))]);
	return f;
}

/* Some facts are not known yet. The target is forgotten whole: name and literal are one fact. */
static struct facts forget(struct facts f, unsigned mask)
{
	if (mask & 1) {
		f.host = STR_NONE;
		if (f.literal)
			f.addr = (struct addr){ 0 };
		f.literal = false;
	}
	if (mask & 2)
		f.port = 0;
	if (mask & 4)
		f.proto = PROTO_UNKNOWN;
	if (mask & 8)
		f.method = STR_NONE;
	if (mask & 16)
		f.path = STR_NONE;
	if ((mask & 32) && !f.literal)
		f.addr = (struct addr){ 0 };
	return f;
}

/* Names written out by hand: one table instead of a hash, "*" and "**" by counting dots. */
static bool naive_host(const char *pattern, struct str name)
{
	size_t dots = 0, n = strlen(pattern);
	bool many = strncmp(pattern, "**.", 3) == 0, one = !many && strncmp(pattern, "*.", 2) == 0;
	size_t skip = many ? 2 : one ? 1 : 0;

	if (strcmp(pattern, "**") == 0)
		return true;
	if (!skip)
		return n == name.n && memcmp(pattern, name.p, n) == 0;
	pattern += skip;
	n -= skip;
	if (name.n <= n || memcmp(name.p + name.n - n, pattern, n) != 0)
		return false;
	for (size_t i = 0; i < name.n - n; i++)
		dots += name.p[i] == '.';
	return many || dots == 0;
}

static int naive_target(const struct test_rule *r, const struct facts *f)
{
	int hosts = -1, addresses = -1;
	struct addr_range range;

	for (size_t i = 0; r->hosts.v && r->hosts.v[i]; i++) {
		bool any = strcmp(r->hosts.v[i], "**") == 0;
		int a = f->literal ? 0 : f->host.n == 0 ? 1 : 2 * naive_host(r->hosts.v[i], f->host);

		if (any && r->deny)
			a = 2;
		hosts = a > hosts ? a : hosts;
	}
	for (size_t i = 0; r->addresses.v && r->addresses.v[i]; i++) {
		int a = 1;

		addr_range_parse(str_of(r->addresses.v[i]), &range);
		if (!r->deny && !f->literal)
			a = f->host.n ? 0 : 1;
		else if (f->addr.family)
			a = addr_in_range(&f->addr, &range) ? 2 : 0;
		addresses = a > addresses ? a : addresses;
	}
	if (hosts < 0 && addresses < 0)
		return 2;
	return hosts > addresses ? hosts : addresses;
}

typedef bool naive_match(const char *text, const struct facts *f);

static int naive_list(struct texts list, bool is_known, naive_match *match, const struct facts *f)
{
	if (!list.v)
		return 2;
	if (!is_known)
		return 1;
	for (size_t i = 0; list.v[i]; i++)
		if (match(list.v[i], f))
			return 2;
	return 0;
}

static bool naive_port(const char *text, const struct facts *f)
{
	char *end;
	unsigned long first = strtoul(text, &end, 10);
	unsigned long last = *end ? strtoul(end + 1, NULL, 10) : first;

	return f->port >= first && f->port <= last;
}

static bool naive_method(const char *text, const struct facts *f)
{
	return str_eq(str_of(text), f->method);
}

/* By recursion; the pool's paths have no escapes. */
static bool naive_glob(const char *p, const char *s)
{
	if (strncmp(p, "/**", 3) == 0 && (p[3] == '/' || !p[3])) {
		if (naive_glob(p + 3, s))
			return true;
		return *s == '/' && naive_glob(p, s + 1 + strcspn(s + 1, "/"));
	}
	if (*p == '*')
		return naive_glob(p + 1, s) || (*s && *s != '/' && naive_glob(p, s + 1));
	return *p == *s && (!*p || naive_glob(p + 1, s + 1));
}

static bool naive_path(const char *text, const struct facts *f)
{
	return naive_glob(text, f->path.p);
}

static int naive_rule(const struct test_rule *r, const struct facts *f)
{
	int all[] = { naive_target(r, f), naive_list(r->ports, f->port, naive_port, f),
		      naive_list(r->methods, f->method.n, naive_method, f),
		      naive_list(r->paths, f->path.n, naive_path, f),
		      !r->protos ? 2 : !f->proto ? 1 : r->protos & f->proto ? 2 : 0 };
	int least = 2;

	for (size_t i = 0; i < COUNT(all); i++)
		least = all[i] < least ? all[i] : least;
	return least;
}

static struct decision naive_decide(const struct drawn *d, const struct facts *f)
{
	struct decision deny = { VERDICT_DENY, { 0, RULE_DEFAULT } };
	struct decision yes = { VERDICT_ALLOW, { 0, RULE_DEFAULT } };
	struct decision maybe = { VERDICT_UNDECIDED, { 0, RULE_DEFAULT } };
	bool deny_unknown = false;

	for (uint32_t i = (uint32_t)d->n; i-- > 0;) {
		int a = naive_rule(&d->rules[i], f);

		if (d->rules[i].deny) {
			deny_unknown |= a == 1;
			if (a == 2)
				deny.rule.rule = i;
			continue;
		}
		if (a >= 1)
			maybe.rule.rule = i;
		if (a == 2)
			yes.rule.rule = i;
	}
	if (deny.rule.rule != RULE_DEFAULT)
		return deny;
	if (yes.rule.rule != RULE_DEFAULT && !deny_unknown)
		return yes;
	return maybe.rule.rule != RULE_DEFAULT ? maybe : deny;
}

static void assert_same(struct decision a, struct decision b)
{
	assert_int_equal(a.verdict, b.verdict);
	assert_int_equal(a.rule.image, b.rule.image);
	assert_int_equal(a.rule.rule, b.rule.rule);
}

#define DRAWS 200000
#define DRAWS_A_POLICY 20

/* Every rule alone answers as in the naive reading, too: it is what explain shows. */
static void assert_rules_agree(const struct policy *p, const struct drawn *d, const struct facts *f)
{
	for (uint32_t i = 0; i < d->n; i++) {
		struct rule_answer a = policy_ask_rule(p, (struct rule_ref){ 0, i }, f);

		assert_int_equal(a.all, naive_rule(&d->rules[i], f));
	}
}

/* The limits that hold are those of every allow that says yes, in the order of the file. */
static void assert_limits_agree(const struct policy *p, const struct drawn *d,
				const struct facts *f)
{
	struct rule_ref all[DRAWN_RULES], first[1];
	size_t n = policy_limits(p, f, all, DRAWN_RULES), at = 0;

	for (uint32_t i = 0; i < d->n; i++) {
		if (!d->rules[i].limits.concurrent || naive_rule(&d->rules[i], f) != 2)
			continue;
		assert_true(at < n);
		assert_int_equal(all[at].image, 0);
		assert_int_equal(all[at++].rule, i);
	}
	assert_int_equal(at, n);
	assert_int_equal(policy_limits(p, f, first, 1) > 1, n > 1);
	if (n > 0)
		assert_int_equal(first[0].rule, all[0].rule);
	assert_int_equal(policy_limits(p, f, NULL, 0) > 0, n > 0);
}

static void a_second_evaluator_agrees_on_drawn_policies(void **state)
{
	struct drawn d;

	(void)state;
	dice_state = 0x9e3779b97f4a7c15u;
	for (size_t i = 0; i < DRAWS / DRAWS_A_POLICY; i++) {
		struct policy *p;

		draw_policy(&d);
		p = make_policy(d.rules, d.n);
		for (size_t k = 0; k < DRAWS_A_POLICY; k++) {
			struct facts f = forget(draw_facts(), dice(2) ? dice(64) : 0);

			assert_same(policy_decide(p, &f), naive_decide(&d, &f));
			assert_rules_agree(p, &d, &f);
			assert_limits_agree(p, &d, &f);
		}
		policy_free(p);
	}
}

static void a_step_with_fewer_facts_never_contradicts_a_later_one(void **state)
{
	struct drawn d;

	(void)state;
	dice_state = 0xd1b54a32d192ed03u;
	for (size_t i = 0; i < DRAWS / DRAWS_A_POLICY / 4; i++) {
		struct policy *p;

		draw_policy(&d);
		p = make_policy(d.rules, d.n);
		for (size_t k = 0; k < DRAWS_A_POLICY; k++) {
			struct facts full = draw_facts();
			enum verdict last = policy_decide(p, &full).verdict;

			for (unsigned mask = 1; mask < 64; mask++) {
				struct facts part = forget(full, mask);
				enum verdict early = policy_decide(p, &part).verdict;

				if (early != VERDICT_UNDECIDED && last != VERDICT_UNDECIDED)
					assert_int_equal(early, last);
				if (early == VERDICT_DENY)
					assert_int_equal(last, VERDICT_DENY);
			}
		}
		policy_free(p);
	}
}

static void a_deny_more_never_allows_anything(void **state)
{
	struct drawn d;

	(void)state;
	dice_state = 0x2545f4914f6cdd1du;
	for (size_t i = 0; i < DRAWS / DRAWS_A_POLICY / 4; i++) {
		struct policy *with, *without;

		do
			draw_policy(&d);
		while (d.n < 2);
		d.rules[d.n - 1].deny = true;
		d.rules[d.n - 1].passthrough = false;
		d.rules[d.n - 1].limits = (struct rule_limits){ 0 };
		without = make_policy(d.rules, d.n - 1);
		with = make_policy(d.rules, d.n);
		for (size_t k = 0; k < DRAWS_A_POLICY; k++) {
			struct facts f = forget(draw_facts(), dice(64));
			enum verdict before = policy_decide(without, &f).verdict;
			enum verdict after = policy_decide(with, &f).verdict;

			if (after == VERDICT_ALLOW)
				assert_int_equal(before, VERDICT_ALLOW);
			if (before == VERDICT_DENY)
				assert_int_equal(after, VERDICT_DENY);
		}
		policy_free(without);
		policy_free(with);
	}
}

static void a_stack_decides_as_one_file_would(void **state)
{
	struct drawn d;

	(void)state;
	dice_state = 0x6c62272e07bb0142u;
	for (size_t i = 0; i < DRAWS / DRAWS_A_POLICY / 4; i++) {
		struct policy *one, *stack;
		int fds[2];
		size_t cut;

		do
			draw_policy(&d);
		while (d.n < 2);
		cut = 1 + dice((unsigned)d.n - 1);
		one = make_policy(d.rules, d.n);
		fds[0] = make_image(d.rules, cut);
		fds[1] = make_image(d.rules + cut, d.n - cut);
		stack = map_images(fds, 2);
		for (size_t k = 0; k < DRAWS_A_POLICY; k++) {
			struct facts f = forget(draw_facts(), dice(64));
			struct decision a = policy_decide(one, &f), b = policy_decide(stack, &f);

			assert_int_equal(a.verdict, b.verdict);
			if (b.rule.rule != RULE_DEFAULT && b.rule.image == 1)
				b.rule = (struct rule_ref){ 0, b.rule.rule + (uint32_t)cut };
			assert_same(a, b);
		}
		policy_free(one);
		policy_free(stack);
	}
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
		cmocka_unit_test(a_second_evaluator_agrees_on_drawn_policies),
		cmocka_unit_test(a_step_with_fewer_facts_never_contradicts_a_later_one),
		cmocka_unit_test(a_deny_more_never_allows_anything),
		cmocka_unit_test(a_stack_decides_as_one_file_would),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
