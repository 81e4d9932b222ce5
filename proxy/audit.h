/* proxy/audit.h - who decided, put into a record the same way everywhere
 *
 * Ownership   the record is the caller's; texts are copied into it.
 * Blocking    never.
 * Failure     audit_rule() and audit_decision() are sticky in the record; audit_commit() says what
 *             record_commit() says, and ERR_FULL or ERR_DENIED mean: what is not on record does
 *             not happen.
 * Tests       tests/unit/proxy/test_audit.c
 */
#ifndef PROXY_AUDIT_H
#define PROXY_AUDIT_H

#include "policy/policy.h"
#include "proxy/record.h"

#define AUDIT_OUTLAWED "a new policy denies it"

struct worker;

/* Fields rule and rule_at (file:line; not there for the default, which stands in no file). */
void audit_rule(struct record *r, const struct rule_info *rule);
/* Fields verdict, rule, rule_at and reason. Undecided is "allow": the step went on, and the first
 * rule that may still allow stands for it. */
void audit_decision(struct record *r, const struct policy *p, struct decision d);
/* The same of what was allowed until a new policy, @p, denied it. */
void audit_outlawed(struct record *r, const struct policy *p, struct decision d);
/* Names the policy that the record is by, and commits it. */
must_use enum err audit_commit(struct worker *w, const struct policy *p, struct record *r);
/* @begun: its begin is on record, so its end is to be, too, even while the log cannot be written.
 */
must_use enum err audit_commit_end(struct worker *w, const struct policy *p, struct record *r,
				   bool begun);

#endif
