/* Theory of operation
 *
 * A head is copied when its owner gives it and goes to nghttp2 with h2_submit(), which knows
 * whether anything follows. nghttp2 is given the strings where they lie (NO_COPY): they stay until
 * the stream is freed, which is not before nghttp2 has closed it, and of a closed stream it sends
 * no head.
 *
 * A body is written by send_body() straight from the stream's buffer into that of the connection,
 * behind its frame's head. A stream that has nothing to send is deferred, and resumed when it
 * stands in the line @queued again. The connection's mark (stream_full()) is asked after each
 * frame.
 */
#include "proxy/h2_state.h"

#define FRAME_HEAD 9u
#define COOKIE_GUESSABLE 20u	/* RFC 7541 7.1.3: shorter ones could be guessed at */
#define FRAMES_MOVED 4u		/* that a peer may well send for one of ours */

/* ---- what is written ---- */

static bool is_for_one_hop(struct str name)
{
	static const struct str names[] = {
		STR_INIT("connection"), STR_INIT("keep-alive"), STR_INIT("proxy-connection"),
		STR_INIT("transfer-encoding"), STR_INIT("upgrade"), STR_INIT("http2-settings"),
	};

	return http_one_of(name, names, sizeof(names) / sizeof(names[0]));
}

/* Names are written in lower case (RFC 9113 8.2). */
static void add_lower(struct fields *to, struct str name, struct str value)
{
	size_t n = to->n;
	char *p;

	fields_add(to, name, value);
	if (to->n == n)
		return;
	p = to->text.p + to->at[n].name;
	for (size_t i = 0; i < name.n; i++)
		p[i] = ascii_lower(p[i]);
}

static void copy_fields(struct fields *to, const struct fields *from)
{
	for (size_t i = 0; from && i < from->n; i++)
		if (!is_for_one_hop(fields_name(from, i)))
			add_lower(to, fields_name(from, i), fields_value(from, i));
}

static bool holds_credential(struct str name, struct str value)
{
	if (str_eq(name, STR("cookie")))
		return value.n < COOKIE_GUESSABLE;
	return str_eq(name, STR("authorization")) || str_eq(name, STR("proxy-authorization"));
}

/* What a head has that is not to be remembered by HPACK, here or there. */
static void note_secrets(struct h2_stream *s, const struct fields *secrets)
{
	const struct fields *f = &s->head_out;

	for (size_t i = 0; i < f->n; i++) {
		struct str name = fields_name(f, i);

		if (holds_credential(name, fields_value(f, i)) ||
		    (secrets && fields_find(secrets, name, 0) < secrets->n))
			s->never_indexed[i / 8] |= (uint8_t)(1 << i % 8);
	}
}

/* What nghttp2 takes: names and values where they lie. */
struct list {
	nghttp2_nv v[FIELDS_MAX];
	size_t n;
};

/* @flags: NGHTTP2_NV_FLAG_*. */
static void put(struct list *l, struct str name, struct str value, uint8_t flags)
{
	l->v[l->n++] = (nghttp2_nv){ .name = (uint8_t *)(uintptr_t)name.p, .namelen = name.n,
				     .value = (uint8_t *)(uintptr_t)value.p, .valuelen = value.n,
				     .flags = flags };
}

#define IN_PLACE (NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE)

static void put_fields(struct list *l, const struct fields *f, uint8_t flags)
{
	l->n = 0;
	for (size_t i = 0; i < f->n; i++)
		put(l, fields_name(f, i), fields_value(f, i), flags);
}

static void put_head(struct list *l, const struct h2_stream *s)
{
	put_fields(l, &s->head_out, IN_PLACE);
	for (size_t i = 0; i < l->n; i++)
		if (s->never_indexed[i / 8] & 1 << i % 8)
			l->v[i].flags |= NGHTTP2_NV_FLAG_NO_INDEX;
}

/* ---- bodies ---- */

static size_t waiting(const struct h2_stream *s)
{
	return s->out.n - s->out_sent;
}

static int submit_trailers(struct h2_stream *s)
{
	static struct list l;

	put_fields(&l, &s->trailers_out, IN_PLACE);
	return nghttp2_submit_trailer(s->h2->ng, s->id, l.v, l.n);
}

static ssize_t read_body(nghttp2_session *ng, int32_t id, uint8_t *to, size_t room, uint32_t *flags,
			 nghttp2_data_source *source, void *arg)
{
	struct h2_stream *s = source->ptr;
	size_t n = waiting(s);

	(void)ng;
	(void)id;
	(void)to;
	(void)arg;
	if (s->held || (n == 0 && !s->end_out)) {
		s->deferred = true;
		return NGHTTP2_ERR_DEFERRED;
	}
	*flags |= NGHTTP2_DATA_FLAG_NO_COPY;
	if (n > room)
		return (ssize_t)room;
	if (s->end_out) {
		*flags |= NGHTTP2_DATA_FLAG_EOF;
		if (s->trailers_out.n && submit_trailers(s) == 0)
			*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
	}
	return (ssize_t)n;
}

static int send_body(nghttp2_session *ng, nghttp2_frame *frame, const uint8_t *head, size_t n,
		     nghttp2_data_source *source, void *arg)
{
	struct h2 *h = arg;
	struct h2_stream *s = source->ptr;
	struct buf *to = stream_out(h->set.stream);

	(void)ng;
	(void)frame;
	buf_put(to, head, FRAME_HEAD);
	buf_put(to, s->out.p + s->out_sent, n);
	s->out_sent += n;
	if (s->out_sent == s->out.n && n)
		h2_drained(&s->out, &s->out_sent);
	if (s->full && waiting(s) <= H2_OUT_LOW) {
		s->full = false;
		h2_stir(s);
	}
	h2_flood_moved(&h->flood, FRAMES_MOVED);
	return stream_full(h->set.stream) ? NGHTTP2_ERR_PAUSE : 0;
}

/* ---- what has gone ---- */

static int on_sent(nghttp2_session *ng, const nghttp2_frame *frame, void *arg)
{
	struct h2 *h = arg;
	struct h2_stream *s = NULL;

	if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR) {
		h2_fail(h, (enum h2_code)frame->goaway.error_code,
			h->why[0] ? h->why : nghttp2_http2_strerror(frame->goaway.error_code));
		h->told_goaway = true;
		return 0;
	}
	if (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA)
		s = nghttp2_session_get_stream_user_data(ng, frame->hd.stream_id);
	if (!s)
		return 0;
	s->sent = true;
	if (!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
		return 0;
	s->ended_out = true;
	if (h->set.server && s->left && !s->ended)
		h2_linger(s);
	return 0;
}

/* A head that is too large for its frame, for one. A request's stream is closed by nghttp2. */
static int on_not_sent(nghttp2_session *ng, const nghttp2_frame *frame, int error, void *arg)
{
	struct h2 *h = arg;

	(void)error;
	if (frame->hd.type == NGHTTP2_HEADERS && h->set.server)
		(void)nghttp2_submit_rst_stream(ng, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
						NGHTTP2_INTERNAL_ERROR);
	return 0;
}

void h2_send_callbacks(nghttp2_session_callbacks *c)
{
	nghttp2_session_callbacks_set_send_data_callback(c, send_body);
	nghttp2_session_callbacks_set_on_frame_send_callback(c, on_sent);
	nghttp2_session_callbacks_set_on_frame_not_send_callback(c, on_not_sent);
}

/* ---- heads ---- */

static void close_unsent(struct h2_stream *s)
{
	s->reset = s->unprocessed = true;
	s->code = H2_INTERNAL_ERROR;
	h2_stream_closed(s);
}

static void submit_head(struct h2 *h, struct h2_stream *s)
{
	static struct list l;
	nghttp2_data_provider body = { .source.ptr = s, .read_callback = read_body };
	bool whole = s->end_out && waiting(s) == 0 && s->trailers_out.n == 0 && !s->held;
	int32_t r;

	s->head_waits = false;
	put_head(&l, s);
	if (h->set.server) {
		r = nghttp2_submit_response(h->ng, s->id, l.v, l.n, whole ? NULL : &body);
	} else {
		r = nghttp2_submit_request(h->ng, NULL, l.v, l.n, whole ? NULL : &body, s);
		s->id = r > 0 ? r : 0;
	}
	if (r >= 0)
		s->submitted = true;
	else if (h->set.server)
		h2_reset(s, H2_INTERNAL_ERROR);
	else
		close_unsent(s);
}

static void submit_one(struct h2 *h, struct h2_stream *s)
{
	if (s->closed || s->reset_out)
		return;
	if (s->head_waits) {
		submit_head(h, s);
	} else if (s->deferred && !s->held && (waiting(s) || s->end_out)) {
		s->deferred = false;
		(void)nghttp2_session_resume_data(h->ng, s->id);
	}
}

void h2_submit(struct h2 *h)
{
	struct h2_stream *s = h->queued.first, *next;

	h->queued.first = NULL;
	h->queued.last = &h->queued.first;
	for (; s; s = next) {
		next = s->next_queued;
		s->queued = false;
		submit_one(h, s);
		h2_stream_sweep(s);
	}
}

/* ---- for owners ---- */

struct h2_stream *h2_request(struct h2 *h, void *owner, const struct h2_request *r)
{
	struct h2_stream *s = h2_can_open(h) ? h2_stream_new(h) : NULL;
	struct fields *f;

	if (!s)
		return NULL;
	s->owner = owner;
	f = &s->head_out;
	fields_add(f, STR(":method"), r->method);
	if (r->scheme.p)
		fields_add(f, STR(":scheme"), r->scheme);
	fields_add(f, STR(":authority"), r->authority);
	if (r->path.p)
		fields_add(f, STR(":path"), r->path);
	if (r->protocol.p)
		fields_add(f, STR(":protocol"), r->protocol);
	copy_fields(f, r->fields);
	fields_remove(f, STR("host"));
	note_secrets(s, r->secrets);
	s->head_waits = true;
	h2_queue(s);
	if (fields_failed(f))
		close_unsent(s);
	return s;
}

static void put_status(struct fields *f, unsigned status)
{
	char digits[STR_DECIMAL_MAX];

	fields_add(f, STR(":status"), str_decimal(status, digits));
}

void h2_send_interim(struct h2_stream *s, unsigned status, const struct fields *fields)
{
	static struct list l;
	struct fields f;

	if (s->closed || s->reset_out || s->submitted || s->head_waits)
		return;
	fields_init(&f, s->head_out.text.max);
	put_status(&f, status);
	copy_fields(&f, fields);
	put_fields(&l, &f, NGHTTP2_NV_FLAG_NONE);
	if (!fields_failed(&f))
		(void)nghttp2_submit_headers(s->h2->ng, NGHTTP2_FLAG_NONE, s->id, NULL, l.v, l.n,
					     NULL);
	fields_free(&f);
}

void h2_answer(struct h2_stream *s, unsigned status, const struct fields *fields)
{
	if (s->submitted || s->head_waits)
		return;
	put_status(&s->head_out, status);
	copy_fields(&s->head_out, fields);
	note_secrets(s, NULL);
	s->head_waits = true;
	h2_queue(s);
	if (fields_failed(&s->head_out))
		h2_reset(s, H2_INTERNAL_ERROR);
}

void h2_put(struct h2_stream *s, struct str piece)
{
	if (s->closed || s->reset_out || piece.n == 0)
		return;
	if (s->out_sent > waiting(s)) {
		buf_drop(&s->out, s->out_sent);
		s->out_sent = 0;
	}
	buf_put_str(&s->out, piece);
	if (s->out.failed)
		h2_reset(s, H2_INTERNAL_ERROR);
	h2_queue(s);
}

bool h2_full(struct h2_stream *s)
{
	if (waiting(s) >= H2_OUT_HIGH)
		s->full = true;
	return s->full;
}

void h2_end(struct h2_stream *s, const struct fields *trailers)
{
	if (s->end_out)
		return;
	s->end_out = true;
	copy_fields(&s->trailers_out, trailers);
	if (fields_failed(&s->trailers_out))
		h2_reset(s, H2_INTERNAL_ERROR);
	h2_queue(s);
}

void h2_hold(struct h2_stream *s, bool hold)
{
	s->held = hold;
	if (!hold)
		h2_queue(s);
}

void h2_reset(struct h2_stream *s, uint32_t code)
{
	if (s->closed || s->reset_out)
		return;
	s->reset_out = true;
	h2_drained(&s->out, &s->out_sent);
	if (!s->h2->set.server && !s->submitted)
		h2_stream_closed(s);
	else
		(void)nghttp2_submit_rst_stream(s->h2->ng, NGHTTP2_FLAG_NONE, s->id, code);
}

/* A client's answer that is whole, or a server's that was given, is not broken off. */
static void end_with_owner(struct h2_stream *s)
{
	if (!s->h2->set.server) {
		if (!s->end_out || !s->ended)
			h2_reset(s, H2_CANCEL);
	} else if (!s->end_out) {
		h2_reset(s, H2_INTERNAL_ERROR);
	} else if (s->ended_out && !s->ended) {
		h2_linger(s);
	}
}

void h2_leave(struct h2_stream *s)
{
	if (s->left)
		return;
	h2_take(s, h2_body(s).n);
	s->left = true;
	s->owner = NULL;
	h2_hold(s, false);
	if (!s->closed)
		end_with_owner(s);
	h2_stream_sweep(s);
}
