/* Theory of operation
 *
 * Each question is judged by the policy first (proxy/dns_judge.h). What is refused is answered at
 * once, and nobody outside learns of it:
 *
 *   refused, type A       NOERROR with the refusal address, where every port answers RST
 *   refused, other types  NOERROR without data: the codes of one name never contradict each other
 *   artefacts             NXDOMAIN, so that a client's search goes on to the name that is meant
 *
 * A name that could be allowed becomes a lookup, which all questions for it share whatever their
 * type:
 *
 *   RESOLVING   the dialer is asked whether the name exists; each type then gets the same code
 *   LEASING     it does, and somebody asked for A: the supervisor leases an address and admits it
 *
 * and only then the answer goes out. A name that resolves into a prohibited range only gets its
 * lease all the same: the box is told by the connection (502, destination_ip_prohibited), in words
 * that DNS has not.
 *
 * The record comes before the answer. Where the log takes no record, the answer is SERVFAIL.
 *
 * Limits: QUESTIONS_MAX questions waiting; what is over it is answered SERVFAIL. Refusals that
 * repeat are counted (proxy/tally.h): artefacts in one line a second whatever their names.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "conf/buf.h"
#include "proxy/clock.h"
#include "proxy/dns_judge.h"
#include "proxy/dns_listen.h"
#include "proxy/dns_record.h"
#include "proxy/refusal_list.h"
#include "proxy/tally.h"

#define QUESTIONS_MAX 1024
#define LOOKUP_BUCKETS 256
#define REFUSAL_TTL 5		/* seconds: a new policy is felt that soon */
#define ANSWER_TTL_MAX 60
#define EDE_TEXT_SIZE 192
#define SERVER_TEXT_MAX ADDR_PORT_TEXT_MAX
#define WHY_MAX 256

struct question {
	struct question *next;
	struct dns_asker *asker;
	struct dns_query query;
	uint64_t since;
};

struct lookup {
	struct dns_service *service;
	struct lookup *next, **prev;
	struct name name;
	ask_id ask;
	unsigned policies;	/* the lease was asked for under the one in force then */
	bool leased;
	uint32_t address;
	struct msg_resolved resolved;	/* its texts lie in the three below */
	char server[SERVER_TEXT_MAX], addrs[MSG_ADDRS_MAX * ADDR_PACKED], why[WHY_MAX];
	struct question *first, **last;
};

struct dns_service {
	struct worker *w;
	struct dns_listen *listen;
	struct tally *tally;
	struct lookup *lookups[LOOKUP_BUCKETS];
	unsigned waiting;
};

static void reply(struct dns_asker *asker, const struct dns_query *q, const struct dns_answer *a)
{
	uint8_t out[DNS_UDP_MAX];
	size_t max = dns_asker_max(asker, q);

	dns_reply(asker, out, dns_build(q, a, out, max < sizeof(out) ? max : sizeof(out)));
}

/* The name for the log: a host's in its one spelling, so that nobody's mix of cases makes it
 * another. */
static struct str name_of(const struct dns_query *q)
{
	return q->name_ok ? name_str(&q->name) : str_of(q->shown);
}

static void reply_failed(struct dns_asker *asker, const struct dns_query *q, const char *why)
{
	const struct dns_answer a = { .rcode = DNS_SERVFAIL,
				      .ede = EDE_OTHER,
				      .ede_text = str_of(why) };

	reply(asker, q, &a);
}

/* The record first; the answer only if it was taken. */
static void reply_recorded(struct dns_service *s, struct dns_asker *asker,
			   const struct dns_query *q, const struct dns_answer *a,
			   struct dns_event *e)
{
	e->name = name_of(q);
	e->type = q->type;
	e->rcode = a->rcode;
	if (dns_record(s->w, e) != OK)
		reply_failed(asker, q, "the audit log cannot be written");
	else
		reply(asker, q, a);
}

/* ---- refusals ---- */

/* What makes two refusals the same: head, then the name as shown. Names that no host has, and
 * names that nobody means, are each one kind whatever they are. */
enum { KEY_WHY, KEY_RCODE, KEY_TYPE_HIGH, KEY_TYPE_LOW, KEY_HEAD };

/* Causes that are not the policy's; each is a row of the key's KEY_WHY. */
enum cause { CAUSE_POLICY, CAUSE_ARTEFACT, CAUSE_NO_HOST, CAUSE_NO_POINTER, CAUSE_MALFORMED,
	     CAUSE_CLASS, CAUSE_OPCODE, CAUSE_TOO_MANY, CAUSE_DIALER, CAUSE_NO_LEASE, CAUSES };

static const struct {
	const char *text;	/* NULL: the policy's own rule */
	bool by_name;		/* counted by name */
	const char *retry;
} causes[CAUSES] = {
	[CAUSE_POLICY] = { NULL, true, "ask" },
	[CAUSE_ARTEFACT] = { "a name that only a search list or a special use makes", false, "never" },
	[CAUSE_NO_HOST] = { "a name that no host has", false, "never" },
	[CAUSE_NO_POINTER] = { "an address that has no name here", false, "never" },
	[CAUSE_MALFORMED] = { "a malformed query", false, "never" },
	[CAUSE_CLASS] = { "a class other than IN", false, "never" },
	[CAUSE_OPCODE] = { "an operation other than a query", false, "never" },
	[CAUSE_TOO_MANY] = { "too many questions are waiting", false, "later" },
	[CAUSE_DIALER] = { "refused by the dialer", true, "ask" },
	[CAUSE_NO_LEASE] = { "no address could be leased for the name", true, "later" },
};

static void make_key(struct buf *key, enum cause cause, const struct dns_query *q,
		     enum dns_rcode rcode)
{
	buf_init(key, TALLY_KEY_MAX);
	buf_put_c(key, (char)cause);
	buf_put_c(key, (char)rcode);
	if (!causes[cause].by_name)
		return;
	buf_put_c(key, (char)(q->type >> 8));
	buf_put_c(key, (char)(q->type & 0xff));
	buf_put_str(key, name_of(q));
}

static enum err record_refusal(struct dns_service *s, enum cause cause, const struct dns_query *q,
			       enum dns_rcode rcode, const struct tally_line *line)
{
	struct dns_event e = { .name = name_of(q), .type = q->type, .rcode = rcode,
			       .decision = line->decision, .policy = line->policy,
			       .denied_because = causes[cause].text,
			       .refusal = str_of(line->id) };

	return dns_record(s->w, &e);
}

/* The tally's callback: what repeated, as a number. */
static bool tell_repeats(void *arg, const struct tally_line *line, uint64_t suppressed)
{
	struct dns_service *s = arg;
	struct dns_event e = { 0 };
	enum cause cause;

	if (!line)
		return dns_record_suppressed(s->w, suppressed) == OK;
	cause = (enum cause)line->key.p[KEY_WHY];
	e.rcode = (enum dns_rcode)line->key.p[KEY_RCODE];
	if (causes[cause].by_name) {
		e.type = (uint16_t)((uint8_t)line->key.p[KEY_TYPE_HIGH] << 8 |
				    (uint8_t)line->key.p[KEY_TYPE_LOW]);
		e.name = str_from(line->key, KEY_HEAD);
	}
	e.decision = line->decision;
	e.policy = line->policy;
	e.denied_because = causes[cause].text;
	e.refusal = str_of(line->id);
	e.count = line->count;
	return dns_record(s->w, &e) == OK;
}

/* For the box's own list, whatever type was asked for: its user knows of none. */
static void list_refusal(struct dns_service *s, const struct dns_query *q, enum cause cause,
			 const struct rule_info *rule, const char *id)
{
	struct refusal_note note = { .step = REFUSED_DNS, .id = id, .host = name_of(q),
				     .reason = str_of(causes[cause].text),
				     .retry = causes[cause].retry,
				     .any_host = !causes[cause].by_name };

	if (!causes[cause].text) {
		note.rule = rule->id;
		note.reason = rule->reason.n ? rule->reason : STR("no rule allows the name");
	}
	refusal_list_note(s->w->refusals, &note);
}

/* Records the refusal, or counts it, and answers @a with its id in the words of an Extended
 * Error. */
static void refuse(struct dns_service *s, struct dns_asker *asker, const struct dns_query *q,
		   struct dns_answer *a, enum cause cause, struct decision decision)
{
	const struct rule_info rule = policy_rule(s->w->policy, decision.rule);
	const struct tally_line *line;
	struct refusal refusal = { 0 };
	char text[EDE_TEXT_SIZE];
	const char *id = refusal.id;
	struct buf key;
	bool recorded = true;

	refusal_id(&refusal);
	make_key(&key, cause, q, a->rcode);
	switch (tally_note(s->tally, buf_str(&key), decision, refusal.id, &line)) {
	case TALLY_FIRST:
		recorded = record_refusal(s, cause, q, a->rcode, line) == OK;
		if (!recorded)
			tally_drop(s->tally, buf_str(&key));
		break;
	case TALLY_COUNTED:
		id = line->id;
		break;
	case TALLY_NO_ROOM:
		break;
	}
	if (cause == CAUSE_POLICY || !causes[cause].text)
		snprintf(text, sizeof(text), "rule=%.*s refusal=%s", STR_ARG(rule.id), id);
	else
		snprintf(text, sizeof(text), "%s refusal=%s", causes[cause].text, id);
	a->ede_text = str_of(text);
	list_refusal(s, q, cause, &rule, id);
	if (recorded)
		reply(asker, q, a);
	else
		reply_failed(asker, q, "the audit log cannot be written");
	buf_free(&key);
}

static void refuse_by_policy(struct dns_service *s, struct dns_asker *asker,
			     const struct dns_query *q, struct decision decision)
{
	struct dns_answer a = { .rcode = DNS_NOERROR, .ttl = REFUSAL_TTL, .ede = EDE_BLOCKED };

	if (q->type == DNS_A)
		a.addr = addr_v4(s->w->refusal_address);
	else
		a.soa = true;
	refuse(s, asker, q, &a, CAUSE_POLICY, decision);
}

static void refuse_name(struct dns_service *s, struct dns_asker *asker, const struct dns_query *q,
			enum cause cause, struct decision decision)
{
	struct dns_answer a = { .rcode = DNS_NXDOMAIN, .ttl = REFUSAL_TTL, .soa = true,
				.ede = EDE_BLOCKED };

	refuse(s, asker, q, &a, cause, decision);
}

static void refuse_query(struct dns_service *s, struct dns_asker *asker, const struct dns_query *q,
			 enum dns_rcode rcode)
{
	const struct decision by_default = { VERDICT_DENY, { 0, RULE_DEFAULT } };
	struct dns_answer a = { .rcode = rcode, .ede = EDE_NONE };
	enum cause cause = rcode == DNS_NOTIMP ? CAUSE_OPCODE : rcode == DNS_REFUSED ? CAUSE_CLASS :
			   CAUSE_MALFORMED;

	refuse(s, asker, q, &a, cause, by_default);
}

static void fail_question(struct dns_service *s, struct dns_asker *asker, const struct dns_query *q,
			  enum cause cause, struct decision decision)
{
	struct dns_answer a = { .rcode = DNS_SERVFAIL,
				.ede = cause == CAUSE_DIALER ? EDE_BLOCKED : EDE_OTHER };

	refuse(s, asker, q, &a, cause, decision);
}

/* ---- answers without a lookup ---- */

static void answer_here(struct dns_service *s, struct dns_asker *asker, const struct dns_query *q,
			const struct dns_judged *j)
{
	struct dns_answer a = { .rcode = DNS_NOERROR, .ttl = ANSWER_TTL_MAX, .ede = EDE_NONE };
	struct dns_event e = { .decision = j->decision };

	e.decision.verdict = VERDICT_ALLOW;
	if (j->what == JUDGE_POINTER)
		a.ptr = j->pointer;
	else if (j->what == JUDGE_GATEWAY && q->type == DNS_A)
		a.addr = addr_v4(s->w->gateway);
	else
		a.soa = true;
	reply_recorded(s, asker, q, &a, &e);
}

/* ---- lookups ---- */

static struct lookup **bucket(struct dns_service *s, struct str name)
{
	uint32_t h = 2166136261u;	/* FNV-1a */

	for (size_t i = 0; i < name.n; i++)
		h = (h ^ (uint8_t)name.p[i]) * 16777619u;
	return &s->lookups[h % LOOKUP_BUCKETS];
}

static struct lookup *lookup_find(struct dns_service *s, struct str name)
{
	struct lookup *l = *bucket(s, name);

	while (l && !str_eq(name_str(&l->name), name))
		l = l->next;
	return l;
}

static struct lookup *lookup_new(struct dns_service *s, const struct name *name)
{
	struct lookup **at = bucket(s, name_str(name));
	struct lookup *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->service = s;
	l->name = *name;
	l->last = &l->first;
	l->next = *at;
	l->prev = at;
	if (l->next)
		l->next->prev = &l->next;
	*at = l;
	return l;
}

static void lookup_unlink(struct lookup *l)
{
	*l->prev = l->next;
	if (l->next)
		l->next->prev = l->prev;
}

static uint32_t answer_ttl(const struct msg_resolved *m)
{
	return m->ttl < 1 ? 1 : m->ttl > ANSWER_TTL_MAX ? ANSWER_TTL_MAX : m->ttl;
}

static bool exists(const struct msg_resolved *m)
{
	return m->status == RESOLVE_OK || m->status == RESOLVE_PROHIBITED;
}

/* The answer that upstream's word gives. */
static struct dns_answer upstream_answer(const struct lookup *l, const struct dns_query *q)
{
	struct dns_answer a = { .rcode = DNS_NOERROR, .ttl = REFUSAL_TTL, .ede = EDE_NONE };

	switch ((enum resolve_status)l->resolved.status) {
	case RESOLVE_OK:
	case RESOLVE_PROHIBITED:
		a.ttl = answer_ttl(&l->resolved);
		if (q->type == DNS_A)
			a.addr = addr_v4(l->address);
		else
			a.soa = true;
		return a;
	case RESOLVE_NODATA:
		a.soa = true;
		return a;
	case RESOLVE_NXDOMAIN:
		a.rcode = DNS_NXDOMAIN;
		a.soa = true;
		return a;
	case RESOLVE_TIMEOUT:
		a.ede = EDE_NO_REACHABLE_AUTHORITY;
		break;
	case RESOLVE_SERVFAIL:
	case RESOLVE_DENIED:
	case RESOLVE_QUOTA:
		a.ede = EDE_NETWORK_ERROR;
		break;
	}
	a.rcode = DNS_SERVFAIL;
	return a;
}

/* What is answered without a lookup. */
static void answer_judged(struct dns_service *s, struct dns_asker *asker, const struct dns_query *q,
			  const struct dns_judged *j)
{
	switch (j->what) {
	case JUDGE_RESOLVE:
		break;
	case JUDGE_REFUSE:
		refuse_by_policy(s, asker, q, j->decision);
		break;
	case JUDGE_ARTEFACT:
		refuse_name(s, asker, q, CAUSE_ARTEFACT, j->decision);
		break;
	case JUDGE_NO_HOST:
		refuse_name(s, asker, q, CAUSE_NO_HOST, j->decision);
		break;
	case JUDGE_NO_POINTER:
		refuse_name(s, asker, q, CAUSE_NO_POINTER, j->decision);
		break;
	case JUDGE_ROOT:
	case JUDGE_GATEWAY:
	case JUDGE_POINTER:
		answer_here(s, asker, q, j);
		break;
	}
}

/* Judged once more: the policy may be another than when the question came. */
static void answer_question(struct lookup *l, struct question *q)
{
	struct dns_service *s = l->service;
	struct dns_judged j = dns_judge(s->w, &q->query);
	struct dns_answer a = upstream_answer(l, &q->query);
	struct dns_event e = { .decision = j.decision, .resolved = &l->resolved,
			       .ms = clock_ms() - q->since };

	if (j.what != JUDGE_RESOLVE) {
		answer_judged(s, q->asker, &q->query, &j);
	} else if (l->resolved.status == RESOLVE_DENIED) {
		fail_question(s, q->asker, &q->query, CAUSE_DIALER, j.decision);
	} else if (l->resolved.status == RESOLVE_QUOTA) {
		fail_question(s, q->asker, &q->query, CAUSE_TOO_MANY, j.decision);
	} else if (a.addr.family && !l->leased) {
		fail_question(s, q->asker, &q->query, CAUSE_NO_LEASE, j.decision);
	} else {
		e.synthetic = a.addr.family ? l->address : 0;
		reply_recorded(s, q->asker, &q->query, &a, &e);
	}
}

/* Answers all who wait, in the order in which they asked. */
static void lookup_finish(struct lookup *l)
{
	struct question *q, *next;

	lookup_unlink(l);
	for (q = l->first; q; q = next) {
		next = q->next;
		l->service->waiting--;
		answer_question(l, q);
		free(q);
	}
	free(l);
}

static void on_leased(void *arg, const struct msg_leased *m);

static bool lookup_lease(struct lookup *l)
{
	struct worker *w = l->service->w;

	l->policies = w->policies;
	l->ask = ask_lease(w, name_str(&l->name), on_leased, l);
	return l->ask != 0;
}

static bool wants_address(const struct lookup *l)
{
	for (const struct question *q = l->first; q; q = q->next)
		if (q->query.type == DNS_A &&
		    dns_judge(l->service->w, &q->query).what == JUDGE_RESOLVE)
			return true;
	return false;
}

static void on_leased(void *arg, const struct msg_leased *m)
{
	struct lookup *l = arg;

	/* The ports that were asked for are another policy's. */
	if (l->policies != l->service->w->policies && wants_address(l) && lookup_lease(l))
		return;
	l->leased = m->ok;
	l->address = m->address;
	lookup_finish(l);
}

static struct str keep(char *room, size_t max, struct str s)
{
	if (s.n > max)
		s.n = max;
	if (s.n)
		memcpy(room, s.p, s.n);
	return str_n(room, s.n);
}

static void on_resolved(void *arg, const struct msg_resolved *m)
{
	struct lookup *l = arg;
	struct worker *w = l->service->w;

	l->resolved = *m;
	l->resolved.server = keep(l->server, sizeof(l->server), m->server);
	l->resolved.addrs = keep(l->addrs, sizeof(l->addrs), m->addrs);
	l->resolved.why = keep(l->why, sizeof(l->why), m->why);
	if (exists(m) && wants_address(l)) {
		l->leased = lease_find(w->leases, name_str(&l->name), &l->address);
		if (!l->leased && lookup_lease(l))
			return;
	}
	lookup_finish(l);
}

/* The lookup of @name, begun if it is not under way; NULL when nobody can be asked. */
static struct lookup *lookup_join(struct dns_service *s, const struct name *name)
{
	struct lookup *l = lookup_find(s, name_str(name));

	if (l)
		return l;
	l = lookup_new(s, name);
	if (!l)
		return NULL;
	l->ask = ask_resolve(s->w, name_str(name), on_resolved, l);
	if (l->ask)
		return l;
	lookup_unlink(l);
	free(l);
	return NULL;
}

static void resolve(struct dns_service *s, struct dns_asker *asker, const struct dns_query *q,
		    struct decision decision)
{
	struct question *waiting;
	struct lookup *l;

	if (ring_refuses(s->w->ring)) {
		reply_failed(asker, q, "the audit log cannot be written");
		return;
	}
	waiting = s->waiting < QUESTIONS_MAX ? calloc(1, sizeof(*waiting)) : NULL;
	l = waiting ? lookup_join(s, &q->name) : NULL;
	if (!l) {
		free(waiting);
		fail_question(s, asker, q, CAUSE_TOO_MANY, decision);
		return;
	}
	waiting->asker = asker;
	waiting->query = *q;
	waiting->since = clock_ms();
	*l->last = waiting;
	l->last = &waiting->next;
	s->waiting++;
}

/* ---- the service ---- */

static void on_packet(void *arg, struct dns_asker *asker, struct str packet)
{
	struct dns_service *s = arg;
	struct dns_query q;
	struct dns_judged j;
	enum dns_rcode rcode;

	switch (dns_parse(packet, &q, &rcode)) {
	case DNS_IGNORE:
		dns_reply(asker, NULL, 0);
		return;
	case DNS_ANSWER_ERROR:
		refuse_query(s, asker, &q, rcode);
		return;
	case DNS_QUERY:
		break;
	}
	j = dns_judge(s->w, &q);
	if (j.what == JUDGE_RESOLVE)
		resolve(s, asker, &q, j.decision);
	else
		answer_judged(s, asker, &q, &j);
}

struct dns_service *dns_service_new(struct worker *w, int udp, int tcp)
{
	struct dns_service *s = calloc(1, sizeof(*s));

	if (!s) {
		close(udp);
		close(tcp);
		return NULL;
	}
	s->w = w;
	s->tally = tally_new(w->base, &w->policy, tell_repeats, s);
	s->listen = dns_listen_new(w->base, udp, tcp, w->ifindex, on_packet, s);
	if (!s->tally || !s->listen) {
		dns_service_free(s);
		return NULL;
	}
	return s;
}

static void lookup_abandon(struct lookup *l)
{
	struct question *q, *next;

	ask_cancel(l->service->w, l->ask);
	lookup_unlink(l);
	for (q = l->first; q; q = next) {
		next = q->next;
		dns_reply(q->asker, NULL, 0);
		free(q);
	}
	free(l);
}

void dns_service_free(struct dns_service *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < LOOKUP_BUCKETS; i++)
		while (s->lookups[i])
			lookup_abandon(s->lookups[i]);
	if (s->tally)
		tally_flush(s->tally);
	tally_free(s->tally);
	dns_listen_free(s->listen);
	free(s);
}
