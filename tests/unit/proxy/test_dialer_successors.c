/* The dialer and its sandboxes over deaths, its worker's and its broker's; and over a new policy. */
#include "tests/unit/proxy/dialer_harness.h"

/* ---- a worker's end ---- */

static void a_worker_that_ends_leaves_its_sandbox_until_that_is_gone(void **state)
{
	char name[64];

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "n%u.silent.public.test", i);
		send_resolve(name);
	}
	WAIT_UNTIL(&world, server.queries > 0);
	channel_free(worker);
	worker = NULL;
	open_successor();
	WAIT_UNTIL(&world, got.told == 2);
	assert_int_equal(dialer_sandboxes(dialer), 1);
	assert_int_equal(got.lost, 0);
	dialer_sandbox_gone(dialer, 1);
	assert_int_equal(dialer_sandboxes(dialer), 0);
	assert_int_equal(got.lost, 0);
}

static void a_gone_sandbox_closes_its_channels_and_forgets_what_is_under_way(void **state)
{
	const struct msg_dial m = { .id = 6, .name = STR("d.silent.public.test"), .port = 443 };
	struct channel *old_worker = worker, *old_broker = broker;

	(void)state;
	send_resolve("silent.public.test");
	assert_int_equal(channel_send(worker, MSG_DIAL, &m, NULL, 0), OK);
	WAIT_UNTIL(&world, server.queries > 1);
	dialer_sandbox_gone(dialer, 1);
	dialer_sandbox_gone(dialer, 1);
	WAIT_UNTIL(&world, worker_closed);
	open_sandbox();
	assert_int_equal(resolve("nx.public.test"), RESOLVE_NXDOMAIN);
	assert_int_equal(got.resolved, 1);
	assert_int_equal(got.dialed, 0);
	channel_free(old_worker);
	channel_free(old_broker);
}

static void the_tickets_of_a_gone_sandbox_are_not_those_of_the_next_with_its_number(void **state)
{
	struct channel *old_worker = worker, *old_broker = broker;
	uint16_t port = 0;
	int fd = listener(&port);
	struct msg_hangup m;

	(void)state;
	assert_int_equal(dial("api.inside.test", false, port), DIAL_OK);
	WAIT_UNTIL(&world, got.tickets == 1);
	m.ticket = got.d.ticket;
	dialer_sandbox_gone(dialer, 1);
	open_sandbox();
	WAIT_UNTIL(&world, got.told == 2);
	assert_int_equal(channel_send(worker, MSG_HANGUP, &m, NULL, 0), OK);
	assert_int_equal(resolve("nx.public.test"), RESOLVE_NXDOMAIN);
	assert_int_equal(got.tickets, 1);
	assert_int_equal(got.ended, 0);
	channel_free(old_worker);
	channel_free(old_broker);
	close(fd);
}

/* ---- a broker's successor ---- */

static void a_brokers_successor_is_told_each_live_ticket_and_then_that_these_were_all(void **state)
{
	uint16_t port = 0;
	int fd = listener(&port);
	struct msg_hangup over;
	uint64_t live;

	(void)state;
	assert_int_equal(dial("api.inside.test", false, port), DIAL_OK);
	over.ticket = got.d.ticket;
	assert_int_equal(dial("127.0.0.1", true, port), DIAL_OK);
	live = got.d.ticket;
	assert_int_equal(channel_send(worker, MSG_HANGUP, &over, NULL, 0), OK);
	WAIT_UNTIL(&world, got.ended == 1 && got.tickets == 2);
	open_successor();
	WAIT_UNTIL(&world, got.told == 2);
	assert_int_equal(got.tickets, 3);
	assert_true(got.t.ticket == live);
	assert_true(got.t.literal);
	assert_int_equal(got.t.port, port);
	assert_string_equal(got.name, "127.0.0.1");
	assert_true(got.ticket_order < got.told_order);
	close(fd);
}

static void what_was_connected_without_a_broker_is_told_to_the_next_one(void **state)
{
	uint16_t port = 0;
	int fd = listener(&port);

	(void)state;
	channel_free(broker);
	broker = NULL;
	assert_int_equal(dial("api.inside.test", false, port), DIAL_OK);
	assert_int_equal(got.tickets, 0);
	open_successor();
	WAIT_UNTIL(&world, got.told == 1);
	assert_int_equal(got.tickets, 1);
	assert_true(got.t.ticket == got.d.ticket);
	assert_string_equal(got.name, "api.inside.test");
	assert_int_equal(dial("api.inside.test", false, port), DIAL_OK);
	WAIT_UNTIL(&world, got.tickets == 2);
	assert_true(got.told_order < got.ticket_order);
	close(fd);
}

/* The channel's queue holds what the table does, of the longest names, before its reader reads. */
static void a_full_table_goes_into_a_channel_that_nobody_reads_yet(void **state)
{
	const struct channel_peer peer = { .self = ROLE_DIALER, .other = ROLE_BROKER, .table = exeat_messages };
	struct msg_ticket m = { .port = 443 };
	char name[MSG_NAME_MAX], addr[ADDR_PACKED] = { 4 };
	struct channel *c;
	int ends[2];

	(void)state;
	memset(name, 'a', sizeof(name));
	m.name = str_n(name, sizeof(name));
	m.addr = str_n(addr, sizeof(addr));
	assert_int_equal(channel_pair(ends), OK);
	c = channel_new(world.base, ends[0], &peer);
	channel_set_phase(c, PHASE_RUN);
	for (m.ticket = 1; m.ticket <= DIALER_TICKETS_MAX; m.ticket++)
		assert_int_equal(channel_send(c, MSG_TICKET, &m, NULL, 0), OK);
	assert_true(channel_queued(c) > 0);
	channel_free(c);
	close(ends[1]);
}

static void a_peer_for_nobody_is_closed(void **state)
{
	const struct msg_peer unknown = { .sandbox = 9, .role = ROLE_BROKER },
			      no_broker = { .sandbox = 1, .role = ROLE_WORKER };
	char byte;
	int b[2];

	(void)state;
	assert_int_equal(channel_pair(b), OK);
	assert_int_equal(dialer_peer(dialer, &unknown, b[1]), ERR_NOTFOUND);
	assert_int_equal(read(b[0], &byte, 1), 0);
	close(b[0]);
	assert_int_equal(channel_pair(b), OK);
	assert_int_equal(dialer_peer(dialer, &no_broker, b[1]), ERR_NOTFOUND);
	assert_int_equal(read(b[0], &byte, 1), 0);
	close(b[0]);
}

static void a_broker_that_speaks_where_it_has_nothing_to_say_costs_the_sandbox(void **state)
{
	const struct msg_peer m = { .sandbox = 1, .role = ROLE_BROKER };
	int b[2];

	(void)state;
	assert_int_equal(channel_pair(b), OK);
	assert_int_equal(dialer_peer(dialer, &m, b[1]), OK);
	assert_int_equal(send(b[0], "\xff\xff", 2, MSG_NOSIGNAL), 2);
	WAIT_UNTIL(&world, got.lost == 1);
	assert_int_equal(dialer_sandboxes(dialer), 0);
	close(b[0]);
}

/* ---- a new policy ---- */

static const struct test_rule only_other[] = {
	{ .id = "other", .hosts = { LIST("**.other.test") }, .ports = { LIST("443") } },
};

static void a_new_policy_is_asked_from_then_on(void **state)
{
	(void)state;
	assert_int_equal(resolve("nx.public.test"), RESOLVE_NXDOMAIN);
	give_rules(only_other, 1);
	assert_int_equal(resolve("nx.public.test"), RESOLVE_DENIED);
	assert_int_equal(dial("nx.public.test", false, 443), DIAL_DENIED);
	assert_int_equal(resolve("api.other.test"), RESOLVE_NODATA);
}

static void what_is_being_resolved_is_judged_by_the_new_policy(void **state)
{
	const struct msg_dial m = { .id = 6, .name = STR("api.inside.test"), .port = PORT_FIRST };

	(void)state;
	send_resolve("nx.public.test");
	assert_int_equal(channel_send(worker, MSG_DIAL, &m, NULL, 0), OK);
	WAIT_UNTIL(&world, server.queries >= 1);
	assert_int_equal(got.resolved + got.dialed, 0);
	give_rules(only_other, 1);
	WAIT_UNTIL(&world, got.resolved == 1 && got.dialed == 1);
	assert_int_equal(got.r.status, RESOLVE_DENIED);
	assert_int_equal(got.d.status, DIAL_DENIED);
	assert_int_equal(got.fd, -1);
}

static void a_connection_that_is_made_under_another_policy_is_not_given_out(void **state)
{
	uint16_t port = 0;
	int fd = listener(&port), peer = -1;
	struct msg_dial m = { .id = 6, .name = STR("127.0.0.1"), .literal = true, .port = port };
	char byte;

	(void)state;
	assert_int_equal(channel_send(worker, MSG_DIAL, &m, NULL, 0), OK);
	WAIT_UNTIL(&world, (peer = accept(fd, NULL, NULL)) >= 0);
	assert_int_equal(got.dialed, 0);
	give_rules(only_other, 1);
	WAIT_UNTIL(&world, got.dialed == 1);
	assert_int_equal(got.d.status, DIAL_DENIED);
	assert_string_equal(got.text, "127.0.0.1: denied by policy");
	assert_int_equal(got.fd, -1);
	assert_int_equal(got.tickets, 0);
	assert_int_equal(read(peer, &byte, 1), 0);
	close(peer);
	close(fd);
}

static void a_policy_that_does_not_map_changes_nothing(void **state)
{
	const struct msg_policy mine = { .sandbox = 1 }, nobodys = { .sandbox = 9 };
	int fd = new_memfd();

	(void)state;
	assert_int_equal(dialer_policy(dialer, &mine, &fd, 1), ERR_SYNTAX);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	fd = make_image(only_other, 1);
	assert_int_equal(dialer_policy(dialer, &nobodys, &fd, 1), ERR_NOTFOUND);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_int_equal(resolve("nx.public.test"), RESOLVE_NXDOMAIN);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_worker_that_ends_leaves_its_sandbox_until_that_is_gone),
		CASE(a_gone_sandbox_closes_its_channels_and_forgets_what_is_under_way),
		CASE(the_tickets_of_a_gone_sandbox_are_not_those_of_the_next_with_its_number),
		CASE(a_brokers_successor_is_told_each_live_ticket_and_then_that_these_were_all),
		CASE(what_was_connected_without_a_broker_is_told_to_the_next_one),
		CASE(a_full_table_goes_into_a_channel_that_nobody_reads_yet),
		CASE(a_peer_for_nobody_is_closed),
		CASE(a_broker_that_speaks_where_it_has_nothing_to_say_costs_the_sandbox),
		CASE(a_new_policy_is_asked_from_then_on),
		CASE(what_is_being_resolved_is_judged_by_the_new_policy),
		CASE(a_connection_that_is_made_under_another_policy_is_not_given_out),
		CASE(a_policy_that_does_not_map_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
