/* Theory of operation
 *
 * Reading: recvmsg() into a buffer of MESSAGE_MAX bytes; for each message in it, one after the
 * other, the row found, all its conditions checked, decoded into a struct on the stack of the read
 * and handed up. A channel that has failed is dead: its event is removed, so that a hostile peer
 * cannot get a second message looked at. Descriptors of a message that was not accepted are closed
 * at once.
 *
 * Writing: sendmsg() directly; what does not go is queued with duplicates of its descriptors, in
 * order, and sent when the socket is writable. A channel that gathers queues everything, a message
 * without descriptors into the packet before it where that has none and room, and activates its own
 * event, which the loop comes to behind all that is active already. Secret rows are wiped in both
 * directions.
 *
 * The handler may free the channel. channel_free() under a running handler only marks it; the
 * reader, back in control, releases it.
 */
#include "sandbox/channel.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define READS_PER_WAKEUP 32
#define DECODED_MAX 512
#define GATHER_MAX 16384u
#define GATHER_ENOUGH (GATHER_MAX - 2048)

struct packet {
	struct packet *next;
	struct buf bytes;
	int fds[MESSAGE_FDS_MAX];
	size_t n_fds, messages;
	bool secret;
};

struct channel {
	struct channel_peer peer;
	int fd;
	struct event *readable, *writable;
	enum phase phase;
	uint64_t seen[MESSAGE_ROWS_MAX / 64];	/* a bit a row that may come once: it has */
	struct packet *head, **tail, *last;
	size_t queued, queued_fds, queued_messages;
	size_t max_queued, max_messages;
	char *bytes; /* what is being read: a handler may drain another channel meanwhile */
	bool dead, busy, freed, paused, gathers;
};

enum err channel_pair(int fds[2])
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
		return ERR_SYSTEM;
	return OK;
}

void channel_close_fds(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/* What it costs here: of a small message, its bytes are the least part. */
static size_t cost(const struct packet *p)
{
	return sizeof(*p) + p->bytes.cap;
}

static void packet_free(struct packet *p)
{
	channel_close_fds(p->fds, p->n_fds);
	if (p->secret)
		buf_wipe(&p->bytes);
	else
		buf_free(&p->bytes);
	free(p);
}

static void release(struct channel *c)
{
	while (c->head) {
		struct packet *p = c->head;

		c->head = p->next;
		packet_free(p);
	}
	if (c->readable)
		event_free(c->readable);
	if (c->writable)
		event_free(c->writable);
	close(c->fd);
	free(c->bytes);
	free(c);
}

static const char end_of_file[] = "end of file";

bool channel_ended(const char *why)
{
	return strcmp(why, end_of_file) == 0;
}

static void fail(struct channel *c, const char *why)
{
	if (c->dead)
		return;
	c->dead = true;
	event_del(c->readable);
	event_del(c->writable);
	if (!c->freed && c->peer.on_closed)
		c->peer.on_closed(c->peer.arg, why);
}

/* ---- reading ---- */

static size_t take_fds(struct msghdr *m, int fds[MESSAGE_FDS_MAX])
{
	size_t n = 0;

	for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
		size_t here;

		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		here = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < here; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(h) + i * sizeof(int), sizeof(fd));
			if (n < MESSAGE_FDS_MAX)
				fds[n++] = fd;
			else
				close(fd);
		}
	}
	return n;
}

static bool between(const struct message_row *row, enum role from, enum role to)
{
	return (row->from == from || row->from == ROLE_ANY) &&
	       (row->to == to || row->to == ROLE_ANY);
}

/* Why this message may not come here and now, or NULL. */
static const char *objection(struct channel *c, const struct message_row *row, size_t n_fds)
{
	uint64_t bit;
	size_t number;

	if (!row)
		return "unknown message";
	if (!between(row, c->peer.other, c->peer.self))
		return "message in the wrong direction";
	if (!(row->phases & c->phase))
		return "message in the wrong phase";
	if (n_fds < row->fds_min || n_fds > row->fds_max)
		return "wrong number of descriptors";
	number = (size_t)(row - c->peer.table);
	if (number >= MESSAGE_ROWS_MAX)
		abort();
	bit = UINT64_C(1) << (number & 63);
	if (row->once && (c->seen[number / 64] & bit))
		return "message repeated";
	c->seen[number / 64] |= bit;
	return NULL;
}

/* The message at the front of *@packet, and moves past it. True: it was secret. */
static bool handle_one(struct channel *c, struct str *packet, int *fds, size_t n_fds)
{
	_Alignas(16) unsigned char msg[DECODED_MAX];
	struct str scratch[2 * MESSAGE_LIST_MAX];
	const struct message_row *row = NULL;
	const char *why = "message too short";
	bool secret;

	if (packet->n >= 2) {
		row = message_row(c->peer.table, (uint16_t)((unsigned char)packet->p[0] |
							    (unsigned char)packet->p[1] << 8));
		why = objection(c, row, n_fds);
		*packet = str_from(*packet, 2);
	}
	if (!why && row->size > sizeof(msg))
		abort();
	if (!why && message_decode(row, packet, msg, scratch, 2 * MESSAGE_LIST_MAX) != OK)
		why = "malformed message";
	/* Whose descriptors they would be, nobody could say. */
	if (!why && packet->n && (n_fds || !c->gathers))
		why = "malformed message";
	if (why) {
		channel_close_fds(fds, n_fds);
		fail(c, why);
	} else {
		c->peer.on_message(c->peer.arg, row->type, msg, fds, n_fds);
	}
	secret = row && row->secret;
	if (secret)
		explicit_bzero(msg, sizeof(msg));
	return secret;
}

static void handle(struct channel *c, struct str packet, int *fds, size_t n_fds)
{
	struct str rest = packet;
	bool secret = false;

	do {
		secret |= handle_one(c, &rest, fds, n_fds);
	} while (rest.n && !c->dead && !c->freed);
	if (secret)
		explicit_bzero((char *)(uintptr_t)packet.p, packet.n);
}

/* One packet. False when there is none, or the channel is dead. */
static bool read_one(struct channel *c)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(MESSAGE_FDS_MAX * sizeof(int))];
	} control;
	struct iovec iov = { c->bytes, MESSAGE_MAX + 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	int fds[MESSAGE_FDS_MAX];
	ssize_t n = recvmsg(c->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	size_t n_fds;

	if (n < 0) {
		if (errno != EAGAIN && errno != EINTR)
			fail(c, errno == ECONNRESET ? end_of_file : "read error");
		return false;
	}
	n_fds = take_fds(&m, fds);
	if (n == 0 || (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || (size_t)n > MESSAGE_MAX) {
		/* Cut short before all that has room: we may open no more. */
		bool none_left = (m.msg_flags & MSG_CTRUNC) && n_fds < MESSAGE_FDS_MAX;

		channel_close_fds(fds, n_fds);
		fail(c, n == 0	    ? end_of_file
			: none_left ? "no descriptors are left for what it sends"
				    : "message too long");
		return false;
	}
	handle(c, str_n(c->bytes, (size_t)n), fds, n_fds);
	return !c->dead && !c->freed;
}

/* At most @most packets; releases the channel where a handler freed it. */
static void read_some(struct channel *c, unsigned most)
{
	if (c->busy)
		return;
	c->busy = true;
	while (most-- && !c->dead && !c->freed && !c->paused && read_one(c))
		;
	c->busy = false;
	if (c->freed)
		release(c);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	/* What was gathered came together: a second read would mostly find nothing. */
	read_some(arg, ((struct channel *)arg)->gathers ? 1 : READS_PER_WAKEUP);
}

void channel_drain(struct channel *c)
{
	read_some(c, UINT32_MAX);
}

void channel_pause(struct channel *c, bool paused)
{
	c->paused = paused;
	if (c->dead)
		return;
	if (paused)
		event_del(c->readable);
	else
		event_add(c->readable, NULL);
}

/* ---- writing ---- */

/* OK, ERR_AGAIN or ERR_CLOSED. */
static enum err send_packet(int fd, const struct packet *p)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(MESSAGE_FDS_MAX * sizeof(int))];
	} control = { 0 };
	struct iovec iov = { p->bytes.p, p->bytes.n };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (p->n_fds) {
		struct cmsghdr *h;

		m.msg_control = &control;
		m.msg_controllen = CMSG_SPACE(p->n_fds * sizeof(int));
		h = CMSG_FIRSTHDR(&m);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(p->n_fds * sizeof(int));
		memcpy(CMSG_DATA(h), p->fds, p->n_fds * sizeof(int));
	}
	if (sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
		return OK;
	return errno == EAGAIN || errno == EINTR || errno == ENOBUFS ? ERR_AGAIN : ERR_CLOSED;
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct channel *c = arg;

	(void)what;
	while (c->head) {
		struct packet *p = c->head;
		enum err e = send_packet(fd, p);

		if (e == ERR_AGAIN) {
			event_add(c->writable, NULL);
			return;
		}
		if (e) {
			fail(c, errno == EPIPE || errno == ECONNRESET ? end_of_file : "write error");
			return;
		}
		c->head = p->next;
		if (!c->head)
			c->tail = &c->head;
		c->queued -= cost(p);
		c->queued_messages -= p->messages;
		c->queued_fds -= p->n_fds;
		packet_free(p);
	}
	event_del(c->writable);
}

static enum err enqueue(struct channel *c, struct packet *p)
{
	if (c->queued + cost(p) > c->max_queued ||
	    c->queued_messages >= c->max_messages ||
	    c->queued_fds + p->n_fds > CHANNEL_QUEUE_FDS_MAX)
		return ERR_FULL;
	for (size_t i = 0; i < p->n_fds; i++) {
		p->fds[i] = fcntl(p->fds[i], F_DUPFD_CLOEXEC, 0);
		if (p->fds[i] < 0) {
			channel_close_fds(p->fds, i);
			return ERR_SYSTEM;
		}
	}
	if (!c->head && c->gathers && p->n_fds == 0)
		event_active(c->writable, EV_WRITE, 0);
	else if (!c->head)
		event_add(c->writable, NULL);
	*c->tail = p;
	c->tail = &p->next;
	c->last = p;
	c->queued += cost(p);
	c->queued_messages++;
	p->messages = 1;
	c->queued_fds += p->n_fds;
	return OK;
}

/* Into the packet before it, where that can be. */
static bool gather(struct channel *c, const struct message_row *row, const void *msg)
{
	struct packet *last = c->gathers && c->head ? c->last : NULL;
	size_t start, before;
	bool ok;

	if (!last || last->n_fds || last->bytes.n > GATHER_ENOUGH ||
	    c->queued_messages >= c->max_messages)
		return false;
	start = last->bytes.n;
	before = cost(last);
	last->secret |= row->secret;
	ok = message_encode(row, msg, &last->bytes) == OK && last->bytes.n <= GATHER_MAX;
	if (!ok) {
		last->bytes.n = start;
		last->bytes.failed = false;
	}
	last->messages += ok;
	c->queued_messages += ok;
	c->queued += cost(last) - before;
	return ok;
}

enum err channel_send(struct channel *c, uint16_t type, const void *msg, const int *fds,
		      size_t n_fds)
{
	const struct message_row *row = message_row(c->peer.table, type);
	struct packet *p;
	enum err e;

	if (!row || !between(row, c->peer.self, c->peer.other) || n_fds < row->fds_min ||
	    n_fds > row->fds_max || !(row->phases & c->phase))
		return ERR_BUG;
	if (c->dead)
		return ERR_CLOSED;
	if (n_fds == 0 && gather(c, row, msg))
		return OK;
	p = calloc(1, sizeof(*p));
	if (!p)
		return ERR_NOMEM;
	p->secret = row->secret;
	buf_init(&p->bytes, MESSAGE_MAX + 64);
	e = message_encode(row, msg, &p->bytes);
	if (!e) {
		if (n_fds)
			memcpy(p->fds, fds, n_fds * sizeof(int));
		p->n_fds = n_fds;
		e = c->head || (c->gathers && n_fds == 0) ? ERR_AGAIN : send_packet(c->fd, p);
		if (e == ERR_AGAIN) {
			e = enqueue(c, p);
			if (!e)
				return OK;
		}
		p->n_fds = 0;	/* the caller's own */
	}
	packet_free(p);
	return e;
}

/* ---- life ---- */

struct channel *channel_new(struct event_base *base, int fd, const struct channel_peer *peer)
{
	struct channel *c = calloc(1, sizeof(*c));

	if (!c) {
		close(fd);
		return NULL;
	}
	c->peer = *peer;
	c->fd = fd;
	c->phase = PHASE_START;
	c->max_queued = CHANNEL_QUEUE_MAX;
	c->max_messages = SIZE_MAX;
	c->tail = &c->head;
	c->bytes = malloc(MESSAGE_MAX + 1);
	evutil_make_socket_nonblocking(fd);
	c->readable = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, c);
	c->writable = event_new(base, fd, EV_WRITE | EV_PERSIST, on_writable, c);
	if (!c->bytes || !c->readable || !c->writable || event_add(c->readable, NULL) < 0) {
		release(c);
		return NULL;
	}
	return c;
}

void channel_free(struct channel *c)
{
	if (!c)
		return;
	c->freed = true;
	if (!c->busy)
		release(c);
}

void channel_gather(struct channel *c)
{
	c->gathers = true;
}

void channel_set_phase(struct channel *c, enum phase phase)
{
	c->phase = phase;
}

void channel_set_limit(struct channel *c, size_t bytes, size_t messages)
{
	c->max_queued = bytes;
	c->max_messages = messages;
}

size_t channel_queued(const struct channel *c)
{
	return c->queued;
}
