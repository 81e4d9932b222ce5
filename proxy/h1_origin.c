#include "proxy/h1_origin.h"

#include <stdio.h>

/* ---- the request ---- */

static void put_framing(struct upstream *up, const struct request *r, struct fields *fields)
{
	char length[STR_DECIMAL_MAX];
	struct str te;

	up->chunked = r->body == BODY_STREAM;
	if (up->chunked)
		fields_add(fields, STR("transfer-encoding"), STR("chunked"));
	if (r->body == BODY_LENGTH)
		fields_add(fields, STR("content-length"), str_decimal(r->length, length));
	/* TE is for the next hop: who sends it says so (RFC 9110 10.1.4). */
	if (fields_get(fields, STR("te"), &te))
		fields_add(fields, STR("connection"), STR("TE"));
}

static void head(struct upstream *up, const struct request *r, struct fields *fields)
{
	put_framing(up, r, fields);
	http1_next(up->parser, str_eq(r->method, STR("HEAD")));
	up->left = 0;
	http1_write_request(stream_out(up->stream), r->method, r->target, fields);
}

static void body(struct upstream *up, struct str piece)
{
	if (up->chunked)
		http1_write_chunk(stream_out(up->stream), piece);
	else
		buf_put_str(stream_out(up->stream), piece);
}

static void end(struct upstream *up, const struct fields *trailers)
{
	if (up->chunked)
		http1_write_last_chunk(stream_out(up->stream), trailers);
}

static bool full(struct upstream *up)
{
	return stream_full(up->stream);
}

/* ---- the answer ---- */

static void take_head(struct upstream *up, struct exchange *x)
{
	static const enum body_kind kinds[] = {
		[H1_NO_BODY] = BODY_NONE, [H1_LENGTH] = BODY_LENGTH, [H1_CHUNKED] = BODY_STREAM,
		[H1_UNTIL_CLOSE] = BODY_STREAM,
	};
	const struct http1_head *h = http1_head(up->parser);
	struct reply a = { .status = h->status, .reason = h->reason, .fields = h->fields,
			    .body = kinds[h->framing], .length = h->length };

	up->left = h->framing == H1_LENGTH ? h->length : 0;
	exchange_answer_head(x, &a);
}

static void take_body(struct upstream *up, struct exchange *x)
{
	struct str piece = http1_body(up->parser);

	up->left -= up->left >= piece.n ? piece.n : up->left;
	exchange_answer_body(x, piece);
}

static void malformed(struct upstream *up, struct exchange *x)
{
	unsigned status = http1_status(up->parser);
	bool large = status == 414 || status == 431;

	exchange_answer_failed(x,
			       large ? REFUSAL_response_headers_large : REFUSAL_response_malformed,
			       http1_error(up->parser));
}

/* One event. False: no more can be read now. */
static bool take_event(struct upstream *up, struct exchange *x, struct str *in)
{
	switch (http1_read(up->parser, in)) {
	case H1_MORE:
		return false;
	case H1_HEAD:
		take_head(up, x);
		return true;
	case H1_BODY:
		take_body(up, x);
		return true;
	case H1_TRAILERS:
		return true;
	case H1_END:
		if (http1_head(up->parser)->status < 200) {
			http1_next(up->parser, exchange_answers_head(x));
			return true;
		}
		exchange_answer_end(x, http1_trailers(up->parser));
		return false;
	case H1_ERROR:
		break;
	}
	malformed(up, x);
	return false;
}

/* The origin's side is over: was that the answer's end? Frees @up where the exchange begins again.
 */
static void take_end(struct upstream *up, struct exchange *x)
{
	bool clean, ended = stream_ended(up->stream, &clean);
	enum http1_event e;

	if (stream_failed(up->stream) && !(ended && clean)) {
		exchange_answer_failed(x, http1_begun(up->parser) ? REFUSAL_response_incomplete
								  : REFUSAL_connection_terminated,
				       stream_why(up->stream));
		return;
	}
	e = http1_eof(up->parser);
	if (e == H1_END && clean)
		exchange_answer_end(x, NULL);
	else if (e == H1_MORE)
		exchange_answer_failed(x, REFUSAL_connection_terminated, "closed before it answered");
	else
		exchange_answer_failed(x, REFUSAL_response_incomplete,
				       e == H1_END ? "TLS ended without close_notify" : http1_error(up->parser));
}

/* An origin that takes no more may have answered first. */
static void look_for_last_words(struct upstream *up)
{
	if (stream_failed(up->stream) && stream_in(up->stream).n == 0)
		stream_poll(up->stream);
}

static bool read_answer(struct upstream *up, struct exchange *x)
{
	struct str in = stream_in(up->stream);
	size_t had = in.n;
	bool clean, counted = false, goes_on = true, took;

	/* After the last counted byte the end must be told in the same pass: what is queued for the
	 * box would go out before the end record otherwise. */
	while (goes_on && (exchange_wants_answer(x) || counted)) {
		uint64_t left = up->left;

		goes_on = take_event(up, x, &in);
		counted = left && up->left == 0;
	}
	took = in.n != had;
	stream_take(up->stream, had - in.n);
	look_for_last_words(up);
	if (stream_in(up->stream).n > in.n)
		return true;
	if (in.n == 0 && exchange_wants_answer(x) &&
	    (stream_ended(up->stream, &clean) || stream_failed(up->stream))) {
		take_end(up, x);
		return true;
	}
	return took;
}

static bool reusable(struct upstream *up)
{
	bool clean;

	return http1_head(up->parser)->keep_alive &&
	       http1_head(up->parser)->framing != H1_UNTIL_CLOSE && !stream_failed(up->stream) &&
	       !stream_ended(up->stream, &clean) && stream_in(up->stream).n == 0;
}

const struct origin_ops h1_origin = {
	.head = head,
	.body = body,
	.end = end,
	.full = full,
	.read = read_answer,
	.reusable = reusable,
};
