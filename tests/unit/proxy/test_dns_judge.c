#include "tests/unit/policy/make_policy.h"
#include "tests/unit/proxy/dns_packets.h"

#include "proxy/dns_judge.h"

static const struct test_rule some_hosts[] = {
	{ .id = "api", .hosts = { LIST("api.github.com", "*.example.com") }, .ports = { LIST("443") } },
	{ .id = "no-gists", .deny = true, .hosts = { LIST("gist.example.com", "**.corp.test") } },
};
static const struct test_rule any_host[] = {
	{ .id = "all", .hosts = { LIST("**") }, .ports = { LIST("443") } },
	{ .id = "no-ads", .deny = true, .hosts = { LIST("**.ads.test", "ads.test") } },
};

static struct worker worker;

static int setup(void **state)
{
	int leases;

	(void)state;
	memset(&worker, 0, sizeof(worker));
	worker.gateway = 0x64600001;
	assert_true(addr_range_parse(STR("198.18.0.0/15"), &worker.pool));
	assert_int_equal(lease_table_create(&worker.pool, &worker.leases, &leases), OK);
	close(leases);
	worker.policy = MAKE_POLICY(some_hosts);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	policy_free(worker.policy);
	lease_table_free(worker.leases);
	return 0;
}

static void use_policy_of_any_host(void)
{
	policy_free(worker.policy);
	worker.policy = MAKE_POLICY(any_host);
}

static struct dns_judged judge(const char *name, uint16_t type)
{
	static struct packet_out out;
	struct dns_query q;
	enum dns_rcode rcode;

	make_query(&out, 1, name, type, 0);
	assert_int_equal(dns_parse(str_n((char *)out.p, out.n), &q, &rcode), DNS_QUERY);
	return dns_judge(&worker, &q);
}

static void a_name_that_a_rule_could_allow_is_resolved_whatever_the_type(void **state)
{
	(void)state;
	assert_int_equal(judge("api.github.com", DNS_A).what, JUDGE_RESOLVE);
	assert_int_equal(judge("x.example.com", DNS_TXT).what, JUDGE_RESOLVE);
}

static void a_denied_name_is_refused_by_its_rule(void **state)
{
	struct dns_judged j = judge("gist.example.com", DNS_A);

	(void)state;
	assert_int_equal(j.what, JUDGE_REFUSE);
	assert_true(str_eq(policy_rule(worker.policy, j.decision.rule).id, STR("no-gists")));
	assert_int_equal(judge("evil.test", DNS_A).what, JUDGE_REFUSE);
}

/* F44 */
static void a_search_domain_behind_an_allowed_name_is_an_artefact(void **state)
{
	(void)state;
	assert_int_equal(judge("api.github.com.svc.cluster.local", DNS_A).what, JUDGE_ARTEFACT);
	assert_int_equal(judge("api.github.com.eu.evil.test", DNS_A).what, JUDGE_ARTEFACT);
	assert_int_equal(judge("x.example.com.corp.test", DNS_A).what, JUDGE_ARTEFACT);
	assert_int_equal(judge("github.com.evil.test", DNS_A).what, JUDGE_REFUSE);
	assert_int_equal(judge("notapi.github.com.x.test", DNS_A).what, JUDGE_REFUSE);
}

static void single_labels_and_special_uses_are_artefacts(void **state)
{
	(void)state;
	assert_int_equal(judge("kubernetes", DNS_A).what, JUDGE_ARTEFACT);
	assert_int_equal(judge("printer.local", DNS_A).what, JUDGE_ARTEFACT);
	assert_int_equal(judge("x.localhost", DNS_A).what, JUDGE_ARTEFACT);
	assert_int_equal(judge("metadata.google.internal", DNS_A).what, JUDGE_ARTEFACT);
}

static void where_every_host_is_allowed_a_denied_name_is_meant(void **state)
{
	(void)state;
	use_policy_of_any_host();
	assert_int_equal(judge("tracker.ads.test", DNS_A).what, JUDGE_REFUSE);
	assert_int_equal(judge("ads.test", DNS_A).what, JUDGE_REFUSE);
	assert_int_equal(judge("api.test", DNS_A).what, JUDGE_RESOLVE);
}

static void pointers_are_answered_from_the_leases_alone(void **state)
{
	struct addr a;
	uint32_t address;
	bool made;
	char reverse[64];

	(void)state;
	use_policy_of_any_host();
	assert_int_equal(lease_get(worker.leases, STR("api.test"), &address, &made), OK);
	a = addr_v4(address);
	snprintf(reverse, sizeof(reverse), "%u.%u.%u.%u.in-addr.arpa", a.b[3], a.b[2], a.b[1], a.b[0]);
	assert_int_equal(judge(reverse, DNS_PTR).what, JUDGE_POINTER);
	assert_true(str_eq(judge(reverse, DNS_PTR).pointer, STR("api.test")));
	assert_int_equal(judge("1.0.96.100.in-addr.arpa", DNS_PTR).what, JUDGE_POINTER);
	assert_int_equal(judge("8.8.8.8.in-addr.arpa", DNS_PTR).what, JUDGE_NO_POINTER);
	assert_int_equal(judge("08.8.8.8.in-addr.arpa", DNS_PTR).what, JUDGE_NO_POINTER);
	assert_int_equal(judge("8.8.8.in-addr.arpa", DNS_PTR).what, JUDGE_NO_POINTER);
	assert_int_equal(judge("256.8.8.8.in-addr.arpa", DNS_PTR).what, JUDGE_NO_POINTER);
}

static void names_that_no_host_has_and_the_root_are_told_apart(void **state)
{
	(void)state;
	assert_int_equal(judge("", DNS_NS).what, JUDGE_ROOT);
	assert_int_equal(judge("a b.test", DNS_A).what, JUDGE_NO_HOST);
	assert_int_equal(judge("exeat.internal", DNS_A).what, JUDGE_GATEWAY);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_name_that_a_rule_could_allow_is_resolved_whatever_the_type),
		CASE(a_denied_name_is_refused_by_its_rule),
		CASE(a_search_domain_behind_an_allowed_name_is_an_artefact),
		CASE(single_labels_and_special_uses_are_artefacts),
		CASE(where_every_host_is_allowed_a_denied_name_is_meant),
		CASE(pointers_are_answered_from_the_leases_alone),
		CASE(names_that_no_host_has_and_the_root_are_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
