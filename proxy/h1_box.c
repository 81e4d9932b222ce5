#include "proxy/h1_box.h"

#include <stdio.h>

/* ---- the request ---- */

enum refusal_reason h1_box_refusal(const struct http1_parser *parser)
{
	switch (http1_status(parser)) {
	case 414:
		return REFUSAL_uri_too_long;
	case 417:
		return REFUSAL_expectation_failed;
	case 431:
		return REFUSAL_headers_too_large;
	case 501:
		return REFUSAL_not_implemented;
	case 503:
		return REFUSAL_internal;
	case 505:
		return REFUSAL_version_not_supported;
	default:
		return REFUSAL_bad_request;
	}
}

static void malformed(struct h1_box *b, struct exchange *x)
{
	b->keep = false;
	exchange_malformed(x, h1_box_refusal(b->parser), http1_error(b->parser));
}

static void begin(struct h1_box *b, struct exchange *x)
{
	static const enum body_kind kinds[] = {
		[H1_NO_BODY] = BODY_NONE, [H1_LENGTH] = BODY_LENGTH, [H1_CHUNKED] = BODY_STREAM,
		[H1_UNTIL_CLOSE] = BODY_NONE,
	};
	const struct http1_head *h = http1_head(b->parser);
	struct request r = { .method = h->method, .target = h->target, .minor = h->minor,
			     .fields = h->fields, .body = kinds[h->framing], .length = h->length,
			     .expect_continue = h->expect_continue };

	b->minor = h->minor;
	b->keep = h->keep_alive;
	exchange_begin(x, &r);
}

static void ended(struct h1_box *b, struct exchange *x)
{
	b->request_ended = true;
	exchange_request_end(x, http1_trailers(b->parser));
}

struct exchange *h1_box_request(struct h1_box *b, const struct exchange_env *env)
{
	struct str in = stream_in(b->stream);
	size_t had = in.n;
	enum http1_event e = had ? http1_read(b->parser, &in) : H1_MORE;
	struct exchange *x = e == H1_MORE ? NULL : exchange_new(env);

	if (e != H1_MORE && !x) {
		b->keep = false;
		stream_abort(b->stream);
		b->aborted = true;
	} else if (e == H1_HEAD) {
		const struct http1_head *h = http1_head(b->parser);

		begin(b, x);
		/* One without a body is whole now. */
		if ((h->framing == H1_NO_BODY || (h->framing == H1_LENGTH && h->length == 0)) &&
		    http1_read(b->parser, &in) == H1_END)
			ended(b, x);
	} else if (x) {
		malformed(b, x);
	}
	stream_take(b->stream, had - in.n);
	return x;
}

struct exchange *h1_box_late(struct h1_box *b, const struct exchange_env *env)
{
	struct exchange *x = exchange_new(env);

	b->keep = false;
	if (x)
		exchange_malformed(x, REFUSAL_request_timeout, "");
	return x;
}

static bool take_event(struct h1_box *b, struct exchange *x, struct str *in)
{
	switch (http1_read(b->parser, in)) {
	case H1_BODY:
		exchange_request_body(x, http1_body(b->parser));
		return true;
	case H1_TRAILERS:
		return true;
	case H1_END:
		ended(b, x);
		return true;
	case H1_MORE:
		return false;
	case H1_HEAD:
	case H1_ERROR:
		break;
	}
	malformed(b, x);
	return false;
}

bool h1_box_body(struct h1_box *b, struct exchange *x)
{
	struct str in = stream_in(b->stream);
	size_t had = in.n;
	bool clean;

	if (stream_failed(b->stream)) {
		exchange_abandon(x, "reset by the client");
		return true;
	}
	while (exchange_wants_body(x) && take_event(b, x, &in))
		;
	stream_take(b->stream, had - in.n);
	if (!stream_ended(b->stream, &clean))
		return in.n != had;
	/* A client that has closed its half after a whole request still waits for the answer, even
	 * where its TLS did not say so: nothing of it is missing. One that is gone resets what we
	 * send. */
	if (!b->request_ended && (!clean || (in.n == 0 && exchange_wants_body(x)))) {
		exchange_abandon(x, "closed by the client inside its request");
		return true;
	}
	return in.n != had;
}

bool h1_box_begun(const struct h1_box *b)
{
	return http1_begun(b->parser);
}

void h1_box_next(struct h1_box *b)
{
	http1_next(b->parser, false);
	b->request_ended = b->chunked = false;
}

/* ---- the answer ---- */

static void interim(void *port, const struct reply *a)
{
	struct h1_box *b = port;

	http1_write_response(stream_out(b->stream), a->status, a->status == 100 ? STR("Continue") : a->reason,
			     a->fields);
}

static void put_framing(struct h1_box *b, const struct reply *a)
{
	char length[STR_DECIMAL_MAX];

	b->chunked = a->body == BODY_STREAM && b->minor > 0;
	if (a->body == BODY_STREAM && b->minor == 0)
		b->keep = false;
	if (a->body != BODY_NONE || a->status == 204)
		fields_remove(a->fields, STR("content-length"));
	if (b->chunked)
		fields_add(a->fields, STR("transfer-encoding"), STR("chunked"));
	if (a->body == BODY_LENGTH)
		fields_add(a->fields, STR("content-length"), str_decimal(a->length, length));
}

static void head(void *port, const struct reply *a)
{
	struct h1_box *b = port;

	put_framing(b, a);
	/* The rest of a request that was answered early is not waited for. */
	if (!b->request_ended)
		b->keep = false;
	if (!b->keep)
		fields_add(a->fields, STR("connection"), STR("close"));
	else if (b->minor == 0)
		fields_add(a->fields, STR("connection"), STR("keep-alive"));
	http1_write_response(stream_out(b->stream), a->status, a->reason, a->fields);
}

static void body(void *port, struct str piece)
{
	struct h1_box *b = port;

	if (b->chunked)
		http1_write_chunk(stream_out(b->stream), piece);
	else
		buf_put_str(stream_out(b->stream), piece);
}

static void end(void *port, const struct fields *trailers)
{
	struct h1_box *b = port;

	if (b->chunked)
		http1_write_last_chunk(stream_out(b->stream), trailers);
}

static void abort_answer(void *port)
{
	struct h1_box *b = port;

	b->keep = false;
	b->aborted = true;
	stream_abort(b->stream);
}

static bool full(void *port)
{
	struct h1_box *b = port;

	return stream_full(b->stream);
}

static void hold(void *port, bool on)
{
	struct h1_box *b = port;

	stream_hold(b->stream, on);
}

const struct box_ops h1_box_ops = {
	.interim = interim,
	.head = head,
	.body = body,
	.end = end,
	.abort = abort_answer,
	.full = full,
	.hold = hold,
};

/* ---- life ---- */

enum err h1_box_init(struct h1_box *b, struct stream *stream, size_t max_headers)
{
	*b = (struct h1_box){ .stream = stream, .minor = 1, .keep = true };
	b->parser = http1_new(false, max_headers);
	return b->parser ? OK : ERR_NOMEM;
}

void h1_box_free(struct h1_box *b)
{
	http1_free(b->parser);
	b->parser = NULL;
}
