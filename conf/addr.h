/* conf/addr.h - one IP address, v4 or v6, and ranges of them
 *
 * Ownership   plain values.       Blocking  never.
 * Failure     parsers answer false and leave *out alone.
 * Text        RFC 5952 for v6, dotted decimal for v4 and nothing else: no octal, no hex, no short
 *             forms (a literal that servers read in two ways is not an address here).
 * Tests       tests/unit/conf/test_addr.c
 */
#ifndef CONF_ADDR_H
#define CONF_ADDR_H

#include <netinet/in.h>

#include "conf/str.h"

struct addr {
	uint8_t family;		/* 0 none, 4 or 6 */
	uint8_t b[16];		/* network order; v4 in the first four */
};

struct addr_range {
	struct addr net;
	uint8_t bits;
};

#define ADDR_TEXT_MAX 46
#define ADDR_PORT_TEXT_MAX (ADDR_TEXT_MAX + 8)
/* An address as messages carry it: family, then 16 bytes. */
#define ADDR_PACKED 17

static inline struct addr addr_v4(uint32_t host_order)
{
	return (struct addr){ .family = 4,
			      .b = { (uint8_t)(host_order >> 24), (uint8_t)(host_order >> 16),
				     (uint8_t)(host_order >> 8), (uint8_t)host_order } };
}

static inline uint32_t addr_to_v4(const struct addr *a)
{
	return (uint32_t)a->b[0] << 24 | (uint32_t)a->b[1] << 16 | (uint32_t)a->b[2] << 8 | a->b[3];
}

/* Bytes of @b that count: 4, 16, or 0 for none. */
size_t addr_len(const struct addr *a);
bool addr_eq(const struct addr *a, const struct addr *b);
bool addr_parse(struct str text, struct addr *out);
/* "ADDR/BITS", or "ADDR" for the one address. Bits beyond the mask must be zero. */
bool addr_range_parse(struct str text, struct addr_range *out);
bool addr_in_range(const struct addr *a, const struct addr_range *r);
/* "203.0.113.53:53", "[2001:db8::1]:53", or without a port (then @port_default). */
bool addr_port_parse(struct str text, uint16_t port_default, struct addr *out, uint16_t *port);
/* Writes a NUL-ended text, returns @out. */
const char *addr_format(const struct addr *a, char out[ADDR_TEXT_MAX]);
/* To and from the form of messages. What is none (family 0, another length) does not come back. */
void addr_pack(const struct addr *a, char out[ADDR_PACKED]);
bool addr_unpack(struct str packed, struct addr *out);
/* To and from the kernel's form. */
socklen_t addr_to_sockaddr(const struct addr *a, uint16_t port, struct sockaddr_storage *out);
bool addr_from_sockaddr(const struct sockaddr *sa, struct addr *out, uint16_t *port);

#endif
