#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "conf/addr.h"
#include "proxy/dialer_tickets.h"

static struct dialer_tickets tickets;
static const char addr[ADDR_PACKED] = { 4, 0, 1, 2 };

static bool add(uint64_t number)
{
	const struct msg_ticket m = { .ticket = number, .name = STR("api.test"), .port = 443,
				      .addr = { addr, sizeof(addr) } };

	return dialer_tickets_add(&tickets, &m);
}

static int set_up(void **state)
{
	(void)state;
	return dialer_tickets_init(&tickets) ? 0 : 1;
}

static int tear_down(void **state)
{
	(void)state;
	dialer_tickets_free(&tickets);
	return 0;
}

struct sum {
	unsigned calls, most;
	uint64_t numbers;
};

static bool count(void *arg, const struct msg_ticket *m)
{
	struct sum *s = arg;

	assert_true(str_eq(m->name, STR("api.test")));
	assert_true(str_eq(m->addr, str_n(addr, sizeof(addr))));
	assert_int_equal(m->port, 443);
	assert_false(m->literal);
	s->numbers += m->ticket;
	return ++s->calls < s->most;
}

static void all_that_was_told_of_a_ticket_is_told_again(void **state)
{
	struct sum s = { .most = 100 };

	(void)state;
	for (uint64_t i = 1; i <= 50; i++)
		assert_true(add(i << 58 | i));
	for (uint64_t i = 1; i <= 50; i += 2)
		assert_true(dialer_tickets_remove(&tickets, i << 58 | i));
	assert_true(dialer_tickets_each(&tickets, count, &s));
	assert_int_equal(s.calls, 25);
	assert_int_equal(s.numbers & 0xffff, 650);
}

static void telling_ends_when_its_listener_says_so(void **state)
{
	struct sum s = { .most = 3 };

	(void)state;
	for (uint64_t i = 1; i <= 9; i++)
		assert_true(add(i));
	assert_false(dialer_tickets_each(&tickets, count, &s));
	assert_int_equal(s.calls, 3);
}

static void a_number_is_taken_once_and_zero_never(void **state)
{
	(void)state;
	assert_false(add(0));
	assert_true(add(7));
	assert_false(add(7));
	assert_true(dialer_tickets_remove(&tickets, 7));
	assert_false(dialer_tickets_remove(&tickets, 7));
	assert_false(dialer_tickets_remove(&tickets, 0));
	assert_true(add(7));
	assert_int_equal(tickets.n, 1);
}

/* Numbers that all want one place: none is lost when one before it goes. */
static void removal_leaves_no_gap_in_a_run_of_collisions(void **state)
{
	(void)state;
	for (uint64_t i = 1; i <= 30; i++)
		assert_true(add(i << 32 | 5));
	for (uint64_t i = 1; i <= 30; i += 3)
		assert_true(dialer_tickets_remove(&tickets, i << 32 | 5));
	for (uint64_t i = 1; i <= 30; i++)
		assert_int_equal(dialer_tickets_remove(&tickets, i << 32 | 5), i % 3 != 1);
	assert_int_equal(tickets.n, 0);
}

static void the_table_is_bounded(void **state)
{
	(void)state;
	for (uint64_t i = 1; i <= DIALER_TICKETS_MAX; i++)
		assert_true(add(i * 0x9e3779b97f4a7c15u));
	assert_false(add(1));
	assert_true(dialer_tickets_remove(&tickets, 0x9e3779b97f4a7c15u));
	assert_true(add(1));
}

static void what_does_not_fit_its_place_is_not_taken(void **state)
{
	static const char name[MSG_NAME_MAX + 1];
	struct msg_ticket m = { .ticket = 1, .name = { name, sizeof(name) }, .port = 443,
				.addr = { addr, sizeof(addr) } };

	(void)state;
	assert_false(dialer_tickets_add(&tickets, &m));
	m.name.n--;
	m.addr.n--;
	assert_false(dialer_tickets_add(&tickets, &m));
	m.addr.n++;
	assert_true(dialer_tickets_add(&tickets, &m));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(all_that_was_told_of_a_ticket_is_told_again),
		CASE(telling_ends_when_its_listener_says_so),
		CASE(a_number_is_taken_once_and_zero_never),
		CASE(removal_leaves_no_gap_in_a_run_of_collisions),
		CASE(the_table_is_bounded),
		CASE(what_does_not_fit_its_place_is_not_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
