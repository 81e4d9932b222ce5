/* Theory of operation
 *
 * OpenSSL opens files and fetches providers when it first needs them. A confined worker cannot, so
 * tls_trust_new() uses everything once: it makes a throw-away key with a certificate and runs one
 * whole handshake of each protocol version between its two contexts in memory. What that loaded
 * (providers, the random source, key exchange groups, error strings) stays loaded, in processes
 * that are forked later, too: OpenSSL sees by the process number that it has been forked, and takes
 * new entropy before it gives a random byte. The worker's own key is made there, by
 * tls_trust_make_key(): what is inherited holds no secret.
 *
 * The trust store is one PEM bundle read whole into the context's X509_STORE; no hashed folder is
 * registered, so no lookup can want a file later.
 */
#include "proxy/tls_trust.h"

#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include "conf/buf.h"
#include "conf/hex.h"
#include "proxy/clock.h"
#include "proxy/leaf_cache.h"
#include "proxy/tls_io.h"
#include "proxy/tls_provider.h"

#define PATH_TEXT_MAX 4096
#define WARM_UP_ROUNDS 16
#define READ_BUFFER (36u << 10)	/* two records and a bit */

/* Of TLS 1.3, the cheapest first: SHA-256 has instructions of its own, and keys are derived a dozen
 * times a handshake. A box that has no AES and says so gets what it asks for. */
#define SUITES "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"

#define NAME_BYTES_MAX 255

struct known_leaf {
	X509 *cert;
	struct buf name;
	uint64_t made;		/* or rather, got */
};

struct tls_trust {
	struct tls_provider *provider;
	OSSL_LIB_CTX *library;	/* its */
	SSL_CTX *client, *server;
	EVP_PKEY *key;			/* NULL until tls_trust_make_key() */
	unsigned char *spki;
	int spki_n;
	struct known_leaf *leaves;
	struct tls_sessions *sessions;
	bool serve_h2;
};

/* Names of protocols (RFC 7301 3.1), each behind its length: what is spoken to the box, the best
 * first; a box may know no other than the last. */
static const struct str spoken[] = {
	{ "\x02h2", 3 }, { "\x08http/1.1", 9 }, { "\x08http/1.0", 9 }
};
#define SPOKEN_H1 1		/* from here on, without h2 */

static const struct str offers_of[] = {
	[TLS_ALPN_H1] = { "\x08http/1.1", 9 },
	[TLS_ALPN_H2_H1] = { "\x02h2\x08http/1.1", 12 },
};

static bool offers(struct str offered, struct str name)
{
	while (offered.n) {
		size_t n = (size_t)(unsigned char)offered.p[0] + 1;

		if (n > offered.n)
			return false;
		if (str_eq(str_n(offered.p, n), name))
			return true;
		offered = str_from(offered, n);
	}
	return false;
}

/* The best of what is offered; NULL where nothing of it is spoken. */
static const struct str *best_of(const struct tls_trust *t, struct str offered)
{
	for (size_t i = t->serve_h2 ? 0 : SPOKEN_H1; i < sizeof(spoken) / sizeof(spoken[0]); i++)
		if (offers(offered, spoken[i]))
			return &spoken[i];
	return NULL;
}

bool tls_trust_speaks(const struct tls_trust *t, struct str alpn)
{
	return alpn.n == 0 || best_of(t, alpn);
}

void tls_trust_serve_h2(struct tls_trust *t, bool on)
{
	t->serve_h2 = on;
}

static int choose_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_n,
		       const unsigned char *in, unsigned int in_n, void *arg)
{
	const struct str *best = best_of(arg, str_n((const char *)in, in_n));

	(void)ssl;
	if (!best)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*out = (const unsigned char *)best->p + 1;
	*out_n = (unsigned char)(best->n - 1);
	return SSL_TLSEXT_ERR_OK;
}

static SSL_CTX *make_ctx(OSSL_LIB_CTX *library, const SSL_METHOD *method)
{
	SSL_CTX *ctx = SSL_CTX_new_ex(library, NULL, method);

	if (!ctx)
		return NULL;
	SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
	/* A leaf is sent alone: no chain is looked for. */
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
				      SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
	/* A record's head and body, and what stands behind it, in one read. */
	SSL_CTX_set_read_ahead(ctx, 1);
	SSL_CTX_set_default_read_buffer_len(ctx, READ_BUFFER);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	if (!SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) ||
	    !SSL_CTX_set_ciphersuites(ctx, SUITES)) {
		SSL_CTX_free(ctx);
		return NULL;
	}
	return ctx;
}

static bool load_store(SSL_CTX *ctx, bool trust_system, const struct str_list *files,
		       const char **why)
{
	static char added[PATH_TEXT_MAX + 64];	/* one trust is made by a process, at its start */

	*why = "the system's trust store cannot be read";
	if (trust_system && !SSL_CTX_load_verify_file(ctx, TLS_SYSTEM_STORE))
		return false;
	for (size_t i = 0; i < files->n; i++) {
		char path[PATH_TEXT_MAX];

		*why = "the path of an added trust file is too long";
		if (files->v[i].n >= sizeof(path))
			return false;
		snprintf(added, sizeof(added), "the trust file %.*s cannot be read, or is no PEM file of "
			 "certificates", STR_ARG(files->v[i]));
		*why = added;
		memcpy(path, files->v[i].p, files->v[i].n);
		path[files->v[i].n] = '\0';
		if (!SSL_CTX_load_verify_file(ctx, path))
			return false;
	}
	return true;
}

/* ---- the warm-up ---- */

static EVP_PKEY *new_key(const struct tls_trust *t)
{
	return EVP_PKEY_Q_keygen(t->library, NULL, "EC", "P-256");
}

static X509 *throw_away_certificate(const struct tls_trust *t, EVP_PKEY *key)
{
	X509 *cert = X509_new_ex(t->library, NULL);

	if (cert && X509_set_version(cert, X509_VERSION_3) &&
	    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1) &&
	    X509_gmtime_adj(X509_getm_notBefore(cert), 0) &&
	    X509_gmtime_adj(X509_getm_notAfter(cert), 60) && X509_set_pubkey(cert, key) &&
	    X509_sign(cert, key, EVP_sha256()))
		return cert;
	X509_free(cert);
	return NULL;
}

/* Both ends in turn until both are through, then a byte each way. */
static bool shake(SSL *client, SSL *server)
{
	char byte = 'x';

	for (int i = 0; i < WARM_UP_ROUNDS; i++) {
		(void)SSL_do_handshake(client);
		(void)SSL_do_handshake(server);
	}
	return SSL_is_init_finished(client) && SSL_is_init_finished(server) &&
	       SSL_write(client, &byte, 1) == 1 && SSL_read(server, &byte, 1) == 1 &&
	       SSL_write(server, &byte, 1) == 1 && SSL_read(client, &byte, 1) == 1;
}

static bool warm_up(struct tls_trust *t, X509 *cert, EVP_PKEY *key, int version)
{
	SSL *client = SSL_new(t->client), *server = SSL_new(t->server);
	BIO *a = NULL, *b = NULL;
	bool ok = false;

	if (!client || !server || !BIO_new_bio_pair(&a, 0, &b, 0))
		goto out;
	SSL_set_bio(client, a, a);
	SSL_set_bio(server, b, b);
	SSL_set_connect_state(client);
	SSL_set_accept_state(server);
	SSL_set_verify(client, SSL_VERIFY_NONE, NULL);
	ok = SSL_set_max_proto_version(client, version) && SSL_use_certificate(server, cert) &&
	     SSL_use_PrivateKey(server, key) && shake(client, server);
	SSL_set_quiet_shutdown(client, 1);
	SSL_set_quiet_shutdown(server, 1);
out:
	SSL_free(client);
	SSL_free(server);
	ERR_clear_error();
	return ok;
}

static bool use_everything_once(struct tls_trust *t)
{
	EVP_PKEY *key = new_key(t);
	X509 *cert = key ? throw_away_certificate(t, key) : NULL;
	unsigned char random[16];
	bool ok = cert && RAND_bytes(random, sizeof(random)) == 1 &&
		  warm_up(t, cert, key, TLS1_3_VERSION) && warm_up(t, cert, key, TLS1_2_VERSION);

	X509_free(cert);
	EVP_PKEY_free(key);
	return ok;
}

/* ---- life ---- */

static void forget_leaf(struct known_leaf *known)
{
	X509_free(known->cert);
	known->cert = NULL;
	buf_free(&known->name);
}

static uint64_t now_seconds(void)
{
	return clock_ms() / 1000;
}

struct tls_trust *tls_trust_new(bool trust_system, const struct str_list *files, const char **why)
{
	struct tls_trust *t = calloc(1, sizeof(*t));

	*why = "out of memory";
	if (!t)
		return NULL;
	t->leaves = calloc(LEAVES_KNOWN, sizeof(*t->leaves));
	t->sessions = tls_sessions_new(now_seconds);
	if (!t->leaves || !t->sessions)
		goto fail;
	OPENSSL_init_ssl(OPENSSL_INIT_LOAD_SSL_STRINGS | OPENSSL_INIT_LOAD_CRYPTO_STRINGS, NULL);
	t->provider = tls_provider_new();
	if (!t->provider)
		goto fail;
	t->library = tls_provider_context(t->provider);
	t->client = make_ctx(t->library, TLS_client_method());
	t->server = make_ctx(t->library, TLS_server_method());
	if (!t->client || !t->server)
		goto fail;
	SSL_CTX_set_num_tickets(t->server, 0);
	/* A box that leaves its end without close_notify can still be answered: a request says
	 * itself where it ends. Not so an answer. */
	SSL_CTX_set_options(t->server, SSL_OP_NO_TICKET | SSL_OP_IGNORE_UNEXPECTED_EOF |
					       SSL_OP_CIPHER_SERVER_PREFERENCE |
					       SSL_OP_PRIORITIZE_CHACHA);
	if (!load_store(t->client, trust_system, files, why))
		goto fail;
	*why = "the TLS library does not work";
	SSL_CTX_set_verify(t->client, SSL_VERIFY_PEER, NULL);
	tls_sessions_watch(t->client);
	SSL_CTX_set_alpn_select_cb(t->server, choose_alpn, t);
	if (!use_everything_once(t))
		goto fail;
	return t;
fail:
	ERR_clear_error();
	tls_trust_free(t);
	return NULL;
}

bool tls_trust_make_key(struct tls_trust *t)
{
	t->key = new_key(t);
	t->spki_n = t->key ? i2d_PUBKEY(t->key, &t->spki) : -1;
	return t->spki_n > 0;
}

void tls_trust_free(struct tls_trust *t)
{
	if (!t)
		return;
	SSL_CTX_free(t->client);
	SSL_CTX_free(t->server);
	EVP_PKEY_free(t->key);
	OPENSSL_free(t->spki);
	for (size_t i = 0; t->leaves && i < LEAVES_KNOWN; i++)
		forget_leaf(&t->leaves[i]);
	free(t->leaves);
	tls_sessions_free(t->sessions);
	tls_provider_free(t->provider);
	free(t);
}

struct str tls_trust_public_key(const struct tls_trust *t)
{
	return str_n((const char *)t->spki, (size_t)t->spki_n);
}

/* ---- one connection's ---- */

static SSL *over(SSL_CTX *ctx, int fd, struct str first)
{
	SSL *ssl = SSL_new(ctx);
	BIO *bio = tls_io_new(fd, first);

	if (!ssl || !bio) {
		SSL_free(ssl);
		BIO_free(bio);
		return NULL;
	}
	SSL_set_bio(ssl, bio, bio);
	return ssl;
}

/* Which certificate will do. The name as SNI too, but never an address (RFC 6066 3). */
static bool expect_name(SSL *ssl, struct str name, bool literal)
{
	X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
	char text[256];

	if (name.n == 0 || name.n >= sizeof(text))
		return false;
	memcpy(text, name.p, name.n);
	text[name.n] = '\0';
	X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
						       X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
	if (literal)
		return X509_VERIFY_PARAM_set1_ip_asc(param, text) == 1;
	return X509_VERIFY_PARAM_set1_host(param, text, name.n) == 1 &&
	       SSL_set_tlsext_host_name(ssl, text);
}

static bool offer_protocols(SSL *ssl, enum tls_alpn offer)
{
	struct str alpn = offers_of[offer];

	return SSL_set_alpn_protos(ssl, (const unsigned char *)alpn.p, (unsigned)alpn.n) == 0;
}

SSL *tls_trust_connect(const struct tls_trust *t, const struct tls_site *site, int fd)
{
	SSL *ssl = over(t->client, fd, STR_NONE);

	if (!ssl)
		return NULL;
	if (!expect_name(ssl, site->name, site->literal) || !offer_protocols(ssl, site->offer)) {
		SSL_free(ssl);
		return NULL;
	}
	tls_sessions_offer(t->sessions, ssl, site);
	SSL_set_connect_state(ssl);
	return ssl;
}

static struct known_leaf *place_of(const struct tls_trust *t, struct str name)
{
	uint32_t h = 2166136261u;	/* FNV-1a */

	for (size_t i = 0; i < name.n; i++)
		h = (h ^ (unsigned char)name.p[i]) * 16777619u;
	return &t->leaves[h % LEAVES_KNOWN];
}

static void know_leaf(struct known_leaf *known, struct str name, X509 *cert)
{
	forget_leaf(known);
	buf_init(&known->name, NAME_BYTES_MAX);
	buf_put_str(&known->name, name);
	known->cert = cert;
	known->made = now_seconds();
}

/* Parsing costs half as much as a handshake: the last leaf of each place stays. */
static X509 *leaf_of(const struct tls_trust *t, struct str name, struct str leaf)
{
	struct known_leaf *known = place_of(t, name);
	const unsigned char *der = (const unsigned char *)leaf.p;
	X509 *cert;

	if (leaf.n == 0) {
		bool fresh = known->cert && str_eq(buf_str(&known->name), name) &&
			     now_seconds() - known->made <= LEAF_FRESH_SECONDS;

		return fresh ? known->cert : NULL;
	}
	cert = X509_new_ex(t->library, NULL);
	if (!cert || !d2i_X509(&cert, &der, (long)leaf.n))
		return NULL;	/* d2i_X509() has freed it */
	know_leaf(known, name, cert);
	return cert;
}

SSL *tls_trust_accept(const struct tls_trust *t, struct str name, struct str leaf, int fd,
		      struct str first)
{
	X509 *cert = leaf_of(t, name, leaf);
	SSL *ssl = cert ? over(t->server, fd, first) : NULL;

	if (!cert && leaf.n == 0)
		return NULL;
	if (ssl && SSL_use_certificate(ssl, cert) == 1 && SSL_use_PrivateKey(ssl, t->key) == 1) {
		SSL_set_accept_state(ssl);
	} else {
		SSL_free(ssl);
		ssl = NULL;
	}
	ERR_clear_error();
	return ssl;
}

void tls_trust_forget(const struct tls_trust *t)
{
	tls_sessions_drop_all(t->sessions);
	for (size_t i = 0; i < LEAVES_KNOWN; i++)
		forget_leaf(&t->leaves[i]);
}

struct str tls_trust_alpn(const SSL *ssl)
{
	const unsigned char *alpn;
	unsigned int n;

	SSL_get0_alpn_selected(ssl, &alpn, &n);
	return str_n((const char *)alpn, n);
}

void tls_trust_fingerprint(SSL *ssl, char out[TLS_FINGERPRINT_HEX + 1])
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned int n = 0;
	X509 *cert = SSL_get0_peer_certificate(ssl);

	out[0] = '\0';
	if (!cert || !X509_digest(cert, EVP_sha256(), digest, &n) || n * 2 != TLS_FINGERPRINT_HEX)
		return;
	hex_text(digest, n, out);
}
