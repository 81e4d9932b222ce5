#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <openssl/asn1.h>
#include <string.h>

#include "broker/der.h"

#define ROOM 80000

static char room[ROOM];
static struct der d;

static void assert_written(const char *bytes, size_t n)
{
	struct str got = der_str(&d);

	assert_false(d.failed);
	assert_int_equal(got.n, n);
	assert_memory_equal(got.p, bytes, n);
}

static void what_is_written_last_stands_first(void **state)
{
	(void)state;
	der_init(&d, room, ROOM);
	der_put(&d, STR("world"));
	der_put(&d, STR_NONE);
	der_put(&d, STR("hello "));
	assert_written("hello world", 11);
}

static void wrapping_takes_what_was_written_since_the_mark(void **state)
{
	size_t mark;

	(void)state;
	der_init(&d, room, ROOM);
	der_put(&d, STR("after"));
	mark = der_left(&d);
	der_value(&d, DER_UTF8_STRING, STR("b"));
	der_value(&d, DER_UTF8_STRING, STR("a"));
	der_wrap(&d, DER_SEQUENCE, mark);
	assert_written("\x30\x06\x0c\x01" "a\x0c\x01" "bafter", 13);
}

/* As OpenSSL does, on both sides of each joint. */
static void lengths_have_the_shortest_form(void **state)
{
	static const size_t lengths[] = { 0, 1, 127, 128, 255, 256, 65535 };
	static char value[65536];

	(void)state;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		ASN1_OCTET_STRING *s = ASN1_OCTET_STRING_new();
		unsigned char *der = NULL;
		int n;

		assert_true(ASN1_STRING_set(s, value, (int)lengths[i]));
		n = i2d_ASN1_OCTET_STRING(s, &der);
		assert_true(n > 0);
		der_init(&d, room, ROOM);
		der_value(&d, DER_OCTET_STRING, str_n(value, lengths[i]));
		assert_written((char *)der, (size_t)n);
		OPENSSL_free(der);
		ASN1_OCTET_STRING_free(s);
	}
}

static void value_that_is_too_long_fails(void **state)
{
	static char value[DER_VALUE_MAX + 1];

	(void)state;
	der_init(&d, room, ROOM);
	der_value(&d, DER_OCTET_STRING, str_n(value, sizeof(value)));
	assert_true(d.failed);
	assert_int_equal(der_str(&d).n, 0);
}

static void what_does_not_fit_fails_for_good(void **state)
{
	char small[4];

	(void)state;
	der_init(&d, small, sizeof(small));
	der_value(&d, DER_OCTET_STRING, STR("ab"));
	assert_written("\x04\x02" "ab", 4);
	der_put(&d, STR("c"));
	assert_true(d.failed);
	assert_int_equal(der_str(&d).n, 0);
	der_init(&d, small, sizeof(small));
	der_value(&d, DER_OCTET_STRING, STR("abc"));
	assert_true(d.failed);
}

static void a_time_is_in_the_form_of_its_century(void **state)
{
	(void)state;
	der_init(&d, room, ROOM);
	der_time(&d, 0);
	assert_written("\x17\x0d" "700101000000Z", 15);
	der_init(&d, room, ROOM);
	der_time(&d, 2524607999);
	assert_written("\x17\x0d" "491231235959Z", 15);
	der_init(&d, room, ROOM);
	der_time(&d, 2524608000);
	assert_written("\x18\x0f" "20500101000000Z", 17);
	der_init(&d, room, ROOM);
	der_time(&d, (time_t)1 << 40);
	assert_true(d.failed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_last_stands_first),
		cmocka_unit_test(wrapping_takes_what_was_written_since_the_mark),
		cmocka_unit_test(lengths_have_the_shortest_form),
		cmocka_unit_test(value_that_is_too_long_fails),
		cmocka_unit_test(what_does_not_fit_fails_for_good),
		cmocka_unit_test(a_time_is_in_the_form_of_its_century),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
