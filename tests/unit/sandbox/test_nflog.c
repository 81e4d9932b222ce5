#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>

#include "sandbox/nflog.h"

static const uint8_t syn[] = {
	0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 100, 64, 0, 2, 8, 8, 8, 8,	/* IPv4, TCP */
	0xc0, 0, 0x01, 0xbb, 0, 0, 0, 0,					/* 49152 to 443 */
};

struct datagram {
	_Alignas(struct nlmsghdr) char bytes[4096];
	size_t n;
};

static void add_message(struct datagram *d, uint16_t type, const void *packet, size_t n)
{
	struct nlmsghdr *h = mnl_nlmsg_put_header(d->bytes + d->n);

	h->nlmsg_type = type;
	mnl_nlmsg_put_extra_header(h, sizeof(struct nfgenmsg));
	mnl_attr_put_u32(h, NFULA_IFINDEX_INDEV, htonl(7));
	mnl_attr_put(h, NFULA_PAYLOAD, n, packet);
	d->n += NLMSG_ALIGN((size_t)h->nlmsg_len);
}

static void add_packet(struct datagram *d, const void *packet, size_t n)
{
	add_message(d, NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET, packet, n);
}

static enum err read_one(const void *packet, size_t n, struct refused_packet *out)
{
	struct datagram d = { .n = 0 };
	struct str rest;

	add_packet(&d, packet, n);
	rest = str_n(d.bytes, d.n);
	return nflog_next(&rest, out);
}

static void syn_is_told_with_both_ends(void **state)
{
	struct refused_packet r;

	(void)state;
	assert_int_equal(read_one(syn, sizeof(syn), &r), OK);
	assert_int_equal(r.ifindex, 7);
	assert_int_equal(r.protocol, IPPROTO_TCP);
	assert_int_equal(addr_to_v4(&r.from), 0x64400002);
	assert_int_equal(addr_to_v4(&r.to), 0x08080808);
	assert_int_equal(r.port, 443);
}

static void several_packets_in_one_datagram_are_all_told(void **state)
{
	struct datagram d = { .n = 0 };
	struct refused_packet r;
	struct str rest;

	(void)state;
	for (int i = 0; i < 3; i++)
		add_packet(&d, syn, sizeof(syn));
	rest = str_n(d.bytes, d.n);
	for (int i = 0; i < 3; i++)
		assert_int_equal(nflog_next(&rest, &r), OK);
	assert_int_equal(nflog_next(&rest, &r), ERR_AGAIN);
	assert_int_equal(nflog_next(&rest, &r), ERR_AGAIN);
}

static void unreadable_packets_are_skipped_and_the_next_is_told(void **state)
{
	static const uint8_t odd[] = { 0x25, 0, 0, 0 }, short_header[] = { 0x41, 0, 0, 20 };
	struct datagram d = { .n = 0 };
	struct refused_packet r;
	struct str rest;

	(void)state;
	add_packet(&d, odd, sizeof(odd));
	add_packet(&d, short_header, sizeof(short_header));
	add_packet(&d, syn, 19);
	add_packet(&d, syn, 0);
	add_message(&d, NLMSG_NOOP, syn, sizeof(syn));
	add_packet(&d, syn, sizeof(syn));
	rest = str_n(d.bytes, d.n);
	assert_int_equal(nflog_next(&rest, &r), OK);
	assert_int_equal(r.port, 443);
	assert_int_equal(nflog_next(&rest, &r), ERR_AGAIN);
}

static void header_length_beyond_the_packet_gives_no_port(void **state)
{
	uint8_t long_header[sizeof(syn)];
	struct refused_packet r;

	(void)state;
	memcpy(long_header, syn, sizeof(syn));
	long_header[0] = 0x4f;
	assert_int_equal(read_one(long_header, sizeof(long_header), &r), OK);
	assert_int_equal(r.port, 0);
}

static void later_fragment_has_no_port(void **state)
{
	uint8_t fragment[sizeof(syn)];
	struct refused_packet r;

	(void)state;
	memcpy(fragment, syn, sizeof(syn));
	fragment[7] = 1;
	assert_int_equal(read_one(fragment, sizeof(fragment), &r), OK);
	assert_int_equal(r.port, 0);
}

static void icmp_has_no_port(void **state)
{
	uint8_t icmp[sizeof(syn)];
	struct refused_packet r;

	(void)state;
	memcpy(icmp, syn, sizeof(syn));
	icmp[9] = IPPROTO_ICMP;
	assert_int_equal(read_one(icmp, sizeof(icmp), &r), OK);
	assert_int_equal(r.protocol, IPPROTO_ICMP);
	assert_int_equal(r.port, 0);
}

static void ipv6_is_told_but_neighbour_discovery_is_not(void **state)
{
	uint8_t p[44] = { 0x60, 0, 0, 0, 0, 4, IPPROTO_UDP, 64 };
	struct refused_packet r;

	(void)state;
	p[8] = p[24] = 0x20;
	p[42] = 0;
	p[43] = 53;
	assert_int_equal(read_one(p, sizeof(p), &r), OK);
	assert_int_equal(r.to.family, 6);
	assert_int_equal(r.port, 53);
	p[6] = IPPROTO_ICMPV6;
	p[40] = 135;
	assert_int_equal(read_one(p, sizeof(p), &r), ERR_AGAIN);
	p[40] = 128;
	assert_int_equal(read_one(p, sizeof(p), &r), OK);
}

static void datagram_cut_at_any_byte_is_survived(void **state)
{
	struct datagram d = { .n = 0 };
	struct refused_packet r;

	(void)state;
	add_packet(&d, syn, sizeof(syn));
	for (size_t n = 0; n < d.n; n++) {
		struct str rest = str_n(d.bytes, n);

		assert_int_equal(nflog_next(&rest, &r), ERR_AGAIN);
	}
}

static void lengths_that_lie_end_the_datagram(void **state)
{
	static const uint32_t lies[] = { 0, 1, 15, 0xffffffff };
	struct datagram d = { .n = 0 };
	struct refused_packet r;

	(void)state;
	add_packet(&d, syn, sizeof(syn));
	for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
		struct str rest = str_n(d.bytes, d.n);

		memcpy(d.bytes, &lies[i], sizeof(lies[i]));
		assert_int_equal(nflog_next(&rest, &r), ERR_AGAIN);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(syn_is_told_with_both_ends),
		cmocka_unit_test(several_packets_in_one_datagram_are_all_told),
		cmocka_unit_test(unreadable_packets_are_skipped_and_the_next_is_told),
		cmocka_unit_test(header_length_beyond_the_packet_gives_no_port),
		cmocka_unit_test(later_fragment_has_no_port),
		cmocka_unit_test(icmp_has_no_port),
		cmocka_unit_test(ipv6_is_told_but_neighbour_discovery_is_not),
		cmocka_unit_test(datagram_cut_at_any_byte_is_survived),
		cmocka_unit_test(lengths_that_lie_end_the_datagram),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
