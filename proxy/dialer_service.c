/* Theory of operation
 *
 * A job is one RESOLVE or DIAL of a worker. It begins with the policy, asked with what is known,
 * so that nothing about a refused name goes out; then
 *
 *   RESOLVING    the resolver has the name (skipped for what is known, and for literals)
 *   CONNECTING   proxy/dial.h has the addresses that were not objected to
 *
 * Addresses are vetted when they come and once more right before each connect. A connection that
 * is up becomes, in this order: a dial record, a ticket at the broker, an answer with the
 * descriptor. A ticket is a random number, so that a worker that guesses finds none, and that a
 * successor of this process gives out no number again; a box's tickets are counted until its worker
 * hangs up.
 *
 * The supervisor makes a box and takes it away. A worker whose channel ends leaves a box without
 * jobs, until that; only one that breaks the rules of its channel takes the box with it, and the
 * supervisor is told.
 *
 * Without a broker connections go on to be made. When its successor's channel comes (PEER), it is
 * told all tickets that there are, and then that these were all: only after that does the broker
 * listen to the worker, so that a ticket is known to it before the worker can name it, whoever of
 * the three was started again.
 *
 * A new policy (POLICY) takes the old one's place between two events. What is under way asks it at
 * each of its next steps.
 */
#include "proxy/dialer_state.h"

#include <stdlib.h>

/* ---- the end of a box ---- */

static void drop_jobs(struct box *b)
{
	while (b->jobs)
		dialer_job_free(b->jobs);
}

static void box_free(struct box *b)
{
	drop_jobs(b);
	channel_free(b->worker);
	channel_free(b->broker);
	policy_free(b->policy);
	dialer_tickets_free(&b->tickets);
	if (b->prev) {
		*b->prev = b->next;
		if (b->next)
			b->next->prev = b->prev;
		b->dialer->n_boxes--;
	}
	free(b);
}

/* The box cannot go on: somebody did what he may not. */
static void box_lose(struct box *b, const char *why)
{
	struct dialer *d = b->dialer;
	uint32_t number = b->number, join = b->join;

	box_free(b);
	if (d->on_lost)
		d->on_lost(d->on_lost_arg, number, join, why);
}

static void lose_worker(struct box *b)
{
	drop_jobs(b);
	channel_free(b->worker);
	b->worker = NULL;
}

static void lose_broker(struct box *b)
{
	channel_free(b->broker);
	b->broker = NULL;
}

/* ---- telling ---- */

bool dialer_tell_worker(struct box *b, uint16_t type, const void *msg, const int *fds, size_t n_fds)
{
	enum err e = channel_send(b->worker, type, msg, fds, n_fds);

	if (e == OK)
		return true;
	if (e == ERR_CLOSED)
		lose_worker(b);
	else
		box_lose(b, "does not take the dialer's answers");
	return false;
}

/* A ticket that stayed unknown to a broker that lives would never be told again. */
bool dialer_tell_broker(struct box *b, uint16_t type, const void *msg)
{
	enum err e = b->broker ? channel_send(b->broker, type, msg, NULL, 0) : OK;

	if (e == ERR_CLOSED)
		lose_broker(b);
	else if (e != OK)
		box_lose(b, "the broker does not take its tickets");
	return e == OK || e == ERR_CLOSED;
}

static bool tell_ticket(void *arg, const struct msg_ticket *m)
{
	struct box *b = arg;

	return dialer_tell_broker(b, MSG_TICKET, m) && b->broker;
}

/* All that a broker has to know before it listens to the worker. False: the box, or the broker, is
 * gone. */
static bool tell_tickets(struct box *b)
{
	const struct msg_tickets_told told = { 0 };

	return dialer_tickets_each(&b->tickets, tell_ticket, b) &&
	       dialer_tell_broker(b, MSG_TICKETS_TOLD, &told);
}

/* ---- channels ---- */

static void on_worker_message(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	struct box *b = arg;

	(void)fds;	/* none of these has any: the table sees to it */
	(void)n_fds;
	if (type == MSG_RESOLVE)
		dialer_on_resolve(b, msg);
	else if (type == MSG_DIAL)
		dialer_on_dial(b, msg);
	else if (type == MSG_HANGUP)
		dialer_on_hangup(b, msg);
}

static void on_worker_closed(void *arg, const char *why)
{
	if (channel_ended(why))
		lose_worker(arg);
	else
		box_lose(arg, why);
}

/* The broker says nothing here: the table has no row for it. */
static void on_broker_message(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	(void)arg;
	(void)type;
	(void)msg;
	channel_close_fds(fds, n_fds);
}

static void on_broker_closed(void *arg, const char *why)
{
	if (channel_ended(why))
		lose_broker(arg);
	else
		box_lose(arg, "the broker broke the rules of its channel");
}

static struct channel *open_worker(struct box *b, int fd)
{
	const struct channel_peer peer = { .self = ROLE_DIALER, .other = ROLE_WORKER,
					   .table = exeat_messages,
					   .on_message = on_worker_message,
					   .on_closed = on_worker_closed, .arg = b };
	struct channel *c = channel_new(b->dialer->base, fd, &peer);

	if (c) {
		channel_set_phase(c, PHASE_RUN);
		channel_set_limit(c, b->dialer->max_queued, MSG_CREDITS);
		channel_gather(c);
	}
	return c;
}

static struct channel *open_broker(struct box *b, int fd)
{
	const struct channel_peer peer = { .self = ROLE_DIALER, .other = ROLE_BROKER,
					   .table = exeat_messages,
					   .on_message = on_broker_message,
					   .on_closed = on_broker_closed, .arg = b };
	struct channel *c = channel_new(b->dialer->base, fd, &peer);

	if (c)
		channel_set_phase(c, PHASE_RUN);
	return c;
}

/* ---- boxes ---- */

static struct box *box_find(struct dialer *d, uint32_t number)
{
	struct box *b = d->boxes;

	while (b && b->number != number)
		b = b->next;
	return b;
}

static void box_link(struct dialer *d, struct box *b)
{
	b->next = d->boxes;
	b->prev = &d->boxes;
	if (b->next)
		b->next->prev = &b->next;
	d->boxes = b;
	d->n_boxes++;
}

static enum err box_open(struct dialer *d, const struct msg_sandbox *m, int *fds, size_t n_fds,
			 struct box **out)
{
	struct box *b = calloc(1, sizeof(*b));
	enum err e = ERR_NOMEM;

	if (!b)
		return ERR_NOMEM;
	b->dialer = d;
	b->number = m->sandbox;
	b->join = m->join;
	b->name_n = m->name.n;
	memcpy(b->name, m->name.p, m->name.n);
	if (dialer_tickets_init(&b->tickets))
		e = policy_map(fds + FD_SANDBOX_POLICY, n_fds - FD_SANDBOX_POLICY, &b->policy);
	if (e == OK) {
		b->worker = open_worker(b, fds[FD_SANDBOX_WORKER]);
		b->broker = open_broker(b, fds[FD_SANDBOX_OTHER]);
		fds[FD_SANDBOX_WORKER] = fds[FD_SANDBOX_OTHER] = -1;
		e = b->worker && b->broker ? OK : ERR_NOMEM;
	}
	if (e != OK) {
		box_free(b);
		return e;
	}
	*out = b;
	return OK;
}

enum err dialer_sandbox(struct dialer *d, const struct msg_sandbox *m, int *fds, size_t n_fds)
{
	struct box *b;
	enum err e = ERR_PROTOCOL;

	if (n_fds <= FD_SANDBOX_POLICY || m->name.n > MSG_SANDBOX_NAME_MAX)
		goto out;
	dialer_sandbox_gone(d, m->sandbox);
	e = ERR_FULL;
	if (d->n_boxes >= DIALER_SANDBOXES_MAX)
		goto out;
	e = box_open(d, m, fds, n_fds, &b);
	if (e == OK) {
		box_link(d, b);
		tell_tickets(b);
	}
out:
	channel_close_fds(fds, n_fds);
	return e;
}

void dialer_sandbox_gone(struct dialer *d, uint32_t number)
{
	struct box *b = box_find(d, number);

	if (b)
		box_free(b);
}

enum err dialer_peer(struct dialer *d, const struct msg_peer *m, int fd)
{
	struct box *b = box_find(d, m->sandbox);

	if (!b || m->role != ROLE_BROKER) {
		channel_close_fds(&fd, 1);
		return ERR_NOTFOUND;
	}
	lose_broker(b);
	b->broker = open_broker(b, fd);
	if (!b->broker)
		return ERR_NOMEM;
	tell_tickets(b);
	return OK;
}

enum err dialer_policy(struct dialer *d, const struct msg_policy *m, int *fds, size_t n_fds)
{
	struct box *b = box_find(d, m->sandbox);
	struct policy *next = NULL;
	enum err e = b ? policy_map(fds, n_fds, &next) : ERR_NOTFOUND;

	channel_close_fds(fds, n_fds);
	if (e)
		return e;
	policy_free(b->policy);
	b->policy = next;
	return OK;
}

/* ---- the dialer ---- */

struct dialer *dialer_new(struct event_base *base, const struct msg_dialer_start *start,
			  struct ring *ring, const char **why)
{
	struct dialer *d = calloc(1, sizeof(*d));

	*why = "out of memory";
	if (!d)
		return NULL;
	d->base = base;
	d->ring = ring;
	d->max_dials = start->dials;
	d->max_queued = start->queued;
	if (!dialer_ranges_parse(&d->ranges, &start->own)) {
		*why = "the host's own addresses are malformed";
		free(d);
		return NULL;
	}
	d->resolver = resolver_new(base, start, why);
	if (!d->resolver) {
		free(d);
		return NULL;
	}
	return d;
}

void dialer_free(struct dialer *d)
{
	if (!d)
		return;
	while (d->boxes)
		box_free(d->boxes);
	resolver_free(d->resolver);
	free(d);
}

void dialer_on_lost(struct dialer *d, dialer_lost_fn *fn, void *arg)
{
	d->on_lost = fn;
	d->on_lost_arg = arg;
}

size_t dialer_sandboxes(const struct dialer *d)
{
	return d->n_boxes;
}
