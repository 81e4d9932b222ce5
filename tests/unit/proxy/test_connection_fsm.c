#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>

#include "proxy/connection_fsm.h"

static bool reach[CS_COUNT];

static void walk(enum connection_state s)
{
	if (reach[s])
		return;
	reach[s] = true;
	for (int e = 0; e < CE_COUNT; e++) {
		const struct connection_edge *edge = connection_edge(s, (enum connection_event)e);

		if (edge)
			walk(edge->next);
	}
}

static void every_state_reaches_closed(void **state)
{
	(void)state;
	for (int s = 0; s < CS_COUNT; s++) {
		for (int i = 0; i < CS_COUNT; i++)
			reach[i] = false;
		walk((enum connection_state)s);
		assert_true(reach[CS_CLOSED]);
	}
}

static void every_state_is_reached_from_accepted(void **state)
{
	(void)state;
	for (int i = 0; i < CS_COUNT; i++)
		reach[i] = false;
	walk(CS_ACCEPTED);
	for (int i = 0; i < CS_COUNT; i++)
		assert_true(reach[i]);
}

static void every_state_answers_timeout_and_fail_with_closed(void **state)
{
	(void)state;
	for (int s = 0; s < CS_COUNT; s++) {
		const struct connection_edge *t = connection_edge((enum connection_state)s, CE_TIMEOUT);
		const struct connection_edge *f = connection_edge((enum connection_state)s, CE_FAIL);

		assert_non_null(t);
		assert_non_null(f);
		assert_int_equal(t->next, CS_CLOSED);
		assert_int_equal(f->next, CS_CLOSED);
	}
}

static void nothing_leaves_closed(void **state)
{
	(void)state;
	for (int e = 0; e < CE_COUNT; e++) {
		const struct connection_edge *edge = connection_edge(CS_CLOSED, (enum connection_event)e);

		if (edge) {
			assert_int_equal(edge->next, CS_CLOSED);
			assert_int_equal(edge->act, CA_NONE);
		}
	}
}

static void http_is_never_served_before_the_handshake_of_a_tls_hello(void **state)
{
	(void)state;
	assert_null(connection_edge(CS_LEAF, CE_PLAIN));
	assert_null(connection_edge(CS_LEAF, CE_SECURE));
	assert_null(connection_edge(CS_HELLO, CE_SECURE));
	assert_int_equal(connection_edge(CS_HANDSHAKE, CE_SECURE)->next, CS_HTTP);
}

static void nothing_is_tunnelled_that_was_not_dialled(void **state)
{
	(void)state;
	for (int s = 0; s < CS_COUNT; s++) {
		for (int e = 0; e < CE_COUNT; e++) {
			const struct connection_edge *edge =
				connection_edge((enum connection_state)s, (enum connection_event)e);

			if (edge && edge->next == CS_TUNNEL)
				assert_int_equal(s, CS_DIAL);
		}
	}
	assert_null(connection_edge(CS_HANDSHAKE, CE_UNOPENED));
	assert_null(connection_edge(CS_HTTP, CE_UNOPENED));
}

static void states_and_events_have_names(void **state)
{
	(void)state;
	assert_string_equal(connection_state_name(CS_DRAIN), "DRAIN");
	assert_string_equal(connection_event_name(CE_FAIL), "FAIL");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_state_reaches_closed),
		cmocka_unit_test(every_state_is_reached_from_accepted),
		cmocka_unit_test(every_state_answers_timeout_and_fail_with_closed),
		cmocka_unit_test(nothing_leaves_closed),
		cmocka_unit_test(http_is_never_served_before_the_handshake_of_a_tls_hello),
		cmocka_unit_test(nothing_is_tunnelled_that_was_not_dialled),
		cmocka_unit_test(states_and_events_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
