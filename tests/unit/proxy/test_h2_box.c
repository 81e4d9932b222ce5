/* A box that speaks HTTP/2, through a whole engine, to origins that speak HTTP/1.1. */
#include "tests/unit/proxy/engine_rig.h"

#include "proxy/h2.h"
#include "proxy/http1.h"

#define STREAMS 40

/* The box's client: our own session, which test_h2.c holds to nothing but the RFC. */
struct client {
	struct rig *rig;
	struct stream *stream;
	struct h2 *h;
	bool silent;		/* it reads nothing */
};

static void ignore(void *arg, struct h2_stream *s)
{
	(void)arg;
	(void)s;
}

static const struct h2_events events = { .opened = ignore, .moved = ignore };

static void client_settle(struct client *c)
{
	h2_write(c->h);
	stream_settle(c->stream);
}

static void client_wake(void *arg)
{
	struct client *c = arg;

	if (stream_handshaking(c->stream)) {
		stream_settle(c->stream);
		return;
	}
	h2_read(c->h);
	client_settle(c);
}

static void client_open(struct client *c, struct rig *r, const char *name, bool tls)
{
	struct h2_setup set = { .events = &events, .arg = c, .max_headers = 65536 };
	int fd = connect_to(r, lease(r, name));

	*c = (struct client){ .rig = r };
	c->stream = stream_new(r->base, fd, client_wake, c);
	if (tls) {
		BIO *bio = tls_io_new(fd, STR_NONE);
		SSL *ssl = SSL_new(r->client_ctx);

		SSL_set_bio(ssl, bio, bio);
		SSL_set_connect_state(ssl);
		SSL_set_tlsext_host_name(ssl, name);
		assert_int_equal(SSL_set_alpn_protos(ssl, (const unsigned char *)"\x02h2", 3), 0);
		stream_start_tls(c->stream, ssl);
	}
	set.stream = c->stream;
	c->h = h2_new(&set);
	client_settle(c);
}

static void client_close(struct client *c)
{
	h2_free(c->h);
	stream_free(c->stream);
}

struct asked {
	const char *method, *authority, *path;
	const struct fields *fields;
};

static struct h2_stream *ask(struct client *c, const struct asked *a)
{
	struct h2_request r = { .method = str_of(a->method), .scheme = STR("http"),
				.authority = str_of(a->authority), .path = str_of(a->path),
				.fields = a->fields };
	struct h2_stream *s;

	if (stream_ssl(c->stream))
		r.scheme = STR("https");
	s = h2_request(c->h, NULL, &r);
	assert_non_null(s);
	return s;
}

static struct h2_stream *get(struct client *c, const char *authority, const char *path)
{
	struct h2_stream *s = ask(c, &(struct asked){ "GET", authority, path, NULL });

	h2_end(s, NULL);
	client_settle(c);
	return s;
}

#define answered(r, s) rig_until(r, (s)->ended || (s)->reset)

static void expect(struct h2_stream *s, unsigned status, const char *body)
{
	if (s->reset || s->head.status != status || !memmem(h2_body(s).p, h2_body(s).n, body, strlen(body)))
		fail_msg("reset %d code %u, status %u: %.*s", s->reset, s->code, s->head.status,
			 STR_ARG(h2_body(s)));
}

/* ---- requests and answers ---- */

static void a_request_in_clear_text_by_prior_knowledge_is_answered(void **state)
{
	struct rig r;
	struct client c;
	struct h2_stream *s;

	(void)state;
	rig_open(&r);
	client_open(&c, &r, "web.test", false);
	s = get(&c, "web.test", "/a?b");
	answered(&r, s);
	expect(s, 200, "hi");
	assert_true(peer_has(&r.origin[0], "GET /a?b HTTP/1.1\r\nhost: web.test:"));
	client_close(&c);
	rig_until(&r, log_has(&r, "\"phase\":\"close\""));
	assert_true(log_has(&r, "\"path\":\"/a\""));
	rig_close(&r);
}

static void a_request_over_tls_is_answered(void **state)
{
	struct rig r;
	struct client c;
	struct h2_stream *s;

	(void)state;
	rig_open(&r);
	r.origin_tls = true;
	client_open(&c, &r, "api.test", true);
	s = get(&c, "api.test", "/");
	answered(&r, s);
	expect(s, 200, "hi");
	client_close(&c);
	rig_until(&r, log_has(&r, "\"alpn\":\"h2\""));
	rig_close(&r);
}

#define test(f) cmocka_unit_test(f)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(a_request_in_clear_text_by_prior_knowledge_is_answered),
		test(a_request_over_tls_is_answered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
