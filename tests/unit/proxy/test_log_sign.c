#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/log_sign.h"

/* RFC 8410, 10.3 and 10.1: the example key. */
#define PRIVATE "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n" \
		"-----END PRIVATE KEY-----\n"
#define PUBLIC "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n" \
	       "-----END PUBLIC KEY-----\n"
#define P256 "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEaxfR8uEsQkf4vOblY6RA8ncDfYEt\n" \
	     "6zOg9KE5RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q==\n-----END PUBLIC KEY-----\n"
#define PREV "00000000000000000000000000000000000000000000000000000000000000ff"
#define OTHER "00000000000000000000000000000000000000000000000000000000000000fe"

static int file_with(const char *text)
{
	int fd = memfd_create("key", MFD_CLOEXEC);

	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	return fd;
}

static enum err open_keys(const char *text, struct log_keys **keys)
{
	int fd = file_with(text);
	char path[32];
	enum err e;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	e = log_keys_open(path, keys);
	close(fd);
	return e;
}

static void a_signature_holds_for_its_line_and_no_other(void **state)
{
	char signature[LOG_SIGNATURE_HEX + 1];
	struct log_signer *s;
	struct log_keys *keys;
	struct str id;

	(void)state;
	assert_int_equal(log_signer_open(file_with(PRIVATE), &s), OK);
	assert_int_equal(open_keys(PUBLIC, &keys), OK);
	assert_int_equal(log_sign(s, 1000, PREV, signature), OK);
	id = str_of(log_signer_id(s));
	assert_int_equal(id.n, LOG_KEY_ID_HEX);
#define CHECK(seq, prev) log_signature_check(keys, id, str_of(signature), seq, STR(prev))
	assert_int_equal(CHECK(1000, PREV), LOG_SIGNATURE_GOOD);
	assert_int_equal(CHECK(1001, PREV), LOG_SIGNATURE_BAD);
	assert_int_equal(CHECK(100, PREV), LOG_SIGNATURE_BAD);
	assert_int_equal(CHECK(1000, OTHER), LOG_SIGNATURE_BAD);
	for (size_t i = 0; i < LOG_SIGNATURE_HEX; i++) {
		char was = signature[i];

		signature[i] = was == '0' ? '1' : '0';
		assert_int_equal(CHECK(1000, PREV), LOG_SIGNATURE_BAD);
		signature[i] = was;
	}
	signature[5] = 'g';
	assert_int_equal(CHECK(1000, PREV), LOG_SIGNATURE_BAD);
	signature[5] = '\0';
	assert_int_equal(CHECK(1000, PREV), LOG_SIGNATURE_BAD);
	assert_int_equal(log_signature_check(keys, STR("0123456789abcdef"), STR_NONE, 1, STR(PREV)),
			 LOG_SIGNATURE_OF_ANOTHER);
	log_keys_close(keys);
	log_signer_close(s);
}

static void a_file_may_have_several_keys(void **state)
{
	struct log_keys *keys;

	(void)state;
	assert_int_equal(open_keys("# of last year\n" PUBLIC "\n" PUBLIC, &keys), OK);
	log_keys_close(keys);
}

static void what_is_no_ed25519_key_is_refused(void **state)
{
	struct log_signer *s;
	struct log_keys *keys;
	char big[LOG_KEY_FILE_MAX + 2];

	(void)state;
	assert_int_equal(open_keys("", &keys), ERR_SYNTAX);
	assert_int_equal(open_keys("hello\n", &keys), ERR_SYNTAX);
	assert_int_equal(open_keys(P256, &keys), ERR_SYNTAX);
	assert_int_equal(log_keys_open("/no/such", &keys), ERR_SYSTEM);
	assert_int_equal(log_signer_open(file_with(""), &s), ERR_SYNTAX);
	assert_int_equal(log_signer_open(file_with(PUBLIC), &s), ERR_SYNTAX);
	memset(big, 'x', sizeof(big));
	big[sizeof(big) - 1] = '\0';
	assert_int_equal(log_signer_open(file_with(big), &s), ERR_LIMIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_signature_holds_for_its_line_and_no_other),
		cmocka_unit_test(a_file_may_have_several_keys),
		cmocka_unit_test(what_is_no_ed25519_key_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
