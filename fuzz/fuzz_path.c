/* Paths: normalising is a fixed point, a normal path is a pattern that matches it, and matching
 * stays inside both. Input: pattern, newline, path; without a newline both are the whole. */
#include <stdlib.h>

#include "policy/path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define OUT_MAX (1u << 16)

static void check_normal(struct str normal)
{
	struct buf again;
	const char *why;

	buf_init(&again, OUT_MAX);
	if (path_normalise(normal, &again, &why) != PATH_OK || !str_eq(buf_str(&again), normal))
		abort();
	if (path_pattern_valid(normal, &why) && !path_match(normal, normal))
		abort();
	if (!path_match(STR("/**"), normal))
		abort();
	buf_free(&again);
}

static void check_path(struct str raw)
{
	struct buf out;
	const char *why = NULL;
	enum path_result r;

	buf_init(&out, OUT_MAX);
	r = path_normalise(raw, &out, &why);
	if ((r == PATH_OK) != (why == NULL))
		abort();
	if (r == PATH_OK)
		check_normal(buf_str(&out));
	else if (out.n)
		abort();
	buf_free(&out);
}

static struct str copy_of(struct str s)
{
	char *p = malloc(s.n ? s.n : 1);

	if (p && s.n)
		memcpy(p, s.p, s.n);
	return str_n(p, p ? s.n : 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct str all = str_n((const char *)data, n), pattern, path;
	size_t cut = str_find(all, '\n');
	const char *why;

	if (n > 4096)
		return 0;
	/* Copies of their own, so that a byte read behind an end is seen. */
	pattern = copy_of(str_n(all.p, cut));
	path = copy_of(cut < n ? str_from(all, cut + 1) : all);
	if (pattern.p && path.p) {
		check_path(path);
		path_pattern_valid(pattern, &why);
		path_match(pattern, path);
	}
	free((void *)(uintptr_t)pattern.p);
	free((void *)(uintptr_t)path.p);
	return 0;
}
