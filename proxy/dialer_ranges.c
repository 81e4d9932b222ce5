#include "proxy/dialer_ranges.h"

#include "policy/ranges.h"

bool dialer_ranges_parse(struct dialer_ranges *out, const struct str_list *own)
{
	if (own->n > DIALER_OWN_MAX)
		return false;
	out->n_own = 0;
	for (size_t i = 0; i < own->n; i++)
		if (!addr_range_parse(own->v[i], &out->own[out->n_own++]))
			return false;
	return true;
}

static bool is_own(const struct dialer_ranges *ranges, const struct addr *a)
{
	for (size_t i = 0; i < ranges->n_own; i++)
		if (addr_in_range(a, &ranges->own[i]))
			return true;
	return false;
}

static const char *name_objection(const struct dialer_ranges *ranges, const struct policy *p,
				  const struct facts *f, const struct addr *a)
{
	const char *range = range_prohibited(a);

	if (range)
		return policy_resolve_ok(p, f, a) ? NULL : range;
	return is_own(ranges, a) ? "an address of the host itself" : NULL;
}

const char *dialer_objection(const struct dialer_ranges *ranges, const struct policy *p,
			     const struct facts *f, const struct addr *a)
{
	struct facts with_addr = *f;

	with_addr.addr = *a;
	if (policy_decide(p, &with_addr).verdict == VERDICT_DENY)
		return "denied by policy";
	if (f->literal)
		return is_own(ranges, a) ? "an address of the host itself" : NULL;
	return name_objection(ranges, p, f, a);
}
