#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <string.h>

#include "proxy/tls_provider.h"

/* A certificate of @key, as it comes from the other side. Made with OpenSSL's own context. */
static int certificate(EVP_PKEY *key, unsigned char **der)
{
	X509 *x = X509_new();
	const EVP_MD *md = EVP_PKEY_is_a(key, "ED25519") || EVP_PKEY_is_a(key, "ED448") ? NULL
									       : EVP_sha256();
	int n;

	assert_true(X509_set_version(x, X509_VERSION_3) && X509_set_pubkey(x, key));
	X509_gmtime_adj(X509_getm_notBefore(x), 0);
	X509_gmtime_adj(X509_getm_notAfter(x), 60);
	assert_true(X509_sign(x, key, md) > 0);
	n = i2d_X509(x, der);
	assert_true(n > 0);
	X509_free(x);
	return n;
}

static X509 *read_in(OSSL_LIB_CTX *tls, const unsigned char *der, int n)
{
	X509 *x = X509_new_ex(tls, NULL);

	assert_non_null(d2i_X509(&x, &der, n));
	return x;
}

static void assert_read_and_verified(OSSL_LIB_CTX *tls, EVP_PKEY *key)
{
	unsigned char *der = NULL;
	int n;
	X509 *x;

	assert_non_null(key);
	n = certificate(key, &der);
	x = read_in(tls, der, n);
	assert_non_null(X509_get0_pubkey(x));
	assert_int_equal(X509_verify(x, X509_get0_pubkey(x)), 1);
	X509_free(x);
	OPENSSL_free(der);
	EVP_PKEY_free(key);
}

static void certificates_of_each_kind_of_key_are_read_and_verified(void **state)
{
	struct tls_provider *p = tls_provider_new();
	OSSL_LIB_CTX *tls = p ? tls_provider_context(p) : NULL;

	(void)state;
	assert_non_null(tls);
	assert_read_and_verified(tls, EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256"));
	assert_read_and_verified(tls, EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-384"));
	assert_read_and_verified(tls, EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-521"));
	assert_read_and_verified(tls, EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)2048));
	assert_read_and_verified(tls, EVP_PKEY_Q_keygen(NULL, NULL, "ED25519"));
	assert_read_and_verified(tls, EVP_PKEY_Q_keygen(NULL, NULL, "ED448"));
	tls_provider_free(p);
}

static EVP_PKEY *rsa_pss_key(void)
{
	EVP_PKEY_CTX *make = EVP_PKEY_CTX_new_from_name(NULL, "RSA-PSS", NULL);
	EVP_PKEY *key = NULL;

	assert_true(EVP_PKEY_keygen_init(make) == 1 && EVP_PKEY_generate(make, &key) == 1);
	EVP_PKEY_CTX_free(make);
	return key;
}

static void certificate_of_an_rsa_pss_key_is_read_and_verified(void **state)
{
	struct tls_provider *p = tls_provider_new();
	OSSL_LIB_CTX *tls = p ? tls_provider_context(p) : NULL;

	(void)state;
	assert_non_null(tls);
	assert_read_and_verified(tls, rsa_pss_key());
	tls_provider_free(p);
}

static void key_of_a_kind_that_tls_does_not_use_is_an_unknown_one(void **state)
{
	struct tls_provider *p = tls_provider_new();
	OSSL_LIB_CTX *tls = p ? tls_provider_context(p) : NULL;
	EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "SM2");
	unsigned char *der = NULL;
	int n = i2d_PUBKEY(key, &der);
	const unsigned char *at = der;

	(void)state;
	assert_true(tls && n > 0);
	assert_null(d2i_PUBKEY_ex(NULL, &at, n, tls, NULL));
	ERR_clear_error();
	OPENSSL_free(der);
	EVP_PKEY_free(key);
	tls_provider_free(p);
}

static void second_context_is_like_the_first(void **state)
{
	struct tls_provider *first = tls_provider_new(), *second = tls_provider_new();

	(void)state;
	assert_true(first && second && first != second);
	tls_provider_free(first);
	assert_read_and_verified(tls_provider_context(second), EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256"));
	tls_provider_free(second);
}

/* A whole TLS 1.2 handshake and a byte each way, the client with @tls. */
static void assert_speaks(OSSL_LIB_CTX *tls, SSL_CTX *server_ctx, const char *suite)
{
	SSL_CTX *ctx = SSL_CTX_new_ex(tls, NULL, TLS_client_method());
	SSL *c, *s;
	BIO *a, *b;
	char byte = 'x';

	assert_true(SSL_CTX_set_cipher_list(ctx, suite));
	c = SSL_new(ctx);
	s = SSL_new(server_ctx);
	assert_true(BIO_new_bio_pair(&a, 1 << 16, &b, 1 << 16));
	SSL_set_bio(c, a, a);
	SSL_set_bio(s, b, b);
	SSL_set_connect_state(c);
	SSL_set_accept_state(s);
	for (int i = 0; i < 4; i++) {
		(void)SSL_do_handshake(c);
		(void)SSL_do_handshake(s);
	}
	if (strcmp(SSL_get_cipher_name(c), suite) != 0)
		fail_msg("%s: got %s", suite, SSL_get_cipher_name(c));
	assert_int_equal(SSL_write(s, &byte, 1), 1);
	assert_int_equal(SSL_read(c, &byte, 1), 1);
	assert_int_equal(SSL_write(c, &byte, 1), 1);
	assert_int_equal(SSL_read(s, &byte, 1), 1);
	SSL_free(c);
	SSL_free(s);
	SSL_CTX_free(ctx);
}

static void suites_of_tls_1_2_are_spoken_the_older_ones_too(void **state)
{
	static const char *const suites[] = {
		"ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-CHACHA20-POLY1305",
		"ECDHE-RSA-AES256-SHA384",     "ECDHE-RSA-AES128-SHA",
		"DHE-RSA-AES256-GCM-SHA384",   "AES128-SHA",
	};
	struct tls_provider *p = tls_provider_new();
	OSSL_LIB_CTX *tls = p ? tls_provider_context(p) : NULL;
	SSL_CTX *server = SSL_CTX_new(TLS_server_method());
	EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)2048);
	unsigned char *der = NULL;
	int n = certificate(key, &der);

	(void)state;
	assert_true(SSL_CTX_use_certificate_ASN1(server, n, der));
	assert_true(SSL_CTX_use_PrivateKey(server, key) && SSL_CTX_set_dh_auto(server, 1));
	SSL_CTX_set_max_proto_version(server, TLS1_2_VERSION);
	assert_true(SSL_CTX_set_cipher_list(server, "ALL"));
	for (size_t i = 0; i < sizeof(suites) / sizeof(suites[0]); i++)
		assert_speaks(tls, server, suites[i]);
	OPENSSL_free(der);
	EVP_PKEY_free(key);
	SSL_CTX_free(server);
	tls_provider_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(certificates_of_each_kind_of_key_are_read_and_verified),
		cmocka_unit_test(certificate_of_an_rsa_pss_key_is_read_and_verified),
		cmocka_unit_test(key_of_a_kind_that_tls_does_not_use_is_an_unknown_one),
		cmocka_unit_test(suites_of_tls_1_2_are_spoken_the_older_ones_too),
		cmocka_unit_test(second_context_is_like_the_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
