#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <event2/event.h>
#include <fcntl.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/json.h"
#include "proxy/broker_service.h"
#include "proxy/record.h"
#include "proxy/tickets.h"
#include "sandbox/channel.h"
#include "tests/unit/proxy/made_policy.h"

#define ROUNDS 200
#define SEEN_MAX (1u << 20)

/* What the worker was answered last. */
struct seen {
	unsigned leaves, grants, closed;
	struct msg_leaf_is leaf;
	struct msg_granted granted;
	struct buf der, credential, field, value, patterns[4];
	size_t n_patterns;
};

struct box {
	struct channel *worker, *dialer;
	struct seen seen;
	unsigned dialer_closed;
};

static struct event_base *base;
static struct broker *broker;
static struct ring *reader;
static EVP_PKEY *key;
static uint64_t clock_now;

static uint64_t now(void)
{
	return clock_now;
}

/* ---- the other ends ---- */

static void keep(struct buf *to, struct str s)
{
	buf_free(to);
	buf_init(to, SEEN_MAX);
	buf_put_str(to, s);
}

static void on_answer(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	struct seen *seen = arg;

	(void)fds;
	assert_int_equal(n_fds, 0);
	if (type == MSG_LEAF_IS) {
		memcpy(&seen->leaf, msg, sizeof(seen->leaf));
		keep(&seen->der, seen->leaf.leaf);
		seen->leaves++;
		return;
	}
	assert_int_equal(type, MSG_GRANTED);
	memcpy(&seen->granted, msg, sizeof(seen->granted));
	assert_int_equal(seen->granted.fields.n, seen->granted.values.n);
	keep(&seen->credential, seen->granted.credential);
	keep(&seen->field, seen->granted.fields.n ? seen->granted.fields.v[0] : STR_NONE);
	keep(&seen->value, seen->granted.values.n ? seen->granted.values.v[0] : STR_NONE);
	seen->n_patterns = seen->granted.patterns.n;
	for (size_t i = 0; i < seen->n_patterns; i++)
		keep(&seen->patterns[i], seen->granted.patterns.v[i]);
	seen->grants++;
}

static void on_worker_closed(void *arg, const char *why)
{
	struct seen *seen = arg;

	(void)why;
	seen->closed++;
}

static void on_no_message(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	(void)arg;
	(void)msg;
	(void)fds;
	(void)n_fds;
	fail_msg("the broker told the dialer %u", type);
}

static void on_dialer_closed(void *arg, const char *why)
{
	struct box *b = arg;

	(void)why;
	b->dialer_closed++;
}

static bool turn(void)
{
	return event_base_loop(base, EVLOOP_NONBLOCK) >= 0;
}

static void settle(void)
{
	for (int i = 0; i < 4; i++)
		assert_true(turn());
}

/* ---- sandboxes ---- */

static enum err give_sandbox(uint32_t number, const char *name, int policy, int *worker, int *dialer)
{
	struct msg_sandbox m = { number, str_of(name) };
	int w[2], d[2], fds[FD_SANDBOX_POLICY + 1];
	struct buf pem;
	enum err e;

	assert_int_equal(channel_pair(w), OK);
	assert_int_equal(channel_pair(d), OK);
	fds[FD_SANDBOX_WORKER] = w[1];
	fds[FD_SANDBOX_OTHER] = d[1];
	fds[FD_SANDBOX_POLICY] = policy;
	buf_init(&pem, 8192);
	e = broker_sandbox(broker, &m, fds, FD_SANDBOX_POLICY + 1, &pem);
	if (!e)
		assert_true(str_starts(buf_str(&pem), STR("-----BEGIN CERTIFICATE-----")));
	buf_free(&pem);
	assert_int_equal(fcntl(policy, F_GETFD), -1);
	*worker = w[0];
	*dialer = d[0];
	return e;
}

static struct box *box_new(uint32_t number, bool explain)
{
	struct box *b = calloc(1, sizeof(*b));
	struct channel_peer peer = { .self = ROLE_WORKER, .other = ROLE_BROKER,
				     .table = exeat_messages, .on_message = on_answer,
				     .on_closed = on_worker_closed, .arg = &b->seen };
	int worker, dialer;

	assert_int_equal(give_sandbox(number, "box", made_policy(explain), &worker, &dialer), OK);
	b->worker = channel_new(base, worker, &peer);
	peer = (struct channel_peer){ .self = ROLE_DIALER, .other = ROLE_BROKER, .table = exeat_messages,
				      .on_message = on_no_message, .on_closed = on_dialer_closed, .arg = b };
	b->dialer = channel_new(base, dialer, &peer);
	channel_set_phase(b->worker, PHASE_RUN);
	channel_set_phase(b->dialer, PHASE_RUN);
	return b;
}

static void box_free(struct box *b)
{
	struct seen *s = &b->seen;

	channel_free(b->worker);
	channel_free(b->dialer);
	buf_free(&s->der);
	buf_free(&s->credential);
	buf_free(&s->field);
	buf_free(&s->value);
	for (size_t i = 0; i < 4; i++)
		buf_free(&s->patterns[i]);
	free(b);
	settle();
}

static void tell_ticket(struct box *b, uint64_t number, const char *name, uint16_t port)
{
	struct addr a = { .family = 4, .b = { 203, 0, 113, 7 } };
	char packed[ADDR_PACKED];
	struct msg_ticket m = { .ticket = number, .name = str_of(name), .port = port,
				.addr = made_packed(&a, packed) };

	assert_int_equal(channel_send(b->dialer, MSG_TICKET, &m, NULL, 0), OK);
}

static void end_ticket(struct box *b, uint64_t number)
{
	struct msg_ticket_end m = { number };

	assert_int_equal(channel_send(b->dialer, MSG_TICKET_END, &m, NULL, 0), OK);
}

static void send_grant(struct box *b, uint64_t ticket, enum proto proto, const char *path)
{
	struct msg_grant m = { .id = 77, .ticket = ticket, .proto = (uint8_t)proto, .method = STR("GET"),
			       .path = str_of(path) };

	assert_int_equal(channel_send(b->worker, MSG_GRANT, &m, NULL, 0), OK);
}

static enum grant_status ask_grant(struct box *b, uint64_t ticket, enum proto proto, const char *path)
{
	unsigned before = b->seen.grants;

	send_grant(b, ticket, proto, path);
	for (int i = 0; i < ROUNDS && b->seen.grants == before; i++)
		turn();
	assert_int_equal(b->seen.grants, before + 1);
	assert_int_equal(b->seen.granted.id, 77);
	return b->seen.granted.status;
}

static void send_key(struct box *b)
{
	unsigned char *der = NULL;
	int n = i2d_PUBKEY(key, &der);
	struct msg_pubkey m = { { (char *)der, (size_t)n } };

	assert_int_equal(channel_send(b->worker, MSG_PUBKEY, &m, NULL, 0), OK);
	OPENSSL_free(der);
}

static bool ask_leaf(struct box *b, struct str name, bool literal)
{
	struct msg_leaf m = { .id = 5, .name = name, .literal = literal };
	unsigned before = b->seen.leaves;

	assert_int_equal(channel_send(b->worker, MSG_LEAF, &m, NULL, 0), OK);
	for (int i = 0; i < ROUNDS && b->seen.leaves == before; i++)
		turn();
	assert_int_equal(b->seen.leaves, before + 1);
	assert_int_equal(b->seen.leaf.id, 5);
	assert_int_equal(b->seen.leaf.ok, b->seen.der.n > 0);
	return b->seen.leaf.ok;
}

/* ---- the log ---- */

/* All records since the last call, as JSON, one a line. */
static void take_records(struct buf *out)
{
	struct record_head head;
	struct str bytes;
	struct json j;

	buf_init(out, SEEN_MAX);
	while (ring_next(reader, &bytes) == OK) {
		assert_int_equal(record_check(bytes, ROLE_BROKER, &head), OK);
		/* The recorder stamps it from the record itself, since the broker serves several. */
		assert_non_null(memmem(bytes.p, bytes.n, "box", 3));
		json_init(&j, out);
		json_object(&j);
		json_put_str(&j, "kind", str_of(record_kind_name(head.kind)));
		record_write_fields(bytes, &j);
		json_object_end(&j);
		buf_put_c(out, '\n');
	}
	ring_advance(reader);
	buf_put_c(out, '\0');
	assert_false(out->failed);
}

static size_t count_of(const char *text, const char *part)
{
	size_t n = 0;

	while ((text = strstr(text, part)) != NULL) {
		text += strlen(part);
		n++;
	}
	return n;
}

static void assert_logged(const char *const *parts, size_t n)
{
	struct buf log;

	take_records(&log);
	for (size_t i = 0; i < n; i++)
		if (!strstr(log.p, parts[i]))
			fail_msg("no %s in %s", parts[i], log.p);
	assert_null(strstr(log.p, MADE_SECRET));
	buf_free(&log);
}

#define LOGGED(...) assert_logged((const char *const[]){ __VA_ARGS__ }, \
				  sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

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
	assert_int_equal(b->seen.n_patterns, 1);
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
	assert_int_equal(b->seen.n_patterns, 2);
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

static void a_dialer_that_breaks_the_rules_loses_its_word(void **state)
{
	struct box *b = box_new(1, false);

	(void)state;
	tell_ticket(b, 1, "api.test", 443);
	tell_ticket(b, 1, "mine.test", 443);
	assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/v1/user"), GRANT_NO_TICKET);
	settle();
	assert_int_equal(b->dialer_closed, 1);
	assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/v1/user"), GRANT_NO_TICKET);
	LOGGED("refused");
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
	assert_int_equal(ask_grant(b, 1, PROTO_HTTPS, "/v1/user"), GRANT_NO_TICKET);
	assert_int_equal(broker_sandboxes(broker), 1);
	LOGGED("granted", "refused");
	box_free(b);
}

/* ---- leaves ---- */

static void assert_leaf_of(struct box *b, const char *name)
{
	const unsigned char *p = (const unsigned char *)b->seen.der.p;
	X509 *x = d2i_X509(NULL, &p, (long)b->seen.der.n);

	assert_non_null(x);
	assert_int_equal(X509_check_host(x, name, 0, 0, NULL), 1);
	assert_int_equal(EVP_PKEY_eq(X509_get0_pubkey(x), key), 1);
	X509_free(x);
}

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
	box_free(b);
}

/* ---- sandboxes ---- */

static void the_end_of_a_worker_is_the_end_of_its_state(void **state)
{
	struct box *b = box_new(1, false), *other = box_new(2, false);

	(void)state;
	tell_ticket(b, 1, "api.test", 443);
	settle();
	assert_int_equal(broker_sandboxes(broker), 2);
	channel_free(b->worker);
	b->worker = NULL;
	settle();
	assert_int_equal(broker_sandboxes(broker), 1);
	assert_int_equal(b->dialer_closed, 1);
	tell_ticket(other, 1, "api.test", 443);
	assert_int_equal(ask_grant(other, 1, PROTO_HTTPS, "/v1/user"), GRANT_OK);
	LOGGED("granted");
	box_free(b);
	box_free(other);
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

/* ---- */

static int open_ring(struct ring **writer)
{
	struct ring_fds made, theirs;

	if (ring_create(&made) != OK)
		return 1;
	theirs = (struct ring_fds){ fcntl(made.memory, F_DUPFD_CLOEXEC, 0), fcntl(made.wake, F_DUPFD_CLOEXEC, 0),
				    fcntl(made.room, F_DUPFD_CLOEXEC, 0) };
	return ring_open_writer(&made, writer) != OK || ring_open_reader(&theirs, &reader) != OK;
}

static void add_secret(struct str name, struct str text)
{
	struct msg_secret m = { .name = name, .source = SECRET_FROM_ENV, .hosts = STR(MADE_HOSTS) };
	int fd = made_source(text);
	const char *why;

	assert_int_equal(secret_table_read(broker_secrets(broker), &m, fd, &why), text.n ? OK : ERR_SYNTAX);
	close(fd);
}

static int set_up(void **state)
{
	struct ring *writer = NULL;

	(void)state;
	clock_now = 1000;
	base = event_base_new();
	key = EVP_EC_gen("P-256");
	if (!base || !key || open_ring(&writer))
		return 1;
	broker = broker_new(base, writer, now);
	add_secret(STR("pat"), STR(MADE_SECRET));
	add_secret(STR("empty"), STR(""));
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	broker_free(broker);
	ring_close(reader);
	event_base_free(base);
	EVP_PKEY_free(key);
	return 0;
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
		CASE(a_flood_of_grants_costs_its_sandbox_only),
		CASE(past_the_ticket_limit_the_connection_has_no_grants_and_the_others_do),
		CASE(a_dialer_that_breaks_the_rules_loses_its_word),
		CASE(a_dialer_that_dies_takes_its_tickets_with_it),
		CASE(a_leaf_is_signed_for_a_name_that_could_be_allowed),
		CASE(no_leaf_for_a_name_that_is_denied),
		CASE(where_refusals_are_explained_any_name_has_a_leaf),
		CASE(no_leaf_for_what_is_no_canonical_name),
		CASE(no_leaf_before_the_key),
		CASE(a_leaf_is_signed_once_a_name_and_again_when_it_is_old),
		CASE(a_worker_with_a_bad_key_is_ended),
		CASE(a_worker_that_sends_its_key_twice_is_ended),
		CASE(the_end_of_a_worker_is_the_end_of_its_state),
		CASE(a_successor_takes_its_number_over),
		CASE(a_policy_that_does_not_hold_is_no_sandbox),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
