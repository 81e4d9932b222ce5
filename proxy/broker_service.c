/* Theory of operation
 *
 * A sandbox here is two channels (its worker's, and the dialer's for this sandbox), its policy, its
 * CA, the tickets of its live connections and the leaves signed for it. Which sandbox a message is
 * for, the channel says; no message names one. The supervisor makes a sandbox and takes it away; a
 * worker that has merely ended leaves all of it until then.
 *
 * Order between the channels: the dialer sends TICKET to the broker before it sends DIALED to the
 * worker, so when a GRANT for that ticket has arrived here, its TICKET has, too, but perhaps not
 * been read. So on a GRANT for a ticket that is not known the dialer's channel is drained first.
 * Tickets end in the same channel, when the worker itself has given the connection up.
 *
 * Over deaths: what a worker asks is read only while its dialer has told all tickets there are
 * (TICKETS_TOLD). After a broker's death its successor so knows each live connection before it
 * hears of one. When the dialer's channel ends nobody vouches for its connections: all tickets go,
 * and the worker waits for the dialer's successor (PEER), as it must to connect anywhere. A GRANT
 * that is in hand when that end is found names a ticket of the dead one.
 *
 * The CA of a sandbox outlives the broker, sealed (broker/ca_seal.h), at the supervisor's. One that
 * does not open is not replaced by another: its box would not trust that.
 */
#include "proxy/broker_state.h"

#include <stdlib.h>
#include <unistd.h>

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

static void sandbox_end(struct sandbox *s)
{
	struct broker *b = s->broker;
	struct sandbox **at = &b->first;

	broker_record_rest(s);
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	b->n--;
	sandbox_free(s);
}

void broker_lose(struct sandbox *s, const char *why)
{
	struct broker *b = s->broker;
	uint32_t number = s->number, join = s->join;

	sandbox_end(s);
	if (b->on_lost)
		b->on_lost(b->on_lost_arg, number, join, why);
}

/* ---- the worker's channel ---- */

static void lose_worker(struct sandbox *s)
{
	channel_free(s->worker);
	s->worker = NULL;
}

void broker_answer(struct sandbox *s, uint16_t type, const void *msg)
{
	enum err e = channel_send(s->worker, type, msg, NULL, 0);

	if (e == ERR_CLOSED)
		lose_worker(s);
	else if (e)
		broker_lose(s, "does not take the broker's answers");
}

static void on_worker_message(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	(void)fds;
	(void)n_fds;
	if (type == MSG_PUBKEY)
		broker_on_pubkey(arg, msg);
	else if (type == MSG_LEAF)
		broker_on_leaf(arg, msg);
	else if (type == MSG_GRANT)
		broker_on_grant(arg, msg);
}

static void on_worker_closed(void *arg, const char *why)
{
	if (channel_ended(why))
		lose_worker(arg);
	else
		broker_lose(arg, why);
}

static struct channel *open_worker(struct sandbox *s, int fd)
{
	const struct channel_peer peer = { .self = ROLE_BROKER, .other = ROLE_WORKER,
					   .table = exeat_messages,
					   .on_message = on_worker_message,
					   .on_closed = on_worker_closed, .arg = s };
	struct channel *c = channel_new(s->broker->base, fd, &peer);

	if (!c)
		return NULL;
	channel_set_phase(c, PHASE_RUN);
	channel_set_limit(c, s->broker->max_queued, MSG_CREDITS);
	channel_gather(c);
	channel_pause(c, true);		/* until the dialer has told its tickets */
	return c;
}

/* ---- the dialer's channel ---- */

static void lose_dialer(struct sandbox *s)
{
	channel_free(s->dialer);
	s->dialer = NULL;
	tickets_clear(s->tickets);
	if (s->worker)
		channel_pause(s->worker, true);
}

/* Nothing of what it has said can be relied on. The sandbox must not go under the feet of a handler
 * that is listening to the dialer for it. */
static void dialer_broke_rules(struct sandbox *s)
{
	lose_dialer(s);
	if (s->hears_dialer)
		s->dialer_broke_rules = true;
	else
		broker_lose(s, "the dialer broke the rules of its channel");
}

bool broker_hear_dialer(struct sandbox *s)
{
	s->hears_dialer = true;
	if (s->dialer)
		channel_drain(s->dialer);
	s->hears_dialer = false;
	if (!s->dialer_broke_rules)
		return true;
	dialer_broke_rules(s);
	return false;
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
	else if (type == MSG_TICKETS_TOLD && s->worker)
		channel_pause(s->worker, false);
	/* A full table or no memory: that one connection gets no grants. */
	if (e && err_kind(e) == ERR_KIND_PEER)
		dialer_broke_rules(s);
}

static void on_dialer_closed(void *arg, const char *why)
{
	if (channel_ended(why))
		lose_dialer(arg);
	else
		dialer_broke_rules(arg);
}

static struct channel *open_dialer(struct sandbox *s, int fd)
{
	const struct channel_peer peer = { .self = ROLE_BROKER, .other = ROLE_DIALER,
					   .table = exeat_messages,
					   .on_message = on_dialer_message,
					   .on_closed = on_dialer_closed, .arg = s };
	struct channel *c = channel_new(s->broker->base, fd, &peer);

	if (c)
		channel_set_phase(c, PHASE_RUN);
	return c;
}

/* ---- sandboxes ---- */

static enum err prepare_ca(struct sandbox *s, const struct msg_sandbox *m, struct broker_ca *out)
{
	const struct seal_owner owner = { m->name, m->sandbox };
	enum err e = m->ca.n ? ca_unseal(m->ca, s->broker->seal_key, &owner, &s->ca)
			     : ca_new(m->name, &s->ca);

	if (!e)
		e = ca_der(s->ca, &s->ca_der);
	if (!e)
		e = ca_pem(s->ca, &out->pem);
	if (!e)
		e = ca_seal(s->ca, s->broker->seal_key, &owner, &out->sealed);
	return e;
}

static enum err prepare_sandbox(struct sandbox *s, const struct msg_sandbox *m, const int *policies,
				size_t n, struct broker_ca *out)
{
	enum err e;

	s->number = m->sandbox;
	s->join = m->join;
	buf_init(&s->name, MSG_SANDBOX_NAME_MAX);
	buf_init(&s->spki, MSG_DER_MAX);
	buf_init(&s->ca_der, MSG_DER_MAX);
	buf_put_str(&s->name, m->name);
	e = policy_map(policies, n, &s->policy);
	if (!e)
		e = prepare_ca(s, m, out);
	if (e)
		return e;
	s->tickets = tickets_new();
	s->leaves = leaf_cache_new();
	return s->tickets && s->leaves && !s->name.failed ? OK : ERR_NOMEM;
}

static struct sandbox *find(struct broker *b, uint32_t number)
{
	struct sandbox *s = b->first;

	while (s && s->number != number)
		s = s->next;
	return s;
}

static void broker_ca_init(struct broker_ca *ca)
{
	buf_init(&ca->pem, MSG_PEM_MAX);
	buf_init(&ca->sealed, MSG_SEALED_MAX);
}

void broker_ca_free(struct broker_ca *ca)
{
	buf_free(&ca->pem);
	buf_free(&ca->sealed);
}

/* Takes the channels over where it is OK; where not, *s is to be freed, and they closed. */
static enum err open_sandbox(struct broker *b, const struct msg_sandbox *m, int *fds, size_t n_fds,
			     struct broker_ca *out, struct sandbox **made)
{
	struct sandbox *s = b->n < SANDBOXES_MAX ? calloc(1, sizeof(*s)) : NULL;
	enum err e;

	*made = s;
	if (!s)
		return b->n < SANDBOXES_MAX ? ERR_NOMEM : ERR_FULL;
	s->broker = b;
	e = prepare_sandbox(s, m, fds + FD_SANDBOX_POLICY, n_fds - FD_SANDBOX_POLICY, out);
	if (e)
		return e;
	s->worker = open_worker(s, fds[FD_SANDBOX_WORKER]);
	s->dialer = open_dialer(s, fds[FD_SANDBOX_OTHER]);
	fds[FD_SANDBOX_WORKER] = fds[FD_SANDBOX_OTHER] = -1;
	if (!s->worker || !s->dialer)
		return ERR_NOMEM;
	s->next = b->first;
	b->first = s;
	b->n++;
	return OK;
}

enum err broker_sandbox(struct broker *b, const struct msg_sandbox *m, int *fds, size_t n_fds,
			struct broker_ca *out)
{
	struct sandbox *made;
	enum err e;

	broker_ca_init(out);
	broker_sandbox_gone(b, m->sandbox);
	e = open_sandbox(b, m, fds, n_fds, out, &made);
	channel_close_fds(fds, n_fds);
	if (e) {
		if (made)
			sandbox_free(made);
		broker_ca_free(out);
	}
	return e;
}

void broker_sandbox_gone(struct broker *b, uint32_t number)
{
	struct sandbox *s = find(b, number);

	if (s)
		sandbox_end(s);
}

enum err broker_peer(struct broker *b, const struct msg_peer *m, int fd)
{
	struct sandbox *s = find(b, m->sandbox);

	if (!s || m->role != ROLE_DIALER) {
		close(fd);
		return ERR_NOTFOUND;
	}
	lose_dialer(s);
	s->dialer = open_dialer(s, fd);
	return s->dialer ? OK : ERR_NOMEM;
}

enum err broker_policy(struct broker *b, const struct msg_policy *m, const int *fds, size_t n_fds)
{
	struct sandbox *s = find(b, m->sandbox);
	struct policy *next = NULL;
	enum err e = s ? policy_map(fds, n_fds, &next) : ERR_NOTFOUND;

	channel_close_fds(fds, n_fds);
	if (e)
		return e;
	policy_free(s->policy);
	s->policy = next;
	return OK;
}

size_t broker_sandboxes(const struct broker *b)
{
	return b->n;
}

/* ---- the broker ---- */

struct broker *broker_new(struct event_base *base, struct ring *ring, struct seal_key *key,
			  broker_clock_fn *now)
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
	b->seal_key = key;
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
	seal_key_free(b->seal_key);
	ring_close(b->ring);
	free(b);
}

void broker_limit(struct broker *b, uint32_t grants_per_second, size_t queued)
{
	b->max_grants = grants_per_second;
	b->max_queued = queued;
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
