#include "tests/unit/proxy/dialer_harness.h"

/* ---- RESOLVE ---- */

static void a_refused_name_is_never_asked_upstream(void **state)
{
	(void)state;
	assert_int_equal(resolve("evil.test"), RESOLVE_DENIED);
	assert_int_equal(resolve("secrets.inside.test"), RESOLVE_DENIED);
	assert_int_equal(dial("evil.test", false, 443), DIAL_DENIED);
	assert_int_equal(server.queries, 0);
}

static void a_name_in_another_spelling_is_not_taken(void **state)
{
	(void)state;
	assert_int_equal(resolve("API.public.test"), RESOLVE_DENIED);
	assert_int_equal(resolve("api.public.test."), RESOLVE_DENIED);
	assert_int_equal(server.queries, 0);
}

/* F25 */
static void of_public_and_private_addresses_only_the_public_ones_are_used(void **state)
{
	(void)state;
	assert_int_equal(resolve("mixed.public.test"), RESOLVE_OK);
	assert_int_equal(got.r.addrs.n, ADDR_PACKED);
	assert_memory_equal(got.addrs, "\4\313\0\161\7", 5);
}

/* F25 */
static void prohibited_addresses_alone_are_told_with_address_and_range(void **state)
{
	const char *names[] = { "169-254-169-254xbad.public.test", "127-0-0-1xbad.public.test",
				"10-0-0-5xbad.public.test", "100-64-0-1xbad.public.test",
				"0-0-0-0xbad.public.test", "198-18-0-7xbad.public.test" };

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		assert_int_equal(resolve(names[i]), RESOLVE_PROHIBITED);
		assert_int_equal(got.r.addrs.n, 0);
		assert_non_null(strstr(got.text, ": "));
	}
	assert_int_equal(resolve("v6.public.test"), RESOLVE_PROHIBITED);
	assert_true(strncmp(got.text, "::1: ", 5) == 0);
}

static void the_hosts_own_addresses_are_prohibited(void **state)
{
	(void)state;
	assert_int_equal(resolve("own.public.test"), RESOLVE_PROHIBITED);
	assert_string_equal(got.text, "203.0.113.99: an address of the host itself");
}

/* F43 */
static void of_many_addresses_as_many_as_a_message_holds_are_passed_on(void **state)
{
	(void)state;
	assert_int_equal(resolve("many.public.test"), RESOLVE_OK);
	assert_int_equal(got.r.addrs.n, MSG_ADDRS_MAX * ADDR_PACKED);
}

static void codes_of_upstream_are_passed_on(void **state)
{
	(void)state;
	assert_int_equal(resolve("nx.public.test"), RESOLVE_NXDOMAIN);
	assert_int_equal(resolve("empty.public.test"), RESOLVE_NODATA);
	assert_int_equal(resolve("nx.public.test"), RESOLVE_NXDOMAIN);
	assert_true(got.r.cached);
}

static void past_the_quota_a_question_is_answered_so(void **state)
{
	char name[64];

	(void)state;
	for (unsigned i = 0; i < DIALER_RESOLVES_MAX; i++) {
		snprintf(name, sizeof(name), "n%u.silent.public.test", i);
		send_resolve(name);
	}
	assert_int_equal(resolve("api.public.test"), RESOLVE_QUOTA);
}

/* ---- DIAL ---- */

static void a_connection_is_vouched_for_before_the_worker_has_it(void **state)
{
	uint16_t port = 0;
	int fd = listener(&port), peer;

	(void)state;
	assert_int_equal(dial("api.inside.test", false, port), DIAL_OK);
	WAIT_UNTIL(&world, got.tickets == 1);
	assert_true(got.fd >= 0);
	peer = accept(fd, NULL, NULL);
	assert_true(peer >= 0);
	assert_true(got.d.ticket != 0);
	assert_true(got.t.ticket == got.d.ticket);
	assert_string_equal(got.name, "api.inside.test");
	assert_int_equal(got.t.port, port);
	assert_logged(&world, "\"verdict\":\"allow\",\"rule\":\"inside\"");
	assert_logged(&world, "\"destination\":\"api.inside.test\",\"address\":\"127.0.0.1\"");
	close(peer);
	close(fd);
}

static void hanging_up_ends_the_ticket_once(void **state)
{
	uint16_t port = 0;
	int fd = listener(&port);
	struct msg_hangup m;

	(void)state;
	assert_int_equal(dial("api.inside.test", false, port), DIAL_OK);
	m.ticket = got.d.ticket;
	assert_int_equal(channel_send(worker, MSG_HANGUP, &m, NULL, 0), OK);
	assert_int_equal(channel_send(worker, MSG_HANGUP, &m, NULL, 0), OK);
	WAIT_UNTIL(&world, got.ended == 1);
	assert_true(got.ended_ticket == m.ticket);
	assert_int_equal(resolve("nx.public.test"), RESOLVE_NXDOMAIN);
	assert_int_equal(got.ended, 1);
	close(fd);
}

/* F26: the server says a public address, then loopback, by turns, with a TTL of 0. */
static void a_name_that_is_rebound_is_never_connected_to_at_loopback(void **state)
{
	char name[64];

	(void)state;
	for (unsigned i = 0; i < 50; i++) {
		enum resolve_status status;

		/* a new name each time, so that no cache hides the server's other word */
		snprintf(name, sizeof(name), "n%u.rebind.public.test", i);
		status = resolve(name);
		if (status == RESOLVE_OK)
			assert_memory_equal(got.addrs, "\4\313\0\161\1", 5);
		else
			assert_int_equal(status, RESOLVE_PROHIBITED);
		assert_int_equal(resolve(name), status);
	}
	assert_int_equal(server.a_queries, 50);
	snprintf(name, sizeof(name), "last.rebind.public.test");
	assert_int_equal(resolve(name), RESOLVE_OK);
	assert_int_equal(dial("next.rebind.public.test", false, 443), DIAL_PROHIBITED);
	assert_string_equal(got.text, "127.0.0.1: loopback (RFC 1122)");
}

static void a_port_that_no_rule_names_is_denied(void **state)
{
	(void)state;
	assert_int_equal(dial("api.public.test", false, 22), DIAL_DENIED);
	assert_int_equal(dial("api.public.test", false, 0), DIAL_DENIED);
	assert_int_equal(server.queries, 0);
	assert_logged(&world, "\"verdict\":\"deny\"");
}

static void a_prohibited_address_is_not_dialled_and_the_log_has_both(void **state)
{
	(void)state;
	assert_int_equal(dial("127-0-0-1xbad.public.test", false, 443), DIAL_PROHIBITED);
	assert_int_equal(got.fd, -1);
	assert_logged(&world, "\"destination\":\"127-0-0-1xbad.public.test\"");
	assert_logged(&world, "127.0.0.1: ");
	assert_logged(&world, "\"proxy_error\":\"destination_ip_prohibited\"");
}

static void a_name_that_does_not_resolve_says_how(void **state)
{
	(void)state;
	assert_int_equal(dial("nx.public.test", false, 443), DIAL_NO_NAME);
	assert_int_equal(got.d.resolve, RESOLVE_NXDOMAIN);
	assert_int_equal(dial("silent.public.test", false, 443), DIAL_NO_NAME);
	assert_int_equal(got.d.resolve, RESOLVE_TIMEOUT);
}

static void a_literal_is_dialled_where_a_rule_names_it_and_not_the_hosts_own(void **state)
{
	uint16_t port = 0;
	int fd = listener(&port);

	(void)state;
	assert_int_equal(dial("127.0.0.1", true, port), DIAL_OK);
	assert_int_equal(dial("127.0.0.2", true, port), DIAL_DENIED);
	assert_int_equal(dial("127.0.0.5", true, port), DIAL_PROHIBITED);
	assert_int_equal(dial("api.inside.test", true, port), DIAL_DENIED);
	assert_int_equal(server.queries, 0);
	close(fd);
}

static void a_refusing_origin_is_told_as_refused(void **state)
{
	uint16_t port = 0;
	int fd = allowed_socket(&port);

	(void)state;
	assert_int_equal(dial("api.inside.test", false, port), DIAL_REFUSED);
	assert_string_equal(got.text, "127.0.0.1: connection refused");
	assert_int_equal(got.tickets, 0);
	close(fd);
}

static void nothing_is_connected_that_the_log_does_not_take(void **state)
{
	uint16_t port = 0;
	int fd = listener(&port);

	(void)state;
	ring_set_refusing(world.reader, true);
	assert_int_equal(dial("api.inside.test", false, port), DIAL_FAILED);
	assert_int_equal(got.fd, -1);
	assert_int_equal(got.tickets, 0);
	close(fd);
}

static void past_the_quota_a_dial_is_answered_so(void **state)
{
	struct msg_dial m = { .id = 6, .port = 443 };
	char name[64];

	(void)state;
	for (unsigned i = 0; i < DIALS_MAX; i++) {
		snprintf(name, sizeof(name), "d%u.silent.public.test", i);
		m.name = str_of(name);
		assert_int_equal(channel_send(worker, MSG_DIAL, &m, NULL, 0), OK);
	}
	assert_int_equal(dial("api.inside.test", false, PORT_FIRST), DIAL_QUOTA);
}

/* It asks what is answered at once, and reads nothing. */
static void a_worker_that_leaves_more_answers_unread_than_it_may_loses_its_sandbox(void **state)
{
	const struct msg_resolve m = { .id = 5, .name = STR("evil.test") };
	struct buf packet;
	int w[2], b[2], fds[3];
	const struct msg_sandbox s = { .sandbox = 9, .join = JOIN, .name = STR("box-9") };
	unsigned sent = 0;

	(void)state;
	assert_int_equal(channel_pair(w), OK);
	assert_int_equal(channel_pair(b), OK);
	fds[FD_SANDBOX_WORKER] = w[1];
	fds[FD_SANDBOX_OTHER] = b[1];
	fds[FD_SANDBOX_POLICY] = make_image(rules, sizeof(rules) / sizeof(rules[0]));
	assert_int_equal(dialer_sandbox(dialer, &s, fds, 3), OK);
	buf_init(&packet, MESSAGE_MAX);
	assert_int_equal(message_encode(message_row(exeat_messages, MSG_RESOLVE), &m, &packet), OK);
	while (got.lost == 0 && sent < 3 * MSG_CREDITS) {
		sent += send(w[0], packet.p, packet.n, MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
		event_base_loop(world.base, EVLOOP_NONBLOCK);
	}
	assert_int_equal(got.lost, 1);
	assert_int_equal(got.lost_sandbox, 9);
	assert_string_equal(got.lost_why, "does not take the dialer's answers");
	assert_int_equal(resolve("nx.public.test"), RESOLVE_NXDOMAIN);
	buf_free(&packet);
	close(w[0]);
	close(b[0]);
}

/* Everybody's dials together: who has more than its share is refused first. */
static void a_sandbox_that_takes_half_of_all_dials_leaves_its_neighbours_theirs(void **state)
{
	struct str servers[1] = { str_of(server.address) };
	const struct msg_dialer_start start = { .timeout_ms = 2000, .servers = { servers, 1 },
						.dials = DIALER_DIALS_ALL, .queued = QUEUED_MAX };
	struct msg_dial m = { .id = 6, .port = 443, .name = STR("silent.public.test") };
	struct channel *greedy, *its_broker;
	const char *why = "";

	(void)state;
	channel_free(worker);
	channel_free(broker);
	dialer_free(dialer);
	dialer = dialer_new(world.base, &start, world.ring, &why);
	assert_non_null(dialer);
	open_numbered(1);
	greedy = worker;
	its_broker = broker;
	open_numbered(2);
	for (unsigned i = 0; i <= DIALER_DIALS_ALL / 2; i++) {
		assert_int_equal(channel_send(greedy, MSG_DIAL, &m, NULL, 0), OK);
		if (i % 64 == 0)
			event_base_loop(world.base, EVLOOP_NONBLOCK);
	}
	WAIT_UNTIL(&world, got.dialed == 1);
	assert_int_equal(got.d.status, DIAL_QUOTA);
	assert_int_equal(dial("nx.public.test", false, 443), DIAL_NO_NAME);
	channel_free(greedy);
	channel_free(its_broker);
}

/* ---- sandboxes ---- */

static void a_worker_that_breaks_its_channels_rules_is_told_of(void **state)
{
	struct msg_sandbox m = { .sandbox = 7, .join = JOIN, .name = STR("box-7") };
	int fds[3], w[2], b[2];

	(void)state;
	assert_int_equal(channel_pair(w), OK);
	assert_int_equal(channel_pair(b), OK);
	fds[FD_SANDBOX_WORKER] = w[1];
	fds[FD_SANDBOX_OTHER] = b[1];
	fds[FD_SANDBOX_POLICY] = make_image(rules, sizeof(rules) / sizeof(rules[0]));
	assert_int_equal(dialer_sandbox(dialer, &m, fds, 3), OK);
	assert_int_equal(dialer_sandboxes(dialer), 2);
	assert_int_equal(send(w[0], "\xff\xff", 2, MSG_NOSIGNAL), 2);
	WAIT_UNTIL(&world, dialer_sandboxes(dialer) == 1);
	assert_int_equal(got.lost, 1);
	assert_int_equal(got.lost_sandbox, 7);
	assert_string_equal(got.lost_why, "unknown message");
	close(w[0]);
	close(b[0]);
}

static void without_a_broker_connections_are_still_made(void **state)
{
	uint16_t port = 0;
	int fd = listener(&port);

	(void)state;
	channel_free(broker);
	broker = NULL;
	assert_int_equal(dial("api.inside.test", false, port), DIAL_OK);
	assert_int_equal(dial("api.inside.test", false, port), DIAL_OK);
	close(fd);
}

static void a_known_number_takes_the_old_ones_place(void **state)
{
	struct channel *old_worker = worker, *old_broker = broker;

	(void)state;
	open_sandbox();
	assert_int_equal(dialer_sandboxes(dialer), 1);
	WAIT_UNTIL(&world, worker_closed);
	channel_free(old_worker);
	channel_free(old_broker);
	assert_int_equal(resolve("nx.public.test"), RESOLVE_NXDOMAIN);
}

static void a_policy_that_is_none_is_refused(void **state)
{
	struct msg_sandbox m = { .sandbox = 2, .join = JOIN, .name = STR("box-2") };
	int fds[3], w[2], b[2];

	(void)state;
	assert_int_equal(channel_pair(w), OK);
	assert_int_equal(channel_pair(b), OK);
	fds[0] = w[1];
	fds[1] = b[1];
	fds[2] = new_memfd();
	assert_int_not_equal(dialer_sandbox(dialer, &m, fds, 3), OK);
	assert_int_equal(dialer_sandboxes(dialer), 1);
	close(w[0]);
	close(b[0]);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_refused_name_is_never_asked_upstream),
		CASE(a_name_in_another_spelling_is_not_taken),
		CASE(of_public_and_private_addresses_only_the_public_ones_are_used),
		CASE(prohibited_addresses_alone_are_told_with_address_and_range),
		CASE(the_hosts_own_addresses_are_prohibited),
		CASE(of_many_addresses_as_many_as_a_message_holds_are_passed_on),
		CASE(codes_of_upstream_are_passed_on),
		CASE(past_the_quota_a_question_is_answered_so),
		CASE(a_connection_is_vouched_for_before_the_worker_has_it),
		CASE(hanging_up_ends_the_ticket_once),
		CASE(a_name_that_is_rebound_is_never_connected_to_at_loopback),
		CASE(a_port_that_no_rule_names_is_denied),
		CASE(a_prohibited_address_is_not_dialled_and_the_log_has_both),
		CASE(a_name_that_does_not_resolve_says_how),
		CASE(a_literal_is_dialled_where_a_rule_names_it_and_not_the_hosts_own),
		CASE(a_refusing_origin_is_told_as_refused),
		CASE(nothing_is_connected_that_the_log_does_not_take),
		CASE(past_the_quota_a_dial_is_answered_so),
		CASE(a_worker_that_leaves_more_answers_unread_than_it_may_loses_its_sandbox),
		CASE(a_sandbox_that_takes_half_of_all_dials_leaves_its_neighbours_theirs),
		CASE(a_worker_that_breaks_its_channels_rules_is_told_of),
		CASE(without_a_broker_connections_are_still_made),
		CASE(a_known_number_takes_the_old_ones_place),
		CASE(a_policy_that_is_none_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
