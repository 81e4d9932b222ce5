#include "proxy/audit.h"

#include <stdio.h>

#include "proxy/worker.h"

#define REASON_MAX 512
#define FILE_SHOWN_MAX 496	/* with ":4294967295" within the field's 512 bytes */

void audit_rule(struct record *r, const struct rule_info *rule)
{
	char at[FILE_SHOWN_MAX + 1 + STR_DECIMAL_MAX], digits[STR_DECIMAL_MAX];
	struct str file = rule->file, line;

	record_str(r, REC_rule, rule->id);
	if (rule->line == 0)
		return;
	/* Of a path too long the end is kept: the file's name, and the line behind it. */
	if (file.n > FILE_SHOWN_MAX)
		file = str_from(file, file.n - FILE_SHOWN_MAX);
	line = str_decimal(rule->line, digits);
	memcpy(at, file.p, file.n);
	at[file.n] = ':';
	memcpy(at + file.n + 1, line.p, line.n);
	record_str(r, REC_rule_at, str_n(at, file.n + 1 + line.n));
}

void audit_decision(struct record *r, const struct policy *p, struct decision d)
{
	struct rule_info rule = policy_rule(p, d.rule);

	record_str(r, REC_verdict, d.verdict == VERDICT_DENY ? STR("deny") : STR("allow"));
	audit_rule(r, &rule);
	record_str(r, REC_reason, rule.reason);
}

void audit_outlawed(struct record *r, const struct policy *p, struct decision d)
{
	struct rule_info rule = policy_rule(p, d.rule);
	char why[REASON_MAX];

	snprintf(why, sizeof(why), "%s%s%.*s", AUDIT_OUTLAWED, rule.reason.n ? ": " : "",
		 STR_ARG(rule.reason));
	record_str(r, REC_verdict, STR("deny"));
	audit_rule(r, &rule);
	record_str(r, REC_reason, str_of(why));
}

static void put_policy(struct record *r, const struct policy *p)
{
	if (p)
		record_str(r, REC_policy, policy_digest(p));
}

enum err audit_commit(struct worker *w, const struct policy *p, struct record *r)
{
	put_policy(r, p);
	return record_commit(r, w->ring);
}

enum err audit_commit_end(struct worker *w, const struct policy *p, struct record *r, bool begun)
{
	put_policy(r, p);
	return begun ? record_commit_end(r, w->ring) : record_commit(r, w->ring);
}
