/* proxy/tls_sessions.h - TLS sessions with origins that a later connection may resume
 *
 * A resumed handshake shows no certificate. It still means a verified identity for the same name:
 *   - a session is kept only of a connection whose certificate has verified for its site, and is
 *     found for just that site: name or address, port, what is offered (ALPN);
 *   - who resumes it shows that it knows the session's secret, which nobody knows but this worker
 *     and the one who proved the name, or whom that one told: whom it could have told its private
 *     key, too. Who does not know it gets a full handshake, and its own certificate is verified;
 *   - it lives SESSION_LIFE_SECONDS from that verification, and not past the end of any certificate
 *     of the chain; sessions that come from resumed connections live no longer than the first did.
 * No request is sent as early data. Neither is this side authenticated by TLS: sessions of TLS 1.2
 * that are not bound to their handshake (RFC 7627) give an origin nothing that it could not forward
 * by itself.
 *
 * Of TLS 1.3 a session is used once (RFC 8446 C.4), of TLS 1.2 as long as it lives. A worker is one
 * sandbox's, and so are its sessions.
 *
 * A handshake that offered a session and came to no end takes its site's sessions with it: what was
 * offered may be why.
 *
 * Ownership   tls_sessions_free() wipes all.
 * Blocking    never.
 * Failure     what cannot be kept is not: the next handshake is a full one.
 * Limits      SESSIONS_MAX in all, SESSIONS_SITE_MAX of a site: past them the oldest goes.
 * Tests       tests/unit/proxy/test_tls_sessions.c
 */
#ifndef PROXY_TLS_SESSIONS_H
#define PROXY_TLS_SESSIONS_H

#include <openssl/ssl.h>

#include "conf/str.h"

#define SESSIONS_MAX 128
#define SESSIONS_SITE_MAX 4
#define SESSION_LIFE_SECONDS 600

/* What is offered to an origin (RFC 7301), the best first. */
enum tls_alpn {
	TLS_ALPN_H1,		/* http/1.1 */
	TLS_ALPN_H2_H1,		/* h2, http/1.1 */
};

/* Whom a session is with. */
struct tls_site {
	struct str name;	/* canonical name, or an address as text where @literal */
	bool literal;
	uint16_t port;
	enum tls_alpn offer;
};

struct tls_sessions;

/* @now: seconds of a clock that does not go back. */
struct tls_sessions *tls_sessions_new(uint64_t (*now)(void));
void tls_sessions_free(struct tls_sessions *all);
/* Once a context of clients: sessions come as callbacks. */
void tls_sessions_watch(SSL_CTX *client);
/* Before the handshake of a client: offers a session with @site where there is one, and keeps what
 * comes of it. @all must outlive the SSL. */
void tls_sessions_offer(struct tls_sessions *all, SSL *ssl, const struct tls_site *site);
void tls_sessions_drop_all(struct tls_sessions *all);
size_t tls_sessions_count(const struct tls_sessions *all);

#endif
