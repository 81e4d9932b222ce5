/* tests/unit/proxy/engine_rig.h - a whole worker's engine in one process
 *
 * Real: connections, exchanges, TLS, policy, leases, the ring, the channels. Stand-ins at the other
 * ends of the channels answer as dialer and broker; an origin and a client follow the test's script.
 * The box goes to 127.64.0.0/16, where each leased name has an address; the origin listens on
 * 127.0.0.1 and is said to be 203.0.113.10. Waiting is rig_until(), with a limit, never a sleep.
 */
#ifndef TESTS_ENGINE_RIG_H
#define TESTS_ENGINE_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/ca.h"
#include "conf/json.h"
#include "policy/build.h"
#include "proxy/clock.h"
#include "proxy/connections.h"
#include "proxy/peers.h"
#include "proxy/tls_io.h"

#define RIG_LIMIT_S 3
#define RIG_GOT_MAX (64u << 20)
#define RIG_ORIGINS 300
#define HELPER __attribute__((unused)) static
#define SECRET "s3cr3t-value-of-the-token"

struct rig;

/* One connection that the origin has accepted. */
struct peer {
	struct rig *rig;
	struct stream *stream;
	struct buf got;
	bool ended, clean;
	size_t requests;
	void (*script)(struct peer *);
	int step;
};

struct rig {
	struct event_base *base;
	struct event *limit;
	bool late;
	struct worker w;
	struct channel *dialer, *broker;	/* the stand-ins' ends */
	struct ring *reader;
	struct buf log;
	uint16_t port;
	/* origin */
	int origin_fd;
	uint16_t origin_port;
	struct event *origin_ready;
	struct peer origin[RIG_ORIGINS];
	size_t n_origins;
	bool origin_tls;
	SSL_CTX *origin_ctx;
	struct ca *origin_ca, *box_ca;
	void (*script)(struct peer *);
	const char *reply;
	/* dialer, broker */
	enum dial_status dial_status;
	unsigned dials, hangups, leafs, grants, keys;
	unsigned void_tickets;	/* so many grants more are for tickets that nobody knows */
	enum grant_status grant_status;
	bool no_leaf;
	SSL_CTX *client_ctx;
	char trust_path[64];
};

HELPER void read_log(struct rig *r);

HELPER void on_late(evutil_socket_t fd, short what, void *arg)
{
	struct rig *r = arg;

	(void)fd;
	(void)what;
	r->late = true;
}

/* Runs the loop until the condition holds; fails the test when that takes too long. */
#define rig_until(r, condition)                                                                   \
	do {                                                                                      \
		struct timeval tv_ = { .tv_sec = RIG_LIMIT_S };                                   \
		(r)->late = false;                                                                \
		event_add((r)->limit, &tv_);                                                      \
		while (!(condition) && !(r)->late)                                                \
			event_base_loop((r)->base, EVLOOP_ONCE);                                  \
		event_del((r)->limit);                                                            \
		if (!(condition))                                                                 \
			{ read_log(r); fprintf(stderr, "%.*s\n", STR_ARG(buf_str(&(r)->log))); fail_msg("waited too long for %s", #condition);}                           \
	} while (0)

/* ---- peers: the client and the origin's connections ---- */

HELPER bool peer_has(const struct peer *p, const char *text)
{
	return p->got.n && memmem(p->got.p, p->got.n, text, strlen(text)) != NULL;
}

HELPER void peer_wake(void *arg)
{
	struct peer *p = arg;
	struct str in = stream_in(p->stream);

	buf_put_str(&p->got, in);
	stream_take(p->stream, in.n);
	p->ended = stream_ended(p->stream, &p->clean) || stream_failed(p->stream);
	if (p->script)
		p->script(p);
	if (p->stream)
		stream_settle(p->stream);
}

HELPER void peer_open(struct peer *p, struct rig *r, int fd, SSL_CTX *ctx, const char *sni, bool server)
{
	SSL *ssl;

	*p = (struct peer){ .rig = r };
	buf_init(&p->got, RIG_GOT_MAX);
	p->stream = stream_new(r->base, fd, peer_wake, p);
	assert_non_null(p->stream);
	if (ctx) {
		BIO *bio = tls_io_new(fd, STR_NONE);

		ssl = SSL_new(ctx);
		SSL_set_bio(ssl, bio, bio);
		if (server)
			SSL_set_accept_state(ssl);
		else
			SSL_set_connect_state(ssl);
		if (sni) {
			SSL_set_tlsext_host_name(ssl, sni);
			assert_int_equal(SSL_set1_host(ssl, sni), 1);
		}
		stream_start_tls(p->stream, ssl);
	}
	stream_settle(p->stream);
}

HELPER void peer_send(struct peer *p, const char *text)
{
	buf_put_str(stream_out(p->stream), str_of(text));
	stream_settle(p->stream);
}

HELPER void peer_close(struct peer *p)
{
	stream_free(p->stream);
	p->stream = NULL;
	buf_free(&p->got);
}

HELPER void peer_reset(struct peer *p)
{
	stream_abort(p->stream);
	stream_free(p->stream);
	p->stream = NULL;
	buf_free(&p->got);
}

/* The default script: each whole request (by its head alone, or with Content-Length or a last chunk)
 * is answered with the rig's reply. */
HELPER void answer_each(struct peer *p)
{
	char *head = p->got.n ? memmem(p->got.p, p->got.n, "\r\n\r\n", 4) : NULL;
	size_t whole = head ? (size_t)(head - p->got.p) + 4 : 0;

	if (!head || p->requests)
		return;
	if (peer_has(p, "transfer-encoding: chunked") &&
	    !(peer_has(p, "\r\n0\r\n") && memcmp(p->got.p + p->got.n - 4, "\r\n\r\n", 4) == 0))
		return;
	if (peer_has(p, "content-length: ")) {
		char *at = memmem(p->got.p, p->got.n, "content-length: ", 16);

		if (p->got.n < whole + strtoul(at + 16, NULL, 10))
			return;
	}
	p->requests++;
	buf_put_str(stream_out(p->stream), str_of(p->rig->reply));
}

HELPER void on_origin(evutil_socket_t fd, short what, void *arg)
{
	struct rig *r = arg;
	int got = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct peer *p;

	(void)what;
	assert_true(got >= 0);
	assert_true(r->n_origins < RIG_ORIGINS);
	p = &r->origin[r->n_origins++];
	peer_open(p, r, got, r->origin_tls ? r->origin_ctx : NULL, NULL, true);
	p->script = r->script;
	if (p->script)
		p->script(p);
	if (p->stream)
		stream_settle(p->stream);
}

/* ---- stand-ins ---- */

HELPER int dial_origin(struct rig *r)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(r->origin_port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

HELPER void on_dialer(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	struct rig *r = arg;
	const struct msg_dial *m = msg;
	char packed[ADDR_PACKED] = { 4, (char)203, 0, 113, 10 };
	struct msg_dialed a = { .status = (uint8_t)r->dial_status, .addr = str_n(packed, sizeof(packed)),
				.attempts = STR("203.0.113.10: as scripted") };
	int fd;

	(void)fds;
	(void)n_fds;
	if (type == MSG_HANGUP) {
		r->hangups++;
		return;
	}
	assert_int_equal(type, MSG_DIAL);
	a.id = m->id;
	if (m->literal) {
		struct addr literal;

		assert_true(addr_parse(m->name, &literal));
		memcpy(packed + 1, literal.b, 4);
	}
	r->dials++;
	if (r->dial_status != DIAL_OK) {
		assert_int_equal(channel_send(r->dialer, MSG_DIALED, &a, NULL, 0), OK);
		return;
	}
	a.ticket = r->dials;
	fd = dial_origin(r);
	assert_int_equal(channel_send(r->dialer, MSG_DIALED, &a, &fd, 1), OK);
	close(fd);
}

HELPER void send_leaf(struct rig *r, const struct msg_leaf *m)
{
	struct msg_leaf_is a = { .id = m->id, .ok = !r->no_leaf };
	struct buf leaf, ca;

	buf_init(&leaf, 4096);
	buf_init(&ca, 4096);
	r->leafs++;
	if (a.ok) {
		assert_int_equal(ca_leaf(r->box_ca, m->name, connections_public_key(r->w.connections), &leaf), OK);
		assert_int_equal(ca_der(r->box_ca, &ca), OK);
	}
	a.leaf = buf_str(&leaf);
	a.ca = buf_str(&ca);
	assert_int_equal(channel_send(r->broker, MSG_LEAF_IS, &a, NULL, 0), OK);
	buf_free(&leaf);
	buf_free(&ca);
}

HELPER void send_grant(struct rig *r, const struct msg_grant *m)
{
	struct str field = STR("authorization"), value = STR("Bearer " SECRET), pattern = STR(SECRET);
	struct msg_granted a = { .id = m->id, .status = (uint8_t)r->grant_status, .credential = STR("token") };

	r->grants++;
	if (r->void_tickets) {
		r->void_tickets--;
		a.status = GRANT_NO_TICKET;
	}
	if (a.status == GRANT_OK) {
		a.fields = (struct str_list){ &field, 1 };
		a.values = (struct str_list){ &value, 1 };
		a.patterns = (struct str_list){ &pattern, 1 };
	}
	assert_int_equal(channel_send(r->broker, MSG_GRANTED, &a, NULL, 0), OK);
}

HELPER void on_broker(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	(void)fds;
	(void)n_fds;
	if (type == MSG_LEAF)
		send_leaf(arg, msg);
	else if (type == MSG_GRANT)
		send_grant(arg, msg);
	else if (type == MSG_PUBKEY)
		((struct rig *)arg)->keys++;
	else
		fail_msg("message %u to the broker", type);
}

/* The stand-in's end of a new channel to the worker; *@ours: the worker's end. */
HELPER struct channel *stand_in(struct rig *r, enum role role, int *ours)
{
	struct channel_peer peer = { .self = role, .other = ROLE_WORKER, .table = exeat_messages,
				     .on_message = role == ROLE_DIALER ? on_dialer : on_broker, .arg = r };
	struct channel *c;
	int fds[2];

	assert_int_equal(channel_pair(fds), OK);
	*ours = fds[0];
	c = channel_new(r->base, fds[1], &peer);
	assert_non_null(c);
	channel_set_phase(c, PHASE_RUN);
	channel_gather(c);
	return c;
}

HELPER struct channel **stand_in_of(struct rig *r, enum role role)
{
	return role == ROLE_DIALER ? &r->dialer : &r->broker;
}

HELPER void rig_connect(struct rig *r, enum role role)
{
	int ours;

	*stand_in_of(r, role) = stand_in(r, role, &ours);
	assert_true(peers_open(&r->w, role, ours));
}

/* The stand-in dies, and the worker has seen it. */
HELPER void rig_lose(struct rig *r, enum role role)
{
	channel_free(*stand_in_of(r, role));
	*stand_in_of(r, role) = NULL;
	rig_until(r, (role == ROLE_DIALER ? r->w.dialer : r->w.broker) == NULL);
}

HELPER void rig_replace(struct rig *r, enum role role)
{
	const struct msg_peer m = { .role = (uint8_t)role };
	int ours;

	channel_free(*stand_in_of(r, role));
	*stand_in_of(r, role) = stand_in(r, role, &ours);
	peers_replace(&r->w, &m, ours);
}

/* ---- certificates ---- */

HELPER EVP_PKEY *origin_key(void)
{
	static EVP_PKEY *key;

	if (!key)
		key = EVP_EC_gen("P-256");
	return key;
}

/* The origin shows a certificate for @name, signed by its CA. */
HELPER void origin_certificate(struct rig *r, const char *name)
{
	unsigned char *spki = NULL;
	const unsigned char *p;
	int n = i2d_PUBKEY(origin_key(), &spki);
	struct buf der;
	X509 *cert;

	buf_init(&der, 4096);
	assert_int_equal(ca_leaf(r->origin_ca, str_of(name), str_n((char *)spki, (size_t)n), &der), OK);
	p = (const unsigned char *)der.p;
	cert = d2i_X509(NULL, &p, (long)der.n);
	assert_non_null(cert);
	assert_int_equal(SSL_CTX_use_certificate(r->origin_ctx, cert), 1);
	assert_int_equal(SSL_CTX_use_PrivateKey(r->origin_ctx, origin_key()), 1);
	X509_free(cert);
	OPENSSL_free(spki);
	buf_free(&der);
}

HELPER void write_trust(struct rig *r)
{
	struct buf pem;
	int fd;

	snprintf(r->trust_path, sizeof(r->trust_path), "/tmp/engine-trust-XXXXXX");
	fd = mkstemp(r->trust_path);
	buf_init(&pem, 8192);
	assert_int_equal(ca_pem(r->origin_ca, &pem), OK);
	assert_int_equal(write(fd, pem.p, pem.n), (ssize_t)pem.n);
	buf_free(&pem);
	close(fd);
}

HELPER SSL_CTX *client_context(struct rig *r)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	struct buf der;
	const unsigned char *p;
	X509 *cert;

	buf_init(&der, 4096);
	assert_int_equal(ca_der(r->box_ca, &der), OK);
	p = (const unsigned char *)der.p;
	cert = d2i_X509(NULL, &p, (long)der.n);
	assert_int_equal(X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), cert), 1);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	X509_free(cert);
	buf_free(&der);
	return ctx;
}

/* ---- policy ---- */

struct rig_rule {
	const char *id, *host, *method, *path;
	unsigned protos;
	bool deny, credential, plaintext;
	int foreign;		/* -1: not said */
	const char *address;
	bool passthrough;
	struct rule_limits limits;
};

HELPER void add_rule(struct policy_build *b, const struct rig_rule *in, uint16_t port, uint32_t credential)
{
	struct str host = str_of(in->host), method = str_of(in->method), path = str_of(in->path);
	struct port_range ports = { port, port };
	struct addr_range range;
	struct build_rule rule = { .deny = in->deny, .id = str_of(in->id), .reason = in->deny ? STR("because") : STR_NONE,
				   .line = 1, .hosts = &host, .n_hosts = in->host ? 1 : 0, .ports = &ports,
				   .n_ports = 1, .protos = in->protos, .methods = &method,
				   .n_methods = in->method ? 1 : 0, .paths = &path, .n_paths = in->path ? 1 : 0,
				   .credential = in->credential ? credential : NO_CREDENTIAL,
				   .has_foreign = in->foreign >= 0,
				   .foreign = in->foreign >= 0 ? (enum foreign)in->foreign : FOREIGN_STRIP,
				   .plaintext = in->plaintext, .passthrough = in->passthrough,
				   .limits = in->limits };

	if (in->address) {
		assert_true(addr_range_parse(str_of(in->address), &range));
		rule.addresses = &range;
		rule.n_addresses = 1;
	}
	assert_int_equal(policy_build_rule(b, &rule), OK);
}

HELPER struct policy *make_policy(const struct rig_rule *rules, size_t n, uint16_t port, bool explain)
{
	struct policy_build *b = policy_build_new(STR("test.yaml"), explain);
	struct str hosts[] = { STR("secret.test"), STR("plain.test"), STR("refuse.test") };
	struct build_credential c = { .name = STR("token"), .secret = STR("token"), .header = STR("authorization"),
				      .kind = CREDENTIAL_BEARER, .hosts = hosts, .n_hosts = 3 };
	int fd = memfd_create("policy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct policy *p;
	uint32_t credential;

	assert_int_equal(policy_build_credential(b, &c, &credential), OK);
	for (size_t i = 0; i < n; i++)
		add_rule(b, &rules[i], port, credential);
	assert_int_equal(policy_build_finish(b, fd), OK);
	policy_build_free(b);
	assert_int_equal(policy_map(&fd, 1, &p), OK);
	close(fd);
	return p;
}

HELPER const struct rig_rule usual_rules[] = {
	{ .id = "api", .host = "api.test", .protos = PROTO_HTTPS, .foreign = -1 },
	{ .id = "web", .host = "web.test", .protos = PROTO_HTTP, .foreign = -1 },
	{ .id = "read", .host = "paths.test", .protos = PROTO_HTTP, .method = "GET", .path = "/pub/**", .foreign = -1 },
	{ .id = "no-gists", .host = "web.test", .path = "/gists/**", .deny = true, .foreign = -1 },
	{ .id = "secret", .host = "secret.test", .protos = PROTO_HTTPS, .credential = true, .foreign = -1 },
	{ .id = "plain", .host = "plain.test", .protos = PROTO_HTTP, .credential = true, .foreign = -1 },
	{ .id = "refuse", .host = "refuse.test", .protos = PROTO_HTTP, .foreign = FOREIGN_REFUSE },
	{ .id = "literal", .address = "127.0.0.9/32", .protos = PROTO_HTTP, .foreign = -1 },
	{ .id = "literal-tls", .address = "127.0.0.8/32", .protos = PROTO_HTTPS, .foreign = -1 },
};

/* ---- the rig ---- */

HELPER int listen_on(const char *addr, uint16_t *port)
{
	struct sockaddr_in sa = { .sin_family = AF_INET };
	socklen_t n = sizeof(sa);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
	struct addr a;

	assert_true(addr_parse(str_of(addr), &a));
	sa.sin_addr.s_addr = htonl(addr_to_v4(&a));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(fd, 128), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &n), 0);
	*port = ntohs(sa.sin_port);
	return fd;
}

HELPER void open_log(struct rig *r)
{
	struct ring_fds fds, again;

	assert_int_equal(ring_create(&fds), OK);
	again = (struct ring_fds){ dup(fds.memory), dup(fds.wake), dup(fds.room) };
	assert_int_equal(ring_open_writer(&fds, &r->w.ring), OK);
	assert_int_equal(ring_open_reader(&again, &r->reader), OK);
	buf_init(&r->log, 8u << 20);
}

/* Takes what is in the ring into r->log, one JSON object a line. */
HELPER void read_log(struct rig *r)
{
	struct str bytes;
	struct record_head head;
	struct json j;

	while (ring_next(r->reader, &bytes) == OK) {
		assert_int_equal(record_check(bytes, ROLE_WORKER, &head), OK);
		json_init(&j, &r->log);
		json_object(&j);
		json_put_str(&j, "kind", str_of(record_kind_name(head.kind)));
		record_write_fields(bytes, &j);
		if (head.policy.n)
			json_put_str(&j, "policy", head.policy);
		json_object_end(&j);
		buf_put_c(&r->log, '\n');
	}
	ring_advance(r->reader);
}

/* Fills the ring with records of no matter. */
HELPER void fill_ring(struct rig *r)
{
	struct record rec;
	enum err e;

	do {
		record_begin(&rec, RECORD_dns);
		record_str(&rec, REC_name, STR("filler.test"));
		e = record_commit(&rec, r->w.ring);
	} while (e == OK);
	assert_int_equal(e, ERR_FULL);
}

HELPER bool log_has(struct rig *r, const char *text)
{
	read_log(r);
	return r->log.n && memmem(r->log.p, r->log.n, text, strlen(text)) != NULL;
}

HELPER void rig_leases(struct rig *r)
{
	int fd;

	assert_true(addr_range_parse(STR("127.64.0.0/16"), &r->w.pool));
	assert_int_equal(lease_table_create(&r->w.pool, &r->w.leases, &fd), OK);
	close(fd);
	r->w.refusal_address = lease_refusal_address(&r->w.pool);
}

HELPER void rig_open_with(struct rig *r, const struct rig_rule *rules, size_t n, bool explain)
{
	struct tls_trust *made;
	const char *why = "";
	struct str trust;
	int listener;

	memset(r, 0, sizeof(*r));
	signal(SIGPIPE, SIG_IGN);
	r->base = event_base_new();
	r->limit = event_new(r->base, -1, EV_TIMEOUT, on_late, r);
	listener = listen_on("0.0.0.0", &r->port);
	r->origin_fd = listen_on("127.0.0.1", &r->origin_port);
	r->origin_ready = event_new(r->base, r->origin_fd, EV_READ | EV_PERSIST, on_origin, r);
	event_add(r->origin_ready, NULL);
	r->script = answer_each;
	r->reply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
	r->grant_status = GRANT_OK;
	assert_int_equal(ca_new(STR("origins"), &r->origin_ca), OK);
	assert_int_equal(ca_new(STR("box"), &r->box_ca), OK);
	r->origin_ctx = SSL_CTX_new(TLS_server_method());
	SSL_CTX_set_mode(r->origin_ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	write_trust(r);
	trust = str_of(r->trust_path);
	r->w = (struct worker){ .base = r->base, .max_connections = 64, .max_headers = 65536, .idle_ms = 60000 };
	rig_leases(r);
	open_log(r);
	r->w.policy = make_policy(rules, n, r->port, explain);
	rig_connect(r, ROLE_DIALER);
	rig_connect(r, ROLE_BROKER);
	r->w.asks = asks_new(&r->w);
	made = tls_trust_new(false, &(struct str_list){ &trust, 1 }, &why);
	assert_string_equal(made ? "" : why, "");
	assert_true(tls_trust_make_key(made));
	tls_trust_serve_h2(made, true);
	r->w.connections = connections_new(&r->w, listener, made);
	assert_non_null(r->w.connections);
	r->client_ctx = client_context(r);
	origin_certificate(r, "api.test");
}

HELPER void rig_open(struct rig *r)
{
	rig_open_with(r, usual_rules, sizeof(usual_rules) / sizeof(usual_rules[0]), false);
}

HELPER void rig_close(struct rig *r)
{
	connections_free(r->w.connections);
	read_log(r);
	for (size_t i = 0; i < r->n_origins; i++)
		peer_close(&r->origin[i]);
	event_free(r->origin_ready);
	close(r->origin_fd);
	asks_free(r->w.asks);
	channel_free(r->w.dialer);
	channel_free(r->w.broker);
	channel_free(r->dialer);
	channel_free(r->broker);
	lease_table_free(r->w.leases);
	policy_free(r->w.policy);
	ring_close(r->w.ring);
	ring_close(r->reader);
	buf_free(&r->log);
	ca_free(r->origin_ca);
	ca_free(r->box_ca);
	SSL_CTX_free(r->origin_ctx);
	SSL_CTX_free(r->client_ctx);
	event_free(r->limit);
	event_base_free(r->base);
	unlink(r->trust_path);
}

HELPER void rig_new_policy(struct rig *r, const struct rig_rule *rules, size_t n)
{
	connections_new_policy(r->w.connections, make_policy(rules, n, r->port, false));
}

/* ---- the client ---- */

HELPER int connect_to(struct rig *r, uint32_t address)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(r->port),
				  .sin_addr.s_addr = htonl(address) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

HELPER uint32_t lease(struct rig *r, const char *name)
{
	uint32_t address;
	bool made;

	assert_int_equal(lease_get(r->w.leases, str_of(name), &address, &made), OK);
	return address;
}

HELPER void client_plain(struct rig *r, struct peer *c, const char *name)
{
	peer_open(c, r, connect_to(r, lease(r, name)), NULL, NULL, false);
}

HELPER void client_tls(struct rig *r, struct peer *c, const char *name)
{
	peer_open(c, r, connect_to(r, lease(r, name)), r->client_ctx, name, false);
}

/* One request over plain HTTP, until the answer has @until in it. */
HELPER void ask_plain(struct rig *r, struct peer *c, const char *name, const char *request, const char *until)
{
	client_plain(r, c, name);
	peer_send(c, request);
	rig_until(r, peer_has(c, until));
}

HELPER void ask_tls(struct rig *r, struct peer *c, const char *name, const char *request, const char *until)
{
	client_tls(r, c, name);
	peer_send(c, request);
	rig_until(r, peer_has(c, until));
}

#endif
