#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "tests/unit/proxy/broker_harness.h"

/* ---- grants ---- */

static void a_grant_carries_field_value_and_pattern(void **state)
{
	struct box *b = box_new(1, false);

	(void)state;
	tell_ticket(b, 1, "api.test", 443);
	assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/v1/user"), GRANT_OK);
	assert_true(str_eq(buf_str(&b->seen.credential), STR("api")));
	assert_true(str_eq(buf_str(&b->seen.field), STR("authorization")));
	assert_true(str_eq(buf_str(&b->seen.value), STR("Bearer " MADE_SECRET)));
	assert_int_equal(b->seen.n_patterns, 4);
	assert_true(str_eq(buf_str(&b->seen.patterns[0]), STR(MADE_SECRET)));
	LOGGED("\"kind\":\"credential\"", "\"event\":\"granted\"",
	       "\"credential\":\"api\"", "\"destination\":\"api.test\"", "\"rule\":\"api-read\"",
	       "\"rule_at\":\"policy.yaml:7\"");
	box_free(b);
}

static void basic_is_looked_for_as_base64_too(void **state)
{
	struct box *b = box_new(1, false);

	(void)state;
	tell_ticket(b, 1, "basic.test", 443);
	assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/"), GRANT_OK);
	assert_true(str_eq(buf_str(&b->seen.value), STR("Basic dTpzM2NyZXQtdG9rZW4tdmFsdWU=")));
	assert_int_equal(b->seen.n_patterns, 5);
	assert_true(str_eq(buf_str(&b->seen.patterns[1]), STR("dTpzM2NyZXQtdG9rZW4tdmFsdWU")));
	box_free(b);
	LOGGED("granted");
}

static void a_header_credential_uses_its_format(void **state)
{
	struct box *b = box_new(1, false);

	(void)state;
	tell_ticket(b, 1, "header.test", 443);
	assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/"), GRANT_OK);
	assert_true(str_eq(buf_str(&b->seen.field), STR("x-key")));
	assert_true(str_eq(buf_str(&b->seen.value), STR("k=" MADE_SECRET)));
	box_free(b);
	LOGGED("granted");
}

static void a_rule_without_a_credential_is_no_record(void **state)
{
	struct box *b = box_new(1, false);
	struct buf log;

	(void)state;
	tell_ticket(b, 1, "mine.test", 443);
	assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/"), GRANT_NONE);
	assert_nothing_granted(b);
	take_records(&log);
	assert_string_equal(log.p, "");
	buf_free(&log);
	box_free(b);
}

/* The grant's packet is handled first: the ticket is known because the dialer's channel is drained. */
static void a_ticket_that_was_sent_before_the_grant_is_known_to_it(void **state)
{
	struct box *b = box_new(1, false);

	(void)state;
	for (uint64_t i = 1; i <= 50; i++) {
		send_grant(b, i, PROTO_HTTPS, "/v1/user");
		tell_ticket(b, i, "api.test", 443);
		for (int k = 0; k < ROUNDS && b->seen.grants < i; k++)
			turn();
		assert_int_equal(b->seen.granted.status, GRANT_OK);
	}
	LOGGED("granted");
	box_free(b);
}

static void no_ticket_no_grant(void **state)
{
	struct box *b = box_new(1, false);

	(void)state;
	assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/v1/user"), GRANT_NO_TICKET);
	assert_nothing_granted(b);
	LOGGED("\"event\":\"refused\"", "no such live connection");
	box_free(b);
}

static void a_ticket_that_has_ended_gives_nothing(void **state)
{
	struct box *b = box_new(1, false);

	(void)state;
	tell_ticket(b, 1, "api.test", 443);
	assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/v1/user"), GRANT_OK);
	end_ticket(b, 1);
	assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/v1/user"), GRANT_NO_TICKET);
	assert_nothing_granted(b);
	end_ticket(b, 1);
	end_ticket(b, 12345);
	settle();
	assert_int_equal(b->dialer_closed, 0);
	LOGGED("granted", "refused");
	box_free(b);
}

static void a_ticket_of_another_sandbox_gives_nothing(void **state)
{
	struct box *one = box_new(1, false), *two = box_new(2, false);

	(void)state;
	tell_ticket(one, 1, "api.test", 443);
	settle();
	assert_int_equal(ask_grant(two, 1, PROTO_HTTPS, "/v1/user"), GRANT_NO_TICKET);
	assert_int_equal(ask_grant(one, 1, PROTO_HTTPS, "/v1/user"), GRANT_OK);
	LOGGED("granted", "refused");
	box_free(one);
	box_free(two);
}

/* Whatever Host the box writes: the ticket says where the bytes go. */
static void a_ticket_for_another_host_gives_nothing_of_this_one(void **state)
{
	struct box *b = box_new(1, false);

	(void)state;
	tell_ticket(b, 1, "mine.test", 443);
	tell_ticket(b, 2, "evil.test", 443);
	assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/v1/user"), GRANT_NONE);
	assert_nothing_granted(b);
	assert_int_equal(ask_grant(b, 2, PROTO_HTTPS, "/v1/user"), GRANT_DENIED);
	assert_nothing_granted(b);
	LOGGED("\"event\":\"refused\"", "\"destination\":\"evil.test\"");
	box_free(b);
}

static void a_denied_path_gives_nothing(void **state)
{
	struct box *b = box_new(1, false);

	(void)state;
	tell_ticket(b, 1, "api.test", 443);
	assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/v1/gists/1"), GRANT_DENIED);
	assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/v2/user"), GRANT_DENIED);
	assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/v1/../v2"), GRANT_DENIED);
	assert_nothing_granted(b);
	LOGGED("\"rule\":\"no-gists\"", "\"event\":\"refused\"");
	box_free(b);
}

static void plain_http_gives_nothing_unless_the_rule_says_so(void **state)
{
	struct box *b = box_new(1, false);

	(void)state;
	tell_ticket(b, 1, "plain.test", 80);
	tell_ticket(b, 2, "clear.test", 80);
	assert_int_equal(ask_grant(b, 1, PROTO_HTTP, "/"), GRANT_PLAINTEXT);
	assert_nothing_granted(b);
	assert_int_equal(ask_grant(b, 2, PROTO_HTTP, "/"), GRANT_OK);
	LOGGED("plain HTTP", "\"rule\":\"plain\"", "\"rule\":\"clear\"");
	box_free(b);
}

static void a_secret_without_a_value_fails_and_tells_its_name_only(void **state)
{
	struct box *b = box_new(1, false);

	(void)state;
	tell_ticket(b, 1, "empty.test", 443);
	assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/"), GRANT_UNAVAILABLE);
	assert_true(str_eq(buf_str(&b->seen.credential), STR("empty")));
	assert_nothing_granted(b);
	LOGGED("\"event\":\"failed\"", "\"credential\":\"empty\"", "no usable value");
	box_free(b);
}

static void a_secret_stays_inside_both_bounds(void **state)
{
	struct box *b = box_new(1, false);

	(void)state;
	tell_ticket(b, 1, "a.b.wide.test", 443);
	tell_ticket(b, 2, "elsewhere.test", 443);
	assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/"), GRANT_DENIED);
	assert_int_equal(ask_grant(b, 2, PROTO_HTTPS, "/"), GRANT_DENIED);
	LOGGED("the policy does not bind", "the settings do not let");
	box_free(b);
}

static void when_the_log_takes_no_record_no_value_goes_out(void **state)
{
	struct box *b = box_new(1, false);

	(void)state;
	tell_ticket(b, 1, "api.test", 443);
	ring_set_refusing(reader, true);
	assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/v1/user"), GRANT_UNAVAILABLE);
	assert_nothing_granted(b);
	ring_set_refusing(reader, false);
	assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/v1/user"), GRANT_OK);
	LOGGED("\"suppressed\":1", "granted");
	box_free(b);
}

static void a_flood_of_refusals_is_counted_into_few_records(void **state)
{
	struct box *b = box_new(1, false);
	struct buf log;

	(void)state;
	for (int i = 0; i < REFUSALS_PER_SECOND + 10; i++)
		assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/"), GRANT_NO_TICKET);
	take_records(&log);
	assert_int_equal(count_of(log.p, "refused"), REFUSALS_PER_SECOND);
	buf_free(&log);
	clock_now++;
	assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/"), GRANT_NO_TICKET);
	LOGGED("\"suppressed\":10");
	box_free(b);
}

static void refusals_that_were_counted_are_told_when_the_sandbox_ends(void **state)
{
	struct box *b = box_new(1, false);

	(void)state;
	for (int i = 0; i < REFUSALS_PER_SECOND + 7; i++)
		assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/"), GRANT_NO_TICKET);
	broker_sandbox_gone(broker, 1);
	LOGGED("\"suppressed\":7");
	box_free(b);
}

static void a_flood_of_grants_costs_its_sandbox_only(void **state)
{
	struct box *b = box_new(1, false), *other = box_new(2, false);
	struct buf log;

	(void)state;
	tell_ticket(b, 1, "api.test", 443);
	tell_ticket(other, 1, "api.test", 443);
	for (int i = 0; i < GRANTS_PER_SECOND; i++) {
		assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/v1/user"), GRANT_OK);
		if (i % 100 == 0) {
			take_records(&log);
			buf_free(&log);
		}
	}
	assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/v1/user"), GRANT_QUOTA);
	assert_nothing_granted(b);
	assert_int_equal(ask_grant(other, 1, PROTO_HTTPS, "/v1/user"), GRANT_OK);
	clock_now++;
	assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/v1/user"), GRANT_OK);
	LOGGED("too many grants");
	box_free(b);
	box_free(other);
}

/* ---- tickets ---- */

static void past_the_ticket_limit_the_connection_has_no_grants_and_the_others_do(void **state)
{
	struct box *b = box_new(1, false);

	(void)state;
	for (uint64_t i = 1; i <= TICKETS_MAX + 5; i++) {
		tell_ticket(b, i, "api.test", 443);
		if (i % 64 == 0)
			settle();
	}
	assert_int_equal(ask_grant(b, TICKETS_MAX + 1, PROTO_HTTPS, "/v1/user"), GRANT_NO_TICKET);
	assert_int_equal(ask_grant(b, TICKETS_MAX, PROTO_HTTPS, "/v1/user"), GRANT_OK);
	assert_int_equal(b->dialer_closed, 0);
	LOGGED("granted", "refused");
	box_free(b);
}

static void a_dialer_that_breaks_the_rules_costs_the_sandbox(void **state)
{
	struct box *b = box_new(1, false);

	(void)state;
	tell_ticket(b, 1, "api.test", 443);
	tell_ticket(b, 1, "mine.test", 443);
	settle();
	assert_int_equal(b->dialer_closed, 1);
	assert_int_equal(b->seen.closed, 1);
	assert_int_equal(broker_sandboxes(broker), 0);
	assert_int_equal(lost_sandbox, 1);
	box_free(b);
}

/* The broker hears of it while it handles the worker's question. */
static void one_that_does_so_while_a_grant_is_asked_for_does_too(void **state)
{
	struct box *b = box_new(1, false);

	(void)state;
	for (int i = 0; i < 3; i++)
		send_grant(b, 1, PROTO_HTTPS, "/v1/user");
	tell_ticket(b, 1, "api.test", 443);
	tell_ticket(b, 1, "mine.test", 443);
	settle();
	assert_int_equal(b->seen.grants, 0);
	assert_int_equal(b->seen.closed, 1);
	assert_int_equal(broker_sandboxes(broker), 0);
	assert_int_equal(lost_sandbox, 1);
	box_free(b);
}

/* ---- leaves ---- */

static void a_leaf_is_signed_for_a_name_that_could_be_allowed(void **state)
{
	struct box *b = box_new(1, false);

	(void)state;
	send_key(b);
	assert_true(ask_leaf(b, STR("api.test"), false));
	assert_leaf_of(b, "api.test");
	assert_true(ask_leaf(b, STR("x.y.wide.test"), false));
	assert_leaf_of(b, "x.y.wide.test");
	assert_true(ask_leaf(b, STR("203.0.113.9"), true));
	box_free(b);
}

static void no_leaf_for_a_name_that_is_denied(void **state)
{
	struct box *b = box_new(1, false);

	(void)state;
	send_key(b);
	assert_false(ask_leaf(b, STR("evil.test"), false));
	assert_false(ask_leaf(b, STR("wide.test"), false));
	assert_false(ask_leaf(b, STR("198.51.100.1"), true));
	box_free(b);
}

static void where_refusals_are_explained_any_name_has_a_leaf(void **state)
{
	struct box *b = box_new(1, true);

	(void)state;
	send_key(b);
	assert_true(ask_leaf(b, STR("evil.test"), false));
	assert_leaf_of(b, "evil.test");
	assert_true(ask_leaf(b, STR("198.51.100.1"), true));
	box_free(b);
}

static void no_leaf_for_what_is_no_canonical_name(void **state)
{
	static const struct str bad[] = { { "", 0 }, { "API.test", 8 }, { "*.wide.test", 11 },
		{ "api.test.", 9 }, { "api.test\0x", 10 }, { "a b", 3 }, { "203.0.113.9", 11 } };
	struct box *b = box_new(1, true);

	(void)state;
	send_key(b);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(ask_leaf(b, bad[i], false));
	assert_false(ask_leaf(b, STR("api.test"), true));
	assert_false(ask_leaf(b, STR("2001:DB8::1"), true));
	box_free(b);
}

static void no_leaf_before_the_key(void **state)
{
	struct box *b = box_new(1, false);

	(void)state;
	assert_false(ask_leaf(b, STR("api.test"), false));
	send_key(b);
	assert_true(ask_leaf(b, STR("api.test"), false));
	box_free(b);
}

static void a_leaf_is_signed_once_a_name_and_again_when_it_is_old(void **state)
{
	struct box *b = box_new(1, false);
	struct buf first;

	(void)state;
	send_key(b);
	assert_true(ask_leaf(b, STR("api.test"), false));
	buf_init(&first, SEEN_MAX);
	buf_put_str(&first, buf_str(&b->seen.der));
	assert_true(ask_leaf(b, STR("mine.test"), false));
	assert_true(ask_leaf(b, STR("api.test"), false));
	assert_true(str_eq(buf_str(&first), buf_str(&b->seen.der)));
	clock_now += 31 * 86400;
	assert_true(ask_leaf(b, STR("api.test"), false));
	assert_false(str_eq(buf_str(&first), buf_str(&b->seen.der)));
	buf_free(&first);
	box_free(b);
}

static void a_worker_with_a_bad_key_is_ended(void **state)
{
	struct box *b = box_new(1, false);
	struct msg_pubkey m = { STR("no key") };

	(void)state;
	assert_int_equal(channel_send(b->worker, MSG_PUBKEY, &m, NULL, 0), OK);
	settle();
	assert_int_equal(b->seen.closed, 1);
	assert_int_equal(b->dialer_closed, 1);
	assert_int_equal(broker_sandboxes(broker), 0);
	box_free(b);
}

static void a_worker_that_sends_its_key_twice_is_ended(void **state)
{
	struct box *b = box_new(1, false);

	(void)state;
	send_key(b);
	send_key(b);
	settle();
	assert_int_equal(b->seen.closed, 1);
	assert_int_equal(broker_sandboxes(broker), 0);
	assert_int_equal(lost_sandbox, 1);
	box_free(b);
}

/* ---- sandboxes ---- */

static void send_packet(int fd, uint16_t type, const void *msg)
{
	struct buf packet;

	buf_init(&packet, MESSAGE_MAX);
	assert_int_equal(message_encode(message_row(exeat_messages, type), msg, &packet), OK);
	while (send(fd, packet.p, packet.n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno == EAGAIN)
		turn();
	buf_free(&packet);
}

static void a_worker_that_ends_leaves_its_sandbox_until_that_is_gone(void **state)
{
	struct box *b = box_new(1, false), *other = box_new(2, false);

	(void)state;
	tell_ticket(b, 1, "api.test", 443);
	settle();
	channel_free(b->worker);
	b->worker = NULL;
	settle();
	tell_ticket(b, 2, "api.test", 443);
	end_ticket(b, 1);
	settle();
	assert_int_equal(broker_sandboxes(broker), 2);
	assert_int_equal(b->dialer_closed, 0);
	assert_int_equal(lost_sandbox, 0);
	broker_sandbox_gone(broker, 1);
	broker_sandbox_gone(broker, 1);
	settle();
	assert_int_equal(broker_sandboxes(broker), 1);
	assert_int_equal(b->dialer_closed, 1);
	assert_int_equal(lost_sandbox, 0);
	tell_ticket(other, 1, "api.test", 443);
	assert_int_equal(ask_grant(other, 1, PROTO_HTTPS, "/v1/user"), GRANT_OK);
	LOGGED("granted");
	box_free(b);
	box_free(other);
}

/* Its answers find nobody. */
static void a_worker_that_ends_with_questions_open_leaves_its_sandbox_too(void **state)
{
	const struct msg_tickets_told told = { 0 };
	const struct msg_leaf leaf = { .id = 1, .name = STR("api.test") };
	int worker, dialer;

	(void)state;
	assert_int_equal(give_sandbox(1, "box", made_policy(false), &worker, &dialer), OK);
	send_packet(worker, MSG_LEAF, &leaf);
	send_packet(worker, MSG_LEAF, &leaf);
	close(worker);
	send_packet(dialer, MSG_TICKETS_TOLD, &told);
	settle();
	assert_int_equal(broker_sandboxes(broker), 1);
	assert_int_equal(lost_sandbox, 0);
	close(dialer);
}

static void a_successor_takes_its_number_over(void **state)
{
	struct box *b = box_new(1, false), *next;

	(void)state;
	tell_ticket(b, 1, "api.test", 443);
	settle();
	next = box_new(1, false);
	settle();
	assert_int_equal(broker_sandboxes(broker), 1);
	assert_int_equal(b->seen.closed, 1);
	assert_int_equal(ask_grant(next, 1, PROTO_HTTPS, "/v1/user"), GRANT_NO_TICKET);
	LOGGED("refused");
	box_free(b);
	box_free(next);
}

static void a_policy_that_does_not_hold_is_no_sandbox(void **state)
{
	int worker, dialer;
	char byte;

	(void)state;
	assert_int_not_equal(give_sandbox(1, "box", made_source(STR("no policy")), &worker, &dialer), OK);
	assert_int_equal(broker_sandboxes(broker), 0);
	assert_int_equal(read(worker, &byte, 1), 0);
	assert_int_equal(read(dialer, &byte, 1), 0);
	close(worker);
	close(dialer);
}

static void a_worker_that_reads_no_answer_is_ended_by_its_queue(void **state)
{
	const struct msg_leaf leaf = { .id = 1, .name = STR("api.test") };
	const struct msg_tickets_told told = { 0 };
	const unsigned enough = 4 * QUEUED_MAX / 800 + 4096;	/* the socket takes some, too */
	struct msg_pubkey m;
	unsigned char *der = NULL;
	int worker, dialer;
	unsigned sent = 0;

	(void)state;
	assert_int_equal(give_sandbox(1, "box", made_policy(false), &worker, &dialer), OK);
	m.spki.n = (size_t)i2d_PUBKEY(key, &der);
	m.spki.p = (char *)der;
	send_packet(dialer, MSG_TICKETS_TOLD, &told);
	send_packet(worker, MSG_PUBKEY, &m);
	OPENSSL_free(der);
	while (sent < enough && broker_sandboxes(broker)) {
		send_packet(worker, MSG_LEAF, &leaf);
		sent++;
	}
	settle();
	assert_true(sent > QUEUED_MAX / 8192);
	assert_true(sent < enough);
	assert_int_equal(broker_sandboxes(broker), 0);
	assert_int_equal(lost_sandbox, 1);
	close(worker);
	close(dialer);
}

static void past_the_sandbox_limit_there_is_no_other(void **state)
{
	struct rlimit many = { 4 * SANDBOXES_MAX, 4 * SANDBOXES_MAX };
	int worker, dialer;

	(void)state;
	if (setrlimit(RLIMIT_NOFILE, &many) < 0)
		skip();
	for (uint32_t i = 0; i <= SANDBOXES_MAX; i++) {
		assert_int_equal(give_sandbox(i, "box", made_policy(false), &worker, &dialer),
				 i < SANDBOXES_MAX ? OK : ERR_FULL);
		close(worker);
		close(dialer);
	}
	assert_int_equal(broker_sandboxes(broker), SANDBOXES_MAX);
	settle();
	assert_int_equal(broker_sandboxes(broker), SANDBOXES_MAX);
	broker_sandbox_gone(broker, 7);
	assert_int_equal(give_sandbox(SANDBOXES_MAX, "box", made_policy(false), &worker, &dialer), OK);
	close(worker);
	close(dialer);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_grant_carries_field_value_and_pattern),
		CASE(basic_is_looked_for_as_base64_too),
		CASE(a_header_credential_uses_its_format),
		CASE(a_rule_without_a_credential_is_no_record),
		CASE(a_ticket_that_was_sent_before_the_grant_is_known_to_it),
		CASE(no_ticket_no_grant),
		CASE(a_ticket_that_has_ended_gives_nothing),
		CASE(a_ticket_of_another_sandbox_gives_nothing),
		CASE(a_ticket_for_another_host_gives_nothing_of_this_one),
		CASE(a_denied_path_gives_nothing),
		CASE(plain_http_gives_nothing_unless_the_rule_says_so),
		CASE(a_secret_without_a_value_fails_and_tells_its_name_only),
		CASE(a_secret_stays_inside_both_bounds),
		CASE(when_the_log_takes_no_record_no_value_goes_out),
		CASE(a_flood_of_refusals_is_counted_into_few_records),
		CASE(refusals_that_were_counted_are_told_when_the_sandbox_ends),
		CASE(a_flood_of_grants_costs_its_sandbox_only),
		CASE(past_the_ticket_limit_the_connection_has_no_grants_and_the_others_do),
		CASE(a_dialer_that_breaks_the_rules_costs_the_sandbox),
		CASE(one_that_does_so_while_a_grant_is_asked_for_does_too),
		CASE(a_leaf_is_signed_for_a_name_that_could_be_allowed),
		CASE(no_leaf_for_a_name_that_is_denied),
		CASE(where_refusals_are_explained_any_name_has_a_leaf),
		CASE(no_leaf_for_what_is_no_canonical_name),
		CASE(no_leaf_before_the_key),
		CASE(a_leaf_is_signed_once_a_name_and_again_when_it_is_old),
		CASE(a_worker_with_a_bad_key_is_ended),
		CASE(a_worker_that_sends_its_key_twice_is_ended),
		CASE(a_worker_that_ends_leaves_its_sandbox_until_that_is_gone),
		CASE(a_worker_that_ends_with_questions_open_leaves_its_sandbox_too),
		CASE(a_successor_takes_its_number_over),
		CASE(a_policy_that_does_not_hold_is_no_sandbox),
		CASE(a_worker_that_reads_no_answer_is_ended_by_its_queue),
		CASE(past_the_sandbox_limit_there_is_no_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
