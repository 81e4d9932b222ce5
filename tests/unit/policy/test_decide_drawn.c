/* Drawn policies and facts, against an evaluator that was written only for this. */
#include "make_policy.h"

static uint64_t dice_state;

static unsigned dice(unsigned sides)
{
	dice_state ^= dice_state << 13;
	dice_state ^= dice_state >> 7;
	dice_state ^= dice_state << 17;
	return (unsigned)(dice_state >> 33) % sides;
}

static const char *const host_pool[] = { "a.test", "b.a.test", "c.b.a.test", "*.a.test", "**.a.test",
					 "*.b.a.test", "**.b.a.test", "**.test", "**", "x.y", "*.test" };
static const char *const name_pool[] = { "a.test", "b.a.test", "c.b.a.test", "d.c.b.a.test", "x.y",
					 "xa.test", "test", "a.test.x" };
static const char *const range_pool[] = { "203.0.113.0/24", "203.0.113.7", "0.0.0.0/0",
					  "2001:db8::/32", "198.51.100.0/24", "203.0.113.0/28" };
static const char *const addr_pool[] = { "203.0.113.7", "203.0.113.200", "198.51.100.3", "2001:db8::1",
					 "192.0.2.1", "2001:db9::" };
static const char *const method_pool[] = { "GET", "POST", "get" };
static const char *const path_pool[] = { "/a/**", "/a/*", "/**/b", "/a", "/**", "/a*c" };
static const char *const request_path_pool[] = { "/a", "/a/b", "/a/b/c", "/abc", "/", "/a/" };
static const char *const port_pool[] = { "443", "80-90", "1-300", "8443" };
static const uint16_t request_port_pool[] = { 443, 85, 8443, 9000 };

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define DRAWN_RULES 5
#define DRAWN_ITEMS 3

struct drawn {
	struct test_rule rules[DRAWN_RULES];
	const char *items[DRAWN_RULES][6][DRAWN_ITEMS + 1];
	size_t n;
};

static struct texts draw_list(const char *const *pool, size_t pool_n, const char **items,
			      unsigned odds)
{
	size_t n = dice(odds) == 0 ? 1 + dice(DRAWN_ITEMS) : 0;

	for (size_t i = 0; i < n; i++)
		items[i] = pool[dice((unsigned)pool_n)];
	items[n] = NULL;
	return (struct texts){ n ? items : NULL };
}

#define DRAW(pool, slot, odds) draw_list(pool, COUNT(pool), d->items[i][slot], odds)

/* What an allow may have, and what it may not have where it is not opened. */
static void draw_allow(struct test_rule *r)
{
	r->passthrough = dice(6) == 0;
	if (r->passthrough)
		r->protos = PROTO_HTTPS;
	if (r->passthrough || (r->protos & PROTO_TCP))
		r->methods = r->paths = (struct texts){ 0 };
	if (dice(2))
		r->limits.concurrent = 1 + dice(9);
}

static void draw_policy(struct drawn *d)
{
	d->n = 1 + dice(DRAWN_RULES);
	for (size_t i = 0; i < d->n; i++) {
		struct test_rule *r = &d->rules[i];

		*r = (struct test_rule){ .deny = dice(5) < 2, .id = "r", .reason = "" };
		r->hosts = DRAW(host_pool, 0, dice(4) ? 1 : 2);
		/* An allow may expand to no more literals than the limit: it has no port then. */
		r->addresses = DRAW(range_pool, 1, 4);
		r->methods = DRAW(method_pool, 2, 3);
		r->paths = DRAW(path_pool, 3, 3);
		if (r->deny || !r->addresses.v)
			r->ports = DRAW(port_pool, 4, 2);
		r->protos = dice(3) ? 0 : 1 + dice(7);
		if (!r->deny)
			draw_allow(r);
	}
}

static struct facts draw_facts(void)
{
	struct facts f = { .port = request_port_pool[dice(COUNT(request_port_pool))],
			   .proto = (enum proto)(1u << dice(3)) };

	f.literal = dice(4) == 0;
	if (f.literal || dice(2))
		addr_parse(str_of(addr_pool[dice(COUNT(addr_pool))]), &f.addr);
	if (!f.literal)
		f.host = str_of(name_pool[dice(COUNT(name_pool))]);
	f.method = str_of(method_pool[dice(COUNT(method_pool))]);
	f.path = str_of(request_path_pool[dice(COUNT(request_path_pool))]);
	return f;
}

/* Some facts are not known yet. The target is forgotten whole: name and literal are one fact. */
static struct facts forget(struct facts f, unsigned mask)
{
	if (mask & 1) {
		f.host = STR_NONE;
		if (f.literal)
			f.addr = (struct addr){ 0 };
		f.literal = false;
	}
	if (mask & 2)
		f.port = 0;
	if (mask & 4)
		f.proto = PROTO_UNKNOWN;
	if (mask & 8)
		f.method = STR_NONE;
	if (mask & 16)
		f.path = STR_NONE;
	if ((mask & 32) && !f.literal)
		f.addr = (struct addr){ 0 };
	return f;
}

/* Names written out by hand: one table instead of a hash, "*" and "**" by counting dots. */
static bool naive_host(const char *pattern, struct str name)
{
	size_t dots = 0, n = strlen(pattern);
	bool many = strncmp(pattern, "**.", 3) == 0, one = !many && strncmp(pattern, "*.", 2) == 0;
	size_t skip = many ? 2 : one ? 1 : 0;

	if (strcmp(pattern, "**") == 0)
		return true;
	if (!skip)
		return n == name.n && memcmp(pattern, name.p, n) == 0;
	pattern += skip;
	n -= skip;
	if (name.n <= n || memcmp(name.p + name.n - n, pattern, n) != 0)
		return false;
	for (size_t i = 0; i < name.n - n; i++)
		dots += name.p[i] == '.';
	return many || dots == 0;
}

static int naive_target(const struct test_rule *r, const struct facts *f)
{
	int hosts = -1, addresses = -1;
	struct addr_range range;

	for (size_t i = 0; r->hosts.v && r->hosts.v[i]; i++) {
		bool any = strcmp(r->hosts.v[i], "**") == 0;
		int a = f->literal ? 0 : f->host.n == 0 ? 1 : 2 * naive_host(r->hosts.v[i], f->host);

		if (any && r->deny)
			a = 2;
		hosts = a > hosts ? a : hosts;
	}
	for (size_t i = 0; r->addresses.v && r->addresses.v[i]; i++) {
		int a = 1;

		addr_range_parse(str_of(r->addresses.v[i]), &range);
		if (!r->deny && !f->literal)
			a = f->host.n ? 0 : 1;
		else if (f->addr.family)
			a = addr_in_range(&f->addr, &range) ? 2 : 0;
		addresses = a > addresses ? a : addresses;
	}
	if (hosts < 0 && addresses < 0)
		return 2;
	return hosts > addresses ? hosts : addresses;
}

typedef bool naive_match(const char *text, const struct facts *f);

static int naive_list(struct texts list, bool is_known, naive_match *match, const struct facts *f)
{
	if (!list.v)
		return 2;
	if (!is_known)
		return 1;
	for (size_t i = 0; list.v[i]; i++)
		if (match(list.v[i], f))
			return 2;
	return 0;
}

static bool naive_port(const char *text, const struct facts *f)
{
	char *end;
	unsigned long first = strtoul(text, &end, 10);
	unsigned long last = *end ? strtoul(end + 1, NULL, 10) : first;

	return f->port >= first && f->port <= last;
}

static bool naive_method(const char *text, const struct facts *f)
{
	return str_eq(str_of(text), f->method);
}

/* By recursion; the pool's paths have no escapes. */
static bool naive_glob(const char *p, const char *s)
{
	if (strncmp(p, "/**", 3) == 0 && (p[3] == '/' || !p[3])) {
		if (naive_glob(p + 3, s))
			return true;
		return *s == '/' && naive_glob(p, s + 1 + strcspn(s + 1, "/"));
	}
	if (*p == '*')
		return naive_glob(p + 1, s) || (*s && *s != '/' && naive_glob(p, s + 1));
	return *p == *s && (!*p || naive_glob(p + 1, s + 1));
}

static bool naive_path(const char *text, const struct facts *f)
{
	return naive_glob(text, f->path.p);
}

static int naive_rule(const struct test_rule *r, const struct facts *f)
{
	int all[] = { naive_target(r, f), naive_list(r->ports, f->port, naive_port, f),
		      naive_list(r->methods, f->method.n, naive_method, f),
		      naive_list(r->paths, f->path.n, naive_path, f),
		      !r->protos ? 2 : !f->proto ? 1 : r->protos & f->proto ? 2 : 0 };
	int least = 2;

	for (size_t i = 0; i < COUNT(all); i++)
		least = all[i] < least ? all[i] : least;
	return least;
}

static struct decision naive_decide(const struct drawn *d, const struct facts *f)
{
	struct decision deny = { VERDICT_DENY, { 0, RULE_DEFAULT } };
	struct decision yes = { VERDICT_ALLOW, { 0, RULE_DEFAULT } };
	struct decision maybe = { VERDICT_UNDECIDED, { 0, RULE_DEFAULT } };
	bool deny_unknown = false;

	for (uint32_t i = (uint32_t)d->n; i-- > 0;) {
		int a = naive_rule(&d->rules[i], f);

		if (d->rules[i].deny) {
			deny_unknown |= a == 1;
			if (a == 2)
				deny.rule.rule = i;
			continue;
		}
		if (a >= 1)
			maybe.rule.rule = i;
		if (a == 2)
			yes.rule.rule = i;
	}
	if (deny.rule.rule != RULE_DEFAULT)
		return deny;
	if (yes.rule.rule != RULE_DEFAULT && !deny_unknown)
		return yes;
	return maybe.rule.rule != RULE_DEFAULT ? maybe : deny;
}

static void assert_same(struct decision a, struct decision b)
{
	assert_int_equal(a.verdict, b.verdict);
	assert_int_equal(a.rule.image, b.rule.image);
	assert_int_equal(a.rule.rule, b.rule.rule);
}

#define DRAWS 200000
#define DRAWS_A_POLICY 20

/* Every rule alone answers as in the naive reading, too: it is what explain shows. */
static void assert_rules_agree(const struct policy *p, const struct drawn *d, const struct facts *f)
{
	for (uint32_t i = 0; i < d->n; i++) {
		struct rule_answer a = policy_ask_rule(p, (struct rule_ref){ 0, i }, f);

		assert_int_equal(a.all, naive_rule(&d->rules[i], f));
	}
}

/* The limits that hold are those of every allow that says yes, in the order of the file. */
static void assert_limits_agree(const struct policy *p, const struct drawn *d,
				const struct facts *f)
{
	struct rule_ref all[DRAWN_RULES], first[1];
	size_t n = policy_limits(p, f, all, DRAWN_RULES), at = 0;

	for (uint32_t i = 0; i < d->n; i++) {
		if (!d->rules[i].limits.concurrent || naive_rule(&d->rules[i], f) != 2)
			continue;
		assert_true(at < n);
		assert_int_equal(all[at].image, 0);
		assert_int_equal(all[at++].rule, i);
	}
	assert_int_equal(at, n);
	assert_int_equal(policy_limits(p, f, first, 1) > 1, n > 1);
	if (n > 0)
		assert_int_equal(first[0].rule, all[0].rule);
	assert_int_equal(policy_limits(p, f, NULL, 0) > 0, n > 0);
}

static void a_second_evaluator_agrees_on_drawn_policies(void **state)
{
	struct drawn d;

	(void)state;
	dice_state = 0x9e3779b97f4a7c15u;
	for (size_t i = 0; i < DRAWS / DRAWS_A_POLICY; i++) {
		struct policy *p;

		draw_policy(&d);
		p = make_policy(d.rules, d.n);
		for (size_t k = 0; k < DRAWS_A_POLICY; k++) {
			struct facts f = forget(draw_facts(), dice(2) ? dice(64) : 0);

			assert_same(policy_decide(p, &f), naive_decide(&d, &f));
			assert_rules_agree(p, &d, &f);
			assert_limits_agree(p, &d, &f);
		}
		policy_free(p);
	}
}

static void a_step_with_fewer_facts_never_contradicts_a_later_one(void **state)
{
	struct drawn d;

	(void)state;
	dice_state = 0xd1b54a32d192ed03u;
	for (size_t i = 0; i < DRAWS / DRAWS_A_POLICY / 4; i++) {
		struct policy *p;

		draw_policy(&d);
		p = make_policy(d.rules, d.n);
		for (size_t k = 0; k < DRAWS_A_POLICY; k++) {
			struct facts full = draw_facts();
			enum verdict last = policy_decide(p, &full).verdict;

			for (unsigned mask = 1; mask < 64; mask++) {
				struct facts part = forget(full, mask);
				enum verdict early = policy_decide(p, &part).verdict;

				if (early != VERDICT_UNDECIDED && last != VERDICT_UNDECIDED)
					assert_int_equal(early, last);
				if (early == VERDICT_DENY)
					assert_int_equal(last, VERDICT_DENY);
			}
		}
		policy_free(p);
	}
}

static void a_deny_more_never_allows_anything(void **state)
{
	struct drawn d;

	(void)state;
	dice_state = 0x2545f4914f6cdd1du;
	for (size_t i = 0; i < DRAWS / DRAWS_A_POLICY / 4; i++) {
		struct policy *with, *without;

		do
			draw_policy(&d);
		while (d.n < 2);
		d.rules[d.n - 1].deny = true;
		d.rules[d.n - 1].passthrough = false;
		d.rules[d.n - 1].limits = (struct rule_limits){ 0 };
		without = make_policy(d.rules, d.n - 1);
		with = make_policy(d.rules, d.n);
		for (size_t k = 0; k < DRAWS_A_POLICY; k++) {
			struct facts f = forget(draw_facts(), dice(64));
			enum verdict before = policy_decide(without, &f).verdict;
			enum verdict after = policy_decide(with, &f).verdict;

			if (after == VERDICT_ALLOW)
				assert_int_equal(before, VERDICT_ALLOW);
			if (before == VERDICT_DENY)
				assert_int_equal(after, VERDICT_DENY);
		}
		policy_free(without);
		policy_free(with);
	}
}

static void a_stack_decides_as_one_file_would(void **state)
{
	struct drawn d;

	(void)state;
	dice_state = 0x6c62272e07bb0142u;
	for (size_t i = 0; i < DRAWS / DRAWS_A_POLICY / 4; i++) {
		struct policy *one, *stack;
		int fds[2];
		size_t cut;

		do
			draw_policy(&d);
		while (d.n < 2);
		cut = 1 + dice((unsigned)d.n - 1);
		one = make_policy(d.rules, d.n);
		fds[0] = make_image(d.rules, cut);
		fds[1] = make_image(d.rules + cut, d.n - cut);
		stack = map_images(fds, 2);
		for (size_t k = 0; k < DRAWS_A_POLICY; k++) {
			struct facts f = forget(draw_facts(), dice(64));
			struct decision a = policy_decide(one, &f), b = policy_decide(stack, &f);

			assert_int_equal(a.verdict, b.verdict);
			if (b.rule.rule != RULE_DEFAULT && b.rule.image == 1)
				b.rule = (struct rule_ref){ 0, b.rule.rule + (uint32_t)cut };
			assert_same(a, b);
		}
		policy_free(one);
		policy_free(stack);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_second_evaluator_agrees_on_drawn_policies),
		cmocka_unit_test(a_step_with_fewer_facts_never_contradicts_a_later_one),
		cmocka_unit_test(a_deny_more_never_allows_anything),
		cmocka_unit_test(a_stack_decides_as_one_file_would),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
