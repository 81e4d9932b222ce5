#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <libmnl/libmnl.h>
#include <libnftnl/table.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <netinet/ip_icmp.h>

#include "sandbox/netlink.h"
#include "sandbox/nflog.h"
#include "sandbox/rules.h"
#include "sandbox/wire.h"

#define WAIT_MS 3000
#define SYNTHETIC 0xc6120007u	/* 198.18.0.7 */
#define ELSEWHERE 0x08080808u

struct world {
	struct wire_gateway *gateway;
	struct wire_box box[2];
	struct addr_range pool;
};

static struct world world;

static void need(enum err e, const struct wire_error *why)
{
	if (e != OK)
		fail_msg("%s: %s", why->what, strerror(why->code));
}

static int open_world(void **state)
{
	struct wire_error why = { "", 0 };

	*state = &world;
	assert_true(addr_range_parse(STR("100.64.0.0/24"), &world.pool));
	need(wire_gateway_open(&world.gateway, &why), &why);
	for (uint32_t i = 0; i < 2; i++)
		need(wire_box_open(world.gateway, i, &world.pool, -1, &world.box[i], &why), &why);
	return 0;
}

static int close_world(void **state)
{
	(void)state;
	for (size_t i = 0; i < 2; i++)
		wire_box_close(world.gateway, &world.box[i]);
	wire_gateway_close(world.gateway);
	return 0;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- acts inside a box: a child that has gone there, whose exit status is the errno ---- */

struct act {
	int type;		/* SOCK_STREAM, SOCK_DGRAM, or SOCK_RAW: an ICMP echo */
	uint32_t from, to;	/* from: 0 for the box's own */
	uint16_t port;
};

static struct sockaddr_in at(uint32_t address, uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port),
				     .sin_addr.s_addr = htonl(address) };
}

/* 0 when something came back, or the error that the kernel told. */
static int exchange(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct icmphdr echo = { .type = ICMP_ECHO };
	char answer[64];

	if (send(fd, &echo, sizeof(echo), 0) < 0)
		return errno;
	if (poll(&p, 1, WAIT_MS) != 1)
		return ETIMEDOUT;
	return recv(fd, answer, sizeof(answer), 0) < 0 ? errno : 0;
}

static int perform(const struct act *a)
{
	struct sockaddr_in from = at(a->from, 0), to = at(a->to, a->port);
	struct timeval limit = { .tv_sec = WAIT_MS / 1000 };
	int one = 1, type = a->type == SOCK_RAW ? SOCK_DGRAM : a->type;
	int fd = socket(AF_INET, type, a->type == SOCK_RAW ? IPPROTO_ICMP : 0);

	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (a->from != 0 && (setsockopt(fd, SOL_IP, IP_FREEBIND, &one, sizeof(one)) < 0 ||
			     setsockopt(fd, SOL_IP, IP_TRANSPARENT, &one, sizeof(one)) < 0 ||
			     bind(fd, (struct sockaddr *)&from, sizeof(from)) < 0))
		return 200;
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		return errno == EINPROGRESS ? ETIMEDOUT : errno;
	return type == SOCK_DGRAM ? exchange(fd) : 0;
}

static pid_t start(const struct wire_box *b, const struct act *a)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(setns(b->netns, CLONE_NEWNET) < 0 ? 201 : perform(a));
	return pid;
}

static int finish(pid_t pid)
{
	int status = 0;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* Ends with @want, and at once: a SYN that nobody answers would be tried for two minutes. On a busy
 * machine "at once" may take a while. */
static void expect(const struct wire_box *b, struct act a, int want)
{
	double begun = now();

	assert_int_equal(finish(start(b, &a)), want);
	assert_true(now() - begun < 10.0);
}

static void admit(const struct wire_box *b, uint32_t address, uint16_t port)
{
	struct wire_error why = { "", 0 };

	need(wire_admit(world.gateway, b, address, &port, 1, &why), &why);
}

static int accept_soon(int listener)
{
	struct pollfd p = { .fd = listener, .events = POLLIN };

	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	return accept4(listener, NULL, NULL, SOCK_CLOEXEC);
}

static void expect_name(int fd, uint32_t address, uint16_t port)
{
	struct sockaddr_in name;
	socklen_t n = sizeof(name);

	assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &n), 0);
	assert_int_equal(ntohl(name.sin_addr.s_addr), address);
	assert_int_equal(ntohs(name.sin_port), port);
}

static bool nothing_waits(int listener)
{
	struct pollfd p = { .fd = listener, .events = POLLIN };

	return poll(&p, 1, 0) == 0;
}

static void admitted_address_reaches_the_listener_of_its_box(void **state)
{
	struct wire_box *b = &world.box[0];
	int fd;

	(void)state;
	admit(b, SYNTHETIC, 443);
	expect(b, (struct act){ SOCK_STREAM, 0, SYNTHETIC, 443 }, 0);
	fd = accept_soon(b->tproxy);
	expect_name(fd, SYNTHETIC, 443);
	close(fd);
	assert_true(nothing_waits(world.box[1].tproxy));
}

static void bytes_of_a_box_are_counted_each_way(void **state)
{
	struct wire_box *b = &world.box[0];
	struct wire_error why = { "", 0 };
	uint64_t up, down, up_then, down_then, other, other_then, unused;

	(void)state;
	admit(b, SYNTHETIC, 443);
	need(wire_box_bytes(world.gateway, b, &up, &down, &why), &why);
	need(wire_box_bytes(world.gateway, &world.box[1], &other, &unused, &why), &why);
	expect(b, (struct act){ SOCK_STREAM, 0, SYNTHETIC, 443 }, 0);
	close(accept_soon(b->tproxy));
	need(wire_box_bytes(world.gateway, b, &up_then, &down_then, &why), &why);
	need(wire_box_bytes(world.gateway, &world.box[1], &other_then, &unused, &why), &why);
	assert_true(up_then > up && down_then > down);
	assert_int_equal(other_then, other);
}

static void one_address_admitted_to_two_boxes_reaches_each_ones_listener(void **state)
{
	(void)state;
	for (size_t i = 0; i < 2; i++)
		admit(&world.box[i], SYNTHETIC + 1, 8443);
	for (size_t i = 0; i < 2; i++) {
		int fd;

		expect(&world.box[i], (struct act){ SOCK_STREAM, 0, SYNTHETIC + 1, 8443 }, 0);
		assert_true(nothing_waits(world.box[1 - i].tproxy));
		fd = accept_soon(world.box[i].tproxy);
		expect_name(fd, SYNTHETIC + 1, 8443);
		close(fd);
	}
}

static void admission_is_of_one_box_and_one_port(void **state)
{
	(void)state;
	admit(&world.box[0], SYNTHETIC + 2, 443);
	expect(&world.box[1], (struct act){ SOCK_STREAM, 0, SYNTHETIC + 2, 443 }, ECONNREFUSED);
	expect(&world.box[0], (struct act){ SOCK_STREAM, 0, SYNTHETIC + 2, 444 }, ECONNREFUSED);
}

static void port_80_of_its_own_gateway_reaches_the_worker_and_no_other(void **state)
{
	struct wire_box *b = &world.box[0];
	int fd;

	(void)state;
	expect(b, (struct act){ SOCK_STREAM, 0, b->gateway, WIRE_NOTICE_PORT }, 0);
	fd = accept_soon(b->tproxy);
	expect_name(fd, b->gateway, WIRE_NOTICE_PORT);
	close(fd);
	expect(b, (struct act){ SOCK_STREAM, 0, b->gateway, 443 }, ECONNREFUSED);
	expect(b, (struct act){ SOCK_STREAM, 0, world.box[1].gateway, WIRE_NOTICE_PORT }, ECONNREFUSED);
}

static void what_a_policy_admits_of_the_gateway_is_withdrawn_without_its_port_80(void **state)
{
	static const uint16_t ports[] = { WIRE_NOTICE_PORT, 8081 };
	struct wire_box *b = &world.box[1];
	struct wire_error why = { "", 0 };

	(void)state;
	need(wire_admit(world.gateway, b, b->gateway, ports, 2, &why), &why);
	wire_admit_anew(b);
	need(wire_admit_done(world.gateway, b, &why), &why);
	expect(b, (struct act){ SOCK_STREAM, 0, b->gateway, 8081 }, ECONNREFUSED);
	expect(b, (struct act){ SOCK_STREAM, 0, b->gateway, WIRE_NOTICE_PORT }, 0);
	close(accept_soon(b->tproxy));
}

static void what_is_not_admitted_is_refused_at_once(void **state)
{
	static const uint16_t ports[] = { 22, 80, 443, 853, 3000, 5432, 8080, 65535 };

	(void)state;
	for (size_t i = 0; i < sizeof(ports) / sizeof(*ports); i++) {
		expect(&world.box[0], (struct act){ SOCK_STREAM, 0, ELSEWHERE, ports[i] }, ECONNREFUSED);
		expect(&world.box[0], (struct act){ SOCK_DGRAM, 0, ELSEWHERE, ports[i] }, ECONNREFUSED);
	}
}

static void fifty_udp_refusals_in_a_row_are_all_seen(void **state)
{
	(void)state;
	for (int i = 0; i < 50; i++)
		expect(&world.box[0], (struct act){ SOCK_DGRAM, 0, ELSEWHERE, 123 }, ECONNREFUSED);
}

static void another_boxs_address_is_refused_not_silent(void **state)
{
	struct wire_box *a = &world.box[0], *b = &world.box[1];

	(void)state;
	expect(a, (struct act){ SOCK_STREAM, 0, b->address, 80 }, ECONNREFUSED);
	expect(a, (struct act){ SOCK_STREAM, 0, b->address, 53 }, ECONNREFUSED);
	expect(a, (struct act){ SOCK_DGRAM, 0, b->address, 53 }, ECONNREFUSED);
	expect(a, (struct act){ SOCK_STREAM, 0, b->gateway, 80 }, ECONNREFUSED);
	expect(a, (struct act){ SOCK_DGRAM, 0, b->address, 9 }, ECONNREFUSED);
}

static void forged_source_is_dropped_and_its_owner_hears_nothing(void **state)
{
	struct wire_box *a = &world.box[0], *b = &world.box[1];
	uint32_t forged[] = { b->address, b->gateway, a->gateway, a->gateway - 1,
			      ELSEWHERE, SYNTHETIC };
	pid_t pid[sizeof(forged) / sizeof(*forged)];

	(void)state;
	admit(a, SYNTHETIC + 3, 443);
	for (size_t i = 0; i < sizeof(forged) / sizeof(*forged); i++)
		pid[i] = start(a, &(struct act){ SOCK_STREAM, forged[i], SYNTHETIC + 3, 443 });
	for (size_t i = 0; i < sizeof(forged) / sizeof(*forged); i++)
		assert_int_equal(finish(pid[i]), ETIMEDOUT);
	assert_true(nothing_waits(a->tproxy));
	assert_true(nothing_waits(b->tproxy));
	assert_true(nothing_waits(b->nflog));
}

static void the_workers_own_port_is_refused(void **state)
{
	struct wire_box *b = &world.box[0];

	(void)state;
	expect(b, (struct act){ SOCK_STREAM, 0, b->gateway, WIRE_TPROXY_PORT }, ECONNREFUSED);
	expect(b, (struct act){ SOCK_STREAM, 0, ELSEWHERE, WIRE_TPROXY_PORT }, ECONNREFUSED);
	assert_true(nothing_waits(b->tproxy));
}

static void echo_is_answered_by_the_gateway_for_itself_alone(void **state)
{
	struct wire_box *b = &world.box[0];

	(void)state;
	expect(b, (struct act){ SOCK_RAW, 0, b->gateway, 0 }, 0);
	expect(b, (struct act){ SOCK_RAW, 0, ELSEWHERE, 0 }, EHOSTUNREACH);
	expect(b, (struct act){ SOCK_RAW, 0, world.box[1].gateway, 0 }, EHOSTUNREACH);
}

/* Answers one query from the address that it was sent to. */
static uint32_t answer_query(int dns)
{
	char byte[64], control[CMSG_SPACE(sizeof(struct in_pktinfo))];
	struct sockaddr_in peer;
	struct iovec io = { byte, sizeof(byte) };
	struct msghdr m = { .msg_name = &peer, .msg_namelen = sizeof(peer), .msg_iov = &io,
			    .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
	struct pollfd p = { .fd = dns, .events = POLLIN };
	struct in_pktinfo info;
	struct cmsghdr *h;
	uint32_t asked;

	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	assert_true(recvmsg(dns, &m, 0) > 0);
	h = CMSG_FIRSTHDR(&m);
	if (!h || h->cmsg_type != IP_PKTINFO || h->cmsg_len < CMSG_LEN(sizeof(info)))
		fail_msg("the query came without its IP_PKTINFO");
	memcpy(&info, CMSG_DATA(h), sizeof(info));
	asked = ntohl(info.ipi_addr.s_addr);
	info.ipi_spec_dst = info.ipi_addr;
	info.ipi_ifindex = 0;
	memcpy(CMSG_DATA(h), &info, sizeof(info));
	assert_true(sendmsg(dns, &m, 0) > 0);
	return asked;
}

static void dns_query_to_any_address_arrives_and_is_answered_as_from_there(void **state)
{
	struct wire_box *b = &world.box[0];
	uint32_t servers[] = { ELSEWHERE, b->gateway, 0x01010101u };

	(void)state;
	for (size_t i = 0; i < sizeof(servers) / sizeof(*servers); i++) {
		pid_t pid = start(b, &(struct act){ SOCK_DGRAM, 0, servers[i], 53 });

		assert_int_equal(answer_query(b->dns_udp), servers[i]);
		/* The child's socket is connected: it takes an answer from that address only. */
		assert_int_equal(finish(pid), 0);
	}
}

static void dns_over_tcp_to_any_address_arrives(void **state)
{
	struct wire_box *b = &world.box[0];
	int fd;

	(void)state;
	expect(b, (struct act){ SOCK_STREAM, 0, ELSEWHERE, 53 }, 0);
	fd = accept_soon(b->dns_tcp);
	expect_name(fd, ELSEWHERE, 53);
	close(fd);
}

static bool next_refusal(int nflog, struct refused_packet *out)
{
	static char bytes[65536];
	struct pollfd p = { .fd = nflog, .events = POLLIN };
	struct str rest;
	ssize_t n;

	if (poll(&p, 1, WAIT_MS) != 1)
		return false;
	n = recv(nflog, bytes, sizeof(bytes), 0);
	assert_true(n > 0);
	rest = str_n(bytes, (size_t)n);
	return nflog_next(&rest, out) == OK;
}

static void drain(int fd)
{
	char bytes[4096];

	while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
}

static void refused_packets_are_told_to_their_boxs_log_alone(void **state)
{
	struct refused_packet r;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct wire_box *b = &world.box[i];

		drain(world.box[0].nflog);
		drain(world.box[1].nflog);
		expect(b, (struct act){ SOCK_STREAM, 0, ELSEWHERE, 4444 }, ECONNREFUSED);
		assert_true(next_refusal(b->nflog, &r));
		assert_int_equal(r.ifindex, b->ifindex);
		assert_int_equal(r.protocol, IPPROTO_TCP);
		assert_int_equal(addr_to_v4(&r.from), b->address);
		assert_int_equal(addr_to_v4(&r.to), ELSEWHERE);
		assert_int_equal(r.port, 4444);
		assert_true(nothing_waits(world.box[1 - i].nflog));
	}
}

/* In a child: goes into the box and sends datagrams as fast as it can until @stop ends. */
static _Noreturn void send_until(const struct wire_box *b, int stop)
{
	struct sockaddr_in to = at(ELSEWHERE, 4444);
	struct pollfd p = { .fd = stop, .events = POLLIN };
	int fd = setns(b->netns, CLONE_NEWNET) < 0 ? -1 : socket(AF_INET, SOCK_DGRAM, 0);

	if (fd < 0)
		_exit(1);
	while (poll(&p, 1, 0) == 0)
		for (int i = 0; i < RULES_LOG_BURST; i++)
			if (sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)) < 0)
				_exit(2);
	_exit(0);
}

static uint64_t untold_of(const struct wire_box *b)
{
	struct wire_error why = { "", 0 };
	uint64_t n = 0;

	need(wire_box_untold(world.gateway, b, &n, &why), &why);
	return n;
}

/* However slow the machine is: a box that goes on sending exceeds the rate at last. */
static void refusals_beyond_the_rate_are_counted_for_their_box_alone(void **state)
{
	struct wire_box *b = &world.box[0];
	uint64_t before = untold_of(b), neighbours = untold_of(&world.box[1]);
	double begun = now();
	int stop[2];
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(stop), 0);
	pid = fork();
	if (pid == 0) {
		close(stop[1]);
		send_until(b, stop[0]);
	}
	close(stop[0]);
	while (untold_of(b) == before)
		if (now() - begun > 60.0)
			break;
	close(stop[1]);
	assert_int_equal(finish(pid), 0);
	assert_true(untold_of(b) > before);
	assert_int_equal(untold_of(&world.box[1]), neighbours);
	drain(b->nflog);
}

static void open_connection_outlives_its_admission(void **state)
{
	struct rules_pair pair = { SYNTHETIC + 5, 443 };
	struct wire_box *b = &world.box[0];
	struct wire_error why = { "", 0 };
	int go[2], fd, saved;
	char byte = 'x';
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(go), 0);
	admit(b, pair.address, pair.port);
	pid = fork();
	if (pid == 0) {
		struct sockaddr_in to = at(pair.address, pair.port);

		fd = setns(b->netns, CLONE_NEWNET) < 0 ? -1 : socket(AF_INET, SOCK_STREAM, 0);
		if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 || read(go[0], &byte, 1) != 1 ||
		    send(fd, "y", 1, 0) != 1)
			_exit(1);
		_exit(read(fd, &byte, 1) == 0 ? 0 : 2);
	}
	fd = accept_soon(b->tproxy);
	/* By the rules alone, in the gateway's namespace. */
	saved = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	assert_int_equal(setns(wire_gateway_netns(world.gateway), CLONE_NEWNET), 0);
	{
		struct netlink *n;

		assert_int_equal(netlink_open(NETLINK_NETFILTER, &n), OK);
		need(rules_withdraw(n, b->ifname, &pair, 1, &why), &why);
		need(rules_admit(n, b->ifname, &pair, 1, &why), &why);
		need(rules_withdraw(n, b->ifname, &pair, 1, &why), &why);
		netlink_close(n);
	}
	assert_int_equal(setns(saved, CLONE_NEWNET), 0);
	close(saved);
	assert_int_equal(write(go[1], "g", 1), 1);
	assert_int_equal(recv(fd, &byte, 1, 0), 1);
	assert_int_equal(byte, 'y');
	close(fd);
	assert_int_equal(finish(pid), 0);
	close(go[0]);
	close(go[1]);
}

static void number_used_again_inherits_no_admission(void **state)
{
	struct wire_error why = { "", 0 };
	struct wire_box b, again;

	(void)state;
	need(wire_box_open(world.gateway, 7, &world.pool, -1, &b, &why), &why);
	admit(&b, SYNTHETIC, 9000);
	expect(&b, (struct act){ SOCK_STREAM, 0, SYNTHETIC, 9000 }, 0);
	wire_box_close(world.gateway, &b);
	need(wire_box_open(world.gateway, 7, &world.pool, -1, &again, &why), &why);
	expect(&again, (struct act){ SOCK_STREAM, 0, SYNTHETIC, 9000 }, ECONNREFUSED);
	wire_box_close(world.gateway, &again);
}

static void admitting_twice_is_no_error_and_too_many_is_one(void **state)
{
	static uint16_t ports[RULES_PORTS_MAX + 1];
	struct wire_error why = { "", 0 };

	(void)state;
	for (size_t i = 0; i < RULES_PORTS_MAX + 1; i++)
		ports[i] = (uint16_t)(10000 + i);
	for (int i = 0; i < 2; i++)
		need(wire_admit(world.gateway, &world.box[1], SYNTHETIC, ports, RULES_PORTS_MAX, &why),
		     &why);
	expect(&world.box[1], (struct act){ SOCK_STREAM, 0, SYNTHETIC, 10000 + RULES_PORTS_MAX - 1 }, 0);
	close(accept_soon(world.box[1].tproxy));
	assert_int_equal(wire_admit(world.gateway, &world.box[1], SYNTHETIC, ports,
				    RULES_PORTS_MAX + 1, &why), ERR_LIMIT);
}

/* 0: the namespace has no IPv6 address, loopback's neither, and forwards nothing. */
static int look_around(int ns)
{
	char c = '1';
	int fd;

	if (setns(ns, CLONE_NEWNET) < 0)
		return 1;
	fd = open("/proc/self/net/if_inet6", O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && read(fd, &c, 1) != 0)
		return 2;
	fd = open("/proc/sys/net/ipv4/ip_forward", O_RDONLY | O_CLOEXEC);
	return read(fd, &c, 1) == 1 && c == '0' ? 0 : 3;
}

static void there_is_no_ipv6_and_no_forwarding_at_either_end(void **state)
{
	int ns[] = { wire_gateway_netns(world.gateway), world.box[0].netns };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(look_around(ns[i]));
		assert_int_equal(finish(pid), 0);
	}
}

/* 0: the namespace has one neighbour, @address, told for good (flags of /proc/net/arp: it is there,
 * and permanent). */
static int look_at_neighbours(int ns, uint32_t address)
{
	struct in_addr in = { .s_addr = htonl(address) };
	char line[256], want[64];
	int n = 0, good = 0;
	FILE *f;

	if (setns(ns, CLONE_NEWNET) < 0)
		return 1;
	f = fopen("/proc/thread-self/net/arp", "re");
	if (!f || !fgets(line, sizeof(line), f))
		return 2;
	snprintf(want, sizeof(want), "%s ", inet_ntoa(in));
	for (; fgets(line, sizeof(line), f); n++)
		good += strncmp(line, want, strlen(want)) == 0 && strstr(line, " 0x6 ");
	return n == 1 && good == 1 ? 0 : 3;
}

/* What they learn would be of a table that all namespaces share. */
static void ends_know_each_other_and_learn_nothing(void **state)
{
	struct wire_error why = { "", 0 };
	struct wire_gateway *g;
	struct wire_box b;
	int ns[2];

	(void)state;
	need(wire_gateway_open(&g, &why), &why);
	need(wire_box_open(g, 0, &world.pool, -1, &b, &why), &why);
	expect(&b, (struct act){ SOCK_STREAM, 0, ELSEWHERE, 53 }, 0);
	ns[0] = wire_gateway_netns(g);
	ns[1] = b.netns;
	for (size_t i = 0; i < 2; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(look_at_neighbours(ns[i], i == 0 ? b.address : b.gateway));
		assert_int_equal(finish(pid), 0);
	}
	wire_box_close(g, &b);
	wire_gateway_close(g);
}

static void pool_that_is_used_up_opens_no_box(void **state)
{
	struct wire_error why = { "", 0 };
	struct addr_range one;
	struct wire_box b;

	(void)state;
	assert_true(addr_range_parse(STR("100.65.0.0/30"), &one));
	assert_int_equal(wire_box_open(world.gateway, 1, &one, -1, &b, &why), ERR_FULL);
	assert_int_equal(why.code, ENOSPC);
}

static void thread_is_back_in_its_own_namespace(void **state)
{
	(void)state;
	assert_int_equal(if_nametoindex(world.box[0].ifname), 0);
}

static void flush_all_rules(void)
{
	int saved = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	struct nftnl_table *t = nftnl_table_alloc();
	struct wire_error why = { "", 0 };
	struct netlink *n;

	assert_int_equal(setns(wire_gateway_netns(world.gateway), CLONE_NEWNET), 0);
	assert_int_equal(netlink_open(NETLINK_NETFILTER, &n), OK);
	nftnl_table_set_str(t, NFTNL_TABLE_NAME, RULES_TABLE);
	netlink_nf_begin(n);
	nftnl_table_nlmsg_build_payload(netlink_nf_message(n, NFNL_SUBSYS_NFTABLES, NFT_MSG_DELTABLE,
							   NFPROTO_INET, 0, "delete the table"), t);
	netlink_nf_end(n);
	need(netlink_commit(n, &why), &why);
	netlink_close(n);
	nftnl_table_free(t);
	assert_int_equal(setns(saved, CLONE_NEWNET), 0);
	close(saved);
}

/* Last: the world has no rules any more. */
static void without_any_rule_nothing_is_reached(void **state)
{
	struct wire_box *b = &world.box[0];

	(void)state;
	admit(b, SYNTHETIC, 443);
	flush_all_rules();
	expect(b, (struct act){ SOCK_STREAM, 0, SYNTHETIC, 443 }, ECONNREFUSED);
	expect(b, (struct act){ SOCK_STREAM, 0, ELSEWHERE, 443 }, ECONNREFUSED);
	expect(b, (struct act){ SOCK_DGRAM, 0, ELSEWHERE, 443 }, ECONNREFUSED);
	expect(b, (struct act){ SOCK_STREAM, 0, world.box[1].gateway, 443 }, ECONNREFUSED);
	assert_int_equal(finish(start(b, &(struct act){ SOCK_STREAM, 0, world.box[1].address, 443 })),
			 ETIMEDOUT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(admitted_address_reaches_the_listener_of_its_box),
		cmocka_unit_test(bytes_of_a_box_are_counted_each_way),
		cmocka_unit_test(one_address_admitted_to_two_boxes_reaches_each_ones_listener),
		cmocka_unit_test(admission_is_of_one_box_and_one_port),
		cmocka_unit_test(port_80_of_its_own_gateway_reaches_the_worker_and_no_other),
		cmocka_unit_test(what_a_policy_admits_of_the_gateway_is_withdrawn_without_its_port_80),
		cmocka_unit_test(what_is_not_admitted_is_refused_at_once),
		cmocka_unit_test(fifty_udp_refusals_in_a_row_are_all_seen),
		cmocka_unit_test(another_boxs_address_is_refused_not_silent),
		cmocka_unit_test(the_workers_own_port_is_refused),
		cmocka_unit_test(echo_is_answered_by_the_gateway_for_itself_alone),
		cmocka_unit_test(dns_query_to_any_address_arrives_and_is_answered_as_from_there),
		cmocka_unit_test(dns_over_tcp_to_any_address_arrives),
		cmocka_unit_test(refused_packets_are_told_to_their_boxs_log_alone),
		cmocka_unit_test(refusals_beyond_the_rate_are_counted_for_their_box_alone),
		cmocka_unit_test(forged_source_is_dropped_and_its_owner_hears_nothing),
		cmocka_unit_test(open_connection_outlives_its_admission),
		cmocka_unit_test(number_used_again_inherits_no_admission),
		cmocka_unit_test(admitting_twice_is_no_error_and_too_many_is_one),
		cmocka_unit_test(there_is_no_ipv6_and_no_forwarding_at_either_end),
		cmocka_unit_test(ends_know_each_other_and_learn_nothing),
		cmocka_unit_test(pool_that_is_used_up_opens_no_box),
		cmocka_unit_test(thread_is_back_in_its_own_namespace),
		cmocka_unit_test(without_any_rule_nothing_is_reached),
	};

	if (geteuid() != 0) {
		print_message("needs root: network namespaces\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, open_world, close_world);
}
