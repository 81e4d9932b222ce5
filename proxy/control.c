/* Theory of operation
 *
 * A client is in one of a few states (enum client_state), each with a time that it may last; it is
 * told when that began, and no byte that trickles in makes it longer. All reading and writing is
 * done in event callbacks. What a handler answers is put in the client's buffer, and the loop sends
 * it: so an answer frees nothing that somebody further up the stack still holds. The one exception
 * has no stack above it: a client that had left, whose request a handler answers later.
 *
 * While a handler has a request, what the client sends on is read up to CONTROL_IN_MAX, since only
 * that tells whether it is still there. Its end of the stream alone does not mean that it left: it
 * may have shut down its sending side and be waiting. poll() tells the two apart.
 *
 * Closing a Unix socket with bytes unread resets it, and a client that is still writing would get
 * the error before the answer. So what is left of a refused request is read past, within limits.
 */
#include "proxy/control_state.h"

#include <errno.h>
#include <event2/event.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define ACCEPTS_A_PASS 16
#define PAUSE_MS 1000		/* after descriptors have run out */
#define READ_ROOM 16384

/* ---- lifetime ---- */

static void free_event(struct event *e)
{
	if (e)
		event_free(e);
}

static void client_close(struct client *cl)
{
	free_event(cl->readable);
	free_event(cl->writable);
	free_event(cl->timer);
	cl->readable = cl->writable = cl->timer = NULL;
	if (cl->fd >= 0)
		close(cl->fd);
	cl->fd = -1;
}

static void client_free(struct client *cl)
{
	client_close(cl);
	if (cl->next)
		cl->next->link = cl->link;
	*cl->link = cl->next;
	cl->control->n--;
	http1_free(cl->parser);
	buf_free(&cl->in);
	buf_free(&cl->body);
	buf_free(&cl->out);
	free(cl);
}

/* What it waited for is still to be answered. Frees what nobody waits for. */
static void client_leave(struct client *cl)
{
	struct control_request *rq = cl->rq;

	if (cl->state != CLIENT_WAITS) {
		request_free(rq);
		client_free(cl);
		return;
	}
	client_close(cl);
	cl->state = CLIENT_GONE;
	if (rq->gone)
		rq->gone(rq->gone_arg);	/* may answer, which frees the client */
}

static void on_time(evutil_socket_t fd, short what, void *arg)
{
	struct client *cl = arg;

	(void)fd;
	(void)what;
	if (cl->state == CLIENT_HEAD)
		client_refuse(cl, 408, "the head of the request did not come in time: send it at once");
	else if (cl->state == CLIENT_BODY)
		client_refuse(cl, 408, "the body of the request did not come in time: send it at once");
	else
		client_leave(cl);
}

void client_enter(struct client *cl, enum client_state state)
{
	const struct control_config *config = &cl->control->config;
	unsigned ms = state == CLIENT_IDLE ? config->idle_ms : config->slow_ms;
	const struct timeval tv = { ms / 1000, (suseconds_t)(ms % 1000) * 1000 };

	cl->state = state;
	if (state == CLIENT_WAITS)
		event_del(cl->timer);
	else
		event_add(cl->timer, &tv);
}

void client_send(struct client *cl)
{
	if (cl->state == CLIENT_GONE) {
		client_free(cl);
		return;
	}
	client_enter(cl, CLIENT_WRITES);
	event_add(cl->writable, NULL);
	cl->writing = true;
}

/* ---- the loop ---- */

static bool wants_more(const struct client *cl)
{
	return !cl->ended && (cl->state == CLIENT_DRAINS || cl->in.n < CONTROL_IN_MAX);
}

static void settle(struct client *cl)
{
	bool read = wants_more(cl), write = cl->out.n > 0 || cl->state == CLIENT_WRITES;

	if (read != cl->reading)
		(void)(read ? event_add(cl->readable, NULL) : event_del(cl->readable));
	if (write != cl->writing)
		(void)(write ? event_add(cl->writable, NULL) : event_del(cl->writable));
	cl->reading = read;
	cl->writing = write;
}

/* Its sending side has ended. True: it is still there, and reads. */
static bool still_reads(const struct client *cl)
{
	struct pollfd p = { .fd = cl->fd };

	return poll(&p, 1, 0) >= 0 && !(p.revents & (POLLHUP | POLLERR | POLLNVAL));
}

/* False: the client has been freed. */
static bool take_end(struct client *cl)
{
	cl->ended = true;
	cl->keep = false;
	if (cl->state == CLIENT_HEAD || cl->state == CLIENT_BODY) {
		client_refuse(cl, 400, "the request broke off: send all of it");
		return true;
	}
	if (cl->state != CLIENT_IDLE && cl->state != CLIENT_DRAINS && still_reads(cl))
		return true;
	client_leave(cl);
	return false;
}

/* False: the client has been freed. */
static bool take_bytes(struct client *cl, const char *bytes, size_t n)
{
	if (cl->state == CLIENT_DRAINS) {
		cl->drained += n;
		if (cl->drained <= CONTROL_DRAIN_MAX)
			return true;
		client_leave(cl);
		return false;
	}
	buf_put(&cl->in, bytes, n);
	if (cl->in.failed) {
		client_leave(cl);
		return false;
	}
	client_process(cl);
	return true;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct client *cl = arg;
	char room[READ_ROOM];
	size_t most = sizeof(room);
	ssize_t n;

	(void)what;
	if (cl->state != CLIENT_DRAINS && most > CONTROL_IN_MAX - cl->in.n)
		most = CONTROL_IN_MAX - cl->in.n;
	n = recv(fd, room, most, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0)
		client_leave(cl);
	else if (n > 0 ? take_bytes(cl, room, (size_t)n) : take_end(cl))
		settle(cl);
}

/* An answer is out. False: the client has been freed. */
static bool after_answer(struct client *cl)
{
	if (cl->keep) {
		http1_next(cl->parser, false);
		cl->body.n = 0;
		cl->whole = false;
		client_enter(cl, CLIENT_IDLE);
		client_process(cl);
		return true;
	}
	if (cl->whole || cl->ended || shutdown(cl->fd, SHUT_WR) < 0) {
		client_leave(cl);
		return false;
	}
	cl->in.n = 0;
	client_enter(cl, CLIENT_DRAINS);
	return true;
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct client *cl = arg;
	ssize_t n = 0;

	(void)what;
	if (cl->out.n)
		n = send(fd, cl->out.p, cl->out.n, MSG_NOSIGNAL);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		client_leave(cl);
		return;
	}
	buf_drop(&cl->out, (size_t)n);
	if (cl->out.n || cl->state != CLIENT_WRITES || after_answer(cl))
		settle(cl);
}

/* ---- who is it? ---- */

/* Groups beside its own one. */
static bool in_group(int fd, gid_t group)
{
	socklen_t n = 0;
	gid_t *groups = NULL;
	bool found = false;

	/* Asked with no room, it says how much is needed. */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &n) < 0 && errno == ERANGE && n > 0)
		groups = malloc(n);
	if (groups && getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &n) == 0)
		for (size_t i = 0; i < n / sizeof(*groups); i++)
			found |= groups[i] == group;
	free(groups);
	return found;
}

/* False: it cannot be told. */
static bool know_peer(struct client *cl)
{
	gid_t group = cl->control->config.group;
	struct ucred cred;
	socklen_t n = sizeof(cred);

	if (getsockopt(cl->fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) < 0 || n != sizeof(cred))
		return false;
	cl->peer = (struct control_peer){ .uid = cred.uid, .gid = cred.gid, .pid = cred.pid };
	cl->permitted = cred.uid == 0 || (group != (gid_t)-1 && (cred.gid == group ||
								 in_group(cl->fd, group)));
	return true;
}

static bool too_many(const struct control *c, uid_t uid)
{
	unsigned of_user = 0;

	for (const struct client *cl = c->clients; cl; cl = cl->next)
		of_user += cl->peer.uid == uid;
	if (uid == 0)
		return c->n >= CONTROL_CLIENTS_MAX;
	return of_user >= CONTROL_CLIENTS_OF_USER ||
	       c->n >= CONTROL_CLIENTS_MAX - CONTROL_CLIENTS_OF_ROOT;
}

/* Said without a place for it: a socket that was just made takes so little at once. */
static void turn_away(struct control *c, int fd, const struct control_peer *peer)
{
	const char *why = "too many control connections are open: close one, or try again later";
	const struct control_done done = { .peer = *peer, .status = 503, .problem = str_of(why) };
	struct buf out;

	buf_init(&out, CONTROL_HEAD_MAX);
	problem_write(&out, done.status, why);
	c->config.on_done(c->config.arg, &done);
	if (!out.failed && send(fd, out.p, out.n, MSG_NOSIGNAL) < 0)
		out.failed = true;	/* it has left: there is nobody to tell */
	buf_free(&out);
	close(fd);
}

/* ---- coming ---- */

static bool client_prepare(struct client *cl)
{
	struct event_base *base = cl->control->config.base;

	cl->parser = http1_new(false, CONTROL_HEAD_MAX);
	cl->readable = event_new(base, cl->fd, EV_READ | EV_PERSIST, on_readable, cl);
	cl->writable = event_new(base, cl->fd, EV_WRITE | EV_PERSIST, on_writable, cl);
	cl->timer = evtimer_new(base, on_time, cl);
	return cl->parser && cl->readable && cl->writable && cl->timer;
}

static void client_link(struct control *c, struct client *cl)
{
	cl->next = c->clients;
	cl->link = &c->clients;
	if (cl->next)
		cl->next->link = &cl->next;
	c->clients = cl;
	c->n++;
}

void control_take(struct control *c, int fd)
{
	struct client *cl = calloc(1, sizeof(*cl));

	if (!cl) {
		close(fd);
		return;
	}
	cl->control = c;
	cl->fd = fd;
	if (!know_peer(cl)) {
		free(cl);
		close(fd);
		return;
	}
	if (too_many(c, cl->peer.uid)) {
		turn_away(c, fd, &cl->peer);
		free(cl);
		return;
	}
	buf_init(&cl->in, CONTROL_IN_MAX);
	buf_init(&cl->body, CONTROL_BODY_MAX);
	buf_init(&cl->out, CONTROL_ANSWER_MAX + CONTROL_HEAD_MAX);
	client_link(c, cl);
	if (!client_prepare(cl)) {
		client_free(cl);
		return;
	}
	client_enter(cl, CLIENT_IDLE);
	settle(cl);
}

static void on_pause_over(evutil_socket_t fd, short what, void *arg)
{
	struct control *c = arg;

	(void)fd;
	(void)what;
	event_add(c->accepting, NULL);
}

static void on_connection(evutil_socket_t fd, short what, void *arg)
{
	const struct timeval pause = { PAUSE_MS / 1000, 0 };
	struct control *c = arg;

	(void)what;
	for (unsigned i = 0; i < ACCEPTS_A_PASS; i++) {
		int one = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (one >= 0) {
			control_take(c, one);
		} else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
			   errno == ENOBUFS) {
			event_del(c->accepting);
			event_add(c->pause, &pause);
			return;
		} else if (errno != ECONNABORTED && errno != EINTR) {
			return;
		}
	}
}

struct control *control_new(const struct control_config *config)
{
	struct control *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	json_object_seed(0);	/* reads from the system, which it could not later */
	c->config = *config;
	if (!c->config.slow_ms)
		c->config.slow_ms = CONTROL_SLOW_MS;
	if (!c->config.idle_ms)
		c->config.idle_ms = CONTROL_IDLE_MS;
	if (config->listener < 0)
		return c;
	c->accepting = event_new(config->base, config->listener, EV_READ | EV_PERSIST,
				 on_connection, c);
	c->pause = evtimer_new(config->base, on_pause_over, c);
	if (c->accepting && c->pause && event_add(c->accepting, NULL) == 0)
		return c;
	control_free(c);
	return NULL;
}

void control_free(struct control *c)
{
	if (!c)
		return;
	while (c->clients) {
		struct client *cl = c->clients;

		if (cl->state == CLIENT_WAITS || cl->state == CLIENT_GONE)
			cl->rq->client = NULL;	/* the handler has it, and will find nobody */
		else
			request_free(cl->rq);
		client_free(cl);
	}
	free_event(c->accepting);
	free_event(c->pause);
	free(c);
}

unsigned control_clients(const struct control *c)
{
	return c->n;
}
