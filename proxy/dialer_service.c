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
 * descriptor. A ticket is a random number, so that a worker that guesses finds none; a box's
 * tickets are counted until its worker hangs up.
 *
 * A box ends with its worker's channel: jobs are dropped, and closing the broker's channel ends
 * all its tickets there. Without a broker (it is being started again) connections go on to be
 * made; they just have no grants.
 */
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "proxy/audit.h"
#include "proxy/dial.h"
#include "proxy/dialer_box.h"
#include "sandbox/channel.h"

#define WHY_MAX 256

struct box;

struct job {
	struct box *box;
	struct job *next, **prev;
	bool dials;
	uint32_t id;
	struct name name;	/* also of a literal, as text */
	bool literal;
	struct addr addr;	/* the literal */
	uint16_t port;
	struct resolver_wait *wait;
	struct dial *dial;
	uint32_t resolve_ms;
};

struct box {
	struct dialer *dialer;
	struct box *next, **prev;
	uint32_t number;
	char name[MSG_SANDBOX_NAME_MAX];
	size_t name_n;
	struct channel *worker, *broker;
	struct policy *policy;
	struct job *jobs;
	unsigned resolves, dials;
	struct dialer_tickets tickets;
};

struct dialer {
	struct event_base *base;
	struct ring *ring;
	struct resolver *resolver;
	struct dialer_ranges ranges;
	struct box *boxes;
	size_t n_boxes;
	uint32_t max_dials, max_queued;
	dialer_lost_fn *on_lost;
	void *on_lost_arg;
};

/* ---- jobs ---- */

static struct facts facts_of(const struct job *j)
{
	struct facts f = { .port = j->port, .literal = j->literal };

	if (j->literal)
		f.addr = j->addr;
	else
		f.host = name_str(&j->name);
	return f;
}

static struct job *job_new(struct box *b, bool dials, uint32_t id)
{
	struct job *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->box = b;
	j->dials = dials;
	j->id = id;
	j->next = b->jobs;
	j->prev = &b->jobs;
	if (j->next)
		j->next->prev = &j->next;
	b->jobs = j;
	*(dials ? &b->dials : &b->resolves) += 1;
	return j;
}

static void job_free(struct job *j)
{
	resolver_cancel(j->wait);
	dial_cancel(j->dial);
	*j->prev = j->next;
	if (j->next)
		j->next->prev = j->prev;
	*(j->dials ? &j->box->dials : &j->box->resolves) -= 1;
	free(j);
}

/* ---- the end of a box ---- */

static void box_free(struct box *b)
{
	while (b->jobs)
		job_free(b->jobs);
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

/* The end of a box whose worker did what it may not. */
static void box_lose(struct box *b, const char *why)
{
	struct dialer *d = b->dialer;
	uint32_t number = b->number;

	box_free(b);
	if (d->on_lost)
		d->on_lost(d->on_lost_arg, number, why);
}

/* False: the worker does not take its answers; the box is gone. */
static bool tell_worker(struct box *b, uint16_t type, const void *msg, const int *fds, size_t n_fds)
{
	enum err e = channel_send(b->worker, type, msg, fds, n_fds);

	if (e == OK)
		return true;
	if (e == ERR_CLOSED)
		box_free(b);
	else
		box_lose(b, "does not take the dialer's answers");
	return false;
}

static void tell_broker(struct box *b, uint16_t type, const void *msg)
{
	/* Without the broker's knowing of it, a connection has no grants: that is safe. */
	if (b->broker && channel_send(b->broker, type, msg, NULL, 0) != OK) {
		channel_free(b->broker);
		b->broker = NULL;
	}
}

/* ---- RESOLVE ---- */

/* Leaves in @out the addresses without objection, at most @max; *why is the last objection. */
static size_t vet(const struct box *b, const struct facts *f, const struct resolver_answer *a,
		  struct addr *out, size_t max, struct buf *why)
{
	size_t n = 0;

	for (size_t i = 0; i < a->n && n < max; i++) {
		const char *objection =
			dialer_objection(&b->dialer->ranges, b->policy, f, &a->addrs[i]);
		char text[ADDR_TEXT_MAX];

		if (!objection)
			out[n++] = a->addrs[i];
		else if (why->n == 0)
			buf_printf(why, "%s: %s", addr_format(&a->addrs[i], text), objection);
	}
	return n;
}

static void answer_resolve(struct box *b, const struct msg_resolve *q, enum resolve_status status)
{
	struct msg_resolved m = { .id = q->id, .status = (uint8_t)status };

	tell_worker(b, MSG_RESOLVED, &m, NULL, 0);
}

static void finish_resolve(struct box *b, uint32_t id, struct str name,
			   const struct resolver_answer *a)
{
	const struct facts f = { .host = name };
	struct msg_resolved m = { .id = id, .status = (uint8_t)a->status, .cached = a->cached,
				  .ttl = a->ttl, .ms = a->ms, .server = str_of(a->server) };
	struct addr good[MSG_ADDRS_MAX];
	char packed[MSG_ADDRS_MAX * ADDR_PACKED];
	struct buf why;
	size_t n;

	buf_init(&why, WHY_MAX);
	n = vet(b, &f, a, good, MSG_ADDRS_MAX, &why);
	for (size_t i = 0; i < n; i++)
		addr_pack(&good[i], packed + i * ADDR_PACKED);
	m.addrs = str_n(packed, n * ADDR_PACKED);
	if (a->status == RESOLVE_OK && n == 0) {
		m.status = RESOLVE_PROHIBITED;
		m.why = buf_str(&why);
	}
	tell_worker(b, MSG_RESOLVED, &m, NULL, 0);
	buf_free(&why);
}

static void on_resolved(void *arg, const struct resolver_answer *a)
{
	struct job *j = arg;
	struct box *b = j->box;
	struct name name = j->name;
	uint32_t id = j->id;

	j->wait = NULL;
	job_free(j);
	finish_resolve(b, id, name_str(&name), a);
}

/* A name as Exeat writes it, and nothing else. */
static bool take_name(struct str text, struct name *out)
{
	return name_canon(text, out) == NAME_OK && str_eq(name_str(out), text);
}

static void on_resolve(struct box *b, const struct msg_resolve *m)
{
	const struct facts f = { .host = m->name };
	const struct resolver_answer *known;
	struct name name;
	struct job *j;

	if (!take_name(m->name, &name) || policy_decide(b->policy, &f).verdict == VERDICT_DENY) {
		answer_resolve(b, m, RESOLVE_DENIED);
		return;
	}
	known = resolver_known(b->dialer->resolver, m->name);
	if (known) {
		finish_resolve(b, m->id, m->name, known);
		return;
	}
	j = b->resolves < DIALER_RESOLVES_MAX ? job_new(b, false, m->id) : NULL;
	if (j) {
		j->name = name;
		j->wait = resolver_ask(b->dialer->resolver, m->name, on_resolved, j);
		if (j->wait)
			return;
		job_free(j);
	}
	answer_resolve(b, m, RESOLVE_QUOTA);
}

/* ---- DIAL ---- */

static const char *dial_status_name(enum dial_status s)
{
	switch (s) {
	case DIAL_OK:
		return "connected";
	case DIAL_REFUSED:
		return "connection_refused";
	case DIAL_TIMEOUT:
		return "connection_timeout";
	case DIAL_UNREACHABLE:
		return "destination_ip_unroutable";
	case DIAL_NO_NAME:
		return "dns_error";
	case DIAL_PROHIBITED:
		return "destination_ip_prohibited";
	case DIAL_DENIED:
		return "denied";
	case DIAL_QUOTA:
		return "connection_limit_reached";
	case DIAL_FAILED:
		break;
	}
	return "proxy_internal_error";
}

static struct decision decide_dial(const struct job *j, const struct addr *a)
{
	struct facts f = facts_of(j);

	if (a->family)
		f.addr = *a;
	return policy_decide(j->box->policy, &f);
}

static enum err record_dial(const struct job *j, const struct msg_dialed *m, const struct addr *a)
{
	struct record r;
	char text[ADDR_TEXT_MAX];
	struct decision d = decide_dial(j, a);

	/* Nothing that could be dialled: no rule is about it. */
	if (m->status == DIAL_DENIED && d.verdict != VERDICT_DENY)
		d = (struct decision){ VERDICT_DENY, { 0, RULE_DEFAULT } };
	record_begin(&r, RECORD_dial);
	record_str(&r, REC_sandbox, str_n(j->box->name, j->box->name_n));
	audit_decision(&r, j->box->policy, d);
	record_str(&r, REC_destination, name_str(&j->name));
	if (a->family)
		record_str(&r, REC_address, str_of(addr_format(a, text)));
	record_u64(&r, REC_port, j->port);
	record_u64(&r, REC_ms_resolve, m->resolve_ms);
	record_u64(&r, REC_ms_connect, m->connect_ms);
	record_str(&r, REC_attempts, m->attempts);
	if (m->status == DIAL_OK)
		record_str(&r, REC_ended, str_of(dial_status_name(DIAL_OK)));
	else
		record_str(&r, REC_proxy_error,
			   str_of(dial_status_name((enum dial_status)m->status)));
	return record_commit(&r, j->box->dialer->ring);
}

/* A ticket that is known to the broker before anybody else; 0: none can be had. */
static uint64_t issue_ticket(struct job *j, const struct str *packed)
{
	struct box *b = j->box;
	struct msg_ticket m = { .name = name_str(&j->name), .literal = j->literal, .port = j->port,
				.addr = *packed };

	do {
		if (getrandom(&m.ticket, sizeof(m.ticket), GRND_NONBLOCK) != sizeof(m.ticket))
			return 0;
	} while (m.ticket == 0);
	if (!dialer_tickets_add(&b->tickets, m.ticket))
		return 0;
	tell_broker(b, MSG_TICKET, &m);
	return m.ticket;
}

static void end_ticket(struct box *b, uint64_t ticket)
{
	const struct msg_ticket_end m = { .ticket = ticket };

	if (dialer_tickets_remove(&b->tickets, ticket))
		tell_broker(b, MSG_TICKET_END, &m);
}

/* Records the dial, vouches for it, and tells the worker. Frees the job; the box may be gone,
 * too. */
static void finish_dial(struct job *j, struct msg_dialed *m, const struct addr *a, int fd)
{
	struct box *b = j->box;
	char packed[ADDR_PACKED];

	m->id = j->id;
	m->resolve_ms = j->resolve_ms;
	addr_pack(a, packed);
	if (a->family)
		m->addr = str_n(packed, sizeof(packed));
	if (record_dial(j, m, a) != OK)
		m->status = DIAL_FAILED;
	if (m->status == DIAL_OK) {
		m->ticket = issue_ticket(j, &m->addr);
		if (!m->ticket)
			m->status = DIAL_QUOTA;
	}
	job_free(j);
	tell_worker(b, MSG_DIALED, m, &fd, m->status == DIAL_OK);
	if (fd >= 0)
		close(fd);
}

static void fail_dial(struct job *j, enum dial_status status, enum resolve_status resolve,
		      struct str why)
{
	struct msg_dialed m = { .status = (uint8_t)status,
				.resolve = (uint8_t)resolve,
				.attempts = why };

	finish_dial(j, &m, &j->addr, -1);
}

static const char *judge_address(void *arg, const struct addr *a)
{
	const struct job *j = arg;
	const struct facts f = facts_of(j);

	return dialer_objection(&j->box->dialer->ranges, j->box->policy, &f, a);
}

static void on_dialed(void *arg, const struct dial_result *r)
{
	struct job *j = arg;
	struct msg_dialed m = { .status = (uint8_t)r->status, .connect_ms = r->ms,
				.attempts = r->attempts };

	j->dial = NULL;
	finish_dial(j, &m, &r->addr, r->fd);
}

static void connect_to(struct job *j, const struct addr *addrs, size_t n)
{
	const struct dial_order order = { .addrs = addrs,
					  .n = n,
					  .port = j->port,
					  .judge = judge_address,
					  .fn = on_dialed,
					  .arg = j };

	j->dial = dial_start(j->box->dialer->base, &order);
	if (!j->dial)
		fail_dial(j, DIAL_FAILED, RESOLVE_OK, STR_NONE);
}

/* The name's addresses are there, or there are none. */
static void take_addresses(struct job *j, const struct resolver_answer *a)
{
	const struct facts f = facts_of(j);
	struct addr good[DIAL_ADDRS_MAX];
	struct buf why;
	size_t n;

	j->resolve_ms = a->cached ? 0 : a->ms;
	if (a->status != RESOLVE_OK) {
		fail_dial(j, DIAL_NO_NAME, a->status, STR_NONE);
		return;
	}
	buf_init(&why, WHY_MAX);
	n = vet(j->box, &f, a, good, DIAL_ADDRS_MAX, &why);
	if (n)
		connect_to(j, good, n);
	else
		fail_dial(j, DIAL_PROHIBITED, RESOLVE_PROHIBITED, buf_str(&why));
	buf_free(&why);
}

static void on_dial_resolved(void *arg, const struct resolver_answer *a)
{
	struct job *j = arg;

	j->wait = NULL;
	take_addresses(j, a);
}

/* Reads what is asked for; false where that is nothing that could be dialled. */
static bool take_target(struct job *j, const struct msg_dial *m)
{
	j->port = m->port;
	j->literal = m->literal;
	if (m->port == 0)
		return false;
	if (!m->literal)
		return take_name(m->name, &j->name);
	if (m->name.n > NAME_MAX_LEN || !addr_parse(m->name, &j->addr))
		return false;
	j->name.n = (uint8_t)m->name.n;
	memcpy(j->name.s, m->name.p, m->name.n);
	return true;
}

static void begin_dial(struct job *j)
{
	struct resolver *resolver = j->box->dialer->resolver;
	const struct resolver_answer *known;

	if (j->literal) {
		connect_to(j, &j->addr, 1);
		return;
	}
	known = resolver_known(resolver, name_str(&j->name));
	if (known) {
		take_addresses(j, known);
		return;
	}
	j->wait = resolver_ask(resolver, name_str(&j->name), on_dial_resolved, j);
	if (!j->wait)
		fail_dial(j, DIAL_QUOTA, RESOLVE_QUOTA, STR_NONE);
}

static void on_dial(struct box *b, const struct msg_dial *m)
{
	struct msg_dialed full = { .id = m->id, .status = DIAL_QUOTA };
	struct job *j = b->dials < b->dialer->max_dials && b->tickets.n + b->dials < DIALER_TICKETS_MAX
				? job_new(b, true, m->id)
				: NULL;
	const struct addr none = { 0 };

	if (!j) {
		tell_worker(b, MSG_DIALED, &full, NULL, 0);
		return;
	}
	if (!take_target(j, m) || decide_dial(j, &none).verdict == VERDICT_DENY)
		fail_dial(j, DIAL_DENIED, RESOLVE_DENIED, STR_NONE);
	else
		begin_dial(j);
}

/* ---- boxes ---- */

static void on_worker_message(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	struct box *b = arg;

	(void)fds;	/* none of these has any: the table sees to it */
	(void)n_fds;
	if (type == MSG_RESOLVE)
		on_resolve(b, msg);
	else if (type == MSG_DIAL)
		on_dial(b, msg);
	else if (type == MSG_HANGUP)
		end_ticket(b, ((const struct msg_hangup *)msg)->ticket);
}

static void on_worker_closed(void *arg, const char *why)
{
	if (channel_ended(why))
		box_free(arg);
	else
		box_lose(arg, why);
}

/* The broker says nothing here; what comes ends its channel. */
static void on_broker_message(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	(void)arg;
	(void)type;
	(void)msg;
	channel_close_fds(fds, n_fds);
}

static void on_broker_closed(void *arg, const char *why)
{
	struct box *b = arg;

	(void)why;
	channel_free(b->broker);
	b->broker = NULL;
}

static bool open_channels(struct box *b, int *fds)
{
	const struct channel_peer worker = { .self = ROLE_DIALER,
					     .other = ROLE_WORKER,
					     .table = exeat_messages,
					     .on_message = on_worker_message,
					     .on_closed = on_worker_closed,
					     .arg = b };
	const struct channel_peer broker = { .self = ROLE_DIALER,
					     .other = ROLE_BROKER,
					     .table = exeat_messages,
					     .on_message = on_broker_message,
					     .on_closed = on_broker_closed,
					     .arg = b };

	b->worker = channel_new(b->dialer->base, fds[FD_SANDBOX_WORKER], &worker);
	fds[FD_SANDBOX_WORKER] = -1;
	b->broker = channel_new(b->dialer->base, fds[FD_SANDBOX_OTHER], &broker);
	fds[FD_SANDBOX_OTHER] = -1;
	if (!b->worker || !b->broker)
		return false;
	channel_set_phase(b->worker, PHASE_RUN);
	channel_set_limit(b->worker, b->dialer->max_queued);
	channel_set_phase(b->broker, PHASE_RUN);
	return true;
}

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
	b->name_n = m->name.n;
	memcpy(b->name, m->name.p, m->name.n);
	if (dialer_tickets_init(&b->tickets))
		e = policy_map(fds + FD_SANDBOX_POLICY, n_fds - FD_SANDBOX_POLICY, &b->policy);
	if (e == OK && !open_channels(b, fds))
		e = ERR_NOMEM;
	if (e != OK) {
		box_free(b);
		return e;
	}
	*out = b;
	return OK;
}

enum err dialer_sandbox(struct dialer *d, const struct msg_sandbox *m, int *fds, size_t n_fds)
{
	struct box *b, *old;
	enum err e = ERR_PROTOCOL;

	if (n_fds <= FD_SANDBOX_POLICY || m->name.n > MSG_SANDBOX_NAME_MAX)
		goto out;
	old = box_find(d, m->sandbox);
	if (old)
		box_free(old);
	e = ERR_FULL;
	if (d->n_boxes >= DIALER_SANDBOXES_MAX)
		goto out;
	e = box_open(d, m, fds, n_fds, &b);
	if (e == OK)
		box_link(d, b);
out:
	channel_close_fds(fds, n_fds);
	return e;
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
