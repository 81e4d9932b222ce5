/* Theory of operation
 *
 * All allow rules that match a request limit it, whichever of them decides. How often and how many
 * at once is asked before anybody is dialled; how much and how long holds while it lasts. Where the
 * answer has not begun the box is told in words, and else by a break.
 */
#include <stdio.h>

#include "proxy/clock.h"
#include "proxy/exchange_state.h"

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
	struct facts f = exchange_facts(x);
	struct limit_rules rules;
	struct limit_no no;

	if (!limits_find(x->policy, &f, &rules)) {
		exchange_refuse(x, REFUSAL_limit_reached, STR("more limits than can be held to"));
		return false;
	}
	x->limits = rules.least;
	if (rules.n && !limits_take(x->env->w->limits, x->policy, rules.v, rules.n, clock_ms(),
				    &x->holds, &no)) {
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
