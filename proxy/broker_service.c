/* Theory of operation
 *
 * A sandbox here is two channels (its worker's, and the dialer's for this sandbox), its policy, its
 * CA, the tickets of its live connections and the leaves signed for it. Which sandbox a message is
 * for, the channel says; no message names one.
 *
 * Order between the channels: the dialer sends TICKET to the broker before it sends DIALED to the
 * worker, so when a GRANT for that ticket has arrived here, its TICKET has, too, but perhaps not
 * been read. So on_grant() first drains the dialer's channel where it does not know the ticket.
 * Tickets end in the same channel, when the worker itself has given the connection up. When that channel closes
 * nobody vouches for its connections: all tickets go.
 *
 * A grant: decided (grant_decide()), put together (credential_edit()), recorded, sent, wiped, in
 * this order: a value whose record does not fit into the ring is not handed out. A value lies in
 * its struct secret, in the edit and in the channel's packet, each wiped when it is done with.
 *
 * A worker that asks in a flood costs only itself: past REFUSALS_PER_SECOND its refusals are
 * counted and the count is in its next or last record (suppressed), past GRANTS_PER_SECOND it gets
 * none until the second is over. One that does not read its answers is ended by its full queue
 * (CHANNEL_QUEUE_MAX).
 *
 * Leaves: only for a name that the policy could allow with nothing but the name known, or with
 * "refusal: explain" for any name, since a refusal over TLS needs one. The name is the one in the
 * message, never one of an origin's certificate; ca_leaf() takes canonical names alone. For the
 * worker's own key, which it sends once; what comes before it gets no leaf.
 */
#include "proxy/broker_service.h"

#include <stdlib.h>
#include <unistd.h>

#include "broker/ca.h"
#include "broker/credential.h"
#include "policy/policy.h"
#include "proxy/audit.h"
#include "proxy/grant.h"
#include "proxy/leaf_cache.h"
#include "proxy/messages.h"
#include "proxy/record.h"
#include "proxy/tickets.h"
#include "sandbox/channel.h"


/* What one sandbox did in the second that runs. */
struct second {
	uint64_t at;
	unsigned grants, refusals;
	uint64_t suppressed;	/* refusals that no record tells of yet */
};

struct sandbox {
	struct sandbox *next;
	struct broker *broker;
	uint32_t number;
	struct buf name;
	struct channel *worker, *dialer;
	struct policy *policy;
	struct ca *ca;
	struct buf ca_der, spki;
	struct tickets *tickets;
	struct leaf_cache *leaves;
	struct second second;
};

struct broker {
	struct event_base *base;
	struct ring *ring;
	broker_clock_fn *now;
	struct secret_table *secrets;
	struct sandbox *first;
	size_t n;
	struct record record;
	broker_lost_fn *on_lost;
	void *on_lost_arg;
};

/* ---- life ---- */

static void sandbox_free(struct sandbox *s)
{
	channel_free(s->worker);
	channel_free(s->dialer);
	policy_free(s->policy);
	ca_free(s->ca);
	tickets_free(s->tickets);
	leaf_cache_free(s->leaves);
	buf_free(&s->name);
	buf_free(&s->ca_der);
	buf_free(&s->spki);
	free(s);
}

/* ---- records ---- */

static struct second *this_second(struct sandbox *s)
{
	uint64_t now = s->broker->now();

	if (s->second.at != now) {
		s->second.at = now;
		s->second.grants = 0;
		s->second.refusals = 0;
	}
	return &s->second;
}

static const char *event_name(enum grant_status status)
{
	return status == GRANT_OK ? "granted" : status == GRANT_UNAVAILABLE ? "failed" : "refused";
}

static enum err write_record(struct sandbox *s, const struct grant *g)
{
	struct record *r = &s->broker->record;
	char room[ADDR_TEXT_MAX];
	enum err e;

	record_begin(r, RECORD_credential);
	record_str(r, REC_sandbox, buf_str(&s->name));
	record_str(r, REC_event, str_of(event_name(g->status)));
	record_str(r, REC_credential, g->credential.name);
	record_str(r, REC_source, str_of(g->source));
	if (g->ticket) {
		record_str(r, REC_destination, ticket_destination(g->ticket, room));
		record_str(r, REC_address, str_of(addr_format(&g->ticket->addr, room)));
		record_u64(r, REC_port, g->ticket->port);
	}
	audit_rule(r, &g->rule);
	record_str(r, REC_policy, policy_digest(s->policy));
	record_str(r, REC_reason, str_of(g->why));
	if (s->second.suppressed)
		record_u64(r, REC_suppressed, s->second.suppressed);
	e = record_commit(r, s->broker->ring);
	if (!e)
		s->second.suppressed = 0;
	return e;
}

/* Records may be lost here only where the log takes none: then no traffic flows either. */
static void record_refusal(struct sandbox *s, const struct grant *g)
{
	struct second *second = this_second(s);

	if (second->refusals == REFUSALS_PER_SECOND) {
		second->suppressed++;
		return;
	}
	second->refusals++;
	if (write_record(s, g) != OK)
		second->suppressed++;
}

/* What was counted and no record has told yet. */
static void record_rest(struct sandbox *s)
{
	const struct grant g = { .status = GRANT_DENIED, .why = "refusals not recorded one by one" };

	if (s->second.suppressed)
		write_record(s, &g);
}

/* ---- the end of a sandbox ---- */

static void sandbox_end(struct sandbox *s)
{
	struct broker *b = s->broker;
	struct sandbox **at = &b->first;

	record_rest(s);
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	b->n--;
	sandbox_free(s);
}

/* The end of a sandbox whose worker did what it may not. */
static void sandbox_lose(struct sandbox *s, const char *why)
{
	struct broker *b = s->broker;
	uint32_t number = s->number;

	sandbox_end(s);
	if (b->on_lost)
		b->on_lost(b->on_lost_arg, number, why);
}

/* An answer that does not go out ends the sandbox's state: its worker is gone or reads nothing. */
static void answer(struct sandbox *s, uint16_t type, const void *msg)
{
	enum err e = channel_send(s->worker, type, msg, NULL, 0);

	if (e == ERR_CLOSED)
		sandbox_end(s);
	else if (e)
		sandbox_lose(s, "does not take the broker's answers");
}

/* ---- grants ---- */

static void withdraw(struct grant *g, const char *why)
{
	g->status = GRANT_UNAVAILABLE;
	g->why = why;
}

/* The edit of a grant that is OK so far. Where it stays so, the grant is on record. */
static void prepare(struct sandbox *s, struct grant *g, struct credential_edit *edit)
{
	struct second *second = this_second(s);

	if (second->grants == GRANTS_PER_SECOND) {
		withdraw(g, "too many grants in one second");
		return;
	}
	if (credential_edit(&g->credential, g->value, edit) != OK) {
		withdraw(g, "the field cannot be put together");
		return;
	}
	second->grants++;
	if (write_record(s, g) != OK) {
		credential_edit_wipe(edit);
		withdraw(g, "the audit log takes no record");
	}
}

static void send_plain(struct sandbox *s, uint32_t id, const struct grant *g)
{
	struct msg_granted m = { .id = id, .status = (uint8_t)g->status,
				 .credential = g->credential.name };

	answer(s, MSG_GRANTED, &m);
}

static enum err send_edit(struct sandbox *s, uint32_t id, const struct grant *g,
			  const struct credential_edit *edit)
{
	struct str value = buf_str(&edit->value), patterns[CREDENTIAL_PATTERNS_MAX];
	struct msg_granted m = { .id = id, .status = GRANT_OK, .credential = g->credential.name,
				 .fields = { &edit->field, 1 }, .values = { &value, 1 },
				 .patterns = { patterns, edit->n_patterns } };

	for (size_t i = 0; i < edit->n_patterns; i++)
		patterns[i] = buf_str(&edit->patterns[i]);
	return channel_send(s->worker, MSG_GRANTED, &m, NULL, 0);
}

static void on_grant(struct sandbox *s, const struct msg_grant *m)
{
	struct credential_edit edit = { 0 };
	struct grant_ground ground;
	struct grant g;

	if (s->dialer && !tickets_find(s->tickets, m->ticket))
		channel_drain(s->dialer);
	ground = (struct grant_ground){ s->policy, s->tickets, s->broker->secrets };
	grant_decide(&ground, m, &g);
	if (g.status == GRANT_OK)
		prepare(s, &g, &edit);
	if (g.status == GRANT_OK && send_edit(s, m->id, &g, &edit) != OK)
		withdraw(&g, "the answer does not go out");
	credential_edit_wipe(&edit);
	if (g.status == GRANT_OK)
		return;
	if (g.status != GRANT_NONE)
		record_refusal(s, &g);
	send_plain(s, m->id, &g);
}

/* ---- leaves ---- */

/* Could the policy allow anything there, or does it explain its refusals? */
static bool leaf_wanted(const struct sandbox *s, const struct msg_leaf *m)
{
	struct facts f = { .literal = m->literal };

	if (policy_explains(s->policy))
		return true;
	if (m->literal && !addr_parse(m->name, &f.addr))
		return false;
	if (!m->literal)
		f.host = m->name;
	return policy_decide(s->policy, &f).verdict != VERDICT_DENY;
}

static bool leaf_name_ok(const struct msg_leaf *m)
{
	struct name name;
	struct addr addr;

	if (m->literal)
		return addr_parse(m->name, &addr);
	return name_canon(m->name, &name) == NAME_OK && str_eq(name_str(&name), m->name);
}

static void on_leaf(struct sandbox *s, const struct msg_leaf *m)
{
	struct msg_leaf_is is = { .id = m->id };
	uint64_t now = s->broker->now();
	struct buf der;

	buf_init(&der, MSG_DER_MAX);
	if (s->spki.n && leaf_name_ok(m) && leaf_wanted(s, m)) {
		is.leaf = leaf_cache_find(s->leaves, m->name, now);
		if (is.leaf.n == 0 && ca_leaf(s->ca, m->name, buf_str(&s->spki), &der) == OK) {
			is.leaf = buf_str(&der);
			leaf_cache_put(s->leaves, m->name, is.leaf, now);
		}
	}
	if (is.leaf.n) {
		is.ok = 1;
		is.ca = buf_str(&s->ca_der);
	}
	answer(s, MSG_LEAF_IS, &is);
	buf_free(&der);
}

static void on_pubkey(struct sandbox *s, const struct msg_pubkey *m)
{
	if (ca_check_key(m->spki) != OK) {
		sandbox_lose(s, "its public key is none");
		return;
	}
	buf_put_str(&s->spki, m->spki);
}

/* ---- channels ---- */

static void on_worker_message(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	(void)fds;
	(void)n_fds;
	if (type == MSG_PUBKEY)
		on_pubkey(arg, msg);
	else if (type == MSG_LEAF)
		on_leaf(arg, msg);
	else if (type == MSG_GRANT)
		on_grant(arg, msg);
}

static void on_worker_closed(void *arg, const char *why)
{
	if (channel_ended(why))
		sandbox_end(arg);
	else
		sandbox_lose(arg, why);
}

static void lose_dialer(struct sandbox *s)
{
	channel_free(s->dialer);
	s->dialer = NULL;
	tickets_clear(s->tickets);
}

static void on_dialer_message(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	const struct msg_ticket_end *end = msg;
	struct sandbox *s = arg;
	enum err e = OK;

	(void)fds;
	(void)n_fds;
	if (type == MSG_TICKET)
		e = tickets_add(s->tickets, msg);
	else if (type == MSG_TICKET_END)
		tickets_end(s->tickets, end->ticket);
	/* A full table or no memory: that one connection gets no grants. */
	if (e && err_kind(e) == ERR_KIND_PEER)
		lose_dialer(s);
}

static void on_dialer_closed(void *arg, const char *why)
{
	(void)why;
	lose_dialer(arg);
}

/* Takes both descriptors over. */
static bool open_channels(struct sandbox *s, int worker, int dialer)
{
	struct channel_peer peer = { .self = ROLE_BROKER, .other = ROLE_WORKER,
				     .table = exeat_messages, .on_message = on_worker_message,
				     .on_closed = on_worker_closed, .arg = s };

	s->worker = channel_new(s->broker->base, worker, &peer);
	if (!s->worker) {
		close(dialer);
		return false;
	}
	peer.other = ROLE_DIALER;
	peer.on_message = on_dialer_message;
	peer.on_closed = on_dialer_closed;
	s->dialer = channel_new(s->broker->base, dialer, &peer);
	if (!s->dialer)
		return false;
	channel_set_phase(s->worker, PHASE_RUN);
	channel_gather(s->worker);
	channel_set_phase(s->dialer, PHASE_RUN);
	return true;
}

/* ---- sandboxes ---- */

static enum err prepare_sandbox(struct sandbox *s, const struct msg_sandbox *m, const int *policies,
				size_t n)
{
	enum err e = policy_map(policies, n, &s->policy);

	if (e)
		return e;
	e = ca_new(m->name, &s->ca);
	if (e)
		return e;
	buf_init(&s->name, MSG_SANDBOX_NAME_MAX);
	buf_init(&s->spki, MSG_DER_MAX);
	buf_init(&s->ca_der, MSG_DER_MAX);
	buf_put_str(&s->name, m->name);
	e = ca_der(s->ca, &s->ca_der);
	if (e)
		return e;
	s->tickets = tickets_new();
	s->leaves = leaf_cache_new();
	return s->tickets && s->leaves && !s->name.failed ? OK : ERR_NOMEM;
}

static void end_number(struct broker *b, uint32_t number)
{
	for (struct sandbox *s = b->first; s; s = s->next) {
		if (s->number == number) {
			sandbox_end(s);
			return;
		}
	}
}

enum err broker_sandbox(struct broker *b, const struct msg_sandbox *m, const int *fds, size_t n_fds,
			struct buf *pem)
{
	const int *policies = fds + FD_SANDBOX_POLICY;
	size_t n_policies = n_fds - FD_SANDBOX_POLICY;
	struct sandbox *s;
	enum err e;

	end_number(b, m->sandbox);
	s = calloc(1, sizeof(*s));
	e = !s ? ERR_NOMEM : b->n == SANDBOXES_MAX ? ERR_FULL : OK;
	if (!e)
		e = prepare_sandbox(s, m, policies, n_policies);
	if (!e)
		e = ca_pem(s->ca, pem);
	channel_close_fds(policies, n_policies);
	if (e) {
		channel_close_fds(fds, FD_SANDBOX_POLICY);
		goto out;
	}
	s->broker = b;
	s->number = m->sandbox;
	if (!open_channels(s, fds[FD_SANDBOX_WORKER], fds[FD_SANDBOX_OTHER])) {
		e = ERR_NOMEM;
		goto out;
	}
	s->next = b->first;
	b->first = s;
	b->n++;
	return OK;
out:
	if (s)
		sandbox_free(s);
	return e;
}

size_t broker_sandboxes(const struct broker *b)
{
	return b->n;
}

/* ---- the broker ---- */

struct broker *broker_new(struct event_base *base, struct ring *ring, broker_clock_fn *now)
{
	struct broker *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->secrets = secret_table_new();
	if (!b->secrets) {
		free(b);
		return NULL;
	}
	b->base = base;
	b->ring = ring;
	b->now = now;
	return b;
}

void broker_free(struct broker *b)
{
	if (!b)
		return;
	while (b->first)
		sandbox_end(b->first);
	secret_table_free(b->secrets);
	ring_close(b->ring);
	free(b);
}

void broker_on_lost(struct broker *b, broker_lost_fn *fn, void *arg)
{
	b->on_lost = fn;
	b->on_lost_arg = arg;
}

struct secret_table *broker_secrets(struct broker *b)
{
	return b->secrets;
}
