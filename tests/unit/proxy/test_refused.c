#include "tests/unit/policy/make_policy.h"
#include "tests/unit/proxy/names_world.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <netinet/in.h>

#include "proxy/worker.h"

#define IFINDEX 7u

static const struct test_rule rules[] = {
	{ .id = "api", .hosts = { LIST("api.test") }, .ports = { LIST("443") } },
	{ .id = "no-metadata", .deny = true, .reason = "never", .addresses = { LIST("169.254.169.254") } },
};

static struct world world;
static struct worker worker;
static struct lease_table *writer;
static struct refused *refused;
static int far_end;

static int setup(void **state)
{
	int fds[2], leases;

	(void)state;
	memset(&worker, 0, sizeof(worker));
	world_open(&world);
	worker.base = world.base;
	worker.ring = world.ring;
	worker.ifindex = IFINDEX;
	worker.policy = MAKE_POLICY(rules);
	assert_true(addr_range_parse(STR("198.18.0.0/15"), &worker.pool));
	assert_int_equal(lease_table_create(&worker.pool, &writer, &leases), OK);
	assert_int_equal(lease_table_map(leases, &worker.pool, &worker.leases), OK);
	close(leases);
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	far_end = fds[1];
	refused = refused_new(&worker, fds[0]);
	assert_non_null(refused);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	refused_free(refused);
	close(far_end);
	lease_table_free(worker.leases);
	lease_table_free(writer);
	policy_free(worker.policy);
	world_close(&world);
	return 0;
}

static size_t put_attr(char *at, uint16_t type, const void *data, size_t n)
{
	struct nlattr a = { .nla_len = (uint16_t)(sizeof(a) + n), .nla_type = type };

	memcpy(at, &a, sizeof(a));
	memcpy(at + sizeof(a), data, n);
	return NLMSG_ALIGN(sizeof(a) + n);
}

/* What the kernel says of an IPv4 packet that it refused. */
static void send_packet(uint32_t ifindex, uint8_t protocol, uint32_t to, uint16_t port)
{
	char message[256] = { 0 };
	uint8_t packet[40] = { 0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol };
	uint32_t index = htonl(ifindex), address = htonl(to);
	uint16_t net_port = htons(port);
	struct nfulnl_msg_packet_hdr head = { .hw_protocol = htons(0x0800) };
	struct nlmsghdr h = { .nlmsg_type = NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET };
	struct nfgenmsg g = { .nfgen_family = AF_INET };
	size_t n = sizeof(h) + sizeof(g);

	memcpy(packet + 16, &address, 4);
	memcpy(packet + 22, &net_port, 2);
	n += put_attr(message + n, NFULA_PACKET_HDR, &head, sizeof(head));
	n += put_attr(message + n, NFULA_IFINDEX_INDEV, &index, sizeof(index));
	n += put_attr(message + n, NFULA_PAYLOAD, packet, sizeof(packet));
	h.nlmsg_len = (uint32_t)n;
	memcpy(message, &h, sizeof(h));
	memcpy(message + sizeof(h), &g, sizeof(g));
	assert_int_equal(send(far_end, message, n, 0), (ssize_t)n);
}

static void take(void)
{
	event_base_loop(world.base, EVLOOP_ONCE);
	world_read_log(&world, ROLE_WORKER);
}

static void a_refused_packet_is_a_record_with_the_default(void **state)
{
	(void)state;
	send_packet(IFINDEX, IPPROTO_TCP, 0xcb007109, 22);
	take();
	assert_int_equal(world.n_lines, 1);
	assert_logged(&world, "\"kind\":\"connect\",\"verdict\":\"deny\",\"rule\":\"default\"");
	assert_logged(&world, "\"destination\":\"203.0.113.9\",\"port\":22,\"protocol\":\"tcp\",\"count\":1");
	assert_logged(&world, "\"refusal\":\"");
}

static void a_leased_address_is_named(void **state)
{
	uint32_t address;
	bool made;

	(void)state;
	assert_int_equal(lease_get(writer, STR("api.test"), &address, &made), OK);
	send_packet(IFINDEX, IPPROTO_UDP, address, 443);
	take();
	assert_logged(&world, "\"destination\":\"api.test\",\"synthetic\":\"198.18.");
	assert_logged(&world, "\"protocol\":\"udp\"");
}

static void the_rule_that_denies_it_is_named(void **state)
{
	(void)state;
	send_packet(IFINDEX, IPPROTO_TCP, 0xa9fea9fe, 80);
	take();
	assert_logged(&world, "\"rule\":\"no-metadata\",\"rule_at\":\"test.yaml:20\",\"reason\":\"never\"");
}

static void another_boxs_packet_is_not_ours_to_tell(void **state)
{
	(void)state;
	send_packet(IFINDEX + 1, IPPROTO_TCP, 0xcb007109, 22);
	take();
	assert_int_equal(world.n_lines, 0);
}

static void identical_refusals_are_one_line_with_a_count(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 10; i++)
		send_packet(IFINDEX, IPPROTO_TCP, 0xcb007109, 22);
	send_packet(IFINDEX, IPPROTO_TCP, 0xcb007109, 23);
	take();
	assert_int_equal(world.n_lines, 2);
	while (world.n_lines == 2)
		take();
	assert_logged(&world, "\"port\":22");
	assert_logged(&world, "\"count\":9");
}

static void what_the_log_does_not_take_is_told_when_it_can(void **state)
{
	(void)state;
	ring_set_refusing(world.reader, true);
	send_packet(IFINDEX, IPPROTO_TCP, 0xcb007109, 22);
	take();
	assert_int_equal(world.n_lines, 0);
	ring_set_refusing(world.reader, false);
	while (world.n_lines == 0)
		take();
	assert_logged(&world, "\"count\":1");
}

static void garbage_is_read_past(void **state)
{
	(void)state;
	assert_int_equal(send(far_end, "\xff\xff\xff\xff garbage", 12, 0), 12);
	send_packet(IFINDEX, IPPROTO_ICMP, 0xcb007109, 0);
	take();
	assert_logged(&world, "\"protocol\":\"icmp\"");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_refused_packet_is_a_record_with_the_default),
		CASE(a_leased_address_is_named),
		CASE(the_rule_that_denies_it_is_named),
		CASE(another_boxs_packet_is_not_ours_to_tell),
		CASE(identical_refusals_are_one_line_with_a_count),
		CASE(what_the_log_does_not_take_is_told_when_it_can),
		CASE(garbage_is_read_past),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
