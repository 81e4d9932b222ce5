#include "proxy/connections.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/audit.h"
#include "proxy/limits.h"
#include "proxy/notice.h"
#include "proxy/pool.h"
#include "proxy/refusal_list.h"
#include "proxy/repeats.h"
#include "sandbox/confine.h"

struct connections {
	struct worker *w;
	struct tls_trust *trust;
	int listener;
	struct event *readable;		/* the listener */
	struct event *room;		/* in the audit ring */
	struct event *burial;		/* after the pass */
	struct event *refused_timer;
	struct connection *live, *closed;
	size_t n;
	bool stopped; /* no descriptors left: until one closes, or the timer's next round */
	uint64_t next_id, next_exchange;
	uint64_t refused;		/* over the limit, not yet on record */
	uint64_t stops;			/* so often had accepting to wait, not yet on record */
};

/* ---- lists ---- */

static void enter(struct connection **list, struct connection *c)
{
	c->next = *list;
	c->link = list;
	if (c->next)
		c->next->link = &c->next;
	*list = c;
}

static void leave(struct connection *c)
{
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
}

void connections_bury(struct connections *all, struct connection *c)
{
	leave(c);
	enter(&all->closed, c);
	event_active(all->burial, EV_TIMEOUT, 0);
}

static void accept_again(struct connections *all)
{
	if (!all->stopped)
		return;
	all->stopped = false;
	event_add(all->readable, NULL);
}

static void on_burial(evutil_socket_t fd, short what, void *arg)
{
	struct connections *all = arg;
	struct connection *c = all->closed, *next;

	(void)fd;
	(void)what;
	for (; c; c = next) {
		next = c->next;
		leave(c);
		if (connection_bury(c))
			all->n--;
		else
			enter(&all->closed, c);
	}
	accept_again(all);
}

/* Room was made in the ring: whoever waited for it goes on. */
static void on_room(evutil_socket_t fd, short what, void *arg)
{
	struct connections *all = arg;
	struct connection *next;

	(void)fd;
	(void)what;
	ring_room_seen(all->w->ring);
	for (struct connection *c = all->live; c; c = next) {
		next = c->next;
		if (c->waits_for_room)
			connection_pump(c);
	}
	if (all->closed)
		event_active(all->burial, EV_TIMEOUT, 0);
}

/* ---- over the limit ---- */

static void start_refused_timer(struct connections *all)
{
	struct timeval tv = { .tv_sec = CONNECTIONS_REFUSED_MS / 1000,
			      .tv_usec = CONNECTIONS_REFUSED_MS % 1000 * 1000 };

	event_add(all->refused_timer, &tv);
}

/* @verdict: empty where the connections wait. */
static void tell_count(struct connections *all, struct str verdict, const char *reason,
		       uint64_t *count)
{
	struct record r;

	if (*count == 0)
		return;
	record_begin(&r, RECORD_connect);
	if (verdict.n)
		record_str(&r, REC_verdict, verdict);
	record_str(&r, REC_reason, str_of(reason));
	record_u64(&r, REC_count, *count);
	if (audit_commit(all->w, all->w->policy, &r) == ERR_FULL)
		start_refused_timer(all);
	else
		*count = 0;
}

static void tell_counts(struct connections *all)
{
	tell_count(all, STR("deny"), refusal_name(REFUSAL_too_many_connections), &all->refused);
	tell_count(all, STR_NONE, "no descriptors or memory left: new connections wait", &all->stops);
}

static void on_refused_timer(evutil_socket_t fd, short what, void *arg)
{
	struct connections *all = arg;

	(void)fd;
	(void)what;
	accept_again(all);
	tell_counts(all);
}

static void refuse(struct connections *all, int fd)
{
	struct linger now = { .l_onoff = 1, .l_linger = 0 };

	struct refusal r = { .reason = REFUSAL_too_many_connections };
	struct refusal_note note = { .step = REFUSED_CONNECT, .id = r.id,
				     .reason = str_of(refusal_name(r.reason)),
				     .retry = refusal_retry(r.reason) };

	refusal_id(&r);
	refusal_list_note(all->w->refusals, &note);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(fd);
	if (all->refused++ == 0)
		start_refused_timer(all);
}

/* ---- accepting ---- */

/* Its own limit is reached before its process's: what stops accepting is the machine's. */
_Static_assert(2 * MSG_CONNECTIONS_MAX + POOL_MAX + 1024 <= CONFINE_MANY_DESCRIPTORS,
	       "each connection of a box and its tunnel's other end have a descriptor");

/* The transparent listener's connections keep the address that the box went to. */
static bool destination(int fd, struct addr *to, uint16_t *port)
{
	struct sockaddr_storage sa;
	socklen_t n = sizeof(sa);

	return getsockname(fd, (struct sockaddr *)&sa, &n) == 0 &&
	       addr_from_sockaddr((struct sockaddr *)&sa, to, port);
}

static void take(struct connections *all, int fd, const struct addr *to, uint16_t port)
{
	struct connection *c = connection_new(all, fd, ++all->next_id, to, port);

	if (!c)
		return;
	all->n++;
	enter(&all->live, c);
	if (worker_is_gateway(all->w, to)) {
		connection_step(c, CE_PROXY);
		connection_pump(c);
		return;
	}
	if (!connection_look_up(c)) {
		connection_refuse(c, REFUSAL_policy, "no name stands for this address");
		return;
	}
	connection_step(c, CE_KNOWN);
	connection_pump(c);
}

static void sort(struct connections *all, int fd)
{
	struct addr to;
	uint16_t port;

	if (!destination(fd, &to, &port)) {
		close(fd);	/* it is gone already */
	} else if (worker_is_gateway(all->w, &to) && port != all->w->proxy_port) {
		if (!notice_take(all->w->notice, fd))
			refuse(all, fd);
	} else if (all->n >= all->w->max_connections) {
		refuse(all, fd);
	} else {
		take(all, fd, &to, port);
	}
}

static void on_readable(evutil_socket_t listener, short what, void *arg)
{
	struct connections *all = arg;

	(void)what;
	for (int i = 0; i < CONNECTIONS_ACCEPTS; i++) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 &&
		    (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
			all->stopped = true;
			all->stops++;
			event_del(all->readable);
			start_refused_timer(all);
			return;
		}
		if (fd < 0)
			return;
		sort(all, fd);
	}
}

/* ---- life ---- */

struct connections *connections_new(struct worker *w, int listener, struct tls_trust *trust)
{
	struct connections *all = calloc(1, sizeof(*all));

	if (!all) {
		close(listener);
		tls_trust_free(trust);
		return NULL;
	}
	all->w = w;
	all->listener = listener;
	all->trust = trust;
	w->repeats = repeats_new(w);
	w->upstreams = pool_new(w, trust);
	w->limits = limits_new();
	if (!w->repeats || !w->upstreams || !w->limits)
		goto fail;
	all->readable = event_new(w->base, listener, EV_READ | EV_PERSIST, on_readable, all);
	all->room = event_new(w->base, ring_room_fd(w->ring), EV_READ | EV_PERSIST, on_room, all);
	all->burial = event_new(w->base, -1, 0, on_burial, all);
	all->refused_timer = event_new(w->base, -1, EV_TIMEOUT, on_refused_timer, all);
	if (!all->readable || !all->room || !all->burial || !all->refused_timer)
		goto fail;
	if (event_add(all->readable, NULL) < 0 || event_add(all->room, NULL) < 0)
		goto fail;
	return all;
fail:
	connections_free(all);
	return NULL;
}

static void free_event(struct event *e)
{
	if (e)
		event_free(e);
}

void connections_free(struct connections *all)
{
	if (!all)
		return;
	while (all->live)
		connection_close(all->live, "the worker ends");
	while (all->closed) {
		struct connection *c = all->closed;

		leave(c);
		/* The last words of a worker whose log is full are lost with it. */
		if (!connection_bury(c))
			connection_forget(c);
	}
	tell_counts(all);
	pool_free(all->w->upstreams);
	all->w->upstreams = NULL;
	limits_free(all->w->limits);
	all->w->limits = NULL;
	repeats_free(all->w->repeats);
	all->w->repeats = NULL;
	free_event(all->readable);
	free_event(all->room);
	free_event(all->burial);
	free_event(all->refused_timer);
	close(all->listener);
	tls_trust_free(all->trust);
	free(all);
}

void connections_drop_idle(struct connections *all)
{
	pool_drain(all->w->upstreams);
}

void connections_new_policy(struct connections *all, struct policy *p)
{
	struct policy *old = all->w->policy;
	struct connection *next;

	all->w->policy = p;
	all->w->policies++;
	pool_drain(all->w->upstreams);
	tls_trust_forget(all->trust);
	for (struct connection *c = all->live; c; c = next) {
		next = c->next;
		connection_new_policy(c);
		if (c->state != CS_CLOSED)
			connection_pump(c);
	}
	policy_free(old);
}

struct str connections_public_key(const struct connections *all)
{
	return tls_trust_public_key(all->trust);
}

size_t connections_count(const struct connections *all)
{
	return all->n;
}

const struct connection *connections_first(const struct connections *all)
{
	return all->live;
}

const struct tls_trust *connections_trust(const struct connections *all)
{
	return all->trust;
}

struct worker *connections_worker(const struct connections *all)
{
	return all->w;
}

uint64_t *connections_exchanges(struct connections *all)
{
	return &all->next_exchange;
}
