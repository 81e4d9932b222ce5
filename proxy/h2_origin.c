/* Theory of operation
 *
 * An event of the connection's stream of bytes is read by the session; the legs whose streams moved
 * are woken, and their exchanges pull what has arrived. What was taken opens the window again, so
 * that a box that does not read holds its own stream.
 *
 * An answer that says its length may not be whole at the box before its end is on record; where the
 * end comes in a frame of its own, the last byte waits for it here.
 */
#include "proxy/h2_origin.h"

#include "proxy/h2.h"
#include "proxy/pool.h"
#include "proxy/repeats.h"

/* ---- the request ---- */

static void head(struct leg *l, const struct request *r, struct fields *fields)
{
	char length[STR_DECIMAL_MAX];
	struct h2_request h = { .method = r->method, .path = r->target, .fields = fields,
				.scheme = str_of(proto_name(l->up->site.proto)),
				.secrets = r->secrets };

	(void)fields_get(fields, STR("host"), &h.authority);
	if (r->body == BODY_LENGTH)
		fields_add(fields, STR("content-length"), str_decimal(r->length, length));
	l->headed = false;
	l->left = UINT64_MAX;
	l->h2 = h2_request(l->up->h2, l, &h);
}

static void body(struct leg *l, struct str piece)
{
	if (l->h2)
		h2_put(l->h2, piece);
}

static void end(struct leg *l, const struct fields *trailers)
{
	if (l->h2)
		h2_end(l->h2, trailers);
}

static bool full(const struct leg *l)
{
	return l->h2 && h2_full(l->h2);
}

/* ---- the answer ---- */

static bool take_interims(struct leg *l, struct exchange *x)
{
	struct h2_stream *s = l->h2;
	bool moved = false;

	while (s->interims && exchange_wants_answer(x)) {
		struct reply a = { .status = s->interims->status, .fields = &s->interims->fields };

		exchange_answer_head(x, &a);
		h2_drop_interim(s);
		moved = true;
	}
	return moved;
}

/* RFC 9110 6.4.1: neither has an answer to HEAD a body, nor one of these. */
static bool is_bodyless(const struct exchange *x, unsigned status)
{
	return exchange_answers_head(x) || status == 204 || status == 304;
}

static void take_head(struct leg *l, struct exchange *x)
{
	struct h2_stream *s = l->h2;
	bool empty = s->ended && h2_body(s).n == 0;
	struct reply a = { .status = s->head.status, .fields = &s->head.fields,
			   .body = BODY_STREAM };

	l->headed = true;
	if (s->too_large) {
		exchange_answer_failed(x, REFUSAL_response_headers_large, "its head is too large");
		return;
	}
	if (is_bodyless(x, a.status)) {
		a.body = BODY_NONE;
	} else if (s->head.has_length || empty) {
		a.body = BODY_LENGTH;
		a.length = s->head.has_length ? s->head.length : 0;
		l->left = a.length;
	}
	exchange_answer_head(x, &a);
}

static struct str next_piece(const struct leg *l)
{
	struct str piece = h2_body(l->h2);

	if (!l->h2->ended && piece.n && piece.n >= l->left)
		piece.n = l->left - 1;
	return piece;
}

static bool take_body(struct leg *l, struct exchange *x)
{
	struct str piece = next_piece(l);

	if (piece.n == 0)
		return false;
	if (l->left != UINT64_MAX)
		l->left -= piece.n;
	exchange_answer_body(x, piece);
	h2_take(l->h2, piece.n);
	return true;
}

static bool take_end(struct leg *l, struct exchange *x)
{
	struct h2_stream *s = l->h2;

	if (s->ended && h2_body(s).n == 0) {
		exchange_answer_end(x, &s->trailers);
		return true;
	}
	if (!s->reset)
		return false;
	exchange_answer_failed(x, l->headed ? REFUSAL_response_incomplete
					    : REFUSAL_connection_terminated,
			       h2_failed(l->up->h2) ? h2_why(l->up->h2) : "the stream was reset");
	return true;
}

static bool read_answer(struct leg *l, struct exchange *x)
{
	bool moved;

	if (!l->h2) {
		exchange_answer_failed(x, REFUSAL_connection_terminated, "no more streams on the connection");
		return true;
	}
	moved = take_interims(l, x);
	if (l->h2->has_head && !l->headed && exchange_wants_answer(x)) {
		take_head(l, x);
		moved = true;
	}
	/* Refused, or begun again elsewhere. */
	if (!l->h2 || !exchange_wants_answer(x))
		return moved;
	moved |= take_body(l, x);
	return take_end(l, x) || moved;
}

static bool unprocessed(const struct leg *l)
{
	return !l->h2 || l->h2->unprocessed;
}

static void abort_request(struct leg *l)
{
	if (l->h2)
		h2_reset(l->h2, H2_CANCEL);
}

static void leave(struct leg *l)
{
	if (l->h2)
		h2_leave(l->h2);
	l->h2 = NULL;
	pool_touch(l->up);
}

/* ---- the connection ---- */

static void on_moved(void *arg, struct h2_stream *s)
{
	struct leg *l = s->owner;

	(void)arg;
	if (l)
		l->woken = true;
}

static const struct h2_events events = { .moved = on_moved };

static bool open_port(struct upstream *u)
{
	struct h2_setup setup = { .stream = u->stream, .events = &events, .arg = u,
				  .max_headers = u->w->max_headers };

	u->h2 = h2_new(&setup);
	return u->h2 != NULL;
}

static void close_port(struct upstream *u)
{
	h2_free(u->h2);
	u->h2 = NULL;
}

static void look(struct upstream *u)
{
	h2_read(u->h2);
}

static bool has_room(const struct upstream *u)
{
	return h2_can_open(u->h2);
}

/* What was queued has made room: its owners go on in a pass of their own. */
static bool flush(struct upstream *u)
{
	bool wakes = false;

	(void)h2_write(u->h2);
	for (const struct leg *l = u->legs; l; l = l->next)
		wakes |= l->woken;
	return wakes;
}

static bool reusable(const struct leg *l)
{
	return h2_can_open(l->up->h2);
}

const struct origin_ops h2_origin = {
	.shared = true,
	.head = head,
	.body = body,
	.end = end,
	.full = full,
	.read = read_answer,
	.reusable = reusable,
	.unprocessed = unprocessed,
	.abort = abort_request,
	.leave = leave,
	.open = open_port,
	.close = close_port,
	.look = look,
	.has_room = has_room,
	.flush = flush,
};
