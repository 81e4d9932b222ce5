/* A box that speaks HTTP/2, through a whole engine, to origins that speak HTTP/1.1. */
#include "tests/unit/proxy/engine_rig.h"

#include "proxy/h2.h"

#define STREAMS 6

/* The box's client: our own session, which test_h2.c holds to nothing but the RFC. */
struct client {
	struct rig *rig;
	struct stream *stream;
	struct h2 *h;
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


static void many_at_once_go_their_own_ways(void **state)
{
	struct h2_stream *s[STREAMS];
	struct rig r;
	struct client c;

	(void)state;
	rig_open(&r);
	client_open(&c, &r, "web.test", false);
	for (int i = 0; i < STREAMS; i++)
		s[i] = get(&c, "web.test", i % 2 ? "/gists/x" : "/");
	for (int i = 0; i < STREAMS; i++) {
		answered(&r, s[i]);
		expect(s[i], i % 2 ? 403 : 200, i % 2 ? "no-gists" : "hi");
	}
	assert_true(r.dials <= STREAMS / 2);
	client_close(&c);
	rig_close(&r);
}

static void cookies_come_to_the_origin_as_one_field(void **state)
{
	struct rig r;
	struct client c;
	struct fields f;
	struct h2_stream *s;

	(void)state;
	rig_open(&r);
	client_open(&c, &r, "web.test", false);
	fields_init(&f, 1000);
	fields_add(&f, STR("cookie"), STR("a=1"));
	fields_add(&f, STR("cookie"), STR("b=2"));
	s = ask(&c, &(struct asked){ "GET", "web.test", "/", &f });
	h2_end(s, NULL);
	client_settle(&c);
	answered(&r, s);
	assert_true(peer_has(&r.origin[0], "\r\ncookie: a=1; b=2\r\n"));
	fields_free(&f);
	client_close(&c);
	rig_close(&r);
}

static void answer_as_told(struct rig *r, struct client *c, const char *method, const char *reply,
			   struct h2_stream **s)
{
	r->reply = reply;
	*s = ask(c, &(struct asked){ method, "web.test", "/", NULL });
	h2_end(*s, NULL);
	client_settle(c);
	answered(r, *s);
	assert_false((*s)->reset);
}

static struct str field(const struct fields *f, const char *name)
{
	struct str value = STR("(none)");

	fields_get(f, str_of(name), &value);
	return value;
}

static void answers_without_a_body_keep_their_fields(void **state)
{
	struct rig r;
	struct client c;
	struct h2_stream *s;

	(void)state;
	rig_open(&r);
	client_open(&c, &r, "web.test", false);
	answer_as_told(&r, &c, "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 77\r\nETag: x\r\n"
			       "Connection: close\r\nKeep-Alive: x\r\n\r\n", &s);
	assert_int_equal(s->head.length, 77);
	assert_true(str_eq(field(&s->head.fields, "etag"), STR("x")));
	assert_true(str_eq(field(&s->head.fields, "connection"), STR("(none)")));
	assert_true(str_eq(field(&s->head.fields, "keep-alive"), STR("(none)")));
	answer_as_told(&r, &c, "GET", "HTTP/1.1 304 Not Modified\r\nConnection: close\r\n\r\n", &s);
	assert_int_equal(s->head.status, 304);
	answer_as_told(&r, &c, "GET", "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", &s);
	assert_int_equal(s->head.status, 204);
	assert_int_equal(h2_body(s).n, 0);
	client_close(&c);
	rig_close(&r);
}

static void interim_answers_and_trailers_pass(void **state)
{
	struct rig r;
	struct client c;
	struct h2_stream *s;

	(void)state;
	rig_open(&r);
	client_open(&c, &r, "web.test", false);
	answer_as_told(&r, &c, "GET", "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n"
			       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
			       "2\r\nhi\r\n0\r\nX-Sum: 9\r\n\r\n", &s);
	assert_int_equal(s->interims->status, 103);
	expect(s, 200, "hi");
	assert_true(str_eq(field(&s->trailers, "x-sum"), STR("9")));
	assert_true(str_eq(field(&s->head.fields, "transfer-encoding"), STR("(none)")));
	client_close(&c);
	rig_close(&r);
}

/* ---- what is refused ---- */

static void expect_refusal(const struct asked *a, const char *scheme, unsigned status)
{
	struct rig r;
	struct client c;
	struct h2_stream *s;
	struct h2_request q = { .method = str_of(a->method), .scheme = str_of(scheme),
				.authority = str_of(a->authority), .fields = a->fields };

	rig_open(&r);
	client_open(&c, &r, "web.test", false);
	q.path = a->path ? str_of(a->path) : STR_NONE;
	s = h2_request(c.h, NULL, &q);
	h2_end(s, NULL);
	client_settle(&c);
	answered(&r, s);
	expect(s, status, "urn:exeat:refusal:");
	assert_int_equal(r.dials, 0);
	/* And on the same connection: */
	s = get(&c, "web.test", "/");
	answered(&r, s);
	expect(s, 200, "hi");
	client_close(&c);
	rig_close(&r);
}

/* RFC 9110 15.5.20: a client that thinks that this connection is another's, too, asks again. */
static void another_authority_is_a_misdirected_request(void **state)
{
	(void)state;
	expect_refusal(&(struct asked){ "GET", "api.test", "/", NULL }, "http", 421);
	expect_refusal(&(struct asked){ "GET", "web.test:1", "/", NULL }, "http", 421);
	expect_refusal(&(struct asked){ "GET", "web.test", "/", NULL }, "https", 421);
}

static void what_http_1_would_not_take_is_refused_here_too(void **state)
{
	struct fields f;

	(void)state;
	fields_init(&f, 200000);
	expect_refusal(&(struct asked){ "CONNECT", "web.test:80", NULL, NULL }, NULL, 403);
	expect_refusal(&(struct asked){ "TRACE", "web.test", "/", NULL }, "http", 403);
	expect_refusal(&(struct asked){ "GET", "me@web.test", "/", NULL }, "http", 400);
	expect_refusal(&(struct asked){ "GET", "web.test", "/a#b", NULL }, "http", 400);
	fields_add(&f, STR("expect"), STR("miracles"));
	expect_refusal(&(struct asked){ "GET", "web.test", "/", &f }, "http", 417);
	fields_clear(&f);
	for (int i = 0; i < 200; i++)
		fields_add(&f, STR("x-long"), STR("0123456789012345678901234567890123456789"
			   "0123456789012345678901234567890123456789012345678901234567890123456789"
			   "0123456789012345678901234567890123456789012345678901234567890123456789"
			   "0123456789012345678901234567890123456789012345678901234567890123456789"
			   "0123456789012345678901234567890123456789012345678901234567890123456789"));
	expect_refusal(&(struct asked){ "GET", "web.test", "/", &f }, "http", 431);
	fields_free(&f);
}

/* Host and :authority, which nghttp2 lets stand beside each other: by hand. */
static void a_host_that_is_not_the_authority_is_refused(void **state)
{
	static const char head[] = "\0\0\x2a\1\5\0\0\0\1" "\x82\x86\x84" "\x41\x08web.test"
				   "\x40\x04host\x16other.test.and.so.fort";
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	client_plain(&r, &c, "web.test");
	peer_send(&c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
	buf_put(stream_out(c.stream), "\0\0\0\4\0\0\0\0\0", 9);
	buf_put(stream_out(c.stream), head, 9 + 0x2a);
	stream_settle(c.stream);
	rig_until(&r, peer_has(&c, "Host is not :authority"));
	assert_int_equal(r.dials, 0);
	peer_close(&c);
	rig_close(&r);
}

/* ---- bodies ---- */

static void a_body_that_is_there_is_counted_and_one_that_comes_is_chunked(void **state)
{
	struct rig r;
	struct client c;
	struct h2_stream *s;

	(void)state;
	rig_open(&r);
	client_open(&c, &r, "web.test", false);
	rig_until(&r, stream_bytes_in(c.stream) > 0);
	s = ask(&c, &(struct asked){ "POST", "web.test", "/", NULL });
	h2_put(s, STR("all of it"));
	h2_end(s, NULL);
	client_settle(&c);
	answered(&r, s);
	expect(s, 200, "hi");
	assert_true(peer_has(&r.origin[0], "content-length: 9\r\n\r\nall of it"));
	r.origin[0].requests = 0;
	r.origin[0].got.n = 0;
	s = ask(&c, &(struct asked){ "POST", "web.test", "/", NULL });
	client_settle(&c);
	rig_until(&r, peer_has(&r.origin[0], "transfer-encoding: chunked\r\n"));
	h2_put(s, STR("more"));
	h2_end(s, NULL);
	client_settle(&c);
	answered(&r, s);
	assert_true(peer_has(&r.origin[0], "4\r\nmore\r\n0\r\n\r\n"));
	client_close(&c);
	rig_close(&r);
}

static void a_megabyte_goes_up_in_bounded_pieces(void **state)
{
	static char megabyte[1 << 20];
	struct rig r;
	struct client c;
	struct fields f;
	struct h2_stream *s;
	size_t put = 0;

	(void)state;
	rig_open(&r);
	client_open(&c, &r, "web.test", false);
	fields_init(&f, 100);
	fields_add(&f, STR("content-length"), STR("1048576"));
	s = ask(&c, &(struct asked){ "POST", "web.test", "/", &f });
	while (put < sizeof(megabyte)) {
		rig_until(&r, !h2_full(s));
		h2_put(s, str_n(megabyte + put, 16384));
		put += 16384;
		client_settle(&c);
	}
	h2_end(s, NULL);
	client_settle(&c);
	answered(&r, s);
	expect(s, 200, "hi");
	assert_true(r.origin[0].got.n > sizeof(megabyte));
	fields_free(&f);
	client_close(&c);
	rig_close(&r);
}

#define MUCH (8u << 20)

static void answer_much(struct peer *p)
{
	static char piece[65536];

	if (!peer_has(p, "GET /much")) {
		answer_each(p);
		return;
	}
	if (p->step == 0)
		buf_put_str(stream_out(p->stream),
			    STR("HTTP/1.1 200 OK\r\nContent-Length: 8388608\r\n\r\n"));
	for (; (unsigned)p->step < MUCH / sizeof(piece) && !stream_full(p->stream); p->step++)
		buf_put(stream_out(p->stream), piece, sizeof(piece));
}

static void a_slow_reader_holds_its_own_stream_and_its_origin(void **state)
{
	struct rig r;
	struct client c;
	struct h2_stream *slow, *fast;
	uint64_t sent;

	(void)state;
	rig_open(&r);
	r.script = answer_much;
	client_open(&c, &r, "web.test", false);
	slow = get(&c, "web.test", "/much");
	rig_until(&r, h2_body(slow).n == H2_STREAM_WINDOW);
	fast = get(&c, "web.test", "/quick");
	answered(&r, fast);
	expect(fast, 200, "hi");
	/* The origin has not been read to its end, either. */
	sent = stream_bytes_out(r.origin[0].stream);
	assert_true(sent < MUCH);
	while (!slow->ended) {
		h2_take(slow, h2_body(slow).n);
		client_settle(&c);
		rig_until(&r, h2_body(slow).n || slow->ended);
	}
	assert_false(slow->reset);
	client_close(&c);
	rig_close(&r);
}

/* ---- ends ---- */

static void answer_nothing(struct peer *p)
{
	(void)p;
}

static void a_client_that_cancels_is_passed_on(void **state)
{
	struct rig r;
	struct client c;
	struct h2_stream *s, *other;

	(void)state;
	rig_open(&r);
	r.script = answer_nothing;
	client_open(&c, &r, "web.test", false);
	s = get(&c, "web.test", "/slow");
	rig_until(&r, r.n_origins == 1 && peer_has(&r.origin[0], "GET /slow"));
	h2_leave(s);
	client_settle(&c);
	rig_until(&r, r.origin[0].ended);
	rig_until(&r, log_has(&r, "\"ended\":\"reset by the client\""));
	r.script = answer_each;
	other = get(&c, "web.test", "/");
	answered(&r, other);
	expect(other, 200, "hi");
	client_close(&c);
	rig_close(&r);
}

static void a_client_that_goes_takes_all_along(void **state)
{
	struct rig r;
	struct client c;

	(void)state;
	rig_open(&r);
	r.script = answer_nothing;
	client_open(&c, &r, "web.test", false);
	for (int i = 0; i < STREAMS; i++)
		get(&c, "web.test", "/slow");
	rig_until(&r, r.n_origins == STREAMS && peer_has(&r.origin[STREAMS - 1], "GET /slow"));
	client_close(&c);
	for (int i = 0; i < STREAMS; i++)
		rig_until(&r, r.origin[i].ended);
	rig_until(&r, connections_count(r.w.connections) == 0);
	assert_true(log_has(&r, "by the client"));
	rig_close(&r);
}

static void cut_off(struct peer *p)
{
	if (!peer_has(p, "\r\n\r\n") || p->step++)
		return;
	buf_put_str(stream_out(p->stream), STR("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"));
	stream_finish(p->stream);
}

static void an_answer_that_breaks_off_is_never_a_clean_end(void **state)
{
	struct rig r;
	struct client c;
	struct h2_stream *s;

	(void)state;
	rig_open(&r);
	r.script = cut_off;
	client_open(&c, &r, "web.test", false);
	s = get(&c, "web.test", "/");
	answered(&r, s);
	assert_true(s->reset && !s->ended);
	assert_int_equal(s->code, H2_INTERNAL_ERROR);
	assert_false(h2_failed(c.h));
	client_close(&c);
	rig_close(&r);
}

static void answer_early(struct peer *p)
{
	if (peer_has(p, "\r\n\r\n") && p->step++ == 0)
		buf_put_str(stream_out(p->stream), STR("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno"));
}

static void an_answer_before_the_requests_end_is_whole(void **state)
{
	struct rig r;
	struct client c;
	struct h2_stream *s;

	(void)state;
	rig_open(&r);
	r.script = answer_early;
	client_open(&c, &r, "web.test", false);
	s = ask(&c, &(struct asked){ "POST", "web.test", "/", NULL });
	h2_put(s, STR("the first of much"));
	client_settle(&c);
	answered(&r, s);
	expect(s, 413, "no");
	/* The stream is over, the connection is not. */
	rig_until(&r, h2_count(c.h) == 0);
	s = get(&c, "web.test", "/gists/x");
	answered(&r, s);
	expect(s, 403, "no-gists");
	client_close(&c);
	rig_close(&r);
}

static void an_idle_connection_is_told_goodbye(void **state)
{
	struct rig r;
	struct client c;
	struct h2_stream *s;

	(void)state;
	rig_open(&r);
	r.w.idle_ms = 300;
	client_open(&c, &r, "web.test", false);
	s = get(&c, "web.test", "/");
	answered(&r, s);
	h2_leave(s);
	rig_until(&r, !h2_can_open(c.h));
	rig_until(&r, h2_over(c.h));
	client_close(&c);
	rig_until(&r, log_has(&r, "\"ended\":\"idle\""));
	rig_close(&r);
}

static void a_client_that_says_goodbye_gets_its_answers(void **state)
{
	struct rig r;
	struct client c;
	struct h2_stream *s;

	(void)state;
	rig_open(&r);
	client_open(&c, &r, "web.test", false);
	s = get(&c, "web.test", "/");
	h2_goaway(c.h, H2_NO_ERROR);
	client_settle(&c);
	answered(&r, s);
	expect(s, 200, "hi");
	h2_leave(s);
	client_settle(&c);
	client_close(&c);
	rig_until(&r, connections_count(r.w.connections) == 0);
	rig_close(&r);
}

static void a_flood_ends_the_connection_and_its_record_says_so(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	client_plain(&r, &c, "web.test");
	peer_send(&c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
	buf_put(stream_out(c.stream), "\0\0\0\4\0\0\0\0\0", 9);
	for (int i = 0; i < 3000; i++)
		buf_put(stream_out(c.stream), "\0\0\x08\6\0\0\0\0\0" "12345678", 17);
	stream_settle(c.stream);
	rig_until(&r, c.ended);
	peer_close(&c);
	rig_until(&r, log_has(&r, "\"ended\":\"Flooding was detected"));
	rig_close(&r);
}

static void the_preface_may_come_in_pieces(void **state)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	client_plain(&r, &c, "web.test");
	for (size_t i = 0; i < sizeof(preface) - 1; i++) {
		buf_put(stream_out(c.stream), preface + i, 1);
		stream_settle(c.stream);
		for (int n = 0; n < 5; n++)
			event_base_loop(r.base, EVLOOP_NONBLOCK);
	}
	/* Its settings. */
	rig_until(&r, c.got.n > 9 && c.got.p[3] == 4);
	peer_close(&c);
	rig_close(&r);
}

static void a_method_that_begins_like_the_preface_is_http_1(void **state)
{
	struct rig r;
	struct peer c;

	(void)state;
	rig_open(&r);
	ask_plain(&r, &c, "web.test", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\rX", "HTTP/1.1 505 ");
	peer_close(&c);
	ask_plain(&r, &c, "web.test", "PRINT / HTTP/1.1\r\nHost: web.test\r\n\r\n", "\r\n\r\nhi");
	peer_close(&c);
	rig_close(&r);
}

/* ---- records and policies ---- */

static void turns(struct rig *r)
{
	for (int i = 0; i < 20; i++)
		event_base_loop(r->base, EVLOOP_NONBLOCK);
}

static void a_full_log_holds_the_ends_of_answers(void **state)
{
	struct rig r;
	struct client c;
	struct h2_stream *s[2];

	(void)state;
	rig_open(&r);
	r.script = answer_nothing;
	client_open(&c, &r, "web.test", false);
	s[0] = get(&c, "web.test", "/");
	s[1] = get(&c, "web.test", "/");
	rig_until(&r, r.n_origins == 2 && peer_has(&r.origin[0], "\r\n\r\n") &&
		      peer_has(&r.origin[1], "\r\n\r\n"));
	fill_ring(&r);
	peer_send(&r.origin[0], "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
	peer_send(&r.origin[1], "HTTP/1.1 204 No Content\r\n\r\n");
	turns(&r);
	assert_false(s[0]->ended || h2_body(s[0]).n || s[1]->ended);
	read_log(&r);
	answered(&r, s[0]);
	answered(&r, s[1]);
	assert_false(s[0]->reset || s[1]->reset);
	client_close(&c);
	rig_close(&r);
}

static const struct rig_rule public_only[] = {
	{ .id = "public", .host = "web.test", .protos = PROTO_HTTP, .path = "/pub/**", .foreign = -1 },
};

static void answer_half(struct peer *p)
{
	if (peer_has(p, "\r\n\r\n") && !p->requests++)
		buf_put_str(stream_out(p->stream),
			    STR("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"));
}

static void a_new_policy_cuts_those_streams_alone_that_it_denies(void **state)
{
	struct rig r;
	struct client c;
	struct h2_stream *cut, *goes_on;

	(void)state;
	rig_open(&r);
	r.script = answer_half;
	client_open(&c, &r, "web.test", false);
	cut = get(&c, "web.test", "/private");
	goes_on = get(&c, "web.test", "/pub/x");
	rig_until(&r, h2_body(cut).n && h2_body(goes_on).n);
	rig_new_policy(&r, public_only, 1);
	rig_until(&r, cut->reset);
	for (int i = 0; i < 2; i++)
		if (!r.origin[i].ended)
			peer_send(&r.origin[i], "0\r\n\r\n");
	answered(&r, goes_on);
	expect(goes_on, 200, "half");
	client_close(&c);
	rig_close(&r);
}

static const struct rig_rule nothing[] = {
	{ .id = "closed", .host = "*.test", .deny = true, .foreign = -1 },
};

static void a_policy_that_denies_all_says_goodbye_to_idle_ones(void **state)
{
	struct rig r;
	struct client c;
	struct h2_stream *s;

	(void)state;
	rig_open(&r);
	client_open(&c, &r, "web.test", false);
	s = get(&c, "web.test", "/");
	answered(&r, s);
	h2_leave(s);
	client_settle(&c);
	turns(&r);
	rig_new_policy(&r, nothing, 1);
	rig_until(&r, h2_over(c.h));
	assert_false(h2_failed(c.h) && !strstr(h2_why(c.h), "closed"));
	client_close(&c);
	rig_close(&r);
}

static void the_answers_origin_is_on_the_connections_record(void **state)
{
	struct rig r;
	struct client c;
	struct h2_stream *s;

	(void)state;
	rig_open(&r);
	r.script = answer_half;
	client_open(&c, &r, "web.test", false);
	s = get(&c, "web.test", "/");
	rig_until(&r, h2_body(s).n);
	client_close(&c);
	rig_until(&r, log_has(&r, "\"phase\":\"close\""));
	assert_true(log_has(&r, "\"address\":\"203.0.113.10\""));
	rig_close(&r);
}


int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_in_clear_text_by_prior_knowledge_is_answered),
		cmocka_unit_test(a_request_over_tls_is_answered),
		cmocka_unit_test(many_at_once_go_their_own_ways),
		cmocka_unit_test(cookies_come_to_the_origin_as_one_field),
		cmocka_unit_test(answers_without_a_body_keep_their_fields),
		cmocka_unit_test(interim_answers_and_trailers_pass),
		cmocka_unit_test(another_authority_is_a_misdirected_request),
		cmocka_unit_test(what_http_1_would_not_take_is_refused_here_too),
		cmocka_unit_test(a_host_that_is_not_the_authority_is_refused),
		cmocka_unit_test(a_body_that_is_there_is_counted_and_one_that_comes_is_chunked),
		cmocka_unit_test(a_megabyte_goes_up_in_bounded_pieces),
		cmocka_unit_test(a_slow_reader_holds_its_own_stream_and_its_origin),
		cmocka_unit_test(a_client_that_cancels_is_passed_on),
		cmocka_unit_test(a_client_that_goes_takes_all_along),
		cmocka_unit_test(an_answer_that_breaks_off_is_never_a_clean_end),
		cmocka_unit_test(an_answer_before_the_requests_end_is_whole),
		cmocka_unit_test(an_idle_connection_is_told_goodbye),
		cmocka_unit_test(a_client_that_says_goodbye_gets_its_answers),
		cmocka_unit_test(a_flood_ends_the_connection_and_its_record_says_so),
		cmocka_unit_test(the_preface_may_come_in_pieces),
		cmocka_unit_test(a_method_that_begins_like_the_preface_is_http_1),
		cmocka_unit_test(a_full_log_holds_the_ends_of_answers),
		cmocka_unit_test(a_new_policy_cuts_those_streams_alone_that_it_denies),
		cmocka_unit_test(a_policy_that_denies_all_says_goodbye_to_idle_ones),
		cmocka_unit_test(the_answers_origin_is_on_the_connections_record),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
