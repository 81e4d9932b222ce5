#include "tests/unit/policy/make_policy.h"
#include "tests/unit/proxy/names_world.h"

#include "proxy/audit.h"
#include "proxy/worker.h"

static const struct test_rule rules[] = {
	{ .id = "api", .reason = "needed", .hosts = { LIST("api.test") }, .ports = { LIST("443") } },
};

static struct world world;
static struct worker worker;

static int setup(void **state)
{
	(void)state;
	world_open(&world);
	worker.ring = world.ring;
	worker.policy = MAKE_POLICY(rules);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	policy_free(worker.policy);
	world_close(&world);
	return 0;
}

static enum err record(const char *host, uint16_t port)
{
	const struct facts f = { .host = str_of(host), .port = port };
	struct record r;
	enum err e;

	record_begin(&r, RECORD_connection);
	audit_decision(&r, worker.policy, policy_decide(worker.policy, &f));
	e = audit_commit(&worker, worker.policy, &r);
	world_read_log(&world, ROLE_WORKER);
	return e;
}

static void the_rule_its_place_and_its_reason_are_told(void **state)
{
	(void)state;
	assert_int_equal(record("api.test", 443), OK);
	assert_logged(&world, "\"verdict\":\"allow\",\"rule\":\"api\",\"rule_at\":\"test.yaml:10\",\"reason\":\"needed\"");
}

static void undecided_goes_on_as_allowed_by_the_rule_that_may(void **state)
{
	(void)state;
	assert_int_equal(record("api.test", 0), OK);
	assert_logged(&world, "\"verdict\":\"allow\",\"rule\":\"api\"");
}

static void the_default_has_no_place(void **state)
{
	(void)state;
	assert_int_equal(record("evil.test", 443), OK);
	assert_logged(&world, "\"verdict\":\"deny\",\"rule\":\"default\"");
	assert_null(strstr(world.lines[world.n_lines - 1], "rule_at"));
}

static void a_long_path_keeps_its_end_and_the_line(void **state)
{
	char file[700] = "";
	struct rule_info rule = { .id = STR("r"), .file = str_n(file, sizeof(file)), .line = 4294967295 };
	struct record r;

	(void)state;
	memset(file, 'a', sizeof(file));
	memcpy(file + sizeof(file) - 9, "/pol.yaml", 9);
	record_begin(&r, RECORD_connection);
	audit_rule(&r, &rule);
	assert_int_equal(audit_commit(&worker, worker.policy, &r), OK);
	world_read_log(&world, ROLE_WORKER);
	assert_logged(&world, "aaa/pol.yaml:4294967295\"");
}

static void a_log_that_takes_nothing_says_so(void **state)
{
	(void)state;
	ring_set_refusing(world.reader, true);
	assert_int_equal(record("api.test", 443), ERR_DENIED);
	assert_int_equal(world.n_lines, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(the_rule_its_place_and_its_reason_are_told),
		CASE(undecided_goes_on_as_allowed_by_the_rule_that_may),
		CASE(the_default_has_no_place),
		CASE(a_long_path_keeps_its_end_and_the_line),
		CASE(a_log_that_takes_nothing_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
