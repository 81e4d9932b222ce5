#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "make_policy.h"
#include "policy/image.h"

static const struct test_rule plain = { .id = "r", .hosts = { LIST("a.test") } };

static enum err build_one(const struct test_rule *rule)
{
	struct policy_build *b = policy_build_new(STR("f"), false);
	enum err e = add_rule(b, rule, 1);

	policy_build_free(b);
	return e;
}

static void what_goes_in_comes_out(void **state)
{
	const struct str bounds[] = { STR("api.test"), STR("*.x.test"), STR("**.y.test") };
	const struct build_credential c = { .name = STR("k"), .secret = STR("s"),
					    .kind = CREDENTIAL_HEADER, .header = STR("x-api-key"), .format = STR("token {}"),
					    .user = STR("u"), .foreign = FOREIGN_KEEP, .hosts = bounds,
					    .n_hosts = 3 };
	const struct str host = STR("api.test");
	struct build_rule r = { .id = STR("rule"), .reason = STR("why"), .line = 14, .hosts = &host,
				.n_hosts = 1, .deny = true, .has_foreign = true,
				.foreign = FOREIGN_REFUSE, .plaintext = true };
	struct policy_build *b = policy_build_new(STR("dir/p.yaml"), true);
	int fd = new_memfd();
	struct policy *p;
	struct rule_info info;
	struct credential_info k;

	(void)state;
	assert_int_equal(policy_build_credential(b, &c, &r.credential), OK);
	assert_int_equal(policy_build_rule(b, &r), OK);
	assert_int_equal(policy_build_finish(b, fd), OK);
	policy_build_free(b);
	p = map_images(&fd, 1);
	assert_true(policy_explains(p));
	assert_int_equal(policy_images(p), 1);
	assert_int_equal(policy_rules(p, 0), 1);
	info = policy_rule(p, (struct rule_ref){ 0, 0 });
	assert_true(str_eq(info.id, STR("rule")));
	assert_true(str_eq(info.reason, STR("why")));
	assert_true(str_eq(info.file, STR("dir/p.yaml")));
	assert_int_equal(info.line, 14);
	assert_true(info.deny && info.has_foreign && info.plaintext);
	assert_int_equal(info.foreign, FOREIGN_REFUSE);
	assert_int_equal(info.credential, 0);
	k = policy_credential(p, 0, 0);
	assert_true(str_eq(k.name, STR("k")));
	assert_true(str_eq(k.secret, STR("s")));
	assert_true(str_eq(k.header, STR("x-api-key")));
	assert_true(str_eq(k.format, STR("token {}")));
	assert_true(str_eq(k.user, STR("u")));
	assert_int_equal(k.kind, CREDENTIAL_HEADER);
	assert_int_equal(k.foreign, FOREIGN_KEEP);
	assert_true(policy_credential_bound(p, 0, 0, STR("api.test")));
	assert_true(policy_credential_bound(p, 0, 0, STR("a.x.test")));
	assert_true(policy_credential_bound(p, 0, 0, STR("a.b.y.test")));
	assert_false(policy_credential_bound(p, 0, 0, STR("x.test")));
	assert_false(policy_credential_bound(p, 0, 0, STR("evil.test")));
	assert_false(policy_credential_bound(p, 0, 0, STR_NONE));
	policy_free(p);
}

static void indices_out_of_bounds_are_nobody(void **state)
{
	struct policy *p = make_policy(&plain, 1);
	const struct rule_ref bad[] = { { 0, 1 }, { 1, 0 }, { UINT16_MAX, 0 }, { 0, RULE_DEFAULT } };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct rule_info info = policy_rule(p, bad[i]);

		assert_true(str_eq(info.id, STR("default")));
		assert_true(str_eq(info.file, STR("test.yaml")));
		assert_int_equal(info.line, 0);
		assert_int_equal(info.credential, NO_CREDENTIAL);
	}
	assert_int_equal(policy_rules(p, 1), 0);
	assert_int_equal(policy_credential(p, 0, 0).name.n, 0);
	assert_int_equal(policy_credential(p, 9, 0).name.n, 0);
	assert_false(policy_credential_bound(p, 0, NO_CREDENTIAL, STR("a.test")));
	assert_false(policy_credential_bound(p, 9, 0, STR("a.test")));
	policy_free(p);
}

static void the_same_calls_give_the_same_digest(void **state)
{
	const struct test_rule other = { .id = "r", .hosts = { LIST("b.test") } };
	struct policy *a = make_policy(&plain, 1), *b = make_policy(&plain, 1);
	struct policy *c = make_policy(&other, 1);
	int both[] = { make_image(&plain, 1), make_image(&plain, 1) };
	struct policy *stack = map_images(both, 2);

	(void)state;
	assert_int_equal(policy_digest(a).n, POLICY_DIGEST_HEX);
	assert_true(str_eq(policy_digest(a), policy_digest(b)));
	assert_false(str_eq(policy_digest(a), policy_digest(c)));
	assert_false(str_eq(policy_digest(a), policy_digest(stack)));
	policy_free(a);
	policy_free(b);
	policy_free(c);
	policy_free(stack);
}

static void the_image_is_sealed(void **state)
{
	int fd = make_image(&plain, 1);

	(void)state;
	assert_int_equal(fcntl(fd, F_GET_SEALS),
			 F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
	assert_int_equal(pwrite(fd, "x", 1, 0), -1);
	close(fd);
}

static void a_descriptor_that_cannot_be_sealed_is_a_system_error(void **state)
{
	struct policy_build *b = policy_build_new(STR("f"), false);
	int fd = memfd_create("policy", MFD_CLOEXEC);

	(void)state;
	assert_int_equal(add_rule(b, &plain, 1), OK);
	assert_int_equal(policy_build_finish(b, fd), ERR_SYSTEM);
	policy_build_free(b);
	close(fd);
}

static void ports_and_literals_of_allow_rules_are_limited(void **state)
{
	const struct test_rule ports = { .id = "r", .ports = { LIST("1-1024") } };
	const struct test_rule more_ports = { .id = "r", .ports = { LIST("1-1024", "2000") } };
	const struct test_rule denied = { .deny = true, .id = "r", .ports = { LIST("1-65535") },
					  .addresses = { LIST("0.0.0.0/0") } };
	const struct test_rule literals = { .id = "r", .ports = { LIST("1-16") },
					    .addresses = { LIST("203.0.113.0/24", "203.0.113.7") } };
	const struct test_rule more_literals = { .id = "r", .ports = { LIST("1-16") },
						 .addresses = { LIST("203.0.113.0/24", "198.51.100.0") } };
	const struct test_rule v6 = { .id = "r", .ports = { LIST("1") },
				      .addresses = { LIST("2001:db8::/32") } };

	(void)state;
	assert_int_equal(build_one(&ports), OK);
	assert_int_equal(build_one(&more_ports), ERR_LIMIT);
	assert_int_equal(build_one(&denied), OK);
	assert_int_equal(build_one(&literals), OK);
	assert_int_equal(build_one(&more_literals), ERR_LIMIT);
	assert_int_equal(build_one(&v6), ERR_LIMIT);
}

static void a_text_over_the_limit_fails_and_the_failure_stays(void **state)
{
	static char text[POLICY_TEXT_MAX + 2];
	struct test_rule rule = plain;
	struct policy_build *b = policy_build_new(STR("f"), false);
	int fd = new_memfd();

	(void)state;
	memset(text, 'x', POLICY_TEXT_MAX);
	rule.id = text;
	assert_int_equal(build_one(&rule), OK);
	text[POLICY_TEXT_MAX] = 'x';
	assert_int_equal(add_rule(b, &rule, 1), ERR_LIMIT);
	assert_int_equal(add_rule(b, &plain, 1), ERR_LIMIT);
	assert_int_equal(policy_build_finish(b, fd), ERR_LIMIT);
	policy_build_free(b);
	close(fd);
}

static void a_header_name_that_is_none_builds_no_image(void **state)
{
	static const char *const bad[] = { "", "X-Key", "x key", "x:y", "x\ny" };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const struct build_credential c = { .name = STR("k"), .kind = CREDENTIAL_HEADER,
						    .header = str_of(bad[i]) };
		struct policy_build *b = policy_build_new(STR("f"), false);
		int fd = new_memfd();
		uint32_t index;

		assert_int_equal(policy_build_credential(b, &c, &index), OK);
		assert_int_equal(policy_build_finish(b, fd), ERR_SYNTAX);
		policy_build_free(b);
		close(fd);
	}
}

static void a_policy_without_rules_is_one(void **state)
{
	struct policy *p = make_policy(NULL, 0);

	(void)state;
	assert_decides(p, request("a.test", "GET", "/"), VERDICT_DENY, "default");
	assert_decides(p, (struct facts){ 0 }, VERDICT_DENY, "default");
	assert_decides(p, literal("203.0.113.1", 1), VERDICT_DENY, "default");
	policy_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_goes_in_comes_out),
		cmocka_unit_test(indices_out_of_bounds_are_nobody),
		cmocka_unit_test(the_same_calls_give_the_same_digest),
		cmocka_unit_test(the_image_is_sealed),
		cmocka_unit_test(a_descriptor_that_cannot_be_sealed_is_a_system_error),
		cmocka_unit_test(ports_and_literals_of_allow_rules_are_limited),
		cmocka_unit_test(a_text_over_the_limit_fails_and_the_failure_stays),
		cmocka_unit_test(a_header_name_that_is_none_builds_no_image),
		cmocka_unit_test(a_policy_without_rules_is_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
