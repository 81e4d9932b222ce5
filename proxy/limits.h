/* proxy/limits.h - how often and how much at once: what rules leave to one sandbox
 *
 * A rule's "requests: 60/min" is a bucket that holds sixty and gets one back each second; its
 * "concurrent" is a count of exchanges that live. Both are counted by the rule's id, so that a new
 * policy that has the rule still goes on counting where the old one was.
 *
 * Ownership   limits_new(), limits_free() when nothing is held any more. Holds are their owner's
 *             until limits_give_back().
 * Blocking    never.
 * Failure     what cannot be counted is not let through.
 * Limits      LIMITS_MAX rules are counted at a time; those that stand at nothing make room.
 * Tests       tests/unit/proxy/test_limits.c, tests/e2e/test_limits.py
 */
#ifndef PROXY_LIMITS_H
#define PROXY_LIMITS_H

#include "policy/policy.h"

#define LIMITS_MAX (2 * POLICY_LIMITED_MAX)

struct limits;
struct limit_count;

/* What one exchange keeps of the rules' "concurrent". */
struct limit_holds {
	size_t n;
	struct limit_count *v[POLICY_LIMITS_MAX];
};

/* Which rule says no. */
struct limit_no {
	struct str rule;		/* its id; of the policy */
	uint32_t requests, per_s;	/* where it is this; else 0 */
	uint32_t concurrent;		/* where it is that; else 0 */
	uint32_t wait_s;		/* until the next may pass; 0: it depends on the others */
};

/* All rules that limit one request or connection, and what they leave together. */
struct limit_rules {
	size_t n;
	struct rule_ref v[POLICY_LIMITS_MAX];
	struct rule_limits least;	/* of bytes and of seconds; the rest is each rule's own */
};

/* False: they are more than POLICY_LIMITS_MAX, which the loader lets nobody write. Some would not
 * be held to: it is not to pass. */
must_use bool limits_find(const struct policy *p, const struct facts *f, struct limit_rules *out);

struct limits *limits_new(void);
void limits_free(struct limits *l);
/* Counts one request against each of @rules. False: one of them says no, and nothing was counted.
 * @now: milliseconds (proxy/clock.h). */
must_use bool limits_take(struct limits *l, const struct policy *p, const struct rule_ref *rules,
			  size_t n, uint64_t now, struct limit_holds *holds, struct limit_no *no);
void limits_give_back(struct limit_holds *holds);
/* The same for a request that was never made: it does not count against "requests" either. */
void limits_undo(struct limit_holds *holds);

#endif
