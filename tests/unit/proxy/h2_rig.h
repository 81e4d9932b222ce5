/* tests/unit/proxy/h2_rig.h - HTTP/2 sessions over socket pairs, and a peer that says what it likes
 *
 * Two of our own sessions, client and server, with real streams between them; or one, whose peer is
 * bytes that a test writes by hand. What has happened is text that can be compared.
 *
 * Ownership   the test's.       Blocking  never: h2_spin() runs until nothing is left to do.
 * Failure     of the test.
 * Tests       used by test_h2.c and test_h2_limits.c
 */
#ifndef TESTS_H2_RIG_H
#define TESTS_H2_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/h2.h"
#include "proxy/h2_flood.h"

#define HELPER __attribute__((unused)) static
#define SEEN_MAX 16

struct side {
	struct stream *stream;
	struct h2 *h;
	struct h2_stream *opened[SEEN_MAX];	/* a server's */
	unsigned n_opened, n_moved;
	void (*on_open)(struct side *, struct h2_stream *);
	void (*on_move)(struct side *, struct h2_stream *);
};

struct pair {
	struct event_base *base;
	struct side client, server;
	int other;		/* the raw peer's socket */
	struct buf got;		/* what it has been sent */
	bool quiet;		/* nothing has happened in this round */
};

static struct pair pair;

HELPER void on_opened(void *arg, struct h2_stream *s)
{
	struct side *side = arg;

	assert_true(side->n_opened < SEEN_MAX);
	side->opened[side->n_opened++] = s;
	if (side->on_open)
		side->on_open(side, s);
}

HELPER void on_moved(void *arg, struct h2_stream *s)
{
	struct side *side = arg;

	side->n_moved++;
	if (side->on_move)
		side->on_move(side, s);
}

static const struct h2_events events = { .opened = on_opened, .moved = on_moved };

HELPER void side_settle(struct side *side)
{
	if (h2_write(side->h))
		pair.quiet = false;
	stream_settle(side->stream);
}

HELPER void side_wake(void *arg)
{
	struct side *side = arg;

	pair.quiet = false;
	h2_read(side->h);
	side_settle(side);
}

HELPER void side_open(struct side *side, int fd, bool server, size_t max_headers)
{
	struct h2_setup set = { .server = server, .events = &events, .arg = side,
				.max_headers = max_headers };

	*side = (struct side){ 0 };
	side->stream = stream_new(pair.base, fd, side_wake, side);
	assert_non_null(side->stream);
	set.stream = side->stream;
	side->h = h2_new(&set);
	assert_non_null(side->h);
	side_settle(side);
}

HELPER void side_close(struct side *side)
{
	h2_free(side->h);
	stream_free(side->stream);
	*side = (struct side){ 0 };
}

HELPER void take_raw(void)
{
	char bytes[65536];
	ssize_t n;

	while (pair.other >= 0 && (n = read(pair.other, bytes, sizeof(bytes))) > 0) {
		buf_put(&pair.got, bytes, (size_t)n);
		pair.quiet = false;
	}
}

/* Until nothing moves. */
HELPER void spin(void)
{
	do {
		pair.quiet = true;
		if (pair.client.h)
			side_settle(&pair.client);
		if (pair.server.h)
			side_settle(&pair.server);
		event_base_loop(pair.base, EVLOOP_NONBLOCK);
		take_raw();
	} while (!pair.quiet);
}

HELPER void pair_begin(int fds[2])
{
	signal(SIGPIPE, SIG_IGN);
	pair = (struct pair){ .base = event_base_new(), .other = -1 };
	buf_init(&pair.got, 64u << 20);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
}

HELPER int both_setup(void **state)
{
	int fds[2];

	(void)state;
	pair_begin(fds);
	side_open(&pair.client, fds[0], false, 65536);
	side_open(&pair.server, fds[1], true, 65536);
	spin();
	return 0;
}

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

HELPER void raw(const void *p, size_t n)
{
	while (n) {
		ssize_t put = write(pair.other, p, n);

		if (put < 0)
			return;		/* it does not listen any more */
		p = (const char *)p + put;
		n -= (size_t)put;
		if (n)
			spin();
	}
}

HELPER void raw_frame(uint8_t type, uint8_t flags, uint32_t id, const void *p, size_t n)
{
	uint8_t head[9] = { (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n, type, flags,
			    (uint8_t)(id >> 24), (uint8_t)(id >> 16), (uint8_t)(id >> 8), (uint8_t)id };

	raw(head, sizeof(head));
	raw(p, n);
}

/* GET / of a host, with what follows in the head. */
#define RAW_GET "\x82\x87\x84\x41\x09" "box.local"
#define END_STREAM 1
#define END_HEADERS 4

HELPER void raw_get(uint32_t id)
{
	raw_frame(1, END_STREAM | END_HEADERS, id, RAW_GET, sizeof(RAW_GET) - 1);
}

HELPER int raw_server_setup(void **state)
{
	int fds[2];

	(void)state;
	pair_begin(fds);
	pair.other = fds[0];
	side_open(&pair.server, fds[1], true, 16384);
	raw(PREFACE, sizeof(PREFACE) - 1);
	raw_frame(4, 0, 0, "", 0);
	spin();
	return 0;
}

HELPER int raw_client_setup(void **state)
{
	int fds[2];

	(void)state;
	pair_begin(fds);
	pair.other = fds[1];
	side_open(&pair.client, fds[0], false, 16384);
	raw_frame(4, 0, 0, "", 0);
	spin();
	return 0;
}

HELPER int pair_teardown(void **state)
{
	(void)state;
	if (pair.client.h)
		side_close(&pair.client);
	if (pair.server.h)
		side_close(&pair.server);
	if (pair.other >= 0)
		close(pair.other);
	buf_free(&pair.got);
	event_base_free(pair.base);
	return 0;
}

/* The code of the last frame of this type (RST_STREAM 3, GOAWAY 7) that the raw peer got; @id: of
 * this stream. -1: none. */
HELPER long got_code(uint8_t type, uint32_t id)
{
	const uint8_t *p = (const uint8_t *)pair.got.p;
	size_t n = pair.got.n, at = 0;
	long code = -1;

	if (n >= 24 && memcmp(p, PREFACE, 24) == 0)
		at = 24;
	while (at + 9 <= n) {
		size_t length = (size_t)p[at] << 16 | (size_t)p[at + 1] << 8 | p[at + 2];
		const uint8_t *code_at = p + at + 9 + (type == 7 ? 4 : 0);
		uint32_t of = (uint32_t)p[at + 5] << 24 | (uint32_t)p[at + 6] << 16 |
			      (uint32_t)p[at + 7] << 8 | p[at + 8];

		if (p[at + 3] == type && of == id)
			code = (long)code_at[2] << 8 | code_at[3];
		at += 9 + length;
	}
	assert_int_equal(at, n);	/* whole frames, and nothing else */
	return code;
}

HELPER struct str field(const struct fields *f, const char *name)
{
	struct str value = STR("(none)");

	fields_get(f, str_of(name), &value);
	return value;
}

#define assert_str(a, b)                                                                          \
	do {                                                                                      \
		struct str a_ = (a), b_ = str_of(b);                                              \
		if (!str_eq(a_, b_))                                                              \
			fail_msg("\"%.*s\" is not \"%s\"", STR_ARG(a_), b_.p);                    \
	} while (0)

#endif
