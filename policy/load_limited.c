/* Theory of operation
 *
 * Each pair of allow rules that have limits and can match one request is noted in a matrix of
 * bits. If one request can match N rules, each of these N has N - 1 such mates among them. So rules
 * with fewer mates than POLICY_LIMITS_MAX are put aside, again and again, since each that goes may
 * be another's mate; where any are left, one request might match too many. (It need not: that is
 * the side to err on. A rule for a whole host beside many that have a path each is no such case.)
 */
#include "policy/load_parts.h"

#define WORD_BITS 64

struct limited {
	uint64_t mates[POLICY_LIMITED_MAX][POLICY_LIMITED_MAX / WORD_BITS];
};

static bool has_limits(const struct load_rule *r)
{
	static const struct rule_limits none;

	return r->good && memcmp(&r->b.limits, &none, sizeof(none)) != 0;
}

bool load_limited_start(struct load *l)
{
	uint32_t n = 0;

	for (size_t i = 0; i < l->n_rules; i++) {
		if (!has_limits(&l->rules[i]))
			continue;
		if (n == POLICY_LIMITED_MAX) {
			diag_error(l->diags, l->rules[i].at, NULL,
				   "a policy has at most %d rules with limits", POLICY_LIMITED_MAX);
			return false;
		}
		l->rules[i].limited = ++n;
	}
	if (n > POLICY_LIMITS_MAX)
		l->limited = arena_take(&l->arena, 1, sizeof(*l->limited));
	return true;
}

static void set(struct limited *m, uint32_t a, uint32_t b)
{
	m->mates[a][b / WORD_BITS] |= (uint64_t)1 << (b % WORD_BITS);
}

void load_limited_meet(struct load *l, const struct load_rule *a, const struct load_rule *b)
{
	if (!l->limited)
		return;
	set(l->limited, a->limited - 1, b->limited - 1);
	set(l->limited, b->limited - 1, a->limited - 1);
}

static unsigned count_mates(const struct limited *m, uint32_t a)
{
	unsigned n = 0;

	for (size_t i = 0; i < POLICY_LIMITED_MAX / WORD_BITS; i++)
		n += (unsigned)__builtin_popcountll(m->mates[a][i]);
	return n;
}

/* False: it was nobody's mate, or has gone already. */
static bool put_aside(struct limited *m, uint32_t a)
{
	bool had = false;

	for (uint32_t b = 0; b < POLICY_LIMITED_MAX; b++) {
		m->mates[b][a / WORD_BITS] &= ~((uint64_t)1 << (a % WORD_BITS));
		had = had || (m->mates[a][b / WORD_BITS] >> (b % WORD_BITS) & 1);
	}
	memset(m->mates[a], 0, sizeof(m->mates[a]));
	return had;
}

static void put_aside_all(struct limited *m)
{
	bool again = true;

	while (again) {
		again = false;
		for (uint32_t a = 0; a < POLICY_LIMITED_MAX; a++)
			if (count_mates(m, a) < POLICY_LIMITS_MAX && put_aside(m, a))
				again = true;
	}
}

void load_limited_end(struct load *l)
{
	if (!l->limited)
		return;
	put_aside_all(l->limited);
	for (size_t i = 0; i < l->n_rules; i++) {
		const struct load_rule *r = &l->rules[i];

		if (!r->limited || !count_mates(l->limited, r->limited - 1))
			continue;
		diag_error(l->diags, r->at, "put the limits into fewer rules, or make the rules differ",
			   "more than %d rules with limits can match one request, \"%.*s\" among them",
			   POLICY_LIMITS_MAX, STR_ARG(r->b.id));
		return;
	}
}
