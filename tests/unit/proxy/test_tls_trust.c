#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/tls_io.h"
#include "proxy/tls_trust.h"

static struct tls_trust *trust_of_nobody(void)
{
	const char *why = "";
	struct tls_trust *t = tls_trust_new(false, &(struct str_list){ NULL, 0 }, &why);

	assert_non_null(t);
	return t;
}

static void alpn_speaks_http_1_1_and_1_0_and_nothing_else(void **state)
{
	struct tls_trust *t = trust_of_nobody();

	(void)state;
	assert_true(tls_trust_speaks(t, STR_NONE));
	assert_true(tls_trust_speaks(t, STR("\x08http/1.1")));
	assert_true(tls_trust_speaks(t, STR("\x02h2\x08http/1.1")));
	assert_false(tls_trust_speaks(t, STR("\x02h2")));
	assert_true(tls_trust_speaks(t, STR("\x08http/1.0")));
	assert_false(tls_trust_speaks(t, STR("\x08http/0.9")));
	assert_false(tls_trust_speaks(t, STR("\x02h2\x07http/1.1")));
	assert_false(tls_trust_speaks(t, STR("\x09http/1.1")));
	assert_false(tls_trust_speaks(t, STR("\xff")));
	tls_trust_free(t);
}

/* ---- whole handshakes: what a worker says to another worker, or to any SSL ---- */

static EVP_PKEY *certificate_key(void)
{
	static EVP_PKEY *key;

	if (!key)
		key = EVP_EC_gen("P-256");
	return key;
}

static struct str leaf_for(struct str spki, unsigned char **der)
{
	const unsigned char *p = (const unsigned char *)spki.p;
	EVP_PKEY *key = d2i_PUBKEY(NULL, &p, (long)spki.n);
	X509 *cert = X509_new();
	int n;

	assert_true(X509_set_version(cert, X509_VERSION_3) && X509_set_pubkey(cert, key));
	X509_gmtime_adj(X509_getm_notBefore(cert), 0);
	X509_gmtime_adj(X509_getm_notAfter(cert), 60);
	assert_true(X509_sign(cert, certificate_key(), EVP_sha256()) > 0);
	n = i2d_X509(cert, der);
	assert_true(n > 0);
	X509_free(cert);
	EVP_PKEY_free(key);
	return str_n((char *)*der, (size_t)n);
}

/* One worker's origin side and another's box side, over a socket. */
struct pair {
	struct tls_trust *origin, *box;
	int fds[2];
	SSL *client, *server;
};

static void pair_open(struct pair *p, enum tls_alpn offer, bool serve_h2)
{
	const struct tls_site site = { STR("api.test"), false, 443, offer };
	unsigned char *der = NULL;
	struct str leaf;

	p->origin = trust_of_nobody();
	p->box = trust_of_nobody();
	assert_true(tls_trust_make_key(p->box));
	tls_trust_serve_h2(p->box, serve_h2);
	leaf = leaf_for(tls_trust_public_key(p->box), &der);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p->fds), 0);
	p->client = tls_trust_connect(p->origin, &site, p->fds[0]);
	p->server = tls_trust_accept(p->box, STR("api.test"), leaf, p->fds[1], STR_NONE);
	assert_true(p->client && p->server);
	SSL_set_verify(p->client, SSL_VERIFY_NONE, NULL);
	OPENSSL_free(der);
}

static bool pair_shake(struct pair *p)
{
	for (int i = 0; i < 8; i++) {
		tls_io_woken(SSL_get_rbio(p->client));
		tls_io_woken(SSL_get_rbio(p->server));
		(void)SSL_do_handshake(p->client);
		(void)SSL_do_handshake(p->server);
	}
	return SSL_is_init_finished(p->client) && SSL_is_init_finished(p->server);
}

static void pair_close(struct pair *p)
{
	SSL_free(p->client);
	SSL_free(p->server);
	close(p->fds[0]);
	close(p->fds[1]);
	tls_trust_free(p->origin);
	tls_trust_free(p->box);
}

static void h2_is_agreed_on_where_both_sides_may(void **state)
{
	static const struct {
		enum tls_alpn offer;
		bool serve_h2;
		const char *agreed;
	} rows[] = {
		{ TLS_ALPN_H1, false, "http/1.1" },
		{ TLS_ALPN_H1, true, "http/1.1" },
		{ TLS_ALPN_H2_H1, false, "http/1.1" },
		{ TLS_ALPN_H2_H1, true, "h2" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pair p;

		pair_open(&p, rows[i].offer, rows[i].serve_h2);
		assert_true(pair_shake(&p));
		assert_true(str_eq(tls_trust_alpn(p.client), str_of(rows[i].agreed)));
		assert_true(str_eq(tls_trust_alpn(p.server), str_of(rows[i].agreed)));
		pair_close(&p);
	}
}

static void box_is_spoken_to_in_h2_only_once_that_is_switched_on(void **state)
{
	struct tls_trust *t = trust_of_nobody();

	(void)state;
	tls_trust_serve_h2(t, true);
	assert_true(tls_trust_speaks(t, STR("\x02h2")));
	assert_true(tls_trust_speaks(t, STR("\x08http/1.0")));
	assert_false(tls_trust_speaks(t, STR("\x02h3")));
	tls_trust_serve_h2(t, false);
	assert_false(tls_trust_speaks(t, STR("\x02h2")));
	tls_trust_free(t);
}

static int choose_h2(SSL *ssl, const unsigned char **out, unsigned char *out_n,
		     const unsigned char *in, unsigned int in_n, void *arg)
{
	(void)ssl;
	(void)in;
	(void)in_n;
	(void)arg;
	*out = (const unsigned char *)"h2";
	*out_n = 2;
	return SSL_TLSEXT_ERR_OK;
}

static void origin_that_chooses_what_was_not_offered_gets_no_handshake(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p, TLS_ALPN_H1, false);
	SSL_CTX_set_alpn_select_cb(SSL_get_SSL_CTX(p.server), choose_h2, NULL);
	assert_false(pair_shake(&p));
	assert_false(SSL_is_init_finished(p.client));
	pair_close(&p);
}

static void no_word_of_alpn_is_an_empty_one(void **state)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(ctx);

	(void)state;
	assert_int_equal(tls_trust_alpn(ssl).n, 0);
	SSL_free(ssl);
	SSL_CTX_free(ctx);
}

static void trust_with_the_systems_store_has_a_key_of_its_own(void **state)
{
	const char *why = "";
	struct tls_trust *t = tls_trust_new(true, &(struct str_list){ NULL, 0 }, &why);
	const unsigned char *der;
	EVP_PKEY *key;
	struct str spki;

	(void)state;
	assert_non_null(t);
	assert_true(tls_trust_make_key(t));
	spki = tls_trust_public_key(t);
	der = (const unsigned char *)spki.p;
	key = d2i_PUBKEY(NULL, &der, (long)spki.n);
	assert_non_null(key);
	assert_int_equal(EVP_PKEY_get_bits(key), 256);
	EVP_PKEY_free(key);
	tls_trust_free(t);
}

static void trust_file_that_is_not_there_is_told(void **state)
{
	struct str path = STR("/nonexistent/trust.pem");
	const char *why = "";

	(void)state;
	assert_null(tls_trust_new(false, &(struct str_list){ &path, 1 }, &why));
	assert_string_equal(why, "the trust file /nonexistent/trust.pem cannot be read, or is no PEM "
				 "file of certificates");
}

static SSL *connect_to(const struct tls_trust *t, struct str name, bool literal)
{
	const struct tls_site site = { name, literal, 443, TLS_ALPN_H1 };

	return tls_trust_connect(t, &site, 0);
}

static void name_that_is_empty_or_too_long_gets_no_connection(void **state)
{
	static const char longest[300] = { 'a' };
	const char *why = "";
	struct tls_trust *t = tls_trust_new(false, &(struct str_list){ NULL, 0 }, &why);
	SSL *ssl;

	(void)state;
	assert_non_null(t);
	assert_null(connect_to(t, STR(""), false));
	assert_null(connect_to(t, str_n(longest, sizeof(longest)), false));
	assert_null(connect_to(t, STR("not-an-address"), true));
	ssl = connect_to(t, STR("203.0.113.10"), true);
	assert_non_null(ssl);
	assert_null(SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name));
	SSL_free(ssl);
	ssl = connect_to(t, STR("api.test"), false);
	assert_non_null(ssl);
	SSL_free(ssl);
	tls_trust_free(t);
}

static void leaf_that_is_no_certificate_or_not_for_our_key_is_refused(void **state)
{
	const char *why = "";
	struct tls_trust *t = tls_trust_new(false, &(struct str_list){ NULL, 0 }, &why);
	EVP_PKEY *other = EVP_EC_gen("P-256");
	X509 *cert = X509_new();
	unsigned char *der = NULL;
	int n;

	(void)state;
	assert_non_null(t);
	assert_null(tls_trust_accept(t, STR("a.test"), STR("garbage"), 0, STR_NONE));
	X509_set_pubkey(cert, other);
	X509_gmtime_adj(X509_getm_notBefore(cert), 0);
	X509_gmtime_adj(X509_getm_notAfter(cert), 60);
	assert_true(X509_sign(cert, other, EVP_sha256()) > 0);
	n = i2d_X509(cert, &der);
	assert_true(n > 0);
	assert_null(tls_trust_accept(t, STR("a.test"), str_n((char *)der, (size_t)n), 0, STR_NONE));
	OPENSSL_free(der);
	X509_free(cert);
	EVP_PKEY_free(other);
	tls_trust_free(t);
}

static bool accepts(const struct tls_trust *t, struct str name, struct str leaf)
{
	SSL *ssl = tls_trust_accept(t, name, leaf, 0, STR_NONE);

	SSL_free(ssl);
	return ssl;
}

static void leaf_is_known_by_its_name_until_all_is_forgotten(void **state)
{
	struct tls_trust *t = trust_of_nobody();
	unsigned char *der = NULL;
	struct str leaf;

	(void)state;
	assert_true(tls_trust_make_key(t));
	leaf = leaf_for(tls_trust_public_key(t), &der);
	assert_false(accepts(t, STR("a.test"), STR_NONE));
	assert_true(accepts(t, STR("a.test"), leaf));
	assert_true(accepts(t, STR("a.test"), STR_NONE));
	assert_false(accepts(t, STR("b.test"), STR_NONE));
	tls_trust_forget(t);
	assert_false(accepts(t, STR("a.test"), STR_NONE));
	OPENSSL_free(der);
	tls_trust_free(t);
}

static void leaves_past_the_limit_are_asked_for_again(void **state)
{
	struct tls_trust *t = trust_of_nobody();
	unsigned char *der = NULL;
	char name[32];
	struct str leaf;
	size_t known = 0;

	(void)state;
	assert_true(tls_trust_make_key(t));
	leaf = leaf_for(tls_trust_public_key(t), &der);
	for (int i = 0; i < LEAVES_KNOWN * 2; i++) {
		snprintf(name, sizeof(name), "n%d.test", i);
		assert_true(accepts(t, str_of(name), leaf));
		assert_true(accepts(t, str_of(name), STR_NONE));
	}
	for (int i = 0; i < LEAVES_KNOWN * 2; i++) {
		snprintf(name, sizeof(name), "n%d.test", i);
		known += accepts(t, str_of(name), STR_NONE);
	}
	assert_in_range(known, LEAVES_KNOWN / 2, LEAVES_KNOWN);
	OPENSSL_free(der);
	tls_trust_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alpn_speaks_http_1_1_and_1_0_and_nothing_else),
		cmocka_unit_test(h2_is_agreed_on_where_both_sides_may),
		cmocka_unit_test(box_is_spoken_to_in_h2_only_once_that_is_switched_on),
		cmocka_unit_test(origin_that_chooses_what_was_not_offered_gets_no_handshake),
		cmocka_unit_test(no_word_of_alpn_is_an_empty_one),
		cmocka_unit_test(trust_with_the_systems_store_has_a_key_of_its_own),
		cmocka_unit_test(trust_file_that_is_not_there_is_told),
		cmocka_unit_test(name_that_is_empty_or_too_long_gets_no_connection),
		cmocka_unit_test(leaf_is_known_by_its_name_until_all_is_forgotten),
		cmocka_unit_test(leaves_past_the_limit_are_asked_for_again),
		cmocka_unit_test(leaf_that_is_no_certificate_or_not_for_our_key_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
