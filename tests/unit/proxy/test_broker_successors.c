/* The broker and its sandboxes over deaths: its own, its dialer's, its worker's; and over a new policy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/socket.h>

#include "tests/unit/proxy/broker_harness.h"

static void open_peer(struct box *b, uint32_t number)
{
	const struct msg_peer m = { .sandbox = number, .role = ROLE_DIALER };
	int ends[2];

	assert_int_equal(channel_pair(ends), OK);
	assert_int_equal(broker_peer(broker, &m, ends[1]), OK);
	channel_free(b->dialer);
	play_dialer(b, ends[0]);
}

static void a_worker_is_heard_when_its_dialer_has_told_its_tickets(void **state)
{
	struct box *b = box_new_untold(1, STR_NONE, false);

	(void)state;
	send_key(b);
	send_grant(b, 1, PROTO_HTTPS, "/v1/user");
	settle();
	tell_ticket(b, 2, "mine.test", 443);
	tell_ticket(b, 1, "api.test", 443);
	settle();
	assert_int_equal(b->seen.grants, 0);
	tell_told(b);
	settle();
	assert_int_equal(b->seen.grants, 1);
	assert_int_equal(b->seen.granted.status, GRANT_OK);
	assert_true(ask_leaf(b, STR("api.test"), false));
	LOGGED("granted");
	box_free(b);
}

static void a_dialer_that_dies_takes_its_tickets_with_it(void **state)
{
	struct box *b = box_new(1, false);

	(void)state;
	tell_ticket(b, 1, "api.test", 443);
	assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/v1/user"), GRANT_OK);
	channel_free(b->dialer);
	b->dialer = NULL;
	settle();
	assert_int_equal(broker_sandboxes(broker), 1);
	assert_int_equal(b->seen.closed, 0);
	assert_int_equal(lost_sandbox, 0);
	open_peer(b, 1);
	tell_told(b);
	assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/v1/user"), GRANT_NO_TICKET);
	LOGGED("granted", "refused");
	box_free(b);
}

/* The worker has a connection of the new dialer before the broker has heard of that one. */
static void what_is_asked_between_two_dialers_is_answered_when_the_next_has_told(void **state)
{
	struct box *b = box_new(1, false);

	(void)state;
	channel_free(b->dialer);
	b->dialer = NULL;
	settle();
	send_grant(b, 5, PROTO_HTTPS, "/v1/user");
	settle();
	assert_int_equal(b->seen.grants, 0);
	open_peer(b, 1);
	tell_told(b);
	tell_ticket(b, 5, "api.test", 443);
	settle();
	assert_int_equal(b->seen.grants, 1);
	assert_int_equal(b->seen.granted.status, GRANT_OK);
	LOGGED("granted");
	box_free(b);
}

static void a_dialers_successor_takes_the_place_of_one_whose_end_was_not_seen_yet(void **state)
{
	struct box *b = box_new(1, false);

	(void)state;
	tell_ticket(b, 1, "api.test", 443);
	settle();
	open_peer(b, 1);
	tell_told(b);
	tell_ticket(b, 2, "api.test", 443);
	assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/v1/user"), GRANT_NO_TICKET);
	assert_int_equal(ask_grant(b, 2, PROTO_HTTPS, "/v1/user"), GRANT_OK);
	LOGGED("granted", "refused");
	box_free(b);
}

static void a_peer_for_nobody_is_closed(void **state)
{
	const struct msg_peer unknown = { .sandbox = 9, .role = ROLE_DIALER },
			      no_dialer = { .sandbox = 1, .role = ROLE_WORKER };
	struct box *b = box_new(1, false);
	char byte;
	int ends[2];

	(void)state;
	assert_int_equal(channel_pair(ends), OK);
	assert_int_equal(broker_peer(broker, &unknown, ends[1]), ERR_NOTFOUND);
	assert_int_equal(read(ends[0], &byte, 1), 0);
	close(ends[0]);
	assert_int_equal(channel_pair(ends), OK);
	assert_int_equal(broker_peer(broker, &no_dialer, ends[1]), ERR_NOTFOUND);
	assert_int_equal(read(ends[0], &byte, 1), 0);
	close(ends[0]);
	assert_int_equal(b->dialer_closed, 0);
	box_free(b);
}

/* The broker that comes after one that died, with a ring of its own. */
static void replace_broker(char seal_fill)
{
	struct ring *writer = NULL;

	broker_free(broker);
	ring_close(reader);
	assert_int_equal(open_ring(&writer), 0);
	broker = broker_new(base, writer, made_seal_key(seal_fill), now);
	broker_limit(broker, GRANTS_PER_SECOND, QUEUED_MAX);
	assert_non_null(broker);
	broker_limit(broker, GRANTS_PER_SECOND, QUEUED_MAX);
	broker_on_lost(broker, on_lost, NULL);
	add_secret(STR("pat"), STR(MADE_SECRET));
}

/* What the supervisor keeps of the CA that was told last. */
static void keep_ca(struct buf *pem, struct buf *sealed)
{
	buf_init(pem, SEEN_MAX);
	buf_init(sealed, SEEN_MAX);
	buf_put_str(pem, buf_str(&given_ca.pem));
	buf_put_str(sealed, buf_str(&given_ca.sealed));
	assert_int_not_equal(sealed->n, 0);
}

static void a_brokers_successor_has_the_ca_that_the_box_trusts(void **state)
{
	struct box *b = box_new(1, false);
	struct buf pem, sealed;

	(void)state;
	keep_ca(&pem, &sealed);
	replace_broker('k');
	box_free(b);
	b = box_new_untold(1, buf_str(&sealed), false);
	assert_true(str_eq(buf_str(&pem), buf_str(&given_ca.pem)));
	assert_int_not_equal(given_ca.sealed.n, 0);
	tell_ticket(b, 1, "api.test", 443);
	tell_told(b);
	send_key(b);
	assert_true(ask_leaf(b, STR("api.test"), false));
	assert_leaf_of(b, "api.test");
	assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/v1/user"), GRANT_OK);
	LOGGED("granted");
	box_free(b);
	buf_free(&pem);
	buf_free(&sealed);
}

static void a_workers_successor_has_its_own_key_and_the_same_ca(void **state)
{
	struct box *b = box_new(1, false);
	struct buf pem, sealed;

	(void)state;
	keep_ca(&pem, &sealed);
	send_key(b);
	assert_true(ask_leaf(b, STR("api.test"), false));
	broker_sandbox_gone(broker, 1);
	settle();
	assert_int_equal(b->seen.closed, 1);
	box_free(b);
	b = box_new_untold(1, buf_str(&sealed), false);
	assert_true(str_eq(buf_str(&pem), buf_str(&given_ca.pem)));
	EVP_PKEY_free(key);
	key = EVP_EC_gen("P-256");
	tell_told(b);
	assert_false(ask_leaf(b, STR("api.test"), false));
	send_key(b);
	assert_true(ask_leaf(b, STR("api.test"), false));
	assert_leaf_of(b, "api.test");
	box_free(b);
	buf_free(&pem);
	buf_free(&sealed);
}

static void assert_refused(uint32_t number, const char *name, struct str ca)
{
	int worker, dialer;
	char byte;

	assert_int_equal(give_sealed(number, name, ca, made_policy(false), &worker, &dialer), ERR_SYNTAX);
	assert_int_equal(given_ca.pem.n + given_ca.sealed.n, 0);
	assert_int_equal(broker_sandboxes(broker), 0);
	assert_int_equal(read(worker, &byte, 1), 0);
	assert_int_equal(read(dialer, &byte, 1), 0);
	close(worker);
	close(dialer);
}

static void a_sealed_ca_that_does_not_open_is_no_sandbox_and_no_new_ca(void **state)
{
	struct buf pem, sealed;
	int worker, dialer;

	(void)state;
	assert_int_equal(give_sandbox(1, "box", made_policy(false), &worker, &dialer), OK);
	close(worker);
	close(dialer);
	keep_ca(&pem, &sealed);
	broker_sandbox_gone(broker, 1);
	assert_refused(2, "box", buf_str(&sealed));
	assert_refused(1, "other", buf_str(&sealed));
	assert_refused(1, "box", STR("sealed"));
	sealed.p[sealed.n - 1] ^= 1;
	assert_refused(1, "box", buf_str(&sealed));
	sealed.p[sealed.n - 1] ^= 1;
	replace_broker('o');
	assert_refused(1, "box", buf_str(&sealed));
	buf_free(&pem);
	buf_free(&sealed);
}

/* ---- a new policy ---- */

/* Allows api.test without a credential, and nothing else. */
static int other_policy(void)
{
	const struct build_credential api = { .name = STR("api"), .secret = STR("pat"), .kind = CREDENTIAL_BEARER,
					      .header = STR("authorization"), LIST(STR("api.test")) };
	const struct build_rule rule = HTTPS_RULE("other", NO_CREDENTIAL, LIST(STR("api.test")));
	struct policy_build *b = policy_build_new(STR("other.yaml"), false);
	int fd = memfd_create("policy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	uint32_t index;

	assert_int_equal(policy_build_credential(b, &api, &index), OK);
	assert_int_equal(policy_build_rule(b, &rule), OK);
	assert_int_equal(policy_build_finish(b, fd), OK);
	policy_build_free(b);
	return fd;
}

static enum err give_policy(uint32_t number, int fd)
{
	const struct msg_policy m = { .sandbox = number };
	enum err e = broker_policy(broker, &m, &fd, 1);

	assert_int_equal(fcntl(fd, F_GETFD), -1);
	return e;
}

static void grants_are_decided_by_the_new_policy(void **state)
{
	struct box *b = box_new(1, false), *neighbour = box_new(2, false);

	(void)state;
	tell_ticket(b, 1, "api.test", 443);
	tell_ticket(b, 2, "mine.test", 443);
	tell_ticket(neighbour, 1, "api.test", 443);
	assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/v1/user"), GRANT_OK);
	assert_int_equal(give_policy(1, other_policy()), OK);
	assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/v1/user"), GRANT_NONE);
	assert_nothing_granted(b);
	assert_int_equal(ask_grant(b, 2, PROTO_HTTPS, "/"), GRANT_DENIED);
	assert_int_equal(ask_grant(neighbour, 1, PROTO_HTTPS, "/v1/user"), GRANT_OK);
	assert_int_equal(give_policy(1, made_policy(false)), OK);
	assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/v1/user"), GRANT_OK);
	LOGGED("granted", "refused");
	box_free(b);
	box_free(neighbour);
}

static void under_a_new_policy_a_name_that_is_still_possible_keeps_its_leaf_and_no_other_has_one(void **state)
{
	struct box *b = box_new(1, false);
	struct buf first;

	(void)state;
	send_key(b);
	assert_true(ask_leaf(b, STR("mine.test"), false));
	assert_true(ask_leaf(b, STR("api.test"), false));
	buf_init(&first, SEEN_MAX);
	buf_put_str(&first, buf_str(&b->seen.der));
	assert_int_equal(give_policy(1, other_policy()), OK);
	assert_false(ask_leaf(b, STR("mine.test"), false));
	assert_true(ask_leaf(b, STR("api.test"), false));
	assert_true(str_eq(buf_str(&first), buf_str(&b->seen.der)));
	buf_free(&first);
	box_free(b);
}

static void a_policy_that_does_not_map_changes_nothing(void **state)
{
	struct box *b = box_new(1, false);

	(void)state;
	tell_ticket(b, 1, "api.test", 443);
	assert_int_equal(give_policy(1, made_source(STR("no policy"))), ERR_SYNTAX);
	assert_int_equal(give_policy(9, other_policy()), ERR_NOTFOUND);
	assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/v1/user"), GRANT_OK);
	LOGGED("granted");
	box_free(b);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_worker_is_heard_when_its_dialer_has_told_its_tickets),
		CASE(a_dialer_that_dies_takes_its_tickets_with_it),
		CASE(what_is_asked_between_two_dialers_is_answered_when_the_next_has_told),
		CASE(a_dialers_successor_takes_the_place_of_one_whose_end_was_not_seen_yet),
		CASE(a_peer_for_nobody_is_closed),
		CASE(a_brokers_successor_has_the_ca_that_the_box_trusts),
		CASE(a_workers_successor_has_its_own_key_and_the_same_ca),
		CASE(a_sealed_ca_that_does_not_open_is_no_sandbox_and_no_new_ca),
		CASE(grants_are_decided_by_the_new_policy),
		CASE(under_a_new_policy_a_name_that_is_still_possible_keeps_its_leaf_and_no_other_has_one),
		CASE(a_policy_that_does_not_map_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
