#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <openssl/ec.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/ca_seal.h"

#define DER_MAX 8192

static const struct seal_owner mine = { { "box", 3 }, 7 };
static struct seal_key *key;
static struct ca *ca;
static struct buf sealed;

static int pipe_of(const char *bytes, size_t n)
{
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(write(ends[1], bytes, n), n);
	close(ends[1]);
	return ends[0];
}

static enum err read_key(size_t n, char fill, struct seal_key **out)
{
	char bytes[SEAL_KEY_BYTES + 8];
	enum err e;
	int fd;

	memset(bytes, fill, sizeof(bytes));
	fd = pipe_of(bytes, n);
	e = seal_key_read(fd, out);
	close(fd);
	return e;
}

static int set_up(void **state)
{
	(void)state;
	buf_init(&sealed, DER_MAX);
	return read_key(SEAL_KEY_BYTES, 'k', &key) != OK || ca_new(STR("box"), &ca) != OK ||
	       ca_seal(ca, key, &mine, &sealed) != OK;
}

static int tear_down(void **state)
{
	(void)state;
	buf_free(&sealed);
	ca_free(ca);
	seal_key_free(key);
	return 0;
}

static void put_der(const struct ca *c, struct buf *out)
{
	buf_init(out, DER_MAX);
	assert_int_equal(ca_der(c, out), OK);
}

static X509 *certificate(struct str der)
{
	const unsigned char *p = (const unsigned char *)der.p;
	X509 *x = d2i_X509(NULL, &p, (long)der.n);

	assert_non_null(x);
	return x;
}

/* ---- opening ---- */

static void what_was_sealed_opens_as_the_same_certificate_and_key(void **state)
{
	EVP_PKEY *leaf_key = EVP_EC_gen("P-256");
	struct buf before, after, leaf;
	unsigned char *spki = NULL;
	int n = i2d_PUBKEY(leaf_key, &spki);
	struct ca *again;
	X509 *issuer, *x;

	(void)state;
	assert_int_equal(ca_unseal(buf_str(&sealed), key, &mine, &again), OK);
	put_der(ca, &before);
	put_der(again, &after);
	assert_true(str_eq(buf_str(&before), buf_str(&after)));
	buf_init(&leaf, DER_MAX);
	assert_int_equal(ca_leaf(again, STR("api.test"), str_n((char *)spki, (size_t)n), &leaf), OK);
	issuer = certificate(buf_str(&before));
	x = certificate(buf_str(&leaf));
	assert_int_equal(X509_verify(x, X509_get0_pubkey(issuer)), 1);
	X509_free(x);
	X509_free(issuer);
	ca_free(again);
	buf_free(&leaf);
	buf_free(&before);
	buf_free(&after);
	OPENSSL_free(spki);
	EVP_PKEY_free(leaf_key);
}

static void what_was_opened_can_be_sealed_and_opened_again(void **state)
{
	struct ca *one, *two;
	struct buf next;

	(void)state;
	buf_init(&next, DER_MAX);
	assert_int_equal(ca_unseal(buf_str(&sealed), key, &mine, &one), OK);
	assert_int_equal(ca_seal(one, key, &mine, &next), OK);
	assert_int_equal(ca_unseal(buf_str(&next), key, &mine, &two), OK);
	ca_free(one);
	ca_free(two);
	buf_free(&next);
}

static void for_another_name_or_number_it_does_not_open(void **state)
{
	const struct seal_owner others[] = { { STR("box"), 8 }, { STR("bo"), 7 }, { STR("boxx"), 7 },
					     { STR(""), 7 }, { STR("box"), 7u << 8 } };
	struct ca *out = NULL;

	(void)state;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_int_equal(ca_unseal(buf_str(&sealed), key, &others[i], &out), ERR_SYNTAX);
	assert_null(out);
}

static void under_another_key_it_does_not_open(void **state)
{
	struct seal_key *other;
	struct ca *out = NULL;

	(void)state;
	assert_int_equal(read_key(SEAL_KEY_BYTES, 'o', &other), OK);
	assert_int_equal(ca_unseal(buf_str(&sealed), other, &mine, &out), ERR_SYNTAX);
	seal_key_free(other);
}

static void with_any_bit_changed_it_does_not_open(void **state)
{
	struct ca *out = NULL;

	(void)state;
	for (size_t i = 0; i < sealed.n; i++) {
		sealed.p[i] = (char)(sealed.p[i] ^ (1 << (i % 8)));
		assert_int_equal(ca_unseal(buf_str(&sealed), key, &mine, &out), ERR_SYNTAX);
		sealed.p[i] = (char)(sealed.p[i] ^ (1 << (i % 8)));
	}
	assert_int_equal(ca_unseal(buf_str(&sealed), key, &mine, &out), OK);
	ca_free(out);
}

static void cut_or_lengthened_it_does_not_open(void **state)
{
	struct ca *out = NULL;
	struct buf longer;

	(void)state;
	for (size_t n = 0; n < sealed.n; n++)
		assert_int_equal(ca_unseal(str_n(sealed.p, n), key, &mine, &out), ERR_SYNTAX);
	buf_init(&longer, DER_MAX);
	buf_put_str(&longer, buf_str(&sealed));
	while (longer.n <= SEALED_MAX) {
		buf_put_c(&longer, '\0');
		assert_int_equal(ca_unseal(buf_str(&longer), key, &mine, &out), ERR_SYNTAX);
	}
	buf_free(&longer);
}

/* ---- what can be seen from outside ---- */

static void the_private_key_is_not_in_what_was_sealed(void **state)
{
	unsigned char bytes[CA_KEY_BYTES];
	struct buf der;

	(void)state;
	assert_int_equal(ca_key(ca, bytes), OK);
	assert_null(memmem(sealed.p, sealed.n, bytes, 8));
	put_der(ca, &der);
	assert_null(memmem(sealed.p, sealed.n, der.p + 8, 16));
	buf_free(&der);
}

static void no_two_sealings_are_alike(void **state)
{
	struct buf again;

	(void)state;
	buf_init(&again, DER_MAX);
	assert_int_equal(ca_seal(ca, key, &mine, &again), OK);
	assert_int_equal(again.n, sealed.n);
	assert_memory_not_equal(again.p + 1, sealed.p + 1, 12);
	assert_memory_not_equal(again.p + 13, sealed.p + 13, 32);
	buf_free(&again);
}

static void a_ca_of_the_longest_name_fits(void **state)
{
	static const char name[64] = { 'n' };
	const struct seal_owner owner = { str_n(name, sizeof(name)), UINT32_MAX };
	struct buf out;
	struct ca *c, *again;

	(void)state;
	buf_init(&out, SEALED_MAX);
	assert_int_equal(ca_new(owner.name, &c), OK);
	assert_int_equal(ca_seal(c, key, &owner, &out), OK);
	assert_int_equal(ca_unseal(buf_str(&out), key, &owner, &again), OK);
	ca_free(c);
	ca_free(again);
	buf_free(&out);
}

/* ---- the parts ---- */

static void a_key_of_another_certificate_is_no_pair(void **state)
{
	unsigned char bytes[CA_KEY_BYTES];
	struct ca *other, *out = NULL;
	struct buf der;

	(void)state;
	assert_int_equal(ca_new(STR("other"), &other), OK);
	assert_int_equal(ca_key(other, bytes), OK);
	put_der(ca, &der);
	assert_int_equal(ca_again(buf_str(&der), bytes, &out), ERR_SYNTAX);
	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(ca_again(buf_str(&der), bytes, &out), ERR_SYNTAX);
	assert_null(out);
	ca_free(other);
	buf_free(&der);
}

static void what_is_no_certificate_is_no_ca(void **state)
{
	unsigned char bytes[CA_KEY_BYTES];
	struct ca *out = NULL;
	struct buf der;

	(void)state;
	assert_int_equal(ca_key(ca, bytes), OK);
	put_der(ca, &der);
	assert_int_equal(ca_again(STR("no certificate"), bytes, &out), ERR_SYNTAX);
	assert_int_equal(ca_again(str_n(der.p, der.n - 1), bytes, &out), ERR_SYNTAX);
	buf_put_c(&der, '\0');
	assert_int_equal(ca_again(buf_str(&der), bytes, &out), ERR_SYNTAX);
	buf_free(&der);
}

/* ---- the key's pipe ---- */

static void a_pipe_that_holds_less_or_more_than_a_key_is_none(void **state)
{
	struct seal_key *k = NULL;

	(void)state;
	assert_int_equal(read_key(0, 'k', &k), ERR_SYNTAX);
	assert_int_equal(read_key(SEAL_KEY_BYTES - 1, 'k', &k), ERR_SYNTAX);
	assert_int_equal(read_key(SEAL_KEY_BYTES + 1, 'k', &k), ERR_SYNTAX);
	assert_int_equal(seal_key_read(-1, &k), ERR_SYSTEM);
	assert_null(k);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(what_was_sealed_opens_as_the_same_certificate_and_key),
		CASE(what_was_opened_can_be_sealed_and_opened_again),
		CASE(for_another_name_or_number_it_does_not_open),
		CASE(under_another_key_it_does_not_open),
		CASE(with_any_bit_changed_it_does_not_open),
		CASE(cut_or_lengthened_it_does_not_open),
		CASE(the_private_key_is_not_in_what_was_sealed),
		CASE(no_two_sealings_are_alike),
		CASE(a_ca_of_the_longest_name_fits),
		CASE(a_key_of_another_certificate_is_no_pair),
		CASE(what_is_no_certificate_is_no_ca),
		CASE(a_pipe_that_holds_less_or_more_than_a_key_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
