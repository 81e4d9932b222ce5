/* tests/unit/proxy/http1_trace.h - what a parser says of some bytes, as text that can be compared
 *
 * The bytes are fed in pieces, each in a block of its own that is gone afterwards, so that a sanitizer
 * sees what is borrowed too long. Pieces of one body are put together, since how they come depends on
 * how the input was cut; all else must not.
 *
 * Ownership   *out is the caller's.       Blocking  never.       Failure  sticky in *out.
 * Tests       used by test_http1.c, fuzz_http1_request.c and fuzz_http1_response.c
 */
#ifndef TESTS_HTTP1_TRACE_H
#define TESTS_HTTP1_TRACE_H

#include <stdlib.h>

#include "proxy/http1.h"

struct trace {
	bool response, answers_head;
	bool whole;		/* heads and trailers with all that is in them */
	struct buf body;
	struct buf *out;
};

static inline void trace_fields(struct trace *t, const struct fields *f)
{
	for (size_t i = 0; t->whole && i < f->n; i++) {
		buf_put_str(t->out, fields_name(f, i));
		buf_put_str(t->out, STR("="));
		buf_put_str(t->out, fields_value(f, i));
		buf_put_str(t->out, STR("\n"));
	}
}

static inline void trace_head(struct trace *t, const struct http1_head *h)
{
	static const char *const framing[] = { "", " length", " chunked", " until-close" };

	if (t->whole && t->response)
		buf_printf(t->out, "%u %.*s %u\n", h->status, STR_ARG(h->reason), h->minor);
	else if (t->whole)
		buf_printf(t->out, "%.*s %.*s %u\n", STR_ARG(h->method), STR_ARG(h->target), h->minor);
	trace_fields(t, h->fields);
	buf_printf(t->out, "HEAD%s%s%s;", framing[h->framing], h->keep_alive ? "" : " close",
		   h->expect_continue ? " expect" : "");
}

static inline void trace_flush_body(struct trace *t)
{
	if (t->body.n) {
		buf_put_str(t->out, STR("BODY "));
		buf_put_str(t->out, buf_str(&t->body));
		buf_put_str(t->out, STR(";"));
	}
	t->body.n = 0;
}

/* One event. False where reading is over. */
static inline bool trace_event(struct trace *t, struct http1_parser *p, enum http1_event e)
{
	if (e == H1_BODY)
		buf_put_str(&t->body, http1_body(p));
	if (e == H1_BODY || e == H1_MORE)
		return true;
	trace_flush_body(t);
	if (e == H1_HEAD) {
		trace_head(t, http1_head(p));
	} else if (e == H1_TRAILERS) {
		trace_fields(t, http1_trailers(p));
		buf_put_str(t->out, STR("TRAILERS;"));
	} else if (e == H1_END) {
		buf_put_str(t->out, STR("END;"));
		http1_next(p, t->answers_head);
	} else {
		buf_printf(t->out, "ERROR %u;", http1_status(p));
		return false;
	}
	return true;
}

/* All of one piece. */
static inline bool trace_piece(struct trace *t, struct http1_parser *p, struct str piece)
{
	char *block = malloc(piece.n);
	struct str in;
	enum http1_event e;
	bool on;

	if (!block)
		abort();
	memcpy(block, piece.p, piece.n);
	in = str_n(block, piece.n);
	do {
		e = http1_read(p, &in);
		on = trace_event(t, p, e);
	} while (on && e != H1_MORE);
	free(block);
	return on;
}

/* @first bytes, then pieces of @step. Then the end of the connection. */
static inline void trace_run(struct trace *t, struct http1_parser *p, struct str bytes, size_t first,
			     size_t step)
{
	size_t n = first;
	bool on = true;

	buf_init(&t->body, 1u << 24);
	http1_next(p, t->answers_head);
	while (on && bytes.n) {
		if (n > bytes.n)
			n = bytes.n;
		on = trace_piece(t, p, str_n(bytes.p, n));
		bytes = str_from(bytes, n);
		n = step;
	}
	if (on) {
		enum http1_event e = http1_eof(p);

		trace_flush_body(t);
		buf_put_str(t->out, e == H1_END ? STR("EOF-END;") : e == H1_ERROR ? STR("EOF-ERROR;") : STR(""));
	}
	buf_free(&t->body);
}

#endif
