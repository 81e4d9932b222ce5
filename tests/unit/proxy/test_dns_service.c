/* The DNS service of a worker, with a supervisor and a dialer that answer as the test says. */
#include "tests/unit/policy/make_policy.h"
#include "tests/unit/proxy/dns_packets.h"
#include "tests/unit/proxy/names_world.h"

#include "proxy/dns_listen.h"
#include "proxy/worker.h"

static const struct test_rule closed[] = {
	{ .id = "closed", .deny = true, .hosts = { LIST("**") } },
};

static const struct test_rule other_ports[] = {
	{ .id = "other", .hosts = { LIST("api.github.com") }, .ports = { LIST("8443") } },
};

static const struct test_rule rules[] = {
	{ .id = "api", .hosts = { LIST("api.github.com", "**.example.com") }, .ports = { LIST("443", "80") } },
	{ .id = "no-gists", .deny = true, .reason = "ask for it", .hosts = { LIST("gist.example.com") } },
};

/* What the roles around the worker say, and what they were asked. */
static struct script {
	enum resolve_status status;
	uint32_t ttl;
	bool hold, hold_lease, no_lease;
	unsigned resolves, leases;
	char name[256];
	uint16_t ports[8];
	size_t n_ports;
	struct msg_resolve held;
	struct msg_leased held_lease;
} script;

static struct world world;
static struct worker worker;
static struct channel *far_dialer, *far_supervisor;
static uint32_t refusal, last_leased;
static struct lease_table *writer;
static uint16_t port;
static int udp, tcp = -1;

static void answer_resolve(uint32_t id)
{
	char packed[ADDR_PACKED] = { 4, (char)203, 0, 113, 10 };
	struct msg_resolved m = { .id = id, .status = (uint8_t)script.status, .ttl = script.ttl, .ms = 3,
				  .server = STR("203.0.113.53:53") };

	if (script.status == RESOLVE_OK)
		m.addrs = str_n(packed, sizeof(packed));
	if (script.status == RESOLVE_PROHIBITED)
		m.why = STR("10.0.0.5: private (RFC 1918)");
	assert_int_equal(channel_send(far_dialer, MSG_RESOLVED, &m, NULL, 0), OK);
}

static void on_dialer(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	const struct msg_resolve *m = msg;

	(void)arg;
	(void)fds;
	(void)n_fds;
	assert_int_equal(type, MSG_RESOLVE);
	script.resolves++;
	snprintf(script.name, sizeof(script.name), "%.*s", STR_ARG(m->name));
	script.held = *m;
	if (!script.hold)
		answer_resolve(m->id);
}

static void on_supervisor(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	const struct msg_lease *m = msg;
	struct msg_leased answer = { .id = m->id, .ok = !script.no_lease };
	bool made;

	(void)arg;
	(void)fds;
	(void)n_fds;
	assert_int_equal(type, MSG_LEASE);
	script.leases++;
	script.n_ports = m->ports.n / 2;
	for (size_t i = 0; i < script.n_ports && i < 8; i++)
		script.ports[i] = (uint16_t)((uint8_t)m->ports.p[2 * i] | (uint8_t)m->ports.p[2 * i + 1] << 8);
	if (answer.ok) {
		assert_int_equal(lease_get(writer, m->name, &answer.address, &made), OK);
		last_leased = answer.address;
	}
	script.held_lease = answer;
	if (!script.hold_lease)
		assert_int_equal(channel_send(far_supervisor, MSG_LEASED, &answer, NULL, 0), OK);
}

static void on_answer(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	(void)arg;
	assert_true(asks_answer(&worker, type, msg, fds, n_fds));
}

static struct channel *channel_to(enum role role, struct channel **far,
				  void (*fn)(void *, uint16_t, const void *, int *, size_t))
{
	const struct channel_peer here = { .self = ROLE_WORKER, .other = role, .table = exeat_messages,
					   .on_message = on_answer };
	const struct channel_peer there = { .self = role, .other = ROLE_WORKER, .table = exeat_messages,
					    .on_message = fn };
	struct channel *near;
	int fds[2];

	assert_int_equal(channel_pair(fds), OK);
	near = channel_new(world.base, fds[0], &here);
	*far = channel_new(world.base, fds[1], &there);
	assert_true(near && *far);
	channel_set_phase(near, PHASE_RUN);
	channel_set_phase(*far, PHASE_RUN);
	return near;
}

static void open_service(void)
{
	int on = 1, leases, dns_udp, dns_tcp;

	bound_pair(&port, &dns_udp, &dns_tcp);
	assert_int_equal(setsockopt(dns_udp, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on)), 0);
	assert_true(addr_range_parse(STR("198.18.0.0/15"), &worker.pool));
	assert_int_equal(lease_table_create(&worker.pool, &writer, &leases), OK);
	assert_int_equal(lease_table_map(leases, &worker.pool, &worker.leases), OK);
	close(leases);
	refusal = worker.refusal_address = lease_refusal_address(&worker.pool);
	worker.dns = dns_service_new(&worker, dns_udp, dns_tcp);
	assert_non_null(worker.dns);
	udp = connected_socket(SOCK_DGRAM, port);
}

static int setup(void **state)
{
	(void)state;
	memset(&worker, 0, sizeof(worker));
	script = (struct script){ .status = RESOLVE_OK, .ttl = 300 };
	world_open(&world);
	worker.base = world.base;
	worker.ring = world.ring;
	worker.policy = MAKE_POLICY(rules);
	worker.gateway = 0x64600001;
	worker.dialer = channel_to(ROLE_DIALER, &far_dialer, on_dialer);
	worker.supervisor = channel_to(ROLE_SUPERVISOR, &far_supervisor, on_supervisor);
	worker.asks = asks_new(&worker);
	open_service();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close(udp);
	if (tcp >= 0)
		close(tcp);
	tcp = -1;
	dns_service_free(worker.dns);
	asks_free(worker.asks);
	channel_free(worker.dialer);
	channel_free(worker.supervisor);
	channel_free(far_dialer);
	channel_free(far_supervisor);
	lease_table_free(worker.leases);
	lease_table_free(writer);
	policy_free(worker.policy);
	world_close(&world);
	return 0;
}

/* ---- asking ---- */

static struct packet_out query;
static uint8_t answer[65535];

static void send_query(const char *name, uint16_t type)
{
	make_query(&query, 77, name, type, 1232);
	assert_int_equal(send(udp, query.p, query.n, 0), (ssize_t)query.n);
}

static struct packet_in receive(void)
{
	ssize_t n;

	WAIT_UNTIL(&world, (n = recv(udp, answer, sizeof(answer), MSG_DONTWAIT)) >= 0);
	world_read_log(&world, ROLE_WORKER);
	return read_answer(answer, (size_t)n);
}

static struct packet_in ask(const char *name, uint16_t type)
{
	send_query(name, type);
	return receive();
}

/* ---- a new policy ---- */

static void new_policy(struct policy *p)
{
	policy_free(worker.policy);
	worker.policy = p;
	worker.policies++;
}

static void who_waits_when_a_new_policy_comes_is_answered_by_the_new_one(void **state)
{
	struct packet_in in;
	char digest[65];

	(void)state;
	script.hold = true;
	send_query("api.github.com", DNS_A);
	WAIT_UNTIL(&world, script.resolves == 1);
	new_policy(MAKE_POLICY(closed));
	snprintf(digest, sizeof(digest), "%.*s", STR_ARG(policy_digest(worker.policy)));
	answer_resolve(script.held.id);
	in = receive();
	assert_int_equal(in.a, refusal);
	assert_int_equal(script.leases, 0);
	assert_logged(&world, "\"rule\":\"closed\"");
	assert_logged(&world, digest);
}

static void a_name_is_leased_with_the_ports_of_the_policy_in_force(void **state)
{
	(void)state;
	script.hold_lease = true;
	send_query("api.github.com", DNS_A);
	WAIT_UNTIL(&world, script.leases == 1);
	new_policy(MAKE_POLICY(other_ports));
	script.hold_lease = false;
	assert_int_equal(channel_send(far_supervisor, MSG_LEASED, &script.held_lease, NULL, 0), OK);
	assert_int_equal(receive().a, last_leased);
	assert_int_equal(script.leases, 2);
	assert_int_equal(script.n_ports, 1);
	assert_int_equal(script.ports[0], 8443);
}

static void a_lease_that_comes_after_the_name_was_denied_is_not_told(void **state)
{
	(void)state;
	script.hold_lease = true;
	send_query("api.github.com", DNS_A);
	WAIT_UNTIL(&world, script.leases == 1);
	new_policy(MAKE_POLICY(closed));
	assert_int_equal(channel_send(far_supervisor, MSG_LEASED, &script.held_lease, NULL, 0), OK);
	assert_int_equal(receive().a, refusal);
	assert_int_equal(script.leases, 1);
}

static void refusals_that_repeat_are_counted_for_each_policy(void **state)
{
	(void)state;
	assert_int_equal(ask("gist.example.com", DNS_A).a, refusal);
	assert_int_equal(ask("gist.example.com", DNS_A).a, refusal);
	new_policy(MAKE_POLICY(closed));
	assert_int_equal(ask("gist.example.com", DNS_A).a, refusal);
	assert_logged(&world, "\"rule\":\"closed\"");
	WAIT_UNTIL(&world, (world_read_log(&world, ROLE_WORKER),
			    strstr(world.lines[world.n_lines - 1], "\"count\":1")));
	assert_logged(&world, "\"rule\":\"no-gists\"");
}

/* ---- allowed names ---- */

static void an_allowed_name_is_resolved_leased_and_only_then_answered(void **state)
{
	struct packet_in in = ask("API.GitHub.com", DNS_A);

	(void)state;
	assert_int_equal(in.rcode, DNS_NOERROR);
	assert_int_equal(in.a, last_leased);
	assert_int_equal(in.ttl, 60);
	assert_int_equal(in.ede, -1);
	assert_string_equal(script.name, "api.github.com");
	assert_int_equal(script.n_ports, 2);
	assert_int_equal(script.ports[0] + script.ports[1], 443 + 80);
	assert_logged(&world, "\"verdict\":\"allow\"");
	assert_logged(&world, "\"rule\":\"api\",\"rule_at\":\"test.yaml:10\"");
	assert_logged(&world, "\"name\":\"api.github.com\"");
	assert_logged(&world, "\"upstream\":\"203.0.113.53:53\"");
	assert_logged(&world, "\"answers\":\"203.0.113.10\"");
}

static void a_short_ttl_is_kept(void **state)
{
	(void)state;
	script.ttl = 2;
	assert_int_equal(ask("api.github.com", DNS_A).ttl, 2);
}

static void a_name_with_a_lease_is_asked_for_again_but_not_leased_again(void **state)
{
	(void)state;
	ask("api.github.com", DNS_A);
	assert_int_equal(ask("api.github.com", DNS_A).a, last_leased);
	assert_int_equal(script.leases, 1);
	assert_int_equal(script.resolves, 2);
}

/* F38 */
static void other_types_of_an_allowed_name_have_no_data_and_a_soa(void **state)
{
	const uint16_t types[] = { DNS_AAAA, DNS_HTTPS, DNS_SVCB, DNS_TXT, DNS_MX, DNS_SRV, DNS_ANY };

	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct packet_in in = ask("api.github.com", types[i]);

		assert_int_equal(in.rcode, DNS_NOERROR);
		assert_int_equal(in.answers, 0);
		assert_true(in.soa);
	}
	assert_int_equal(script.leases, 0);
	assert_int_equal(ask("api.github.com", DNS_A).a, last_leased);
}

/* F48 */
static void upstream_codes_are_kept_and_never_contradict_each_other(void **state)
{
	struct packet_in in;

	(void)state;
	script.status = RESOLVE_NXDOMAIN;
	in = ask("gone.example.com", DNS_A);
	assert_int_equal(in.rcode, DNS_NXDOMAIN);
	assert_true(in.soa);
	assert_int_equal(ask("gone.example.com", DNS_AAAA).rcode, DNS_NXDOMAIN);
	script.status = RESOLVE_NODATA;
	in = ask("empty.example.com", DNS_A);
	assert_int_equal(in.rcode, DNS_NOERROR);
	assert_int_equal(in.answers, 0);
	assert_true(in.soa);
	assert_logged(&world, "\"rcode\":\"NOERROR\"");
}

static void failing_upstream_is_servfail_with_an_extended_error(void **state)
{
	struct packet_in in;

	(void)state;
	script.status = RESOLVE_TIMEOUT;
	in = ask("api.github.com", DNS_A);
	assert_int_equal(in.rcode, DNS_SERVFAIL);
	assert_int_equal(in.ede, EDE_NO_REACHABLE_AUTHORITY);
	assert_logged(&world, "\"verdict\":\"allow\"");
	script.status = RESOLVE_SERVFAIL;
	assert_int_equal(ask("api.github.com", DNS_A).ede, EDE_NETWORK_ERROR);
}

/* F25 */
static void a_name_in_a_prohibited_range_has_its_lease_and_the_log_says_so(void **state)
{
	(void)state;
	script.status = RESOLVE_PROHIBITED;
	assert_int_equal(ask("api.github.com", DNS_A).a, last_leased);
	assert_logged(&world, "\"answers\":\"10.0.0.5: private (RFC 1918)\"");
	assert_logged(&world, "\"proxy_error\":\"destination_ip_prohibited\"");
}

static void questions_for_one_name_share_one_ask(void **state)
{
	(void)state;
	script.hold = true;
	send_query("api.github.com", DNS_A);
	send_query("api.github.com", DNS_AAAA);
	send_query("api.github.com", DNS_A);
	WAIT_UNTIL(&world, script.resolves == 1);
	for (unsigned i = 0; i < 5; i++)
		event_base_loop(world.base, EVLOOP_NONBLOCK);
	assert_int_equal(script.resolves, 1);
	answer_resolve(script.held.id);
	assert_int_equal(receive().a, last_leased);
	assert_int_equal(receive().answers, 0);
	assert_int_equal(receive().a, last_leased);
	assert_int_equal(script.leases, 1);
}

static void a_full_lease_table_is_servfail_and_a_record(void **state)
{
	(void)state;
	script.no_lease = true;
	assert_int_equal(ask("api.github.com", DNS_A).rcode, DNS_SERVFAIL);
	assert_logged(&world, "\"reason\":\"no address could be leased for the name\"");
}

static void past_the_limit_of_waiting_questions_the_answer_is_servfail(void **state)
{
	struct packet_in in;

	(void)state;
	script.hold = true;
	for (unsigned i = 0; i < 1024; i++) {
		send_query("api.github.com", DNS_A);
		event_base_loop(world.base, EVLOOP_NONBLOCK);
	}
	in = ask("api.github.com", DNS_A);
	assert_int_equal(in.rcode, DNS_SERVFAIL);
	assert_logged(&world, "\"reason\":\"too many questions are waiting\"");
}

/* ---- refused names ---- */

static void a_refused_name_has_the_refusal_address_and_never_goes_upstream(void **state)
{
	struct packet_in in = ask("evil.test.org", DNS_A);
	char *id;

	(void)state;
	assert_int_equal(in.rcode, DNS_NOERROR);
	assert_int_equal(in.a, refusal);
	assert_int_equal(in.ttl, 5);
	assert_int_equal(in.ede, EDE_BLOCKED);
	assert_true(strncmp(in.ede_text, "rule=default refusal=", 21) == 0);
	assert_int_equal(script.resolves, 0);
	id = in.ede_text + 21;
	assert_int_equal(strlen(id), 16);
	assert_logged(&world, id);
	assert_logged(&world, "\"verdict\":\"deny\",\"rule\":\"default\"");
}

static void a_denied_name_bears_its_rule(void **state)
{
	struct packet_in in = ask("gist.example.com", DNS_A);

	(void)state;
	assert_int_equal(in.a, refusal);
	assert_true(strncmp(in.ede_text, "rule=no-gists refusal=", 22) == 0);
	assert_logged(&world, "\"rule\":\"no-gists\",\"rule_at\":\"test.yaml:20\",\"reason\":\"ask for it\"");
}

static void other_types_of_a_refused_name_have_no_data(void **state)
{
	struct packet_in in = ask("evil.test.org", DNS_AAAA);

	(void)state;
	assert_int_equal(in.rcode, DNS_NOERROR);
	assert_int_equal(in.answers, 0);
	assert_true(in.soa);
	assert_int_equal(in.ede, EDE_BLOCKED);
}

static void identical_refusals_share_an_id_and_are_counted_in_one_line(void **state)
{
	char first[300];
	size_t lines;

	(void)state;
	snprintf(first, sizeof(first), "%s", ask("evil.test.org", DNS_A).ede_text);
	lines = world.n_lines;
	for (unsigned i = 0; i < 20; i++)
		assert_string_equal(ask("evil.test.org", DNS_A).ede_text, first);
	assert_int_equal(world.n_lines, lines);
	while (world.n_lines == lines) {
		turn(&world);
		world_read_log(&world, ROLE_WORKER);
	}
	assert_int_equal(world.n_lines, lines + 1);
	assert_logged(&world, "\"count\":20");
	assert_logged(&world, "\"name\":\"evil.test.org\"");
}

/* F44 */
static void what_a_search_list_made_does_not_exist_and_does_not_fill_the_log(void **state)
{
	const char *names[] = { "api.github.com.svc.cluster.local", "api.github.com.corp.test.org",
				"x.example.com.localdomain.org", "kubernetes", "printer.local", "a.home.arpa" };
	size_t lines = world.n_lines;

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct packet_in in = ask(names[i], DNS_A);

		assert_int_equal(in.rcode, DNS_NXDOMAIN);
		assert_true(in.soa);
		assert_int_equal(in.ede, EDE_BLOCKED);
	}
	assert_int_equal(world.n_lines, lines + 1);
	assert_int_equal(script.resolves, 0);
}

static void no_answer_goes_out_that_the_log_does_not_take(void **state)
{
	struct packet_in in;

	(void)state;
	ring_set_refusing(world.reader, true);
	in = ask("api.github.com", DNS_A);
	assert_int_equal(in.rcode, DNS_SERVFAIL);
	assert_int_equal(script.resolves, 0);
	in = ask("evil.test.org", DNS_A);
	assert_int_equal(in.rcode, DNS_SERVFAIL);
	ring_set_refusing(world.reader, false);
	assert_int_equal(ask("evil.test.org", DNS_A).a, refusal);
}

/* ---- names of our own ---- */

/* F44 */
static void a_leased_address_has_its_name_and_no_other_has_one(void **state)
{
	struct addr a;
	char reverse[64];

	(void)state;
	ask("api.github.com", DNS_A);
	a = addr_v4(last_leased);
	snprintf(reverse, sizeof(reverse), "%u.%u.%u.%u.in-addr.arpa", a.b[3], a.b[2], a.b[1], a.b[0]);
	assert_string_equal(ask(reverse, DNS_PTR).ptr, "api.github.com");
	assert_int_equal(ask("4.3.2.1.in-addr.arpa", DNS_PTR).rcode, DNS_NXDOMAIN);
	assert_int_equal(ask("1.4.3.2.1.in-addr.arpa", DNS_PTR).rcode, DNS_NXDOMAIN);
	assert_int_equal(ask("1.0.0.0.ip6.arpa", DNS_PTR).rcode, DNS_NXDOMAIN);
}

static void the_gateway_has_a_name(void **state)
{
	(void)state;
	assert_int_equal(ask("exeat.internal", DNS_A).a, worker.gateway);
	assert_true(ask("exeat.internal", DNS_AAAA).soa);
	assert_int_equal(ask("other.internal", DNS_A).rcode, DNS_NXDOMAIN);
}

/* F46 */
static void odd_queries_are_answered_and_the_service_goes_on(void **state)
{
	(void)state;
	assert_true(ask("", DNS_NS).soa);
	assert_int_equal(ask("a b.example.com", DNS_A).rcode, DNS_NXDOMAIN);
	assert_int_equal(ask("127.0.0.1", DNS_A).rcode, DNS_NXDOMAIN);
	make_query(&query, 77, "a.test", DNS_A, 0);
	query.p[2] = 5 << 3;
	assert_int_equal(send(udp, query.p, query.n, 0), (ssize_t)query.n);
	assert_int_equal(receive().rcode, DNS_NOTIMP);
	assert_int_equal(send(udp, "\0\7\1\0\0\1\0\0\0\0\0\0\xc0", 13, 0), 13);
	assert_int_equal(receive().rcode, DNS_FORMERR);
	assert_int_equal(ask("api.github.com", DNS_A).a, last_leased);
}

/* ---- TCP ---- */

/* F41 */
static void pipelined_queries_a_byte_at_a_time_are_both_answered(void **state)
{
	struct packet_out both = { .n = 0 };
	size_t got = 0, frame;
	ssize_t n;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		make_query(&query, (uint16_t)(100 + i), i ? "evil.test.org" : "api.github.com", DNS_A, 0);
		put_int(&both, 2, (uint32_t)query.n);
		memcpy(both.p + both.n, query.p, query.n);
		both.n += query.n;
	}
	tcp = connected_socket(SOCK_STREAM, port);
	for (size_t i = 0; i < both.n; i++) {
		assert_int_equal(send(tcp, both.p + i, 1, 0), 1);
		event_base_loop(world.base, EVLOOP_NONBLOCK);
	}
	shutdown(tcp, SHUT_WR);
	for (;;) {
		WAIT_UNTIL(&world, (n = recv(tcp, answer + got, sizeof(answer) - got, MSG_DONTWAIT)) >= 0);
		if (n == 0)
			break;
		got += (size_t)n;
	}
	frame = 2 + ((size_t)answer[0] << 8 | answer[1]);
	assert_int_equal(got, frame + 2 + ((size_t)answer[frame] << 8 | answer[frame + 1]));
	assert_int_equal(read_answer(answer + 2, frame - 2).id + read_answer(answer + frame + 2, got - frame - 2).id,
			 201);
}

static void a_frame_over_the_limit_ends_the_connection(void **state)
{
	ssize_t n;

	(void)state;
	tcp = connected_socket(SOCK_STREAM, port);
	assert_int_equal(send(tcp, "\xff\xff", 2, 0), 2);
	WAIT_UNTIL(&world, (n = recv(tcp, answer, sizeof(answer), MSG_DONTWAIT)) >= 0);
	assert_int_equal(n, 0);
}

static void one_connection_more_than_the_limit_is_closed_at_once(void **state)
{
	int fds[DNS_TCP_MAX];
	ssize_t n;

	(void)state;
	for (unsigned i = 0; i < DNS_TCP_MAX; i++)
		fds[i] = connected_socket(SOCK_STREAM, port);
	tcp = connected_socket(SOCK_STREAM, port);
	WAIT_UNTIL(&world, (n = recv(tcp, answer, sizeof(answer), MSG_DONTWAIT)) >= 0);
	assert_int_equal(n, 0);
	for (unsigned i = 0; i < DNS_TCP_MAX; i++)
		close(fds[i]);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(who_waits_when_a_new_policy_comes_is_answered_by_the_new_one),
		CASE(a_name_is_leased_with_the_ports_of_the_policy_in_force),
		CASE(a_lease_that_comes_after_the_name_was_denied_is_not_told),
		CASE(refusals_that_repeat_are_counted_for_each_policy),
		CASE(an_allowed_name_is_resolved_leased_and_only_then_answered),
		CASE(a_short_ttl_is_kept),
		CASE(a_name_with_a_lease_is_asked_for_again_but_not_leased_again),
		CASE(other_types_of_an_allowed_name_have_no_data_and_a_soa),
		CASE(upstream_codes_are_kept_and_never_contradict_each_other),
		CASE(failing_upstream_is_servfail_with_an_extended_error),
		CASE(a_name_in_a_prohibited_range_has_its_lease_and_the_log_says_so),
		CASE(questions_for_one_name_share_one_ask),
		CASE(a_full_lease_table_is_servfail_and_a_record),
		CASE(past_the_limit_of_waiting_questions_the_answer_is_servfail),
		CASE(a_refused_name_has_the_refusal_address_and_never_goes_upstream),
		CASE(a_denied_name_bears_its_rule),
		CASE(other_types_of_a_refused_name_have_no_data),
		CASE(identical_refusals_share_an_id_and_are_counted_in_one_line),
		CASE(what_a_search_list_made_does_not_exist_and_does_not_fill_the_log),
		CASE(no_answer_goes_out_that_the_log_does_not_take),
		CASE(a_leased_address_has_its_name_and_no_other_has_one),
		CASE(the_gateway_has_a_name),
		CASE(odd_queries_are_answered_and_the_service_goes_on),
		CASE(pipelined_queries_a_byte_at_a_time_are_both_answered),
		CASE(a_frame_over_the_limit_ends_the_connection),
		CASE(one_connection_more_than_the_limit_is_closed_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
