#include <stdlib.h>

#include "policy/load_parts.h"
#include "policy/path_overlap.h"
#include "policy/pattern.h"

/*
 * Theory of operation
 *
 * Rules are set against each other to find what their author cannot have meant: two allow rules
 * that may both match one request and differ in what is done with it (error), an allow rule that a
 * deny rule covers whole (warning), and an allow and a deny rule that overlap (note).
 *
 * Two host patterns overlap only if one stands at the other or above it in the tree of names. So
 * all patterns go into one hash table, and each pattern looks upwards from where it stands: a few
 * look-ups a pattern, however many there are. What it finds is compared in full.
 *
 * Rules by address are few and are compared each with each.
 *
 * All comparing is counted. Past WORK_MAX the policy is refused: what was not looked at may be a
 * conflict.
 */

#define WORK_MAX 200000000ull
#define TOLD_MAX 256

struct entry {
	struct str pattern;
	uint32_t rule;
	uint32_t next;		/* index + 1 of the next in the bucket */
};

struct table {
	struct entry *entries;
	uint32_t *buckets;
	size_t n, mask;
};

struct told {
	const struct load_rule *a, *b;
};

struct pairs {
	struct load *l;
	struct table table;
	uint32_t *seen;			/* by rule: index + 1 of the rule that met it last */
	const struct load_rule **noted;	/* by rule: the first allow rule that a deny overlaps */
	bool *shadowed;			/* by rule: told already */
	struct told told[TOLD_MAX];
	size_t n_told;
	uint64_t work;
	uint64_t ports;			/* of the pattern at hand */
	uint8_t *port_bits;
};

/* ---- the table ---- */

static size_t hash(struct str s)
{
	uint64_t h = 14695981039346656037ull;

	for (size_t i = 0; i < s.n; i++)
		h = (h ^ (unsigned char)s.p[i]) * 1099511628211ull;
	return (size_t)(h ^ h >> 32);
}

static bool table_init(struct table *t, struct load *l)
{
	size_t n = 0, buckets = 16;

	for (size_t r = 0; r < l->n_rules; r++)
		n += l->rules[r].hosts.n + 1;
	while (buckets < n)
		buckets *= 2;
	t->entries = calloc(n + 1, sizeof(*t->entries));
	t->buckets = calloc(buckets, sizeof(*t->buckets));
	t->mask = buckets - 1;
	return t->entries && t->buckets;
}

/* Once a rule: its own entries stand at the head of the bucket. */
static void table_add(struct table *t, struct str pattern, size_t rule)
{
	uint32_t *bucket = &t->buckets[hash(pattern) & t->mask];

	for (uint32_t i = *bucket; i && t->entries[i - 1].rule == rule; i = t->entries[i - 1].next)
		if (str_eq(t->entries[i - 1].pattern, pattern))
			return;
	t->entries[t->n] = (struct entry){ pattern, (uint32_t)rule, *bucket };
	*bucket = (uint32_t)++t->n;
}

/* A rule without hosts, such as a deny of a port, meets every host. */
static bool meets_any_host(const struct load_rule *r)
{
	return r->hosts.n == 0 && r->b.n_addresses == 0;
}

static void table_fill(struct table *t, const struct load *l)
{
	for (size_t r = l->n_rules; r-- > 0;) {
		const struct load_rule *rule = &l->rules[r];

		if (!rule->good)
			continue;
		for (size_t i = rule->hosts.n; i-- > 0;)
			table_add(t, rule->hosts.v[i], r);
		if (meets_any_host(rule))
			table_add(t, STR("**"), r);
	}
}

/* ---- comparing ---- */

static bool ports_overlap(const struct build_rule *a, const struct build_rule *b)
{
	for (size_t i = 0; i < a->n_ports; i++)
		for (size_t j = 0; j < b->n_ports; j++)
			if (a->ports[i].first <= b->ports[j].last &&
			    b->ports[j].first <= a->ports[i].last)
				return true;
	return a->n_ports == 0 || b->n_ports == 0;
}

static bool has_text(const struct str *v, size_t n, struct str s)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(v[i], s))
			return true;
	return false;
}

static bool methods_overlap(const struct build_rule *a, const struct build_rule *b)
{
	for (size_t i = 0; i < a->n_methods; i++)
		if (has_text(b->methods, b->n_methods, a->methods[i]))
			return true;
	return a->n_methods == 0 || b->n_methods == 0;
}

static bool paths_overlap(struct pairs *p, const struct build_rule *a, const struct build_rule *b)
{
	for (size_t i = 0; i < a->n_paths; i++)
		for (size_t j = 0; j < b->n_paths; j++)
			if (p->work > WORK_MAX || path_overlaps(a->paths[i], b->paths[j], &p->work))
				return true;
	return a->n_paths == 0 || b->n_paths == 0;
}

/* Everything but hosts, addresses and protocol. */
static bool rest_overlaps(struct pairs *p, const struct build_rule *a, const struct build_rule *b)
{
	p->work += a->n_ports * b->n_ports + a->n_methods * b->n_methods + a->n_paths * b->n_paths;
	return ports_overlap(a, b) && methods_overlap(a, b) && paths_overlap(p, a, b);
}

static bool ports_cover(const struct build_rule *outer, const struct build_rule *inner)
{
	for (size_t i = 0; i < inner->n_ports; i++) {
		bool inside = false;

		for (size_t j = 0; j < outer->n_ports && !inside; j++)
			inside = outer->ports[j].first <= inner->ports[i].first &&
				 outer->ports[j].last >= inner->ports[i].last;
		if (!inside && outer->n_ports)
			return false;
	}
	return outer->n_ports == 0 || inner->n_ports > 0;
}

static bool methods_cover(const struct build_rule *outer, const struct build_rule *inner)
{
	for (size_t i = 0; i < inner->n_methods && outer->n_methods; i++)
		if (!has_text(outer->methods, outer->n_methods, inner->methods[i]))
			return false;
	return outer->n_methods == 0 || inner->n_methods > 0;
}

static bool paths_cover(const struct build_rule *outer, const struct build_rule *inner)
{
	for (size_t i = 0; i < inner->n_paths && outer->n_paths; i++) {
		bool inside = false;

		for (size_t j = 0; j < outer->n_paths && !inside; j++)
			inside = path_covers(outer->paths[j], inner->paths[i]);
		if (!inside)
			return false;
	}
	return outer->n_paths == 0 || inner->n_paths > 0;
}

static bool range_in(const struct addr_range *inner, const struct addr_range *outer)
{
	return inner->bits >= outer->bits && addr_in_range(&inner->net, outer);
}

static bool addresses_cover(const struct build_rule *outer, const struct build_rule *inner)
{
	for (size_t i = 0; i < inner->n_addresses && outer->n_addresses; i++) {
		bool inside = false;

		for (size_t j = 0; j < outer->n_addresses && !inside; j++)
			inside = range_in(&inner->addresses[i], &outer->addresses[j]);
		if (!inside)
			return false;
	}
	return outer->n_addresses == 0 || inner->n_addresses > 0;
}

/* "**" in a deny stands for addresses, too. */
static bool is_for_any_target(const struct load_rule *r)
{
	for (size_t i = 0; r->b.deny && i < r->hosts.n; i++)
		if (str_eq(r->hosts.v[i], STR("**")))
			return true;
	return false;
}

static bool hosts_cover(struct pairs *p, const struct load_rule *outer,
			const struct load_rule *inner)
{
	if (outer->hosts.n == 0)
		return true;
	for (size_t i = 0; i < inner->hosts.n; i++) {
		bool inside = false;

		for (size_t j = 0; j < outer->hosts.n && !inside; j++, p->work++)
			inside = pattern_covers(outer->hosts.v[j], inner->hosts.v[i]);
		if (!inside)
			return false;
	}
	return inner->hosts.n > 0;
}

static bool rule_covers(struct pairs *p, const struct load_rule *outer,
			const struct load_rule *inner)
{
	const struct build_rule *o = &outer->b, *i = &inner->b;

	return (o->protos == 0 || (i->protos & ~o->protos) == 0) && ports_cover(o, i) &&
	       methods_cover(o, i) && paths_cover(o, i) &&
	       (is_for_any_target(outer) ||
		(addresses_cover(o, i) && hosts_cover(p, outer, inner)));
}

/* Goes through as it comes: of a request in it nothing is known. */
static bool is_unopened(const struct build_rule *b)
{
	return b->passthrough || b->protos == PROTO_TCP;
}

/* ---- what is told ---- */

static bool told_before(struct pairs *p, const struct load_rule *a, const struct load_rule *b)
{
	for (size_t i = 0; i < p->n_told; i++)
		if (p->told[i].a == a && p->told[i].b == b)
			return true;
	if (p->n_told < TOLD_MAX)
		p->told[p->n_told++] = (struct told){ a, b };
	return false;
}

static void meet_allows(struct pairs *p, const struct load_rule *a, const struct load_rule *b)
{
	const struct load_rule *first = a < b ? a : b, *second = a < b ? b : a;
	bool unopened = is_unopened(&a->b) || is_unopened(&b->b);
	const char *differ = a->b.protos != b->b.protos ? "protocol"
			   : a->b.passthrough != b->b.passthrough ? "tls"
			   : a->credential != b->credential ? "credential" : NULL;

	if ((!differ && !(a->limited && b->limited)) || !rest_overlaps(p, &a->b, &b->b))
		return;
	if (!differ)
		load_limited_meet(p->l, a, b);
	else if (!told_before(p, first, second))
		diag_error(p->l->diags, second->at,
			   unopened ? "make the two differ in hosts or ports, or agree"
			   : "make the two differ in hosts, ports, methods or paths, or agree",
			   "\"%.*s\" and \"%.*s\" (line %u) can match one %s and differ in their %s",
			   STR_ARG(second->b.id), STR_ARG(first->b.id), first->at.line,
			   unopened ? "connection" : "request", differ);
}

/* Could the deny be for what the allow lets through unread? Then nobody could keep it. */
static bool is_blind_to(const struct build_rule *allow, const struct build_rule *deny)
{
	return is_unopened(allow) && (deny->n_methods || deny->n_paths);
}

static void meet_deny(struct pairs *p, const struct load_rule *allow, const struct load_rule *deny)
{
	size_t a = (size_t)(allow - p->l->rules), d = (size_t)(deny - p->l->rules);

	if (p->shadowed[a])
		return;
	if (rule_covers(p, deny, allow)) {
		p->shadowed[a] = true;
		diag_add(p->l->diags, DIAG_WARNING, allow->at,
			 "deny wins over allow, and what no rule allows is refused anyway",
			 "this rule can never fire: \"%.*s\" (line %u) denies all of it", STR_ARG(deny->b.id),
			 deny->at.line);
		return;
	}
	if ((p->noted[d] && !is_blind_to(&allow->b, &deny->b)) ||
	    (deny->b.protos && !(deny->b.protos & allow->b.protos)) ||
	    !rest_overlaps(p, &allow->b, &deny->b))
		return;
	if (!is_blind_to(&allow->b, &deny->b))
		p->noted[d] = allow;
	else if (!told_before(p, allow, deny))
		diag_error(p->l->diags, allow->at, "make the two differ in hosts or ports, or let it be opened",
			   "\"%.*s\" is not opened, so that the %s of the deny \"%.*s\" (line %u) would not be seen",
			   STR_ARG(allow->b.id), deny->b.n_paths ? "paths" : "methods",
			   STR_ARG(deny->b.id), deny->at.line);
}

static void meet(struct pairs *p, const struct load_rule *a, const struct load_rule *b)
{
	if (!a->b.deny && !b->b.deny)
		meet_allows(p, a, b);
	else if (a->b.deny != b->b.deny)
		meet_deny(p, a->b.deny ? b : a, a->b.deny ? a : b);
}

/* The notes come last: an allow that turned out to be covered whole needs none. */
static void tell_notes(struct pairs *p)
{
	const struct load *l = p->l;

	for (size_t d = 0; d < l->n_rules; d++) {
		const struct load_rule *allow = p->noted[d];

		if (allow && !p->shadowed[allow - l->rules])
			diag_add(l->diags, DIAG_NOTE, l->rules[d].at, NULL,
				 "overlaps the allow rule \"%.*s\" (line %u): here the deny wins; where allow wins "
				 "over deny, the same pair would let the traffic through",
				 STR_ARG(allow->b.id), allow->at.line);
	}
}

/* ---- looking upwards ---- */

static void find(struct pairs *p, size_t rule, struct str pattern)
{
	const struct table *t = &p->table;
	uint32_t next = t->buckets[hash(pattern) & t->mask];

	for (; next && p->work <= WORK_MAX; next = t->entries[next - 1].next) {
		const struct entry *e = &t->entries[next - 1];
		const struct load_rule *other = &p->l->rules[e->rule];

		p->work++;
		if (!str_eq(e->pattern, pattern))
			continue;
		for (size_t i = 0; !other->b.deny && i < other->b.n_ports; i++)
			p->ports +=
				(uint64_t)(other->b.ports[i].last - other->b.ports[i].first) + 1;
		if (e->rule == rule || p->seen[e->rule] == rule + 1)
			continue;
		p->seen[e->rule] = (uint32_t)rule + 1;
		meet(p, &p->l->rules[rule], other);
	}
}

static void find_with_stars(struct pairs *p, size_t rule, const char *stars, struct str base)
{
	char text[PATTERN_MAX_LEN + 1];
	int n = snprintf(text, sizeof(text), "%s%.*s", stars, STR_ARG(base));

	if (n > 0 && (size_t)n < sizeof(text))
		find(p, rule, str_n(text, (size_t)n));
}

static void find_above(struct pairs *p, size_t rule, struct str pattern)
{
	struct str base;
	enum pattern_kind kind = pattern_kind(pattern, &base);

	if (kind == PATTERN_EXACT) {
		find(p, rule, base);
		base = name_parent(base);
	}
	if (kind <= PATTERN_ONE && base.n)
		find_with_stars(p, rule, "*.", base);
	for (; base.n; base = name_parent(base))
		find_with_stars(p, rule, "**.", base);
	find(p, rule, STR("**"));
}

/* Does the name at hand get more ports by all its rules together than the kernel's set may hold? */
static size_t count_ports(struct pairs *p, struct str pattern)
{
	size_t n = 0;

	memset(p->port_bits, 0, 65536);
	for (size_t r = 0; r < p->l->n_rules; r++) {
		const struct load_rule *rule = &p->l->rules[r];
		bool covers = false;

		for (size_t i = 0; !rule->b.deny && i < rule->hosts.n && !covers; i++, p->work++)
			covers = pattern_covers(rule->hosts.v[i], pattern);
		for (size_t i = 0; covers && i < rule->b.n_ports; i++)
			memset(p->port_bits + rule->b.ports[i].first, 1,
			       (size_t)(rule->b.ports[i].last - rule->b.ports[i].first) + 1);
	}
	for (size_t i = 0; i < 65536; i++)
		n += p->port_bits[i];
	p->work += 65536;
	return n;
}

static void run_hosts(struct pairs *p, size_t r)
{
	const struct load_rule *rule = &p->l->rules[r];

	for (size_t i = 0; i < rule->hosts.n && p->work <= WORK_MAX; i++) {
		p->ports = 0;
		find_above(p, r, rule->hosts.v[i]);
		if (rule->b.deny || p->ports <= POLICY_PORTS_MAX ||
		    count_ports(p, rule->hosts.v[i]) <= POLICY_PORTS_MAX)
			continue;
		diag_error(p->l->diags, rule->hosts.at[i], NULL,
			   "all rules together allow more than %d ports of \"%.*s\"", POLICY_PORTS_MAX,
			   STR_ARG(rule->hosts.v[i]));
		break;
	}
}

/* ---- rules by address ---- */

static bool addresses_overlap(struct pairs *p, const struct load_rule *left,
			      const struct load_rule *right)
{
	const struct build_rule *a = &left->b, *b = &right->b;

	if (is_for_any_target(left) || is_for_any_target(right))
		return true;
	for (size_t i = 0; i < a->n_addresses; i++)
		for (size_t j = 0; j < b->n_addresses; j++, p->work++)
			if (range_in(&a->addresses[i], &b->addresses[j]) ||
			    range_in(&b->addresses[j], &a->addresses[i]))
				return true;
	/* A deny without hosts and addresses meets them, too. */
	return a->n_addresses == 0 || b->n_addresses == 0;
}

static bool by_address(const struct load_rule *r)
{
	return r->good && (r->hosts.n == 0 || is_for_any_target(r));
}

static void run_addresses(struct pairs *p, size_t r)
{
	const struct load *l = p->l;

	for (size_t o = 0; o < r && p->work <= WORK_MAX; o++) {
		p->work++;
		if (by_address(&l->rules[o]) &&
		    addresses_overlap(p, &l->rules[r], &l->rules[o]))
			meet(p, &l->rules[r], &l->rules[o]);
	}
}

static void run(struct pairs *p)
{
	if (!load_limited_start(p->l))
		return;
	table_fill(&p->table, p->l);
	for (size_t r = 0; r < p->l->n_rules && p->work <= WORK_MAX; r++) {
		if (!p->l->rules[r].good)
			continue;
		run_hosts(p, r);
		if (by_address(&p->l->rules[r]))
			run_addresses(p, r);
	}
	if (p->work > WORK_MAX)
		diag_error(p->l->diags, (struct mark){ 0 }, NULL,
			   "too many rules stand for the same hosts: they cannot all be set against each other");
	load_limited_end(p->l);
	if (p->l->diags->errors == 0)
		tell_notes(p);
}

void load_pairs(struct load *l)
{
	struct pairs *p = calloc(1, sizeof(*p));
	bool ready = p && table_init(&p->table, l);

	if (ready) {
		p->l = l;
		p->seen = arena_take(&l->arena, l->n_rules, sizeof(*p->seen));
		p->noted = arena_take(&l->arena, l->n_rules, sizeof(const struct load_rule *));
		p->shadowed = arena_take(&l->arena, l->n_rules, sizeof(*p->shadowed));
		p->port_bits = arena_take(&l->arena, 65536, 1);
	}
	if (ready && !l->arena.failed)
		run(p);
	else
		l->arena.failed = true;
	if (p) {
		free(p->table.entries);
		free(p->table.buckets);
	}
	free(p);
}
