#include <sys/random.h>
#include <unistd.h>

#include "conf/buf.h"
#include "proxy/audit.h"
#include "proxy/dial.h"
#include "proxy/dialer_state.h"
#include "sandbox/confine.h"

static const struct addr no_address;

static struct facts facts_of(const struct job *j)
{
	struct facts f = { .port = j->port, .literal = j->literal };

	if (j->literal)
		f.addr = j->addr;
	else
		f.host = name_str(&j->name);
	return f;
}

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

/* A number that no other ticket has, those of a dialer before this one neither. False: none can be
 * had. */
static bool issue_ticket(struct box *b, struct msg_ticket *m)
{
	return getrandom(&m->ticket, sizeof(m->ticket), GRND_NONBLOCK) == sizeof(m->ticket) &&
	       dialer_tickets_add(&b->tickets, m);
}

/* Records the dial, vouches for it, and tells the worker, in this order. Frees the job; the box may
 * be gone, too. */
static void finish_dial(struct job *j, struct msg_dialed *m, const struct addr *a, int fd)
{
	struct box *b = j->box;
	char packed[ADDR_PACKED];
	struct msg_ticket ticket = { .name = name_str(&j->name), .literal = j->literal,
				     .port = j->port, .addr = str_n(packed, sizeof(packed)) };
	bool there = true;

	m->id = j->id;
	m->resolve_ms = j->resolve_ms;
	addr_pack(a, packed);
	if (a->family)
		m->addr = ticket.addr;
	if (record_dial(j, m, a) != OK)
		m->status = DIAL_FAILED;
	if (m->status == DIAL_OK && !issue_ticket(b, &ticket))
		m->status = DIAL_QUOTA;
	if (m->status == DIAL_OK) {
		m->ticket = ticket.ticket;
		there = dialer_tell_broker(b, MSG_TICKET, &ticket);
	}
	if (there) {
		dialer_job_free(j);
		dialer_tell_worker(b, MSG_DIALED, m, &fd, m->status == DIAL_OK);
	}
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

/* A new policy may have come while the connection was made. */
static void withdraw(struct job *j, struct msg_dialed *m, const struct addr *a, const char *why,
		     struct buf *text)
{
	char room[ADDR_TEXT_MAX];

	m->status = decide_dial(j, a).verdict == VERDICT_DENY ? DIAL_DENIED : DIAL_PROHIBITED;
	buf_printf(text, "%s: %s", addr_format(a, room), why);
	m->attempts = buf_str(text);
}

static void on_dialed(void *arg, const struct dial_result *r)
{
	struct job *j = arg;
	struct msg_dialed m = { .status = (uint8_t)r->status, .connect_ms = r->ms,
				.attempts = r->attempts };
	const char *objection = r->status == DIAL_OK ? judge_address(j, &r->addr) : NULL;
	struct buf text;

	buf_init(&text, JOB_WHY_MAX);
	j->dial = NULL;
	if (objection)
		withdraw(j, &m, &r->addr, objection, &text);
	finish_dial(j, &m, &r->addr, r->fd);
	buf_free(&text);
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

/* The name's addresses are there, or there are none. The policy may be another by now. */
static void take_addresses(struct job *j, const struct resolver_answer *a)
{
	const struct facts f = facts_of(j);
	struct addr good[DIAL_ADDRS_MAX];
	struct buf why;
	size_t n;

	j->resolve_ms = a->cached ? 0 : a->ms;
	if (decide_dial(j, &no_address).verdict == VERDICT_DENY) {
		fail_dial(j, DIAL_DENIED, RESOLVE_DENIED, STR_NONE);
		return;
	}
	if (a->status != RESOLVE_OK) {
		fail_dial(j, DIAL_NO_NAME, a->status, STR_NONE);
		return;
	}
	buf_init(&why, JOB_WHY_MAX);
	n = dialer_job_vet(j->box, &f, a, good, DIAL_ADDRS_MAX, &why);
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
		return dialer_job_take_name(m->name, &j->name);
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

/* All that shares and the half beside them can take, and each box's channels, have descriptors. */
_Static_assert(DIALER_DIALS_ALL / 2 * 3 * DIAL_ADDRS_MAX + 2 * DIALER_SANDBOXES_MAX + 1024 <=
	       CONFINE_MANY_DESCRIPTORS, "the dialer does not run out of descriptors");

static bool has_room(const struct box *b)
{
	const struct dialer *d = b->dialer;

	if (b->dials >= d->max_dials || b->tickets.n + b->dials >= DIALER_TICKETS_MAX)
		return false;
	return d->dials < DIALER_DIALS_ALL / 2 || b->dials < DIALER_DIALS_ALL / d->n_boxes;
}

void dialer_on_dial(struct box *b, const struct msg_dial *m)
{
	struct msg_dialed full = { .id = m->id, .status = DIAL_QUOTA };
	struct job *j = has_room(b) ? dialer_job_new(b, true, m->id) : NULL;

	if (!j) {
		dialer_tell_worker(b, MSG_DIALED, &full, NULL, 0);
		return;
	}
	if (!take_target(j, m) || decide_dial(j, &no_address).verdict == VERDICT_DENY)
		fail_dial(j, DIAL_DENIED, RESOLVE_DENIED, STR_NONE);
	else
		begin_dial(j);
}

void dialer_on_hangup(struct box *b, const struct msg_hangup *m)
{
	const struct msg_ticket_end end = { .ticket = m->ticket };

	if (dialer_tickets_remove(&b->tickets, m->ticket))
		dialer_tell_broker(b, MSG_TICKET_END, &end);
}
