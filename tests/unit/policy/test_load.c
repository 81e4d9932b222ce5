#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "conf/buf.h"
#include "policy/load.h"

#define HEAD "exeat: 1\nprecedence: deny-over-allow\n"

static struct diags diags;
static struct policy *policy;
static struct load_env env;

static bool load(const char *text)
{
	int memfd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	bool loaded;

	assert_true(memfd >= 0);
	policy_free(policy);
	policy = NULL;
	diags_free(&diags);
	diags_init(&diags, STR("p.yaml"), str_of(text));
	loaded = policy_load(diags.file, diags.text, &env, memfd, &diags);
	assert_int_equal(loaded, diags.errors == 0);
	if (loaded)
		assert_int_equal(policy_map(&memfd, 1, &policy), OK);
	else
		assert_int_equal(lseek(memfd, 0, SEEK_END), 0);
	close(memfd);
	return loaded;
}

static bool says(enum diag_level level, const char *text)
{
	for (size_t i = 0; i < diags.n; i++)
		if (diags.items[i].level == level && strstr(diags.items[i].text, text))
			return true;
	return false;
}

static void refuse(const char *text, const char *reason)
{
	if (load(text))
		fail_msg("loads: %s", text);
	if (!says(DIAG_ERROR, reason))
		fail_msg("says \"%s\", not \"%s\"", diags.items[0].text, reason);
}

static enum verdict ask(const char *host, uint16_t port, const char *method, const char *path)
{
	struct facts f = { .host = str_of(host), .port = port, .method = str_of(method),
			   .path = str_of(path), .proto = port == 80 ? PROTO_HTTP : PROTO_HTTPS };

	return policy_decide(policy, &f).verdict;
}

static int setup(void **state)
{
	(void)state;
	env = (struct load_env){ 0 };
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	policy_free(policy);
	policy = NULL;
	diags_free(&diags);
	return 0;
}

static void a_policy_decides_as_it_reads(void **state)
{
	(void)state;
	assert_true(load(HEAD "refusal: explain\nallow:\n"
			 "  - {id: a, hosts: [api.test], methods: [GET], paths: [/repos/**]}\n"
			 "  - {id: h, hosts: [plain.test], protocol: http}\n"
			 "deny:\n  - {id: d, hosts: [api.test], paths: [/repos/secret/**], reason: no}\n"));
	assert_true(policy_explains(policy));
	assert_int_equal(ask("api.test", 443, "GET", "/repos/x"), VERDICT_ALLOW);
	assert_int_equal(ask("api.test", 443, "get", "/repos/x"), VERDICT_DENY);
	assert_int_equal(ask("api.test", 443, "POST", "/repos/x"), VERDICT_DENY);
	assert_int_equal(ask("api.test", 443, "GET", "/repos/secret/x"), VERDICT_DENY);
	assert_int_equal(ask("api.test", 8443, "GET", "/repos/x"), VERDICT_DENY);
	assert_int_equal(ask("api.test", 80, "GET", "/repos/x"), VERDICT_DENY);
	assert_int_equal(ask("plain.test", 80, "GET", "/"), VERDICT_ALLOW);
	assert_int_equal(ask("plain.test", 443, "GET", "/"), VERDICT_DENY);
}

static void a_rule_keeps_its_id_reason_and_line(void **state)
{
	struct rule_info info;

	(void)state;
	assert_true(load(HEAD "deny:\n  - hosts: [x.test]\n    id: first\n    reason: because\n"));
	info = policy_rule(policy, (struct rule_ref){ 0, 0 });
	assert_true(info.deny);
	assert_true(str_eq(info.id, STR("first")));
	assert_true(str_eq(info.reason, STR("because")));
	assert_true(str_eq(info.file, STR("p.yaml")));
	assert_int_equal(info.line, 4);
	assert_int_equal(info.credential, NO_CREDENTIAL);
}

static void credentials_are_filled_in(void **state)
{
	struct credential_info c;

	(void)state;
	assert_true(load(HEAD "credentials:\n"
			 "  a: {kind: bearer, secret: s, hosts: [a.test]}\n"
			 "  b: {kind: header, header: X-Api-Key, secret: t, hosts: [b.test], foreign: keep}\n"
			 "  c: {kind: basic, user: me, secret: u, hosts: [\"*.c.test\"], foreign: refuse}\n"
			 "allow:\n  - {id: r, hosts: [x.c.test], credential: c}\n"));
	c = policy_credential(policy, 0, 0);
	assert_int_equal(c.kind, CREDENTIAL_BEARER);
	assert_true(str_eq(c.header, STR("authorization")));
	assert_int_equal(c.foreign, FOREIGN_STRIP);
	c = policy_credential(policy, 0, 1);
	assert_int_equal(c.kind, CREDENTIAL_HEADER);
	assert_true(str_eq(c.header, STR("x-api-key")));
	assert_true(str_eq(c.format, STR("{}")));
	assert_int_equal(c.foreign, FOREIGN_KEEP);
	c = policy_credential(policy, 0, policy_rule(policy, (struct rule_ref){ 0, 0 }).credential);
	assert_int_equal(c.kind, CREDENTIAL_BASIC);
	assert_true(str_eq(c.user, STR("me")));
	assert_true(policy_credential_bound(policy, 0, 2, STR("x.c.test")));
	assert_false(policy_credential_bound(policy, 0, 2, STR("c.test")));
}

static void foreign_is_the_rules_word_or_its_credentials(void **state)
{
	struct rule_info info;

	(void)state;
	assert_true(load(HEAD "credentials:\n  c: {kind: bearer, secret: s, hosts: [\"*.x.test\"], foreign: refuse}\n"
			 "allow:\n  - {id: a, hosts: [a.x.test], credential: c}\n"
			 "  - {id: b, hosts: [b.x.test], credential: c, foreign: keep}\n"
			 "  - {id: c, hosts: [c.x.test], foreign: refuse}\n  - {id: d, hosts: [d.x.test]}\n"));
	info = policy_rule(policy, (struct rule_ref){ 0, 0 });
	assert_true(info.has_foreign && info.foreign == FOREIGN_REFUSE);
	info = policy_rule(policy, (struct rule_ref){ 0, 1 });
	assert_true(info.has_foreign && info.foreign == FOREIGN_KEEP);
	info = policy_rule(policy, (struct rule_ref){ 0, 2 });
	assert_true(info.has_foreign && info.foreign == FOREIGN_REFUSE);
	assert_false(policy_rule(policy, (struct rule_ref){ 0, 3 }).has_foreign);
}

/* F01 */
static void names_are_canonical_in_the_image(void **state)
{
	(void)state;
	assert_true(load(HEAD "allow:\n  - {id: a, hosts: [API.Test.]}\ndeny:\n  - {id: d, hosts: [BAD.api.TEST]}\n"));
	assert_int_equal(ask("api.test", 443, "GET", "/"), VERDICT_ALLOW);
	assert_int_equal(ask("bad.api.test", 443, "GET", "/"), VERDICT_DENY);
}

/* F06 */
static void a_suffix_is_cut_at_a_label(void **state)
{
	(void)state;
	assert_true(load(HEAD "allow:\n  - {id: a, hosts: [trusted.test, \"*.trusted.test\"]}\n"));
	assert_int_equal(ask("a.trusted.test", 443, "GET", "/"), VERDICT_ALLOW);
	assert_int_equal(ask("eviltrusted.test", 443, "GET", "/"), VERDICT_DENY);
	assert_int_equal(ask("trusted.test.evil.test", 443, "GET", "/"), VERDICT_DENY);
	assert_int_equal(ask("xtrusted.test", 443, "GET", "/"), VERDICT_DENY);
}

/* F17 */
static void an_allow_under_a_deny_of_everything_is_warned_of(void **state)
{
	(void)state;
	assert_true(load(HEAD "deny:\n  - {id: all, hosts: [\"**\"]}\nallow:\n  - {id: a, hosts: [api.test]}\n"));
	assert_true(says(DIAG_WARNING, "can never fire: \"all\""));
	assert_int_equal(ask("api.test", 443, "GET", "/"), VERDICT_DENY);
}

/* F20 */
static void secrets_alone_let_nothing_through(void **state)
{
	(void)state;
	assert_true(load(HEAD "credentials:\n  c: {kind: bearer, secret: s, hosts: [api.test]}\n"));
	assert_true(says(DIAG_WARNING, "everything is refused"));
	assert_int_equal(ask("api.test", 443, "GET", "/"), VERDICT_DENY);
}

static void allows_that_differ_must_not_meet(void **state)
{
	(void)state;
	refuse(HEAD "credentials:\n  c: {kind: bearer, secret: s, hosts: [\"*.x.test\"]}\nallow:\n"
	       "  - {id: a, hosts: [\"*.x.test\"], credential: c}\n  - {id: b, hosts: [api.x.test]}\n",
	       "\"b\" and \"a\" (line 6) can match one request and differ in their credential");
	refuse(HEAD "allow:\n  - {id: a, hosts: [\"**.x.test\"]}\n"
	       "  - {id: b, hosts: [\"*.y.x.test\"], ports: [443], protocol: http}\n", "differ in their protocol");
	assert_true(load(HEAD "allow:\n  - {id: a, hosts: [x.test], paths: [/a/**]}\n"
			 "  - {id: b, hosts: [x.test], paths: [/b/**], protocol: http, ports: [443]}\n"
			 "  - {id: c, hosts: [x.test], protocol: http}\n"));
	assert_true(load(HEAD "allow:\n  - {id: a, hosts: [x.test], methods: [GET]}\n"
			 "  - {id: b, hosts: [x.test], methods: [PUT], protocol: http, ports: [443]}\n"));
}

static void overlaps_by_address_are_found(void **state)
{
	(void)state;
	refuse(HEAD "allow:\n  - {id: a, addresses: [203.0.113.0/24], ports: [80]}\n"
	       "  - {id: b, addresses: [203.0.113.7], protocol: http}\n", "differ in their protocol");
	assert_true(load(HEAD "allow:\n  - {id: a, addresses: [203.0.113.7]}\n"
			 "deny:\n  - {id: d, addresses: [203.0.113.0/24]}\n"));
	assert_true(says(DIAG_WARNING, "can never fire"));
	assert_true(load(HEAD "allow:\n  - {id: a, addresses: [203.0.113.7]}\n"
			 "deny:\n  - {id: d, addresses: [198.51.100.0/24]}\n"));
	assert_int_equal(diags.n, 0);
}

static void what_is_not_opened_reads_as_it_decides(void **state)
{
	struct facts raw = { .host = STR("db.test"), .port = 5432, .proto = PROTO_TCP };
	struct facts hello = { .host = STR("pin.test"), .port = 443, .proto = PROTO_HTTPS };
	struct rule_info r;

	(void)state;
	assert_true(load(HEAD "allow:\n"
			 "  - {id: pin, hosts: [pin.test], tls: passthrough, limits: {concurrent: 2}}\n"
			 "  - {id: db, hosts: [db.test], ports: [5432], protocol: tcp}\n"
			 "  - {id: web, hosts: [db.test], limits: {requests: 60/min, concurrent: 8, "
			 "upload: 10MiB, download: 1GiB, idle: 1h, total: 15m}}\n"));
	r = policy_rule(policy, policy_decide(policy, &hello).rule);
	assert_true(r.passthrough && r.limits.concurrent == 2);
	assert_int_equal(policy_decide(policy, &raw).verdict, VERDICT_ALLOW);
	raw.proto = PROTO_HTTPS;
	assert_int_equal(policy_decide(policy, &raw).verdict, VERDICT_DENY);
	r = policy_rule(policy, (struct rule_ref){ 0, 2 });
	assert_false(r.passthrough);
	assert_int_equal(r.limits.requests, 60);
	assert_int_equal(r.limits.per_s, 60);
	assert_int_equal(r.limits.upload, 10 << 20);
	assert_int_equal(r.limits.download, 1 << 30);
	assert_int_equal(r.limits.idle_s, 3600);
	assert_int_equal(r.limits.total_s, 900);
}

/* A deny of any host is one of any address, too. */
static void a_deny_of_everything_covers_rules_by_address(void **state)
{
	(void)state;
	assert_true(load(HEAD "allow:\n  - {id: a, addresses: [203.0.113.7]}\n"
			      "deny:\n  - {id: d, hosts: [\"**\"]}\n"));
	assert_true(says(DIAG_WARNING, "this rule can never fire"));
	assert_true(load(HEAD "allow:\n  - {id: a, addresses: [203.0.113.7]}\n"
			      "deny:\n  - {id: d, hosts: [\"**\"], addresses: [198.51.100.1]}\n"));
	assert_true(says(DIAG_WARNING, "this rule can never fire"));
}

static void put_limited(struct buf *text, unsigned n, const char *host)
{
	for (unsigned i = 0; i < n; i++)
		buf_printf(text, "  - {id: %s%u, hosts: [%s%u.%s.test], limits: {concurrent: 1}}\n", host, i,
			   host, i, host);
}

static void rules_with_limits_are_counted(void **state)
{
	struct buf text;

	(void)state;
	buf_init(&text, 1u << 20);
	buf_put_str(&text, STR(HEAD "allow:\n"));
	put_limited(&text, POLICY_LIMITED_MAX, "a");
	buf_put_c(&text, '\0');
	assert_true(load(text.p));
	text.n--;
	put_limited(&text, 1, "b");
	buf_put_c(&text, '\0');
	refuse(text.p, "a policy has at most 1024 rules with limits");
	buf_free(&text);
}

/* ---- drawn policies: what loads never leaves it open how a connection is treated ---- */

static uint64_t dice_state = 0x853c49e6748fea9bu;

static unsigned dice(unsigned sides)
{
	dice_state ^= dice_state << 13;
	dice_state ^= dice_state >> 7;
	dice_state ^= dice_state << 17;
	return (unsigned)(dice_state >> 33) % sides;
}

#define PICK(...) (((const char *const[]){ __VA_ARGS__ })[dice(sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))])

static void draw_rule(struct buf *text, unsigned i, bool deny)
{
	bool plain = dice(2), named = deny ? dice(3) : dice(4);

	buf_printf(text, "  - {id: r%u", i);
	if (named)
		buf_printf(text, ", hosts: [%s]", PICK("a.x.test", "b.x.test", "\"*.x.test\"", "c.b.x.test",
						       "\"**.x.test\"", "\"**.b.x.test\""));
	else if (!deny || dice(2))
		buf_printf(text, ", addresses: [%s]", PICK("203.0.113.7", "203.0.113.0/28", "198.51.100.7"));
	else
		buf_printf(text, ", hosts: [\"**\"]");
	if (!deny && plain)
		buf_printf(text, ", ports: [%s], %s", PICK("443", "5432", "440-450"),
			   PICK("protocol: tcp", "tls: passthrough"));
	else if (dice(2))
		buf_printf(text, ", ports: [%s]", PICK("443", "5432", "5430-5440"));
	if (deny && dice(3) == 0)
		buf_printf(text, ", protocol: https");
	if ((deny || !plain) && dice(2))
		buf_printf(text, ", methods: [%s]", PICK("GET", "POST"));
	if ((deny || !plain) && dice(3) == 0)
		buf_printf(text, ", paths: [%s]", PICK("/a/**", "/a"));
	if (!deny && dice(2))
		buf_printf(text, ", limits: {%s}", PICK("concurrent: 1", "idle: 1m"));
	buf_printf(text, "}\n");
}

static struct facts draw_connection(void)
{
	struct facts f = { .port = dice(2) ? 443 : 5432, .proto = dice(2) ? PROTO_TCP : PROTO_HTTPS };

	f.literal = dice(3) == 0;
	assert_true(addr_parse(str_of(PICK("203.0.113.7", "203.0.113.1", "198.51.100.7", "192.0.2.1")), &f.addr));
	if (!f.literal)
		f.host = str_of(PICK("a.x.test", "b.x.test", "c.b.x.test", "x.test"));
	return f;
}

/* All allows that may still say yes to a connection agree on what it is; and where it is not to be
 * opened, it is decided by what is known of it. (A deny by address alone is no matter of the file:
 * which names resolve there, it does not say.) */
static void check_connection(struct facts f)
{
	int treated = -1;
	struct decision d = policy_decide(policy, &f);

	for (uint32_t i = 0; i < policy_rules(policy, 0); i++) {
		struct rule_ref ref = { 0, i };
		struct rule_info r = policy_rule(policy, ref);

		if (r.deny || policy_ask_rule(policy, ref, &f).all == ANSWER_NO)
			continue;
		assert_true(treated < 0 || treated == (int)r.passthrough);
		treated = r.passthrough;
	}
	if (f.literal && (treated == 1 || (treated == 0 && f.proto == PROTO_TCP)))
		assert_int_not_equal(d.verdict, VERDICT_UNDECIDED);
	if (f.proto != PROTO_TCP || treated < 0)
		return;
	/* What is raw TCP is nothing else. */
	f.proto = PROTO_HTTPS;
	assert_int_equal(policy_decide(policy, &f).verdict, VERDICT_DENY);
}

static void what_loads_says_how_each_connection_is_treated(void **state)
{
	size_t loaded = 0, refused = 0;

	(void)state;
	for (size_t i = 0; i < 6000; i++) {
		struct buf text;
		unsigned allows = 1 + dice(3), denies = dice(3);

		buf_init(&text, 1u << 16);
		buf_put_str(&text, STR(HEAD "allow:\n"));
		for (unsigned r = 0; r < allows; r++)
			draw_rule(&text, r, false);
		if (denies)
			buf_put_str(&text, STR("deny:\n"));
		for (unsigned r = 0; r < denies; r++)
			draw_rule(&text, allows + r, true);
		buf_put_c(&text, '\0');
		if (load(text.p)) {
			loaded++;
			for (size_t k = 0; k < 20; k++)
				check_connection(draw_connection());
		} else {
			refused++;
			if (!says(DIAG_ERROR, "differ in their") && !says(DIAG_ERROR, "would not be seen"))
				fail_msg("%s: %s", diags.items[0].text, text.p);
		}
		buf_free(&text);
	}
	assert_true(loaded > 1000 && refused > 1000);
}

static void secrets_stay_inside_the_operators_bounds(void **state)
{
	static const struct str hosts[] = { { "api.test", 8 }, { "**.x.test", 9 } };
	static const struct secret_bound secret = { { "s", 1 }, hosts, 2 };

	(void)state;
	env = (struct load_env){ &secret, 1, true };
	assert_true(load(HEAD "credentials:\n  c: {kind: bearer, secret: s, hosts: [api.test, \"*.x.test\"]}\n"
			 "allow:\n  - {id: a, hosts: [api.test], credential: c}\n"));
	assert_false(says(DIAG_NOTE, "no settings"));
	refuse(HEAD "credentials:\n  c: {kind: bearer, secret: s, hosts: [evil.test]}\n",
	       "do not let the secret \"s\" go to \"evil.test\"");
	refuse(HEAD "credentials:\n  c: {kind: bearer, secret: t, hosts: [api.test]}\n",
	       "have no secret \"t\"");
	env.secrets_known = false;
	assert_true(load(HEAD "credentials:\n  c: {kind: bearer, secret: t, hosts: [api.test]}\n"));
	assert_true(says(DIAG_NOTE, "no settings were read"));
}

static void limits_hold_at_their_edge(void **state)
{
	(void)state;
	assert_true(load(HEAD "allow:\n  - {id: a, hosts: [x.test], ports: [1-1024]}\n"));
	refuse(HEAD "allow:\n  - {id: a, hosts: [x.test], ports: [1-1025]}\n",
	       "at most 1024 ports");
	assert_true(load(HEAD "deny:\n  - {id: a, hosts: [x.test], ports: [1-65535]}\n"));
	assert_true(load(HEAD "allow:\n  - {id: a, addresses: [203.0.112.0/22], ports: [1-4]}\n"));
	refuse(HEAD "allow:\n  - {id: a, addresses: [203.0.112.0/22], ports: [1-4]}\n"
	       "  - {id: b, addresses: [198.51.100.1]}\n", "more than 4096 pairs");
	assert_true(load(HEAD "allow:\n  - {id: a, hosts: [x.test], ports: [1-600]}\n"
			 "  - {id: b, hosts: [\"**.test\"], any_tenant: true, ports: [1-1024]}\n"));
	refuse(HEAD "allow:\n  - {id: a, hosts: [x.test], ports: [1025]}\n"
	       "  - {id: b, hosts: [\"**.test\"], any_tenant: true, ports: [1-1024]}\n",
	       "allow more than 1024 ports of \"x.test\"");
}

static void many_rules_for_one_host_are_refused_not_skipped(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 8 << 20);
	buf_put_str(&b, STR(HEAD "allow:\n"));
	for (int i = 0; i < 16000; i++)
		buf_printf(&b, "  - {id: r%d, hosts: [h.test]}\n", i);
	buf_put_c(&b, '\0');
	refuse(b.p, "too many rules stand for the same hosts");
	buf_free(&b);
}

static void long_lists_are_read_in_one_go(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 8 << 20);
	buf_put_str(&b,
		    STR(HEAD "allow:\n  - {id: a, hosts: [\"**\"], any_host: true}\ndeny:\n  - id: big\n    hosts:\n"));
	for (int i = 0; i < 50000; i++)
		buf_printf(&b, "      - h%d.example.test\n      - same.test\n", i);
	buf_put_c(&b, '\0');
	assert_true(load(b.p));
	assert_int_equal(ask("h49999.example.test", 443, "GET", "/"), VERDICT_DENY);
	assert_int_equal(ask("h50000.example.test", 443, "GET", "/"), VERDICT_ALLOW);
	buf_free(&b);
}

static void a_file_over_the_limit_is_refused_unread(void **state)
{
	static char text[POLICY_FILE_MAX + 2];

	(void)state;
	memset(text, '#', POLICY_FILE_MAX + 1);
	refuse(text, "larger than 64 MiB");
}

static void all_errors_of_a_file_come_at_once(void **state)
{
	(void)state;
	assert_false(load("exeat: 2\nallow:\n  - {id: A, hosts: [\"*.com\"], ports: [0]}\n  - {hosts: [x.test]}\n"));
	assert_int_equal(diags.errors, 6);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, setup)
	const struct CMUnitTest tests[] = {
		CASE(a_policy_decides_as_it_reads),
		CASE(a_rule_keeps_its_id_reason_and_line),
		CASE(credentials_are_filled_in),
		CASE(foreign_is_the_rules_word_or_its_credentials),
		CASE(names_are_canonical_in_the_image),
		CASE(a_suffix_is_cut_at_a_label),
		CASE(an_allow_under_a_deny_of_everything_is_warned_of),
		CASE(secrets_alone_let_nothing_through),
		CASE(allows_that_differ_must_not_meet),
		CASE(overlaps_by_address_are_found),
		CASE(what_is_not_opened_reads_as_it_decides),
		CASE(a_deny_of_everything_covers_rules_by_address),
		CASE(rules_with_limits_are_counted),
		CASE(what_loads_says_how_each_connection_is_treated),
		CASE(secrets_stay_inside_the_operators_bounds),
		CASE(limits_hold_at_their_edge),
		CASE(many_rules_for_one_host_are_refused_not_skipped),
		CASE(long_lists_are_read_in_one_go),
		CASE(a_file_over_the_limit_is_refused_unread),
		CASE(all_errors_of_a_file_come_at_once),
	};
#undef CASE

	return cmocka_run_group_tests(tests, NULL, teardown);
}
