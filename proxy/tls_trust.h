/* proxy/tls_trust.h - whom a worker believes, and as whom it speaks: all of TLS's settings
 *
 * Two SSL_CTXs, which forked processes share, and the worker's own key, which they do not; both are
 * made before the process is confined. TLS 1.2 at least on
 * both sides, no compression, no renegotiation. Towards origins: the certificate must chain to a
 * trusted root and bear the name (RFC 6125 6.4: subjectAltName only, wildcards as a whole label),
 * or, for a literal destination, the address; sessions are resumed. Towards the box: a leaf that
 * the broker signed for the worker's own key; no tickets.
 *
 * Ownership   tls_trust_free(). SSLs handed out are the caller's and hold a reference to their
 *             context. The descriptor stays the caller's.
 * Blocking    tls_trust_new() reads the trust store; nothing later opens a file.
 * Failure     NULL; tls_trust_new() says why in static text.
 * Limits      LEAVES_KNOWN leaves are remembered, for LEAF_FRESH_SECONDS; sessions as
 *             proxy/tls_sessions.h says.
 * Tests       tests/unit/proxy/test_tls_trust.c
 */
#ifndef PROXY_TLS_TRUST_H
#define PROXY_TLS_TRUST_H

#include <openssl/ssl.h>

#include "proxy/tls_sessions.h"
#include "sandbox/message.h"

#define TLS_SYSTEM_STORE "/etc/ssl/certs/ca-certificates.crt"
#define TLS_FINGERPRINT_HEX 64
#define LEAVES_KNOWN 256

struct tls_trust;

struct tls_trust *tls_trust_new(bool trust_system, const struct str_list *files, const char **why);
void tls_trust_free(struct tls_trust *t);
/* The key that tls_trust_accept() and tls_trust_public_key() need; once, in the process that uses
 * it. */
must_use bool tls_trust_make_key(struct tls_trust *t);
/* The worker's public key, DER SubjectPublicKeyInfo; lives as long as @t. */
struct str tls_trust_public_key(const struct tls_trust *t);
/* The client's side of a handshake over @fd: a session with @site is resumed where there is one
 * (proxy/tls_sessions.h). @t must outlive it. */
SSL *tls_trust_connect(const struct tls_trust *t, const struct tls_site *site, int fd);
/* The server's side. @leaf: DER, for @name and the worker's key; empty: the one that was given for
 * @name before, or NULL where it is not known any more. @first: what was read from the socket
 * already. */
SSL *tls_trust_accept(const struct tls_trust *t, struct str name, struct str leaf, int fd,
		      struct str first);
/* Under a new policy nothing that the old one led to is relied on: origins prove their names again,
 * leaves are asked for again. */
void tls_trust_forget(const struct tls_trust *t);
/* Is h2 spoken to the box, too? At first it is not. */
void tls_trust_serve_h2(struct tls_trust *t, bool on);
/* Do the names offered (RFC 7301 ProtocolNameList content) have one that is spoken to the box?
 * Empty: yes. */
bool tls_trust_speaks(const struct tls_trust *t, struct str alpn);
/* The protocol agreed on, of those that were offered: lives as long as @ssl. Empty where there was
 * no word of it; an origin's that was not offered fails its handshake. */
struct str tls_trust_alpn(const SSL *ssl);
/* SHA-256 of the peer's certificate, hex, NUL-ended; empty where there is none. */
void tls_trust_fingerprint(SSL *ssl, char out[TLS_FINGERPRINT_HEX + 1]);

#endif
