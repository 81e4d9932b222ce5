/* Theory of operation
 *
 * A rule is a row of matchers, and its answer the smallest of theirs: no < unknown < yes. Hosts and
 * addresses are one matcher, the target, in two spellings: the larger answer of both counts.
 *
 * Which rules are asked (walk()):
 *  - a target that is known: the image's list of rules for any target, for a literal the list of
 *    allows by address, for a name the lists of its suffixes. No other rule could say but no.
 *  - nothing known: all rules, since each could still match.
 * A rule that several lists hold is asked for each; the largest answer wins, so it does not matter.
 *
 * Answers only ever move from unknown to yes or no as facts come in, never back; from that follows
 * that a step with fewer facts never contradicts a later one.
 */
#include "policy/hosts.h"
#include "policy/policy.h"
#include "policy/path.h"
#include "policy/ranges.h"

static enum answer known(bool yes)
{
	return yes ? ANSWER_YES : ANSWER_NO;
}

static enum answer least(enum answer a, enum answer b)
{
	return a < b ? a : b;
}

static enum answer most(enum answer a, enum answer b)
{
	return a > b ? a : b;
}

/* ---- matchers ---- */

/* Ranges ascend and are apart: the last that starts at or before @a is the only candidate. */
static bool ranges_hold(const struct image *im, struct image_span s, const struct addr *a)
{
	const struct addr_range *r = im->ranges + s.first;
	uint32_t lo = 0, hi = s.count;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		int order = r[mid].net.family - a->family;

		if (order == 0)
			order = memcmp(r[mid].net.b, a->b, addr_len(a));
		if (order <= 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo > 0 && addr_in_range(a, &r[lo - 1]);
}

/* @listed: what the host table says of the rule and the name. */
static enum answer ask_hosts(const struct image_rule *r, const struct facts *f, enum answer listed)
{
	if (!(r->flags & RULE_ANY_HOST))
		return listed;
	if (r->flags & RULE_DENY)
		return ANSWER_YES;
	if (f->literal)
		return ANSWER_NO;
	return f->host.n ? ANSWER_YES : ANSWER_UNKNOWN;
}

static enum answer ask_addresses(const struct image *im, const struct image_rule *r,
				 const struct facts *f)
{
	if (!(r->flags & RULE_DENY) && !f->literal)
		return f->host.n ? ANSWER_NO : ANSWER_UNKNOWN;
	if (!f->addr.family)
		return ANSWER_UNKNOWN;
	return known(ranges_hold(im, r->addresses, &f->addr));
}

static enum answer ask_target(const struct image *im, const struct image_rule *r,
			      const struct facts *f, enum answer listed)
{
	bool hosts = r->flags & RULE_HAS_HOSTS, addresses = r->addresses.count > 0;

	if (hosts && addresses)
		return most(ask_hosts(r, f, listed), ask_addresses(im, r, f));
	if (addresses)
		return ask_addresses(im, r, f);
	return hosts ? ask_hosts(r, f, listed) : ANSWER_YES;
}

static enum answer ask_port(const struct image *im, const struct image_rule *r,
			    const struct facts *f)
{
	if (r->ports.count == 0)
		return ANSWER_YES;
	if (f->port == 0)
		return ANSWER_UNKNOWN;
	for (uint32_t i = r->ports.first; i < r->ports.first + r->ports.count; i++)
		if (f->port >= im->ports[i].first && f->port <= im->ports[i].last)
			return ANSWER_YES;
	return ANSWER_NO;
}

static enum answer ask_proto(const struct image_rule *r, const struct facts *f)
{
	if (r->protos == 0)
		return ANSWER_YES;
	return f->proto == PROTO_UNKNOWN ? ANSWER_UNKNOWN : known(r->protos & f->proto);
}

static enum answer ask_method(const struct image *im, const struct image_rule *r,
			      const struct facts *f)
{
	if (r->methods.count == 0)
		return ANSWER_YES;
	if (f->method.n == 0)
		return ANSWER_UNKNOWN;
	for (uint32_t i = r->methods.first; i < r->methods.first + r->methods.count; i++)
		if (str_eq(image_text(im, im->methods[i]), f->method))
			return ANSWER_YES;
	return ANSWER_NO;
}

static enum answer ask_path(const struct image *im, const struct image_rule *r,
			    const struct facts *f)
{
	if (r->paths.count == 0)
		return ANSWER_YES;
	if (f->path.n == 0)
		return ANSWER_UNKNOWN;
	for (uint32_t i = r->paths.first; i < r->paths.first + r->paths.count; i++)
		if (path_match(image_text(im, im->paths[i]), f->path))
			return ANSWER_YES;
	return ANSWER_NO;
}

/* The whole rule; the cheap matchers first, and no further than the first no. */
static enum answer ask_rule(const struct image *im, const struct image_rule *r,
			    const struct facts *f, enum answer listed)
{
	enum answer a = ask_target(im, r, f, listed);

	if (a != ANSWER_NO)
		a = least(a, ask_port(im, r, f));
	if (a != ANSWER_NO)
		a = least(a, ask_proto(r, f));
	if (a != ANSWER_NO)
		a = least(a, ask_method(im, r, f));
	if (a != ANSWER_NO)
		a = least(a, ask_path(im, r, f));
	return a;
}

/* ---- which rules to ask ---- */

/* @listed: what the host table says. False ends the walk. */
typedef bool walk_fn(void *arg, const struct image *im, uint32_t rule, enum answer listed);

static bool walk_refs(const struct image *im, struct image_span s, enum answer listed, walk_fn *fn,
		      void *arg)
{
	for (uint32_t i = s.first; i < s.first + s.count; i++)
		if (!fn(arg, im, im->refs[i], listed))
			return false;
	return true;
}

static bool walk_all(const struct image *im, walk_fn *fn, void *arg)
{
	for (uint32_t i = 0; i < im->n_rules; i++)
		if (!fn(arg, im, i, ANSWER_UNKNOWN))
			return false;
	return true;
}

static bool walk_image(const struct image *im, const struct facts *f, walk_fn *fn, void *arg)
{
	struct host_walk w;
	struct image_span list;

	if (!f->literal && f->host.n == 0)
		return walk_all(im, fn, arg);
	if (!walk_refs(im, im->header->anywhere, ANSWER_NO, fn, arg))
		return false;
	if (f->literal)
		return walk_refs(im, im->header->literal, ANSWER_NO, fn, arg);
	host_walk_start(&w, im, f->host);
	while (host_walk_next(&w, &list))
		if (!walk_refs(im, list, ANSWER_YES, fn, arg))
			return false;
	return true;
}

static void walk(const struct policy *p, const struct facts *f, walk_fn *fn, void *arg)
{
	for (size_t i = 0; i < p->n; i++)
		if (!walk_image(&p->images[i], f, fn, arg))
			return;
}

/* ---- deciding ---- */

/* The first rule in file order, if any, of each kind that counts. */
struct tally {
	const struct policy *p;
	const struct facts *f;
	struct rule_ref deny_yes, allow_yes, allow_maybe;
	bool deny_unknown;
};

static const struct rule_ref nobody = { UINT16_MAX, RULE_DEFAULT };

static bool is_somebody(struct rule_ref r)
{
	return r.image != nobody.image;
}

static void keep_first(struct rule_ref *kept, struct rule_ref r)
{
	if (r.image < kept->image || (r.image == kept->image && r.rule < kept->rule))
		*kept = r;
}

static bool tally_rule(void *arg, const struct image *im, uint32_t rule, enum answer listed)
{
	struct tally *t = arg;
	struct rule_ref ref = { (uint16_t)(im - t->p->images), rule };
	enum answer a = ask_rule(im, &im->rules[rule], t->f, listed);

	if (a == ANSWER_NO)
		return true;
	if (im->rules[rule].flags & RULE_DENY) {
		if (a == ANSWER_YES)
			keep_first(&t->deny_yes, ref);
		else
			t->deny_unknown = true;
		return true;
	}
	keep_first(&t->allow_maybe, ref);
	if (a == ANSWER_YES)
		keep_first(&t->allow_yes, ref);
	return true;
}

struct decision policy_decide(const struct policy *p, const struct facts *f)
{
	struct tally t = { p, f, nobody, nobody, nobody, false };

	walk(p, f, tally_rule, &t);
	if (is_somebody(t.deny_yes))
		return (struct decision){ VERDICT_DENY, t.deny_yes };
	if (is_somebody(t.allow_yes) && !t.deny_unknown)
		return (struct decision){ VERDICT_ALLOW, t.allow_yes };
	if (is_somebody(t.allow_maybe))
		return (struct decision){ VERDICT_UNDECIDED, t.allow_maybe };
	return (struct decision){ VERDICT_DENY, { 0, RULE_DEFAULT } };
}

/* ---- limits ---- */

/* The first @max of those that hold, in order. */
struct limited {
	const struct policy *p;
	const struct facts *f;
	struct rule_ref *out;
	size_t max, n;
};

static bool before(struct rule_ref a, struct rule_ref b)
{
	return a.image < b.image || (a.image == b.image && a.rule < b.rule);
}

static bool same_rule(struct rule_ref a, struct rule_ref b)
{
	return a.image == b.image && a.rule == b.rule;
}

/* Rules come list by list, and one may be in several: each is put in its place, once. */
static bool collect_limits(void *arg, const struct image *im, uint32_t rule, enum answer listed)
{
	struct limited *l = arg;
	struct rule_ref ref = { (uint16_t)(im - l->p->images), rule };
	size_t kept = l->n < l->max ? l->n : l->max, at = 0;

	if (im->rules[rule].limits.count == 0 ||
	    ask_rule(im, &im->rules[rule], l->f, listed) != ANSWER_YES)
		return true;
	while (at < kept && before(l->out[at], ref))
		at++;
	if (at < kept && same_rule(l->out[at], ref))
		return true;
	l->n++;
	if (at == l->max)
		return true;
	if (kept == l->max)
		kept--;
	memmove(&l->out[at + 1], &l->out[at], (kept - at) * sizeof(*l->out));
	l->out[at] = ref;
	return true;
}

size_t policy_limits(const struct policy *p, const struct facts *f, struct rule_ref *out,
		     size_t max)
{
	struct limited l = { p, f, out, max, 0 };

	walk(p, f, collect_limits, &l);
	return l.n;
}

/* ---- one rule, for explain ---- */

const char *matcher_name(enum matcher m)
{
	switch (m) {
	case MATCH_HOST:
		return "host";
	case MATCH_ADDRESS:
		return "address";
	case MATCH_PORT:
		return "port";
	case MATCH_PROTO:
		return "protocol";
	case MATCH_METHOD:
		return "method";
	case MATCH_PATH:
		return "path";
	case MATCH_COUNT:
		break;
	}
	return "none";
}

/* Does the ascending list hold @rule? */
static bool list_holds(const struct image *im, struct image_span s, uint32_t rule)
{
	uint32_t lo = s.first, hi = s.first + s.count;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (im->refs[mid] == rule)
			return true;
		if (im->refs[mid] < rule)
			lo = mid + 1;
		else
			hi = mid;
	}
	return false;
}

/* What the host table says of one rule. */
static enum answer look_up(const struct image *im, uint32_t rule, const struct facts *f)
{
	struct host_walk w;
	struct image_span list;

	if (f->literal)
		return ANSWER_NO;
	if (f->host.n == 0)
		return ANSWER_UNKNOWN;
	host_walk_start(&w, im, f->host);
	while (host_walk_next(&w, &list))
		if (list_holds(im, list, rule))
			return ANSWER_YES;
	return ANSWER_NO;
}

struct rule_answer policy_ask_rule(const struct policy *p, struct rule_ref ref,
				   const struct facts *f)
{
	struct rule_answer answer = { .all = ANSWER_NO };
	const struct image *im;
	const struct image_rule *r;
	enum answer listed;

	if (ref.rule >= policy_rules(p, ref.image))
		return answer;
	im = &p->images[ref.image];
	r = &im->rules[ref.rule];
	listed = look_up(im, ref.rule, f);
	answer.each[MATCH_HOST] = r->flags & RULE_HAS_HOSTS ? ask_hosts(r, f, listed) : ANSWER_YES;
	answer.each[MATCH_ADDRESS] = r->addresses.count ? ask_addresses(im, r, f) : ANSWER_YES;
	answer.each[MATCH_PORT] = ask_port(im, r, f);
	answer.each[MATCH_PROTO] = ask_proto(r, f);
	answer.each[MATCH_METHOD] = ask_method(im, r, f);
	answer.each[MATCH_PATH] = ask_path(im, r, f);
	answer.all = ask_rule(im, r, f, listed);
	return answer;
}

/* ---- what rules could apply ---- */

struct search {
	const struct facts *f;
	const struct addr *addr;
	uint64_t *ports;	/* a bit each */
	bool found;
};

static bool search_paths(void *arg, const struct image *im, uint32_t rule, enum answer listed)
{
	struct search *s = arg;
	const struct image_rule *r = &im->rules[rule];

	s->found = r->paths.count > 0 && ask_target(im, r, s->f, listed) != ANSWER_NO;
	return !s->found;
}

bool policy_has_paths(const struct policy *p, struct str host)
{
	struct facts f = { .host = host, .literal = host.n == 0 };
	struct search s = { .f = &f };

	walk(p, &f, search_paths, &s);
	return s.found;
}

static bool search_raw(void *arg, const struct image *im, uint32_t rule, enum answer listed)
{
	struct search *s = arg;
	const struct image_rule *r = &im->rules[rule];

	s->found = !(r->flags & RULE_DENY) && (r->protos & PROTO_TCP) &&
		   ask_rule(im, r, s->f, listed) != ANSWER_NO;
	return !s->found;
}

bool policy_allows_raw(const struct policy *p, const struct facts *f)
{
	struct facts raw = *f;
	struct search s = { .f = &raw };

	raw.proto = PROTO_TCP;
	walk(p, &raw, search_raw, &s);
	return s.found;
}

static bool search_ports(void *arg, const struct image *im, uint32_t rule, enum answer listed)
{
	struct search *s = arg;
	const struct image_rule *r = &im->rules[rule];

	if ((r->flags & RULE_DENY) || ask_target(im, r, s->f, listed) == ANSWER_NO)
		return true;
	for (uint32_t i = r->ports.first; i < r->ports.first + r->ports.count; i++)
		for (uint32_t port = im->ports[i].first; port <= im->ports[i].last; port++)
			s->ports[port / 64] |= (uint64_t)1 << (port % 64);
	return true;
}

/* The ports of one word of the set that begins with port @from. */
static size_t take_ports(uint64_t set, uint32_t from, uint16_t *out, size_t n, size_t max)
{
	for (uint32_t port = from; set; set >>= 1, port++) {
		if (!(set & 1))
			continue;
		if (n < max)
			out[n] = (uint16_t)port;
		n++;
	}
	return n;
}

size_t policy_ports(const struct policy *p, struct str host, uint16_t *out, size_t max)
{
	struct facts f = { .host = host };
	uint64_t ports[65536 / 64] = { 0 };
	struct search s = { .f = &f, .ports = ports };
	size_t n = 0;

	if (host.n == 0)
		return 0;
	walk(p, &f, search_ports, &s);
	ports[0] &= ~(uint64_t)1;	/* there is no port 0 */
	for (uint32_t word = 0; word < 65536 / 64; word++)
		n = take_ports(ports[word], word * 64, out, n, max);
	return n;
}

static bool search_resolves(void *arg, const struct image *im, uint32_t rule, enum answer listed)
{
	struct search *s = arg;
	const struct image_rule *r = &im->rules[rule];

	s->found = !(r->flags & RULE_DENY) && ranges_hold(im, r->resolves_to, s->addr) &&
		   ask_rule(im, r, s->f, listed) != ANSWER_NO;
	return !s->found;
}

bool policy_resolve_ok(const struct policy *p, const struct facts *f, const struct addr *a)
{
	struct facts name_only = *f;
	struct search s = { .f = &name_only, .addr = a };

	if (!range_prohibited(a))
		return true;
	name_only.addr = (struct addr){ 0 };
	walk(p, &name_only, search_resolves, &s);
	return s.found;
}

/* ---- literals ---- */

/* False: it was the last address of its family. */
static bool next_addr(struct addr *a)
{
	for (size_t i = addr_len(a); i > 0; i--)
		if (++a->b[i - 1] != 0)
			return true;
	return false;
}

struct literals {
	policy_literal_fn *fn;
	void *arg;
	unsigned left;
};

static bool each_port(struct literals *l, const struct image *im, const struct image_rule *r,
		      const struct addr *a)
{
	for (uint32_t i = r->ports.first; i < r->ports.first + r->ports.count; i++)
		for (uint32_t port = im->ports[i].first; port <= im->ports[i].last; port++)
			if (l->left-- == 0 || !l->fn(l->arg, *a, (uint16_t)port))
				return false;
	return true;
}

static bool each_literal(struct literals *l, const struct image *im, const struct image_rule *r)
{
	for (uint32_t i = r->addresses.first; i < r->addresses.first + r->addresses.count; i++) {
		const struct addr_range *range = &im->ranges[i];
		struct addr a = range->net;

		do {
			if (!each_port(l, im, r, &a))
				return false;
		} while (next_addr(&a) && addr_in_range(&a, range));
	}
	return true;
}

void policy_literals(const struct policy *p, policy_literal_fn *fn, void *arg)
{
	struct literals l = { fn, arg, POLICY_LITERALS_MAX };

	for (size_t i = 0; i < p->n; i++) {
		const struct image *im = &p->images[i];

		for (uint32_t rule = 0; rule < im->n_rules; rule++) {
			const struct image_rule *r = &im->rules[rule];

			if (!(r->flags & RULE_DENY) && r->ports.count && r->addresses.count &&
			    !each_literal(&l, im, r))
				return;
		}
	}
}
