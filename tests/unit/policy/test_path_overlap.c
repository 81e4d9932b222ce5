#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "policy/path.h"
#include "policy/path_overlap.h"

static void overlaps(const char *a, const char *b, bool want)
{
	uint64_t work = 0;

	if (path_overlaps(str_of(a), str_of(b), &work) != want ||
	    path_overlaps(str_of(b), str_of(a), &work) != want)
		fail_msg("%s with %s is not %d", a, b, want);
	assert_true(work > 0);
}

static void covers(const char *outer, const char *inner, bool want)
{
	if (path_covers(str_of(outer), str_of(inner)) != want)
		fail_msg("%s over %s is not %d", outer, inner, want);
}

static void plain_paths_overlap_when_equal(void **state)
{
	(void)state;
	overlaps("/a/b", "/a/b", true);
	overlaps("/a/b", "/a/c", false);
	overlaps("/a", "/a/", false);
	overlaps("/", "/", true);
}

static void a_star_stays_in_its_segment(void **state)
{
	(void)state;
	overlaps("/a/*", "/a/b", true);
	overlaps("/a/*", "/a/b/c", false);
	overlaps("/x*", "/*y", true);
	overlaps("/ax*", "/b*", false);
	overlaps("/a*c", "/ab*", true);
	overlaps("/*a*", "/*b*", true);
	overlaps("/*", "/", true);
}

static void two_stars_are_any_number_of_segments(void **state)
{
	(void)state;
	overlaps("/a/**", "/a", true);
	overlaps("/a/**", "/a/b/c", true);
	overlaps("/a/**", "/b/**", false);
	overlaps("/**/x", "/a/**", true);
	overlaps("/repos/*/x/**", "/repos/**", true);
	overlaps("/**/x/**", "/a/b", false);
	overlaps("/**", "/**", true);
	overlaps("/**/b/**/d", "/a/**/c/d", true);
}

static void escapes_are_what_they_stand_for(void **state)
{
	(void)state;
	overlaps("/%21", "/!", true);
	overlaps("/%2A", "/x", false);
	overlaps("/%2A", "/*", true);
	overlaps("/%2A", "/%2A", true);
}

/* Every pair of small patterns against every small path: a path that both match must be found. */
static void no_common_path_is_missed(void **state)
{
	static const char *const patterns[] = { "/", "/a", "/*", "/**", "/a*", "/*b", "/a/**", "/**/b",
						"/*/b", "/a/*", "/a*b", "/**/a/**", "/a/b", "/ab" };
	static const char *const paths[] = { "/", "/a", "/b", "/ab", "/a/", "/a/b", "/b/b", "/a/a/b",
					     "/ab/b", "/b/a/b", "/aab", "/b/a" };
	size_t n = sizeof(patterns) / sizeof(*patterns);

	(void)state;
	for (size_t i = 0; i < n * n; i++)
		for (size_t k = 0; k < sizeof(paths) / sizeof(*paths); k++) {
			struct str a = str_of(patterns[i / n]), b = str_of(patterns[i % n]);
			struct str path = str_of(paths[k]);
			uint64_t work = 0;

			if (path_match(a, path) && path_match(b, path) && !path_overlaps(a, b, &work))
				fail_msg("%s and %s both match %s", a.p, b.p, path.p);
			if (path_covers(a, b) && path_match(b, path) && !path_match(a, path))
				fail_msg("%s does not cover %s: %s", a.p, b.p, path.p);
		}
}

static void covering_is_claimed_where_it_is_plain(void **state)
{
	(void)state;
	covers("/**", "/a/*", true);
	covers("/a/**", "/a/b/*", true);
	covers("/a/*", "/a/b", true);
	covers("/a/*", "/a/*", true);
	covers("/a/b", "/a/*", false);
	covers("/a/**", "/ab/c", false);
	covers("/a/**", "/**", false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_paths_overlap_when_equal),
		cmocka_unit_test(a_star_stays_in_its_segment),
		cmocka_unit_test(two_stars_are_any_number_of_segments),
		cmocka_unit_test(escapes_are_what_they_stand_for),
		cmocka_unit_test(no_common_path_is_missed),
		cmocka_unit_test(covering_is_claimed_where_it_is_plain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
