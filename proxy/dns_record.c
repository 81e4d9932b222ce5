#include "proxy/dns_record.h"

#include "proxy/worker.h"

#define ANSWERS_TEXT_MAX 512

static void put_answers(struct record *r, struct str packed)
{
	struct buf text;

	buf_init(&text, ANSWERS_TEXT_MAX);
	for (size_t i = 0; i + ADDR_PACKED <= packed.n; i += ADDR_PACKED) {
		char shown[ADDR_TEXT_MAX];
		struct addr a = { 0 };

		(void)addr_unpack(str_n(packed.p + i, ADDR_PACKED), &a);
		buf_printf(&text, "%s%s", i ? " " : "", addr_format(&a, shown));
	}
	record_str(r, REC_answers, buf_str(&text));
	buf_free(&text);
}

/* The addresses are what the name was vetted by, whatever was asked for. To a question for anything
 * but A the box is told that there is nothing, and so says the record. */
static void put_upstream(struct record *r, const struct dns_event *e, const struct msg_resolved *m)
{
	record_str(r, REC_upstream, m->server);
	record_bool(r, REC_cached, m->cached);
	if (m->status == RESOLVE_PROHIBITED) {
		record_str(r, REC_answers, m->why);
		record_str(r, REC_proxy_error, STR("destination_ip_prohibited"));
	} else if (e->type == DNS_A) {
		put_answers(r, m->addrs);
	}
}

enum err dns_record(struct worker *w, const struct dns_event *e)
{
	struct record r;
	char type[16], text[ADDR_TEXT_MAX];
	struct addr synthetic = addr_v4(e->synthetic);
	const struct policy *p = e->policy ? e->policy : w->policy;

	record_begin(&r, RECORD_dns);
	if (e->denied_because) {
		record_str(&r, REC_verdict, STR("deny"));
		record_str(&r, REC_reason, str_of(e->denied_because));
	} else if (e->decision.verdict != VERDICT_DENY && e->decision.rule.rule == RULE_DEFAULT) {
		record_str(&r, REC_verdict, STR("allow"));	/* our own name, by no rule */
	} else {
		audit_decision(&r, p, e->decision);
	}
	record_str(&r, REC_refusal, e->refusal);
	record_str(&r, REC_name, e->name);
	record_str(&r, REC_type, str_of(dns_type_name(e->type, type)));
	record_str(&r, REC_rcode, str_of(dns_rcode_name(e->rcode)));
	if (e->resolved)
		put_upstream(&r, e, e->resolved);
	if (e->synthetic)
		record_str(&r, REC_synthetic, str_of(addr_format(&synthetic, text)));
	if (e->count)
		record_u64(&r, REC_count, e->count);
	else
		record_u64(&r, REC_ms, e->ms);
	return audit_commit(w, p, &r);
}

enum err dns_record_suppressed(struct worker *w, uint64_t n)
{
	struct record r;

	record_begin(&r, RECORD_dns);
	record_str(&r, REC_verdict, STR("deny"));
	record_u64(&r, REC_suppressed, n);
	return audit_commit(w, w->policy, &r);
}
