/* Theory of operation
 *
 * Goal: no pattern gets through, however the stream is cut, in time linear in its length.
 *
 * Each pattern has its own Knuth-Morris-Pratt matcher: how many of its bytes match what was seen
 * last (scan.at[]), and a table of where to go on after a byte that does not fit. A byte costs each
 * matcher a constant on average, so the whole costs at most SCRUB_PATTERNS_MAX times the stream.
 * Patterns are few; one automaton over all of them would need a table of hundreds of kilobytes in
 * locked memory, for each exchange.
 *
 * A byte seen is in the window (hold), and may leave it once no matcher counts it as the beginning
 * of its pattern: all but the longest partial match. Matchers see the bytes as they came; what is
 * filled over is filled over in the window, before it leaves. The window has WINDOW_SPARE bytes
 * more than the longest pattern, and is emptied when it is full or the piece is at its end, so that
 * moving its rest to its front costs a constant a byte. While no matcher is in a pattern and the
 * window is empty, bytes that begin none are passed on directly.
 *
 * Filling over: a match of L bytes that touches no byte of an earlier one gets the label. One that
 * overlaps the earlier run extends it by '*'. One that begins before the run (a pattern inside
 * another) gets the label over its whole length. So every byte of every occurrence is covered;
 * scan.since is how many bytes were seen after the run's end, scan.run is its length.
 *
 * The failure tables and partial matches tell of the patterns, so they are in locked memory as
 * well.
 */
#include "broker/scrub.h"

#include "broker/locked.h"

#define WINDOW_SPARE 512

_Static_assert(SCRUB_PATTERN_MAX <= UINT16_MAX, "positions in a pattern are 16 bits");

struct pattern {
	const unsigned char *bytes;
	uint16_t *fail;		/* [i]: longest border of the first i + 1 bytes */
	size_t n;
	char label[SCRUB_NAME_MAX + 16];
	size_t label_n;
};

/* Where the matchers stand in one text. */
struct scan {
	uint16_t at[SCRUB_PATTERNS_MAX];
	size_t since, run;
};

struct scrub {
	struct pattern patterns[SCRUB_PATTERNS_MAX];
	size_t n;
	bool begins[256];	/* is this byte the first of a pattern? */
	size_t count;
	struct scan stream;
	char *hold;
	size_t held, room;
};

static void scan_init(struct scan *scan)
{
	*scan = (struct scan){ .since = SIZE_MAX / 2 };
}

/* ---- building ---- */

static void make_fail(struct pattern *p)
{
	uint16_t k = 0;

	p->fail[0] = 0;
	for (size_t i = 1; i < p->n; i++) {
		while (k > 0 && p->bytes[i] != p->bytes[k])
			k = p->fail[k - 1];
		if (p->bytes[i] == p->bytes[k])
			k++;
		p->fail[i] = k;
	}
}

/* A name could hold anything, and goes into somebody's header field. */
static void make_label(struct pattern *p, struct str name)
{
	static const char before[] = "[exeat:";
	size_t n = sizeof(before) - 1;

	memcpy(p->label, before, n);
	n += str_copy_plain(name, SCRUB_NAME_MAX, p->label + n);
	p->label[n++] = ']';
	p->label_n = n;
}

/* Everything in one piece of locked memory: the struct, failure tables, patterns, window. */
enum err scrub_new(const struct str *patterns, const struct str *names, size_t n,
		   struct scrub **out)
{
	size_t total = 0, longest = 0;
	struct scrub *s;
	uint16_t *fails;
	char *bytes;

	if (n > SCRUB_PATTERNS_MAX)
		return ERR_LIMIT;
	for (size_t i = 0; i < n; i++) {
		if (patterns[i].n == 0)
			return ERR_SYNTAX;
		if (patterns[i].n > SCRUB_PATTERN_MAX)
			return ERR_LIMIT;
		total += patterns[i].n;
		longest = patterns[i].n > longest ? patterns[i].n : longest;
	}
	s = locked_new(sizeof(*s) + total * (1 + sizeof(*fails)) + longest + WINDOW_SPARE);
	if (!s)
		return ERR_NOMEM;
	fails = (uint16_t *)(void *)(s + 1);
	bytes = (char *)(fails + total);
	for (size_t i = 0; i < n; i++) {
		struct pattern *p = &s->patterns[i];

		memcpy(bytes, patterns[i].p, patterns[i].n);
		*p = (struct pattern){ (unsigned char *)bytes, fails, patterns[i].n, { 0 }, 0 };
		make_fail(p);
		make_label(p, names[i]);
		s->begins[p->bytes[0]] = true;
		bytes += p->n;
		fails += p->n;
	}
	s->n = n;
	s->hold = bytes;
	s->room = longest + WINDOW_SPARE;
	scan_init(&s->stream);
	*out = s;
	return OK;
}

void scrub_free(struct scrub *s)
{
	locked_free(s);
}

/* ---- matching ---- */

/* One more byte for one matcher. Is the pattern whole? */
static bool advance(const struct pattern *p, uint16_t *at, unsigned char c)
{
	uint16_t k = *at;

	while (k > 0 && p->bytes[k] != c)
		k = p->fail[k - 1];
	if (p->bytes[k] == c)
		k++;
	if (k < p->n) {
		*at = k;
		return false;
	}
	*at = p->fail[k - 1];
	return true;
}

/* One more byte for all. The longest pattern that ends with it, or NULL. */
static const struct pattern *step(const struct scrub *s, struct scan *scan, unsigned char c)
{
	const struct pattern *longest = NULL;

	scan->since++;
	for (size_t i = 0; i < s->n; i++) {
		const struct pattern *p = &s->patterns[i];

		if (advance(p, &scan->at[i], c) && (!longest || p->n > longest->n))
			longest = p;
	}
	return longest;
}

/* Fills the match over that ends before @end. */
static void cover(struct scrub *s, struct scan *scan, const struct pattern *p, char *end)
{
	bool overlaps = scan->since < p->n;

	if (overlaps && scan->since + scan->run >= p->n) {
		memset(end - scan->since, '*', scan->since);
		scan->run += scan->since;
	} else {
		size_t shown = p->label_n < p->n ? p->label_n : p->n;

		memcpy(end - p->n, p->label, shown);
		memset(end - p->n + shown, '*', p->n - shown);
		scan->run = p->n;
	}
	s->count += !overlaps;
	scan->since = 0;
}

/* How many of the last bytes may still be the beginning of a pattern. */
static size_t pending(const struct scrub *s, const struct scan *scan)
{
	size_t most = 0;

	for (size_t i = 0; i < s->n; i++)
		if (scan->at[i] > most)
			most = scan->at[i];
	return most;
}

/* ---- streams ---- */

/* Passes on all but the last @keep bytes of the window. */
static void release(struct scrub *s, size_t keep, struct buf *out)
{
	size_t n = s->held - keep;

	buf_put(out, s->hold, n);
	memmove(s->hold, s->hold + n, keep);
	s->held = keep;
}

/* How many bytes at the front of @in begin no pattern. */
static size_t skippable(const struct scrub *s, struct str in)
{
	size_t n = 0;

	while (n < in.n && !s->begins[(unsigned char)in.p[n]])
		n++;
	return n;
}

/* Takes bytes into the window until it is full, the input is at its end or nothing is under way.
 * Returns how many. */
static size_t take(struct scrub *s, struct str in)
{
	size_t n = 0;

	while (n < in.n && s->held < s->room) {
		const struct pattern *p;

		s->hold[s->held++] = in.p[n];
		p = step(s, &s->stream, (unsigned char)in.p[n++]);
		if (p)
			cover(s, &s->stream, p, s->hold + s->held);
		if (pending(s, &s->stream) == 0)
			break;
	}
	return n;
}

void scrub_feed(struct scrub *s, struct str in, struct buf *out)
{
	while (in.n) {
		if (s->held == 0) {
			size_t n = skippable(s, in);

			buf_put(out, in.p, n);
			s->stream.since += n;
			in = str_from(in, n);
		}
		in = str_from(in, take(s, in));
		release(s, pending(s, &s->stream), out);
	}
}

void scrub_finish(struct scrub *s, struct buf *out)
{
	release(s, 0, out);
	scan_init(&s->stream);
}

size_t scrub_text(struct scrub *s, char *p, size_t n)
{
	size_t before = s->count;
	struct scan scan;

	scan_init(&scan);
	for (size_t i = 0; i < n; i++) {
		const struct pattern *hit;

		if (pending(s, &scan) == 0) {
			size_t skip = skippable(s, str_n(p + i, n - i));

			scan.since += skip;
			i += skip;
			if (i == n)
				break;
		}
		hit = step(s, &scan, (unsigned char)p[i]);
		if (hit)
			cover(s, &scan, hit, p + i + 1);
	}
	explicit_bzero(&scan, sizeof(scan));
	return s->count - before;
}

size_t scrub_count(const struct scrub *s)
{
	return s->count;
}
