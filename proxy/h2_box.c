/* Theory of operation
 *
 * Within a pass the session is read first: that puts the streams that something has come for into
 * the line. Each that stands there is run as far as it goes; then frames are written, which makes
 * room in streams that were full and puts them into the line again. The pass is over when the line
 * is empty; it ends in any case, since what was read is finite and what is written stops at the
 * connection's mark.
 *
 * Between passes exchanges are woken by origins and by answers to questions. Each wake puts one
 * into the line and activates one event: however many are woken by one read of an origin's
 * connection, there is one pass, one write and one TLS record for them.
 *
 * Limits of time are looked for when the earliest may have come, not at every move: @due never is
 * later than the earliest, and is made exact when it is reached.
 */
#include "proxy/h2_box.h"

#include <event2/event.h>
#include <stdlib.h>

#include "proxy/clock.h"
#include "proxy/pool.h"

#define PIECE_MAX 16384u	/* of a request's body: the origin's mark is asked after each */

struct h2_box {
	struct h2_boxes *all;
	struct h2_stream *s;
	struct exchange *x;
	struct exchange_env env;
	struct h2_box *next, **link;
	struct h2_box *next_ready;
	bool ready, over, request_ended, waits;
};

struct h2_boxes {
	struct h2_boxes_setup set;
	struct h2 *h2;
	struct h2_box *first;
	size_t n;
	struct h2_box *ready, **last_ready;
	struct event *wake;
	bool at_work, waits;
	uint64_t due, in_head_since;
};

/* ---- the line ---- */

static void make_ready(struct h2_box *b)
{
	struct h2_boxes *all = b->all;

	if (b->ready)
		return;
	b->ready = true;
	b->next_ready = NULL;
	*all->last_ready = b;
	all->last_ready = &b->next_ready;
}

static struct h2_box *take_ready(struct h2_boxes *all)
{
	struct h2_box *b = all->ready;

	if (!b)
		return NULL;
	all->ready = b->next_ready;
	if (!all->ready)
		all->last_ready = &all->ready;
	b->ready = false;
	return b;
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct h2_boxes *all = arg;

	(void)fd;
	(void)what;
	all->set.pump(all->set.arg);
}

static void wake(void *arg)
{
	struct h2_box *b = arg;

	make_ready(b);
	if (!b->all->at_work && b->all->wake)
		event_active(b->all->wake, EV_TIMEOUT, 0);
}

/* ---- the answer ---- */

static void interim(void *port, const struct reply *a)
{
	const struct h2_box *b = port;

	h2_send_interim(b->s, a->status, a->fields);
}

static void head(void *port, const struct reply *a)
{
	const struct h2_box *b = port;
	char length[STR_DECIMAL_MAX];

	if (a->body != BODY_NONE || a->status == 204)
		fields_remove(a->fields, STR("content-length"));
	if (a->body == BODY_LENGTH)
		fields_add(a->fields, STR("content-length"), str_decimal(a->length, length));
	h2_answer(b->s, a->status, a->fields);
}

static void body(void *port, struct str piece)
{
	const struct h2_box *b = port;

	h2_put(b->s, piece);
}

static void end(void *port, const struct fields *trailers)
{
	const struct h2_box *b = port;

	h2_end(b->s, trailers);
}

static void abort_answer(void *port)
{
	const struct h2_box *b = port;

	h2_reset(b->s, H2_INTERNAL_ERROR);
}

static bool full(void *port)
{
	const struct h2_box *b = port;

	return h2_full(b->s);
}

static void hold(void *port, bool on)
{
	const struct h2_box *b = port;

	h2_hold(b->s, on);
}

static const struct box_ops h2_box_ops = {
	.interim = interim,
	.head = head,
	.body = body,
	.end = end,
	.abort = abort_answer,
	.full = full,
	.hold = hold,
};

/* ---- the request ---- */

/* Such a request says how long its body is, even where it has none (RFC 9110 8.6). */
static bool expects_body(struct str method)
{
	return str_eq(method, STR("POST")) || str_eq(method, STR("PUT")) ||
	       str_eq(method, STR("PATCH"));
}

/* What came with its head, or will come. All of a body that is there can be counted: an origin that
 * speaks HTTP/1.1 may know no chunks. */
static void set_body(const struct h2_stream *s, struct request *r)
{
	size_t n = h2_body(s).n;

	if (s->head.has_length) {
		r->body = BODY_LENGTH;
		r->length = s->head.length;
	} else if (!s->ended || s->trailers.n) {
		r->body = BODY_STREAM;
	} else if (n || expects_body(r->method)) {
		r->body = BODY_LENGTH;
		r->length = n;
	}
}

/* :authority and Host are one (RFC 9113 8.3.1); what it must be is the exchange's to say. */
static bool set_host(struct h2_head *h)
{
	struct str host;

	if (!h->authority.p)
		return true;
	if (fields_get(&h->fields, STR("host"), &host) && !str_eq_nocase(host, h->authority))
		return false;
	fields_remove(&h->fields, STR("host"));
	fields_add(&h->fields, STR("host"), h->authority);
	return true;
}

static bool is_scheme(const struct h2_box *b, struct str scheme)
{
	return str_eq_nocase(scheme, b->env.site.proto == PROTO_HTTPS ? STR("https") : STR("http"));
}

static bool has_forbidden_trailer(const struct fields *trailers)
{
	for (size_t i = 0; i < trailers->n; i++)
		if (http_forbidden_in_trailer(fields_name(trailers, i)))
			return true;
	return false;
}

/* What makes it a request that is refused. */
static void judge_form(struct h2_box *b, const struct request *r, bool one_host)
{
	const struct h2_head *h = &b->s->head;
	struct str expect;

	if (b->s->too_large)
		exchange_malformed(b->x, REFUSAL_headers_too_large, "");
	else if (h->protocol.p)
		exchange_malformed(b->x, REFUSAL_not_implemented, "extended CONNECT");
	else if (!one_host)
		exchange_malformed(b->x, REFUSAL_bad_request, "Host is not :authority");
	else if (h->scheme.p && !is_scheme(b, h->scheme))
		exchange_malformed(b->x, REFUSAL_host_mismatch, "the scheme is not the connection's");
	else if (fields_get(r->fields, STR("expect"), &expect) && !r->expect_continue)
		exchange_malformed(b->x, REFUSAL_expectation_failed,
				   "an expectation that is not met here");
}

static void begin(struct h2_box *b)
{
	struct h2_head *h = &b->s->head;
	bool one_host = set_host(h);
	struct str expect;
	struct request r = { .method = h->method, .target = h->path.p ? h->path : h->authority,
			     .minor = 1, .fields = &h->fields };

	r.expect_continue = fields_get(&h->fields, STR("expect"), &expect) &&
			    str_eq_nocase(expect, STR("100-continue"));
	set_body(b->s, &r);
	exchange_begin(b->x, &r);
	judge_form(b, &r, one_host);
	/* One without a body is whole now. */
	if (b->s->ended && h2_body(b->s).n == 0 && b->s->trailers.n == 0) {
		b->request_ended = true;
		exchange_request_end(b->x, NULL);
	}
}

static void on_opened(void *arg, struct h2_stream *s)
{
	struct h2_boxes *all = arg;
	struct h2_box *b = calloc(1, sizeof(*b));

	if (b) {
		b->env = *all->set.env;
		b->env.box = &h2_box_ops;
		b->env.box_port = b->env.wake_arg = b;
		b->env.wake = wake;
		b->x = exchange_new(&b->env);
	}
	if (!b || !b->x) {
		free(b);
		h2_reset(s, H2_REFUSED_STREAM);
		h2_leave(s);
		return;
	}
	b->all = all;
	b->s = s;
	s->owner = b;
	b->next = all->first;
	b->link = &all->first;
	if (b->next)
		b->next->link = &b->next;
	all->first = b;
	all->n++;
	begin(b);
	make_ready(b);
}

static void on_moved(void *arg, struct h2_stream *s)
{
	(void)arg;
	make_ready(s->owner);
}

static const struct h2_events events = { .opened = on_opened, .moved = on_moved };

static void end_request(struct h2_box *b)
{
	b->request_ended = true;
	if (has_forbidden_trailer(&b->s->trailers))
		exchange_malformed(b->x, REFUSAL_bad_request, "a field that must not be a trailer");
	else
		exchange_request_end(b->x, b->s->trailers.n ? &b->s->trailers : NULL);
}

/* Feeds the request as far as it is there and wanted. True when something moved. */
static bool feed(struct h2_box *b)
{
	bool moved = false;
	struct str in;

	if (b->s->reset) {
		exchange_abandon(b->x, "reset by the client");
		return true;
	}
	while (!b->request_ended && exchange_wants_body(b->x)) {
		in = h2_body(b->s);
		if (in.n == 0 && !b->s->ended)
			break;
		in.n = in.n < PIECE_MAX ? in.n : PIECE_MAX;
		if (in.n)
			exchange_request_body(b->x, in);
		else
			end_request(b);
		h2_take(b->s, in.n);
		moved = true;
	}
	return moved;
}

/* ---- going on ---- */

static void release(struct h2_box *b)
{
	if (!b->ready)
		free(b);
}

static void finish(struct h2_box *b)
{
	exchange_free(b->x);
	b->x = NULL;
	b->over = true;
	h2_leave(b->s);
	*b->link = b->next;
	if (b->next)
		b->next->link = b->link;
	b->all->n--;
	release(b);
}

static void note_deadline(struct h2_boxes *all, uint64_t at)
{
	if (at && (all->due == 0 || at < all->due))
		all->due = at;
}

static void run(struct h2_box *b)
{
	struct h2_boxes *all = b->all;
	struct upstream *up;
	bool moved = true, clean, over = false;

	while (moved && !over) {
		moved = feed(b);
		moved |= exchange_step(b->x);
		over = exchange_over(b->x, &clean);
	}
	if (all->set.ran)
		all->set.ran(all->set.arg, b->x);
	up = exchange_upstream(b->x);
	if (up)
		pool_touch(up);
	if (over) {
		finish(b);
		return;
	}
	b->waits = exchange_waits_for_room(b->x);
	all->waits |= b->waits;
	note_deadline(all, exchange_deadline(b->x));
}

static void run_ready(struct h2_boxes *all)
{
	struct h2_box *b;

	while ((b = take_ready(all)))
		if (b->over)
			release(b);
		else
			run(b);
}

/* Those that have waited for room look again: a pass is made when there is some, too. */
static void wake_waiting(struct h2_boxes *all)
{
	if (!all->waits)
		return;
	all->waits = false;
	for (struct h2_box *b = all->first; b; b = b->next)
		if (b->waits)
			make_ready(b);
}

static void note_head(struct h2_boxes *all)
{
	if (!h2_in_head(all->h2))
		all->in_head_since = 0;
	else if (!all->in_head_since)
		all->in_head_since = clock_ms();
}

bool h2_boxes_pass(struct h2_boxes *all)
{
	bool moved = stream_in(all->set.stream).n > 0;

	all->at_work = true;
	wake_waiting(all);
	h2_read(all->h2);
	do {
		run_ready(all);
		moved |= h2_write(all->h2);
	} while (all->ready);
	note_head(all);
	all->at_work = false;
	return moved;
}

/* ---- what is known of them ---- */

bool h2_boxes_wait_for_room(const struct h2_boxes *all)
{
	return all->waits;
}

bool h2_boxes_ended(const struct h2_boxes *all, const char **why)
{
	*why = h2_failed(all->h2) ? h2_why(all->h2) : "";
	return h2_over(all->h2);
}

size_t h2_boxes_count(const struct h2_boxes *all)
{
	return all->n;
}

uint64_t h2_boxes_in_head_since(const struct h2_boxes *all)
{
	return all->in_head_since;
}

uint64_t h2_boxes_deadline(const struct h2_boxes *all)
{
	uint64_t at = h2_deadline(all->h2);

	return at && (all->due == 0 || at < all->due) ? at : all->due;
}

/* ---- from the connection ---- */

void h2_boxes_timeout(struct h2_boxes *all)
{
	uint64_t now = clock_ms();

	all->due = 0;
	for (struct h2_box *b = all->first; b; b = b->next) {
		uint64_t at = exchange_deadline(b->x);

		if (at && at <= now) {
			exchange_timeout(b->x);
			make_ready(b);
		} else {
			note_deadline(all, at);
		}
	}
}

void h2_boxes_new_policy(struct h2_boxes *all)
{
	for (struct h2_box *b = all->first; b; b = b->next) {
		exchange_new_policy(b->x);
		make_ready(b);
	}
}

void h2_boxes_goodbye(struct h2_boxes *all)
{
	h2_goaway(all->h2, H2_NO_ERROR);
	(void)h2_write(all->h2);
}

void h2_boxes_close(struct h2_boxes *all, const char *how)
{
	event_free(all->wake);
	all->wake = NULL;
	for (struct h2_box *b = all->first; b; b = b->next)
		exchange_abandon(b->x, how);
}

bool h2_boxes_bury(struct h2_boxes *all)
{
	bool clean;

	for (struct h2_box *b = all->first, *next; b; b = next) {
		next = b->next;
		(void)exchange_step(b->x);
		if (exchange_over(b->x, &clean))
			finish(b);
	}
	return all->n == 0;
}

/* ---- life ---- */

struct h2_boxes *h2_boxes_new(const struct h2_boxes_setup *setup)
{
	struct h2_boxes *all = calloc(1, sizeof(*all));
	struct h2_setup h2 = { .server = true, .stream = setup->stream, .events = &events,
			       .arg = all, .max_headers = setup->max_headers };

	if (!all)
		return NULL;
	all->set = *setup;
	all->last_ready = &all->ready;
	all->wake = event_new(setup->env->w->base, -1, 0, on_wake, all);
	all->h2 = h2_new(&h2);
	if (!all->wake || !all->h2) {
		h2_boxes_free(all);
		return NULL;
	}
	return all;
}

void h2_boxes_free(struct h2_boxes *all)
{
	if (!all)
		return;
	while (all->first)
		finish(all->first);
	while (all->ready)
		release(take_ready(all));
	if (all->wake)
		event_free(all->wake);
	h2_free(all->h2);
	free(all);
}
