/* tests/unit/proxy/tunnel_rig.h - the engine's rig with rules that do not open what they allow
 *
 * A raw TCP rule for raw.test, a passthrough rule for api.test, the same for two addresses, and a plain
 * web.test beside them; hellos as OpenSSL writes them.
 */
#ifndef TESTS_TUNNEL_RIG_H
#define TESTS_TUNNEL_RIG_H

#include "tests/unit/proxy/engine_rig.h"

#include "proxy/refusal_list.h"

#define NEW_POLICY(r, rules) rig_new_policy(r, rules, sizeof(rules) / sizeof((rules)[0]))
#define OPEN_RIG(r, rules) rig_open_with(r, rules, sizeof(rules) / sizeof((rules)[0]), false)

#define RAW { .id = "raw", .host = "raw.test", .protos = PROTO_TCP, .foreign = -1 }
#define SEALED { .id = "sealed", .host = "api.test", .protos = PROTO_HTTPS, .passthrough = true, .foreign = -1 }

static const struct rig_rule rules[] = {
	RAW, SEALED,
	{ .id = "literal-raw", .address = "127.0.0.9/32", .protos = PROTO_TCP, .foreign = -1 },
	{ .id = "literal-sealed", .address = "127.0.0.8/32", .protos = PROTO_HTTPS, .passthrough = true, .foreign = -1 },
	{ .id = "web", .host = "web.test", .protos = PROTO_HTTP, .foreign = -1 },
};

HELPER void open_rig(struct rig *r)
{
	OPEN_RIG(r, rules);
	r->script = NULL;
}

HELPER void turns(struct rig *r)
{
	for (int i = 0; i < 20; i++)
		event_base_loop(r->base, EVLOOP_NONBLOCK);
}

HELPER void greet(struct peer *p)
{
	if (!p->step++)
		buf_put_str(stream_out(p->stream), STR("220 ready\r\n"));
}

/* A client that verifies the origin's own certificate, as one that is pinned does. */
HELPER SSL_CTX *pinned_context(struct rig *r)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());

	assert_int_equal(SSL_CTX_load_verify_locations(ctx, r->trust_path, NULL), 1);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	return ctx;
}

/* A client's hello as OpenSSL writes it. */
HELPER void hello_for(const char *name, struct buf *out)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(ctx);
	BIO *mem = BIO_new(BIO_s_mem());
	char *p;

	SSL_set_bio(ssl, BIO_new(BIO_s_mem()), mem);
	SSL_set_connect_state(ssl);
	if (name)
		SSL_set_tlsext_host_name(ssl, name);
	assert_int_equal(SSL_do_handshake(ssl), -1);
	buf_init(out, 1 << 16);
	buf_put(out, p, (size_t)BIO_get_mem_data(mem, &p));
	SSL_free(ssl);
	SSL_CTX_free(ctx);
}

HELPER void send_bytes(struct peer *p, const char *bytes, size_t n)
{
	buf_put(stream_out(p->stream), bytes, n);
	stream_settle(p->stream);
}

HELPER void end(struct peer *p)
{
	stream_finish(p->stream);
	stream_settle(p->stream);
}

HELPER bool is_reset(const struct peer *p)
{
	return stream_failed(p->stream) && stream_trouble(p->stream) == STREAM_RESET;
}

/* A fatal alert of this description, and nothing else. */
HELPER bool is_alert(const struct peer *p, uint8_t description)
{
	return p->got.n == HELLO_ALERT_LEN && p->got.p[0] == 21 && (uint8_t)p->got.p[6] == description;
}

HELPER void start_raw(struct rig *r, struct peer *c)
{
	size_t before = r->n_origins;

	client_plain(r, c, "raw.test");
	peer_send(c, "up");
	rig_until(r, r->n_origins > before && peer_has(&r->origin[before], "up"));
}

/* A hello for @sni to the address of api.test, over plain sockets on both sides. */
HELPER void start_sealed(struct rig *r, struct peer *c, const char *sni)
{
	struct buf hello;

	hello_for(sni, &hello);
	client_plain(r, c, "api.test");
	send_bytes(c, hello.p, hello.n);
	buf_free(&hello);
}

#endif
