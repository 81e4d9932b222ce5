/* proxy/h2.h - HTTP/2 (RFC 9113) over one stream of bytes, for either end of it
 *
 * A session (struct h2) reads frames from a struct stream and writes frames to it; what is in them
 * belongs to streams (struct h2_stream), each with an owner. What has arrived is pulled by the
 * owner, and only what was taken opens the peer's window again: a slow reader holds its own stream.
 * What is to be sent waits in the stream's own bounded buffer.
 *
 *   events     h2_read(), then the callbacks; the owners take, answer, put, end
 *   each pass  h2_write(), then stream_settle(): all streams' frames in one write
 *
 * What arrives was checked: nghttp2 holds it to RFC 9113. Where it is laxer than proxy/http1.h the
 * owner is not: paths, hosts, trailers that are none.
 * Cookie crumbs are one field (RFC 9113 8.2.3). Names are written in lower case; what is meant for
 * the next hop alone is left out; what may hold a credential is never indexed (RFC 7541 7.1.3).
 * There is no push; priorities and padding are read past.
 *
 * Ownership   h2_free() frees the session and all of its streams, whoever owns them; the stream of
 *             bytes is borrowed. A struct h2_stream is good until its owner calls h2_leave(), or
 *             until h2_free(). What is handed in is copied. Heads, trailers and bodies are wiped.
 * Blocking    never.
 * Callbacks   from within h2_read() and h2_write() only, after nghttp2 has returned; at most one
 *             for a stream in a call. They may call all of h2_*() but h2_read(), h2_write() and
 *             h2_free().
 * Failure     of a stream: @reset with a code. Of a session: h2_failed(), its GOAWAY is queued and
 *             goes out with the next h2_write(); all its streams are @reset. Sticky.
 * Limits      as named here; H2_STREAM_WINDOW a stream and H2_WINDOW a session of what has arrived
 *             and was not taken; h2_full() at H2_OUT_HIGH until H2_OUT_LOW of what waits to go out.
 *             Who floods ends with ENHANCE_YOUR_CALM (h2_flood.h).
 * Tests       tests/unit/proxy/test_h2.c, fuzz/fuzz_h2.c
 */
#ifndef PROXY_H2_H
#define PROXY_H2_H

#include "proxy/fields.h"
#include "proxy/stream.h"

#define H2_STREAMS_MAX 128u		/* that a peer may have open */
#define H2_STREAM_WINDOW (256u << 10)
#define H2_WINDOW (8u << 20)
#define H2_OUT_HIGH (64u << 10)
#define H2_OUT_LOW (16u << 10)
#define H2_OUT_MAX (1u << 20)		/* whose owner does not ask h2_full() is reset */
#define H2_INTERIMS_MAX 16u		/* heads before the head that nobody has taken */
#define H2_LINGER_MS 2000u		/* the rest of a request that was answered is read past */
#define H2_LINGERING_MAX 64u		/* so many at a time; the oldest gives way */
#define H2_WHY_MAX 160

/* RFC 9113 7 */
enum h2_code {
	H2_NO_ERROR = 0,
	H2_PROTOCOL_ERROR = 1,
	H2_INTERNAL_ERROR = 2,
	H2_REFUSED_STREAM = 7,
	H2_CANCEL = 8,
	H2_ENHANCE_YOUR_CALM = 11,
};

struct h2;

struct h2_head {
	struct str method, scheme, authority, path, protocol; /* request; p is NULL: not there */
	unsigned status;					/* response */
	struct fields fields;					/* without pseudo fields */
	bool has_length;
	uint64_t length;
	struct buf text;			/* the session's: the pseudo fields' values */
};

/* A 1xx, at a client. */
struct h2_interim {
	struct h2_interim *next;
	unsigned status;
	struct fields fields;
};

struct h2_stream {
	struct h2 *h2;
	int32_t id;			/* 0 until h2_write() has sent a request's head */
	void *owner;			/* whatever the owner likes */

	/* ---- what has arrived; to be looked at ---- */
	bool has_head;
	bool too_large;			/* over the limits: @head has its pseudo fields alone */
	struct h2_head head;		/* where @has_head; its fields may be changed */
	struct h2_interim *interims;	/* the oldest first: h2_drop_interim() */
	struct fields trailers;		/* where @ended */
	bool ended;			/* what h2_body() has is the last of it */
	bool reset;			/* by the peer, by its mistake, by the session's end */
	uint32_t code;			/* where @reset: of its RST_STREAM, or of the error */
	bool unprocessed;		/* where @reset: nothing was done about it (RFC 9113 8.7) */
	bool sent;			/* some of the request's head has gone to stream_out() */

	/* ---- the session's own ---- */
	struct h2_stream *next, **link;		/* all of the session's */
	struct h2_stream *next_stirred, *next_queued, *next_lingering;
	uint64_t linger_until;
	struct buf in, out;
	size_t in_taken, out_sent;
	struct fields head_out, trailers_out;
	uint8_t never_indexed[FIELDS_MAX / 8];	/* of @head_out */
	unsigned interims_n;
	bool stirred, queued, opened, left, closed, submitted, deferred, held, full;
	bool head_waits, end_out, ended_out, reset_out, in_trailers, lingers;
};

struct h2_events {
	/* A server's: a request's head is whole. The owner may set s->owner. */
	void (*opened)(void *arg, struct h2_stream *s);
	/* Something has arrived, it was reset, or there is room again after h2_full() said no. */
	void (*moved)(void *arg, struct h2_stream *s);
};

/* @events and @stream are borrowed for the session's life. @max_headers: bytes of one head, counted
 * as RFC 9113 6.5.2 says. @connect_protocol: offers extended CONNECT (RFC 8441). NULL: out of
 * memory. */
struct h2_setup {
	bool server;
	struct stream *stream;
	const struct h2_events *events;
	void *arg;
	size_t max_headers;
	bool connect_protocol;
};

struct h2 *h2_new(const struct h2_setup *setup);
void h2_free(struct h2 *h);
/* Takes what has come. The end or the failure of the stream of bytes ends the session, too. */
void h2_read(struct h2 *h);
/* Queues what may go, as long as there is room. True when something was queued. */
bool h2_write(struct h2 *h);
/* Ended by an error, with text for the log, or by the peer's going. */
bool h2_failed(const struct h2 *h);
const char *h2_why(const struct h2 *h);
/* Nothing more will be read or written: when what is queued has gone the connection may end. */
bool h2_over(const struct h2 *h);
/* No new streams; those that live go on (RFC 9113 6.8). */
void h2_goaway(struct h2 *h, uint32_t code);
/* Streams that are not closed. */
size_t h2_count(const struct h2 *h);
/* When h2_write() has something to do by itself; 0: never. */
uint64_t h2_deadline(const struct h2 *h);
/* A head has begun and is not whole: nothing else can arrive before it is. */
bool h2_in_head(const struct h2 *h);
/* A client's: may it open another now? As many as the peer allows, and none after a GOAWAY. */
bool h2_can_open(const struct h2 *h);

/* ---- a stream: what has arrived ---- */
struct str h2_body(const struct h2_stream *s);
void h2_take(struct h2_stream *s, size_t n);
void h2_drop_interim(struct h2_stream *s);

/* ---- a stream: what is to be sent; none of these calls back ---- */
struct h2_request {
	struct str method, scheme, authority, path;
	struct str protocol;		/* p is NULL: none */
	const struct fields *fields;	/* "host" among them is left out */
	const struct fields *secrets;	/* fields of these names are never indexed; or NULL */
};
/* A client's. The head goes out with h2_write(), so that a request that h2_end() follows at once is
 * one frame. NULL: not h2_can_open(), or out of memory. */
struct h2_stream *h2_request(struct h2 *h, void *owner, const struct h2_request *r);
/* A server's: 1xx, at once behind what was queued; then the answer. */
void h2_send_interim(struct h2_stream *s, unsigned status, const struct fields *fields);
void h2_answer(struct h2_stream *s, unsigned status, const struct fields *fields);
void h2_put(struct h2_stream *s, struct str piece);
bool h2_full(struct h2_stream *s);
/* @trailers may be NULL or empty. */
void h2_end(struct h2_stream *s, const struct fields *trailers);
/* Body and end wait. */
void h2_hold(struct h2_stream *s, bool hold);
/* What was queued is dropped. */
void h2_reset(struct h2_stream *s, uint32_t code);
/* The owner is done with it: what was queued still goes out. Where the own side has not ended it is
 * reset (a client's with CANCEL, a server's with INTERNAL_ERROR: never a clean end). Where a
 * server's has and the request has not, the rest of it is read past for H2_LINGER_MS, since there
 * are clients that see no answer before they have sent all, or take a reset for a failure; then
 * RST_STREAM(NO_ERROR) stops it (RFC 9113 8.1). */
void h2_leave(struct h2_stream *s);

#endif
