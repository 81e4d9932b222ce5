#include "policy/ranges.h"

struct named_range {
	struct addr_range range;
	const char *name;
};

#define V4(a, b, c, d, bits, name) { { { 4, { a, b, c, d } }, bits }, name }
/* The first 64 bits, in words of 16. */
#define V6(a, b, c, d, bits, name)                                                                \
	{ { { 6, { (a) >> 8, (a) & 255, (b) >> 8, (b) & 255, (c) >> 8, (c) & 255, (d) >> 8,       \
		   (d) & 255 } }, bits }, name }

/* IANA's special-purpose registries (RFC 6890), but for what documents use. */
static const struct named_range ranges[] = {
	V4(0, 0, 0, 0, 8, "this network (RFC 791)"),
	V4(10, 0, 0, 0, 8, "private (RFC 1918)"),
	V4(100, 64, 0, 0, 10, "shared, CGNAT (RFC 6598)"),
	V4(127, 0, 0, 0, 8, "loopback (RFC 1122)"),
	/* A public address at which each virtual machine of one cloud finds its host's services. */
	V4(168, 63, 129, 16, 32, "cloud platform services (168.63.129.16)"),
	V4(169, 254, 0, 0, 16, "link-local, cloud metadata (RFC 3927)"),
	V4(172, 16, 0, 0, 12, "private (RFC 1918)"),
	V4(192, 0, 0, 0, 24, "protocol assignments (RFC 6890)"),
	V4(192, 88, 99, 0, 24, "6to4 relay (RFC 7526)"),
	V4(192, 168, 0, 0, 16, "private (RFC 1918)"),
	V4(198, 18, 0, 0, 15, "benchmarking, synthetic addresses (RFC 2544)"),
	V4(224, 0, 0, 0, 4, "multicast (RFC 5771)"),
	V4(240, 0, 0, 0, 4, "reserved, broadcast (RFC 1112)"),
	{ { { 6, { 0 } }, 128 }, "unspecified (RFC 4291)" },
	{ { { 6, { [15] = 1 } }, 128 }, "loopback (RFC 4291)" },
	{ { { 6, { 0 } }, 96 }, "IPv4-compatible (RFC 4291)" },
	{ { { 6, { [10] = 0xff, [11] = 0xff } }, 96 }, "IPv4-mapped (RFC 4291)" },
	{ { { 6, { [8] = 0xff, [9] = 0xff } }, 96 }, "IPv4-translated (RFC 7915)" },
	{ { { 6, { 0x00, 0x64, 0xff, 0x9b } }, 96 }, "NAT64 (RFC 6052)" },
	V6(0x64, 0xff9b, 1, 0, 48, "NAT64 (RFC 8215)"),
	V6(0x100, 0, 0, 0, 64, "discard (RFC 6666)"),
	V6(0x2001, 0, 0, 0, 32, "Teredo (RFC 4380)"),
	V6(0x2001, 2, 0, 0, 48, "benchmarking (RFC 5180)"),
	V6(0x2001, 0, 0, 0, 23, "protocol assignments (RFC 2928)"),
	V6(0x2002, 0, 0, 0, 16, "6to4 (RFC 3056)"),
	V6(0xfc00, 0, 0, 0, 7, "unique local (RFC 4193)"),
	V6(0xfe80, 0, 0, 0, 10, "link-local (RFC 4291)"),
	V6(0xfec0, 0, 0, 0, 10, "site-local (RFC 3879)"),
	V6(0xff00, 0, 0, 0, 8, "multicast (RFC 4291)"),
};

static const struct addr_range global_unicast = { { 6, { 0x20 } }, 3 };

const char *range_prohibited(const struct addr *a)
{
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
		if (addr_in_range(a, &ranges[i].range))
			return ranges[i].name;
	if (a->family == 6 && !addr_in_range(a, &global_unicast))
		return "reserved (RFC 4291)";
	return a->family == 4 || a->family == 6 ? NULL : "no address";
}
