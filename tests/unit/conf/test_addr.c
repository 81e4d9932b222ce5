#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "conf/addr.h"

static struct addr must(const char *text)
{
	struct addr a = { 0 };

	assert_true(addr_parse(str_of(text), &a));
	return a;
}

static void addresses_are_read_and_written(void **state)
{
	static const char *const pairs[][2] = {
		{ "192.0.2.1", "192.0.2.1" }, { "0.0.0.0", "0.0.0.0" }, { "255.255.255.255", "255.255.255.255" },
		{ "::", "::" }, { "2001:DB8:0:0:0:0:0:1", "2001:db8::1" }, { "::ffff:192.0.2.1", "::ffff:192.0.2.1" },
	};
	char out[ADDR_TEXT_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		struct addr a = must(pairs[i][0]);

		assert_string_equal(addr_format(&a, out), pairs[i][1]);
	}
	assert_string_equal(addr_format(&(struct addr){ 0 }, out), "none");
}

static void what_servers_read_in_two_ways_is_no_address(void **state)
{
	static const char *const bad[] = {
		"", "127.1", "0177.0.0.1", "0x7f.0.0.1", "2130706433", "127.0.0.01", "1.2.3.4.", "1.2.3", " 1.2.3.4",
		"1.2.3.4 ", "256.0.0.1", "[::1]", "::1%eth0", "fe80::1%1", ":::", "1::2::3", "12345::", "localhost",
	};
	struct addr a = { .family = 9 };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(addr_parse(str_of(bad[i]), &a));
	assert_false(addr_parse(STR("1.2.3.4\0"), &a));
	assert_false(addr_parse(STR("1111:1111:1111:1111:1111:1111:1111:1111:1111:1111:1111:1111"), &a));
	assert_int_equal(a.family, 9);
}

static void families_are_not_equal(void **state)
{
	struct addr a = must("0.0.0.0"), b = must("::"), c = must("0.0.0.0");

	(void)state;
	assert_false(addr_eq(&a, &b));
	assert_true(addr_eq(&a, &c));
}

static void ranges_hold_at_every_length(void **state)
{
	struct addr last = must("255.255.255.255"), v6 = must("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");

	(void)state;
	for (uint8_t bits = 0; bits <= 32; bits++) {
		struct addr_range r = { .net = last, .bits = bits };
		struct addr a = last;

		assert_true(addr_in_range(&last, &r));
		if (bits == 0)
			continue;
		/* The last bit of the mask counts, the first behind it does not. */
		a.b[(bits - 1) / 8] ^= (uint8_t)(0x80 >> ((bits - 1) % 8));
		assert_false(addr_in_range(&a, &r));
		a = last;
		if (bits < 32)
			a.b[bits / 8] ^= (uint8_t)(0x80 >> (bits % 8));
		assert_true(addr_in_range(&a, &r));
	}
	for (unsigned bits = 1; bits <= 128; bits++) {
		struct addr_range r = { .net = v6, .bits = (uint8_t)bits };
		struct addr a = v6;

		a.b[(bits - 1) / 8] ^= (uint8_t)(0x80 >> ((bits - 1) % 8));
		assert_false(addr_in_range(&a, &r));
		assert_true(addr_in_range(&v6, &r));
	}
}

static void ranges_are_read(void **state)
{
	struct addr_range r;
	struct addr in = must("10.1.2.3"), v6 = must("::a01:203");

	(void)state;
	assert_true(addr_range_parse(STR("10.0.0.0/8"), &r));
	assert_int_equal(r.bits, 8);
	assert_true(addr_in_range(&in, &r));
	assert_false(addr_in_range(&v6, &r));
	assert_true(addr_range_parse(STR("10.1.2.3"), &r));
	assert_int_equal(r.bits, 32);
	assert_true(addr_range_parse(STR("0.0.0.0/0"), &r));
	assert_true(addr_in_range(&in, &r));
	assert_true(addr_range_parse(STR("2001:db8::/32"), &r));
	assert_true(addr_range_parse(STR("::1"), &r));
	assert_int_equal(r.bits, 128);
}

static void ranges_with_host_bits_or_bad_lengths_are_refused(void **state)
{
	static const char *const bad[] = {
		"10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/8/8", "/8", "::1/64",
		"2001:db8::/129", "10.0.0.0/255.0.0.0", "10.0.0.0 /8", "128.0.0.0/0", "",
	};
	struct addr_range r = { .bits = 77 };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(addr_range_parse(str_of(bad[i]), &r));
	assert_int_equal(r.bits, 77);
}

static void ports_are_read_with_their_address(void **state)
{
	struct addr a, v4 = must("192.0.2.1"), v6 = must("2001:db8::1");
	uint16_t port;

	(void)state;
	assert_true(addr_port_parse(STR("192.0.2.1:5353"), 53, &a, &port) && port == 5353 && addr_eq(&a, &v4));
	assert_true(addr_port_parse(STR("192.0.2.1"), 53, &a, &port) && port == 53 && addr_eq(&a, &v4));
	assert_true(addr_port_parse(STR("[2001:db8::1]:1"), 53, &a, &port) && port == 1 && addr_eq(&a, &v6));
	assert_true(addr_port_parse(STR("[2001:db8::1]"), 53, &a, &port) && port == 53 && addr_eq(&a, &v6));
	assert_true(addr_port_parse(STR("2001:db8::1"), 53, &a, &port) && port == 53 && addr_eq(&a, &v6));
	assert_true(addr_port_parse(STR("192.0.2.1:65535"), 53, &a, &port) && port == 65535);
}

static void bad_ports_are_refused_and_leave_all_alone(void **state)
{
	static const char *const bad[] = {
		"192.0.2.1:0", "192.0.2.1:65536", "192.0.2.1:", "192.0.2.1:x", "192.0.2.1:1:2", "[::1", "[::1]x",
		"[::1]:", "[::1]:0", "[]:53", ":53", "", "host:53", "[192.0.2.1", "192.0.2.1: 53",
	};
	struct addr a = { .family = 9 };
	uint16_t port = 9;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(addr_port_parse(str_of(bad[i]), 53, &a, &port));
	assert_int_equal(a.family, 9);
	assert_int_equal(port, 9);
}

static void the_kernels_form_comes_back(void **state)
{
	static const char *const texts[] = { "192.0.2.1", "2001:db8::1" };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct addr a = must(texts[i]), b;
		struct sockaddr_storage sa;
		uint16_t port;

		assert_true(addr_to_sockaddr(&a, 443, &sa) > 0);
		assert_true(addr_from_sockaddr((struct sockaddr *)&sa, &b, &port));
		assert_true(addr_eq(&a, &b));
		assert_int_equal(port, 443);
	}
	assert_false(addr_from_sockaddr(&(struct sockaddr){ .sa_family = AF_UNIX }, &(struct addr){ 0 },
					&(uint16_t){ 0 }));
}

static void numbers_of_the_host_go_both_ways(void **state)
{
	struct addr a = addr_v4(0xc6120007), b = must("198.18.0.7");

	(void)state;
	assert_true(addr_eq(&a, &b));
	assert_true(addr_to_v4(&b) == 0xc6120007);
}

static void the_messages_form_comes_back(void **state)
{
	static const char *const texts[] = { "203.0.113.7", "2001:db8::7" };
	char packed[ADDR_PACKED + 1] = { 0 };
	struct addr a, b;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		assert_true(addr_parse(str_of(texts[i]), &a));
		assert_int_equal(addr_len(&a), i ? 16 : 4);
		addr_pack(&a, packed);
		assert_true(addr_unpack(str_n(packed, ADDR_PACKED), &b));
		assert_memory_equal(&a, &b, sizeof(a));
		assert_false(addr_unpack(str_n(packed, ADDR_PACKED - 1), &b));
		assert_false(addr_unpack(str_n(packed, ADDR_PACKED + 1), &b));
	}
	addr_pack(&(struct addr){ 0 }, packed);
	assert_false(addr_unpack(str_n(packed, ADDR_PACKED), &b));
	packed[0] = 5;
	assert_false(addr_unpack(str_n(packed, ADDR_PACKED), &b));
	/* What stands behind the four bytes does not count. */
	memset(packed, 0x7f, sizeof(packed));
	packed[0] = 4;
	assert_true(addr_unpack(str_n(packed, ADDR_PACKED), &a));
	assert_int_equal(a.b[3], 0x7f);
	assert_int_equal(a.b[4], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_are_read_and_written),
		cmocka_unit_test(what_servers_read_in_two_ways_is_no_address),
		cmocka_unit_test(families_are_not_equal),
		cmocka_unit_test(ranges_hold_at_every_length),
		cmocka_unit_test(ranges_are_read),
		cmocka_unit_test(ranges_with_host_bits_or_bad_lengths_are_refused),
		cmocka_unit_test(ports_are_read_with_their_address),
		cmocka_unit_test(bad_ports_are_refused_and_leave_all_alone),
		cmocka_unit_test(the_kernels_form_comes_back),
		cmocka_unit_test(numbers_of_the_host_go_both_ways),
		cmocka_unit_test(the_messages_form_comes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
