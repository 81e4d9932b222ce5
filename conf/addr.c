#include "conf/addr.h"

#include <arpa/inet.h>
#include <stdio.h>

size_t addr_len(const struct addr *a)
{
	return a->family == 4 ? 4 : a->family == 6 ? 16 : 0;
}

bool addr_eq(const struct addr *a, const struct addr *b)
{
	return a->family == b->family && memcmp(a->b, b->b, addr_len(a)) == 0;
}

bool addr_parse(struct str text, struct addr *out)
{
	char z[ADDR_TEXT_MAX];
	struct addr a = { 0 };

	if (text.n == 0 || text.n >= sizeof(z) || memchr(text.p, '\0', text.n))
		return false;
	memcpy(z, text.p, text.n);
	z[text.n] = '\0';
	/* inet_pton() takes four plain decimal numbers only, no leading zeros. */
	if (inet_pton(AF_INET, z, a.b) == 1)
		a.family = 4;
	else if (inet_pton(AF_INET6, z, a.b) == 1)
		a.family = 6;
	else
		return false;
	*out = a;
	return true;
}

bool addr_in_range(const struct addr *a, const struct addr_range *r)
{
	size_t whole = r->bits / 8, rest = r->bits % 8;
	uint8_t mask = (uint8_t)(0xff00 >> rest);

	if (a->family != r->net.family || memcmp(a->b, r->net.b, whole) != 0)
		return false;
	return rest == 0 || ((a->b[whole] ^ r->net.b[whole]) & mask) == 0;
}

static bool host_bits_clear(const struct addr_range *r)
{
	for (size_t bit = r->bits; bit < addr_len(&r->net) * 8; bit++)
		if (r->net.b[bit / 8] & (0x80 >> (bit % 8)))
			return false;
	return true;
}

bool addr_range_parse(struct str text, struct addr_range *out)
{
	size_t slash = str_find(text, '/');
	struct addr_range r = { 0 };
	uint64_t bits;

	if (!addr_parse(str_n(text.p, slash), &r.net))
		return false;
	bits = addr_len(&r.net) * 8;
	if (slash < text.n && !str_to_u64(str_from(text, slash + 1), bits, &bits))
		return false;
	r.bits = (uint8_t)bits;
	if (!host_bits_clear(&r))
		return false;
	*out = r;
	return true;
}

bool addr_port_parse(struct str text, uint16_t port_default, struct addr *out, uint16_t *port)
{
	struct str host = text, digits = STR_NONE;
	uint64_t number = port_default;
	size_t end;

	if (text.n && text.p[0] == '[') {
		end = str_find(text, ']');
		if (end == text.n)
			return false;
		host = str_n(text.p + 1, end - 1);
		if (end + 1 < text.n) {
			if (text.p[end + 1] != ':')
				return false;
			digits = str_from(text, end + 2);
		}
	} else if (!addr_parse(text, out)) {
		end = str_find(text, ':');
		if (end == text.n)
			return false;
		host = str_n(text.p, end);
		digits = str_from(text, end + 1);
	}
	if (digits.p && (!str_to_u64(digits, 65535, &number) || number == 0))
		return false;
	if (!addr_parse(host, out))
		return false;
	*port = (uint16_t)number;
	return true;
}

static void format_v4(const uint8_t b[4], char *out)
{
	char room[STR_DECIMAL_MAX];

	for (size_t i = 0; i < 4; i++) {
		struct str digits = str_decimal(b[i], room);

		memcpy(out, digits.p, digits.n);
		out += digits.n;
		*out++ = i < 3 ? '.' : '\0';
	}
}

const char *addr_format(const struct addr *a, char out[ADDR_TEXT_MAX])
{
	if (a->family == 4) {
		format_v4(a->b, out);
		return out;
	}
	if (!addr_len(a) ||
	    !inet_ntop(AF_INET6, a->b, out, ADDR_TEXT_MAX))
		snprintf(out, ADDR_TEXT_MAX, "none");
	return out;
}

void addr_pack(const struct addr *a, char out[ADDR_PACKED])
{
	out[0] = (char)a->family;
	memcpy(out + 1, a->b, sizeof(a->b));
}

bool addr_unpack(struct str packed, struct addr *out)
{
	struct addr a = { 0 };

	if (packed.n != ADDR_PACKED || (packed.p[0] != 4 && packed.p[0] != 6))
		return false;
	a.family = (uint8_t)packed.p[0];
	memcpy(a.b, packed.p + 1, addr_len(&a));
	*out = a;
	return true;
}

socklen_t addr_to_sockaddr(const struct addr *a, uint16_t port, struct sockaddr_storage *out)
{
	memset(out, 0, sizeof(*out));
	if (a->family == 4) {
		struct sockaddr_in *in = (struct sockaddr_in *)out;

		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		memcpy(&in->sin_addr, a->b, 4);
		return sizeof(*in);
	}
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;

	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(port);
	memcpy(&in6->sin6_addr, a->b, 16);
	return sizeof(*in6);
}

bool addr_from_sockaddr(const struct sockaddr *sa, struct addr *out, uint16_t *port)
{
	struct addr a = { 0 };

	if (sa->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)sa;

		a.family = 4;
		memcpy(a.b, &in->sin_addr, 4);
		*port = ntohs(in->sin_port);
	} else if (sa->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)sa;

		a.family = 6;
		memcpy(a.b, &in6->sin6_addr, 16);
		*port = ntohs(in6->sin6_port);
	} else {
		return false;
	}
	*out = a;
	return true;
}
