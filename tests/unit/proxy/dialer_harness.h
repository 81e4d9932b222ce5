/* tests/unit/proxy/dialer_harness.h - a dialer between a worker, a broker, and a scripted DNS server
 *
 * What the far ends were told last is in @got. setup() and teardown() make and free all of it for
 * each case.
 */
#ifndef DIALER_HARNESS_H
#define DIALER_HARNESS_H

#include "tests/unit/policy/make_policy.h"
#include "tests/unit/proxy/dns_server.h"

#include <fcntl.h>

#include "proxy/dialer_service.h"
#include "sandbox/channel.h"

#define DIALS_MAX 16
#define QUEUED_MAX (256u << 10)
#define JOIN 5	/* of each sandbox: said again where it is lost */

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

#define DIALS_MAX 16
#define QUEUED_MAX (256u << 10)

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

static inline void on_worker(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
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

static inline void on_worker_closed(void *arg, const char *why)
{
	(void)arg;
	(void)why;
	worker_closed = true;
}

static inline void on_lost(void *arg, uint32_t sandbox, uint32_t join, const char *why)
{
	(void)arg;
	assert_int_equal(join, JOIN);
	got.lost++;
	got.lost_sandbox = sandbox;
	snprintf(got.lost_why, sizeof(got.lost_why), "%s", why);
}

static inline void on_broker(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
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

static inline int script(struct dns_server *s, const struct dns_query *q)
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

static inline struct channel *far_end(enum role self, int fd, void (*fn)(void *, uint16_t, const void *, int *, size_t),
			       void (*closed)(void *, const char *))
{
	const struct channel_peer peer = { .self = self, .other = ROLE_DIALER, .table = exeat_messages,
					   .on_message = fn, .on_closed = closed };
	struct channel *c = channel_new(world.base, fd, &peer);

	assert_non_null(c);
	channel_set_phase(c, PHASE_RUN);
	return c;
}

static inline void open_numbered(uint32_t number)
{
	struct msg_sandbox m = { .sandbox = number, .join = JOIN, .name = STR("box-1") };
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

static inline void open_sandbox(void)
{
	open_numbered(1);
}

/* The supervisor gives a channel to the broker's successor. */
static inline void open_successor(void)
{
	const struct msg_peer m = { .sandbox = 1, .role = ROLE_BROKER };
	int b[2];

	channel_free(broker);
	assert_int_equal(channel_pair(b), OK);
	broker = far_end(ROLE_BROKER, b[0], on_broker, NULL);
	assert_int_equal(dialer_peer(dialer, &m, b[1]), OK);
}

static inline void give_rules(const struct test_rule *given, size_t n)
{
	const struct msg_policy m = { .sandbox = 1 };
	int fd = make_image(given, n);

	assert_int_equal(dialer_policy(dialer, &m, &fd, 1), OK);
}

static inline int setup(void **state)
{
	static struct str servers[1];
	struct str own[] = { STR("203.0.113.99"), STR("127.0.0.5") };
	struct msg_dialer_start start = { .timeout_ms = 200, .servers = { servers, 1 }, .own = { own, 2 },
					  .dials = DIALS_MAX, .queued = QUEUED_MAX };
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

static inline int teardown(void **state)
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

static inline void send_resolve(const char *name)
{
	const struct msg_resolve m = { .id = 5, .name = str_of(name) };

	assert_int_equal(channel_send(worker, MSG_RESOLVE, &m, NULL, 0), OK);
}

static inline enum resolve_status resolve(const char *name)
{
	unsigned before = got.resolved;

	send_resolve(name);
	WAIT_UNTIL(&world, got.resolved == before + 1);
	assert_int_equal(got.r.id, 5);
	return (enum resolve_status)got.r.status;
}

static inline enum dial_status dial(const char *name, bool literal, uint16_t port)
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
static inline int allowed_socket(uint16_t *port)
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

static inline int listener(uint16_t *port)
{
	int fd = allowed_socket(port);

	assert_int_equal(listen(fd, 16), 0);
	return fd;
}

#endif
