/* proxy/h2_state.h - the inside of an HTTP/2 session, for the files that it is made of
 *
 * h2.c (the session: reading, writing, its end), h2_receive.c (what nghttp2 tells), h2_send.c (what
 * is to be sent).
 *
 * Ownership   proxy/h2.h.       Blocking  never.
 * Failure     h2_fail(): the first reason holds; inside nghttp2 it only notes.
 * Tests       tests/unit/proxy/test_h2.c
 */
#ifndef PROXY_H2_STATE_H
#define PROXY_H2_STATE_H

#include <nghttp2/nghttp2.h>

#include "proxy/h2.h"
#include "proxy/h2_flood.h"

enum h2_pseudo { H2P_METHOD, H2P_SCHEME, H2P_AUTHORITY, H2P_PATH, H2P_PROTOCOL, H2P_COUNT };

/* Streams that wait for their turn, the first first. */
struct h2_line {
	struct h2_stream *first, **last;
};

struct h2 {
	struct h2_setup set;
	nghttp2_session *ng;
	struct h2_stream *all;
	size_t live;			/* of them not closed */
	struct h2_stream *spare;	/* with their buffers, wiped */
	unsigned n_spare;
	struct h2_line stirred, queued, lingering;
	unsigned n_lingering;
	struct h2_flood flood;

	/* the head that is being read: there is one at a time */
	bool in_head;
	struct h2_stream *head_of;	/* whose, where anybody wants it */
	size_t head_bytes;
	unsigned head_fields;
	uint32_t pseudo_at[H2P_COUNT], pseudo_n[H2P_COUNT];
	bool pseudo_is[H2P_COUNT];
	struct buf cookie;

	bool greeted, failed, ended, going, told_goaway;
	enum h2_code code;
	char why[H2_WHY_MAX];
};

/* Into the line, at its end, once. */
void h2_stir(struct h2_stream *s);
void h2_queue(struct h2_stream *s);
/* Its answer is given, its request goes on. */
void h2_linger(struct h2_stream *s);
/* The session will end, with a GOAWAY of that code. */
void h2_fail(struct h2 *h, enum h2_code code, const char *why);
struct h2_stream *h2_stream_new(struct h2 *h);
void h2_stream_closed(struct h2_stream *s);
/* Frees it, if nobody has it any more. */
void h2_stream_sweep(struct h2_stream *s);
/* A buffer of what has gone: wiped, and given back where it is large. */
void h2_drained(struct buf *b, size_t *gone);

/* ---- h2_receive.c, h2_send.c: for the session's table of callbacks ---- */
void h2_receive_callbacks(nghttp2_session_callbacks *c);
void h2_send_callbacks(nghttp2_session_callbacks *c);
/* Hands what waits in @queued to nghttp2. */
void h2_submit(struct h2 *h);

#endif
