#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proxy/socks5.h"

#define BYTES(text) str_n(text, sizeof(text) - 1)

/* Every shorter beginning of it wants more; what follows is left alone. */
static enum socks5_result greet(struct str whole, bool *no_auth, size_t *n)
{
	char more[300];

	for (size_t i = 0; i < whole.n; i++)
		assert_int_equal(socks5_greeting(str_n(whole.p, i), no_auth, n), SOCKS5_MORE);
	memcpy(more, whole.p, whole.n);
	memcpy(more + whole.n, "next", 4);
	return socks5_greeting(str_n(more, whole.n + 4), no_auth, n);
}

static void ask(struct str whole, struct socks5_request *r)
{
	char more[300];
	size_t n;

	for (size_t i = 0; i < whole.n; i++)
		assert_int_equal(socks5_request(str_n(whole.p, i), r, &n), SOCKS5_MORE);
	memcpy(more, whole.p, whole.n);
	memcpy(more + whole.n, "next", 4);
	assert_int_equal(socks5_request(str_n(more, whole.n + 4), r, &n), SOCKS5_DONE);
	assert_int_equal(n, whole.n);
}

static void a_greeting_says_whether_authentication_can_be_done_without(void **state)
{
	char all[257] = { 5, (char)255 };
	bool no_auth;
	size_t n;

	(void)state;
	assert_int_equal(greet(BYTES("\5\1\0"), &no_auth, &n), SOCKS5_DONE);
	assert_true(no_auth);
	assert_int_equal(n, 3);
	assert_int_equal(greet(BYTES("\5\3\2\1\0"), &no_auth, &n), SOCKS5_DONE);
	assert_true(no_auth);
	assert_int_equal(greet(BYTES("\5\2\1\2"), &no_auth, &n), SOCKS5_DONE);
	assert_false(no_auth);
	memset(all + 2, 2, sizeof(all) - 2);
	all[256] = 0;
	assert_int_equal(greet(str_n(all, sizeof(all)), &no_auth, &n), SOCKS5_DONE);
	assert_true(no_auth);
	assert_int_equal(n, 257);
}

static void what_is_no_greeting_is_bad(void **state)
{
	bool no_auth;
	size_t n;

	(void)state;
	assert_int_equal(socks5_greeting(BYTES("\4\1\0"), &no_auth, &n), SOCKS5_BAD);
	assert_int_equal(socks5_greeting(BYTES("\4"), &no_auth, &n), SOCKS5_BAD);
	assert_int_equal(socks5_greeting(BYTES("\5\0"), &no_auth, &n), SOCKS5_BAD);
}

static void a_request_names_an_address_or_a_name_and_a_port(void **state)
{
	struct socks5_request r;
	char text[ADDR_TEXT_MAX];

	(void)state;
	ask(BYTES("\5\1\0\1\313\0\161\12\1\273"), &r);
	assert_int_equal(r.command, SOCKS5_CONNECT);
	assert_string_equal(addr_format(&r.addr, text), "203.0.113.10");
	assert_int_equal(r.port, 443);
	ask(BYTES("\5\2\0\4\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\1\0\120"), &r);
	assert_int_equal(r.command, SOCKS5_BIND);
	assert_string_equal(addr_format(&r.addr, text), "2001:db8::1");
	assert_int_equal(r.port, 80);
	ask(BYTES("\5\1\0\3\10api.test\377\377"), &r);
	assert_int_equal(r.addr.family, 0);
	assert_true(str_eq(str_n(r.name, r.name_n), STR("api.test")));
	assert_int_equal(r.port, 65535);
}

static void the_longest_name_fits(void **state)
{
	char bytes[262] = { 5, 1, 0, 3, (char)255 };
	struct socks5_request r;

	(void)state;
	memset(bytes + 5, 'a', 255);
	ask(str_n(bytes, sizeof(bytes)), &r);
	assert_int_equal(r.name_n, 255);
}

static void what_is_no_request_is_bad(void **state)
{
	struct socks5_request r;
	size_t n;

	(void)state;
	assert_int_equal(socks5_request(BYTES("\4\1"), &r, &n), SOCKS5_BAD);
	assert_int_equal(socks5_request(BYTES("\5\1\1"), &r, &n), SOCKS5_BAD);
	assert_int_equal(socks5_request(BYTES("\5\1\0\3\0"), &r, &n), SOCKS5_BAD);
	assert_int_equal(socks5_request(BYTES("\5\1\0\2"), &r, &n), SOCKS5_BAD_ADDRESS);
}

static void answers_have_their_form(void **state)
{
	uint8_t method[SOCKS5_METHOD_LEN], reply[SOCKS5_REPLY_LEN], old[SOCKS4_REPLY_LEN];

	(void)state;
	socks5_put_method(SOCKS5_NO_METHOD, method);
	assert_memory_equal(method, "\5\377", 2);
	socks5_put_reply(SOCKS5_NOT_ALLOWED, reply);
	assert_memory_equal(reply, "\5\2\0\1\0\0\0\0\0\0", 10);
	socks4_put_reply(old);
	assert_memory_equal(old, "\0\133\0\0\0\0\0\0", 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_greeting_says_whether_authentication_can_be_done_without),
		cmocka_unit_test(what_is_no_greeting_is_bad),
		cmocka_unit_test(a_request_names_an_address_or_a_name_and_a_port),
		cmocka_unit_test(the_longest_name_fits),
		cmocka_unit_test(what_is_no_request_is_bad),
		cmocka_unit_test(answers_have_their_form),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
