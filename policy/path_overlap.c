#include "policy/path_overlap.h"

#include <stdlib.h>

#include "conf/hex.h"
#include "policy/path.h"

/*
 * Theory of operation
 *
 * Two patterns have a path in common when they can be walked to their ends together, each step
 * taking the same segment (or character) from both; a star may take one more or be done. The states
 * are pairs of positions. Row by row, reach[j] says whether (i, j) can be come to: once for
 * segments, where '**' is the star, and inside two segments once for characters, where '*' is.
 */

#define PLAIN_STAR '\x01'

struct grid {
	bool *now, *next;
};

static bool grid_init(struct grid *g, size_t n)
{
	g->now = calloc(2 * (n + 1), sizeof(bool));
	g->next = g->now ? g->now + n + 1 : NULL;
	return g->now != NULL;
}

static void grid_advance(struct grid *g, size_t n)
{
	bool *spare = g->now;

	g->now = g->next;
	g->next = spare;
	memset(g->next, 0, (n + 1) * sizeof(bool));
}

static void grid_free(struct grid *g)
{
	free(g->now < g->next ? g->now : g->next);
}

static bool segment_overlaps(struct str a, struct str b, uint64_t *work)
{
	struct grid g;
	bool both;

	*work += (a.n + 1) * (b.n + 1);
	if (str_find(a, '*') == a.n && str_find(b, '*') == b.n)
		return str_eq(a, b);
	if (!grid_init(&g, b.n))
		return true;
	g.now[0] = true;
	for (size_t i = 0; i <= a.n; i++) {
		bool star_a = i < a.n && a.p[i] == '*';

		for (size_t j = 0; j <= b.n; j++) {
			bool star_b = j < b.n && b.p[j] == '*';

			if (!g.now[j])
				continue;
			if (star_b)
				g.now[j + 1] = true;
			else if (j < b.n && star_a)
				g.now[j + 1] = true;
			if (star_a || (i < a.n && star_b))
				g.next[j] = true;
			else if (i < a.n && j < b.n && a.p[i] == b.p[j])
				g.next[j + 1] = true;
		}
		if (i < a.n)
			grid_advance(&g, b.n);
	}
	both = g.now[b.n];
	grid_free(&g);
	return both;
}

/* Escapes and the characters that they stand for are one to path_match(): each becomes its byte, a
 * star that is only a character one that stands for nothing else. */
static size_t decode(struct str pattern, char *out)
{
	size_t n = 0;

	for (size_t i = 0; i < pattern.n; i++) {
		char c = pattern.p[i];

		if (c == '%' && pattern.n - i >= 3) {
			c = (char)(hex_value(pattern.p[i + 1]) * 16 + hex_value(pattern.p[i + 2]));
			c = c == '*' ? PLAIN_STAR : c;
			i += 2;
		}
		out[n++] = c;
	}
	return n;
}

/* The pattern's segments, behind them the bytes that they point into. NULL when memory ran out. */
static struct str *split(struct str pattern, size_t *n)
{
	size_t slashes = 1;
	struct str rest, *v;

	for (size_t i = 0; i < pattern.n; i++)
		slashes += pattern.p[i] == '/';
	v = malloc(slashes * sizeof(*v) + pattern.n + 1);
	if (!v)
		return NULL;
	rest.p = (char *)(v + slashes);
	rest.n = decode(pattern, (char *)(v + slashes));
	(void)str_cut(&rest, '/');
	for (*n = 0; rest.p; (*n)++)
		v[*n] = str_cut(&rest, '/');
	return v;
}

static bool is_deep(const struct str *v, size_t i, size_t n)
{
	return i < n && str_eq(v[i], STR("**"));
}

static bool segments_overlap(const struct str *a, size_t na, const struct str *b, size_t nb,
			     uint64_t *work)
{
	struct grid g;
	bool both;

	if (!grid_init(&g, nb))
		return true;
	g.now[0] = true;
	for (size_t i = 0; i <= na; i++) {
		bool deep_a = is_deep(a, i, na);

		for (size_t j = 0; j <= nb; j++) {
			bool deep_b = is_deep(b, j, nb);

			if (!g.now[j])
				continue;
			if (deep_b || (deep_a && j < nb))
				g.now[j + 1] = true;
			if (deep_a || (deep_b && i < na))
				g.next[j] = true;
			else if (i < na && j < nb && !deep_b && segment_overlaps(a[i], b[j], work))
				g.next[j + 1] = true;
		}
		if (i < na)
			grid_advance(&g, nb);
	}
	both = g.now[nb];
	grid_free(&g);
	return both;
}

bool path_overlaps(struct str a, struct str b, uint64_t *work)
{
	size_t na, nb;
	struct str *va = split(a, &na), *vb = split(b, &nb);
	bool both = !va || !vb || segments_overlap(va, na, vb, nb, work);

	*work += a.n + b.n;
	free(va);
	free(vb);
	return both;
}

bool path_covers(struct str outer, struct str inner)
{
	struct str fixed;

	if (str_eq(outer, inner) || str_eq(outer, STR("/**")))
		return true;
	if (str_find(inner, '*') == inner.n)
		return path_match(outer, inner);
	if (!str_ends(outer, STR("/**")))
		return false;
	fixed = str_n(outer.p, outer.n - 2);
	return str_find(fixed, '*') == fixed.n && str_starts(inner, fixed);
}
