#include "proxy/audit.h"

#include <stdio.h>

#define RULE_AT_MAX 512

static void put_place(struct record *r, const struct rule_info *rule)
{
	char at[RULE_AT_MAX];
	int n;

	if (rule->line == 0)
		return;
	n = snprintf(at, sizeof(at), "%.*s:%u", STR_ARG(rule->file), rule->line);
	if (n > 0)
		record_str(r, REC_rule_at, str_of(at));
}

void audit_decision(struct record *r, const struct policy *p, struct decision d)
{
	struct rule_info rule = policy_rule(p, d.rule);

	record_str(r, REC_verdict, d.verdict == VERDICT_DENY ? STR("deny") : STR("allow"));
	record_str(r, REC_rule, rule.id);
	put_place(r, &rule);
	record_str(r, REC_reason, rule.reason);
}

enum err audit_commit(struct worker *w, struct record *r)
{
	return record_commit(r, w->ring);
}

enum err audit_commit_end(struct worker *w, struct record *r, bool begun)
{
	return begun ? record_commit_end(r, w->ring) : record_commit(r, w->ring);
}
