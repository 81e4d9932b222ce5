/* TLS on both sides of the engine: hellos of all shapes, origins that do not verify, ends. */
#include "tests/unit/proxy/engine_rig.h"

#define GET "GET / HTTP/1.1\r\nHost: api.test\r\n\r\n"

static void open_tls_rig(struct rig *r)
{
	rig_open(r);
	r->origin_tls = true;
}

/* ---- hellos ---- */

/* A client's hello as OpenSSL writes it, with @n bytes of ALPN names that nobody speaks before http/1.1
 * to make it long. */
static SSL *hello_of(struct rig *r, struct buf *out, size_t padding)
{
	SSL *ssl = SSL_new(r->client_ctx);
	BIO *in = BIO_new(BIO_s_mem()), *mem = BIO_new(BIO_s_mem());
	unsigned char *alpn = malloc(padding + 16);
	size_t n = 0;
	char *p;
	long got;

	assert_non_null(alpn);
	SSL_set_bio(ssl, in, mem);
	SSL_set_connect_state(ssl);
	SSL_set_tlsext_host_name(ssl, "api.test");
	memcpy(alpn, "\x08http/1.1", 9);
	for (n = 9; n + 200 < padding; n += 200) {
		alpn[n] = 199;
		memset(alpn + n + 1, 'p', 199);
	}
	if (padding)
		assert_int_equal(SSL_set_alpn_protos(ssl, alpn, (unsigned)n), 0);
	assert_int_equal(SSL_do_handshake(ssl), -1);
	got = BIO_get_mem_data(mem, &p);
	buf_put(out, p, (size_t)got);
	(void)BIO_reset(mem);
	free(alpn);
	return ssl;
}

/* The server's flight has come: a handshake record. */
static bool has_server_hello(const struct peer *c)
{
	return c->got.n > 5 && c->got.p[0] == 0x16;
}

static void hello_arrives_in_pieces(struct rig *r, const struct buf *hello, size_t step)
{
	struct peer c;

	client_plain(r, &c, "api.test");
	for (size_t at = 0; at < hello->n; at += step) {
		size_t n = hello->n - at < step ? hello->n - at : step;

		buf_put(stream_out(c.stream), hello->p + at, n);
		stream_settle(c.stream);
		event_base_loop(r->base, EVLOOP_NONBLOCK);
	}
	rig_until(r, has_server_hello(&c));
	peer_close(&c);
}

static void hello_split_anywhere_is_understood(void **state)
{
	static const size_t steps[] = { 1, 5, 6, 100, 600, 1447 };
	struct rig r;
	struct buf hello;
	SSL *ssl;

	(void)state;
	open_tls_rig(&r);
	buf_init(&hello, 1 << 20);
	ssl = hello_of(&r, &hello, 1600);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		hello_arrives_in_pieces(&r, &hello, steps[i]);
	SSL_free(ssl);
	buf_free(&hello);
	rig_close(&r);
}

static void hello_split_over_three_records_is_understood(void **state)
{
	struct rig r;
	struct buf hello, split;
	size_t body, third;
	SSL *ssl;

	(void)state;
	open_tls_rig(&r);
	buf_init(&hello, 1 << 20);
	buf_init(&split, 1 << 20);
	ssl = hello_of(&r, &hello, 1600);
	body = hello.n - 5;
	third = body / 3;
	for (size_t at = 0; at < body; at += third) {
		size_t n = body - at < third ? body - at : third;
		char head[5] = { 0x16, 3, 1, (char)(n >> 8), (char)n };

		buf_put(&split, head, 5);
		buf_put(&split, hello.p + 5 + at, n);
	}
	hello_arrives_in_pieces(&r, &split, split.n);
	SSL_free(ssl);
	buf_free(&hello);
	buf_free(&split);
	rig_close(&r);
}

static void refused_hello(struct rig *r, struct peer *c, const char *reason)
{
	rig_until(r, c->ended);
	rig_until(r, log_has(r, reason));
	assert_int_equal(r->dials, 0);
	peer_close(c);
}

static void hello_over_64k_is_refused(void **state)
{
	static char record[16384 + 5];
	struct rig r;
	struct peer c;

	(void)state;
	open_tls_rig(&r);
	client_plain(&r, &c, "api.test");
	memset(record, 0, sizeof(record));
	memcpy(record, "\x16\x03\x01\x40\x00", 5);
	for (int i = 0; i < 5; i++) {
		if (i == 0)
			memcpy(record + 5, "\x01\x01\x80\x00\x03\x03", 6);
		else
			memset(record + 5, 0, 6);
		buf_put(stream_out(c.stream), record, sizeof(record));
	}
	stream_settle(c.stream);
	refused_hello(&r, &c, "hello-too-long");
	rig_close(&r);
}

static void hello_without_a_name_is_refused(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_tls_rig(&r);
	peer_open(&c, &r, connect_to(&r, lease(&r, "api.test")), r.client_ctx, NULL, false);
	refused_hello(&r, &c, "no-sni");
	rig_close(&r);
}

static void hello_with_another_name_is_refused(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_tls_rig(&r);
	peer_open(&c, &r, connect_to(&r, lease(&r, "api.test")), r.client_ctx, "secret.test", false);
	rig_until(&r, c.ended);
	assert_int_equal(stream_trouble(c.stream), STREAM_ALERT);
	refused_hello(&r, &c, "sni-mismatch");
	rig_close(&r);
}

static void name_in_other_case_and_with_a_dot_is_the_same(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_tls_rig(&r);
	peer_open(&c, &r, connect_to(&r, lease(&r, "api.test")), r.client_ctx, "API.Test", false);
	peer_send(&c, "GET / HTTP/1.1\r\nHost: Api.TEST.\r\n\r\n");
	rig_until(&r, peer_has(&c, "\r\n\r\nhi"));
	assert_true(log_has(&r, "\"host\":\"api.test\""));
	peer_close(&c);
	rig_close(&r);
}

static void denied_name_in_a_hello_gets_an_alert(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_tls_rig(&r);
	client_tls(&r, &c, "other.test");
	rig_until(&r, c.ended);
	assert_int_equal(stream_trouble(c.stream), STREAM_ALERT);
	assert_true(strstr(stream_why(c.stream), "access denied") != NULL);
	refused_hello(&r, &c, "\"rule\":\"default\"");
	rig_close(&r);
}

static void alpn_that_nobody_speaks_is_refused(void **state)
{
	static const unsigned char h3[] = "\x02h3";
	struct rig r;
	struct peer c;

	(void)state;
	open_tls_rig(&r);
	SSL_CTX_set_alpn_protos(r.client_ctx, h3, 3);
	client_tls(&r, &c, "api.test");
	rig_until(&r, c.ended);
	assert_true(strstr(stream_why(c.stream), "no application protocol") != NULL);
	refused_hello(&r, &c, "no-alpn");
	rig_close(&r);
}

static void alpn_with_both_gets_h2(void **state)
{
	static const unsigned char both[] = "\x08http/1.1\x02h2";
	struct rig r;
	struct peer c;

	(void)state;
	open_tls_rig(&r);
	SSL_CTX_set_alpn_protos(r.client_ctx, both, 12);
	client_tls(&r, &c, "api.test");
	rig_until(&r, c.got.n > 0);
	assert_true(str_eq(tls_trust_alpn(stream_ssl(c.stream)), STR("h2")));
	peer_close(&c);
	rig_until(&r, log_has(&r, "\"alpn\":\"h2\""));
	rig_close(&r);
}

static void alpn_with_http_1_1_alone_gets_that(void **state)
{
	static const unsigned char old[] = "\x08http/1.1";
	struct rig r;
	struct peer c;

	(void)state;
	open_tls_rig(&r);
	SSL_CTX_set_alpn_protos(r.client_ctx, old, 9);
	ask_tls(&r, &c, "api.test", GET, "\r\n\r\nhi");
	peer_close(&c);
	rig_until(&r, log_has(&r, "\"alpn\":\"http/1.1\""));
	rig_close(&r);
}

/* RFC 9113 3.2: over TLS it is agreed on. */
static void the_preface_of_http_2_without_alpn_is_refused_in_words(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_tls_rig(&r);
	ask_tls(&r, &c, "api.test", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 505 ");
	peer_close(&c);
	rig_close(&r);
}

static void alpn_with_http_1_0_alone_gets_that(void **state)
{
	static const unsigned char old[] = "\x08http/1.0";
	struct rig r;
	struct peer c;

	(void)state;
	open_tls_rig(&r);
	SSL_CTX_set_alpn_protos(r.client_ctx, old, 9);
	ask_tls(&r, &c, "api.test", "GET / HTTP/1.0\r\nHost: api.test\r\n\r\n", "\r\n\r\nhi");
	peer_close(&c);
	rig_until(&r, log_has(&r, "\"alpn\":\"http/1.0\""));
	rig_close(&r);
}

static void client_before_tls_1_2_is_refused(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_tls_rig(&r);
	SSL_CTX_set_security_level(r.client_ctx, 0);
	SSL_CTX_set_min_proto_version(r.client_ctx, TLS1_VERSION);
	SSL_CTX_set_max_proto_version(r.client_ctx, TLS1_1_VERSION);
	client_tls(&r, &c, "api.test");
	rig_until(&r, c.ended);
	assert_int_equal(stream_trouble(c.stream), STREAM_ALERT);
	peer_close(&c);
	rig_until(&r, log_has(&r, "TLS handshake failed"));
	rig_close(&r);
}

static void broker_without_a_leaf_gets_the_client_an_alert(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_tls_rig(&r);
	r.no_leaf = true;
	client_tls(&r, &c, "api.test");
	rig_until(&r, c.ended);
	refused_hello(&r, &c, "no-leaf");
	rig_close(&r);
}

static void client_that_leaves_while_the_leaf_is_made_is_forgotten(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_tls_rig(&r);
	client_tls(&r, &c, "api.test");
	rig_until(&r, connections_count(r.w.connections) == 1);
	peer_reset(&c);
	rig_until(&r, connections_count(r.w.connections) == 0);
	rig_close(&r);
}

static void protocol_is_decided_by_bytes_and_held_to_the_rule(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_tls_rig(&r);
	ask_plain(&r, &c, "api.test", GET, "}\n");
	assert_true(peer_has(&c, "HTTP/1.1 403 "));
	peer_close(&c);
	client_tls(&r, &c, "web.test");
	rig_until(&r, c.ended);
	assert_int_equal(stream_trouble(c.stream), STREAM_ALERT);
	refused_hello(&r, &c, "\"verdict\":\"deny\"");
	client_plain(&r, &c, "api.test");
	peer_send(&c, "\x01\x02garbage");
	rig_until(&r, c.ended);
	refused_hello(&r, &c, "not-tls");
	rig_close(&r);
}

/* ---- origins that do not verify ---- */

/* Nothing of the request may have been sent, and the client reads why. */
static void origin_refused(struct rig *r, const char *why)
{
	struct peer c;

	ask_tls(r, &c, "api.test", "GET /private HTTP/1.1\r\nHost: api.test\r\n\r\n", "}\n");
	if (!peer_has(&c, why))
		fail_msg("%.*s", STR_ARG(buf_str(&c.got)));
	assert_true(peer_has(&c, "HTTP/1.1 502 "));
	assert_true(peer_has(&c, "api.test"));
	for (size_t i = 0; i < r->n_origins; i++)
		assert_false(peer_has(&r->origin[i], "private"));
	assert_true(log_has(r, why));
	peer_close(&c);
}

static void certificate_for_another_name_is_refused(void **state)
{
	static const char *const names[] = { "other.test", "apixtest", "203.0.113.10" };
	struct rig r;

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		open_tls_rig(&r);
		origin_certificate(&r, names[i]);
		origin_refused(&r, i == 2 ? "mismatch" : "hostname mismatch");
		rig_close(&r);
	}
}

static void certificate_of_an_unknown_issuer_is_refused_with_its_text(void **state)
{
	struct rig r;
	struct ca *other;

	(void)state;
	open_tls_rig(&r);
	assert_int_equal(ca_new(STR("stranger"), &other), OK);
	ca_free(r.origin_ca);
	r.origin_ca = other;
	origin_certificate(&r, "api.test");
	origin_refused(&r, "unable to get local issuer certificate");
	rig_close(&r);
}

/* A self-signed certificate: with a name in CN only, or with times that are wrong. */
static void self_signed(struct rig *r, long from, long to)
{
	X509 *cert = X509_new();
	X509_NAME *name = X509_get_subject_name(cert);

	X509_set_version(cert, X509_VERSION_3);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), 7);
	X509_gmtime_adj(X509_getm_notBefore(cert), from);
	X509_gmtime_adj(X509_getm_notAfter(cert), to);
	X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"api.test", -1, -1, 0);
	X509_set_issuer_name(cert, name);
	X509_set_pubkey(cert, origin_key());
	assert_true(X509_sign(cert, origin_key(), EVP_sha256()) > 0);
	assert_int_equal(SSL_CTX_use_certificate(r->origin_ctx, cert), 1);
	X509_free(cert);
}

static void self_signed_certificate_is_refused(void **state)
{
	struct rig r;

	(void)state;
	open_tls_rig(&r);
	self_signed(&r, -3600, 3600);
	origin_refused(&r, "self-signed certificate");
	rig_close(&r);
}

static void origin_that_resets_after_the_hello_is_told_apart(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);		/* the origin speaks no TLS: the script closes */
	r.script = NULL;
	client_tls(&r, &c, "api.test");
	peer_send(&c, GET);
	rig_until(&r, r.n_origins == 1 && r.origin[0].got.n);
	peer_close(&r.origin[0]);
	r.n_origins = 0;
	rig_until(&r, peer_has(&c, "connection-terminated"));
	assert_true(peer_has(&c, "HTTP/1.1 502 "));
	peer_close(&c);
	rig_close(&r);
}

static void origin_that_speaks_no_tls_is_a_protocol_error(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	r.script = NULL;
	client_tls(&r, &c, "api.test");
	peer_send(&c, GET);
	rig_until(&r, r.n_origins == 1 && r.origin[0].got.n);
	peer_send(&r.origin[0], "HTTP/1.1 400 Bad Request\r\n\r\n");
	rig_until(&r, peer_has(&c, "tls-protocol"));
	peer_close(&c);
	rig_close(&r);
}

/* ---- ends ---- */

static void upstream_that_ends_its_body_without_close_notify_is_an_abort(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_tls_rig(&r);
	r.reply = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf";
	ask_tls(&r, &c, "api.test", GET, "half");
	shutdown(stream_fd(r.origin[0].stream), SHUT_WR);
	rig_until(&r, c.ended);
	assert_false(c.clean);
	rig_until(&r, log_has(&r, "without close_notify"));
	peer_close(&c);
	rig_close(&r);
}

static void upstream_that_ends_with_close_notify_is_whole(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_tls_rig(&r);
	r.reply = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nwhole";
	ask_tls(&r, &c, "api.test", GET, "whole");
	stream_finish(r.origin[0].stream);
	stream_settle(r.origin[0].stream);
	rig_until(&r, peer_has(&c, "0\r\n\r\n"));
	peer_close(&c);
	rig_close(&r);
}

static void idle_upstream_that_said_close_notify_is_replaced(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_tls_rig(&r);
	ask_tls(&r, &c, "api.test", GET, "\r\n\r\nhi");
	SSL_shutdown(stream_ssl(r.origin[0].stream));
	c.got.n = 0;
	peer_send(&c, "POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 1\r\n\r\nx");
	rig_until(&r, peer_has(&c, "\r\n\r\nhi"));
	assert_int_equal(r.dials, 2);
	peer_close(&c);
	rig_close(&r);
}

static void client_that_closes_is_on_record_at_once(void **state)
{
	struct rig r;
	struct peer c;
	uint64_t began;

	(void)state;
	rig_open(&r);
	r.origin_tls = true;
	ask_tls(&r, &c, "api.test", "GET / HTTP/1.1\r\nHost: api.test\r\n\r\n", "\r\n\r\nhi");
	began = clock_ms();
	stream_finish(c.stream);
	stream_settle(c.stream);
	rig_until(&r, log_has(&r, "\"ended\":\"closed by the client\""));
	assert_true(clock_ms() - began < CONNECTION_DRAIN_MS / 2);
	assert_int_equal(connections_count(r.w.connections), 0);
	peer_close(&c);
	rig_close(&r);
}

static void client_that_half_closes_without_close_notify_gets_its_answer(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_tls_rig(&r);
	r.script = NULL;
	client_tls(&r, &c, "api.test");
	peer_send(&c, GET);
	rig_until(&r, r.n_origins == 1 && peer_has(&r.origin[0], "\r\n\r\n"));
	shutdown(stream_fd(c.stream), SHUT_WR);
	for (int i = 0; i < 20; i++)
		event_base_loop(r.base, EVLOOP_NONBLOCK);
	peer_send(&r.origin[0], r.reply);
	rig_until(&r, peer_has(&c, "\r\n\r\nhi"));
	rig_until(&r, log_has(&r, "\"ended\":\"complete\""));
	peer_close(&c);
	rig_close(&r);
}

static void client_is_told_the_end_by_close_notify(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	open_tls_rig(&r);
	ask_tls(&r, &c, "api.test", "GET / HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n", "\r\n\r\nhi");
	rig_until(&r, c.ended);
	assert_true(c.clean);
	peer_close(&c);
	rig_close(&r);
}

static void large_answer_through_tls_is_whole(void **state)
{
	enum { SIZE = 3 << 20 };
	struct rig r;
	struct peer c;
	char *piece = malloc(1 << 16);

	(void)state;
	assert_non_null(piece);
	memset(piece, 'z', 1 << 16);
	open_tls_rig(&r);
	r.reply = "HTTP/1.1 200 OK\r\nContent-Length: 3145728\r\n\r\n";
	ask_tls(&r, &c, "api.test", GET, "\r\n\r\n");
	for (size_t sent = 0; sent < SIZE; sent += 1 << 16) {
		rig_until(&r, !stream_full(r.origin[0].stream));
		buf_put(stream_out(r.origin[0].stream), piece, 1 << 16);
		stream_settle(r.origin[0].stream);
	}
	rig_until(&r, c.got.n >= SIZE + 40);
	rig_until(&r, log_has(&r, "\"bytes_down\":3145728"));
	peer_close(&c);
	rig_close(&r);
	free(piece);
}

static void names_over_64_bytes_work(void **state)
{
	static const char *const names[] = {
		"a123456789b123456789c123456789d123456789e123456789f12345678.test",
		"a123456789b123456789c123456789d123456789e123456789.f123456789.g123456789.test",
	};
	struct rig_rule rules[2] = { { .id = "a", .protos = PROTO_HTTPS, .foreign = -1 },
				     { .id = "b", .protos = PROTO_HTTPS, .foreign = -1 } };
	struct rig r;
	struct peer c;
	char request[256];

	(void)state;
	for (int i = 0; i < 2; i++)
		rules[i].host = names[i];
	rig_open_with(&r, rules, 2, false);
	r.origin_tls = true;
	for (int i = 0; i < 2; i++) {
		origin_certificate(&r, names[i]);
		snprintf(request, sizeof(request), "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", names[i]);
		ask_tls(&r, &c, names[i], request, "\r\n\r\nhi");
		peer_close(&c);
	}
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hello_split_anywhere_is_understood),
		cmocka_unit_test(hello_split_over_three_records_is_understood),
		cmocka_unit_test(hello_over_64k_is_refused),
		cmocka_unit_test(hello_without_a_name_is_refused),
		cmocka_unit_test(hello_with_another_name_is_refused),
		cmocka_unit_test(name_in_other_case_and_with_a_dot_is_the_same),
		cmocka_unit_test(denied_name_in_a_hello_gets_an_alert),
		cmocka_unit_test(alpn_that_nobody_speaks_is_refused),
		cmocka_unit_test(alpn_with_both_gets_h2),
		cmocka_unit_test(alpn_with_http_1_1_alone_gets_that),
		cmocka_unit_test(the_preface_of_http_2_without_alpn_is_refused_in_words),
		cmocka_unit_test(alpn_with_http_1_0_alone_gets_that),
		cmocka_unit_test(client_before_tls_1_2_is_refused),
		cmocka_unit_test(broker_without_a_leaf_gets_the_client_an_alert),
		cmocka_unit_test(client_that_leaves_while_the_leaf_is_made_is_forgotten),
		cmocka_unit_test(protocol_is_decided_by_bytes_and_held_to_the_rule),
		cmocka_unit_test(certificate_for_another_name_is_refused),
		cmocka_unit_test(certificate_of_an_unknown_issuer_is_refused_with_its_text),
		cmocka_unit_test(self_signed_certificate_is_refused),
		cmocka_unit_test(origin_that_resets_after_the_hello_is_told_apart),
		cmocka_unit_test(origin_that_speaks_no_tls_is_a_protocol_error),
		cmocka_unit_test(upstream_that_ends_its_body_without_close_notify_is_an_abort),
		cmocka_unit_test(upstream_that_ends_with_close_notify_is_whole),
		cmocka_unit_test(idle_upstream_that_said_close_notify_is_replaced),
		cmocka_unit_test(client_that_closes_is_on_record_at_once),
		cmocka_unit_test(client_that_half_closes_without_close_notify_gets_its_answer),
		cmocka_unit_test(client_is_told_the_end_by_close_notify),
		cmocka_unit_test(large_answer_through_tls_is_whole),
		cmocka_unit_test(names_over_64_bytes_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
