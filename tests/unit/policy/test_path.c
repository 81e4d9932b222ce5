#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "policy/path.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static enum path_result normalise(struct str raw, struct buf *out)
{
	const char *why = NULL;
	enum path_result r;

	buf_init(out, 4096);
	r = path_normalise(raw, out, &why);
	if (r == PATH_OK)
		assert_null(why);
	else
		assert_non_null(why);
	return r;
}

static void assert_normal(const char *raw, const char *expected)
{
	struct buf once, twice;

	assert_int_equal(normalise(str_of(raw), &once), PATH_OK);
	assert_int_equal(once.n, strlen(expected));
	assert_memory_equal(once.p, expected, once.n);
	assert_int_equal(normalise(buf_str(&once), &twice), PATH_OK);
	assert_true(str_eq(buf_str(&once), buf_str(&twice)));
	buf_free(&once);
	buf_free(&twice);
}

static void assert_result(struct str raw, enum path_result expected)
{
	struct buf out;

	assert_int_equal(normalise(raw, &out), expected);
	assert_int_equal(out.n, 0);
	buf_free(&out);
}

static void escapes_of_unreserved_characters_are_decoded(void **state)
{
	(void)state;
	assert_normal("/", "/");
	assert_normal("/%67ists/%7euser/a%2Db%2ec%5Fd", "/gists/~user/a-b.c_d");
	assert_normal("/a%20b%c3%bc", "/a%20b%C3%BC");
	assert_normal("/a%3ab:c", "/a%3Ab:c");
	assert_normal("/100%25", "/100%25");
	assert_normal("/100%25/x", "/100%25/x");
}

static void dot_segments_are_removed(void **state)
{
	(void)state;
	assert_normal("/a/./b/../c", "/a/c");
	assert_normal("/a/..", "/");
	assert_normal("/a/b/..", "/a/");
	assert_normal("/a/.", "/a/");
	assert_normal("/../../a", "/a");
	assert_normal("/..", "/");
	assert_normal("/a/", "/a/");
	assert_normal("/.../..a/.b", "/.../..a/.b");
	/* RFC 3986 5.2.4 */
	assert_normal("/a/b/c/./../../g", "/a/g");
}

static void characters_that_have_no_place_are_escaped(void **state)
{
	(void)state;
	assert_normal("/a|b\"<>^`{}[]", "/a%7Cb%22%3C%3E%5E%60%7B%7D%5B%5D");
	assert_normal("/!$&'()*+,;=:@-._~", "/!$&'()*+,;=:@-._~");
}

static void what_servers_read_in_two_ways_is_ambiguous(void **state)
{
	static const char *const bad[] = {
		"/a%2fb", "/a%2Fb", "/a%5cb", "/a\\b", "/%2e%2e/a", "/.%2e/a", "/%2E/a", "/a/%2e",
		"/a%252fb", "/a%252e%252e", "/a%25%32%66b", "/a%25%32f", "/a%25252f", "/%2567ists",
		"/..;/a", "/.;x=1/a", "/a/..;x", "/..%3bx/a", "/%2e%2e;/a", "/a%00", "/a%0d%0aX", "/a%7f",
		"/a\tb", "/a\x01", "/a\x7f", "/a//b", "//a", "//", "/a%", "/a%4", "/a%zz", "/%u002f",
		"/a\xc3\xbc", "/%c0%af", "/%C1%9C", "/%e0%80%af", "/%f0%80%80%af",
	};

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++)
		assert_result(str_of(bad[i]), PATH_AMBIGUOUS);
	assert_result(str_n("/a\0b", 4), PATH_AMBIGUOUS);
}

static void what_is_no_path_is_bad(void **state)
{
	static const char *const bad[] = { "", "a", "*", "http://a.test/", "/a b", "/a?b", "/a#b" };

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++)
		assert_result(str_of(bad[i]), PATH_BAD);
	assert_result(STR_NONE, PATH_BAD);
}

static void a_path_over_the_limit_is_bad_and_the_rest_of_the_buffer_stays(void **state)
{
	const char *why;
	struct buf out;

	(void)state;
	buf_init(&out, 8);
	buf_put_str(&out, STR("GET "));
	assert_int_equal(path_normalise(STR("/abc"), &out, &why), PATH_OK);
	assert_true(str_eq(buf_str(&out), STR("GET /abc")));
	out.n = 4;
	assert_int_equal(path_normalise(STR("/abcd"), &out, &why), PATH_BAD);
	assert_true(str_eq(buf_str(&out), STR("GET ")));
	buf_free(&out);
}

static void assert_match(const char *pattern, const char *path, bool expected)
{
	if (path_match(str_of(pattern), str_of(path)) != expected)
		fail_msg("%s %s %s", pattern, expected ? "should match" : "should not match", path);
}

static void a_star_stays_inside_its_segment(void **state)
{
	(void)state;
	assert_match("/search/*", "/search/a", true);
	assert_match("/search/*", "/search/", true);
	assert_match("/search/*", "/search", false);
	assert_match("/search/*", "/search/a/b", false);
	assert_match("/a*c", "/abbc", true);
	assert_match("/a*c", "/ac", true);
	assert_match("/a*c", "/ab/c", false);
	assert_match("/*a*b*", "/xaxbx", true);
	assert_match("/*a*b", "/abab", true);
	assert_match("/*a*b", "/aba", false);
	assert_match("/*/b", "/a/b", true);
	assert_match("/*/b", "/b", false);
}

static void two_stars_are_any_segments_and_none(void **state)
{
	(void)state;
	assert_match("/repos/acme/**", "/repos/acme", true);
	assert_match("/repos/acme/**", "/repos/acme/", true);
	assert_match("/repos/acme/**", "/repos/acme/a/b/c", true);
	assert_match("/repos/acme/**", "/repos/acmeevil/a", false);
	assert_match("/**", "/", true);
	assert_match("/**", "/a/b", true);
	assert_match("/**/b", "/b", true);
	assert_match("/**/b", "/a/a/b", true);
	assert_match("/**/b", "/a", false);
	assert_match("/**/b", "/b/c", false);
	assert_match("/a/**/b/**/c", "/a/x/b/c", true);
	assert_match("/a/**/b/**/c", "/a/x/b/y/b/c", true);
	assert_match("/a/**/b/**/c", "/a/c/b", false);
	assert_match("/**/*.js", "/x/y.js", true);
	assert_match("/a/**/b", "/a/b/b/x/b", true);
}

static void plain_patterns_match_whole_and_by_case(void **state)
{
	(void)state;
	assert_match("/v1/messages", "/v1/messages", true);
	assert_match("/v1/messages", "/v1/messages/", false);
	assert_match("/v1/messages", "/v1/message", false);
	assert_match("/v1/messages", "/v1/Messages", false);
	assert_match("/", "/", true);
	assert_match("/", "/a", false);
}

static void a_character_and_its_escape_are_one(void **state)
{
	(void)state;
	assert_match("/m/*:generate", "/m/x%3Agenerate", true);
	assert_match("/m/a%3Ab", "/m/a:b", true);
	assert_match("/a%2Ab", "/a*b", true);
	assert_match("/a%2Ab", "/a%2Ab", true);
	assert_match("/a%2Ab", "/axb", false);
	assert_match("/*", "/a%20b", true);
	assert_match("/a*b", "/a%3A%3Ab", true);
	assert_match("/a%20b", "/a%20b", true);
	/* A star takes whole escapes only. */
	assert_match("/*0b", "/a%20b", false);
}

static void a_hostile_pattern_costs_no_more_than_the_product(void **state)
{
	enum { N = 2000 };
	char pattern[4 * N + 2], path[2 * N + 1];
	struct timespec a, b;

	(void)state;
	for (size_t i = 0; i < N; i++) {
		memcpy(pattern + 4 * i, i % 2 ? "**/a" : "/a*/", 4);
		memcpy(path + 2 * i, "/a", 2);
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
	assert_false(path_match(str_n(pattern, 4 * N - 1), str_n(path, 2 * N)));
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
	/* An exponential case would not end at all. */
	assert_true(b.tv_sec - a.tv_sec < 10);
}

static void patterns_are_held_to_their_normal_form(void **state)
{
	static const char *const good[] = { "/", "/**", "/a/*", "/a/**/b*c", "/a%20b", "/a%2Ab", "/a/" };
	static const char *const bad[] = { "", "a", "/a//b", "/***", "/a**", "/a/**b", "/%61", "/a%2fb",
					   "/../a", "/a/./b", "/a%3ab", "/a?b", "/a#", "/a b", "/a\\b",
					   "/\xc3\xbc", "/a|b" };
	const char *why;

	(void)state;
	for (size_t i = 0; i < COUNT(good); i++) {
		assert_true(path_pattern_valid(str_of(good[i]), &why));
		assert_null(why);
	}
	for (size_t i = 0; i < COUNT(bad); i++) {
		assert_false(path_pattern_valid(str_of(bad[i]), &why));
		assert_non_null(why);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(escapes_of_unreserved_characters_are_decoded),
		cmocka_unit_test(dot_segments_are_removed),
		cmocka_unit_test(characters_that_have_no_place_are_escaped),
		cmocka_unit_test(what_servers_read_in_two_ways_is_ambiguous),
		cmocka_unit_test(what_is_no_path_is_bad),
		cmocka_unit_test(a_path_over_the_limit_is_bad_and_the_rest_of_the_buffer_stays),
		cmocka_unit_test(a_star_stays_inside_its_segment),
		cmocka_unit_test(two_stars_are_any_segments_and_none),
		cmocka_unit_test(plain_patterns_match_whole_and_by_case),
		cmocka_unit_test(a_character_and_its_escape_are_one),
		cmocka_unit_test(a_hostile_pattern_costs_no_more_than_the_product),
		cmocka_unit_test(patterns_are_held_to_their_normal_form),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
