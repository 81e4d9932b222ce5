#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "policy/name.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void assert_canon(struct str text, const char *expected)
{
	struct name name;

	assert_int_equal(name_canon(text, &name), NAME_OK);
	assert_string_equal(name.s, expected);
	assert_int_equal(name.n, strlen(expected));
}

static void assert_refused(struct str text, enum name_result expected)
{
	struct name name = { .n = 1, .s = "x" };

	assert_int_equal(name_canon(text, &name), expected);
	/* Untouched. */
	assert_int_equal(name.n, 1);
	assert_string_equal(name.s, "x");
}

/* F01 */
static void case_and_the_final_dot_are_no_difference(void **state)
{
	(void)state;
	assert_canon(STR("API.Test"), "api.test");
	assert_canon(STR("api.test."), "api.test");
	assert_canon(STR("BAD.api.TEST."), "bad.api.test");
	assert_canon(STR("XN--bcher-KVA.test"), "xn--bcher-kva.test");
	assert_canon(STR("_acme-challenge.api.test"), "_acme-challenge.api.test");
	assert_canon(STR("localhost"), "localhost");
	assert_canon(STR("1.2.3.4a"), "1.2.3.4a");
	assert_canon(STR("0xg"), "0xg");
}

static void empty_labels_and_hyphens_at_an_edge_are_refused(void **state)
{
	(void)state;
	assert_refused(STR(""), NAME_EMPTY);
	assert_refused(STR_NONE, NAME_EMPTY);
	assert_refused(STR("."), NAME_LABEL);
	assert_refused(STR(".."), NAME_LABEL);
	assert_refused(STR("a..b"), NAME_LABEL);
	assert_refused(STR(".a"), NAME_LABEL);
	assert_refused(STR("a.test.."), NAME_LABEL);
	assert_refused(STR("-a.test"), NAME_LABEL);
	assert_refused(STR("a-.test"), NAME_LABEL);
}

/* F11 */
static void bytes_that_no_host_has_are_refused(void **state)
{
	static const struct {
		const char *p;
		size_t n;
	} bad[] = { { "evil.test\0.allowed.test", 23 }, { "a\tb.test", 8 }, { "a b.test", 8 },
		    { "a%00.test", 9 }, { "a%2etest", 8 }, { "u@a.test", 8 }, { "a.test#b", 8 },
		    { "a\\b.test", 8 }, { "a/b", 3 }, { "*.test", 6 }, { "a.test:80", 9 }, { "[a]", 3 },
		    { "fe80::1%eth0", 12 }, { "[::1", 4 }, { "[127.0.0.1]", 11 }, { "a.test\n", 7 } };
	static const char hex[] = "!\"#$%&'()*+,/:;<=>?@[\\]^`{|}~\x7f";

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++)
		assert_refused(str_n(bad[i].p, bad[i].n), NAME_BYTE);
	for (size_t i = 0; i < sizeof(hex) - 1; i++)
		assert_refused(str_n(&hex[i], 1), NAME_BYTE);
	/* A Kelvin sign folds to 'k' for some. */
	assert_refused(STR("\xe2\x84\xaa" "elvin.test"), NAME_UNICODE);
	assert_refused(STR("b\xc3\xbc" "cher.test"), NAME_UNICODE);
}

/* F11 */
static void lengths_are_held_to_the_byte(void **state)
{
	char text[NAME_MAX_LEN + 2], longest[NAME_MAX_LEN + 1];
	struct name name;

	(void)state;
	memset(text, 'a', sizeof(text));
	assert_int_equal(name_canon(str_n(text, 63), &name), NAME_OK);
	assert_refused(str_n(text, 64), NAME_LONG);
	for (size_t i = 49; i < sizeof(text); i += 50)
		text[i] = '.';
	memcpy(longest, text, NAME_MAX_LEN);
	longest[NAME_MAX_LEN] = '\0';
	assert_canon(str_n(text, NAME_MAX_LEN), longest);
	assert_refused(str_n(text, NAME_MAX_LEN + 1), NAME_LONG);
	/* The final dot does not count. */
	text[NAME_MAX_LEN] = '.';
	assert_canon(str_n(text, NAME_MAX_LEN + 1), longest);
}

/* F23 */
static void number_forms_of_addresses_are_refused(void **state)
{
	static const char *const numbers[] = { "2852039166", "0xA9FEA9FE", "0251.0376.0251.0376",
					       "169.254.43518", "127.1", "0", "0x7f.1", "1.2.3.4.",
					       "a.0x", "256.1.1.1", "1.2.3.4.5", "01.2.3.4", "a.1" };

	(void)state;
	for (size_t i = 0; i < COUNT(numbers); i++)
		assert_refused(str_of(numbers[i]), NAME_NUMERIC);
}

static void plain_literals_are_told_apart(void **state)
{
	(void)state;
	assert_refused(STR("127.0.0.1"), NAME_LITERAL);
	assert_refused(STR("2001:db8::1"), NAME_LITERAL);
	assert_refused(STR("[2001:DB8::1]"), NAME_LITERAL);
	assert_refused(STR("::ffff:1.2.3.4"), NAME_LITERAL);
}

static void every_result_has_its_text(void **state)
{
	(void)state;
	for (enum name_result r = NAME_OK; r <= NAME_PORT; r++) {
		assert_true(strlen(name_result_text(r)) > 8);
		for (enum name_result other = NAME_OK; other < r; other++)
			assert_string_not_equal(name_result_text(r), name_result_text(other));
	}
}

static void the_parent_is_what_follows_the_first_label(void **state)
{
	(void)state;
	assert_true(str_eq(name_parent(STR("a.b.c")), STR("b.c")));
	assert_int_equal(name_parent(STR("c")).n, 0);
	assert_int_equal(name_parent(STR_NONE).n, 0);
}

static void special_use_domains_are_known_by_whole_labels(void **state)
{
	static const char *const special[] = { "localhost", "a.localhost", "printer.local",
					       "x.home.arpa", "a.b.internal", "a.alt", "b.onion",
					       "c.invalid" };
	static const char *const plain[] = { "api.test", "notlocal", "local.test", "xhome.arpa",
					     "internal.example", "" };

	(void)state;
	for (size_t i = 0; i < COUNT(special); i++)
		assert_true(name_is_special_use(str_of(special[i])));
	for (size_t i = 0; i < COUNT(plain); i++)
		assert_false(name_is_special_use(str_of(plain[i])));
}

static void assert_splits(const char *text, const char *host, uint16_t port)
{
	struct str h = STR_NONE;
	uint16_t p = 9;

	assert_int_equal(name_split_authority(str_of(text), &h, &p), NAME_OK);
	assert_true(str_eq(h, str_of(host)));
	assert_int_equal(p, port);
}

static void authorities_split_into_host_and_port(void **state)
{
	(void)state;
	assert_splits("api.test", "api.test", 0);
	assert_splits("api.test:8443", "api.test", 8443);
	assert_splits("127.0.0.1:1", "127.0.0.1", 1);
	assert_splits("[2001:db8::1]:65535", "2001:db8::1", 65535);
	assert_splits("[::1]", "::1", 0);
}

static void malformed_authorities_are_refused(void **state)
{
	static const struct {
		const char *text;
		enum name_result result;
	} bad[] = { { "", NAME_EMPTY }, { ":80", NAME_EMPTY }, { "a:", NAME_PORT }, { "a:0", NAME_PORT },
		    { "a:65536", NAME_PORT }, { "a:080808", NAME_PORT }, { "a:8o", NAME_PORT },
		    { "a:+80", NAME_PORT }, { "a:80:80", NAME_PORT }, { "u@a:80", NAME_BYTE },
		    { "u:p@a:80", NAME_BYTE }, { "[a]:80", NAME_BYTE }, { "[::1", NAME_BYTE },
		    { "[::1]80", NAME_BYTE }, { "[1.2.3.4]:80", NAME_BYTE }, { "::1", NAME_PORT },
		    { "2001:db8::1", NAME_PORT }, { "[]", NAME_BYTE } };

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++) {
		struct str host = STR("untouched");
		uint16_t port = 7;

		assert_int_equal(name_split_authority(str_of(bad[i].text), &host, &port), bad[i].result);
		assert_true(str_eq(host, STR("untouched")));
		assert_int_equal(port, 7);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(case_and_the_final_dot_are_no_difference),
		cmocka_unit_test(empty_labels_and_hyphens_at_an_edge_are_refused),
		cmocka_unit_test(bytes_that_no_host_has_are_refused),
		cmocka_unit_test(lengths_are_held_to_the_byte),
		cmocka_unit_test(number_forms_of_addresses_are_refused),
		cmocka_unit_test(plain_literals_are_told_apart),
		cmocka_unit_test(every_result_has_its_text),
		cmocka_unit_test(the_parent_is_what_follows_the_first_label),
		cmocka_unit_test(special_use_domains_are_known_by_whole_labels),
		cmocka_unit_test(authorities_split_into_host_and_port),
		cmocka_unit_test(malformed_authorities_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
