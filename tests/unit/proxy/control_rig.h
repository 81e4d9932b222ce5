/* tests/unit/proxy/control_rig.h - a control server whose handlers do as a test says, and its clients
 *
 * Ownership   rig_close() releases all.       Blocking  until what is waited for is there; a test
 *             that waits in vain fails.       Failure  asserts.
 * Tests       test_control.c, test_control_client.c
 */
#ifndef TESTS_UNIT_PROXY_CONTROL_RIG_H
#define TESTS_UNIT_PROXY_CONTROL_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "proxy/control.h"

#define RIG_WAIT_S 30
#define RIG_DONE_MAX 256

struct rig_args {
	struct str name, text;
	uint64_t number;
	bool flag;
	struct control_texts words;
};

struct rig_done {
	char method[16], path[64], about[32], problem[512];
	unsigned status;
	struct control_peer peer;
};

struct rig {
	struct event_base *base;
	struct control *control;
	struct rig_done done[RIG_DONE_MAX];
	unsigned n_done;
	struct control_request *held;	/* by the handler that answers later */
	unsigned gone;
	struct str big;			/* what GET /v1/big answers */
};

static inline const char *rig_check_name(struct str s)
{
	return str_is_id(s) ? NULL : "is a name: letters, digits, '_', '.' and '-'";
}

static const struct control_field rig_fields[] = {
	{ .name = "name", .from = CONTROL_PATH, .type = CONTROL_TEXT, .required = true, .min = 1, .max = 64,
	  .offset = offsetof(struct rig_args, name), .check = rig_check_name, .help = "a name" },
	{ .name = "number", .from = CONTROL_QUERY, .type = CONTROL_NUMBER, .min = 1, .max = 9,
	  .offset = offsetof(struct rig_args, number), .help = "how many" },
	{ .name = "text", .from = CONTROL_BODY, .type = CONTROL_TEXT, .required = true, .min = 1, .max = 16,
	  .offset = offsetof(struct rig_args, text), .help = "some text" },
	{ .name = "flag", .from = CONTROL_BODY, .type = CONTROL_BOOL, .root_only = true,
	  .offset = offsetof(struct rig_args, flag), .help = "a choice" },
	{ .name = "words", .from = CONTROL_BODY, .type = CONTROL_TEXTS, .min = 1, .max = 3,
	  .offset = offsetof(struct rig_args, words), .help = "words" },
	{ 0 },
};

static const struct control_field rig_none[] = { { 0 } };

static inline const char *rig_check(const void *args)
{
	const struct rig_args *a = args;

	return str_eq(a->name, a->text) ? "name and text are the same" : NULL;
}

static inline void rig_echo(struct control_request *rq, const void *args, void *arg)
{
	const struct rig_args *a = args;
	char text[128];

	(void)arg;
	snprintf(text, sizeof(text), "{\"name\":\"%.*s\",\"text\":\"%.*s\",\"words\":%zu,\"number\":%u}",
		 STR_ARG(a->name), STR_ARG(a->text), a->words.n, (unsigned)a->number);
	control_about(rq, a->name);
	control_answer(rq, 201, str_of(text));
}

static inline void rig_status(struct control_request *rq, const void *args, void *arg)
{
	(void)args;
	(void)arg;
	control_answer(rq, 200, STR("{\"fine\":true}"));
}

static inline void rig_big(struct control_request *rq, const void *args, void *arg)
{
	const struct rig *r = arg;

	(void)args;
	control_answer(rq, 200, r->big);
}

static inline void rig_on_gone(void *arg)
{
	struct rig *r = arg;

	r->gone++;
}

static inline void rig_hold(struct control_request *rq, const void *args, void *arg)
{
	struct rig *r = arg;

	(void)args;
	assert_null(r->held);
	r->held = rq;
	control_on_gone(rq, rig_on_gone, r);
}

static const struct control_route rig_routes[] = {
	{ "GET", "/v1/status", false, 0, rig_none, rig_status, NULL },
	{ "GET", "/v1/big", false, 0, rig_none, rig_big, NULL },
	{ "GET", "/v1/later", false, 0, rig_none, rig_hold, NULL },
	{ "GET", "/v1/root", true, 0, rig_none, rig_status, NULL },
	{ "GET", "/v1/things", false, 0, rig_none, rig_status, NULL },
	{ "POST", "/v1/things/{name}", false, sizeof(struct rig_args), rig_fields, rig_echo, rig_check },
	{ 0 },
};

static inline void rig_copy(char *to, size_t room, struct str s)
{
	snprintf(to, room, "%.*s", STR_ARG(s));
}

static inline void rig_on_done(void *arg, const struct control_done *d)
{
	struct rig *r = arg;
	struct rig_done *to = &r->done[r->n_done++ % RIG_DONE_MAX];

	rig_copy(to->method, sizeof(to->method), d->method);
	rig_copy(to->path, sizeof(to->path), d->path);
	rig_copy(to->about, sizeof(to->about), d->about);
	rig_copy(to->problem, sizeof(to->problem), d->problem);
	to->status = d->status;
	to->peer = d->peer;
}

static inline const struct rig_done *rig_last(const struct rig *r)
{
	assert_int_not_equal(r->n_done, 0);
	return &r->done[(r->n_done - 1) % RIG_DONE_MAX];
}

/* @slow_ms, @idle_ms: as the program has them, where they are 0. */
static inline void rig_open_with(struct rig *r, int listener, gid_t group, unsigned slow_ms,
				 unsigned idle_ms)
{
	struct control_config config = { .listener = listener, .group = group, .routes = rig_routes,
					 .on_done = rig_on_done, .arg = r, .slow_ms = slow_ms,
					 .idle_ms = idle_ms };

	*r = (struct rig){ .base = event_base_new() };
	assert_non_null(r->base);
	config.base = r->base;
	r->control = control_new(&config);
	assert_non_null(r->control);
}

static inline void rig_open(struct rig *r, int listener, gid_t group)
{
	rig_open_with(r, listener, group, 0, 0);
}

static inline void rig_close(struct rig *r)
{
	control_free(r->control);
	event_base_free(r->base);
}

/* ---- clients ---- */

static inline int rig_client(struct rig *r)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
	control_take(r->control, pair[1]);
	return pair[0];
}

static inline void rig_pass(struct rig *r)
{
	const struct timeval tick = { 0, 2000 };

	event_base_loopexit(r->base, &tick);
	event_base_loop(r->base, EVLOOP_ONCE);
}

/* All of it; what the server does not take at once waits for it. */
static inline void rig_send(struct rig *r, int fd, const char *bytes, size_t n)
{
	time_t end = time(NULL) + RIG_WAIT_S;

	while (n) {
		ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);

		if (sent > 0) {
			bytes += sent;
			n -= (size_t)sent;
		} else {
			assert_int_equal(errno, EAGAIN);
		}
		assert_true(time(NULL) < end);
		rig_pass(r);
	}
}

static inline void rig_say(struct rig *r, int fd, const char *text)
{
	rig_send(r, fd, text, strlen(text));
}

#define RIG_WAIT(r, what) \
	do { \
		time_t rig_end = time(NULL) + RIG_WAIT_S; \
		while (!(what)) { \
			assert_true(time(NULL) < rig_end); \
			rig_pass(r); \
		} \
	} while (0)

struct rig_answer {
	unsigned status;
	char head[1024], body[4096];
	bool closed;
};

/* One answer, or the end of the connection (status 0). Bodies over the room are counted only. */
static inline size_t rig_read(struct rig *r, int fd, struct rig_answer *a)
{
	time_t end = time(NULL) + RIG_WAIT_S;
	size_t n = 0, body = 0, length = 0, head = 0;
	static char bytes[1 << 16];

	memset(a, 0, sizeof(*a));
	while (!head || body < length) {
		size_t room = head ? (length - body < sizeof(bytes) ? length - body : sizeof(bytes)) : 1;
		ssize_t got = recv(fd, bytes, room, 0);

		assert_true(time(NULL) < end);
		if (got < 0 && errno == EAGAIN) {
			rig_pass(r);
			continue;
		}
		if (got <= 0) {
			a->closed = true;
			return 0;
		}
		if (!head) {
			assert_true(n + 1 < sizeof(a->head));
			a->head[n++] = bytes[0];
			if (n < 4 || memcmp(a->head + n - 4, "\r\n\r\n", 4) != 0)
				continue;
			head = n;
			assert_int_equal(sscanf(a->head, "HTTP/1.1 %u", &a->status), 1);
			const char *at = strstr(a->head, "content-length: ");

			length = at ? strtoul(at + 16, NULL, 10) : 0;
		} else {
			if (body < sizeof(a->body) - 1)
				memcpy(a->body + body, bytes, (size_t)got < sizeof(a->body) - 1 - body ?
				       (size_t)got : sizeof(a->body) - 1 - body);
			body += (size_t)got;
		}
	}
	return length;
}

static inline bool rig_closed(struct rig *r, int fd)
{
	struct rig_answer a;

	rig_read(r, fd, &a);
	return a.closed;
}

/* Asks on a connection of its own, which is closed. */
static inline void rig_ask(struct rig *r, const char *text, struct rig_answer *a)
{
	int fd = rig_client(r);

	rig_say(r, fd, text);
	rig_read(r, fd, a);
	close(fd);
}

#endif
