/* The dialer between a worker, a broker, and a scripted DNS server. */
#include "tests/unit/policy/make_policy.h"
#include "tests/unit/proxy/dns_server.h"

#include <fcntl.h>

#include "proxy/dialer_service.h"
#include "sandbox/channel.h"

/* A policy names at most so many ports. */
#define PORTS "20000-20999"
#define PORT_FIRST 20000
#define PORT_LAST 20999

static const struct test_rule rules[] = {
	{ .id = "public", .hosts = { LIST("**.public.test") }, .ports = { LIST("443") } },
	{ .id = "inside", .hosts = { LIST("**.inside.test") }, .ports = { LIST(PORTS) },
	  .resolves_to = { LIST("127.0.0.0/8") } },
	{ .id = "by-address", .addresses = { LIST("127.0.0.1/32", "127.0.0.5/32") }, .ports = { LIST(PORTS) } },
	{ .id = "no-secrets", .deny = true, .hosts = { LIST("secrets.inside.test") } },
};

static struct world world;
static struct dns_server server;
static struct dialer *dialer;
static struct channel *worker, *broker;
static bool worker_closed;

static struct {
	unsigned resolved, dialed, tickets, ended, told, order;
	unsigned ticket_order, dialed_order, told_order;
	struct msg_resolved r;
	struct msg_dialed d;
	struct msg_ticket t;
	char addrs[MSG_ADDRS_MAX * ADDR_PACKED], text[1024], name[256];
	uint64_t ended_ticket;
	int fd;
	unsigned lost;
	uint32_t lost_sandbox;
	char lost_why[64];
} got;

static void on_worker(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	(void)arg;
	if (type == MSG_RESOLVED) {
		got.r = *(const struct msg_resolved *)msg;
		memcpy(got.addrs, got.r.addrs.p, got.r.addrs.n);
		snprintf(got.text, sizeof(got.text), "%.*s", STR_ARG(got.r.why));
		got.resolved++;
	} else {
		assert_int_equal(type, MSG_DIALED);
		got.d = *(const struct msg_dialed *)msg;
		snprintf(got.text, sizeof(got.text), "%.*s", STR_ARG(got.d.attempts));
		got.dialed_order = ++got.order;
		if (got.fd >= 0)
			close(got.fd);
		got.fd = n_fds ? fds[0] : -1;
		got.dialed++;
	}
}

static void on_worker_closed(void *arg, const char *why)
{
	(void)arg;
	(void)why;
	worker_closed = true;
}

static void on_lost(void *arg, uint32_t sandbox, const char *why)
{
	(void)arg;
	got.lost++;
	got.lost_sandbox = sandbox;
	snprintf(got.lost_why, sizeof(got.lost_why), "%s", why);
}

static void on_broker(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	(void)arg;
	(void)fds;
	(void)n_fds;
	if (type == MSG_TICKET) {
		got.t = *(const struct msg_ticket *)msg;
		snprintf(got.name, sizeof(got.name), "%.*s", STR_ARG(got.t.name));
		got.ticket_order = ++got.order;
		got.tickets++;
	} else if (type == MSG_TICKETS_TOLD) {
		got.told_order = ++got.order;
		got.told++;
	} else {
		assert_int_equal(type, MSG_TICKET_END);
		got.ended_ticket = ((const struct msg_ticket_end *)msg)->ticket;
		got.ended++;
	}
}

static int script(struct dns_server *s, const struct dns_query *q)
{
	struct str name = name_str(&q->name);
	char addr[32];

	if (str_ends(name, STR("nx.public.test")))
		return DNS_NXDOMAIN;
	if (q->type != DNS_A && !str_eq(name, STR("v6.public.test")))
		return DNS_NOERROR;
	if (str_ends(name, STR("silent.public.test")))
		return SERVER_SILENT;
	if (str_ends(name, STR("rebind.public.test"))) {
		server_a(s, NULL, s->a_queries % 2 ? "203.0.113.1" : "127.0.0.1", 0);
	} else if (str_ends(name, STR("mixed.public.test"))) {
		server_a(s, NULL, "10.0.0.5", 30);
		server_a(s, NULL, "203.0.113.7", 30);
		server_a(s, NULL, "169.254.169.254", 30);
	} else if (str_ends(name, STR("own.public.test"))) {
		server_a(s, NULL, "203.0.113.99", 30);
	} else if (str_eq(name, STR("v6.public.test"))) {
		if (q->type == DNS_AAAA) {
			server_a(s, NULL, "::1", 30);
			server_a(s, NULL, "fe80::1", 30);
			server_a(s, NULL, "::ffff:127.0.0.1", 30);
		}
	} else if (str_ends(name, STR("bad.public.test"))) {
		snprintf(addr, sizeof(addr), "%.*s", (int)(str_find(name, 'x')), name.p);
		for (char *c = addr; *c; c++)
			if (*c == '-')
				*c = '.';
		server_a(s, NULL, addr, 30);
	} else if (str_ends(name, STR("many.public.test"))) {
		for (unsigned i = 0; i < 60; i++) {
			snprintf(addr, sizeof(addr), "203.0.113.%u", i + 1);
			server_a(s, NULL, addr, 30);
		}
	} else if (str_ends(name, STR("inside.test"))) {
		server_a(s, NULL, "127.0.0.1", 30);
	}
	return DNS_NOERROR;
}

static struct channel *far_end(enum role self, int fd, void (*fn)(void *, uint16_t, const void *, int *, size_t),
			       void (*closed)(void *, const char *))
{
	const struct channel_peer peer = { .self = self, .other = ROLE_DIALER, .table = exeat_messages,
					   .on_message = fn, .on_closed = closed };
	struct channel *c = channel_new(world.base, fd, &peer);

	assert_non_null(c);
	channel_set_phase(c, PHASE_RUN);
	return c;
}

static void open_numbered(uint32_t number)
{
	struct msg_sandbox m = { .sandbox = number, .name = STR("box-1") };
	int fds[3], w[2], b[2];

	assert_int_equal(channel_pair(w), OK);
	assert_int_equal(channel_pair(b), OK);
	worker = far_end(ROLE_WORKER, w[0], on_worker, on_worker_closed);
	broker = far_end(ROLE_BROKER, b[0], on_broker, NULL);
	fds[FD_SANDBOX_WORKER] = w[1];
	fds[FD_SANDBOX_OTHER] = b[1];
	fds[FD_SANDBOX_POLICY] = make_image(rules, sizeof(rules) / sizeof(rules[0]));
	assert_int_equal(dialer_sandbox(dialer, &m, fds, 3), OK);
}

static void open_sandbox(void)
{
	open_numbered(1);
}

/* The supervisor gives a channel to the broker's successor. */
static void open_successor(void)
{
	const struct msg_peer m = { .sandbox = 1, .role = ROLE_BROKER };
	int b[2];

	channel_free(broker);
	assert_int_equal(channel_pair(b), OK);
	broker = far_end(ROLE_BROKER, b[0], on_broker, NULL);
	assert_int_equal(dialer_peer(dialer, &m, b[1]), OK);
}

static void give_rules(const struct test_rule *given, size_t n)
{
	const struct msg_policy m = { .sandbox = 1 };
	int fd = make_image(given, n);

	assert_int_equal(dialer_policy(dialer, &m, &fd, 1), OK);
}

static int setup(void **state)
{
	static struct str servers[1];
	struct str own[] = { STR("203.0.113.99"), STR("127.0.0.5") };
	struct msg_dialer_start start = { .timeout_ms = 200, .servers = { servers, 1 }, .own = { own, 2 } };
	const char *why = "";

	(void)state;
	memset(&got, 0, sizeof(got));
	got.fd = -1;
	worker_closed = false;
	world_open(&world);
	server_open(&server, &world, script);
	servers[0] = str_of(server.address);
	dialer = dialer_new(world.base, &start, world.ring, &why);
	assert_non_null(dialer);
	dialer_on_lost(dialer, on_lost, NULL);
	open_sandbox();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (got.fd >= 0)
		close(got.fd);
	channel_free(worker);
	channel_free(broker);
	dialer_free(dialer);
	server_close(&server);
	world_close(&world);
	return 0;
}

static void send_resolve(const char *name)
{
	const struct msg_resolve m = { .id = 5, .name = str_of(name) };

	assert_int_equal(channel_send(worker, MSG_RESOLVE, &m, NULL, 0), OK);
}

static enum resolve_status resolve(const char *name)
{
	unsigned before = got.resolved;

	send_resolve(name);
	WAIT_UNTIL(&world, got.resolved == before + 1);
	assert_int_equal(got.r.id, 5);
	return (enum resolve_status)got.r.status;
}

static enum dial_status dial(const char *name, bool literal, uint16_t port)
{
	const struct msg_dial m = { .id = 6, .name = str_of(name), .literal = literal, .port = port };
	unsigned before = got.dialed;

	assert_int_equal(channel_send(worker, MSG_DIAL, &m, NULL, 0), OK);
	WAIT_UNTIL(&world, got.dialed == before + 1);
	world_read_log(&world, ROLE_DIALER);
	assert_int_equal(got.d.id, 6);
	return (enum dial_status)got.d.status;
}

/* A socket at the first port of the policy's range that is free. */
static int allowed_socket(uint16_t *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	for (*port = PORT_FIRST; *port <= PORT_LAST; ++*port) {
		at.sin_port = htons(*port);
		if (bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0)
			return fd;
	}
	fail_msg("no port is free");
	return -1;
}

static int listener(uint16_t *port)
{
	int fd = allowed_socket(port);

	assert_int_equal(listen(fd, 16), 0);
	return fd;
}

/* ---- RESOLVE ---- */

static void a_refused_name_is_never_asked_upstream(void **state)
{
	(void)state;
	assert_int_equal(resolve("evil.test"), RESOLVE_DENIED);
	assert_int_equal(resolve("secrets.inside.test"), RESOLVE_DENIED);
	assert_int_equal(dial("evil.test", false, 443), DIAL_DENIED);
	assert_int_equal(server.queries, 0);
}

static void a_name_in_another_spelling_is_not_taken(void **state)
{
	(void)state;
	assert_int_equal(resolve("API.public.test"), RESOLVE_DENIED);
	assert_int_equal(resolve("api.public.test."), RESOLVE_DENIED);
	assert_int_equal(server.queries, 0);
}

/* F25 */
static void of_public_and_private_addresses_only_the_public_ones_are_used(void **state)
{
	(void)state;
	assert_int_equal(resolve("mixed.public.test"), RESOLVE_OK);
	assert_int_equal(got.r.addrs.n, ADDR_PACKED);
	assert_memory_equal(got.addrs, "\4\313\0\161\7", 5);
}

/* F25 */
static void prohibited_addresses_alone_are_told_with_address_and_range(void **state)
{
	const char *names[] = { "169-254-169-254xbad.public.test", "127-0-0-1xbad.public.test",
				"10-0-0-5xbad.public.test", "100-64-0-1xbad.public.test",
				"0-0-0-0xbad.public.test", "198-18-0-7xbad.public.test" };

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		assert_int_equal(resolve(names[i]), RESOLVE_PROHIBITED);
		assert_int_equal(got.r.addrs.n, 0);
		assert_non_null(strstr(got.text, ": "));
	}
	assert_int_equal(resolve("v6.public.test"), RESOLVE_PROHIBITED);
	assert_true(strncmp(got.text, "::1: ", 5) == 0);
}

static void the_hosts_own_addresses_are_prohibited(void **state)
{
	(void)state;
	assert_int_equal(resolve("own.public.test"), RESOLVE_PROHIBITED);
	assert_string_equal(got.text, "203.0.113.99: an address of the host itself");
}

/* F43 */
static void of_many_addresses_as_many_as_a_message_holds_are_passed_on(void **state)
{
	(void)state;
	assert_int_equal(resolve("many.public.test"), RESOLVE_OK);
	assert_int_equal(got.r.addrs.n, MSG_ADDRS_MAX * ADDR_PACKED);
}

static void codes_of_upstream_are_passed_on(void **state)
{
	(void)state;
	assert_int_equal(resolve("nx.public.test"), RESOLVE_NXDOMAIN);
	assert_int_equal(resolve("empty.public.test"), RESOLVE_NODATA);
	assert_int_equal(resolve("nx.public.test"), RESOLVE_NXDOMAIN);
	assert_true(got.r.cached);
}

static void past_the_quota_a_question_is_answered_so(void **state)
{
	char name[64];

	(void)state;
	for (unsigned i = 0; i < DIALER_RESOLVES_MAX; i++) {
		snprintf(name, sizeof(name), "n%u.silent.public.test", i);
		send_resolve(name);
	}
	assert_int_equal(resolve("api.public.test"), RESOLVE_QUOTA);
}

/* ---- DIAL ---- */

static void a_connection_is_vouched_for_before_the_worker_has_it(void **state)
{
	uint16_t port = 0;
	int fd = listener(&port), peer;

	(void)state;
	assert_int_equal(dial("api.inside.test", false, port), DIAL_OK);
	WAIT_UNTIL(&world, got.tickets == 1);
	assert_true(got.fd >= 0);
	peer = accept(fd, NULL, NULL);
	assert_true(peer >= 0);
	assert_true(got.d.ticket != 0);
	assert_true(got.t.ticket == got.d.ticket);
	assert_string_equal(got.name, "api.inside.test");
	assert_int_equal(got.t.port, port);
	assert_logged(&world, "\"verdict\":\"allow\",\"rule\":\"inside\"");
	assert_logged(&world, "\"destination\":\"api.inside.test\",\"address\":\"127.0.0.1\"");
	close(peer);
	close(fd);
}

static void hanging_up_ends_the_ticket_once(void **state)
{
	uint16_t port = 0;
	int fd = listener(&port);
	struct msg_hangup m;

	(void)state;
	assert_int_equal(dial("api.inside.test", false, port), DIAL_OK);
	m.ticket = got.d.ticket;
	assert_int_equal(channel_send(worker, MSG_HANGUP, &m, NULL, 0), OK);
	assert_int_equal(channel_send(worker, MSG_HANGUP, &m, NULL, 0), OK);
	WAIT_UNTIL(&world, got.ended == 1);
	assert_true(got.ended_ticket == m.ticket);
	assert_int_equal(resolve("nx.public.test"), RESOLVE_NXDOMAIN);
	assert_int_equal(got.ended, 1);
	close(fd);
}

/* F26: the server says a public address, then loopback, by turns, with a TTL of 0. */
static void a_name_that_is_rebound_is_never_connected_to_at_loopback(void **state)
{
	char name[64];

	(void)state;
	for (unsigned i = 0; i < 50; i++) {
		enum resolve_status status;

		/* a new name each time, so that no cache hides the server's other word */
		snprintf(name, sizeof(name), "n%u.rebind.public.test", i);
		status = resolve(name);
		if (status == RESOLVE_OK)
			assert_memory_equal(got.addrs, "\4\313\0\161\1", 5);
		else
			assert_int_equal(status, RESOLVE_PROHIBITED);
		assert_int_equal(resolve(name), status);
	}
	assert_int_equal(server.a_queries, 50);
	snprintf(name, sizeof(name), "last.rebind.public.test");
	assert_int_equal(resolve(name), RESOLVE_OK);
	assert_int_equal(dial("next.rebind.public.test", false, 443), DIAL_PROHIBITED);
	assert_string_equal(got.text, "127.0.0.1: loopback (RFC 1122)");
}

static void a_port_that_no_rule_names_is_denied(void **state)
{
	(void)state;
	assert_int_equal(dial("api.public.test", false, 22), DIAL_DENIED);
	assert_int_equal(dial("api.public.test", false, 0), DIAL_DENIED);
	assert_int_equal(server.queries, 0);
	assert_logged(&world, "\"verdict\":\"deny\"");
}

static void a_prohibited_address_is_not_dialled_and_the_log_has_both(void **state)
{
	(void)state;
	assert_int_equal(dial("127-0-0-1xbad.public.test", false, 443), DIAL_PROHIBITED);
	assert_int_equal(got.fd, -1);
	assert_logged(&world, "\"destination\":\"127-0-0-1xbad.public.test\"");
	assert_logged(&world, "127.0.0.1: ");
	assert_logged(&world, "\"proxy_error\":\"destination_ip_prohibited\"");
}

static void a_name_that_does_not_resolve_says_how(void **state)
{
	(void)state;
	assert_int_equal(dial("nx.public.test", false, 443), DIAL_NO_NAME);
	assert_int_equal(got.d.resolve, RESOLVE_NXDOMAIN);
	assert_int_equal(dial("silent.public.test", false, 443), DIAL_NO_NAME);
	assert_int_equal(got.d.resolve, RESOLVE_TIMEOUT);
}

static void a_literal_is_dialled_where_a_rule_names_it_and_not_the_hosts_own(void **state)
{
	uint16_t port = 0;
	int fd = listener(&port);

	(void)state;
	assert_int_equal(dial("127.0.0.1", true, port), DIAL_OK);
	assert_int_equal(dial("127.0.0.2", true, port), DIAL_DENIED);
	assert_int_equal(dial("127.0.0.5", true, port), DIAL_PROHIBITED);
	assert_int_equal(dial("api.inside.test", true, port), DIAL_DENIED);
	assert_int_equal(server.queries, 0);
	close(fd);
}

static void a_refusing_origin_is_told_as_refused(void **state)
{
	uint16_t port = 0;
	int fd = allowed_socket(&port);

	(void)state;
	assert_int_equal(dial("api.inside.test", false, port), DIAL_REFUSED);
	assert_string_equal(got.text, "127.0.0.1: connection refused");
	assert_int_equal(got.tickets, 0);
	close(fd);
}

static void nothing_is_connected_that_the_log_does_not_take(void **state)
{
	uint16_t port = 0;
	int fd = listener(&port);

	(void)state;
	ring_set_refusing(world.reader, true);
	assert_int_equal(dial("api.inside.test", false, port), DIAL_FAILED);
	assert_int_equal(got.fd, -1);
	assert_int_equal(got.tickets, 0);
	close(fd);
}

static void past_the_quota_a_dial_is_answered_so(void **state)
{
	struct msg_dial m = { .id = 6, .port = 443 };
	char name[64];

	(void)state;
	for (unsigned i = 0; i < DIALER_DIALS_MAX; i++) {
		snprintf(name, sizeof(name), "d%u.silent.public.test", i);
		m.name = str_of(name);
		assert_int_equal(channel_send(worker, MSG_DIAL, &m, NULL, 0), OK);
	}
	assert_int_equal(dial("api.inside.test", false, PORT_FIRST), DIAL_QUOTA);
}

/* ---- sandboxes ---- */

static void a_worker_that_ends_leaves_its_sandbox_until_that_is_gone(void **state)
{
	char name[64];

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "n%u.silent.public.test", i);
		send_resolve(name);
	}
	WAIT_UNTIL(&world, server.queries > 0);
	channel_free(worker);
	worker = NULL;
	open_successor();
	WAIT_UNTIL(&world, got.told == 2);
	assert_int_equal(dialer_sandboxes(dialer), 1);
	assert_int_equal(got.lost, 0);
	dialer_sandbox_gone(dialer, 1);
	assert_int_equal(dialer_sandboxes(dialer), 0);
	assert_int_equal(got.lost, 0);
}

static void a_gone_sandbox_closes_its_channels_and_forgets_what_is_under_way(void **state)
{
	const struct msg_dial m = { .id = 6, .name = STR("d.silent.public.test"), .port = 443 };
	struct channel *old_worker = worker, *old_broker = broker;

	(void)state;
	send_resolve("silent.public.test");
	assert_int_equal(channel_send(worker, MSG_DIAL, &m, NULL, 0), OK);
	WAIT_UNTIL(&world, server.queries > 1);
	dialer_sandbox_gone(dialer, 1);
	dialer_sandbox_gone(dialer, 1);
	WAIT_UNTIL(&world, worker_closed);
	open_sandbox();
	assert_int_equal(resolve("nx.public.test"), RESOLVE_NXDOMAIN);
	assert_int_equal(got.resolved, 1);
	assert_int_equal(got.dialed, 0);
	channel_free(old_worker);
	channel_free(old_broker);
}

static void the_tickets_of_a_gone_sandbox_are_not_those_of_the_next_with_its_number(void **state)
{
	struct channel *old_worker = worker, *old_broker = broker;
	uint16_t port = 0;
	int fd = listener(&port);
	struct msg_hangup m;

	(void)state;
	assert_int_equal(dial("api.inside.test", false, port), DIAL_OK);
	WAIT_UNTIL(&world, got.tickets == 1);
	m.ticket = got.d.ticket;
	dialer_sandbox_gone(dialer, 1);
	open_sandbox();
	WAIT_UNTIL(&world, got.told == 2);
	assert_int_equal(channel_send(worker, MSG_HANGUP, &m, NULL, 0), OK);
	assert_int_equal(resolve("nx.public.test"), RESOLVE_NXDOMAIN);
	assert_int_equal(got.tickets, 1);
	assert_int_equal(got.ended, 0);
	channel_free(old_worker);
	channel_free(old_broker);
	close(fd);
}

/* ---- a broker's successor ---- */

static void a_brokers_successor_is_told_each_live_ticket_and_then_that_these_were_all(void **state)
{
	uint16_t port = 0;
	int fd = listener(&port);
	struct msg_hangup over;
	uint64_t live;

	(void)state;
	assert_int_equal(dial("api.inside.test", false, port), DIAL_OK);
	over.ticket = got.d.ticket;
	assert_int_equal(dial("127.0.0.1", true, port), DIAL_OK);
	live = got.d.ticket;
	assert_int_equal(channel_send(worker, MSG_HANGUP, &over, NULL, 0), OK);
	WAIT_UNTIL(&world, got.ended == 1 && got.tickets == 2);
	open_successor();
	WAIT_UNTIL(&world, got.told == 2);
	assert_int_equal(got.tickets, 3);
	assert_true(got.t.ticket == live);
	assert_true(got.t.literal);
	assert_int_equal(got.t.port, port);
	assert_string_equal(got.name, "127.0.0.1");
	assert_true(got.ticket_order < got.told_order);
	close(fd);
}

static void what_was_connected_without_a_broker_is_told_to_the_next_one(void **state)
{
	uint16_t port = 0;
	int fd = listener(&port);

	(void)state;
	channel_free(broker);
	broker = NULL;
	assert_int_equal(dial("api.inside.test", false, port), DIAL_OK);
	assert_int_equal(got.tickets, 0);
	open_successor();
	WAIT_UNTIL(&world, got.told == 1);
	assert_int_equal(got.tickets, 1);
	assert_true(got.t.ticket == got.d.ticket);
	assert_string_equal(got.name, "api.inside.test");
	assert_int_equal(dial("api.inside.test", false, port), DIAL_OK);
	WAIT_UNTIL(&world, got.tickets == 2);
	assert_true(got.told_order < got.ticket_order);
	close(fd);
}

/* The channel's queue holds what the table does, of the longest names, before its reader reads. */
static void a_full_table_goes_into_a_channel_that_nobody_reads_yet(void **state)
{
	const struct channel_peer peer = { .self = ROLE_DIALER, .other = ROLE_BROKER, .table = exeat_messages };
	struct msg_ticket m = { .port = 443 };
	char name[MSG_NAME_MAX], addr[ADDR_PACKED] = { 4 };
	struct channel *c;
	int ends[2];

	(void)state;
	memset(name, 'a', sizeof(name));
	m.name = str_n(name, sizeof(name));
	m.addr = str_n(addr, sizeof(addr));
	assert_int_equal(channel_pair(ends), OK);
	c = channel_new(world.base, ends[0], &peer);
	channel_set_phase(c, PHASE_RUN);
	for (m.ticket = 1; m.ticket <= DIALER_TICKETS_MAX; m.ticket++)
		assert_int_equal(channel_send(c, MSG_TICKET, &m, NULL, 0), OK);
	assert_true(channel_queued(c) > 0);
	channel_free(c);
	close(ends[1]);
}

static void a_peer_for_nobody_is_closed(void **state)
{
	const struct msg_peer unknown = { .sandbox = 9, .role = ROLE_BROKER },
			      no_broker = { .sandbox = 1, .role = ROLE_WORKER };
	char byte;
	int b[2];

	(void)state;
	assert_int_equal(channel_pair(b), OK);
	assert_int_equal(dialer_peer(dialer, &unknown, b[1]), ERR_NOTFOUND);
	assert_int_equal(read(b[0], &byte, 1), 0);
	close(b[0]);
	assert_int_equal(channel_pair(b), OK);
	assert_int_equal(dialer_peer(dialer, &no_broker, b[1]), ERR_NOTFOUND);
	assert_int_equal(read(b[0], &byte, 1), 0);
	close(b[0]);
}

static void a_broker_that_speaks_where_it_has_nothing_to_say_costs_the_sandbox(void **state)
{
	const struct msg_peer m = { .sandbox = 1, .role = ROLE_BROKER };
	int b[2];

	(void)state;
	assert_int_equal(channel_pair(b), OK);
	assert_int_equal(dialer_peer(dialer, &m, b[1]), OK);
	assert_int_equal(send(b[0], "\xff\xff", 2, MSG_NOSIGNAL), 2);
	WAIT_UNTIL(&world, got.lost == 1);
	assert_int_equal(dialer_sandboxes(dialer), 0);
	close(b[0]);
}

/* ---- a new policy ---- */

static const struct test_rule only_other[] = {
	{ .id = "other", .hosts = { LIST("**.other.test") }, .ports = { LIST("443") } },
};

static void a_new_policy_is_asked_from_then_on(void **state)
{
	(void)state;
	assert_int_equal(resolve("nx.public.test"), RESOLVE_NXDOMAIN);
	give_rules(only_other, 1);
	assert_int_equal(resolve("nx.public.test"), RESOLVE_DENIED);
	assert_int_equal(dial("nx.public.test", false, 443), DIAL_DENIED);
	assert_int_equal(resolve("api.other.test"), RESOLVE_NODATA);
}

static void what_is_being_resolved_is_judged_by_the_new_policy(void **state)
{
	const struct msg_dial m = { .id = 6, .name = STR("api.inside.test"), .port = PORT_FIRST };

	(void)state;
	send_resolve("nx.public.test");
	assert_int_equal(channel_send(worker, MSG_DIAL, &m, NULL, 0), OK);
	WAIT_UNTIL(&world, server.queries >= 1);
	assert_int_equal(got.resolved + got.dialed, 0);
	give_rules(only_other, 1);
	WAIT_UNTIL(&world, got.resolved == 1 && got.dialed == 1);
	assert_int_equal(got.r.status, RESOLVE_DENIED);
	assert_int_equal(got.d.status, DIAL_DENIED);
	assert_int_equal(got.fd, -1);
}

static void a_connection_that_is_made_under_another_policy_is_not_given_out(void **state)
{
	uint16_t port = 0;
	int fd = listener(&port), peer = -1;
	struct msg_dial m = { .id = 6, .name = STR("127.0.0.1"), .literal = true, .port = port };
	char byte;

	(void)state;
	assert_int_equal(channel_send(worker, MSG_DIAL, &m, NULL, 0), OK);
	WAIT_UNTIL(&world, (peer = accept(fd, NULL, NULL)) >= 0);
	assert_int_equal(got.dialed, 0);
	give_rules(only_other, 1);
	WAIT_UNTIL(&world, got.dialed == 1);
	assert_int_equal(got.d.status, DIAL_DENIED);
	assert_string_equal(got.text, "127.0.0.1: denied by policy");
	assert_int_equal(got.fd, -1);
	assert_int_equal(got.tickets, 0);
	assert_int_equal(read(peer, &byte, 1), 0);
	close(peer);
	close(fd);
}

static void a_policy_that_does_not_map_changes_nothing(void **state)
{
	const struct msg_policy mine = { .sandbox = 1 }, nobodys = { .sandbox = 9 };
	int fd = new_memfd();

	(void)state;
	assert_int_equal(dialer_policy(dialer, &mine, &fd, 1), ERR_SYNTAX);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	fd = make_image(only_other, 1);
	assert_int_equal(dialer_policy(dialer, &nobodys, &fd, 1), ERR_NOTFOUND);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_int_equal(resolve("nx.public.test"), RESOLVE_NXDOMAIN);
}

/* ---- who breaks the rules ---- */

static void a_worker_that_breaks_its_channels_rules_is_told_of(void **state)
{
	struct msg_sandbox m = { .sandbox = 7, .name = STR("box-7") };
	int fds[3], w[2], b[2];

	(void)state;
	assert_int_equal(channel_pair(w), OK);
	assert_int_equal(channel_pair(b), OK);
	fds[FD_SANDBOX_WORKER] = w[1];
	fds[FD_SANDBOX_OTHER] = b[1];
	fds[FD_SANDBOX_POLICY] = make_image(rules, sizeof(rules) / sizeof(rules[0]));
	assert_int_equal(dialer_sandbox(dialer, &m, fds, 3), OK);
	assert_int_equal(dialer_sandboxes(dialer), 2);
	assert_int_equal(send(w[0], "\xff\xff", 2, MSG_NOSIGNAL), 2);
	WAIT_UNTIL(&world, dialer_sandboxes(dialer) == 1);
	assert_int_equal(got.lost, 1);
	assert_int_equal(got.lost_sandbox, 7);
	assert_string_equal(got.lost_why, "unknown message");
	close(w[0]);
	close(b[0]);
}

static void without_a_broker_connections_are_still_made(void **state)
{
	uint16_t port = 0;
	int fd = listener(&port);

	(void)state;
	channel_free(broker);
	broker = NULL;
	assert_int_equal(dial("api.inside.test", false, port), DIAL_OK);
	assert_int_equal(dial("api.inside.test", false, port), DIAL_OK);
	close(fd);
}

static void a_known_number_takes_the_old_ones_place(void **state)
{
	struct channel *old_worker = worker, *old_broker = broker;

	(void)state;
	open_sandbox();
	assert_int_equal(dialer_sandboxes(dialer), 1);
	WAIT_UNTIL(&world, worker_closed);
	channel_free(old_worker);
	channel_free(old_broker);
	assert_int_equal(resolve("nx.public.test"), RESOLVE_NXDOMAIN);
}

static void a_policy_that_is_none_is_refused(void **state)
{
	struct msg_sandbox m = { .sandbox = 2, .name = STR("box-2") };
	int fds[3], w[2], b[2];

	(void)state;
	assert_int_equal(channel_pair(w), OK);
	assert_int_equal(channel_pair(b), OK);
	fds[0] = w[1];
	fds[1] = b[1];
	fds[2] = new_memfd();
	assert_int_not_equal(dialer_sandbox(dialer, &m, fds, 3), OK);
	assert_int_equal(dialer_sandboxes(dialer), 1);
	close(w[0]);
	close(b[0]);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_refused_name_is_never_asked_upstream),
		CASE(a_name_in_another_spelling_is_not_taken),
		CASE(of_public_and_private_addresses_only_the_public_ones_are_used),
		CASE(prohibited_addresses_alone_are_told_with_address_and_range),
		CASE(the_hosts_own_addresses_are_prohibited),
		CASE(of_many_addresses_as_many_as_a_message_holds_are_passed_on),
		CASE(codes_of_upstream_are_passed_on),
		CASE(past_the_quota_a_question_is_answered_so),
		CASE(a_connection_is_vouched_for_before_the_worker_has_it),
		CASE(hanging_up_ends_the_ticket_once),
		CASE(a_name_that_is_rebound_is_never_connected_to_at_loopback),
		CASE(a_port_that_no_rule_names_is_denied),
		CASE(a_prohibited_address_is_not_dialled_and_the_log_has_both),
		CASE(a_name_that_does_not_resolve_says_how),
		CASE(a_literal_is_dialled_where_a_rule_names_it_and_not_the_hosts_own),
		CASE(a_refusing_origin_is_told_as_refused),
		CASE(nothing_is_connected_that_the_log_does_not_take),
		CASE(past_the_quota_a_dial_is_answered_so),
		CASE(a_worker_that_ends_leaves_its_sandbox_until_that_is_gone),
		CASE(a_gone_sandbox_closes_its_channels_and_forgets_what_is_under_way),
		CASE(the_tickets_of_a_gone_sandbox_are_not_those_of_the_next_with_its_number),
		CASE(a_brokers_successor_is_told_each_live_ticket_and_then_that_these_were_all),
		CASE(what_was_connected_without_a_broker_is_told_to_the_next_one),
		CASE(a_full_table_goes_into_a_channel_that_nobody_reads_yet),
		CASE(a_peer_for_nobody_is_closed),
		CASE(a_broker_that_speaks_where_it_has_nothing_to_say_costs_the_sandbox),
		CASE(a_new_policy_is_asked_from_then_on),
		CASE(what_is_being_resolved_is_judged_by_the_new_policy),
		CASE(a_connection_that_is_made_under_another_policy_is_not_given_out),
		CASE(a_policy_that_does_not_map_changes_nothing),
		CASE(a_worker_that_breaks_its_channels_rules_is_told_of),
		CASE(without_a_broker_connections_are_still_made),
		CASE(a_known_number_takes_the_old_ones_place),
		CASE(a_policy_that_is_none_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
