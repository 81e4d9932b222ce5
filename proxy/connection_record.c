#include "proxy/audit.h"
#include "proxy/clock.h"
#include "proxy/connection.h"
#include "proxy/refusal_list.h"
#include "proxy/repeats.h"

static void put_connection(struct record *r, const struct connection *c, const char *phase)
{
	char text[ADDR_TEXT_MAX];

	record_str(r, REC_phase, str_of(phase));
	record_u64(r, REC_connection, c->id);
	record_str(r, REC_via, str_of(explicit_via_name(c->via)));
	if (c->via == VIA_ABSOLUTE) {
		/* Where it goes, each request says for itself. */
		record_u64(r, REC_port, c->w->proxy_port);
		record_str(r, REC_protocol, str_of(proto_name(PROTO_HTTP)));
		return;
	}
	record_str(r, REC_destination, c->env.site.name);
	if (c->destination.family)
		record_str(r, c->env.site.literal ? REC_address : REC_synthetic,
			   str_of(addr_format(&c->destination, text)));
	record_u64(r, REC_port, c->env.site.port);
	record_str(r, REC_protocol, str_of(proto_name(c->env.site.proto)));
	record_str(r, REC_sni, str_n(c->hello.sni, c->hello.sni_n));
	record_str(r, REC_tls, str_of(c->tls));
}

static void put_origin(struct record *r, const struct connection *c)
{
	char text[ADDR_TEXT_MAX];

	if (c->dialled.family && !c->env.site.literal && c->via != VIA_ABSOLUTE)
		record_str(r, REC_address, str_of(addr_format(&c->dialled, text)));
	connection_record_passage(c, r);
}

/* Nothing can come of it but a refusal: told once, at its end, and repetitions are counted. */
static bool hopeless(const struct connection *c)
{
	bool no = c->refused && !refusal_is_trouble(c->refusal.reason);

	return !c->open_recorded && (no || c->refusal_address ||
				     (c->decided && c->decision.verdict == VERDICT_DENY));
}

/* A no that is no rule's, or trouble with what a rule allows, or a limit of it. */
static void put_refused(struct record *r, const struct connection *c)
{
	bool trouble = refusal_is_trouble(c->refusal.reason);
	struct rule_info rule = policy_rule(c->policy, c->decision.rule);

	record_str(r, REC_verdict, trouble ? STR("allow") : STR("deny"));
	if (trouble || c->refusal.reason == REFUSAL_limit_reached)
		audit_rule(r, &rule);
	record_str(r, REC_reason, str_of(c->ended));
	if (trouble)
		record_str(r, REC_proxy_error, str_of(refusal_error(c->refusal.reason)));
}

static void put_verdict(struct record *r, const struct connection *c)
{
	bool by_rule = !c->refused || c->refusal.reason == REFUSAL_policy;

	if (by_rule && c->outlawed) {
		audit_outlawed(r, c->policy, c->decision);
	} else if (by_rule && c->decided) {
		audit_decision(r, c->policy, c->decision);
	} else if (c->refused) {
		put_refused(r, c);
	} else if (c->refusal_address) {
		/* Of plain HTTP: which name was meant, each request says. */
		record_str(r, REC_verdict, STR("deny"));
		record_str(r, REC_reason, STR("the address of refused names"));
	}
	if (c->refused || hopeless(c))
		record_str(r, REC_refusal, str_of(c->refusal.id));
}

bool connection_record_open(struct connection *c)
{
	struct record r;
	enum err e;

	if (c->open_recorded || hopeless(c))
		return true;
	record_begin(&r, RECORD_connection);
	put_connection(&r, c, "open");
	put_verdict(&r, c);
	put_origin(&r, c);
	e = audit_commit(c->w, c->policy, &r);
	c->open_recorded = e == OK;
	return e != ERR_FULL;
}

static enum err write_close(struct connection *c)
{
	struct record r;

	record_begin(&r, RECORD_connection);
	put_connection(&r, c, "close");
	put_verdict(&r, c);
	put_origin(&r, c);
	if (c->via != VIA_ABSOLUTE)
		record_str(&r, REC_upstream_cert, str_of(c->cert));
	record_str(&r, REC_alpn, str_of(c->alpn));
	record_u64(&r, REC_bytes_up, c->bytes_up);
	record_u64(&r, REC_bytes_down, c->bytes_down);
	record_u64(&r, REC_ms_tls, c->ms_tls);
	record_u64(&r, REC_ms, clock_ms() - c->opened);
	record_str(&r, REC_ended, str_of(c->ended));
	return audit_commit_end(c->w, c->policy, &r, c->open_recorded);
}

/* For the box's own list: what was refused before there was HTTP to say it in. */
static void list_refusal(const struct connection *c)
{
	struct refusal_note note = { .step = c->env.site.proto == PROTO_HTTPS ? REFUSED_TLS
									      : REFUSED_CONNECT,
				     .id = c->refusal.id, .host = c->env.site.name,
				     .port = c->env.site.port, .reason = str_of(c->ended),
				     .retry = refusal_retry(c->refusal.reason) };

	if (!c->refused)
		return;
	if (c->refusal.reason == REFUSAL_policy && c->decided) {
		note.rule = policy_rule(c->policy, c->decision.rule).id;
		note.reason = policy_rule(c->policy, c->decision.rule).reason;
	}
	refusal_list_note(c->w->refusals, &note);
}

bool connection_record_close(struct connection *c)
{
	struct repeat what = { .kind = RECORD_connection, .decision = c->decision,
			       .reason = c->refused ? c->refusal.reason : REFUSAL_policy,
			       .proto = c->env.site.proto, .port = c->env.site.port,
			       .host = c->env.site.name,
			       .via = (uint8_t)c->via,
			       .path = str_n(c->hello.sni, c->hello.sni_n),
			       .why = str_of(c->refused ? c->ended : "") };
	bool counts = hopeless(c);
	enum err e;

	if (!c->refusal.id[0])
		refusal_id(&c->refusal);
	if (counts && !repeats_first(c->w->repeats, &what, c->refusal.id)) {
		c->close_recorded = true;
		list_refusal(c);
		return true;
	}
	e = write_close(c);
	if (e && counts)
		repeats_drop(c->w->repeats, &what);
	c->close_recorded = e != ERR_FULL;
	if (c->close_recorded)
		list_refusal(c);
	return c->close_recorded;
}
