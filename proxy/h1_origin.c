#include "proxy/h1_origin.h"

#include "proxy/pool.h"

/* ---- the request ---- */

static void put_framing(struct leg *l, const struct request *r, struct fields *fields)
{
	char length[STR_DECIMAL_MAX];
	struct str te;

	l->chunked = r->body == BODY_STREAM;
	if (l->chunked)
		fields_add(fields, STR("transfer-encoding"), STR("chunked"));
	if (r->body == BODY_LENGTH)
		fields_add(fields, STR("content-length"), str_decimal(r->length, length));
	/* TE is for the next hop: who sends it says so (RFC 9110 10.1.4). */
	if (fields_get(fields, STR("te"), &te))
		fields_add(fields, STR("connection"), STR("TE"));
}

static void head(struct leg *l, const struct request *r, struct fields *fields)
{
	struct stream *stream = l->up->stream;

	put_framing(l, r, fields);
	http1_next(l->up->parser, str_eq(r->method, STR("HEAD")));
	l->left = 0;
	l->sent_from = stream_bytes_out(stream);
	http1_write_request(stream_out(stream), r->method, r->target, fields);
}

static void body(struct leg *l, struct str piece)
{
	if (l->chunked)
		http1_write_chunk(stream_out(l->up->stream), piece);
	else
		buf_put_str(stream_out(l->up->stream), piece);
}

static void end(struct leg *l, const struct fields *trailers)
{
	if (l->chunked)
		http1_write_last_chunk(stream_out(l->up->stream), trailers);
}

static bool full(const struct leg *l)
{
	return stream_full(l->up->stream);
}

/* ---- the answer ---- */

static void take_head(struct leg *l, struct exchange *x)
{
	static const enum body_kind kinds[] = {
		[H1_NO_BODY] = BODY_NONE, [H1_LENGTH] = BODY_LENGTH, [H1_CHUNKED] = BODY_STREAM,
		[H1_UNTIL_CLOSE] = BODY_STREAM,
	};
	const struct http1_head *h = http1_head(l->up->parser);
	struct reply a = { .status = h->status, .reason = h->reason, .fields = h->fields,
			    .body = kinds[h->framing], .length = h->length };

	l->left = h->framing == H1_LENGTH ? h->length : 0;
	exchange_answer_head(x, &a);
}

static void take_body(struct leg *l, struct exchange *x)
{
	struct str piece = http1_body(l->up->parser);

	l->left -= l->left >= piece.n ? piece.n : l->left;
	exchange_answer_body(x, piece);
}

static void malformed(struct leg *l, struct exchange *x)
{
	unsigned status = http1_status(l->up->parser);
	bool large = status == 414 || status == 431;

	exchange_answer_failed(x,
			       large ? REFUSAL_response_headers_large : REFUSAL_response_malformed,
			       http1_error(l->up->parser));
}

/* One event. False: no more can be read now. */
static bool take_event(struct leg *l, struct exchange *x, struct str *in)
{
	switch (http1_read(l->up->parser, in)) {
	case H1_MORE:
		return false;
	case H1_HEAD:
		take_head(l, x);
		return true;
	case H1_BODY:
		take_body(l, x);
		return true;
	case H1_TRAILERS:
		return true;
	case H1_END:
		if (http1_head(l->up->parser)->status < 200) {
			http1_next(l->up->parser, exchange_answers_head(x));
			return true;
		}
		exchange_answer_end(x, http1_trailers(l->up->parser));
		return false;
	case H1_ERROR:
		break;
	}
	malformed(l, x);
	return false;
}

/* The origin's side is over: was that the answer's end? Takes @l off its
 * upstream where the exchange begins again. */
static void take_end(struct leg *l, struct exchange *x)
{
	bool clean, ended = stream_ended(l->up->stream, &clean);
	enum http1_event e;

	if (stream_failed(l->up->stream) && !(ended && clean)) {
		exchange_answer_failed(x, http1_begun(l->up->parser) ? REFUSAL_response_incomplete
								  : REFUSAL_connection_terminated,
				       stream_why(l->up->stream));
		return;
	}
	e = http1_eof(l->up->parser);
	if (e == H1_END && clean)
		exchange_answer_end(x, NULL);
	else if (e == H1_MORE)
		exchange_answer_failed(x, REFUSAL_connection_terminated, "closed before it answered");
	else
		exchange_answer_failed(x, REFUSAL_response_incomplete,
				       e == H1_END ? "TLS ended without close_notify" : http1_error(l->up->parser));
}

/* An origin that takes no more may have answered first. */
static void look_for_last_words(struct leg *l)
{
	if (stream_failed(l->up->stream) && stream_in(l->up->stream).n == 0)
		stream_poll(l->up->stream);
}

static bool read_answer(struct leg *l, struct exchange *x)
{
	struct str in = stream_in(l->up->stream);
	size_t had = in.n;
	bool clean, counted = false, goes_on = true, took;

	/* After the last counted byte the end must be told in the same pass: what is queued for the
	 * box would go out before the end record otherwise. */
	while (goes_on && (exchange_wants_answer(x) || counted)) {
		uint64_t left = l->left;

		goes_on = take_event(l, x, &in);
		counted = left && l->left == 0;
	}
	took = in.n != had;
	stream_take(l->up->stream, had - in.n);
	look_for_last_words(l);
	if (stream_in(l->up->stream).n > in.n)
		return true;
	if (in.n == 0 && exchange_wants_answer(x) &&
	    (stream_ended(l->up->stream, &clean) || stream_failed(l->up->stream))) {
		take_end(l, x);
		return true;
	}
	return took;
}

static bool reusable(const struct leg *l)
{
	const struct http1_head *h = http1_head(l->up->parser);
	bool clean;

	return h->keep_alive && h->framing != H1_UNTIL_CLOSE && !stream_failed(l->up->stream) &&
	       !stream_ended(l->up->stream, &clean) && stream_in(l->up->stream).n == 0;
}

/* ---- life ---- */

/* One that dies before it was used is an origin that will have nobody: that is told. */
static bool unprocessed(const struct leg *l)
{
	return l->reused && stream_bytes_out(l->up->stream) == l->sent_from;
}

static void abort_request(struct leg *l)
{
	stream_abort(l->up->stream);
}

static bool open_port(struct upstream *u)
{
	u->parser = http1_new(true, u->w->max_headers);
	return u->parser != NULL;
}

static void close_port(struct upstream *u)
{
	http1_free(u->parser);
}

static void leave(struct leg *l)
{
	pool_touch(l->up);
}

static void look(struct upstream *u)
{
	if (u->legs)
		u->legs->woken = true;
}

static bool has_room(const struct upstream *u)
{
	return !u->legs;
}

static bool flush(struct upstream *u)
{
	(void)u;	/* it stands in the stream already */
	return false;
}

const struct origin_ops h1_origin = {
	.head = head,
	.body = body,
	.end = end,
	.full = full,
	.read = read_answer,
	.reusable = reusable,
	.unprocessed = unprocessed,
	.abort = abort_request,
	.open = open_port,
	.close = close_port,
	.leave = leave,
	.look = look,
	.has_room = has_room,
	.flush = flush,
};
