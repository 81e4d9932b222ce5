/* Theory of operation
 *
 * What nghttp2 tells while it reads. A head comes field by field; only one can be under way on a
 * connection (RFC 9113 4.3), so what is gathered for it stands in the session. Its bytes are
 * counted before they are kept: over the limit only the count goes on, up to HEAD_LONGEST times
 * the limit, where the session ends. The head must be decoded in any case, since it changes the
 * state of HPACK.
 *
 * nghttp2 has checked each field (RFC 9113 8.2, 8.3): lower-case names that are tokens, values
 * without control bytes and without space at their ends, each pseudo field once and at its place,
 * no connection-specific field, one Content-Length, as long as the body then is. What it would
 * pass over in silence is an error here: on_invalid_field().
 */
#include <stdlib.h>

#include "proxy/clock.h"
#include "proxy/h2_state.h"

#define HEAD_LONGEST 16u	/* times the limit: a head that is only there to be decoded */
#define FIELD_OVERHEAD 32u	/* RFC 9113 6.5.2 */
#define FRAMES_MOVED 4u		/* that may belong to one piece of a body, or to a head */

static struct h2_stream *stream_of(nghttp2_session *ng, int32_t id)
{
	return id ? nghttp2_session_get_stream_user_data(ng, id) : NULL;
}

/* For nghttp2: go on, or end the session with what was noted. */
static int verdict(const struct h2 *h)
{
	return h->failed ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

/* ---- floods ---- */

static bool moves_something(const nghttp2_frame_hd *hd)
{
	if (hd->type == NGHTTP2_DATA)
		return hd->length > 0 || hd->flags & NGHTTP2_FLAG_END_STREAM;
	return hd->type == NGHTTP2_HEADERS || hd->type == NGHTTP2_GOAWAY;
}

static int on_begin_frame(nghttp2_session *ng, const nghttp2_frame_hd *hd, void *arg)
{
	struct h2 *h = arg;

	(void)ng;
	if (moves_something(hd)) {
		if (hd->type == NGHTTP2_DATA)
			h2_flood_moved(&h->flood, FRAMES_MOVED);
	} else if (!h2_flood_frame(&h->flood, clock_ms())) {
		h2_fail(h, H2_ENHANCE_YOUR_CALM, "a flood of frames that move nothing");
	}
	return verdict(h);
}

/* A stream that came to nothing. An origin breaks off as it likes: it is asked for each. */
static void count_break(struct h2 *h)
{
	if (h->set.server && !h2_flood_break(&h->flood, clock_ms()))
		h2_fail(h, H2_ENHANCE_YOUR_CALM, "too many streams broken off");
}

static int on_invalid_frame(nghttp2_session *ng, const nghttp2_frame *frame, int error, void *arg)
{
	(void)ng;
	(void)frame;
	(void)error;
	count_break(arg);
	return verdict(arg);
}

/* ---- heads ---- */

static bool is_request(const struct h2 *h, const nghttp2_frame *frame)
{
	return h->set.server && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
}

/* Streams take turns: who asked for much does not hold up who asks for little. */
static void share(nghttp2_session *ng, int32_t id)
{
	const nghttp2_extpri turns = { .urgency = NGHTTP2_EXTPRI_DEFAULT_URGENCY, .inc = 1 };

	(void)nghttp2_session_change_extpri_stream_priority(ng, id, &turns, 1);
}

static int on_begin_headers(nghttp2_session *ng, const nghttp2_frame *frame, void *arg)
{
	struct h2 *h = arg;
	struct h2_stream *s;

	if (frame->hd.type != NGHTTP2_HEADERS)
		return 0;
	h->in_head = true;
	h->head_bytes = h->head_fields = 0;
	for (int i = 0; i < H2P_COUNT; i++)
		h->pseudo_is[i] = false;
	if (is_request(h, frame)) {
		s = h2_stream_new(h);
		if (!s)
			return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
		s->id = frame->hd.stream_id;
		nghttp2_session_set_stream_user_data(ng, s->id, s);
		share(ng, s->id);
	}
	s = stream_of(ng, frame->hd.stream_id);
	if (s)
		s->in_trailers = s->has_head;
	h->head_of = s;
	return 0;
}

static enum h2_pseudo pseudo_of(struct str name)
{
	static const struct str names[H2P_COUNT] = {
		[H2P_METHOD] = STR_INIT(":method"), [H2P_SCHEME] = STR_INIT(":scheme"),
		[H2P_AUTHORITY] = STR_INIT(":authority"), [H2P_PATH] = STR_INIT(":path"),
		[H2P_PROTOCOL] = STR_INIT(":protocol"),
	};
	unsigned i = 0;

	while (i < H2P_COUNT && !str_eq(names[i], name))
		i++;
	return (enum h2_pseudo)i;
}

static void keep_pseudo(struct h2 *h, struct h2_stream *s, struct str name, struct str value)
{
	enum h2_pseudo p = pseudo_of(name);
	uint64_t status = 0;

	if (p != H2P_COUNT) {
		h->pseudo_is[p] = true;
		h->pseudo_at[p] = (uint32_t)s->head.text.n;
		h->pseudo_n[p] = (uint32_t)value.n;
		buf_put_str(&s->head.text, value);
	} else if (str_to_u64(value, 999, &status)) {	/* ":status": there is no other */
		s->head.status = (unsigned)status;
	}
}

static void keep_field(struct h2 *h, struct h2_stream *s, struct str name, struct str value)
{
	if (h->set.server && str_eq(name, STR("cookie"))) {
		if (h->cookie.n)
			buf_put_str(&h->cookie, STR("; "));
		buf_put_str(&h->cookie, value);
		return;
	}
	if (str_eq(name, STR("content-length")))
		s->head.has_length = str_to_u64(value, INT64_MAX, &s->head.length);
	fields_add(&s->head.fields, name, value);
}

static struct str text_of(nghttp2_rcbuf *b)
{
	nghttp2_vec v = nghttp2_rcbuf_get_buf(b);

	return str_n((const char *)v.base, v.len);
}

static bool fits(const struct h2 *h)
{
	return h->head_bytes <= h->set.max_headers && h->head_fields <= FIELDS_MAX;
}

static int on_field(nghttp2_session *ng, const nghttp2_frame *frame, nghttp2_rcbuf *n,
		    nghttp2_rcbuf *v, uint8_t flags, void *arg)
{
	struct h2 *h = arg;
	struct h2_stream *s = h->head_of;
	struct str name = text_of(n), value = text_of(v);

	(void)ng;
	(void)frame;
	(void)flags;
	h->head_bytes += name.n + value.n + FIELD_OVERHEAD;
	h->head_fields++;
	if (h->head_bytes > HEAD_LONGEST * h->set.max_headers)
		h2_fail(h, H2_ENHANCE_YOUR_CALM, "a head far over the limit");
	if (h->failed || !s || s->left)
		return verdict(h);
	if (!fits(h) && s->in_trailers)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	if (!fits(h))
		s->too_large = true;
	else if (s->in_trailers)
		fields_add(&s->trailers, name, value);
	else if (name.p[0] == ':')
		keep_pseudo(h, s, name, value);
	else
		keep_field(h, s, name, value);
	return 0;
}

static int on_invalid_field(nghttp2_session *ng, const nghttp2_frame *frame, nghttp2_rcbuf *name,
			    nghttp2_rcbuf *value, uint8_t flags, void *arg)
{
	(void)ng;
	(void)frame;
	(void)name;
	(void)value;
	(void)flags;
	(void)arg;
	return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static struct str pseudo(const struct h2 *h, const struct h2_stream *s, enum h2_pseudo p)
{
	return h->pseudo_is[p] ? str_n(s->head.text.p + h->pseudo_at[p], h->pseudo_n[p]) : STR_NONE;
}

static void finish_head(struct h2 *h, struct h2_stream *s)
{
	if (h->cookie.n)
		fields_add(&s->head.fields, STR("cookie"), buf_str(&h->cookie));
	if (h->cookie.failed || s->head.text.failed || fields_failed(&s->head.fields))
		s->too_large = true;
	if (s->too_large)
		fields_wipe(&s->head.fields);
	if (!s->head.text.failed) {
		s->head.method = pseudo(h, s, H2P_METHOD);
		s->head.scheme = pseudo(h, s, H2P_SCHEME);
		s->head.authority = pseudo(h, s, H2P_AUTHORITY);
		s->head.path = pseudo(h, s, H2P_PATH);
		s->head.protocol = pseudo(h, s, H2P_PROTOCOL);
	}
	s->has_head = true;
}

/* A 1xx is put aside, and the head may come. */
static bool keep_interim(struct h2_stream *s)
{
	struct h2_interim *i, **at = &s->interims;
	size_t max = s->head.fields.text.max;

	if (s->too_large || s->interims_n == H2_INTERIMS_MAX)
		return false;
	i = calloc(1, sizeof(*i));
	if (!i)
		return false;
	while (*at)
		at = &(*at)->next;
	*at = i;
	i->status = s->head.status;
	i->fields = s->head.fields;
	fields_init(&s->head.fields, max);
	s->interims_n++;
	return true;
}

static void break_off(struct h2 *h, struct h2_stream *s)
{
	(void)nghttp2_submit_rst_stream(h->ng, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_PROTOCOL_ERROR);
}

static void head_is_whole(struct h2 *h, struct h2_stream *s, const nghttp2_frame *frame)
{
	if (s->in_trailers) {
		if (fields_failed(&s->trailers))
			break_off(h, s);
		return;
	}
	if (h->set.server || s->head.status >= 200) {
		finish_head(h, s);
	} else if (s->head.status < 100 || frame->hd.flags & NGHTTP2_FLAG_END_STREAM ||
		   !keep_interim(s)) {
		break_off(h, s);
		return;
	}
	if (h->set.server)
		h2_flood_moved(&h->flood, FRAMES_MOVED);
}

static void on_headers(struct h2 *h, struct h2_stream *s, const nghttp2_frame *frame)
{
	h->in_head = false;
	if (s && !s->left) {
		head_is_whole(h, s, frame);
		h2_stir(s);
	}
	buf_wipe(&h->cookie);
}

/* ---- bodies ---- */

static int on_data(nghttp2_session *ng, uint8_t flags, int32_t id, const uint8_t *data, size_t n,
		   void *arg)
{
	struct h2 *h = arg;
	struct h2_stream *s = stream_of(ng, id);

	(void)flags;
	if (s && s->lingers) {
		(void)nghttp2_session_consume(ng, id, n);
		return verdict(h);
	}
	if (!s || s->left || s->reset_out) {
		(void)nghttp2_session_consume_connection(ng, n);
		return verdict(h);
	}
	if (s->in_taken > s->in.n - s->in_taken) {
		buf_drop(&s->in, s->in_taken);
		s->in_taken = 0;
	}
	buf_put(&s->in, data, n);
	if (s->in.failed) {
		h2_fail(h, H2_INTERNAL_ERROR, "out of memory");
		return verdict(h);
	}
	h2_stir(s);
	return 0;
}

/* ---- frames that are whole, streams that are over ---- */

static int on_frame(nghttp2_session *ng, const nghttp2_frame *frame, void *arg)
{
	struct h2 *h = arg;
	struct h2_stream *s = stream_of(ng, frame->hd.stream_id);
	uint8_t type = frame->hd.type;

	if (type == NGHTTP2_HEADERS)
		on_headers(h, s, frame);
	else if (type == NGHTTP2_GOAWAY)
		h->going = true;
	else if (type == NGHTTP2_RST_STREAM && s && !s->ended_out)
		count_break(h);
	if ((type == NGHTTP2_HEADERS || type == NGHTTP2_DATA) && s &&
	    frame->hd.flags & NGHTTP2_FLAG_END_STREAM) {
		s->ended = true;
		h2_stir(s);
	}
	return verdict(h);
}

static int on_closed(nghttp2_session *ng, int32_t id, uint32_t code, void *arg)
{
	struct h2 *h = arg;
	struct h2_stream *s = stream_of(ng, id);

	if (!s)
		return 0;
	if (!s->ended || (h->set.server && !s->ended_out)) {
		s->reset = true;
		s->code = code;
		s->unprocessed = code == NGHTTP2_REFUSED_STREAM && !s->has_head && !s->interims_n;
	} else if (h->set.server) {
		h2_flood_answered(&h->flood);
	}
	if (h->head_of == s)
		h->head_of = NULL;
	h2_stream_closed(s);
	return 0;
}

/* nghttp2 tells why it ends a session, or resets a stream. */
static int on_error(nghttp2_session *ng, int error, const char *text, size_t n, void *arg)
{
	struct h2 *h = arg;

	(void)ng;
	(void)error;
	if (!h->failed)
		str_to_z(str_n(text, n), h->why, sizeof(h->why));
	return 0;
}

/* ---- for owners ---- */

struct str h2_body(const struct h2_stream *s)
{
	return str_from(buf_str(&s->in), s->in_taken);
}

void h2_take(struct h2_stream *s, size_t n)
{
	if (n == 0)
		return;
	s->in_taken += n;
	if (s->in_taken == s->in.n)
		h2_drained(&s->in, &s->in_taken);
	if (!s->h2->ended)
		(void)nghttp2_session_consume(s->h2->ng, s->id, n);
}

void h2_drop_interim(struct h2_stream *s)
{
	struct h2_interim *i = s->interims;

	s->interims = i->next;
	s->interims_n--;
	fields_wipe(&i->fields);
	free(i);
}

/* ---- */

void h2_receive_callbacks(nghttp2_session_callbacks *c)
{
	nghttp2_session_callbacks_set_on_begin_frame_callback(c, on_begin_frame);
	nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(c, on_invalid_frame);
	nghttp2_session_callbacks_set_on_begin_headers_callback(c, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback2(c, on_field);
	nghttp2_session_callbacks_set_on_invalid_header_callback2(c, on_invalid_field);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(c, on_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(c, on_closed);
	nghttp2_session_callbacks_set_error_callback2(c, on_error);
}
