/* Theory of operation
 *
 * What is not opened is judged by what is seen from outside: where the box went, and for TLS the
 * server name of its hello. There are two kinds. By a rule with "protocol: tcp" the destination
 * says so, before any byte: a server may speak first. By a rule with "tls: passthrough" the hello
 * is read as any other, and goes on to the origin byte for byte.
 *
 * Either way: DIAL, where the dialer is asked for a connection (it resolves, vets and asks the
 * policy itself); then the policy is asked again with the address, and what it has not decided by
 * then is denied, since no fact will follow; the connection's open record is in the ring (on the
 * disk, where that is wanted); then TUNNEL, and the first byte goes out. A new policy asks the same
 * question again, also whether the rule still is one that does not open.
 *
 * Past the first byte there are no words left: what is ended by us is ended by a reset on both
 * sides.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "proxy/audit.h"
#include "proxy/clock.h"
#include "proxy/connection.h"
#include "proxy/connections.h"
#include "proxy/limits.h"
#include "proxy/tunnel.h"

struct passage {
	ask_id dial;
	bool answered;
	int fd;				/* until the tunnel has it */
	uint64_t ticket;
	enum refusal_reason trouble;	/* where @fd is none */
	char why[UPSTREAM_WHY_MAX];
	uint64_t open_end;		/* where the open record ends in the ring */
	struct rule_limits limits;
	struct tunnel *tunnel;
	uint32_t ms_resolve, ms_connect;
};

/* ---- the policy ---- */

static struct facts facts_of(const struct connection *c)
{
	struct facts f = connection_facts(c);

	if (c->dialled.family)
		f.addr = c->dialled;
	return f;
}

/* A rule that does not open what it allows? */
static bool stays_closed(const struct connection *c, struct decision d)
{
	return c->env.site.proto == PROTO_TCP || policy_rule(c->policy, d.rule).passthrough;
}

/* With the address known nothing else will be. */
static struct decision decide_last(const struct connection *c)
{
	struct facts f = facts_of(c);
	struct decision d = policy_decide(c->policy, &f);

	if (d.verdict == VERDICT_UNDECIDED)
		return (struct decision){ VERDICT_DENY, { 0, RULE_DEFAULT } };
	if (d.verdict == VERDICT_ALLOW && !stays_closed(c, d))
		d.verdict = VERDICT_DENY;
	return d;
}

bool connection_is_raw(const struct connection *c)
{
	struct facts f = connection_facts(c);

	f.proto = PROTO_UNKNOWN;
	return !c->refusal_address && policy_allows_raw(c->policy, &f);
}

void connection_judge_raw(struct connection *c)
{
	struct facts f;

	c->env.site.proto = PROTO_TCP;
	f = connection_facts(c);
	c->decision = policy_decide(c->policy, &f);
	c->decided = true;
	if (c->decision.verdict == VERDICT_DENY)
		connection_refuse(c, REFUSAL_policy, "");
	else
		connection_step(c, CE_UNOPENED);
}

bool connection_passes_through(const struct connection *c)
{
	return c->decision.verdict != VERDICT_DENY && stays_closed(c, c->decision);
}

/* ---- limits ---- */

/* Other tunnels, there or on the way, that the rule allows. No count of them is kept: it would have
 * to be right across every end and every new policy. */
static uint32_t others_of(const struct connection *c, struct rule_ref rule)
{
	uint32_t n = 0;

	for (const struct connection *o = connections_first(c->all); o; o = o->next) {
		struct facts f = facts_of(o);

		if (o != c && (o->state == CS_DIAL || o->state == CS_TUNNEL) &&
		    policy_ask_rule(c->policy, rule, &f).all == ANSWER_YES)
			n++;
	}
	return n;
}

/* What all rules that allow it leave. False: no more, for the reason in @why. That and all else
 * that a rule asks of a tunnel is known before its address is. */
static bool gather_limits(struct connection *c, char *why, size_t size)
{
	struct facts f = facts_of(c);
	struct limit_rules rules;

	if (!limits_find(c->policy, &f, &rules)) {
		snprintf(why, size, "more limits than can be held to");
		return false;
	}
	c->passage->limits = rules.least;
	for (size_t i = 0; i < rules.n; i++) {
		struct rule_info rule = policy_rule(c->policy, rules.v[i]);
		uint32_t most = rule.limits.concurrent;

		if (!most || others_of(c, rules.v[i]) < most)
			continue;
		snprintf(why, size, "%u at once, by %.*s", most, STR_ARG(rule.id));
		return false;
	}
	return true;
}

static struct tunnel_limits byte_limits(const struct passage *p)
{
	return (struct tunnel_limits){ .up = p->limits.upload, .down = p->limits.download };
}

/* ---- dialling ---- */

static void on_dialed(void *arg, const struct msg_dialed *a, int fd)
{
	struct connection *c = arg;
	struct passage *p = c->passage;

	p->dial = 0;
	p->answered = true;
	p->fd = fd;
	p->ticket = a->ticket;
	p->ms_resolve = a->resolve_ms;
	p->ms_connect = a->connect_ms;
	(void)addr_unpack(a->addr, &c->dialled);
	p->trouble = upstream_dial_reason(a);
	snprintf(p->why, sizeof(p->why), "%.*s%s%.*s", STR_ARG(c->env.site.name),
		 a->attempts.n ? ": " : "",
		 (int)(a->attempts.n < UPSTREAM_WHY_MAX ? a->attempts.n : UPSTREAM_WHY_MAX),
		 a->attempts.n ? a->attempts.p : "");
	connection_pump(c);
}

/* The origin has nothing to do with it any more. */
static void let_go(struct connection *c)
{
	struct passage *p = c->passage;

	if (p->dial)
		ask_cancel(c->w, p->dial);
	if (p->fd >= 0)
		close(p->fd);
	if (p->ticket)
		hang_up(c->w, p->ticket);
	p->dial = 0;
	p->fd = -1;
	p->ticket = 0;
}

static void refuse(struct connection *c, enum refusal_reason reason, const char *why)
{
	let_go(c);
	connection_refuse(c, reason, why);
}

void connection_dial(struct connection *c)
{
	struct passage *p = calloc(1, sizeof(*p));
	char why[sizeof(c->ended)];

	if (!p) {
		connection_close(c, "out of memory");
		return;
	}
	p->fd = -1;
	p->trouble = REFUSAL_internal;
	c->passage = p;
	if (c->env.site.proto == PROTO_HTTPS)
		snprintf(c->tls, sizeof(c->tls), "passthrough");
	if (!gather_limits(c, why, sizeof(why))) {
		refuse(c, REFUSAL_limit_reached, why);
		return;
	}
	/* What the box says meanwhile waits in its socket. */
	stream_want(c->stream, false);
	p->dial = ask_dial(c->w, c->env.site.name, c->env.site.literal, c->env.site.port, on_dialed,
			   c);
	p->answered = !p->dial;
}

/* Is the open record there, and where that is wanted, on the disk? False: not yet, or refused. */
static bool is_on_record(struct connection *c)
{
	struct worker *w = c->w;

	if (!connection_record_open(c)) {
		c->waits_for_room = true;
		return false;
	}
	if (c->open_recorded && !c->passage->open_end)
		c->passage->open_end = ring_written(w->ring);
	if (!c->open_recorded || (w->synced && ring_refuses(w->ring))) {
		refuse(c, REFUSAL_log_unavailable, "");
		return false;
	}
	c->waits_for_room = w->synced && !ring_synced(w->ring, c->passage->open_end);
	return !c->waits_for_room;
}

/* With all that can be known. False: refused. */
static bool confirm(struct connection *c)
{
	c->decision = decide_last(c);
	if (c->decision.verdict != VERDICT_DENY)
		return true;
	refuse(c, REFUSAL_policy, "");
	return false;
}

void connection_look_dial(struct connection *c)
{
	struct passage *p = c->passage;

	if (stream_failed(c->stream))
		connection_close(c, "reset by the client");
	else if (!p->answered)
		return;
	else if (p->fd < 0)
		refuse(c, p->trouble, p->why);
	else if ((c->open_recorded || confirm(c)) && is_on_record(c))
		connection_step(c, CE_DIALLED);
}

/* ---- the tunnel ---- */

static void wake(void *arg)
{
	connection_pump(arg);
}

void connection_open_tunnel(struct connection *c)
{
	struct passage *p = c->passage;
	struct tunnel_limits limits = byte_limits(p);
	struct buf said;
	struct tunnel_ends ends = { .origin = p->fd };

	ends.box = stream_detach(c->stream, &said);
	ends.said = buf_str(&said);
	c->stream = NULL;
	p->fd = -1;
	p->tunnel = tunnel_new(c->w->base, &ends, &limits, wake, c);
	buf_wipe(&said);
	if (!p->tunnel)
		connection_close(c, "out of memory");
}

/* Ends what runs by a reset on both sides. */
static void cut(struct connection *c, enum refusal_reason reason, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void cut(struct connection *c, enum refusal_reason reason, const char *format, ...)
{
	char why[sizeof(c->ended) - 32];
	va_list args;

	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	c->refused = true;
	c->refusal.reason = reason;
	refusal_id(&c->refusal);
	snprintf(c->ended, sizeof(c->ended), "%s: %s", refusal_name(reason), why);
	connection_step(c, CE_FAIL);
}

static void end_broken(struct connection *c)
{
	const struct tunnel *t = c->passage->tunnel;
	char how[sizeof(c->ended)];

	snprintf(how, sizeof(how), "reset by the %s: %s",
		 tunnel_breaker(t) == TUNNEL_BOX ? "client" : "origin", strerror(tunnel_error(t)));
	connection_close(c, how);
}

void connection_look_tunnel(struct connection *c)
{
	const struct rule_limits *l = &c->passage->limits;

	switch (tunnel_state(c->passage->tunnel)) {
	case TUNNEL_RUNS:
		return;
	case TUNNEL_OVER:
		snprintf(c->ended, sizeof(c->ended), "ended by both sides");
		connection_step(c, CE_GONE);
		return;
	case TUNNEL_BROKEN:
		end_broken(c);
		return;
	case TUNNEL_UPLOADED:
		cut(c, REFUSAL_limit_reached, "upload of %llu bytes", (unsigned long long)l->upload);
		return;
	case TUNNEL_DOWNLOADED:
		cut(c, REFUSAL_limit_reached, "download of %llu bytes",
		    (unsigned long long)l->download);
		return;
	case TUNNEL_NO_MEMORY:
		connection_close(c, "out of memory");
		return;
	}
}

/* ---- time ---- */

static uint64_t idle_ms(const struct connection *c)
{
	uint32_t s = c->passage->limits.idle_s;

	return s ? (uint64_t)s * 1000 : c->w->idle_ms;
}

uint64_t connection_tunnel_deadline(const struct connection *c)
{
	const struct passage *p = c->passage;
	uint64_t quiet = tunnel_moved(p->tunnel) + idle_ms(c),
		 whole = c->since + (uint64_t)p->limits.total_s * 1000;

	return p->limits.total_s && whole < quiet ? whole : quiet;
}

void connection_tunnel_timeout(struct connection *c)
{
	const struct passage *p = c->passage;

	if (p->limits.total_s && clock_ms() >= c->since + (uint64_t)p->limits.total_s * 1000)
		cut(c, REFUSAL_limit_reached, "%u seconds in all", p->limits.total_s);
	else if (p->limits.idle_s)
		cut(c, REFUSAL_limit_reached, "%u seconds without a byte", p->limits.idle_s);
	else
		connection_close(c, "idle");
}

/* ---- a new policy ---- */

void connection_tunnel_new_policy(struct connection *c)
{
	struct passage *p = c->passage;
	struct facts f = facts_of(c);
	struct tunnel_limits limits;
	char why[sizeof(c->ended)];

	if (p->answered)
		c->decision = decide_last(c);
	else
		c->decision = policy_decide(c->policy, &f);
	c->outlawed = c->decision.verdict == VERDICT_DENY || !stays_closed(c, c->decision);
	if (c->outlawed && c->state == CS_DIAL)
		refuse(c, REFUSAL_policy, AUDIT_OUTLAWED);
	else if (c->outlawed)
		cut(c, REFUSAL_policy, AUDIT_OUTLAWED);
	if (c->outlawed)
		return;
	/* Who is in is not put out by who else is in. */
	(void)gather_limits(c, why, sizeof(why));
	limits = byte_limits(p);
	if (p->tunnel)
		tunnel_limit(p->tunnel, &limits);
}

/* ---- the end ---- */

void connection_end_passage(struct connection *c)
{
	struct passage *p = c->passage;

	if (!p)
		return;
	let_go(c);
	if (!p->tunnel)
		return;
	c->bytes_up = tunnel_bytes_to(p->tunnel, TUNNEL_ORIGIN);
	c->bytes_down = tunnel_bytes_to(p->tunnel, TUNNEL_BOX);
	tunnel_free(p->tunnel);
	p->tunnel = NULL;
}

void connection_record_passage(const struct connection *c, struct record *r)
{
	const struct passage *p = c->passage;

	if (!p || !p->answered)
		return;
	record_u64(r, REC_ms_resolve, p->ms_resolve);
	record_u64(r, REC_ms_connect, p->ms_connect);
}
