#include "proxy/dial.h"

#include <errno.h>
#include <event2/event.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conf/buf.h"
#include "proxy/clock.h"

struct attempt {
	struct dial *dial;
	struct addr addr;
	int fd;			/* -1: not begun, or over */
	struct event *writable;
};

struct dial {
	struct event_base *base;
	struct dial_order order;
	struct attempt attempts[DIAL_ADDRS_MAX];
	size_t n, begun, open;
	unsigned refused, timed_out, unreachable, prohibited, failed;
	struct addr last;
	struct event *stagger, *deadline;
	struct buf text;
	uint64_t since;
};

/* Families by turns, IPv6 first (RFC 8305 4). */
static void interleave(struct dial *d)
{
	const struct dial_order *o = &d->order;
	size_t next[2] = { 0, 0 };
	const uint8_t family[2] = { 6, 4 };
	unsigned turn = 0, empty = 0;

	while (d->n < DIAL_ADDRS_MAX && empty < 2) {
		size_t *i = &next[turn];

		while (*i < o->n && o->addrs[*i].family != family[turn])
			++*i;
		empty = *i < o->n ? 0 : empty + 1;
		if (*i < o->n)
			d->attempts[d->n++].addr = o->addrs[(*i)++];
		turn ^= 1;
	}
}

static void attempt_close(struct attempt *a)
{
	if (a->writable)
		event_free(a->writable);
	a->writable = NULL;
	if (a->fd >= 0) {
		close(a->fd);
		a->fd = -1;
		a->dial->open--;
	}
}

static void dial_free(struct dial *d)
{
	for (size_t i = 0; i < d->n; i++)
		attempt_close(&d->attempts[i]);
	if (d->stagger)
		event_free(d->stagger);
	if (d->deadline)
		event_free(d->deadline);
	buf_free(&d->text);
	free(d);
}

static void tell(struct dial *d, const struct addr *a, const char *what)
{
	char text[ADDR_TEXT_MAX];
	struct buf line;

	d->last = *a;
	buf_init(&line, DIAL_ATTEMPTS_TEXT_MAX);
	buf_printf(&line, "%s%s: %s", d->text.n ? "; " : "", addr_format(a, text), what);
	if (!line.failed && d->text.n + line.n <= DIAL_ATTEMPTS_TEXT_MAX)
		buf_put_str(&d->text, buf_str(&line));
	buf_free(&line);
}

/* @winner: its descriptor goes to the callback. */
static void finish(struct dial *d, enum dial_status status, struct attempt *winner)
{
	struct dial_result r = { .status = status,
				 .fd = -1,
				 .addr = winner ? winner->addr : d->last };
	dial_fn *fn = d->order.fn;
	void *arg = d->order.arg;
	char attempts[DIAL_ATTEMPTS_TEXT_MAX];

	if (winner) {
		for (size_t i = 0; i < d->n; i++)
			if (&d->attempts[i] != winner && d->attempts[i].fd >= 0)
				tell(d, &d->attempts[i].addr, "no answer yet");
		r.fd = winner->fd;
		event_free(winner->writable);
		winner->writable = NULL;
		winner->fd = -1;
	}
	r.ms = (uint32_t)(clock_ms() - d->since);
	r.attempts = str_n(attempts, d->text.n);
	if (d->text.n)
		memcpy(attempts, d->text.p, d->text.n);
	dial_free(d);
	fn(arg, &r);
}

static void tell_failure(struct dial *d, const struct addr *a, int error)
{
	switch (error) {
	case ECONNREFUSED:
		d->refused++;
		tell(d, a, "connection refused");
		break;
	case ECONNRESET:	/* taken and ended at once: no more than a refusal */
		d->refused++;
		tell(d, a, "connection reset");
		break;
	case ETIMEDOUT:
		d->timed_out++;
		tell(d, a, "timed out");
		break;
	case ENETUNREACH:
	case EHOSTUNREACH:
	case EADDRNOTAVAIL:
	case EAFNOSUPPORT:
		d->unreachable++;
		tell(d, a, "unreachable");
		break;
	default:
		d->failed++;
		tell(d, a, "failed");
		break;
	}
}

static enum dial_status joined_status(const struct dial *d)
{
	return d->timed_out ? DIAL_TIMEOUT : d->refused ? DIAL_REFUSED :
	       d->unreachable ? DIAL_UNREACHABLE : d->failed ? DIAL_FAILED :
	       d->prohibited ? DIAL_PROHIBITED : DIAL_UNREACHABLE;
}

static void begin_next(struct dial *d);

/* Over, when nothing is left to try or to wait for; else the next attempt starts now. */
static void after_failure(struct dial *d)
{
	if (d->begun < d->n)
		begin_next(d);
	else if (d->open == 0)
		finish(d, joined_status(d), NULL);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct attempt *a = arg;
	struct dial *d = a->dial;
	int error = 0, on = 1;
	socklen_t len = sizeof(error);

	(void)what;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		error = errno;
	if (error) {
		tell_failure(d, &a->addr, error);
		attempt_close(a);
		after_failure(d);
		return;
	}
	/* Its user may set no options: they are set here. They help, and their lack harms nothing.
	 */
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) < 0)
		error = errno;
	finish(d, DIAL_OK, a);
}

/* 0, or the errno of what failed at once. */
static int attempt_begin(struct attempt *a)
{
	struct dial *d = a->dial;
	struct sockaddr_storage to;
	socklen_t len = addr_to_sockaddr(&a->addr, d->order.port, &to);

	a->fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (a->fd < 0)
		return errno;
	d->open++;
	if (connect(a->fd, (struct sockaddr *)&to, len) < 0 && errno != EINPROGRESS)
		return errno;
	a->writable = event_new(d->base, a->fd, EV_WRITE, on_writable, a);
	if (!a->writable || event_add(a->writable, NULL) < 0)
		return ENOMEM;
	return 0;
}

/* Starts the next attempt that does not fail at once, and the clock for the one after it. */
static void begin_next(struct dial *d)
{
	const struct timeval stagger = { .tv_usec = DIAL_STAGGER_MS * 1000 };

	while (d->begun < d->n) {
		struct attempt *a = &d->attempts[d->begun++];
		const char *objection = d->order.judge(d->order.arg, &a->addr);
		int error;

		if (objection) {
			d->prohibited++;
			tell(d, &a->addr, objection);
			continue;
		}
		error = attempt_begin(a);
		if (error == 0)
			break;
		tell_failure(d, &a->addr, error);
		attempt_close(a);
	}
	if (d->begun < d->n)
		event_add(d->stagger, &stagger);
	else
		event_del(d->stagger);
	if (d->open == 0)
		finish(d, joined_status(d), NULL);
}

static void on_stagger(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	begin_next(arg);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
	struct dial *d = arg;

	(void)fd;
	(void)what;
	for (size_t i = 0; i < d->n; i++)
		if (d->attempts[i].fd >= 0)
			tell_failure(d, &d->attempts[i].addr, ETIMEDOUT);
	finish(d, DIAL_TIMEOUT, NULL);
}

struct dial *dial_start(struct event_base *base, const struct dial_order *order)
{
	uint32_t ms = order->timeout_ms ? order->timeout_ms : DIAL_TIMEOUT_MS;
	const struct timeval now = { 0 };
	const struct timeval limit = { .tv_sec = ms / 1000,
				       .tv_usec = (suseconds_t)(ms % 1000) * 1000 };
	struct dial *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->base = base;
	d->order = *order;
	d->since = clock_ms();
	buf_init(&d->text, DIAL_ATTEMPTS_TEXT_MAX);
	interleave(d);
	for (size_t i = 0; i < d->n; i++) {
		d->attempts[i].dial = d;
		d->attempts[i].fd = -1;
	}
	d->order.addrs = NULL;
	d->stagger = event_new(base, -1, 0, on_stagger, d);
	d->deadline = event_new(base, -1, 0, on_deadline, d);
	if (!d->stagger || !d->deadline || event_add(d->stagger, &now) < 0 ||
	    event_add(d->deadline, &limit) < 0) {
		dial_free(d);
		return NULL;
	}
	return d;
}

void dial_cancel(struct dial *d)
{
	if (d)
		dial_free(d);
}
