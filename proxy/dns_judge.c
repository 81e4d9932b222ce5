#include "proxy/dns_judge.h"

#define OWN_NAME STR("exeat.internal")
/* A name that no rule lists (RFC 2606 2): only a policy that allows any host at all allows it. */
#define ANY_NAME STR("any-host-at-all.invalid")

static struct decision decide(const struct worker *w, struct str host)
{
	const struct facts f = { .host = host };

	return policy_decide(w->policy, &f);
}

static bool could_be_allowed(const struct worker *w, struct str host)
{
	return decide(w, host).verdict != VERDICT_DENY;
}

/* @name without its last label; empty where it has one label. */
static struct str without_last_label(struct str name)
{
	while (name.n && name.p[name.n - 1] != '.')
		name.n--;
	if (name.n)
		name.n--;
	return name;
}

/* Did a client's search list put its domain behind a name that could be allowed? Names of one label
 * prove nothing, and neither does a policy that allows every host: there, what is denied is
 * meant. */
static bool made_by_search_list(const struct worker *w, struct str name)
{
	if (could_be_allowed(w, ANY_NAME))
		return false;
	for (name = without_last_label(name); str_find(name, '.') < name.n;
	     name = without_last_label(name))
		if (could_be_allowed(w, name))
			return true;
	return false;
}

static bool is_artefact(const struct worker *w, struct str name)
{
	return str_find(name, '.') == name.n || name_is_special_use(name) ||
	       made_by_search_list(w, name);
}

/* The address of a reverse name: four numbers, last first, under in-addr.arpa (RFC 1035 3.5). */
static bool reverse_address(struct str name, uint32_t *address)
{
	const struct str zone = STR(".in-addr.arpa");
	uint32_t a = 0;

	if (!str_ends(name, zone))
		return false;
	name.n -= zone.n;
	for (unsigned i = 0; i < 4; i++) {
		struct str label = str_cut(&name, '.');
		uint64_t v;

		if (label.n > 3 || (label.n > 1 && label.p[0] == '0') ||
		    !str_to_u64(label, 255, &v))
			return false;
		a |= (uint32_t)v << (8 * i);
	}
	*address = a;
	return name.p == NULL;
}

static bool is_reverse(struct str name)
{
	return str_ends(name, STR(".in-addr.arpa")) || str_ends(name, STR(".ip6.arpa"));
}

static struct dns_judged judge_pointer(const struct worker *w, struct str name)
{
	struct dns_judged j = { .what = JUDGE_NO_POINTER,
				.decision = { VERDICT_DENY, { 0, RULE_DEFAULT } } };
	uint32_t address;

	if (!reverse_address(name, &address))
		return j;
	if (address == w->gateway)
		j.pointer = OWN_NAME;
	else if (!lease_name(w->leases, address, &j.pointer))
		return j;
	j.what = JUDGE_POINTER;
	j.decision.verdict = VERDICT_ALLOW;
	return j;
}

struct dns_judged dns_judge(const struct worker *w, const struct dns_query *q)
{
	struct dns_judged j = { .what = JUDGE_NO_HOST,
				.decision = { VERDICT_DENY, { 0, RULE_DEFAULT } } };
	struct str name = name_str(&q->name);

	if (!q->name_ok) {
		if (q->question_n && q->question[0] == 0)
			j.what = JUDGE_ROOT;
		return j;
	}
	if (q->type == DNS_PTR && is_reverse(name))
		return judge_pointer(w, name);
	if (str_eq(name, OWN_NAME)) {
		j.what = JUDGE_GATEWAY;
		j.decision.verdict = VERDICT_ALLOW;
		return j;
	}
	j.decision = decide(w, name);
	if (j.decision.verdict != VERDICT_DENY)
		j.what = JUDGE_RESOLVE;
	else if (is_artefact(w, name))
		j.what = JUDGE_ARTEFACT;
	else
		j.what = JUDGE_REFUSE;
	return j;
}
