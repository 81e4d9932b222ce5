/* Theory of operation
 *
 * One connection to the notice page, HTTP/1.0 or 1.1: requests one after the other, what a client
 * pipelines waits in the stream. Three states:
 *
 *   READ    a request comes in; it is answered when it is whole
 *   ASK     its answer waits for another role's; nothing more is read
 *   DRAIN   nothing new: the last bytes go out, the peer's end is waited for (RFC 9112 9.6)
 *
 * Every event ends in notice_connection_pump(), which may free the connection: it is called from
 * the event loop only, and nothing of it is touched afterwards. One deadline holds in each state;
 * the timer is set to it after each pass.
 */
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>

#include "proxy/clock.h"
#include "proxy/http1.h"
#include "proxy/notice_state.h"
#include "proxy/stream.h"

#define DRAIN_MS 2000u
#define TARGET_MAX 16384u	/* of a request: a URL, percent-encoded whole, fits */
#define REPLY_FIELDS_MAX 4096u

enum state { READ, ASK, DRAIN };

struct notice_connection {
	struct notice *n;
	struct notice_connection *next, **link;
	struct stream *stream;
	struct http1_parser *parser;
	struct event *timer;
	enum state state;
	uint64_t deadline;
	bool over, begun, sent;
	bool once;			/* it ends with its first answer */
	/* the request */
	bool head_seen, keep, head_only;
	unsigned minor;
	struct buf method, target, body;
	struct fields fields;
	struct notice_reply reply;
	ask_id ask;
};

static void set_deadline(struct notice_connection *c, uint32_t ms)
{
	c->deadline = clock_ms() + ms;
}

/* ---- the answer ---- */

static void put_fields(const struct notice_connection *c, struct fields *f)
{
	const struct notice_reply *r = &c->reply;
	char number[24];

	fields_add(f, STR("content-type"), str_of(r->type));
	snprintf(number, sizeof(number), "%zu", r->body.n);
	fields_add(f, STR("content-length"), str_of(number));
	fields_add(f, STR("cache-control"), STR("no-store"));
	fields_add(f, STR("x-content-type-options"), STR("nosniff"));
	if (r->allow)
		fields_add(f, STR("allow"), str_of(r->allow));
	if (r->retry_after) {
		snprintf(number, sizeof(number), "%u", r->retry_after);
		fields_add(f, STR("retry-after"), str_of(number));
	}
	if (!c->keep)
		fields_add(f, STR("connection"), STR("close"));
	else if (c->minor == 0)
		fields_add(f, STR("connection"), STR("keep-alive"));
}

static void send_reply(struct notice_connection *c)
{
	struct notice_reply *r = &c->reply;
	struct buf *out = stream_out(c->stream);
	struct fields f;

	if (r->body.failed)
		notice_problem(r, 503, "there is no memory for the answer");
	fields_init(&f, REPLY_FIELDS_MAX);
	put_fields(c, &f);
	http1_write_response(out, r->status, str_of(http1_reason(r->status)), &f);
	if (!c->head_only)
		buf_put_str(out, buf_str(&r->body));
	c->over |= fields_failed(&f) || out->failed;
	fields_free(&f);
}

static void start_drain(struct notice_connection *c)
{
	c->state = DRAIN;
	set_deadline(c, NOTICE_IDLE_MS);
	stream_finish(c->stream);
}

static struct str path_of(const struct notice_connection *c)
{
	struct str target = buf_str(&c->target);

	return http1_split_target(buf_str(&c->method), target).path;
}

/* The reply is ready: it goes out, and the next request may come. */
static void finish(struct notice_connection *c)
{
	notice_record(c->n, buf_str(&c->method), path_of(c), &c->reply);
	send_reply(c);
	notice_reply_free(&c->reply);
	notice_reply_init(&c->reply);
	c->method.n = c->target.n = c->body.n = 0;
	fields_clear(&c->fields);
	c->head_seen = c->begun = c->head_only = false;
	if (!c->keep) {
		start_drain(c);
		return;
	}
	http1_next(c->parser, false);
	c->state = READ;
	set_deadline(c, NOTICE_IDLE_MS);
}

/* It cannot be read, or not to its end: the connection ends with the answer. */
static void finish_broken(struct notice_connection *c, unsigned status, const char *why)
{
	c->keep = false;
	c->reply.refused = REFUSAL_bad_request;
	notice_problem(&c->reply, status, why);
	finish(c);
}

/* ---- questions to other roles ---- */

static void on_leaf(void *arg, const struct msg_leaf_is *answer)
{
	struct notice_connection *c = arg;

	c->ask = 0;
	notice_answer_ca(c->n, answer->ca, &c->reply);
	finish(c);
	notice_connection_pump(c);
}

static void on_access(void *arg, const struct msg_access_taken *answer)
{
	struct notice_connection *c = arg;

	c->ask = 0;
	notice_answer_access(answer, &c->reply);
	finish(c);
	notice_connection_pump(c);
}

/* The broker sends its certificate along with a refusal, too: no leaf is wanted. */
static void ask(struct notice_connection *c)
{
	const struct params *p = &c->reply.params;

	if (c->reply.wait == WAIT_CA)
		c->ask = ask_leaf(c->n->w, STR(NOTICE_NAME), false, on_leaf, c);
	else
		c->ask = ask_access(c->n->w, params_get(p, "method"), params_get(p, "url"),
				    params_get(p, "reason"), on_access, c);
	if (c->ask) {
		c->state = ASK;
		return;
	}
	notice_problem(&c->reply, 503, "too much waits for an answer");
	finish(c);
}

/* ---- the request ---- */

static void answer(struct notice_connection *c)
{
	struct http1_target t = http1_split_target(buf_str(&c->method), buf_str(&c->target));
	struct notice_request q = { .method = buf_str(&c->method), .path = t.path,
				    .query = t.query.n ? str_from(t.query, 1) : STR_NONE,
				    .body = buf_str(&c->body), .fields = &c->fields };
	unsigned wait_s;

	if (!notice_allowed(&c->n->requests, NOTICE_PER_SECOND * 60, NOTICE_BURST, &wait_s)) {
		c->reply.retry_after = wait_s;
		notice_problem(&c->reply, 429, "too many requests at once");
	} else if (t.form == TARGET_ABSOLUTE && !str_eq_nocase(t.scheme, STR("http"))) {
		notice_problem(&c->reply, 421, "this page is plain http");
	} else if (t.form != TARGET_ORIGIN && t.form != TARGET_ABSOLUTE) {
		notice_problem(&c->reply, 400, "the request's target is no path");
	} else {
		notice_answer(c->n, &q, &c->reply);
	}
	if (c->reply.wait == WAIT_NONE)
		finish(c);
	else
		ask(c);
}

/* An absolute target says once more which host is meant, and then that counts (RFC 9112 3.2.2). */
static void take_host(struct notice_connection *c)
{
	struct http1_target t = http1_split_target(buf_str(&c->method), buf_str(&c->target));

	if (t.form != TARGET_ABSOLUTE)
		return;
	fields_remove(&c->fields, STR("host"));
	fields_add(&c->fields, STR("host"), t.authority);
}

static void take_head(struct notice_connection *c)
{
	const struct http1_head *h = http1_head(c->parser);

	c->head_seen = true;
	c->keep = h->keep_alive && !c->once;
	c->minor = h->minor;
	c->head_only = str_eq(h->method, STR("HEAD"));
	buf_put_str(&c->method, h->method);
	buf_put_str(&c->target, h->target);
	for (size_t i = 0; i < h->fields->n; i++)
		fields_add(&c->fields, fields_name(h->fields, i), fields_value(h->fields, i));
	take_host(c);
	if (c->method.failed || c->target.failed)
		finish_broken(c, 414, "the request's target is too long");
	else if (fields_failed(&c->fields))
		finish_broken(c, 431, "the request's fields are too long");
	else if (h->framing == H1_LENGTH && h->length > NOTICE_BODY_MAX)
		finish_broken(c, 413, "the request's body is too long");
	else if (h->expect_continue && h->framing != H1_NO_BODY)
		buf_put_str(stream_out(c->stream), STR("HTTP/1.1 100 Continue\r\n\r\n"));
}

static void take_body(struct notice_connection *c, struct str piece)
{
	buf_put_str(&c->body, piece);
	if (c->body.failed)
		finish_broken(c, 413, "the request's body is too long");
}

/* One event of the parser's. False: there is nothing more to do now. */
static bool read_some(struct notice_connection *c)
{
	struct str in = stream_in(c->stream);
	size_t had = in.n;
	/* The end of a request without a body comes after its last byte. */
	enum http1_event e = had || c->head_seen ? http1_read(c->parser, &in) : H1_MORE;

	switch (e) {
	case H1_MORE:
	case H1_TRAILERS:
		break;
	case H1_HEAD:
		take_head(c);
		break;
	case H1_BODY:
		take_body(c, http1_body(c->parser));
		break;
	case H1_END:
		answer(c);
		break;
	case H1_ERROR:
		finish_broken(c, http1_status(c->parser), http1_error(c->parser));
		break;
	}
	if (!c->begun && c->state == READ && http1_begun(c->parser)) {
		c->begun = true;
		set_deadline(c, NOTICE_REQUEST_MS);
	}
	stream_take(c->stream, had - in.n);
	return e != H1_MORE;
}

/* ---- the pass ---- */

static void look_read(struct notice_connection *c)
{
	bool clean;

	while (c->state == READ && !c->over && !stream_full(c->stream) && read_some(c))
		;
	if (c->state != READ)
		return;
	if (stream_failed(c->stream))
		c->over = true;
	else if (stream_ended(c->stream, &clean) && !stream_full(c->stream))
		start_drain(c);
}

static void look_drain(struct notice_connection *c)
{
	bool clean;

	stream_take(c->stream, stream_in(c->stream).n);
	if (!c->sent && stream_finished(c->stream)) {
		c->sent = true;
		set_deadline(c, DRAIN_MS);
	}
	if (stream_failed(c->stream) ||
	    (stream_finished(c->stream) && stream_ended(c->stream, &clean)))
		c->over = true;
}

static void arm(struct notice_connection *c)
{
	uint64_t now = clock_ms(), in = c->deadline > now ? c->deadline - now : 0;
	struct timeval tv = { .tv_sec = (time_t)(in / 1000),
			      .tv_usec = (suseconds_t)(in % 1000) * 1000 };

	/* A question has its own time; its failure is an answer, too. */
	if (c->state == ASK)
		event_del(c->timer);
	else
		event_add(c->timer, &tv);
}

void notice_connection_pump(struct notice_connection *c)
{
	if (c->state == READ)
		look_read(c);
	if (c->state == DRAIN)
		look_drain(c);
	if (c->over) {
		notice_connection_free(c);
		return;
	}
	stream_settle(c->stream);
	arm(c);
}

static void wake(void *arg)
{
	notice_connection_pump(arg);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct notice_connection *c = arg;

	(void)fd;
	(void)what;
	if (c->state == READ && c->begun)
		finish_broken(c, 408, "the request was not complete in time");
	else if (c->state == READ && stream_queued(c->stream) == 0)
		start_drain(c);
	else
		c->over = true;
	notice_connection_pump(c);
}

/* ---- life ---- */

/* Takes the stream over. */
static struct notice_connection *make(struct notice *n, struct stream *stream)
{
	struct notice_connection *c = stream ? calloc(1, sizeof(*c)) : NULL;

	if (!c) {
		stream_free(stream);
		return NULL;
	}
	c->n = n;
	c->next = n->first;
	c->link = &n->first;
	if (c->next)
		c->next->link = &c->next;
	n->first = c;
	n->n++;
	buf_init(&c->method, TARGET_MAX);
	buf_init(&c->target, TARGET_MAX);
	buf_init(&c->body, NOTICE_BODY_MAX);
	fields_init(&c->fields, HTTP1_HEADERS_MAX);
	notice_reply_init(&c->reply);
	set_deadline(c, NOTICE_IDLE_MS);
	c->stream = stream;
	stream_belongs_to(stream, wake, c);
	c->parser = http1_new(false, n->w->max_headers);
	c->timer = event_new(n->w->base, -1, EV_TIMEOUT, on_timer, c);
	if (c->parser && c->timer)
		return c;
	notice_connection_free(c);
	return NULL;
}

struct notice_connection *notice_connection_new(struct notice *n, int fd)
{
	return make(n, stream_new(n->w->base, fd, wake, NULL));
}

struct notice_connection *notice_connection_adopt(struct notice *n, struct stream *stream)
{
	struct notice_connection *c = make(n, stream);

	if (c)
		c->once = true;
	return c;
}

void notice_connection_free(struct notice_connection *c)
{
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	c->n->n--;
	if (c->ask)
		ask_cancel(c->n->w, c->ask);
	if (c->timer)
		event_free(c->timer);
	stream_free(c->stream);
	http1_free(c->parser);
	notice_reply_free(&c->reply);
	buf_free(&c->method);
	buf_free(&c->target);
	buf_free(&c->body);
	fields_free(&c->fields);
	free(c);
}
