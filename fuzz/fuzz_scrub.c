/* Patterns and a stream, cut in pieces as the input says; what comes out is held against a search
 * that has nothing to do with it: bytes of no occurrence are as they were, bytes of one are fill.
 *
 * Input: count of patterns; for each its length and bytes; a seed for the pieces; the stream.
 */
#include <assert.h>
#include <stdlib.h>

#include "broker/scrub.h"

#define PATTERNS 4
#define STREAM_MAX 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t next(struct str *in)
{
	uint8_t c = 0;

	if (in->n) {
		c = (uint8_t)in->p[0];
		*in = str_from(*in, 1);
	}
	return c;
}

static size_t take_patterns(struct str *in, struct str *patterns)
{
	size_t n = next(in) % (PATTERNS + 1);

	for (size_t i = 0; i < n; i++) {
		size_t len = next(in) % 40 + 1u;

		if (len > in->n)
			return i;
		patterns[i] = str_n(in->p, len);
		*in = str_from(*in, len);
	}
	return n;
}

/* Marks the bytes of each occurrence. */
static void mark(struct str stream, const struct str *patterns, size_t n, char *marks)
{
	for (size_t k = 0; k < n; k++)
		for (size_t i = 0; i + patterns[k].n <= stream.n; i++)
			if (memcmp(stream.p + i, patterns[k].p, patterns[k].n) == 0)
				memset(marks + i, 1, patterns[k].n);
}

static void check(struct str in, struct str out, const char *marks)
{
	assert(in.n == out.n);
	for (size_t i = 0; i < in.n; i++)
		assert(marks[i] ? memchr("[exeat:n]*", out.p[i], 10) != NULL : in.p[i] == out.p[i]);
}

static void feed_in_pieces(struct scrub *s, struct str stream, unsigned seed, struct buf *out)
{
	while (stream.n) {
		size_t n;

		seed = seed * 1103515245u + 12345u;
		n = 1 + (seed >> 16) % 64;
		n = n < stream.n ? n : stream.n;
		scrub_feed(s, str_n(stream.p, n), out);
		stream = str_from(stream, n);
	}
	scrub_finish(s, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct str names[PATTERNS] = { STR("n"), STR("n"), STR("n"), STR("n") };
	struct str in = str_n((const char *)data, size), patterns[PATTERNS];
	size_t n = take_patterns(&in, patterns), count;
	unsigned seed = next(&in);
	struct scrub *s = NULL;
	char *marks, *text;
	struct buf out;

	if (in.n > STREAM_MAX || scrub_new(patterns, names, n, &s) != OK)
		return 0;
	buf_init(&out, STREAM_MAX);
	marks = calloc(1, in.n + 1);
	text = malloc(in.n + 1);
	assert(marks && text);
	mark(in, patterns, n, marks);
	feed_in_pieces(s, in, seed, &out);
	check(in, buf_str(&out), marks);
	count = scrub_count(s);
	if (in.n)
		memcpy(text, in.p, in.n);
	assert(scrub_text(s, text, in.n) == count);
	check(in, str_n(text, in.n), marks);
	assert(memcmp(text, buf_str(&out).p, in.n) == 0);
	free(text);
	free(marks);
	buf_free(&out);
	scrub_free(s);
	return 0;
}
