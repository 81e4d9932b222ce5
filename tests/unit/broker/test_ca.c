#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/params.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "broker/ca.h"

#define DER_MAX 8192

static char folder[] = "/tmp/exeat-test-ca-XXXXXX";
static EVP_PKEY *key;
static struct buf spki;
static struct ca *ca;

static void spki_of(EVP_PKEY *k, struct buf *out)
{
	unsigned char *der = NULL;
	int n = i2d_PUBKEY(k, &der);

	assert_true(n > 0);
	buf_init(out, DER_MAX);
	buf_put(out, der, (size_t)n);
	OPENSSL_free(der);
}

static X509 *certificate(struct str der)
{
	const unsigned char *p = (const unsigned char *)der.p;
	X509 *x = d2i_X509(NULL, &p, (long)der.n);

	assert_non_null(x);
	assert_ptr_equal(p, der.p + der.n);
	return x;
}

static X509 *leaf_for(struct str name)
{
	struct buf der;
	X509 *x;

	buf_init(&der, DER_MAX);
	assert_int_equal(ca_leaf(ca, name, buf_str(&spki), &der), OK);
	x = certificate(buf_str(&der));
	buf_free(&der);
	return x;
}

static X509 *ca_certificate(const struct ca *c)
{
	struct buf der;
	X509 *x;

	buf_init(&der, DER_MAX);
	assert_int_equal(ca_der(c, &der), OK);
	x = certificate(buf_str(&der));
	buf_free(&der);
	return x;
}

/* A host name of exactly @n bytes. */
static struct str name_of(size_t n, char out[256])
{
	static const char tail[] = ".example.test";
	size_t at = 0, left = n - (sizeof(tail) - 1);

	while (left > 0) {
		size_t label = left > 64 ? (left == 65 ? 62 : 63) : left;

		memset(out + at, 'a' + (char)(at % 26), label);
		at += label;
		left -= label;
		if (left) {
			out[at++] = '.';
			left--;
		}
	}
	memcpy(out + at, tail, sizeof(tail) - 1);
	return str_n(out, n);
}

/* ---- other people's eyes ---- */

static FILE *create(const char *file)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, file);
	f = fopen(path, "we");
	assert_non_null(f);
	return f;
}

static void write_all(struct str name)
{
	X509 *leaf = leaf_for(name), *issuer = ca_certificate(ca);
	FILE *f = create("leaf.pem");

	assert_int_equal(PEM_write_X509(f, leaf), 1);
	fclose(f);
	f = create("ca.pem");
	assert_int_equal(PEM_write_X509(f, issuer), 1);
	fclose(f);
	f = create("key.pem");
	assert_int_equal(PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL), 1);
	fclose(f);
	X509_free(leaf);
	X509_free(issuer);
}

static bool tool_is_there(const char *tool)
{
	char command[256];

	snprintf(command, sizeof(command), "command -v %s >/dev/null 2>&1", tool);
	return system(command) == 0;
}

/* For names around CN's limit, and addresses: @command's two places are the folder and the name. */
static void assert_accepted_by(const char *tool, const char *command_name, const char *command_address)
{
	static const size_t sizes[] = { 18, 63, 64, 65, 75, 128, 252, 253 };
	static const char *const literals[] = { "203.0.113.7", "2001:db8::7" };
	char text[256], command[4096];

	if (!tool_is_there(tool))
		skip();
	for (size_t i = 0; i < 10; i++) {
		bool literal = i >= 8;
		struct str name = literal ? str_of(literals[i - 8]) : name_of(sizes[i], text);

		write_all(name);
		snprintf(command, sizeof(command), literal ? command_address : command_name, folder,
			 STR_ARG(name));
		if (system(command) != 0)
			fail_msg("%s does not take \"%.*s\"", tool, STR_ARG(name));
	}
}

static void openssl_strict_takes_names_of_every_length(void **state)
{
	(void)state;
	assert_accepted_by("openssl",
			   "cd %s && openssl verify -x509_strict -purpose sslserver -CAfile ca.pem "
			   "-verify_hostname %.*s leaf.pem >out 2>&1 || { cat out; false; }",
			   "cd %s && openssl verify -x509_strict -purpose sslserver -CAfile ca.pem "
			   "-verify_ip %.*s leaf.pem >out 2>&1 || { cat out; false; }");
}

static void gnutls_takes_names_of_every_length(void **state)
{
	static const char verify[] =
		"cd %s && certtool --verify --load-ca-certificate ca.pem --infile leaf.pem "
		"--verify-purpose 1.3.6.1.5.5.7.3.1 --verify-hostname %.*s >out 2>&1 || { cat out; false; }";

	(void)state;
	assert_accepted_by("certtool", verify, verify);
}

static void python_strict_takes_names_of_every_length(void **state)
{
	static const char handshake[] =
		"cd %s && python3 -c \"\n"
		"import ssl\n"
		"name = '%.*s'\n"
		"server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\n"
		"server.load_cert_chain('leaf.pem', 'key.pem')\n"
		"client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)\n"
		"client.verify_flags |= ssl.VERIFY_X509_STRICT\n"
		"client.load_verify_locations('ca.pem')\n"
		"up, down = ssl.MemoryBIO(), ssl.MemoryBIO()\n"
		"s = server.wrap_bio(up, down, server_side=True)\n"
		"c = client.wrap_bio(down, up, server_hostname=name)\n"
		"done = set()\n"
		"while len(done) < 2:\n"
		"    for side in (c, s):\n"
		"        try:\n"
		"            side.do_handshake(); done.add(side)\n"
		"        except ssl.SSLWantReadError:\n"
		"            pass\n"
		"assert len(c.getpeercert()['subjectAltName']) == 1\n"
		"\" >out 2>&1 || { cat out; false; }";

	(void)state;
	assert_accepted_by("python3", handshake, handshake);
}

/* ---- the profile ---- */

static void assert_usage(X509 *x, uint32_t usage, bool critical)
{
	assert_int_equal(X509_get_key_usage(x), usage);
	assert_int_equal(X509_EXTENSION_get_critical(
				 X509_get_ext(x, X509_get_ext_by_NID(x, NID_key_usage, -1))),
			 critical);
}

static void the_ca_is_what_strict_clients_ask_for(void **state)
{
	X509 *x = ca_certificate(ca);
	int critical = 0;
	BASIC_CONSTRAINTS *basic = X509_get_ext_d2i(x, NID_basic_constraints, &critical, NULL);

	(void)state;
	assert_int_equal(X509_get_version(x), X509_VERSION_3);
	assert_non_null(basic);
	assert_int_equal(critical, 1);
	assert_true(basic->ca != 0);
	assert_int_equal(ASN1_INTEGER_get(basic->pathlen), 0);
	assert_usage(x, KU_KEY_CERT_SIGN | KU_CRL_SIGN, true);
	assert_non_null(X509_get0_subject_key_id(x));
	assert_int_equal(X509_get_signature_nid(x), NID_ecdsa_with_SHA256);
	assert_int_equal(X509_verify(x, X509_get0_pubkey(x)), 1);
	BASIC_CONSTRAINTS_free(basic);
	X509_free(x);
}

static void a_leaf_is_what_strict_clients_ask_for(void **state)
{
	X509 *x = leaf_for(STR("api.example.test")), *issuer = ca_certificate(ca);
	const ASN1_OCTET_STRING *aki;
	char group[32];
	size_t n;

	(void)state;
	assert_int_equal(X509_get_version(x), X509_VERSION_3);
	assert_usage(x, KU_DIGITAL_SIGNATURE, true);
	assert_int_equal(X509_get_extended_key_usage(x), XKU_SSL_SERVER);
	assert_non_null(X509_get0_subject_key_id(x));
	aki = X509_get0_authority_key_id(x);
	assert_non_null(aki);
	assert_int_equal(ASN1_OCTET_STRING_cmp(aki, X509_get0_subject_key_id(issuer)), 0);
	assert_int_equal(X509_get_signature_nid(x), NID_ecdsa_with_SHA256);
	assert_int_equal(EVP_PKEY_get_group_name(X509_get0_pubkey(x), group, sizeof(group), &n), 1);
	assert_string_equal(group, "prime256v1");
	assert_int_equal(EVP_PKEY_eq(X509_get0_pubkey(x), key), 1);
	assert_int_equal(X509_check_ca(x), 0);
	assert_int_equal(X509_verify(x, X509_get0_pubkey(issuer)), 1);
	X509_free(issuer);
	X509_free(x);
}

static void a_leaf_lives_at_most_397_days_from_an_hour_ago(void **state)
{
	X509 *x = leaf_for(STR("api.example.test"));
	int days, seconds;
	time_t now = time(NULL);

	(void)state;
	assert_int_equal(ASN1_TIME_diff(&days, &seconds, X509_get0_notBefore(x), X509_get0_notAfter(x)), 1);
	assert_true(days < 397);
	assert_int_equal(days, LEAF_DAYS);
	assert_int_equal(ASN1_TIME_diff(&days, &seconds, X509_get0_notBefore(x), NULL), 1);
	assert_int_equal(days, 0);
	assert_in_range(seconds, 3600, 3600 + 60);
	assert_int_equal(X509_cmp_time(X509_get0_notAfter(x), &now), 1);
	X509_free(x);
}

/* A CA of our own making, with a minute to live. */
static struct ca *ca_that_ends_soon(time_t ends)
{
	unsigned char priv[CA_KEY_BYTES], *der = NULL;
	OSSL_PARAM params[] = { OSSL_PARAM_construct_BN(OSSL_PKEY_PARAM_PRIV_KEY, priv, sizeof(priv)),
				OSSL_PARAM_construct_end() };
	EVP_PKEY *k = EVP_EC_gen("P-256");
	X509 *x = X509_new();
	X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, NULL, NID_basic_constraints, "critical,CA:TRUE");
	struct ca *c;
	X509V3_CTX ctx;
	int n;

	assert_true(EVP_PKEY_get_params(k, params) && X509_set_version(x, X509_VERSION_3));
	X509_add_ext(x, e, -1);
	X509_EXTENSION_free(e);
	X509_gmtime_adj(X509_getm_notBefore(x), -60);
	ASN1_TIME_set(X509_getm_notAfter(x), ends);
	X509_set_pubkey(x, k);
	X509V3_set_ctx(&ctx, x, x, NULL, NULL, 0);
	e = X509V3_EXT_conf_nid(NULL, &ctx, NID_subject_key_identifier, "hash");
	X509_add_ext(x, e, -1);
	X509_EXTENSION_free(e);
	assert_true(X509_sign(x, k, EVP_sha256()) > 0);
	n = i2d_X509(x, &der);
	assert_int_equal(ca_again(str_n((char *)der, (size_t)n), priv, &c), OK);
	OPENSSL_free(der);
	X509_free(x);
	EVP_PKEY_free(k);
	return c;
}

static void a_leaf_ends_no_later_than_its_ca(void **state)
{
	time_t ends = time(NULL) + 60;
	struct ca *c = ca_that_ends_soon(ends);
	struct buf der;
	X509 *x;

	(void)state;
	buf_init(&der, DER_MAX);
	assert_int_equal(ca_leaf(c, STR("api.example.test"), buf_str(&spki), &der), OK);
	x = certificate(buf_str(&der));
	assert_int_equal(ASN1_TIME_cmp_time_t(X509_get0_notAfter(x), ends), 0);
	X509_free(x);
	buf_free(&der);
	ca_free(c);
}

/* Two readers of one certificate agree where it has one encoding. */
static void a_leaf_is_encoded_as_openssl_encodes_what_it_reads(void **state)
{
	static const struct str names[] = { { "a.test", 6 }, { "192.0.2.7", 9 }, { "2001:db8::1", 11 } };
	char room[256];

	(void)state;
	for (size_t i = 0; i < 3 + 3; i++) {
		static const size_t lengths[] = { 64, 65, 253 };
		struct str name = i < 3 ? names[i] : name_of(lengths[i - 3], room);
		unsigned char *again = NULL;
		struct buf der;
		X509 *x, *copy;

		buf_init(&der, DER_MAX);
		assert_int_equal(ca_leaf(ca, name, buf_str(&spki), &der), OK);
		x = certificate(buf_str(&der));
		copy = X509_dup(x);
		assert_true(i2d_re_X509_tbs(copy, NULL) > 0);
		assert_int_equal(i2d_X509(copy, &again), der.n);
		assert_memory_equal(again, der.p, der.n);
		OPENSSL_free(again);
		X509_free(copy);
		X509_free(x);
		buf_free(&der);
	}
}

static void serials_are_positive_long_and_never_the_same(void **state)
{
	ASN1_INTEGER *seen[32];

	(void)state;
	for (size_t i = 0; i < 32; i++) {
		X509 *x = leaf_for(STR("api.example.test"));
		const ASN1_INTEGER *serial = X509_get0_serialNumber(x);
		BIGNUM *number = ASN1_INTEGER_to_BN(serial, NULL);

		assert_false(BN_is_negative(number));
		assert_int_equal(BN_num_bits(number), 127);
		assert_int_equal(ASN1_STRING_length(serial), 16);
		seen[i] = ASN1_INTEGER_dup(serial);
		for (size_t j = 0; j < i; j++)
			assert_int_not_equal(ASN1_INTEGER_cmp(seen[i], seen[j]), 0);
		BN_free(number);
		X509_free(x);
	}
	for (size_t i = 0; i < 32; i++)
		ASN1_INTEGER_free(seen[i]);
}

static void assert_san_exactly(struct str name, int type, const void *bytes, size_t n)
{
	X509 *x = leaf_for(name);
	int critical = 0;
	GENERAL_NAMES *names = X509_get_ext_d2i(x, NID_subject_alt_name, &critical, NULL);
	GENERAL_NAME *g;
	ASN1_STRING *value;
	int got;

	assert_non_null(names);
	assert_int_equal(sk_GENERAL_NAME_num(names), 1);
	g = sk_GENERAL_NAME_value(names, 0);
	value = GENERAL_NAME_get0_value(g, &got);
	assert_int_equal(got, type);
	assert_int_equal(ASN1_STRING_length(value), n);
	assert_memory_equal(ASN1_STRING_get0_data(value), bytes, n);
	assert_int_equal(critical, name.n > 64);
	assert_int_equal(X509_NAME_entry_count(X509_get_subject_name(x)), name.n > 64 ? 0 : 1);
	GENERAL_NAMES_free(names);
	X509_free(x);
}

static void the_san_is_exactly_the_one_name(void **state)
{
	static const size_t sizes[] = { 20, 64, 65, 75, 253 };
	char text[256];

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct str name = name_of(sizes[i], text);

		assert_san_exactly(name, GEN_DNS, name.p, name.n);
	}
	assert_san_exactly(STR("xn--bcher-kva.example"), GEN_DNS, "xn--bcher-kva.example", 21);
}

static void an_address_is_an_ip_san(void **state)
{
	static const unsigned char v6[16] = { 0x20, 0x01, 0x0d, 0xb8, [15] = 7 };

	(void)state;
	assert_san_exactly(STR("203.0.113.7"), GEN_IPADD, "\xcb\0\x71\7", 4);
	assert_san_exactly(STR("2001:db8::7"), GEN_IPADD, v6, 16);
}

static void a_name_that_is_not_canonical_is_refused(void **state)
{
	static const struct str bad[] = {
		{ "", 0 }, { "*.example.test", 14 }, { "*", 1 }, { "a.*.test", 8 },
		{ "API.example.test", 16 }, { "api.example.test.", 17 }, { ".", 1 },
		{ "a..test", 7 }, { "-a.test", 7 }, { "a-.test", 7 },
		{ "a,DNS:b.test", 12 }, { "a.test\0.evil.test", 17 }, { "a b.test", 8 },
		{ "a\n.test", 7 }, { "b\xc3\xbc" "cher.test", 13 }, { "DNS:a.test", 10 },
		{ "[2001:db8::7]", 13 }, { "2001:DB8::7", 11 }, { "2001:db8:0::7", 13 },
		{ "203.0.113.007", 13 }, { "203.0.113.7:443", 15 }, { "1.2.3", 5 },
		{ "0x7f.1", 6 }, { "2852039166", 10 }, { "a/b.test", 8 }, { "a@b.test", 8 },
	};
	char text[512];
	struct buf out;

	(void)state;
	buf_init(&out, DER_MAX);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (ca_leaf(ca, bad[i], buf_str(&spki), &out) != ERR_SYNTAX)
			fail_msg("\"%.*s\" was signed for", STR_ARG(bad[i]));
	memset(text, 'a', sizeof(text));
	for (size_t i = 63; i < sizeof(text); i += 64)
		text[i] = '.';
	assert_int_equal(ca_leaf(ca, str_n(text, 254), buf_str(&spki), &out), ERR_SYNTAX);
	assert_int_equal(ca_leaf(ca, str_n(text, 500), buf_str(&spki), &out), ERR_SYNTAX);
	memset(text, 'a', 64);
	assert_int_equal(ca_leaf(ca, str_n(text, 64), buf_str(&spki), &out), ERR_SYNTAX);
	assert_int_equal(out.n, 0);
	buf_free(&out);
}

static void assert_key_refused(struct str bytes)
{
	struct buf out;

	buf_init(&out, DER_MAX);
	assert_int_equal(ca_check_key(bytes), ERR_SYNTAX);
	assert_int_equal(ca_leaf(ca, STR("a.test"), bytes, &out), ERR_SYNTAX);
	assert_int_equal(out.n, 0);
	buf_free(&out);
}

static void a_key_that_is_no_p256_point_is_refused(void **state)
{
	EVP_PKEY *others[] = { EVP_EC_gen("P-384"), EVP_RSA_gen(2048), EVP_PKEY_Q_keygen(NULL, NULL, "ED25519") };
	char copy[128];

	(void)state;
	assert_int_equal(ca_check_key(buf_str(&spki)), OK);
	for (size_t i = 0; i < 3; i++) {
		struct buf other;

		spki_of(others[i], &other);
		assert_key_refused(buf_str(&other));
		buf_free(&other);
		EVP_PKEY_free(others[i]);
	}
	assert_int_equal(spki.n, 91);
	for (size_t n = 0; n < spki.n; n++)
		assert_key_refused(str_n(spki.p, n));
	memcpy(copy, spki.p, spki.n);
	copy[spki.n] = 0;
	assert_key_refused(str_n(copy, spki.n + 1));
	copy[spki.n - 1] ^= 1;	/* off the curve */
	assert_key_refused(str_n(copy, spki.n));
	for (size_t i = 0; i < 27; i++) {
		memcpy(copy, spki.p, spki.n);
		copy[i] ^= 1;
		assert_key_refused(str_n(copy, spki.n));
	}
}

static void each_ca_is_its_own(void **state)
{
	X509 *leaf = leaf_for(STR("api.example.test")), *x, *mine;
	struct ca *other = NULL;

	(void)state;
	assert_int_equal(ca_new(STR("box"), &other), OK);
	x = ca_certificate(other);
	mine = ca_certificate(ca);
	assert_int_equal(X509_verify(leaf, X509_get0_pubkey(x)), 0);
	assert_int_not_equal(X509_NAME_cmp(X509_get_subject_name(x), X509_get_subject_name(mine)), 0);
	X509_free(mine);
	X509_free(x);
	X509_free(leaf);
	ca_free(other);
	ca_free(NULL);
}

static void a_sandbox_may_be_called_anything(void **state)
{
	static const struct str names[] = { { "", 0 }, { "a/CN=evil", 9 }, { "\xff\0\n\x1b[31m", 8 },
		{ "0123456789012345678901234567890123456789012345678901234567890123", 64 } };

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		struct ca *c = NULL;
		char cn[128];
		X509 *x;
		int n;

		assert_int_equal(ca_new(names[i], &c), OK);
		x = ca_certificate(c);
		n = X509_NAME_get_text_by_NID(X509_get_subject_name(x), NID_commonName, cn, sizeof(cn));
		assert_in_range(n, 17, 64);
		for (int k = 0; k < n; k++)
			assert_non_null(strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					       "0123456789-._ ", cn[k]));
		X509_free(x);
		ca_free(c);
	}
}

static void pem_and_der_are_the_same_certificate(void **state)
{
	X509 *x = ca_certificate(ca), *y;
	struct buf pem;
	BIO *bio;

	(void)state;
	buf_init(&pem, DER_MAX);
	assert_int_equal(ca_pem(ca, &pem), OK);
	assert_true(str_starts(buf_str(&pem), STR("-----BEGIN CERTIFICATE-----\n")));
	bio = BIO_new_mem_buf(pem.p, (int)pem.n);
	y = PEM_read_bio_X509(bio, NULL, NULL, NULL);
	assert_non_null(y);
	assert_int_equal(X509_cmp(x, y), 0);
	BIO_free(bio);
	buf_free(&pem);
	X509_free(y);
	X509_free(x);
}

static void an_output_that_is_full_is_an_error(void **state)
{
	struct buf small;

	(void)state;
	buf_init(&small, 100);
	assert_int_equal(ca_der(ca, &small), ERR_NOMEM);
	buf_free(&small);
	buf_init(&small, 100);
	assert_int_equal(ca_pem(ca, &small), ERR_NOMEM);
	buf_free(&small);
	buf_init(&small, 100);
	assert_int_equal(ca_leaf(ca, STR("a.test"), buf_str(&spki), &small), ERR_NOMEM);
	buf_free(&small);
}

static void the_key_lies_in_the_secure_heap(void **state)
{
	size_t before = CRYPTO_secure_used();
	struct ca *c = NULL;

	(void)state;
	assert_true(before > 0);	/* the one of all these tests */
	assert_int_equal(ca_new(STR("box"), &c), OK);
	assert_true(CRYPTO_secure_used() > before);
	ca_free(c);
	assert_int_equal(CRYPTO_secure_used(), before);
}

static void so_does_the_key_of_a_ca_that_is_made_again(void **state)
{
	unsigned char bytes[CA_KEY_BYTES];
	struct ca *c = NULL;
	struct buf der;
	size_t before;

	(void)state;
	buf_init(&der, DER_MAX);
	assert_int_equal(ca_der(ca, &der), OK);
	assert_int_equal(ca_key(ca, bytes), OK);
	before = CRYPTO_secure_used();
	assert_int_equal(ca_again(buf_str(&der), bytes, &c), OK);
	assert_true(CRYPTO_secure_used() > before);
	ca_free(c);
	assert_int_equal(CRYPTO_secure_used(), before);
	buf_free(&der);
}

static void without_room_in_the_secure_heap_there_is_no_ca(void **state)
{
	void *all[4096];
	struct ca *c = NULL;
	size_t n = 0;

	(void)state;
	while (n < 4096 && (all[n] = OPENSSL_secure_malloc(64)) != NULL)
		n++;
	assert_true(n < 4096);
	assert_int_equal(ca_new(STR("box"), &c), ERR_CRYPTO);
	assert_null(c);
	while (n > 0)
		OPENSSL_secure_free(all[--n]);
	assert_int_equal(ca_new(STR("box"), &c), OK);
	ca_free(c);
}

static int set_up(void **state)
{
	(void)state;
	if (CRYPTO_secure_malloc_init(1u << 16, 64) == 0)
		return 1;
	key = EVP_EC_gen("P-256");
	spki_of(key, &spki);
	return mkdtemp(folder) && ca_new(STR("box"), &ca) == OK ? 0 : 1;
}

static int tear_down(void **state)
{
	static const char *const files[] = { "leaf.pem", "ca.pem", "key.pem", "out" };
	char path[256];

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, files[i]);
		unlink(path);
	}
	ca_free(ca);
	buf_free(&spki);
	EVP_PKEY_free(key);
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(openssl_strict_takes_names_of_every_length),
		cmocka_unit_test(gnutls_takes_names_of_every_length),
		cmocka_unit_test(python_strict_takes_names_of_every_length),
		cmocka_unit_test(the_ca_is_what_strict_clients_ask_for),
		cmocka_unit_test(a_leaf_is_what_strict_clients_ask_for),
		cmocka_unit_test(a_leaf_lives_at_most_397_days_from_an_hour_ago),
		cmocka_unit_test(a_leaf_ends_no_later_than_its_ca),
		cmocka_unit_test(a_leaf_is_encoded_as_openssl_encodes_what_it_reads),
		cmocka_unit_test(serials_are_positive_long_and_never_the_same),
		cmocka_unit_test(the_san_is_exactly_the_one_name),
		cmocka_unit_test(an_address_is_an_ip_san),
		cmocka_unit_test(a_name_that_is_not_canonical_is_refused),
		cmocka_unit_test(a_key_that_is_no_p256_point_is_refused),
		cmocka_unit_test(each_ca_is_its_own),
		cmocka_unit_test(a_sandbox_may_be_called_anything),
		cmocka_unit_test(pem_and_der_are_the_same_certificate),
		cmocka_unit_test(an_output_that_is_full_is_an_error),
		cmocka_unit_test(the_key_lies_in_the_secure_heap),
		cmocka_unit_test(so_does_the_key_of_a_ca_that_is_made_again),
		cmocka_unit_test(without_room_in_the_secure_heap_there_is_no_ca),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
