/* proxy/stream.h - the bytes of one socket, plain or through TLS, on plain libevent events
 *
 * Socket events read into a bounded buffer and then wake the owner; what the owner writes is queued
 * and goes out in stream_settle(), which the owner calls once, when it is done with its pass. So
 * nothing calls back into an owner that is at work, and what must not go out yet (an answer's last
 * byte before its record) can be held by not settling it: stream_hold().
 *
 * Ownership   stream_new() takes the descriptor over, stream_start_tls() the SSL. stream_free()
 *             closes both; bytes that waited are wiped (they can bear a credential).
 * Blocking    never.
 * Callbacks   wake, from the event loop only. It may free the stream.
 * Failure     sticky: stream_failed() with trouble and text; bytes already read can still be taken.
 * Limits      STREAM_IN_MAX read and not taken; STREAM_PASS_MAX a wake-up; stream_full() at
 *             STREAM_HIGH queued until it fell to STREAM_LOW; STREAM_OUT_MAX is an error.
 * Tests       tests/unit/proxy/test_stream.c
 */
#ifndef PROXY_STREAM_H
#define PROXY_STREAM_H

#include <openssl/ssl.h>

#include "conf/buf.h"

#define STREAM_IN_MAX (80u << 10)
#define STREAM_PASS_MAX (64u << 10)
#define STREAM_HIGH (128u << 10)
#define STREAM_LOW (32u << 10)
#define STREAM_OUT_MAX (1u << 20)
#define STREAM_WHY_MAX 160

struct event_base;
struct stream;

typedef void stream_wake_fn(void *arg);

enum stream_trouble {
	STREAM_FINE,
	STREAM_RESET,		/* the connection broke */
	STREAM_CUT,		/* it ended inside a handshake */
	STREAM_ALERT,		/* the peer's TLS alert */
	STREAM_PROTOCOL,	/* TLS went wrong on this side's reading */
	STREAM_CERTIFICATE,	/* the peer's certificate did not verify */
	STREAM_OVERFLOW,	/* STREAM_OUT_MAX: an owner that does not ask stream_full() */
};

struct stream *stream_new(struct event_base *base, int fd, stream_wake_fn *wake, void *arg);
/* Somebody else is its owner from now on, and is woken. */
void stream_belongs_to(struct stream *s, stream_wake_fn *wake, void *arg);
void stream_free(struct stream *s);
/* From here on the bytes go through @ssl. What was read so far must be in its BIO: it is dropped.
 */
void stream_start_tls(struct stream *s, SSL *ssl);
/* Frees a plain stream but for its descriptor, which is the caller's from here on, with what was
 * read and not taken (buf_wipe()). What is queued is lost. */
int stream_detach(struct stream *s, struct buf *unread);
bool stream_handshaking(const struct stream *s);
bool stream_failed(const struct stream *s);
enum stream_trouble stream_trouble(const struct stream *s);
const char *stream_why(const struct stream *s);
SSL *stream_ssl(const struct stream *s);
int stream_fd(const struct stream *s);

/* ---- reading ---- */
struct str stream_in(const struct stream *s);
void stream_take(struct stream *s, size_t n);
/* Is more wanted? Off: the socket is left alone (back-pressure). */
void stream_want(struct stream *s, bool more);
/* The peer's side has ended. @clean: by FIN of a plain stream or close_notify of TLS, so that an
 * end of the bytes can be believed to be meant. */
bool stream_ended(const struct stream *s, bool *clean);
/* After the peer's side has ended, a reset is news, too: it does not wait for what we will send. */
void stream_watch(struct stream *s);
/* Reads what there is now, without waiting: has an idle connection died? what did a peer say before
 * writing to it failed? */
void stream_poll(struct stream *s);
uint64_t stream_bytes_in(const struct stream *s);

/* ---- writing ---- */
/* Where to append. */
struct buf *stream_out(struct stream *s);
bool stream_full(struct stream *s);
size_t stream_queued(const struct stream *s);
uint64_t stream_bytes_out(const struct stream *s);
void stream_hold(struct stream *s, bool hold);
/* After all that is queued: close_notify and FIN; then wakes. */
void stream_finish(struct stream *s);
bool stream_finished(const struct stream *s);
/* The peer is to see that something went wrong: no close_notify, RST. Nothing more is sent. */
void stream_abort(struct stream *s);
/* Sends what may go and applies interest. At the end of each of the owner's passes. */
void stream_settle(struct stream *s);
/* Wakes the owner once more, from the event loop: for what it found while it was at work. After
 * stream_settle(). */
void stream_nudge(struct stream *s);

#endif
