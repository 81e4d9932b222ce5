#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "policy/ranges.h"

static const char *prohibited(const char *text)
{
	struct addr a;

	assert_true(addr_parse(str_of(text), &a));
	return range_prohibited(&a);
}

/* F25 */
static void addresses_that_are_nobodys_on_the_internet_are_prohibited(void **state)
{
	static const char *const bad[] = {
		"0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.1", "100.127.255.255",
		"127.0.0.1", "127.255.255.254", "168.63.129.16", "169.254.169.254", "169.254.0.0",
		"172.16.0.0", "172.31.255.255", "192.0.0.192", "192.88.99.1", "192.168.255.255",
		"198.18.0.7", "198.19.255.255", "224.0.0.1", "239.255.255.255", "240.0.0.1",
		"255.255.255.255", "::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:203.0.113.1",
		"::ffff:0:10.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "100::1", "2001::1",
		"2001:0:1::1", "2001:2::1", "2001:20::1", "2002:a00:1::", "fc00::1", "fd00:ec2::254",
		"fe80::1", "febf::1", "fec0::1", "ff02::1", "4000::1", "8000::1", "5f00::1",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (!prohibited(bad[i]))
			fail_msg("%s", bad[i]);
}

static void the_neighbours_of_each_range_are_free(void **state)
{
	static const char *const good[] = {
		"1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255",
		"128.0.0.0", "168.63.129.15", "168.63.129.17", "169.253.255.255", "169.255.0.0",
		"172.15.255.255", "172.32.0.0", "192.0.1.0", "192.88.98.255", "192.88.100.0",
		"192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255",
		"2001:200::1", "2003::1", "2606:4700::1111", "3ffe::1",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (prohibited(good[i]))
			fail_msg("%s", good[i]);
}

static void documentation_ranges_are_free(void **state)
{
	(void)state;
	assert_null(prohibited("192.0.2.1"));
	assert_null(prohibited("198.51.100.1"));
	assert_null(prohibited("203.0.113.1"));
	assert_null(prohibited("2001:db8::1"));
}

static void a_range_is_told_by_name_and_no_address_is_prohibited_too(void **state)
{
	struct addr none = { 0 };

	(void)state;
	assert_string_equal(prohibited("10.1.2.3"), "private (RFC 1918)");
	assert_string_equal(prohibited("::1"), "loopback (RFC 4291)");
	assert_non_null(range_prohibited(&none));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_that_are_nobodys_on_the_internet_are_prohibited),
		cmocka_unit_test(the_neighbours_of_each_range_are_free),
		cmocka_unit_test(documentation_ranges_are_free),
		cmocka_unit_test(a_range_is_told_by_name_and_no_address_is_prohibited_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
