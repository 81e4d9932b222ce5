/* Theory of operation
 *
 * Reading happens in the socket's event only, writing in stream_settle() only. Three things make a
 * stream readable without its socket being so: bytes that OpenSSL has taken already
 * (SSL_has_pending), an owner that took bytes and made room, and a handshake that has just ended.
 * For the first two stream_settle() activates an event itself, where reading was left off (@left)
 * and not where it came to the end of what there is: part of a record may wait in OpenSSL for the
 * rest. It activates the write event: only a read event says that the socket has something.
 *
 * Buffers that are empty are given back: most connections are idle most of the time.
 *
 * Back-pressure towards the writer has a memory: once stream_full() has said yes it says so until
 * the queue fell to STREAM_LOW; stream_settle() then wakes the owner by activating the write event.
 *
 * An answer's last bytes, close_notify and FIN go out in one segment: what is sent once the end is
 * near says that more comes (MSG_MORE), and shutdown() sends it.
 *
 * OpenSSL may want to write in order to read and the reverse (key updates, alerts); @need keeps
 * which event the last call asked for.
 *
 * A peer that answers and closes without having read all that was sent to it makes its kernel send
 * a reset: writing fails, but what it said before waits in the socket. So a failure of writing
 * leaves the reading side as it is (@unsent), for stream_poll(). The failed call has taken the
 * socket's error away: the end that is read then looks clean. It is one only where the peer's FIN
 * came before its reset, and then the kernel's word was EPIPE (tcp(7): "the other end closed").
 */
#include "proxy/stream.h"

#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/tls_io.h"

#define READ_CHUNK 16384u
/* SSL_R_*_ALERT_*: an alert of the peer is its number plus this (SSL_AD_REASON_OFFSET). */
#define IS_ALERT(reason) ((reason) >= SSL_AD_REASON_OFFSET)

struct stream {
	int fd;
	SSL *ssl;
	struct event *readable, *writable, *gone;
	stream_wake_fn *wake;
	void *arg;
	struct buf in, out;
	size_t in_taken, out_sent;
	size_t in_used, out_used;	/* how far the buffers were ever filled: to be wiped */
	size_t last_pass;		/* bytes that the last pass read */
	bool handshaking, want, ended, clean, full, held, finish, finished, aborted, watched;
	bool left;		/* reading was left off before its end */
	bool reads, writes;	/* the events are set */
	bool told;		/* the write event is active: the owner is about to be woken */
	short need;		/* what a handshake waits for; 0: nothing, it has not begun */
	bool write_to_read;	/* reading waits for room to write */
	bool unsent;		/* the trouble is that of writing */
	bool reset;		/* and came before the peer's FIN */
	enum stream_trouble trouble;
	char why[STREAM_WHY_MAX];
	uint64_t bytes_in, bytes_out;
};

static void fail(struct stream *s, enum stream_trouble trouble, const char *why)
{
	if (s->trouble != STREAM_FINE)
		return;
	s->trouble = trouble;
	snprintf(s->why, sizeof(s->why), "%s", why);
}

/* The queue is empty but after trouble, and clearing an empty one costs more than a look. */
static void forget_errors(void)
{
	if (ERR_peek_error())
		ERR_clear_error();
}

/* What OpenSSL's error queue says, in words that name the cause. */
static void fail_tls(struct stream *s, int ssl_error)
{
	unsigned long e = ERR_peek_error();
	long verified = SSL_get_verify_result(s->ssl);
	const char *text = ERR_reason_error_string(e);

	if (s->handshaking && verified != X509_V_OK)
		fail(s, STREAM_CERTIFICATE, X509_verify_cert_error_string(verified));
	else if (ssl_error == SSL_ERROR_ZERO_RETURN ||
		 (e && ERR_GET_LIB(e) == ERR_LIB_SSL &&
		  ERR_GET_REASON(e) == SSL_R_UNEXPECTED_EOF_WHILE_READING))
		fail(s, STREAM_CUT, "connection closed inside the TLS handshake");
	else if (e && IS_ALERT(ERR_GET_REASON(e)))
		fail(s, STREAM_ALERT, text ? text : "TLS alert");
	else if (ssl_error == SSL_ERROR_SYSCALL)
		fail(s, STREAM_RESET, errno ? strerror(errno) : "connection reset");
	else
		fail(s, STREAM_PROTOCOL, text ? text : "TLS protocol error");
	ERR_clear_error();
}

/* ---- reading ---- */

static void handshake(struct stream *s)
{
	int r, e;

	ERR_clear_error();
	r = SSL_do_handshake(s->ssl);
	if (r == 1) {
		s->handshaking = false;
		return;
	}
	e = SSL_get_error(s->ssl, r);
	if (e == SSL_ERROR_WANT_READ)
		s->need = EV_READ;
	else if (e == SSL_ERROR_WANT_WRITE)
		s->need = EV_WRITE;
	else
		fail_tls(s, e);
}

/* 0: no bytes now. */
static size_t read_tls(struct stream *s, char *to, size_t n)
{
	size_t got = 0;
	int r, e;

	forget_errors();
	errno = 0;
	r = SSL_read_ex(s->ssl, to, n, &got);
	if (r == 1)
		return got;
	e = SSL_get_error(s->ssl, r);
	s->write_to_read = e == SSL_ERROR_WANT_WRITE;
	if (e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE)
		return 0;
	/* A context may let an end without close_notify pass as one with it. */
	if (e == SSL_ERROR_ZERO_RETURN)
		s->clean = !BIO_eof(SSL_get_rbio(s->ssl));
	else if (e == SSL_ERROR_SSL &&
		 ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING)
		s->clean = false;
	else
		fail_tls(s, e);
	s->ended = true;
	ERR_clear_error();
	return 0;
}

static size_t read_plain(struct stream *s, char *to, size_t n)
{
	ssize_t got = recv(s->fd, to, n, 0);

	if (got > 0)
		return (size_t)got;
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (got < 0)
		fail(s, STREAM_RESET, strerror(errno));
	s->clean = got == 0 && !s->reset;
	s->ended = true;
	return 0;
}

static size_t room(const struct stream *s)
{
	return STREAM_IN_MAX - (s->in.n - s->in_taken);
}

/* Taken bytes leave the buffer when it is empty or when their place is needed. */
static void compact(struct buf *b, size_t *gone)
{
	if (*gone)
		buf_drop(b, *gone);
	*gone = 0;
}

static bool can_read(const struct stream *s)
{
	return !s->handshaking && !s->ended && (s->trouble == STREAM_FINE || s->unsent);
}

/* Reading again would only say so. */
static bool nothing_behind(const struct stream *s, size_t got, size_t room)
{
	if (s->ssl)
		return !SSL_has_pending(s->ssl) && tls_io_drained(SSL_get_rbio(s->ssl));
	return got < room;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static size_t read_into(struct stream *s, char *to, size_t n)
{
	return s->ssl ? read_tls(s, to, n) : read_plain(s, to, n);
}

/* Through room that all streams share: most that comes is small, and takes no more than it needs.
 */
static size_t read_small(struct stream *s, size_t n)
{
	static char room[READ_CHUNK];
	size_t got = read_into(s, room, n);

	buf_put(&s->in, room, got);
	explicit_bzero(room, got);
	return got;
}

static size_t read_large(struct stream *s, size_t n)
{
	char *to = buf_room(&s->in, n);
	size_t got = to ? read_into(s, to, n) : 0;

	if (to)
		buf_grown(&s->in, got);
	return got;
}

/* One read of at most @max bytes. *more: there may be more. */
static size_t read_once(struct stream *s, size_t max, bool *more)
{
	size_t n = least(least(room(s), READ_CHUNK), max), got;

	got = s->last_pass < READ_CHUNK ? read_small(s, n) : read_large(s, n);
	if (s->in.failed) {
		fail(s, STREAM_OVERFLOW, "out of memory");
		*more = false;
		return 0;
	}
	if (s->in.n > s->in_used)
		s->in_used = s->in.n;
	s->bytes_in += got;
	*more = got && !nothing_behind(s, got, n);
	return got;
}

/* @thorough: until the kernel says that there is no more, or that this is the end. */
static void read_some(struct stream *s, bool thorough)
{
	size_t total = 0, got;
	bool more = true;

	compact(&s->in, &s->in_taken);
	/* Room at once for as much as came last: growing step by step copies. */
	if (s->in.n == 0 && s->last_pass >= READ_CHUNK)
		(void)buf_room(&s->in, s->last_pass);
	while (more && total < STREAM_PASS_MAX && room(s) && can_read(s)) {
		if (s->ssl && thorough)
			tls_io_woken(SSL_get_rbio(s->ssl));
		got = read_once(s, STREAM_PASS_MAX - total, &more);
		more |= thorough && got;
		total += got;
	}
	s->left = more;
	s->last_pass = total;
}

static void on_event(evutil_socket_t fd, short what, void *arg)
{
	struct stream *s = arg;

	(void)fd;
	if (what & EV_WRITE)
		s->told = false;
	if (s->ssl && what & EV_READ)
		tls_io_woken(SSL_get_rbio(s->ssl));
	if (s->handshaking && s->trouble == STREAM_FINE)
		handshake(s);
	if (s->want && can_read(s))
		read_some(s, false);
	else
		s->left = true;
	s->wake(s->arg);
}

/* The other end is done sending: the next thing to hear of it is that it is gone. */
static void on_gone(evutil_socket_t fd, short what, void *arg)
{
	struct stream *s = arg;
	int error = 0;
	socklen_t n = sizeof(error);

	(void)what;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) < 0 || error == 0)
		return;
	s->unsent = true;	/* what it sent before is whole */
	fail(s, STREAM_RESET, strerror(error));
	s->wake(s->arg);
}

void stream_poll(struct stream *s)
{
	if (can_read(s))
		read_some(s, true);
}

/* ---- writing ---- */

static void fail_writing(struct stream *s)
{
	s->unsent = s->trouble == STREAM_FINE;
	s->reset = errno != EPIPE;
	fail(s, STREAM_RESET, strerror(errno));
}

/* How many bytes went; 0: not now, or failed. */
static size_t write_tls(struct stream *s, const char *p, size_t n)
{
	size_t put = 0;
	int r, e;

	forget_errors();
	errno = 0;
	r = SSL_write_ex(s->ssl, p, n, &put);
	if (r == 1)
		return put;
	e = SSL_get_error(s->ssl, r);
	if (e == SSL_ERROR_SYSCALL && errno)
		fail_writing(s);
	else if (e != SSL_ERROR_WANT_READ && e != SSL_ERROR_WANT_WRITE)
		fail_tls(s, e);
	ERR_clear_error();
	return 0;
}

static size_t write_plain(struct stream *s, const char *p, size_t n)
{
	ssize_t put = send(s->fd, p, n, MSG_NOSIGNAL | (s->finish ? MSG_MORE : 0));

	if (put >= 0)
		return (size_t)put;
	if (errno != EAGAIN && errno != EINTR)
		fail_writing(s);
	return 0;
}

static void flush(struct stream *s)
{
	size_t put = 1;

	if (s->out.n > s->out_used)
		s->out_used = s->out.n;
	if (s->out.failed)
		fail(s, STREAM_OVERFLOW, "too much queued");
	if (s->ssl && s->finish)
		tls_io_last(SSL_get_wbio(s->ssl));
	while (put && stream_queued(s) && s->trouble == STREAM_FINE) {
		const char *p = s->out.p + s->out_sent;

		put = s->ssl ? write_tls(s, p, stream_queued(s))
			     : write_plain(s, p, stream_queued(s));
		s->out_sent += put;
		s->bytes_out += put;
	}
	if (s->out_sent && stream_queued(s) == 0) {
		explicit_bzero(s->out.p, s->out_used);
		s->out.n = s->out_sent = s->out_used = 0;
		buf_free(&s->out);
	} else if (s->out_sent > STREAM_LOW) {
		compact(&s->out, &s->out_sent);
	}
}

static void end_writing(struct stream *s)
{
	if (s->ssl) {
		ERR_clear_error();
		(void)SSL_shutdown(s->ssl);
		ERR_clear_error();
	}
	shutdown(s->fd, SHUT_WR);
	s->finished = true;
}

static void set_interest(struct event *e, bool *is, bool on)
{
	if (on && !*is)
		event_add(e, NULL);
	else if (!on && *is)
		event_del(e);
	*is = on;
}

/* An end stays readable for ever: what comes behind it is heard of by its edge alone, and by no
 * other event at the same time (libevent wants a descriptor's events of one kind). Few streams come
 * to it: the event is made then. Where it cannot be, a reset is felt when something is sent. */
static void listen_for_reset(struct stream *s)
{
	if (!s->gone)
		s->gone = event_new(event_get_base(s->readable), s->fd,
				    EV_READ | EV_ET | EV_PERSIST, on_gone, s);
	if (s->gone)
		event_add(s->gone, NULL);
}

void stream_settle(struct stream *s)
{
	bool dead, reads, writes, listens, tell = false;

	if (!s->handshaking && !s->held && !s->aborted && s->trouble == STREAM_FINE) {
		flush(s);
		if (s->finish && !s->finished && stream_queued(s) == 0 &&
		    s->trouble == STREAM_FINE) {
			end_writing(s);
			tell = true;
		}
		tell |= s->trouble != STREAM_FINE;
	}
	dead = s->trouble != STREAM_FINE || s->aborted;
	reads = s->handshaking ? s->need != EV_WRITE : s->want && !s->ended && room(s) > 0;
	writes = s->handshaking ? s->need == EV_WRITE
				: (stream_queued(s) > 0 && !s->held) || s->write_to_read;
	listens = s->watched && !dead && !s->handshaking && s->ended && !writes;
	if (s->gone && !listens)
		event_del(s->gone);
	set_interest(s->readable, &s->reads, !dead && reads);
	/* An event that is active and not set cannot be set: libevent would do nothing. */
	if (s->told && !s->writes)
		event_del(s->writable);
	set_interest(s->writable, &s->writes, !dead && writes);
	if (listens)
		listen_for_reset(s);
	tell |= !dead && s->handshaking && s->need == 0;
	tell |= !dead && !s->handshaking && reads && s->ssl && s->left && SSL_has_pending(s->ssl);
	if (s->full && stream_queued(s) <= STREAM_LOW) {
		s->full = false;
		tell = true;
	}
	/* Only after interest was set: taking an event away takes its activation along, one of an
	 * earlier pass, too. */
	if (tell || s->told)
		stream_nudge(s);
	if (s->in.n == 0 && s->in.cap) {
		explicit_bzero(s->in.p, s->in_used);
		s->in_used = 0;
		buf_free(&s->in);
	}
}

void stream_nudge(struct stream *s)
{
	s->told = true;
	event_active(s->writable, EV_WRITE, 0);
}

struct buf *stream_out(struct stream *s)
{
	return &s->out;
}

size_t stream_queued(const struct stream *s)
{
	return s->out.n - s->out_sent;
}

bool stream_full(struct stream *s)
{
	if (stream_queued(s) >= STREAM_HIGH)
		s->full = true;
	return s->full;
}

void stream_hold(struct stream *s, bool hold)
{
	s->held = hold;
}

void stream_finish(struct stream *s)
{
	s->finish = true;
}

bool stream_finished(const struct stream *s)
{
	return s->finished || s->aborted || s->trouble != STREAM_FINE;
}

void stream_abort(struct stream *s)
{
	struct linger now = { .l_onoff = 1, .l_linger = 0 };

	s->aborted = true;
	setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

/* ---- what is known of it ---- */

struct str stream_in(const struct stream *s)
{
	return str_from(buf_str(&s->in), s->in_taken);
}

void stream_take(struct stream *s, size_t n)
{
	s->in_taken += n;
	if (s->in_taken == s->in.n)
		s->in_taken = s->in.n = 0;
}

void stream_want(struct stream *s, bool more)
{
	s->want = more;
}

void stream_watch(struct stream *s)
{
	s->watched = true;
}

bool stream_ended(const struct stream *s, bool *clean)
{
	*clean = s->clean && (s->trouble == STREAM_FINE || s->unsent);
	return s->ended;
}

bool stream_handshaking(const struct stream *s)
{
	return s->handshaking;
}

bool stream_failed(const struct stream *s)
{
	return s->trouble != STREAM_FINE;
}

enum stream_trouble stream_trouble(const struct stream *s)
{
	return s->trouble;
}

const char *stream_why(const struct stream *s)
{
	return s->why;
}

SSL *stream_ssl(const struct stream *s)
{
	return s->ssl;
}

int stream_fd(const struct stream *s)
{
	return s->fd;
}

uint64_t stream_bytes_in(const struct stream *s)
{
	return s->bytes_in;
}

uint64_t stream_bytes_out(const struct stream *s)
{
	return s->bytes_out;
}

/* ---- life ---- */

struct stream *stream_new(struct event_base *base, int fd, stream_wake_fn *wake, void *arg)
{
	struct stream *s = calloc(1, sizeof(*s));
	int on = 1;

	if (!s) {
		close(fd);
		return NULL;
	}
	s->fd = fd;
	s->wake = wake;
	s->arg = arg;
	s->want = true;
	buf_init(&s->in, STREAM_IN_MAX + READ_CHUNK);
	buf_init(&s->out, STREAM_OUT_MAX);
	/* Small answers go at once; what is large fills segments anyway. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	s->readable = event_new(base, fd, EV_READ | EV_PERSIST, on_event, s);
	s->writable = event_new(base, fd, EV_WRITE | EV_PERSIST, on_event, s);
	if (!s->readable || !s->writable) {
		stream_free(s);
		return NULL;
	}
	return s;
}

void stream_belongs_to(struct stream *s, stream_wake_fn *wake, void *arg)
{
	s->wake = wake;
	s->arg = arg;
}

void stream_free(struct stream *s)
{
	if (!s)
		return;
	if (s->readable)
		event_free(s->readable);
	if (s->writable)
		event_free(s->writable);
	if (s->gone)
		event_free(s->gone);
	SSL_free(s->ssl);
	if (s->fd >= 0)
		close(s->fd);
	buf_wipe(&s->in);
	buf_wipe(&s->out);
	free(s);
}

int stream_detach(struct stream *s, struct buf *unread)
{
	int fd = s->fd;

	compact(&s->in, &s->in_taken);
	*unread = s->in;
	buf_init(&s->in, 0);
	s->fd = -1;
	stream_free(s);
	return fd;
}

void stream_start_tls(struct stream *s, SSL *ssl)
{
	s->ssl = ssl;
	s->in.n = s->in_taken = 0;
	s->handshaking = true;
	/* The first step waits for nothing: a client speaks first, a server has the hello already.
	 */
	s->need = 0;
}
