#include "proxy/socks5.h"

#define SOCKS4_REJECTED 0x5b
#define HEAD_LEN 4	/* version, command, reserved, address type */

enum address_type { TYPE_V4 = 1, TYPE_NAME = 3, TYPE_V6 = 4 };

static uint8_t byte(struct str s, size_t at)
{
	return (uint8_t)s.p[at];
}

enum socks5_result socks5_greeting(struct str bytes, bool *no_auth, size_t *n)
{
	size_t methods;

	if (bytes.n && byte(bytes, 0) != SOCKS5_VERSION)
		return SOCKS5_BAD;
	if (bytes.n < 2)
		return SOCKS5_MORE;
	methods = byte(bytes, 1);
	if (methods == 0)
		return SOCKS5_BAD;
	if (bytes.n < 2 + methods)
		return SOCKS5_MORE;
	*no_auth = false;
	for (size_t i = 0; i < methods; i++)
		*no_auth |= byte(bytes, 2 + i) == SOCKS5_NO_AUTHENTICATION;
	*n = 2 + methods;
	return SOCKS5_DONE;
}

/* How many bytes the address has, its length included where it has one; 0: not known yet. */
static enum socks5_result address_len(struct str bytes, size_t *n)
{
	*n = 0;
	switch (byte(bytes, 3)) {
	case TYPE_V4:
		*n = 4;
		return SOCKS5_DONE;
	case TYPE_V6:
		*n = 16;
		return SOCKS5_DONE;
	case TYPE_NAME:
		if (bytes.n == HEAD_LEN)
			return SOCKS5_MORE;
		*n = 1u + byte(bytes, HEAD_LEN);
		return *n > 1 ? SOCKS5_DONE : SOCKS5_BAD;
	default:
		return SOCKS5_BAD_ADDRESS;
	}
}

static void take_address(struct str bytes, size_t n, struct socks5_request *out)
{
	const char *at = bytes.p + HEAD_LEN;

	if (byte(bytes, 3) == TYPE_NAME) {
		out->name_n = (uint8_t)(n - 1);
		memcpy(out->name, at + 1, n - 1);
		return;
	}
	out->addr.family = n == 4 ? 4 : 6;
	memcpy(out->addr.b, at, n);
}

enum socks5_result socks5_request(struct str bytes, struct socks5_request *out, size_t *n)
{
	size_t address;
	enum socks5_result r;

	if ((bytes.n && byte(bytes, 0) != SOCKS5_VERSION) || (bytes.n > 2 && byte(bytes, 2) != 0))
		return SOCKS5_BAD;
	if (bytes.n < HEAD_LEN)
		return SOCKS5_MORE;
	r = address_len(bytes, &address);
	if (r != SOCKS5_DONE)
		return r;
	*n = HEAD_LEN + address + 2;
	if (bytes.n < *n)
		return SOCKS5_MORE;
	*out = (struct socks5_request){ .command = byte(bytes, 1) };
	take_address(bytes, address, out);
	out->port = (uint16_t)(byte(bytes, *n - 2) << 8 | byte(bytes, *n - 1));
	return SOCKS5_DONE;
}

void socks5_put_method(uint8_t method, uint8_t out[SOCKS5_METHOD_LEN])
{
	out[0] = SOCKS5_VERSION;
	out[1] = method;
}

void socks5_put_reply(enum socks5_reply code, uint8_t out[SOCKS5_REPLY_LEN])
{
	memset(out, 0, SOCKS5_REPLY_LEN);
	out[0] = SOCKS5_VERSION;
	out[1] = (uint8_t)code;
	out[3] = TYPE_V4;
}

void socks4_put_reply(uint8_t out[SOCKS4_REPLY_LEN])
{
	memset(out, 0, SOCKS4_REPLY_LEN);
	out[1] = SOCKS4_REJECTED;
}
