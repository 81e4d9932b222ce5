/* Requests in a time, and at once: what is let through, what is counted, what survives a new policy. */
#include "proxy/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "policy/build.h"

#define MINUTE 60000u

struct made {
	const char *id;
	struct rule_limits limits;
};

/* All rules match the same requests. */
static struct policy *make(const struct made *rules, size_t n)
{
	struct policy_build *b = policy_build_new(STR("test.yaml"), false);
	const struct port_range ports = { 443, 443 };
	const struct str host = STR("api.test");
	int fd = memfd_create("policy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct policy *p;

	for (size_t i = 0; i < n; i++) {
		struct build_rule r = { .id = str_of(rules[i].id), .line = 1, .hosts = &host, .n_hosts = 1,
					.ports = &ports, .n_ports = 1, .protos = PROTO_HTTPS,
					.credential = NO_CREDENTIAL, .limits = rules[i].limits };

		assert_int_equal(policy_build_rule(b, &r), OK);
	}
	assert_int_equal(policy_build_finish(b, fd), OK);
	policy_build_free(b);
	assert_int_equal(policy_map(&fd, 1, &p), OK);
	close(fd);
	return p;
}

static const struct made three_a_minute = { "three", { .requests = 3, .per_s = 60 } };

static bool take(struct limits *l, const struct policy *p, uint32_t n, uint64_t now, struct limit_holds *holds,
		 struct limit_no *no)
{
	struct rule_ref rules[POLICY_LIMITS_MAX];

	for (uint32_t i = 0; i < n; i++)
		rules[i] = (struct rule_ref){ 0, i };
	return limits_take(l, p, rules, n, now, holds, no);
}

/* One that is over at once. */
static bool passes(struct limits *l, const struct policy *p, uint32_t n, uint64_t now, struct limit_no *no)
{
	struct limit_holds holds;
	bool yes = take(l, p, n, now, &holds, no);

	limits_give_back(&holds);
	return yes;
}

static void so_many_pass_and_then_one_for_each_share_of_the_time(void **state)
{
	struct policy *p = make(&three_a_minute, 1);
	struct limits *l = limits_new();
	struct limit_no no;

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_true(passes(l, p, 1, 1000, &no));
	assert_false(passes(l, p, 1, 1000, &no));
	assert_int_equal(no.wait_s, 20);
	assert_int_equal(no.requests, 3);
	assert_false(passes(l, p, 1, 20999, &no));
	assert_int_equal(no.wait_s, 1);
	assert_true(passes(l, p, 1, 21000, &no));
	assert_false(passes(l, p, 1, 21000, &no));
	for (int i = 0; i < 3; i++)
		assert_true(passes(l, p, 1, 1000 + 10 * MINUTE, &no));
	assert_false(passes(l, p, 1, 1000 + 10 * MINUTE, &no));
	policy_free(p);
	limits_free(l);
}

static void so_many_at_once_until_one_is_over(void **state)
{
	const struct made two = { "two", { .concurrent = 2 } };
	struct policy *p = make(&two, 1);
	struct limits *l = limits_new();
	struct limit_holds a, b, c;
	struct limit_no no;

	(void)state;
	assert_true(take(l, p, 1, 1, &a, &no));
	assert_true(take(l, p, 1, 1, &b, &no));
	assert_false(take(l, p, 1, 1, &c, &no));
	assert_int_equal(no.concurrent, 2);
	assert_int_equal(no.wait_s, 0);
	limits_give_back(&a);
	assert_true(take(l, p, 1, 1, &c, &no));
	limits_give_back(&b);
	limits_give_back(&c);
	policy_free(p);
	limits_free(l);
}

static void who_is_refused_by_one_rule_costs_the_others_nothing(void **state)
{
	const struct made both[] = { { "wide", { .requests = 10, .per_s = 1 } }, { "narrow", { .concurrent = 1 } } };
	struct policy *p = make(both, 2);
	struct limits *l = limits_new();
	struct limit_holds first, other;
	struct limit_no no;

	(void)state;
	assert_true(take(l, p, 2, 1, &first, &no));
	for (int i = 0; i < 20; i++)
		assert_false(take(l, p, 2, 1, &other, &no));
	assert_true(str_eq(no.rule, STR("narrow")));
	limits_give_back(&first);
	for (int i = 0; i < 9; i++)
		assert_true(passes(l, p, 2, 1, &no));
	assert_false(passes(l, p, 2, 1, &no));
	assert_true(str_eq(no.rule, STR("wide")));
	policy_free(p);
	limits_free(l);
}

static void a_new_policy_goes_on_counting_where_the_old_one_was(void **state)
{
	const struct made moved[] = { { "new", { .requests = 100, .per_s = 1 } }, three_a_minute };
	const struct made narrower = { "three", { .requests = 2, .per_s = 60 } };
	struct policy *old = make(&three_a_minute, 1), *next = make(moved, 2), *less = make(&narrower, 1);
	struct limits *l = limits_new();
	struct limit_no no;

	(void)state;
	assert_true(passes(l, old, 1, 1, &no));
	assert_true(passes(l, old, 1, 1, &no));
	assert_true(passes(l, next, 2, 1, &no));
	assert_false(passes(l, next, 2, 1, &no));
	assert_true(str_eq(no.rule, STR("three")));
	assert_false(passes(l, less, 1, 1, &no));
	assert_int_equal(no.wait_s, 30);
	policy_free(old);
	policy_free(next);
	policy_free(less);
	limits_free(l);
}

/* Rules that come and go with policies: those that stand at nothing make room, others do not. */
static void so_many_rules_are_counted_and_what_is_not_counted_does_not_pass(void **state)
{
	struct limits *l = limits_new();
	struct limit_holds *held = calloc(LIMITS_MAX, sizeof(*held)), more;
	struct limit_no no;
	char id[16];
	struct made rule = { id, { .concurrent = 1 } };

	(void)state;
	assert_non_null(held);
	for (unsigned i = 0; i <= LIMITS_MAX; i++) {
		struct policy *p;

		snprintf(id, sizeof(id), "r%u", i);
		p = make(&rule, 1);
		assert_int_equal(take(l, p, 1, 1, i < LIMITS_MAX ? &held[i] : &more, &no), i < LIMITS_MAX);
		if (i == LIMITS_MAX) {
			assert_int_equal(no.concurrent, 0);
			limits_give_back(&held[7]);
			assert_true(passes(l, p, 1, 1, &no));
		}
		policy_free(p);
	}
	limits_free(l);
	free(held);
}

/* A rule that is found makes no room for the next of the same request, however little it stands at. */
static void the_rules_of_one_request_do_not_make_room_for_each_other(void **state)
{
	const struct made both[] = { { "idle", { .concurrent = 1 } }, { "fresh", { .concurrent = 1 } } };
	struct limits *l = limits_new();
	struct limit_holds *held = calloc(LIMITS_MAX, sizeof(*held)), two, more;
	struct policy *p = make(both, 2);
	struct limit_no no;
	char id[16];
	struct made rule = { id, { .concurrent = 1 } };

	(void)state;
	assert_non_null(held);
	for (unsigned i = 0; i < LIMITS_MAX - 1; i++) {
		struct policy *one;

		snprintf(id, sizeof(id), "r%u", i);
		one = make(&rule, 1);
		assert_true(take(l, one, 1, 1, &held[i], &no));
		policy_free(one);
	}
	assert_true(passes(l, p, 1, 1, &no));	/* the table is full, and "idle" stands at nothing */
	assert_false(take(l, p, 2, 1, &two, &no));
	assert_true(str_eq(no.rule, STR("fresh")));
	limits_give_back(&held[0]);
	assert_true(take(l, p, 2, 1, &two, &no));
	assert_false(take(l, p, 1, 1, &more, &no));
	assert_int_equal(no.concurrent, 1);
	limits_give_back(&two);
	assert_true(passes(l, p, 1, 1, &no));
	policy_free(p);
	limits_free(l);
	free(held);
}

static void what_is_undone_was_never_counted(void **state)
{
	struct policy *p = make(&three_a_minute, 1);
	struct limits *l = limits_new();
	struct limit_holds holds;
	struct limit_no no;

	(void)state;
	for (int i = 0; i < 10; i++) {
		assert_true(take(l, p, 1, 1, &holds, &no));
		limits_undo(&holds);
		assert_int_equal(holds.n, 0);
	}
	for (int i = 0; i < 3; i++)
		assert_true(passes(l, p, 1, 1, &no));
	assert_false(passes(l, p, 1, 1, &no));
	policy_free(p);
	limits_free(l);
}

static void what_rules_leave_together_is_the_least_of_each(void **state)
{
	const struct made rules[] = {
		{ "a", { .upload = 10, .idle_s = 9, .concurrent = 4 } },
		{ "b", { .upload = 20, .download = 7, .idle_s = 3 } },
		{ "c", { .total_s = 60 } },
	};
	struct policy *p = make(rules, 3);
	struct facts f = { .host = STR("api.test"), .port = 443, .proto = PROTO_HTTPS };
	struct limit_rules found;

	(void)state;
	assert_true(limits_find(p, &f, &found));
	assert_int_equal(found.n, 3);
	assert_int_equal(found.least.upload, 10);
	assert_int_equal(found.least.download, 7);
	assert_int_equal(found.least.idle_s, 3);
	assert_int_equal(found.least.total_s, 60);
	f.host = STR("other.test");
	assert_true(limits_find(p, &f, &found));
	assert_int_equal(found.n, 0);
	policy_free(p);
}

/* The loader lets no such policy through; an image from elsewhere may still be one. */
static void more_limits_than_are_kept_let_nothing_through(void **state)
{
	struct made rules[POLICY_LIMITS_MAX + 1];
	struct facts f = { .host = STR("api.test"), .port = 443, .proto = PROTO_HTTPS };
	struct limit_rules found;
	struct policy *p;

	(void)state;
	for (size_t i = 0; i <= POLICY_LIMITS_MAX; i++)
		rules[i] = (struct made){ "r", { .concurrent = 1 } };
	p = make(rules, POLICY_LIMITS_MAX);
	assert_true(limits_find(p, &f, &found));
	policy_free(p);
	p = make(rules, POLICY_LIMITS_MAX + 1);
	assert_false(limits_find(p, &f, &found));
	policy_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(so_many_pass_and_then_one_for_each_share_of_the_time),
		cmocka_unit_test(so_many_at_once_until_one_is_over),
		cmocka_unit_test(who_is_refused_by_one_rule_costs_the_others_nothing),
		cmocka_unit_test(a_new_policy_goes_on_counting_where_the_old_one_was),
		cmocka_unit_test(so_many_rules_are_counted_and_what_is_not_counted_does_not_pass),
		cmocka_unit_test(the_rules_of_one_request_do_not_make_room_for_each_other),
		cmocka_unit_test(what_is_undone_was_never_counted),
		cmocka_unit_test(what_rules_leave_together_is_the_least_of_each),
		cmocka_unit_test(more_limits_than_are_kept_let_nothing_through),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
