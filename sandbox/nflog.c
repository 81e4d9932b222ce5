/* Theory of operation
 *
 * A datagram of nfnetlink_log holds netlink messages, each of which holds attributes, one of which
 * holds the first bytes of a packet that a box made. The kernel wrote all but those bytes; both are
 * read with the same distrust: a length is compared with what is left before anything behind it is
 * looked at, and headers are copied out, since nothing says that they are aligned.
 *
 * What cannot be read is skipped: a refusal that is not on record is still a refusal.
 */
#include "sandbox/nflog.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>

#define IPV4_HEADER_MIN 20u
#define IPV6_HEADER 40u
#define ICMP6_NEIGHBOUR_FIRST 133	/* RFC 4861 section 4: types 133 to 137 */
#define ICMP6_NEIGHBOUR_LAST 137

/* Cuts a block that says its own length (header included) and is padded to four bytes. */
static bool cut_block(struct str *rest, size_t claimed, size_t header, struct str *body)
{
	size_t padded = NLMSG_ALIGN(claimed);

	if (claimed < header || claimed > rest->n)
		return false;
	*body = str_n(rest->p + header, claimed - header);
	*rest = str_from(*rest, padded < rest->n ? padded : rest->n);
	return true;
}

static bool next_message(struct str *rest, uint16_t *type, struct str *body)
{
	struct nlmsghdr h;

	if (rest->n < sizeof(h))
		return false;
	memcpy(&h, rest->p, sizeof(h));
	*type = h.nlmsg_type;
	return cut_block(rest, h.nlmsg_len, NLMSG_HDRLEN, body);
}

static bool next_attribute(struct str *rest, uint16_t *type, struct str *body)
{
	struct nlattr a;

	if (rest->n < sizeof(a))
		return false;
	memcpy(&a, rest->p, sizeof(a));
	*type = a.nla_type & (uint16_t)NLA_TYPE_MASK;
	return cut_block(rest, a.nla_len, sizeof(a), body);
}

static uint8_t byte_at(struct str s, size_t at)
{
	return (uint8_t)s.p[at];
}

/* TCP, UDP, UDP-Lite, SCTP and DCCP have the destination port in the third and fourth byte. */
static uint16_t port_of(uint8_t protocol, struct str segment)
{
	switch (protocol) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
	case IPPROTO_UDPLITE:
	case IPPROTO_SCTP:
	case IPPROTO_DCCP:
		break;
	default:
		return 0;
	}
	if (segment.n < 4)
		return 0;
	return (uint16_t)(byte_at(segment, 2) << 8 | byte_at(segment, 3));
}

/* RFC 791 section 3.1 */
static bool read_ipv4(struct str p, struct refused_packet *out)
{
	size_t header = (size_t)(byte_at(p, 0) & 0x0f) * 4;
	bool later_fragment;

	if (p.n < IPV4_HEADER_MIN || header < IPV4_HEADER_MIN)
		return false;
	later_fragment = (byte_at(p, 6) & 0x1f) != 0 || byte_at(p, 7) != 0;
	out->protocol = byte_at(p, 9);
	out->from.family = out->to.family = 4;
	memcpy(out->from.b, p.p + 12, 4);
	memcpy(out->to.b, p.p + 16, 4);
	if (!later_fragment && header < p.n)
		out->port = port_of(out->protocol, str_from(p, header));
	return true;
}

/* RFC 8200 section 3. A packet with extension headers is told with the first one's number. */
static bool read_ipv6(struct str p, struct refused_packet *out)
{
	if (p.n < IPV6_HEADER)
		return false;
	out->protocol = byte_at(p, 6);
	out->from.family = out->to.family = 6;
	memcpy(out->from.b, p.p + 8, 16);
	memcpy(out->to.b, p.p + 24, 16);
	out->port = port_of(out->protocol, str_from(p, IPV6_HEADER));
	if (out->protocol != IPPROTO_ICMPV6 || p.n == IPV6_HEADER)
		return true;
	return byte_at(p, IPV6_HEADER) < ICMP6_NEIGHBOUR_FIRST ||
	       byte_at(p, IPV6_HEADER) > ICMP6_NEIGHBOUR_LAST;
}

static bool read_packet(struct str p, struct refused_packet *out)
{
	if (p.n == 0)
		return false;
	switch (byte_at(p, 0) >> 4) {
	case 4:
		return read_ipv4(p, out);
	case 6:
		return read_ipv6(p, out);
	default:
		return false;
	}
}

static bool read_message(struct str body, struct refused_packet *out)
{
	struct str attribute, packet = STR_NONE;
	uint32_t ifindex = 0;
	uint16_t type;

	if (body.n < NLMSG_ALIGN(sizeof(struct nfgenmsg)))
		return false;
	body = str_from(body, NLMSG_ALIGN(sizeof(struct nfgenmsg)));
	while (next_attribute(&body, &type, &attribute)) {
		if (type == NFULA_PAYLOAD)
			packet = attribute;
		else if (type == NFULA_IFINDEX_INDEV && attribute.n == sizeof(ifindex))
			memcpy(&ifindex, attribute.p, sizeof(ifindex));
	}
	*out = (struct refused_packet){ .ifindex = ntohl(ifindex) };
	return read_packet(packet, out);
}

enum err nflog_next(struct str *rest, struct refused_packet *out)
{
	const uint16_t wanted = NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET;
	struct str body;
	uint16_t type;

	while (next_message(rest, &type, &body))
		if (type == wanted && read_message(body, out))
			return OK;
	*rest = STR_NONE;
	return ERR_AGAIN;
}
