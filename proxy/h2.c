/* Theory of operation
 *
 * nghttp2 has the protocol's state: frames, HPACK, windows, which frame is allowed when. Ours is
 * around it: what belongs to a stream and who is to hear of it.
 *
 * nghttp2's callbacks (h2_receive.c, h2_send.c) only note, and put the stream into the line of
 * those that are stirred. When nghttp2 has returned, tell() goes through that line and calls the
 * owners, once for each; so they may do as they like, and several frames of one stream are one
 * call. What owners want sent stands in the line @queued until h2_write(): by then it is known
 * whether a head is all there is, and its frame bears the end.
 *
 * A stream is freed when nghttp2 has closed it, its owner has left it and it stands in no line;
 * never inside a callback.
 *
 * What is wrong with the session as a whole ends it in one of two ways. Where nghttp2 finds a
 * mistake it queues a GOAWAY of its own and reads no more. What it only returns (floods, a bad
 * preface) and what is found here is said by put_goaway(): nghttp2 must not be used again then. It
 * writes whole frames, so that what is appended stands at a boundary.
 *
 * What nghttp2 had in memory of fields and frames is wiped when it gives it back.
 */
#include "proxy/h2.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "proxy/clock.h"
#include "proxy/h2_state.h"

#define ACKS_MAX 100		/* answers to PING and SETTINGS that a peer may leave unread */
#define QUEUE_MAX 2000		/* frames that it may leave unread */
#define RESET_BURST 100000	/* nghttp2's own count: h2_flood.h is stricter, and says why */
#define FRAME_BYTES 16384u
#define KEPT_BUFFER (64u << 10)
#define SPARES_MAX 32u
#define SPARE_BUFFER 2048u

/* ---- lines ---- */

static void line_init(struct h2_line *l)
{
	l->first = NULL;
	l->last = &l->first;
}

void h2_stir(struct h2_stream *s)
{
	struct h2_line *l = &s->h2->stirred;

	if (s->stirred)
		return;
	s->stirred = true;
	s->next_stirred = NULL;
	*l->last = s;
	l->last = &s->next_stirred;
}

static struct h2_stream *take_stirred(struct h2 *h)
{
	struct h2_stream *s = h->stirred.first;

	if (!s)
		return NULL;
	h->stirred.first = s->next_stirred;
	if (!h->stirred.first)
		line_init(&h->stirred);
	s->stirred = false;
	return s;
}

void h2_queue(struct h2_stream *s)
{
	struct h2_line *l = &s->h2->queued;

	if (s->queued)
		return;
	s->queued = true;
	s->next_queued = NULL;
	*l->last = s;
	l->last = &s->next_queued;
}

/* ---- requests that go on after their answers ---- */

void h2_linger(struct h2_stream *s)
{
	struct h2 *h = s->h2;

	if (s->lingers || s->closed)
		return;
	s->lingers = true;
	s->linger_until = clock_ms() + H2_LINGER_MS;
	s->next_lingering = NULL;
	*h->lingering.last = s;
	h->lingering.last = &s->next_lingering;
	h->n_lingering++;
}

/* The first that lingers is the first whose time is over: it is the same for all. */
static void end_lingering(struct h2 *h)
{
	struct h2_stream *s;
	uint64_t now = h->lingering.first ? clock_ms() : 0;

	while ((s = h->lingering.first) && (s->closed || s->linger_until <= now ||
					    h->n_lingering > H2_LINGERING_MAX)) {
		h->lingering.first = s->next_lingering;
		if (!h->lingering.first)
			line_init(&h->lingering);
		h->n_lingering--;
		s->lingers = false;
		h2_reset(s, H2_NO_ERROR);
		h2_stream_sweep(s);
	}
}

uint64_t h2_deadline(const struct h2 *h)
{
	return h->lingering.first ? h->lingering.first->linger_until : 0;
}

/* ---- streams ---- */

void h2_drained(struct buf *b, size_t *gone)
{
	if (b->n)
		explicit_bzero(b->p, b->n);
	b->n = *gone = 0;
	if (b->cap > KEPT_BUFFER)
		buf_free(b);
}

static struct h2_stream *stream_alloc(const struct h2 *h)
{
	struct h2_stream *s = calloc(1, sizeof(*s));
	size_t text = h->set.max_headers;

	if (!s)
		return NULL;
	/* What was taken leaves it when it is more than what was not. */
	buf_init(&s->in, 2 * H2_STREAM_WINDOW + FRAME_BYTES);
	buf_init(&s->out, H2_OUT_MAX);
	buf_init(&s->head.text, text);
	fields_init(&s->head.fields, 2 * text);
	fields_init(&s->trailers, text);
	fields_init(&s->head_out, 4 * text);
	fields_init(&s->trailers_out, 2 * text);
	return s;
}

struct h2_stream *h2_stream_new(struct h2 *h)
{
	struct h2_stream *s = h->spare;

	if (s) {
		h->spare = s->next;
		h->n_spare--;
	} else {
		s = stream_alloc(h);
	}
	if (!s)
		return NULL;
	s->h2 = h;
	s->next = h->all;
	s->link = &h->all;
	if (s->next)
		s->next->link = &s->next;
	h->all = s;
	h->live++;
	return s;
}

void h2_stream_closed(struct h2_stream *s)
{
	if (s->closed)
		return;
	s->closed = true;
	s->h2->live--;
	h2_stir(s);
}

static void free_one(struct h2_stream *s)
{
	buf_wipe(&s->in);
	buf_wipe(&s->out);
	buf_wipe(&s->head.text);
	fields_wipe(&s->head.fields);
	fields_wipe(&s->trailers);
	fields_wipe(&s->head_out);
	fields_wipe(&s->trailers_out);
	free(s);
}

static void take_out(struct h2_stream *s)
{
	*s->link = s->next;
	if (s->next)
		s->next->link = s->link;
	while (s->interims)
		h2_drop_interim(s);
}

static void drop_spares(struct h2 *h)
{
	struct h2_stream *s;

	while ((s = h->spare)) {
		h->spare = s->next;
		free_one(s);
	}
	h->n_spare = 0;
}

/* What was in it is gone, the room for it is not; a large one is given back. */
static struct buf emptied(struct buf b)
{
	if (b.cap > SPARE_BUFFER)
		buf_wipe(&b);
	else if (b.n)
		explicit_bzero(b.p, b.n);
	b.n = 0;
	b.failed = false;
	return b;
}

static struct fields emptied_fields(struct fields f)
{
	struct buf text = emptied(f.text);

	fields_clear(&f);
	f.text = text;
	return f;
}

/* A busy session has the next stream at hand. One that is idle has nothing. */
static void put_aside(struct h2 *h, struct h2_stream *s)
{
	if (h->n_spare == SPARES_MAX) {
		free_one(s);
		return;
	}
	*s = (struct h2_stream){ .in = emptied(s->in), .out = emptied(s->out),
				 .head.text = emptied(s->head.text),
				 .head.fields = emptied_fields(s->head.fields),
				 .trailers = emptied_fields(s->trailers),
				 .head_out = emptied_fields(s->head_out),
				 .trailers_out = emptied_fields(s->trailers_out) };
	s->next = h->spare;
	h->spare = s;
	h->n_spare++;
}

void h2_stream_sweep(struct h2_stream *s)
{
	struct h2 *h = s->h2;

	if (!s->closed || !s->left || s->stirred || s->queued || s->lingers)
		return;
	take_out(s);
	put_aside(h, s);
	if (h->live == 0)
		drop_spares(h);
}

/* ---- the session's end ---- */

void h2_fail(struct h2 *h, enum h2_code code, const char *why)
{
	if (h->failed)
		return;
	h->failed = true;
	h->code = code;
	snprintf(h->why, sizeof(h->why), "%s", why);
}

/* RFC 9113 6.8, written by hand: nghttp2 is not asked again. */
static void put_goaway(struct h2 *h)
{
	uint32_t last = (uint32_t)nghttp2_session_get_last_proc_stream_id(h->ng);
	uint32_t code = h->code;
	uint8_t frame[] = { 0, 0, 8, NGHTTP2_GOAWAY, 0, 0, 0, 0, 0,
			    (uint8_t)(last >> 24), (uint8_t)(last >> 16), (uint8_t)(last >> 8),
			    (uint8_t)last, (uint8_t)(code >> 24), (uint8_t)(code >> 16),
			    (uint8_t)(code >> 8), (uint8_t)code };

	buf_put(stream_out(h->set.stream), frame, sizeof(frame));
	h->told_goaway = true;
}

/* A stream that the peer has ended is whole, at a client; a server's is, when it was answered. */
static bool is_whole(const struct h2_stream *s)
{
	return s->ended && (!s->h2->set.server || s->ended_out);
}

static void end_session(struct h2 *h)
{
	if (h->ended)
		return;
	h->ended = h->going = true;
	for (struct h2_stream *s = h->all; s; s = s->next) {
		if (s->closed)
			continue;
		if (!is_whole(s) && !s->reset) {
			s->reset = true;
			s->code = h->code;
		}
		if (!s->opened)
			s->left = h->set.server;
		h2_stream_closed(s);
	}
}

static void look_at_end(struct h2 *h)
{
	bool clean;

	if (h->failed || h->ended)
		return;
	if (stream_failed(h->set.stream))
		h2_fail(h, H2_CANCEL, stream_why(h->set.stream));
	else if (stream_ended(h->set.stream, &clean))
		h2_fail(h, H2_CANCEL, "closed by the peer");
	else
		return;
	h->told_goaway = true;	/* nobody would read it */
}

static void settle_failure(struct h2 *h)
{
	if (!h->failed || h->ended)
		return;
	if (!h->told_goaway)
		put_goaway(h);
	end_session(h);
}

/* ---- telling ---- */

static void tell_one(struct h2 *h, struct h2_stream *s)
{
	if (s->left || (h->set.server && !s->has_head)) {
		s->left |= s->closed;	/* its head never was whole: nobody knows of it */
		h2_stream_sweep(s);
	} else if (h->set.server && !s->opened) {
		s->opened = true;
		/* Broken off before anybody has heard of it. */
		s->left = s->closed && s->reset;
		if (s->left)
			h2_stream_sweep(s);
		else
			h->set.events->opened(h->set.arg, s);
	} else {
		h->set.events->moved(h->set.arg, s);
	}
}

/* Those that are stirred meanwhile are told in the next call: nobody keeps us here. */
static void tell(struct h2 *h)
{
	struct h2_stream *s;
	size_t n = 0;

	for (s = h->stirred.first; s; s = s->next_stirred)
		n++;
	while (n-- && (s = take_stirred(h)))
		tell_one(h, s);
}

/* ---- reading ---- */

static enum h2_code code_of(ssize_t error)
{
	switch (error) {
	case NGHTTP2_ERR_FLOODED:
	case NGHTTP2_ERR_TOO_MANY_CONTINUATIONS:
		return H2_ENHANCE_YOUR_CALM;
	case NGHTTP2_ERR_NOMEM:
		return H2_INTERNAL_ERROR;
	default:
		return H2_PROTOCOL_ERROR;
	}
}

static void feed(struct h2 *h)
{
	struct str in = stream_in(h->set.stream);
	ssize_t n;

	if (h->ended || in.n == 0) {
		stream_take(h->set.stream, in.n);
		return;
	}
	n = nghttp2_session_mem_recv(h->ng, (const uint8_t *)in.p, in.n);
	stream_take(h->set.stream, in.n);
	if (n < 0)
		h2_fail(h, code_of(n), nghttp2_strerror((int)n));
	else if (nghttp2_session_get_outbound_queue_size(h->ng) > QUEUE_MAX)
		h2_fail(h, H2_ENHANCE_YOUR_CALM, "too many frames to answer");
}

static void send_frames(struct h2 *h)
{
	const uint8_t *frame;
	ssize_t n;

	while (!h->failed && !stream_full(h->set.stream)) {
		n = nghttp2_session_mem_send(h->ng, &frame);
		if (n < 0)
			h2_fail(h, code_of(n), nghttp2_strerror((int)n));
		if (n <= 0)
			break;
		buf_put(stream_out(h->set.stream), frame, (size_t)n);
	}
}

void h2_read(struct h2 *h)
{
	/* The settings are the first that is said, whatever comes (RFC 9113 3.4). */
	if (!h->greeted)
		send_frames(h);
	h->greeted = true;
	feed(h);
	look_at_end(h);
	settle_failure(h);
	tell(h);
}

/* ---- writing ---- */

bool h2_write(struct h2 *h)
{
	size_t had = stream_queued(h->set.stream);

	end_lingering(h);
	if (!h->ended) {
		h2_submit(h);
		send_frames(h);
	}
	settle_failure(h);
	tell(h);
	return stream_queued(h->set.stream) > had;
}

void h2_goaway(struct h2 *h, uint32_t code)
{
	if (h->going)
		return;
	h->going = true;
	nghttp2_submit_goaway(h->ng, NGHTTP2_FLAG_NONE,
			      nghttp2_session_get_last_proc_stream_id(h->ng), code, NULL, 0);
}

/* ---- what is known of it ---- */

bool h2_failed(const struct h2 *h)
{
	return h->failed;
}

const char *h2_why(const struct h2 *h)
{
	return h->why;
}

bool h2_over(const struct h2 *h)
{
	return h->ended ||
	       (!nghttp2_session_want_read(h->ng) && !nghttp2_session_want_write(h->ng));
}

size_t h2_count(const struct h2 *h)
{
	return h->live;
}

bool h2_in_head(const struct h2 *h)
{
	return h->in_head;
}

bool h2_can_open(const struct h2 *h)
{
	uint32_t most = nghttp2_session_get_remote_settings(
		h->ng, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);

	return !h->going && !h->failed && h->live < most && h->live < H2_STREAMS_MAX &&
	       nghttp2_session_check_request_allowed(h->ng);
}

/* ---- life ---- */

static void *wiped_malloc(size_t n, void *arg)
{
	(void)arg;
	return malloc(n);
}

static void *wiped_calloc(size_t n, size_t size, void *arg)
{
	(void)arg;
	return calloc(n, size);
}

static void wiped_free(void *p, void *arg)
{
	(void)arg;
	if (!p)
		return;
	explicit_bzero(p, malloc_usable_size(p));
	free(p);
}

static void *wiped_realloc(void *p, size_t n, void *arg)
{
	size_t had = p ? malloc_usable_size(p) : 0;
	void *new = malloc(n);

	if (!new)
		return NULL;
	if (had)
		memcpy(new, p, had < n ? had : n);
	wiped_free(p, arg);
	return new;
}

static nghttp2_mem wiping = { NULL, wiped_malloc, wiped_free, wiped_calloc, wiped_realloc };

static void set_options(nghttp2_option *o, const struct h2_setup *set)
{
	nghttp2_option_set_no_auto_window_update(o, 1);
	nghttp2_option_set_no_closed_streams(o, 1);
	nghttp2_option_set_max_outbound_ack(o, ACKS_MAX);
	nghttp2_option_set_stream_reset_rate_limit(o, RESET_BURST, RESET_BURST);
	nghttp2_option_set_max_continuations(o, 8 + 2 * set->max_headers / FRAME_BYTES);
	nghttp2_option_set_max_send_header_block_length(o, 8 * set->max_headers);
}

static nghttp2_session *new_session(struct h2 *h)
{
	nghttp2_session_callbacks *c = NULL;
	nghttp2_option *o = NULL;
	nghttp2_session *ng = NULL;

	if (nghttp2_session_callbacks_new(&c) == 0 && nghttp2_option_new(&o) == 0) {
		h2_receive_callbacks(c);
		h2_send_callbacks(c);
		set_options(o, &h->set);
		if (h->set.server)
			(void)nghttp2_session_server_new3(&ng, c, h, o, &wiping);
		else
			(void)nghttp2_session_client_new3(&ng, c, h, o, &wiping);
	}
	nghttp2_session_callbacks_del(c);
	nghttp2_option_del(o);
	return ng;
}

/* A server names no RFC 7540 priorities, which costs nghttp2 a tree; a client no push. */
static bool submit_settings(struct h2 *h)
{
	const struct h2_setup *set = &h->set;
	nghttp2_settings_entry server[] = {
		{ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, H2_STREAMS_MAX },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, H2_STREAM_WINDOW },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)set->max_headers },
		{ NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1 },
		{ NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1 },
	};
	nghttp2_settings_entry client[] = {
		{ NGHTTP2_SETTINGS_ENABLE_PUSH, 0 },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, H2_STREAM_WINDOW },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)set->max_headers },
	};
	size_t n = set->server ? sizeof(server) / sizeof(server[0]) - !set->connect_protocol
			       : sizeof(client) / sizeof(client[0]);

	return nghttp2_submit_settings(h->ng, NGHTTP2_FLAG_NONE, set->server ? server : client,
				       n) == 0 &&
	       nghttp2_session_set_local_window_size(h->ng, NGHTTP2_FLAG_NONE, 0,
						     (int32_t)H2_WINDOW) == 0;
}

struct h2 *h2_new(const struct h2_setup *setup)
{
	struct h2 *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->set = *setup;
	line_init(&h->stirred);
	line_init(&h->queued);
	line_init(&h->lingering);
	buf_init(&h->cookie, setup->max_headers);
	h2_flood_init(&h->flood, clock_ms());
	h->ng = new_session(h);
	if (!h->ng || !submit_settings(h)) {
		h2_free(h);
		return NULL;
	}
	return h;
}

void h2_free(struct h2 *h)
{
	if (!h)
		return;
	nghttp2_session_del(h->ng);
	while (h->all) {
		struct h2_stream *s = h->all;

		take_out(s);
		free_one(s);
	}
	drop_spares(h);
	buf_wipe(&h->cookie);
	free(h);
}
