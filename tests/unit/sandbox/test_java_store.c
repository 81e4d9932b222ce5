#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sandbox/java_store.h"

#define ONE "-----BEGIN CERTIFICATE-----\nZXhl\nYXQ=\n-----END CERTIFICATE-----\n"
#define HEAD 12
#define DIGEST 20

static void store_holds_each_certificate_decoded(void **state)
{
	static const uint8_t entry[] = { 0, 0, 0, 2, 0, 6, 'r', 'o', 'o', 't', '-', '0', 0, 0, 0, 0, 0, 0, 0, 0,
					 0, 5, 'X', '.', '5', '0', '9', 0, 0, 0, 5, 'e', 'x', 'e', 'a', 't' };
	struct buf b;

	(void)state;
	buf_init(&b, JAVA_STORE_MAX);
	assert_int_equal(java_store_write(STR("# a comment\n" ONE), &b), OK);
	assert_int_equal(b.n, HEAD + sizeof(entry) + DIGEST);
	assert_memory_equal(b.p, "\xfe\xed\xfe\xed\0\0\0\2\0\0\0\1", HEAD);
	assert_memory_equal(b.p + HEAD, entry, sizeof(entry));
	buf_free(&b);
}

static void several_certificates_are_counted(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, JAVA_STORE_MAX);
	assert_int_equal(java_store_write(STR(ONE "between\n" ONE ONE), &b), OK);
	assert_memory_equal(b.p + 8, "\0\0\0\3", 4);
	buf_free(&b);
}

/* The digest as the keytool program writes it for a store without entries. */
static void empty_store_is_the_one_that_java_writes(void **state)
{
	static const uint8_t empty[] = {
		0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2, 0, 0, 0, 0,
		0xe2, 0x68, 0x6e, 0x45, 0xfb, 0x43, 0xdf, 0xa4, 0xd9, 0x92,
		0xdd, 0x41, 0xce, 0xb6, 0xb2, 0x1c, 0x63, 0x30, 0xd7, 0x92,
	};
	struct buf b;

	(void)state;
	buf_init(&b, JAVA_STORE_MAX);
	assert_int_equal(java_store_write(STR("no certificate"), &b), OK);
	assert_int_equal(b.n, sizeof(empty));
	assert_memory_equal(b.p, empty, HEAD);
	assert_memory_equal(b.p + HEAD, empty + HEAD, DIGEST);
	buf_free(&b);
}

static void certificate_without_its_end_is_no_certificate(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, JAVA_STORE_MAX);
	assert_int_equal(java_store_write(STR(ONE "-----BEGIN CERTIFICATE-----\nZXhl\n"), &b), OK);
	assert_memory_equal(b.p + 8, "\0\0\0\1", 4);
	buf_free(&b);
}

static void store_over_the_limit_fails(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 40);
	assert_int_equal(java_store_write(STR(ONE), &b), ERR_LIMIT);
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(store_holds_each_certificate_decoded),
		cmocka_unit_test(several_certificates_are_counted),
		cmocka_unit_test(empty_store_is_the_one_that_java_writes),
		cmocka_unit_test(certificate_without_its_end_is_no_certificate),
		cmocka_unit_test(store_over_the_limit_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
