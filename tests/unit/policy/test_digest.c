#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "conf/hex.h"
#include "policy/digest.h"

/* FIPS 180-4, examples */
static void the_standards_examples_come_out(void **state)
{
	uint8_t digest[DIGEST_BYTES];
	char hex[DIGEST_HEX + 1];

	(void)state;
	assert_true(digest_sha256("abc", 3, digest));
	hex_text(digest, DIGEST_BYTES, hex);
	assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	assert_true(digest_sha256("", 0, digest));
	hex_text(digest, DIGEST_BYTES, hex);
	assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_standards_examples_come_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
