#include "proxy/allowance.h"

#define PARTS 1000	/* of one: what comes in a millisecond is a whole number of them */

void allowance_init(struct allowance *a, uint32_t per_second, uint64_t now_ms)
{
	*a = (struct allowance){ .per_second = per_second, .left = (int64_t)per_second * PARTS,
				 .at_ms = now_ms };
}

static void fill(struct allowance *a, uint64_t now_ms)
{
	int64_t most = (int64_t)a->per_second * PARTS;
	uint64_t ms = now_ms > a->at_ms ? now_ms - a->at_ms : 0;

	a->at_ms = now_ms > a->at_ms ? now_ms : a->at_ms;
	/* No debt is so large that it were not made up for after all that time. */
	if (ms >= (uint64_t)(most - a->left) / a->per_second)
		a->left = most;
	else
		a->left += (int64_t)(ms * a->per_second);
}

bool allowance_has(struct allowance *a, uint64_t now_ms)
{
	if (a->per_second == 0)
		return true;
	fill(a, now_ms);
	return a->left > 0;
}

void allowance_take(struct allowance *a, uint64_t n)
{
	if (a->per_second)
		a->left -= (int64_t)(n * PARTS);
}

void allowance_give_back(struct allowance *a, uint64_t n)
{
	if (a->per_second)
		a->left += (int64_t)(n * PARTS);
}

uint64_t allowance_due(const struct allowance *a)
{
	if (a->per_second == 0 || a->left > 0)
		return 0;
	return a->at_ms + (uint64_t)-a->left / a->per_second + 1;
}
