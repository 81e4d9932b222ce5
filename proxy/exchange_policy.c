/* Theory of operation
 *
 * A new policy judges a request again. One of which nothing has gone out begins again at CHECK,
 * with the connection to the origin that it may have by now. One that has gone out is asked about
 * with all that is known of it: what is still allowed goes on, untouched and under its old policy,
 * whose digest its end record bears; what is not is refused by the new one. That is an answer in
 * words where the origin's has not begun, and else a break that no client takes for the answer's
 * end.
 *
 * The log knows the policy in force and the one before it: who outlives two goes on under the new
 * one.
 *
 * A path is known to the new policy only in the one reading of it (path.h), which the old one may
 * not have asked for. Where there is none, what depends on it is denied.
 */
#include <stdio.h>

#include "policy/path.h"
#include "proxy/audit.h"
#include "proxy/exchange_state.h"

static void adopt(struct exchange *x)
{
	policy_free(x->policy);
	x->policy = policy_hold(x->env->w->policy);
	x->policies = x->env->w->policies;
}

static void begin_again(struct exchange *x)
{
	adopt(x);
	exchange_forget_grant(x);
	limits_undo(&x->holds);
	x->path.n = x->query.n = 0;
	x->decided = x->foreign_looked = false;
	x->step = STEP_CHECK;
}

/* The path as the new policy reads it; none where it could be read in more than one way. */
static struct str read_path(struct exchange *x, struct buf *out)
{
	struct str path = buf_str(&x->path);
	const char *why;

	buf_init(out, HTTP1_LINE_MAX);
	if (str_eq(path, STR("*")))
		return path;
	return path_normalise(path, out, &why) == PATH_OK && !out->failed ? buf_str(out) : STR_NONE;
}

static struct decision decide_again(struct exchange *x)
{
	struct facts f = exchange_facts(x);
	struct decision d;
	struct buf path;

	f.path = read_path(x, &path);
	if (x->leg.up)
		f.addr = x->leg.up->addr;
	d = policy_decide(x->env->w->policy, &f);
	buf_wipe(&path);
	if (d.verdict == VERDICT_UNDECIDED)
		d = (struct decision){ VERDICT_DENY, { 0, RULE_DEFAULT } };
	return d;
}

static void adopt_decision(struct exchange *x, struct decision d)
{
	adopt(x);
	x->decision = d;
	x->rule = policy_rule(x->policy, d.rule);
}

static void outlaw(struct exchange *x, struct decision d)
{
	char why[EXCHANGE_WHY_MAX];

	adopt_decision(x, d);
	x->outlawed = true;
	snprintf(why, sizeof(why), "%s%s%.*s", AUDIT_OUTLAWED, x->rule.reason.n ? ": " : "",
		 STR_ARG(x->rule.reason));
	exchange_refuse(x, REFUSAL_policy, str_of(why));
	snprintf(x->ended, sizeof(x->ended), "%s", AUDIT_OUTLAWED);
}

void exchange_new_policy(struct exchange *x)
{
	struct decision d;

	if (x->over || x->refused || x->abandoned)
		return;
	if (x->step < STEP_SEND) {
		begin_again(x);
		return;
	}
	d = decide_again(x);
	if (d.verdict != VERDICT_ALLOW)
		outlaw(x, d);
	else if (x->env->w->policies - x->policies > 1)
		adopt_decision(x, d);
}
