/* proxy/hello.h - the ClientHello as it comes: enough of it to know who is asked for
 *
 * Fed with all bytes received so far (it keeps nothing), it says whether they are TLS, whether the
 * hello is whole, and what it asks: server_name (RFC 6066 3), ALPN (RFC 7301).
 * Handshake messages may be split over records and records over segments in any way (RFC 8446 5.1).
 *
 * Ownership   *out borrows nothing: names are copied.       Blocking  never.
 * Failure     by result.
 * Limits      HELLO_MAX bytes, HELLO_RECORDS_MAX records; of ALPN, the names that fit.
 * Tests       tests/unit/proxy/test_hello.c, fuzz/fuzz_hello.c
 */
#ifndef PROXY_HELLO_H
#define PROXY_HELLO_H

#include "policy/name.h"

#define HELLO_MAX 65536u
#define HELLO_RECORDS_MAX 256
#define HELLO_ALPN_MAX 256

enum hello_result {
	HELLO_MORE,		/* a hello so far, not whole */
	HELLO_DONE,
	HELLO_NOT_TLS,		/* the first byte is no handshake record's */
	HELLO_BAD,		/* TLS, but malformed or no ClientHello */
	HELLO_TOO_LONG,
};

struct hello {
	bool has_sni;		/* the extension is there */
	char sni[256];		/* raw host_name, not canonical; NUL-ended, sni_n bytes */
	size_t sni_n;
	bool sni_bad;		/* there, but no host_name, two of them, or over 255 bytes */
	uint8_t alpn[HELLO_ALPN_MAX];	/* ProtocolNameList's content: length-prefixed names */
	size_t alpn_n;
	bool ech;		/* encrypted_client_hello offered (GREASE or not) */
};

enum hello_result hello_parse(struct str bytes, struct hello *out);
/* The bytes of a fatal alert record (RFC 8446 6), to be sent before any TLS state exists. */
#define HELLO_ALERT_LEN 7
void hello_alert(uint8_t description, uint8_t out[HELLO_ALERT_LEN]);

#endif
