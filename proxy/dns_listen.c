/* Theory of operation
 *
 * UDP: at most UDP_PER_WAKEUP packets a turn of the loop. TCP: a connection has one buffer for the
 * query that is arriving and one for the answers not yet taken. It is read from while fewer than
 * DNS_PIPELINE_MAX of its queries are unanswered and its answers are being taken, so that what it
 * can make us hold is bounded. Its timer runs from one whole query to the next: a byte now and
 * then keeps nothing open.
 *
 * A connection that ends while queries are unanswered stays as a dead shell until the last asker
 * has been replied to; nothing is freed under a handler that may still use it.
 */
#include "proxy/dns_listen.h"

#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conf/buf.h"

#define UDP_PER_WAKEUP 64
#define ACCEPTS_PER_WAKEUP 16
#define FRAME 2

struct conn {
	struct dns_listen *listen;
	struct conn *next, **prev;
	int fd;
	struct event *readable, *writable, *idle;
	uint8_t in[FRAME + DNS_QUERY_MAX];
	size_t in_n;
	struct buf out;
	unsigned unanswered;
	bool eof;			/* it will ask no more, but may be waiting for answers */
	bool busy, dead;
};

struct dns_asker {
	struct dns_listen *listen;
	struct conn *conn;		/* NULL: UDP */
	struct sockaddr_in from;
	struct in_addr asked;		/* the address that the query was sent to */
};

struct dns_listen {
	struct event_base *base;
	dns_packet_fn *fn;
	void *arg;
	uint32_t ifindex;
	int udp, tcp;
	struct event *udp_readable, *tcp_acceptable;
	struct conn *conns;
	unsigned n_conns;
	uint8_t packet[DNS_MESSAGE_MAX];
};

/* ---- UDP ---- */

union pktinfo_control {
	struct cmsghdr align;
	char room[CMSG_SPACE(sizeof(struct in_pktinfo))];
};

static bool take_pktinfo(struct msghdr *m, struct in_pktinfo *info)
{
	for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h))
		if (h->cmsg_level == IPPROTO_IP && h->cmsg_type == IP_PKTINFO) {
			memcpy(info, CMSG_DATA(h), sizeof(*info));
			return true;
		}
	return false;
}

/* One packet. False when there is none. */
static bool read_packet(struct dns_listen *l)
{
	union pktinfo_control control;
	struct in_pktinfo info;
	struct sockaddr_in from = { 0 };
	struct iovec iov = { l->packet, sizeof(l->packet) };
	struct msghdr m = { .msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &iov,
			    .msg_iovlen = 1, .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(l->udp, &m, MSG_DONTWAIT);
	struct dns_asker *asker;

	if (n < 0)
		return errno != EAGAIN && errno != EWOULDBLOCK;
	if ((m.msg_flags & MSG_TRUNC) || from.sin_family != AF_INET || !take_pktinfo(&m, &info))
		return true;
	if (l->ifindex && (uint32_t)info.ipi_ifindex != l->ifindex)
		return true;
	asker = calloc(1, sizeof(*asker));
	if (!asker)
		return true;
	asker->listen = l;
	asker->from = from;
	asker->asked = info.ipi_spec_dst;
	l->fn(l->arg, asker, str_n((char *)l->packet, (size_t)n));
	return true;
}

static void on_udp(evutil_socket_t fd, short what, void *arg)
{
	struct dns_listen *l = arg;

	(void)fd;
	(void)what;
	for (unsigned i = 0; i < UDP_PER_WAKEUP && read_packet(l); i++)
		;
}

static void reply_udp(struct dns_asker *a, const uint8_t *answer, size_t n)
{
	union pktinfo_control control = { 0 };
	struct in_pktinfo info = { .ipi_spec_dst = a->asked };
	struct iovec iov = { (void *)(uintptr_t)answer, n };
	struct msghdr m = { .msg_name = &a->from,
			    .msg_namelen = sizeof(a->from),
			    .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);

	h->cmsg_level = IPPROTO_IP;
	h->cmsg_type = IP_PKTINFO;
	h->cmsg_len = CMSG_LEN(sizeof(info));
	memcpy(CMSG_DATA(h), &info, sizeof(info));
	/* What is lost, the box asks again. */
	if (sendmsg(a->listen->udp, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return;
}

/* ---- TCP ---- */

static void conn_release(struct conn *c)
{
	if (c->readable)
		event_free(c->readable);
	if (c->writable)
		event_free(c->writable);
	if (c->idle)
		event_free(c->idle);
	buf_free(&c->out);
	free(c);
}

/* The connection is over; its memory stays while somebody may come back to it. */
static void conn_end(struct conn *c)
{
	if (!c->dead) {
		c->dead = true;
		event_del(c->readable);
		event_del(c->writable);
		event_del(c->idle);
		close(c->fd);
		*c->prev = c->next;
		if (c->next)
			c->next->prev = c->prev;
		c->listen->n_conns--;
	}
	if (!c->busy && c->unanswered == 0)
		conn_release(c);
}

static bool conn_may_ask(const struct conn *c)
{
	return !c->dead && c->unanswered < DNS_PIPELINE_MAX && c->out.n < DNS_TCP_OUT_MAX;
}

static void conn_restart_idle(struct conn *c)
{
	const struct timeval tv = { .tv_sec = DNS_TCP_IDLE_MS / 1000 };

	event_add(c->idle, &tv);
}

/* Sends what the socket takes. False: the connection is broken. */
static bool conn_flush(struct conn *c)
{
	while (c->out.n) {
		ssize_t n = send(c->fd, c->out.p, c->out.n, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return false;
		if (n < 0) {
			event_add(c->writable, NULL);
			return true;
		}
		buf_drop(&c->out, (size_t)n);
	}
	event_del(c->writable);
	return true;
}

/* The length of the whole query at the buffer's start, 0 while it is not all there. */
static size_t frame_len(const struct conn *c)
{
	size_t n;

	if (c->in_n < FRAME)
		return 0;
	n = FRAME + ((size_t)c->in[0] << 8 | c->in[1]);
	return c->in_n < n ? 0 : n;
}

static bool frame_too_long(const struct conn *c)
{
	return c->in_n >= FRAME && ((size_t)c->in[0] << 8 | c->in[1]) > DNS_QUERY_MAX;
}

static void conn_ask(struct conn *c, size_t len)
{
	struct dns_asker *asker = calloc(1, sizeof(*asker));

	if (!asker) {
		conn_end(c);
		return;
	}
	asker->listen = c->listen;
	asker->conn = c;
	c->unanswered++;
	c->listen->fn(c->listen->arg, asker, str_n((char *)c->in + FRAME, len - FRAME));
}

/* Hands up the whole queries of the buffer, as long as more may be under way. */
static void conn_take_frames(struct conn *c)
{
	size_t len;

	while (conn_may_ask(c) && !frame_too_long(c) && (len = frame_len(c)) != 0) {
		conn_ask(c, len);
		memmove(c->in, c->in + len, c->in_n - len);
		c->in_n -= len;
		if (!c->dead)
			conn_restart_idle(c);
	}
	if (!c->dead && frame_too_long(c))
		conn_end(c);
}

static void conn_read(struct conn *c)
{
	ssize_t n = recv(c->fd, c->in + c->in_n, sizeof(c->in) - c->in_n, MSG_DONTWAIT);

	if (n > 0)
		c->in_n += (size_t)n;
	else if (n == 0)
		c->eof = true;
	else if (errno != EAGAIN && errno != EINTR)
		conn_end(c);
}

/* Runs with the connection held, then lets it go if it ended meanwhile. */
static void conn_run(struct conn *c, bool readable)
{
	c->busy = true;
	if (readable)
		conn_read(c);
	if (!c->dead)
		conn_take_frames(c);
	if (!c->dead && c->eof && c->unanswered == 0 && c->out.n == 0)
		conn_end(c);
	if (!c->dead && !c->eof && conn_may_ask(c))
		event_add(c->readable, NULL);
	else if (!c->dead)
		event_del(c->readable);
	c->busy = false;
	if (c->dead)
		conn_end(c);
}

static void on_conn_readable(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	conn_run(arg, true);
}

static void on_conn_writable(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c = arg;

	(void)fd;
	(void)what;
	if (!conn_flush(c))
		conn_end(c);
	else
		conn_run(c, false);
}

static void on_conn_idle(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c = arg;

	(void)fd;
	(void)what;
	if (c->unanswered && c->out.n == 0)
		conn_restart_idle(c);	/* it is we who let it wait */
	else
		conn_end(c);
}

static void reply_tcp(struct conn *c, const uint8_t *answer, size_t n)
{
	const uint8_t head[FRAME] = { (uint8_t)(n >> 8), (uint8_t)n };

	c->unanswered--;
	if (!c->dead && n) {
		buf_put(&c->out, head, sizeof(head));
		buf_put(&c->out, answer, n);
	}
	if (c->dead || c->out.failed || !conn_flush(c))
		conn_end(c);
	else if (!c->busy)
		conn_run(c, false);
}

static void conn_open(struct dns_listen *l, int fd)
{
	struct conn *c = l->n_conns < DNS_TCP_MAX ? calloc(1, sizeof(*c)) : NULL;

	if (!c) {
		close(fd);
		return;
	}
	c->listen = l;
	c->fd = fd;
	buf_init(&c->out, DNS_TCP_OUT_MAX + DNS_PIPELINE_MAX * (FRAME + DNS_UDP_MAX));
	c->readable = event_new(l->base, fd, EV_READ | EV_PERSIST, on_conn_readable, c);
	c->writable = event_new(l->base, fd, EV_WRITE | EV_PERSIST, on_conn_writable, c);
	c->idle = event_new(l->base, -1, 0, on_conn_idle, c);
	if (!c->readable || !c->writable || !c->idle || event_add(c->readable, NULL) < 0) {
		close(fd);
		conn_release(c);
		return;
	}
	conn_restart_idle(c);
	c->next = l->conns;
	c->prev = &l->conns;
	if (c->next)
		c->next->prev = &c->next;
	l->conns = c;
	l->n_conns++;
}

static void on_accept(evutil_socket_t fd, short what, void *arg)
{
	(void)what;
	for (unsigned i = 0; i < ACCEPTS_PER_WAKEUP; i++) {
		int new_fd = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (new_fd < 0)
			return;
		conn_open(arg, new_fd);
	}
}

/* ---- both ---- */

struct dns_listen *dns_listen_new(struct event_base *base, int udp, int tcp, uint32_t ifindex,
				  dns_packet_fn *fn, void *arg)
{
	struct dns_listen *l = calloc(1, sizeof(*l));

	if (!l) {
		close(udp);
		close(tcp);
		return NULL;
	}
	l->base = base;
	l->udp = udp;
	l->tcp = tcp;
	l->ifindex = ifindex;
	l->fn = fn;
	l->arg = arg;
	evutil_make_socket_nonblocking(tcp);
	l->udp_readable = event_new(base, udp, EV_READ | EV_PERSIST, on_udp, l);
	l->tcp_acceptable = event_new(base, tcp, EV_READ | EV_PERSIST, on_accept, l);
	if (!l->udp_readable || !l->tcp_acceptable || event_add(l->udp_readable, NULL) < 0 ||
	    event_add(l->tcp_acceptable, NULL) < 0) {
		dns_listen_free(l);
		return NULL;
	}
	return l;
}

void dns_listen_free(struct dns_listen *l)
{
	if (!l)
		return;
	while (l->conns)
		conn_end(l->conns);
	if (l->udp_readable)
		event_free(l->udp_readable);
	if (l->tcp_acceptable)
		event_free(l->tcp_acceptable);
	close(l->udp);
	close(l->tcp);
	free(l);
}

size_t dns_asker_max(const struct dns_asker *a, const struct dns_query *q)
{
	return a->conn ? DNS_MESSAGE_MAX : q->udp_size;
}

void dns_reply(struct dns_asker *a, const uint8_t *answer, size_t n)
{
	if (a->conn)
		reply_tcp(a->conn, answer, n);
	else if (n)
		reply_udp(a, answer, n);
	free(a);
}
