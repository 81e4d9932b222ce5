#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "conf/err.h"
#include "proxy/tickets.h"

static char packed[ADDR_PACKED] = { 4, (char)203, 0, 113, 10 };

static struct msg_ticket ticket_for(uint64_t number, struct str name)
{
	return (struct msg_ticket){ .ticket = number, .name = name, .port = 443,
				    .addr = { packed, sizeof(packed) } };
}

static void a_ticket_is_found_until_it_ends(void **state)
{
	struct tickets *t = tickets_new();
	struct msg_ticket m = ticket_for(7, STR("api.test"));
	const struct ticket *k;

	(void)state;
	assert_null(tickets_find(t, 7));
	assert_int_equal(tickets_add(t, &m), OK);
	k = tickets_find(t, 7);
	assert_non_null(k);
	assert_true(str_eq(name_str(&k->host), STR("api.test")));
	assert_false(k->literal);
	assert_int_equal(k->port, 443);
	assert_int_equal(k->addr.family, 4);
	assert_int_equal(addr_to_v4(&k->addr), 0xcb00710a);
	assert_true(tickets_end(t, 7));
	assert_null(tickets_find(t, 7));
	assert_false(tickets_end(t, 7));
	tickets_free(t);
	tickets_free(NULL);
}

static void tickets_that_share_a_bucket_are_kept_apart(void **state)
{
	struct tickets *t = tickets_new();

	(void)state;
	for (uint64_t i = 0; i < 5; i++) {
		struct msg_ticket m = ticket_for(3 + (i << 32), STR("api.test"));

		m.port = (uint16_t)(i + 1);
		assert_int_equal(tickets_add(t, &m), OK);
	}
	assert_true(tickets_end(t, 3 + (UINT64_C(2) << 32)));
	for (uint64_t i = 0; i < 5; i++) {
		const struct ticket *k = tickets_find(t, 3 + (i << 32));

		assert_int_equal(k != NULL, i != 2);
		if (k)
			assert_int_equal(k->port, i + 1);
	}
	tickets_free(t);
}

static void a_number_that_is_taken_is_refused(void **state)
{
	struct tickets *t = tickets_new();
	struct msg_ticket m = ticket_for(7, STR("api.test")), again = ticket_for(7, STR("mine.test"));

	(void)state;
	assert_int_equal(tickets_add(t, &m), OK);
	assert_int_equal(tickets_add(t, &again), ERR_PROTOCOL);
	assert_true(str_eq(name_str(&tickets_find(t, 7)->host), STR("api.test")));
	tickets_free(t);
}

static void the_table_takes_so_many_and_no_more(void **state)
{
	struct tickets *t = tickets_new();
	struct msg_ticket m;

	(void)state;
	for (uint64_t i = 0; i < TICKETS_MAX; i++) {
		m = ticket_for(i, STR("api.test"));
		assert_int_equal(tickets_add(t, &m), OK);
	}
	m = ticket_for(TICKETS_MAX, STR("api.test"));
	assert_int_equal(tickets_add(t, &m), ERR_FULL);
	assert_null(tickets_find(t, TICKETS_MAX));
	assert_non_null(tickets_find(t, 0));
	assert_true(tickets_end(t, 0));
	assert_int_equal(tickets_add(t, &m), OK);
	assert_int_equal(tickets_count(t), TICKETS_MAX);
	tickets_clear(t);
	assert_int_equal(tickets_count(t), 0);
	assert_null(tickets_find(t, 1));
	tickets_free(t);
}

static void what_is_no_ticket_is_refused(void **state)
{
	static const struct str names[] = { { "", 0 }, { "API.test", 8 }, { "api.test.", 9 }, { "*.test", 6 },
		{ "a\0b", 3 }, { "203.0.113.10", 12 } };
	struct tickets *t = tickets_new();
	struct msg_ticket m;
	char other[ADDR_PACKED] = { 5 };

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		m = ticket_for(1, names[i]);
		assert_int_equal(tickets_add(t, &m), ERR_SYNTAX);
	}
	m = ticket_for(1, STR("api.test"));
	m.port = 0;
	assert_int_equal(tickets_add(t, &m), ERR_SYNTAX);
	m = ticket_for(1, STR("api.test"));
	m.addr.n--;
	assert_int_equal(tickets_add(t, &m), ERR_SYNTAX);
	m.addr = str_n(other, sizeof(other));
	assert_int_equal(tickets_add(t, &m), ERR_SYNTAX);
	m = ticket_for(1, STR("api.test"));
	m.literal = 2;
	assert_int_equal(tickets_add(t, &m), ERR_SYNTAX);
	assert_int_equal(tickets_count(t), 0);
	tickets_free(t);
}

static void a_literal_must_be_the_address_that_was_dialled(void **state)
{
	struct tickets *t = tickets_new();
	struct msg_ticket m = ticket_for(1, STR("203.0.113.11"));

	(void)state;
	m.literal = 1;
	assert_int_equal(tickets_add(t, &m), ERR_SYNTAX);
	m.name = STR("api.test");
	assert_int_equal(tickets_add(t, &m), ERR_SYNTAX);
	m.name = STR("203.0.113.10");
	assert_int_equal(tickets_add(t, &m), OK);
	assert_true(tickets_find(t, 1)->literal);
	assert_int_equal(tickets_find(t, 1)->host.n, 0);
	tickets_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_ticket_is_found_until_it_ends),
		cmocka_unit_test(tickets_that_share_a_bucket_are_kept_apart),
		cmocka_unit_test(a_number_that_is_taken_is_refused),
		cmocka_unit_test(the_table_takes_so_many_and_no_more),
		cmocka_unit_test(what_is_no_ticket_is_refused),
		cmocka_unit_test(a_literal_must_be_the_address_that_was_dialled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
