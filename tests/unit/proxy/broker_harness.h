/* tests/unit/proxy/broker_harness.h - a broker with a real ring, and the other ends of its channels
 *
 * struct box is one sandbox's worker and dialer as the test plays them; what the worker was answered
 * is in its struct seen. set_up() and tear_down() make and free all of it for each case.
 */
#ifndef BROKER_HARNESS_H
#define BROKER_HARNESS_H

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

#define GRANTS_PER_SECOND 300
#define QUEUED_MAX (256u << 10)
#define JOIN 5	/* of each sandbox: said again where it is lost */

#define ROUNDS 200
#define SEEN_MAX (1u << 20)
#define SEEN_PATTERNS 16

/* What the worker was answered last. */
struct seen {
	unsigned leaves, grants, closed;
	struct msg_leaf_is leaf;
	struct msg_granted granted;
	struct buf der, credential, field, value, patterns[SEEN_PATTERNS];
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

static inline uint64_t now(void)
{
	return clock_now;
}

/* ---- the other ends ---- */

static inline void keep(struct buf *to, struct str s)
{
	buf_free(to);
	buf_init(to, SEEN_MAX);
	buf_put_str(to, s);
}

static inline void on_answer(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
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

static inline void on_worker_closed(void *arg, const char *why)
{
	struct seen *seen = arg;

	(void)why;
	seen->closed++;
}

static inline void on_no_message(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	(void)arg;
	(void)msg;
	(void)fds;
	(void)n_fds;
	fail_msg("the broker told the dialer %u", type);
}

static inline void on_dialer_closed(void *arg, const char *why)
{
	struct box *b = arg;

	(void)why;
	b->dialer_closed++;
}

static inline bool turn(void)
{
	return event_base_loop(base, EVLOOP_NONBLOCK) >= 0;
}

static inline void settle(void)
{
	for (int i = 0; i < 4; i++)
		assert_true(turn());
}

/* ---- sandboxes ---- */

/* What was told of the CA of the sandbox that was given last. */
static struct broker_ca given_ca;

/* @ca: sealed, or empty. */
static inline enum err give_sealed(uint32_t number, const char *name, struct str ca, int policy, int *worker,
			    int *dialer)
{
	struct msg_sandbox m = { .sandbox = number, .join = JOIN, .name = str_of(name), .ca = ca };
	int w[2], d[2], fds[FD_SANDBOX_POLICY + 1];
	struct broker_ca told;
	enum err e;

	assert_int_equal(channel_pair(w), OK);
	assert_int_equal(channel_pair(d), OK);
	fds[FD_SANDBOX_WORKER] = w[1];
	fds[FD_SANDBOX_OTHER] = d[1];
	fds[FD_SANDBOX_POLICY] = policy;
	e = broker_sandbox(broker, &m, fds, FD_SANDBOX_POLICY + 1, &told);
	broker_ca_free(&given_ca);
	given_ca = told;
	if (e)
		assert_int_equal(told.pem.n + told.sealed.n, 0);
	else
		assert_true(str_starts(buf_str(&told.pem), STR("-----BEGIN CERTIFICATE-----")));
	assert_int_equal(fcntl(policy, F_GETFD), -1);
	*worker = w[0];
	*dialer = d[0];
	return e;
}

static inline enum err give_sandbox(uint32_t number, const char *name, int policy, int *worker, int *dialer)
{
	return give_sealed(number, name, STR_NONE, policy, worker, dialer);
}

static inline void tell_told(struct box *b)
{
	const struct msg_tickets_told m = { 0 };

	assert_int_equal(channel_send(b->dialer, MSG_TICKETS_TOLD, &m, NULL, 0), OK);
}

static inline void play_dialer(struct box *b, int fd)
{
	const struct channel_peer peer = { .self = ROLE_DIALER, .other = ROLE_BROKER,
					   .table = exeat_messages, .on_message = on_no_message,
					   .on_closed = on_dialer_closed, .arg = b };

	b->dialer = channel_new(base, fd, &peer);
	channel_set_phase(b->dialer, PHASE_RUN);
}

/* The dialer has told no ticket yet. */
static inline struct box *box_new_untold(uint32_t number, struct str ca, bool explain)
{
	struct box *b = calloc(1, sizeof(*b));
	struct channel_peer peer = { .self = ROLE_WORKER, .other = ROLE_BROKER,
				     .table = exeat_messages, .on_message = on_answer,
				     .on_closed = on_worker_closed, .arg = &b->seen };
	int worker, dialer;

	assert_int_equal(give_sealed(number, "box", ca, made_policy(explain), &worker, &dialer), OK);
	b->worker = channel_new(base, worker, &peer);
	channel_set_phase(b->worker, PHASE_RUN);
	channel_gather(b->worker);
	play_dialer(b, dialer);
	return b;
}

static inline struct box *box_new(uint32_t number, bool explain)
{
	struct box *b = box_new_untold(number, STR_NONE, explain);

	tell_told(b);
	settle();
	return b;
}

static inline void box_free(struct box *b)
{
	struct seen *s = &b->seen;

	channel_free(b->worker);
	channel_free(b->dialer);
	buf_free(&s->der);
	buf_free(&s->credential);
	buf_free(&s->field);
	buf_free(&s->value);
	for (size_t i = 0; i < SEEN_PATTERNS; i++)
		buf_free(&s->patterns[i]);
	free(b);
	settle();
}

static inline void tell_ticket(struct box *b, uint64_t number, const char *name, uint16_t port)
{
	struct addr a = { .family = 4, .b = { 203, 0, 113, 7 } };
	char packed[ADDR_PACKED];
	struct msg_ticket m = { .ticket = number, .name = str_of(name), .port = port,
				.addr = made_packed(&a, packed) };

	assert_int_equal(channel_send(b->dialer, MSG_TICKET, &m, NULL, 0), OK);
}

static inline void end_ticket(struct box *b, uint64_t number)
{
	struct msg_ticket_end m = { number };

	assert_int_equal(channel_send(b->dialer, MSG_TICKET_END, &m, NULL, 0), OK);
}

static inline void send_grant(struct box *b, uint64_t ticket, enum proto proto, const char *path)
{
	struct msg_grant m = { .id = 77, .ticket = ticket, .proto = (uint8_t)proto, .method = STR("GET"),
			       .path = str_of(path) };

	assert_int_equal(channel_send(b->worker, MSG_GRANT, &m, NULL, 0), OK);
}

static inline enum grant_status ask_grant(struct box *b, uint64_t ticket, enum proto proto, const char *path)
{
	unsigned before = b->seen.grants;

	send_grant(b, ticket, proto, path);
	for (int i = 0; i < ROUNDS && b->seen.grants == before; i++)
		turn();
	assert_int_equal(b->seen.grants, before + 1);
	assert_int_equal(b->seen.granted.id, 77);
	return b->seen.granted.status;
}

static inline void send_key(struct box *b)
{
	unsigned char *der = NULL;
	int n = i2d_PUBKEY(key, &der);
	struct msg_pubkey m = { { (char *)der, (size_t)n } };

	assert_int_equal(channel_send(b->worker, MSG_PUBKEY, &m, NULL, 0), OK);
	OPENSSL_free(der);
}

static inline bool ask_leaf(struct box *b, struct str name, bool literal)
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

static inline void assert_nothing_granted(const struct box *b)
{
	assert_int_equal(b->seen.granted.fields.n, 0);
	assert_int_equal(b->seen.granted.values.n, 0);
	assert_int_equal(b->seen.n_patterns, 0);
}

static inline void assert_leaf_of(struct box *b, const char *name)
{
	const unsigned char *p = (const unsigned char *)b->seen.der.p;
	X509 *x = d2i_X509(NULL, &p, (long)b->seen.der.n);

	assert_non_null(x);
	assert_int_equal(X509_check_host(x, name, 0, 0, NULL), 1);
	assert_int_equal(EVP_PKEY_eq(X509_get0_pubkey(x), key), 1);
	X509_free(x);
}

/* ---- the log ---- */

/* All records since the last call, as JSON, one a line. */
static inline void take_records(struct buf *out)
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

static inline size_t count_of(const char *text, const char *part)
{
	size_t n = 0;

	while ((text = strstr(text, part)) != NULL) {
		text += strlen(part);
		n++;
	}
	return n;
}

static inline void assert_logged(const char *const *parts, size_t n)
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

/* ---- set up ---- */

static inline int open_ring(struct ring **writer)
{
	struct ring_fds made, theirs;

	if (ring_create(&made) != OK)
		return 1;
	theirs = (struct ring_fds){ fcntl(made.memory, F_DUPFD_CLOEXEC, 0), fcntl(made.wake, F_DUPFD_CLOEXEC, 0),
				    fcntl(made.room, F_DUPFD_CLOEXEC, 0) };
	return ring_open_writer(&made, writer) != OK || ring_open_reader(&theirs, &reader) != OK;
}

static inline void add_secret(struct str name, struct str text)
{
	struct msg_secret m = { .name = name, .source = SECRET_FROM_ENV, .hosts = STR(MADE_HOSTS) };
	int fd = made_source(text);
	const char *why;

	assert_int_equal(secret_table_read(broker_secrets(broker), &m, fd, &why), text.n ? OK : ERR_SYNTAX);
	close(fd);
}

/* The sandbox whose loss was told last. */
static uint32_t lost_sandbox;

static inline struct seal_key *made_seal_key(char fill)
{
	char bytes[SEAL_KEY_BYTES];
	struct seal_key *k = NULL;
	int fd;

	memset(bytes, fill, sizeof(bytes));
	fd = made_source(str_n(bytes, sizeof(bytes)));
	assert_int_equal(seal_key_read(fd, &k), OK);
	close(fd);
	return k;
}

static inline void on_lost(void *arg, uint32_t sandbox, uint32_t join, const char *why)
{
	(void)arg;
	(void)why;
	assert_int_equal(join, JOIN);
	lost_sandbox = sandbox;
}

static inline int set_up(void **state)
{
	struct ring *writer = NULL;

	(void)state;
	clock_now = 1000;
	base = event_base_new();
	key = EVP_EC_gen("P-256");
	if (!base || !key || open_ring(&writer))
		return 1;
	broker = broker_new(base, writer, made_seal_key('k'), now);
	lost_sandbox = 0;
	if (broker) {
		broker_on_lost(broker, on_lost, NULL);
		broker_limit(broker, GRANTS_PER_SECOND, QUEUED_MAX);
	}
	add_secret(STR("pat"), STR(MADE_SECRET));
	add_secret(STR("empty"), STR(""));
	return 0;
}

static inline int tear_down(void **state)
{
	(void)state;
	broker_free(broker);
	broker_ca_free(&given_ca);
	ring_close(reader);
	event_base_free(base);
	EVP_PKEY_free(key);
	return 0;
}

#endif
