/* Theory of operation
 *
 * A grant: decided (grant_decide()), put together (credential_edit()), recorded, sent, wiped, in
 * this order: a value whose record does not fit into the ring is not handed out. A value lies in
 * its struct secret, in the edit and in the channel's packet, each wiped when it is done with.
 *
 * A worker that asks in a flood costs only itself: past REFUSALS_PER_SECOND its refusals are
 * counted and the count is in its next or last record (suppressed), past its grants a second it
 * gets none until the second is over. One that does not read its answers is ended by its full queue
 * (broker_limit()).
 *
 * Leaves: only for a name that the policy could allow with nothing but the name known, or with
 * "refusal: explain" for any name, since a refusal over TLS needs one. That is asked each time,
 * before the leaves that are there are looked at: a name that a new policy denies has none from
 * then on. The name is the one in the message, never one of an origin's certificate; ca_leaf()
 * takes canonical names alone. For the worker's own key, which it sends once; what comes before it
 * gets no leaf.
 */
#include "proxy/broker_state.h"

#include "broker/credential.h"
#include "proxy/audit.h"
#include "proxy/grant.h"

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
void broker_record_rest(struct sandbox *s)
{
	const struct grant g = { .status = GRANT_DENIED, .why = "refusals not recorded one by one" };

	if (s->second.suppressed)
		write_record(s, &g);
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

	if (second->grants >= s->broker->max_grants) {
		g->status = GRANT_QUOTA;
		g->why = "too many grants in one second";
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

	broker_answer(s, MSG_GRANTED, &m);
}

static enum err send_edit(struct sandbox *s, uint32_t id, const struct grant *g,
			  const struct credential_edit *edit)
{
	struct str value = buf_str(&edit->value), patterns[CREDENTIAL_PATTERNS_MAX];
	struct msg_granted m = { .id = id, .status = GRANT_OK, .lasts = g->lasts,
				 .credential = g->credential.name,
				 .fields = { &edit->field, 1 }, .values = { &value, 1 },
				 .patterns = { patterns, edit->n_patterns } };

	for (size_t i = 0; i < edit->n_patterns; i++)
		patterns[i] = buf_str(&edit->patterns[i]);
	return channel_send(s->worker, MSG_GRANTED, &m, NULL, 0);
}

void broker_on_grant(struct sandbox *s, const struct msg_grant *m)
{
	struct credential_edit edit = { 0 };
	struct grant_ground ground;
	struct grant g;

	if (!tickets_find(s->tickets, m->ticket) && !broker_hear_dialer(s))
		return;
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

void broker_on_leaf(struct sandbox *s, const struct msg_leaf *m)
{
	struct msg_leaf_is is = { .id = m->id, .ca = buf_str(&s->ca_der) };
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
	is.ok = is.leaf.n != 0;
	broker_answer(s, MSG_LEAF_IS, &is);
	buf_free(&der);
}

void broker_on_pubkey(struct sandbox *s, const struct msg_pubkey *m)
{
	if (ca_check_key(m->spki) != OK) {
		broker_lose(s, "its public key is none");
		return;
	}
	buf_put_str(&s->spki, m->spki);
}
