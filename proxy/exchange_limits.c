/* Theory of operation
 *
 * All allow rules that match a request limit it, whichever of them decides. How often and how many
 * at once is asked before anybody is dialled; how much and how long holds while it lasts. Where the
 * answer has not begun the box is told in words, and else by a break.
 */
#include <stdio.h>

#include "proxy/clock.h"
#include "proxy/exchange_state.h"

static void least(uint64_t *kept, uint64_t limit)
{
	if (limit && (!*kept || limit < *kept))
		*kept = limit;
}

static void least_s(uint32_t *kept, uint32_t limit)
{
	if (limit && (!*kept || limit < *kept))
		*kept = limit;
}

static void gather(struct exchange *x, const struct rule_ref *rules, size_t n)
{
	x->limits = (struct rule_limits){ 0 };
	for (size_t i = 0; i < n; i++) {
		struct rule_limits l = policy_rule(x->policy, rules[i]).limits;

		least(&x->limits.upload, l.upload);
		least(&x->limits.download, l.download);
		least_s(&x->limits.idle_s, l.idle_s);
		least_s(&x->limits.total_s, l.total_s);
	}
}

static void refuse_count(struct exchange *x, const struct limit_no *no)
{
	char why[EXCHANGE_WHY_MAX];

	if (no->requests)
		snprintf(why, sizeof(why), "%u requests in %u s, by %.*s", no->requests, no->per_s,
			 STR_ARG(no->rule));
	else if (no->concurrent)
		snprintf(why, sizeof(why), "%u at once, by %.*s", no->concurrent, STR_ARG(no->rule));
	else
		snprintf(why, sizeof(why), "too many limits are counted, by %.*s", STR_ARG(no->rule));
	exchange_refuse(x, REFUSAL_limit_reached, str_of(why));
	x->refusal.retry_s = no->wait_s;
}

static bool fits(struct exchange *x, uint64_t bytes, uint64_t limit, enum refusal_reason reason)
{
	char why[64];

	if (!limit || bytes <= limit)
		return true;
	snprintf(why, sizeof(why), "over %llu bytes", (unsigned long long)limit);
	exchange_refuse(x, reason, str_of(why));
	return false;
}

bool exchange_take_limits(struct exchange *x)
{
	struct rule_ref rules[POLICY_LIMITS_MAX];
	struct facts f = exchange_facts(x);
	size_t n = policy_limits(x->policy, &f, rules, POLICY_LIMITS_MAX);
	struct limit_no no;

	if (n > POLICY_LIMITS_MAX)
		n = POLICY_LIMITS_MAX;
	gather(x, rules, n);
	if (n && !limits_take(x->env->w->limits, x->policy, rules, n, clock_ms(), &x->holds, &no)) {
		refuse_count(x, &no);
		return false;
	}
	return x->request.body != BODY_LENGTH ||
	       fits(x, x->request.length, x->limits.upload, REFUSAL_upload_too_large);
}

bool exchange_upload_fits(struct exchange *x)
{
	return fits(x, x->bytes_up, x->limits.upload, REFUSAL_upload_too_large);
}

bool exchange_download_fits(struct exchange *x, uint64_t bytes)
{
	return fits(x, bytes, x->limits.download, REFUSAL_download_too_large);
}

uint64_t exchange_last_moment(const struct exchange *x)
{
	return x->limits.total_s ? x->began + (uint64_t)x->limits.total_s * 1000 : UINT64_MAX;
}
