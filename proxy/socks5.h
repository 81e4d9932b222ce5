/* proxy/socks5.h - what a client of SOCKS5 says before its bytes begin (RFC 1928)
 *
 * Both readers are fed with all bytes received so far and keep nothing: they say whether the
 * message is whole, and how many bytes it took. What follows belongs to the next message.
 *
 * Ownership   *out borrows nothing: the name is copied.       Blocking  never.
 * Failure     by result. A destination's name is as it came: which bytes a host may have is
 *             policy/name.h's to say.
 * Limits      a greeting has at most 257 bytes, a request 262: by their form.
 * Tests       tests/unit/proxy/test_socks5.c, fuzz/fuzz_socks5.c
 */
#ifndef PROXY_SOCKS5_H
#define PROXY_SOCKS5_H

#include "conf/addr.h"

#define SOCKS5_VERSION 5
#define SOCKS4_VERSION 4
#define SOCKS5_NO_AUTHENTICATION 0x00
#define SOCKS5_NO_METHOD 0xff		/* none of the client's is acceptable */
#define SOCKS5_METHOD_LEN 2
#define SOCKS5_REPLY_LEN 10
#define SOCKS4_REPLY_LEN 8

enum socks5_result {
	SOCKS5_MORE,		/* one so far, not whole */
	SOCKS5_DONE,
	SOCKS5_BAD,		/* nothing that RFC 1928 knows */
	SOCKS5_BAD_ADDRESS,	/* an address type that it does not know */
};

enum socks5_command { SOCKS5_CONNECT = 1, SOCKS5_BIND = 2, SOCKS5_UDP = 3 };

/* RFC 1928 6 */
enum socks5_reply {
	SOCKS5_SUCCEEDED = 0,
	SOCKS5_FAILURE = 1,
	SOCKS5_NOT_ALLOWED = 2,
	SOCKS5_NO_COMMAND = 7,
	SOCKS5_NO_ADDRESS_TYPE = 8,
};

struct socks5_request {
	uint8_t command;
	struct addr addr;	/* family 0: a name was given */
	char name[256];
	uint8_t name_n;
	uint16_t port;
};

/* *no_auth: the client would do without authentication. */
enum socks5_result socks5_greeting(struct str bytes, bool *no_auth, size_t *n);
enum socks5_result socks5_request(struct str bytes, struct socks5_request *out, size_t *n);

void socks5_put_method(uint8_t method, uint8_t out[SOCKS5_METHOD_LEN]);
/* The address that we speak from is nobody's business: 0.0.0.0, port 0. */
void socks5_put_reply(enum socks5_reply code, uint8_t out[SOCKS5_REPLY_LEN]);
/* "Rejected or failed", for a client of the version before. */
void socks4_put_reply(uint8_t out[SOCKS4_REPLY_LEN]);

#endif
