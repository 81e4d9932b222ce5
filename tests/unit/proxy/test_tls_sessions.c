#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "proxy/tls_sessions.h"

#define HOUR 3600

static uint64_t clock_now = 1000;

static uint64_t now(void)
{
	return clock_now;
}

/* ---- a certificate authority, origins, and one worker's client side ---- */

static EVP_PKEY *ca_key, *key;
static X509 *ca;
static SSL_CTX *client_ctx;
static struct tls_sessions *all;

static void extend(X509 *x, int nid, const char *value)
{
	X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

	assert_true(e && X509_add_ext(x, e, -1));
	X509_EXTENSION_free(e);
}

static X509 *certificate(const char *cn, EVP_PKEY *k, int nid, const char *value, long ends)
{
	X509 *x = X509_new();
	static long serial;

	assert_true(X509_set_version(x, X509_VERSION_3) && X509_set_pubkey(x, k));
	ASN1_INTEGER_set(X509_get_serialNumber(x), ++serial);
	X509_gmtime_adj(X509_getm_notBefore(x), -HOUR);
	X509_gmtime_adj(X509_getm_notAfter(x), ends);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
				   (const unsigned char *)cn, -1, -1, 0);
	X509_set_issuer_name(x, ca ? X509_get_subject_name(ca) : X509_get_subject_name(x));
	extend(x, nid, value);
	assert_true(X509_sign(x, ca_key, EVP_sha256()) > 0);
	return x;
}

/* An origin with tickets of its own. */
static SSL_CTX *origin_until(const char *san, long ends)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	X509 *x = certificate("origin", key, NID_subject_alt_name, san, ends);

	assert_true(SSL_CTX_use_certificate(ctx, x) && SSL_CTX_use_PrivateKey(ctx, key));
	SSL_CTX_set_session_id_context(ctx, (const unsigned char *)"t", 1);
	X509_free(x);
	return ctx;
}

static SSL_CTX *origin(const char *san)
{
	return origin_until(san, HOUR);
}

static int set_up(void **state)
{
	(void)state;
	ca_key = EVP_EC_gen("P-256");
	key = EVP_EC_gen("P-256");
	ca = certificate("ca", ca_key, NID_basic_constraints, "critical,CA:TRUE", 24 * HOUR);
	client_ctx = SSL_CTX_new(TLS_client_method());
	SSL_CTX_set_verify(client_ctx, SSL_VERIFY_PEER, NULL);
	assert_true(X509_STORE_add_cert(SSL_CTX_get_cert_store(client_ctx), ca));
	tls_sessions_watch(client_ctx);
	all = tls_sessions_new(now);
	return all ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	tls_sessions_free(all);
	SSL_CTX_free(client_ctx);
	X509_free(ca);
	ca = NULL;
	EVP_PKEY_free(ca_key);
	EVP_PKEY_free(key);
	return 0;
}

enum outcome { FULL, RESUMED, FAILED };

/* One connection to @server, as if it were @site, with a byte of an answer: tickets come before it.
 * @trusting: whatever certificate it shows. */
static enum outcome connect_as(SSL_CTX *server, const struct tls_site *site, bool trusting,
			       X509 **shown)
{
	SSL *c = SSL_new(client_ctx), *s = SSL_new(server);
	BIO *a, *b;
	char byte = 'x', name[256];
	bool reused, done;

	assert_true(BIO_new_bio_pair(&a, 1 << 16, &b, 1 << 16));
	SSL_set_bio(c, a, a);
	SSL_set_bio(s, b, b);
	snprintf(name, sizeof(name), "%.*s", STR_ARG(site->name));
	assert_true(SSL_set1_host(c, name));
	if (trusting)
		SSL_set_verify(c, SSL_VERIFY_NONE, NULL);
	tls_sessions_offer(all, c, site);
	SSL_set_connect_state(c);
	SSL_set_accept_state(s);
	for (int i = 0; i < 4; i++) {
		(void)SSL_do_handshake(c);
		(void)SSL_do_handshake(s);
	}
	done = SSL_is_init_finished(c) && SSL_is_init_finished(s);
	reused = SSL_session_reused(c);
	if (done)
		done = SSL_write(s, &byte, 1) == 1 && SSL_read(c, &byte, 1) == 1;
	if (shown)
		*shown = SSL_get1_peer_certificate(c);
	SSL_free(c);
	SSL_free(s);
	ERR_clear_error();
	return !done ? FAILED : reused ? RESUMED : FULL;
}

static enum outcome connect_to(SSL_CTX *server, const char *name)
{
	const struct tls_site site = { str_of(name), false, 443, TLS_ALPN_H1 };

	return connect_as(server, &site, false, NULL);
}

/* ---- resuming ---- */

static void second_connection_is_resumed_and_knows_its_certificate(SSL_CTX *server)
{
	const struct tls_site site = { STR("a.test"), false, 443, TLS_ALPN_H1 };
	X509 *first = NULL, *second = NULL;

	assert_int_equal(connect_as(server, &site, false, &first), FULL);
	assert_int_equal(connect_as(server, &site, false, &second), RESUMED);
	assert_true(first && second && X509_cmp(first, second) == 0);
	X509_free(first);
	X509_free(second);
	SSL_CTX_free(server);
}

static void tls_1_3_session_is_resumed_and_knows_its_certificate(void **state)
{
	(void)state;
	second_connection_is_resumed_and_knows_its_certificate(origin("DNS:a.test"));
}

static void tls_1_2_session_is_resumed_and_knows_its_certificate(void **state)
{
	SSL_CTX *server = origin("DNS:a.test");

	(void)state;
	SSL_CTX_set_max_proto_version(server, TLS1_2_VERSION);
	second_connection_is_resumed_and_knows_its_certificate(server);
}

static void tls_1_3_session_is_used_once(void **state)
{
	SSL_CTX *server = origin("DNS:a.test");

	(void)state;
	SSL_CTX_set_num_tickets(server, 1);
	assert_int_equal(connect_to(server, "a.test"), FULL);
	assert_int_equal(tls_sessions_count(all), 1);
	SSL_CTX_set_num_tickets(server, 0);
	assert_int_equal(connect_to(server, "a.test"), RESUMED);
	assert_int_equal(tls_sessions_count(all), 0);
	assert_int_equal(connect_to(server, "a.test"), FULL);
	SSL_CTX_free(server);
}

static void tls_1_2_session_is_used_as_long_as_it_lives(void **state)
{
	SSL_CTX *server = origin("DNS:a.test");

	(void)state;
	SSL_CTX_set_max_proto_version(server, TLS1_2_VERSION);
	assert_int_equal(connect_to(server, "a.test"), FULL);
	assert_int_equal(connect_to(server, "a.test"), RESUMED);
	assert_int_equal(connect_to(server, "a.test"), RESUMED);
	clock_now += SESSION_LIFE_SECONDS;
	assert_int_equal(connect_to(server, "a.test"), FULL);
	SSL_CTX_free(server);
}

/* ---- for whom ---- */

static void session_is_for_the_same_site_only(void **state)
{
	SSL_CTX *server = origin("DNS:a.test,DNS:b.test");
	const struct tls_site others[] = {
		{ STR("b.test"), false, 443, TLS_ALPN_H1 },
		{ STR("a.test"), false, 8443, TLS_ALPN_H1 },
		{ STR("a.test"), false, 443, TLS_ALPN_H2_H1 },
		{ STR("a.test"), true, 443, TLS_ALPN_H1 },
	};

	(void)state;
	assert_int_equal(connect_to(server, "a.test"), FULL);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_int_equal(connect_as(server, &others[i], false, NULL), FULL);
	assert_int_equal(connect_to(server, "a.test"), RESUMED);
	SSL_CTX_free(server);
}

static void origin_that_refuses_resumption_proves_its_name_again(void **state)
{
	SSL_CTX *server = origin("DNS:a.test"), *successor = origin("DNS:a.test");

	(void)state;
	assert_int_equal(connect_to(server, "a.test"), FULL);
	assert_int_equal(connect_to(successor, "a.test"), FULL);
	assert_int_equal(connect_to(successor, "a.test"), RESUMED);
	SSL_CTX_free(server);
	SSL_CTX_free(successor);
}

static void rogue_that_is_offered_a_session_must_show_a_certificate_for_the_name(void **state)
{
	SSL_CTX *server = origin("DNS:a.test"), *rogue = origin("DNS:rogue.test");

	(void)state;
	assert_int_equal(connect_to(server, "a.test"), FULL);
	assert_int_equal(connect_to(rogue, "a.test"), FAILED);
	SSL_CTX_free(server);
	SSL_CTX_free(rogue);
}

static void rogue_of_an_untrusted_authority_is_refused_whatever_it_is_offered(void **state)
{
	SSL_CTX *server = origin("DNS:a.test"), *rogue;
	EVP_PKEY *trusted = ca_key;

	(void)state;
	ca_key = key;	/* another one that calls itself the same */
	rogue = origin("DNS:a.test");
	ca_key = trusted;
	assert_int_equal(connect_to(server, "a.test"), FULL);
	assert_int_equal(connect_to(rogue, "a.test"), FAILED);
	SSL_CTX_free(server);
	SSL_CTX_free(rogue);
}

static void handshake_that_goes_wrong_takes_its_sites_sessions_with_it(void **state)
{
	SSL_CTX *server = origin("DNS:a.test,DNS:b.test"), *rogue = origin("DNS:rogue.test");

	(void)state;
	assert_int_equal(connect_to(server, "a.test"), FULL);
	assert_int_equal(connect_to(server, "b.test"), FULL);
	assert_int_equal(connect_to(rogue, "a.test"), FAILED);
	assert_int_equal(connect_to(server, "a.test"), FULL);
	assert_int_equal(connect_to(server, "b.test"), RESUMED);
	SSL_CTX_free(server);
	SSL_CTX_free(rogue);
}

static void session_of_a_connection_that_was_not_verified_is_not_kept(void **state)
{
	SSL_CTX *rogue = origin("DNS:rogue.test");
	const struct tls_site site = { STR("a.test"), false, 443, TLS_ALPN_H1 };

	(void)state;
	assert_int_equal(connect_as(rogue, &site, true, NULL), FULL);
	assert_int_equal(tls_sessions_count(all), 0);
	SSL_CTX_free(rogue);
}

/* ---- for how long ---- */

static void session_lives_its_time_and_not_longer(void **state)
{
	SSL_CTX *server = origin("DNS:a.test");

	(void)state;
	assert_int_equal(connect_to(server, "a.test"), FULL);
	clock_now += SESSION_LIFE_SECONDS - 1;
	assert_int_equal(connect_to(server, "a.test"), RESUMED);
	clock_now += 1;
	assert_int_equal(connect_to(server, "a.test"), FULL);
	SSL_CTX_free(server);
}

static void resuming_does_not_prolong_what_was_verified(void **state)
{
	SSL_CTX *server = origin("DNS:a.test");

	(void)state;
	assert_int_equal(connect_to(server, "a.test"), FULL);
	for (int i = 0; i < 6; i++) {
		clock_now += SESSION_LIFE_SECONDS / 6 - 1;
		assert_int_equal(connect_to(server, "a.test"), RESUMED);
	}
	clock_now += 6;
	assert_int_equal(connect_to(server, "a.test"), FULL);
	SSL_CTX_free(server);
}

static void session_ends_with_the_certificate(void **state)
{
	SSL_CTX *server = origin_until("DNS:a.test", 100);

	(void)state;
	assert_int_equal(connect_to(server, "a.test"), FULL);
	assert_int_equal(tls_sessions_count(all), 2);
	clock_now += 101;
	assert_int_equal(connect_to(server, "a.test"), FULL);
	SSL_CTX_free(server);
}

/* ---- limits ---- */

static void a_site_keeps_its_share_the_newest(void **state)
{
	SSL_CTX *server = origin("DNS:a.test");

	(void)state;
	SSL_CTX_set_num_tickets(server, SESSIONS_SITE_MAX + 3);
	assert_int_equal(connect_to(server, "a.test"), FULL);
	assert_int_equal(tls_sessions_count(all), SESSIONS_SITE_MAX);
	SSL_CTX_free(server);
}

static void past_the_limit_the_oldest_goes(void **state)
{
	SSL_CTX *server = origin("DNS:*.many.test");
	char name[32];

	(void)state;
	SSL_CTX_set_num_tickets(server, 1);
	for (int i = 0; i <= SESSIONS_MAX; i++) {
		snprintf(name, sizeof(name), "n%d.many.test", i);
		assert_int_equal(connect_to(server, name), FULL);
	}
	assert_int_equal(tls_sessions_count(all), SESSIONS_MAX);
	SSL_CTX_set_num_tickets(server, 0);
	assert_int_equal(connect_to(server, "n0.many.test"), FULL);
	assert_int_equal(connect_to(server, "n1.many.test"), RESUMED);
	assert_int_equal(connect_to(server, name), RESUMED);
	SSL_CTX_free(server);
}

static void dropped_sessions_are_not_resumed(void **state)
{
	SSL_CTX *server = origin("DNS:a.test");

	(void)state;
	tls_sessions_drop_all(all);
	assert_int_equal(connect_to(server, "a.test"), FULL);
	tls_sessions_drop_all(all);
	assert_int_equal(tls_sessions_count(all), 0);
	assert_int_equal(connect_to(server, "a.test"), FULL);
	assert_int_equal(connect_to(server, "a.test"), RESUMED);
	SSL_CTX_free(server);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(tls_1_3_session_is_resumed_and_knows_its_certificate),
		CASE(tls_1_2_session_is_resumed_and_knows_its_certificate),
		CASE(tls_1_3_session_is_used_once),
		CASE(tls_1_2_session_is_used_as_long_as_it_lives),
		CASE(session_is_for_the_same_site_only),
		CASE(origin_that_refuses_resumption_proves_its_name_again),
		CASE(rogue_that_is_offered_a_session_must_show_a_certificate_for_the_name),
		CASE(rogue_of_an_untrusted_authority_is_refused_whatever_it_is_offered),
		CASE(handshake_that_goes_wrong_takes_its_sites_sessions_with_it),
		CASE(session_of_a_connection_that_was_not_verified_is_not_kept),
		CASE(session_lives_its_time_and_not_longer),
		CASE(resuming_does_not_prolong_what_was_verified),
		CASE(session_ends_with_the_certificate),
		CASE(a_site_keeps_its_share_the_newest),
		CASE(past_the_limit_the_oldest_goes),
		CASE(dropped_sessions_are_not_resumed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
