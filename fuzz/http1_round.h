/* fuzz/http1_round.h - what both HTTP/1 harnesses do with their bytes
 *
 * The first byte chooses how the rest is cut. Aborts where two cuts give different events, or where a
 * message that was taken is another one after it was written and read again.
 *
 * Ownership   nothing is kept.       Blocking  never.       Failure  abort().
 * Tests       fuzz_http1_request.c, fuzz_http1_response.c
 */
#ifndef FUZZ_HTTP1_ROUND_H
#define FUZZ_HTTP1_ROUND_H

#include "tests/unit/proxy/http1_trace.h"

#define FUZZ_BYTES_MAX (1u << 22)

static inline void fuzz_trace(struct trace *t, struct str bytes, size_t first, size_t step)
{
	struct http1_parser *p = http1_new(t->response, HTTP1_HEADERS_MAX);

	if (!p)
		abort();
	trace_run(t, p, bytes, first, step);
	http1_free(p);
}

/* A target's parts are the target. */
static inline void fuzz_target(const struct http1_head *h)
{
	struct http1_target t = http1_split_target(h->method, h->target);
	struct str target = h->target;

	if (t.form == TARGET_BAD || t.form == TARGET_ASTERISK)
		return;
	if (t.form == TARGET_ABSOLUTE)
		target = str_from(target, t.scheme.n + 3);
	if (!str_starts(target, t.authority))
		abort();
	target = str_from(target, t.authority.n);
	/* Without a path in it, one was put in its place. */
	if (t.form == TARGET_ABSOLUTE && str_starts(target, STR("/")) && !str_starts(target, t.path))
		abort();
	if (t.form == TARGET_ORIGIN && target.n != t.path.n + t.query.n)
		abort();
	if (t.form == TARGET_ORIGIN && (t.authority.n || t.path.n == 0 || !str_ends(target, t.query)))
		abort();
}

/* Writes the head that the parser has told. */
static inline void fuzz_write_head(bool response, const struct http1_head *h, struct buf *out)
{
	if (response)
		http1_write_response(out, h->status, h->reason, h->fields);
	else
		http1_write_request(out, h->method, h->target, h->fields);
	if (!response)
		fuzz_target(h);
}

/* The first message of @in, written as it would be forwarded. False where it is not whole, or speaks
 * HTTP/1.0, whose defaults are not those of what we write. */
static inline bool fuzz_rewrite(bool response, bool answers_head, struct str in, struct buf *out)
{
	struct http1_parser *p = http1_new(response, HTTP1_HEADERS_MAX);
	const struct http1_head *h = http1_head(p);
	enum http1_event e;
	bool trailers = false;

	http1_next(p, answers_head);
	while ((e = http1_read(p, &in)) != H1_END && e != H1_ERROR && e != H1_MORE) {
		if (e == H1_HEAD)
			fuzz_write_head(response, h, out);
		else if (e == H1_BODY && h->framing == H1_CHUNKED)
			http1_write_chunk(out, http1_body(p));
		else if (e == H1_BODY)
			buf_put_str(out, http1_body(p));
		trailers |= e == H1_TRAILERS;
	}
	if (e == H1_MORE)
		e = http1_eof(p);
	if (e == H1_END && h->framing == H1_CHUNKED)
		http1_write_last_chunk(out, trailers ? http1_trailers(p) : NULL);
	bool whole = e == H1_END && h->minor == 1;

	http1_free(p);
	return whole;
}

static inline void fuzz_same(const struct buf *a, const struct buf *b)
{
	if (!str_eq(buf_str(a), buf_str(b)))
		abort();
}

static inline void fuzz_http1(bool response, const uint8_t *data, size_t size)
{
	struct buf whole, cut, written, again;
	struct trace t = { .response = response, .whole = true };
	struct str in;

	if (size == 0)
		return;
	t.answers_head = response && (data[0] & 1);
	in = str_n((const char *)data + 1, size - 1);
	buf_init(&whole, FUZZ_BYTES_MAX);
	buf_init(&cut, FUZZ_BYTES_MAX);
	buf_init(&written, FUZZ_BYTES_MAX);
	buf_init(&again, FUZZ_BYTES_MAX);

	t.out = &whole;
	fuzz_trace(&t, in, in.n, in.n);
	t.out = &cut;
	fuzz_trace(&t, in, 1 + (data[0] >> 4), 1 + (data[0] >> 1 & 7));
	fuzz_same(&whole, &cut);

	if (fuzz_rewrite(response, t.answers_head, in, &written)) {
		if (written.failed)
			abort();
		t.out = &again;
		fuzz_trace(&t, buf_str(&written), written.n, written.n);
		/* What was read first begins with what was written, but for the messages after it. */
		again.n -= str_ends(buf_str(&again), STR("EOF-END;")) ? sizeof("EOF-END;") - 1 : 0;
		again.n -= str_ends(buf_str(&again), STR("END;")) ? sizeof("END;") - 1 : 0;
		if (!str_starts(buf_str(&whole), buf_str(&again)) || again.n == 0)
			abort();
	}
	buf_free(&whole);
	buf_free(&cut);
	buf_free(&written);
	buf_free(&again);
}

#endif
