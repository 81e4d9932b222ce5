#include "tests/unit/proxy/dns_server.h"

#include "proxy/resolver.h"
#include "proxy/resolver_query.h"

#define TRY_MS 200

static struct world world;
static struct dns_server server;
static struct resolver *resolver;
static struct resolver_answer got;
static unsigned calls;

static void on_answer(void *arg, const struct resolver_answer *a)
{
	(void)arg;
	got = *a;
	calls++;
}

static bool is(const struct dns_query *q, const char *name)
{
	return str_eq(name_str(&q->name), str_of(name));
}

static int script(struct dns_server *s, const struct dns_query *q)
{
	char addr[32];

	if (is(q, "nx.test"))
		return DNS_NXDOMAIN;
	if (is(q, "servfail.test"))
		return DNS_SERVFAIL;
	if (is(q, "silent.test") || (is(q, "no-aaaa-answer.test") && q->type == DNS_AAAA))
		return SERVER_SILENT;
	if (is(q, "v4.test") && q->type == DNS_A)
		server_a(s, NULL, "203.0.113.10", 30);
	if (is(q, "no-aaaa-answer.test") && q->type == DNS_A)
		server_a(s, NULL, "203.0.113.11", 30);
	if (is(q, "both.test"))
		server_a(s, NULL, q->type == DNS_A ? "203.0.113.12" : "2001:db8::12", q->type == DNS_A ? 90 : 20);
	if (is(q, "nx-for-aaaa.test") && q->type == DNS_AAAA)
		return DNS_NXDOMAIN;
	if (is(q, "many.test") && q->type == DNS_A) {
		s->cut = !s->over_tcp;
		for (unsigned i = 0; i < (s->cut ? 3u : 60u); i++) {
			snprintf(addr, sizeof(addr), "203.0.113.%u", i + 1);
			server_a(s, NULL, addr, 30);
		}
	}
	if (is(q, "chain.test")) {
		server_cname(s, "chain.test", "a1.elsewhere.test");
		for (unsigned i = 1; i < 9; i++) {
			char from[32], to[32];

			snprintf(from, sizeof(from), "a%u.elsewhere.test", i);
			snprintf(to, sizeof(to), "a%u.elsewhere.test", i + 1);
			server_cname(s, from, to);
		}
		if (q->type == DNS_A)
			server_a(s, "a9.elsewhere.test", "203.0.113.77", 30);
	}
	if (is(q, "alias-to-nothing.test"))
		server_cname(s, "alias-to-nothing.test", "nothing.test");
	if (is(q, "zero-ttl.test") && q->type == DNS_A)
		server_a(s, NULL, "203.0.113.13", 0);
	return DNS_NOERROR;
}

static int setup(void **state)
{
	static struct str names[] = { { "fixed.internal=10.0.0.9,2001:db8::9", 35 } };
	static struct str servers[1];
	struct msg_dialer_start start = { .timeout_ms = TRY_MS, .servers = { servers, 1 }, .names = { names, 1 } };
	const char *why = "";

	(void)state;
	world_open(&world);
	server_open(&server, &world, script);
	servers[0] = str_of(server.address);
	resolver = resolver_new(world.base, &start, &why);
	assert_non_null(resolver);
	calls = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	resolver_free(resolver);
	server_close(&server);
	world_close(&world);
	return 0;
}

static enum resolve_status resolve(const char *name)
{
	unsigned before = calls;

	assert_non_null(resolver_ask(resolver, str_of(name), on_answer, NULL));
	assert_int_equal(calls, before);	/* never from inside the question */
	WAIT_UNTIL(&world, calls == before + 1);
	return got.status;
}

static void assert_addr(size_t i, const char *text)
{
	char shown[ADDR_TEXT_MAX];

	assert_true(i < got.n);
	assert_string_equal(addr_format(&got.addrs[i], shown), text);
}

static void both_families_are_asked_and_the_shorter_ttl_counts(void **state)
{
	(void)state;
	assert_int_equal(resolve("both.test"), RESOLVE_OK);
	assert_int_equal(got.n, 2);
	assert_addr(0, "2001:db8::12");
	assert_addr(1, "203.0.113.12");
	assert_int_equal(got.ttl, 20);
	assert_string_equal(got.server, server.address);
	assert_false(got.cached);
}

static void what_is_known_is_not_asked_again(void **state)
{
	unsigned queries;

	(void)state;
	assert_null(resolver_known(resolver, STR("v4.test")));
	assert_int_equal(resolve("v4.test"), RESOLVE_OK);
	queries = server.queries;
	assert_non_null(resolver_known(resolver, STR("v4.test")));
	assert_true(resolver_known(resolver, STR("v4.test"))->cached);
	assert_int_equal(server.queries, queries);
}

/* F48 */
static void nodata_and_nxdomain_are_told_apart(void **state)
{
	(void)state;
	assert_int_equal(resolve("nx.test"), RESOLVE_NXDOMAIN);
	assert_int_equal(resolver_known(resolver, STR("nx.test"))->status, RESOLVE_NXDOMAIN);
	assert_int_equal(resolve("empty.test"), RESOLVE_NODATA);
	assert_int_equal(resolve("alias-to-nothing.test"), RESOLVE_NODATA);
	assert_int_equal(resolve("nx-for-aaaa.test"), RESOLVE_NODATA);
}

static void failures_are_told_and_never_kept(void **state)
{
	(void)state;
	assert_int_equal(resolve("servfail.test"), RESOLVE_SERVFAIL);
	assert_null(resolver_known(resolver, STR("servfail.test")));
	assert_int_equal(resolve("silent.test"), RESOLVE_TIMEOUT);
	assert_null(resolver_known(resolver, STR("silent.test")));
}

/* F41 */
static void a_cut_answer_is_asked_for_again_over_tcp(void **state)
{
	(void)state;
	assert_int_equal(resolve("many.test"), RESOLVE_OK);
	assert_int_equal(got.n, 60);
	assert_true(server.tcp_queries > 0);
}

/* F48 */
static void of_a_chain_of_aliases_only_the_final_address_counts(void **state)
{
	(void)state;
	assert_int_equal(resolve("chain.test"), RESOLVE_OK);
	assert_int_equal(got.n, 1);
	assert_addr(0, "203.0.113.77");
}

static void a_server_that_swallows_aaaa_does_not_hold_up_a(void **state)
{
	(void)state;
	assert_int_equal(resolve("no-aaaa-answer.test"), RESOLVE_OK);
	assert_addr(0, "203.0.113.11");
	assert_true(got.ms < 2 * TRY_MS + QUERY_GRACE_MS);
}

static void the_operators_names_are_answered_without_a_server(void **state)
{
	const struct resolver_answer *a = resolver_known(resolver, STR("fixed.internal"));

	(void)state;
	assert_non_null(a);
	assert_int_equal(a->n, 2);
	assert_string_equal(a->server, "settings");
	assert_int_equal(server.queries, 0);
}

static void a_ttl_of_zero_is_brought_to_the_floor(void **state)
{
	(void)state;
	assert_int_equal(resolve("zero-ttl.test"), RESOLVE_OK);
	assert_int_equal(got.ttl, RESOLVER_TTL_MIN);
}

static void who_asks_for_the_same_name_shares_the_query(void **state)
{
	(void)state;
	assert_non_null(resolver_ask(resolver, STR("v4.test"), on_answer, NULL));
	assert_non_null(resolver_ask(resolver, STR("v4.test"), on_answer, NULL));
	WAIT_UNTIL(&world, calls == 2);
	assert_int_equal(server.a_queries, 1);
}

static void a_cancelled_question_calls_nobody_back_and_fills_the_cache(void **state)
{
	struct resolver_wait *wait = resolver_ask(resolver, STR("v4.test"), on_answer, NULL);

	(void)state;
	resolver_cancel(wait);
	WAIT_UNTIL(&world, resolver_known(resolver, STR("v4.test")) != NULL);
	assert_int_equal(calls, 0);
}

static void a_resolver_that_ends_calls_nobody_back(void **state)
{
	(void)state;
	assert_non_null(resolver_ask(resolver, STR("silent.test"), on_answer, NULL));
	WAIT_UNTIL(&world, server.queries > 0);
	assert_non_null(resolver_ask(resolver, STR("v4.test"), on_answer, NULL));
	/* the teardown frees it: one query under way, one not begun */
	assert_int_equal(calls, 0);
}

static void past_the_limit_nobody_is_asked(void **state)
{
	char name[32];

	(void)state;
	for (unsigned i = 0; i < RESOLVER_UNDERWAY_MAX; i++) {
		snprintf(name, sizeof(name), "n%u.test", i);
		assert_non_null(resolver_ask(resolver, str_of(name), on_answer, NULL));
	}
	assert_null(resolver_ask(resolver, STR("v4.test"), on_answer, NULL));
	assert_non_null(resolver_ask(resolver, STR("n0.test"), on_answer, NULL));
}

static void malformed_settings_are_refused_in_words(void **state)
{
	struct str bad_name[] = { { "x.test=10.0.0.300", 17 } }, bad_server[] = { { "dns.test:53", 11 } };
	struct msg_dialer_start start = { .timeout_ms = TRY_MS, .names = { bad_name, 1 } };
	const char *why = "";

	(void)state;
	assert_null(resolver_new(world.base, &start, &why));
	assert_string_equal(why, "a name in resolver.names is malformed");
	start.names.n = 0;
	start.servers = (struct str_list){ bad_server, 1 };
	assert_null(resolver_new(world.base, &start, &why));
	assert_string_equal(why, "a DNS server that is no address");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(both_families_are_asked_and_the_shorter_ttl_counts),
		CASE(what_is_known_is_not_asked_again),
		CASE(nodata_and_nxdomain_are_told_apart),
		CASE(failures_are_told_and_never_kept),
		CASE(a_cut_answer_is_asked_for_again_over_tcp),
		CASE(of_a_chain_of_aliases_only_the_final_address_counts),
		CASE(a_server_that_swallows_aaaa_does_not_hold_up_a),
		CASE(the_operators_names_are_answered_without_a_server),
		CASE(a_ttl_of_zero_is_brought_to_the_floor),
		CASE(who_asks_for_the_same_name_shares_the_query),
		CASE(a_cancelled_question_calls_nobody_back_and_fills_the_cache),
		CASE(a_resolver_that_ends_calls_nobody_back),
		CASE(past_the_limit_nobody_is_asked),
		CASE(malformed_settings_are_refused_in_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
