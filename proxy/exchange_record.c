#include <stdio.h>

#include "proxy/audit.h"
#include "proxy/clock.h"
#include "proxy/exchange_state.h"
#include "proxy/repeats.h"

/* Why it was refused, as the box was told: "connection-refused: 203.0.113.9: connection refused". */
static void put_refusal(struct record *r, const struct exchange *x)
{
	char text[EXCHANGE_WHY_MAX + 64];

	record_str(r, REC_refusal, str_of(x->refusal.id));
	record_str(r, REC_proxy_error, str_of(refusal_error(x->refusal.reason)));
	if (x->refusal.reason == REFUSAL_policy)
		return;
	snprintf(text, sizeof(text), "%s%s%s", refusal_name(x->refusal.reason), x->why[0] ? ": " : "", x->why);
	record_str(r, REC_reason, str_of(text));
}

static void put_verdict(struct record *r, const struct exchange *x)
{
	struct decision d = x->decision;

	if (x->refused && !refusal_is_trouble(x->refusal.reason))
		d.verdict = VERDICT_DENY;
	if (!x->decided) {
		record_str(r, REC_verdict, STR("deny"));
	} else if (x->refused && x->refusal.reason != REFUSAL_policy) {
		record_str(r, REC_verdict, d.verdict == VERDICT_DENY ? STR("deny") : STR("allow"));
		record_str(r, REC_rule, x->rule.id);
	} else if (x->outlawed) {
		audit_outlawed(r, x->policy, d);
	} else {
		audit_decision(r, x->policy, d);
	}
	if (x->refused)
		put_refusal(r, x);
}

static void put_request(struct record *r, const struct exchange *x)
{
	const struct site *site = &x->env->site;

	record_u64(r, REC_connection, x->env->connection);
	record_u64(r, REC_exchange, x->id);
	put_verdict(r, x);
	record_str(r, REC_method, buf_str(&x->method));
	record_str(r, REC_scheme, str_of(proto_name(site->proto)));
	record_str(r, REC_host, exchange_host(x));
	record_str(r, REC_path, buf_str(&x->path));
	record_u64(r, REC_port, site->port);
	if (x->scrub || x->edits.n)
		record_str(r, REC_credential, str_of(x->credential));
}

static void put_origin(struct record *r, const struct exchange *x)
{
	char text[ADDR_TEXT_MAX];

	if (!x->leg.up)
		return;
	if (x->leg.up->addr.family)
		record_str(r, REC_address, str_of(addr_format(&x->leg.up->addr, text)));
	record_str(r, REC_upstream_cert, str_of(x->leg.up->cert));
	if (x->leg.up->failed)
		record_str(r, REC_attempts, str_of(x->leg.up->attempts));
	record_u64(r, REC_ms_resolve, x->leg.up->ms_resolve);
	record_u64(r, REC_ms_connect, x->leg.up->ms_connect);
	record_u64(r, REC_ms_tls, x->leg.up->ms_tls);
}

enum err exchange_record_begin(struct exchange *x)
{
	struct record r;

	record_begin(&r, RECORD_request);
	record_str(&r, REC_phase, STR("begin"));
	put_request(&r, x);
	put_origin(&r, x);
	return audit_commit(x->env->w, x->policy, &r);
}

enum err exchange_record_end(struct exchange *x)
{
	struct record r;
	uint64_t now = clock_ms();

	record_begin(&r, RECORD_request);
	record_str(&r, REC_phase, STR("end"));
	put_request(&r, x);
	put_origin(&r, x);
	if (x->status)
		record_u64(&r, REC_status, x->status);
	record_u64(&r, REC_bytes_up, x->bytes_up);
	record_u64(&r, REC_bytes_down, x->bytes_down);
	if (x->scrub)
		record_u64(&r, REC_scrubbed, scrub_count(x->scrub) - x->scrubbed_before);
	record_u64(&r, REC_ms, now - x->began);
	if (x->first_byte)
		record_u64(&r, REC_ms_first_byte, x->first_byte - x->sent_at);
	record_str(&r, REC_ended, str_of(x->ended));
	return audit_commit_end(x->env->w, x->policy, &r, x->begun_recorded);
}

/* What the box brought itself: names, never values. */
enum err exchange_record_foreign(struct exchange *x)
{
	struct record r;
	char names[64] = "";
	size_t n = 0;

	for (size_t i = 0; i < x->foreign.n && i < FOREIGN_TOLD_MAX && n < sizeof(names); i++)
		n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s", i ? " " : "", x->foreign.names[i]);
	record_begin(&r, RECORD_credential);
	record_u64(&r, REC_connection, x->env->connection);
	record_u64(&r, REC_exchange, x->id);
	record_str(&r, REC_event, x->refused ? STR("refused") : STR("stripped"));
	record_str(&r, REC_field, str_of(names));
	record_str(&r, REC_host, exchange_host(x));
	record_str(&r, REC_rule, x->rule.id);
	return audit_commit(x->env->w, x->policy, &r);
}

static enum err write_refusal(struct exchange *x)
{
	enum err e = OK;

	if (x->refusal.reason == REFUSAL_foreign_credential && !x->foreign_told) {
		e = exchange_record_foreign(x);
		x->foreign_told = e == OK;
	}
	return e ? e : exchange_record_end(x);
}

enum err exchange_record_refusal(struct exchange *x)
{
	const struct site *site = &x->env->site;
	struct repeat what = { .kind = RECORD_request,
			       .reason = x->refusal.reason,
			       .decision = x->decision,
			       .proto = site->proto,
			       .port = site->port,
			       .host = exchange_host(x),
			       .method = buf_str(&x->method),
			       .path = buf_str(&x->path),
			       .why = str_of(x->why) };
	enum err e;

	/* What was allowed so far, or has begun, is told to its end. */
	if (refusal_is_trouble(x->refusal.reason) || x->begun_recorded)
		return write_refusal(x);
	if (!repeats_first(x->env->w->repeats, &what, x->refusal.id))
		return OK;
	e = write_refusal(x);
	if (e)
		repeats_drop(x->env->w->repeats, &what);
	return e;
}
