#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proxy/tls_trust.h"

static void alpn_speaks_http_1_1_and_1_0_and_nothing_else(void **state)
{
	(void)state;
	assert_true(tls_trust_speaks(STR_NONE));
	assert_true(tls_trust_speaks(STR("\x08http/1.1")));
	assert_true(tls_trust_speaks(STR("\x02h2\x08http/1.1")));
	assert_false(tls_trust_speaks(STR("\x02h2")));
	assert_true(tls_trust_speaks(STR("\x08http/1.0")));
	assert_false(tls_trust_speaks(STR("\x08http/0.9")));
	assert_false(tls_trust_speaks(STR("\x02h2\x07http/1.1")));
	assert_false(tls_trust_speaks(STR("\x09http/1.1")));
	assert_false(tls_trust_speaks(STR("\xff")));
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

static void name_that_is_empty_or_too_long_gets_no_connection(void **state)
{
	static const char longest[300] = { 'a' };
	const char *why = "";
	struct tls_trust *t = tls_trust_new(false, &(struct str_list){ NULL, 0 }, &why);
	SSL *ssl;

	(void)state;
	assert_non_null(t);
	assert_null(tls_trust_connect(t, STR(""), false, 0));
	assert_null(tls_trust_connect(t, str_n(longest, sizeof(longest)), false, 0));
	assert_null(tls_trust_connect(t, STR("not-an-address"), true, 0));
	ssl = tls_trust_connect(t, STR("203.0.113.10"), true, 0);
	assert_non_null(ssl);
	assert_null(SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name));
	SSL_free(ssl);
	ssl = tls_trust_connect(t, STR("api.test"), false, 0);
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
	assert_null(tls_trust_accept(t, STR("garbage"), 0, STR_NONE));
	X509_set_pubkey(cert, other);
	X509_gmtime_adj(X509_getm_notBefore(cert), 0);
	X509_gmtime_adj(X509_getm_notAfter(cert), 60);
	assert_true(X509_sign(cert, other, EVP_sha256()) > 0);
	n = i2d_X509(cert, &der);
	assert_true(n > 0);
	assert_null(tls_trust_accept(t, str_n((char *)der, (size_t)n), 0, STR_NONE));
	OPENSSL_free(der);
	X509_free(cert);
	EVP_PKEY_free(other);
	tls_trust_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alpn_speaks_http_1_1_and_1_0_and_nothing_else),
		cmocka_unit_test(trust_with_the_systems_store_has_a_key_of_its_own),
		cmocka_unit_test(trust_file_that_is_not_there_is_told),
		cmocka_unit_test(name_that_is_empty_or_too_long_gets_no_connection),
		cmocka_unit_test(leaf_that_is_no_certificate_or_not_for_our_key_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
