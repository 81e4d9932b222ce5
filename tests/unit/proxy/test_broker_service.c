#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "tests/unit/proxy/broker_harness.h"

static void assert_nothing_granted(const struct box *b)
{
	assert_int_equal(b->seen.granted.fields.n, 0);
	assert_int_equal(b->seen.granted.values.n, 0);
	assert_int_equal(b->seen.n_patterns, 0);
}

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
	assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/v1/user"), GRANT_UNAVAILABLE);
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

/* ---- successors ---- */

static void assert_leaf_of(struct box *b, const char *name)
{
	const unsigned char *p = (const unsigned char *)b->seen.der.p;
	X509 *x = d2i_X509(NULL, &p, (long)b->seen.der.n);

	assert_non_null(x);
	assert_int_equal(X509_check_host(x, name, 0, 0, NULL), 1);
	assert_int_equal(EVP_PKEY_eq(X509_get0_pubkey(x), key), 1);
	X509_free(x);
}

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
