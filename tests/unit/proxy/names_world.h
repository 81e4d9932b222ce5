/* An event loop, an audit ring with its reader, and waiting that never sleeps: for the tests of names. */
#ifndef TEST_NAMES_WORLD_H
#define TEST_NAMES_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <sys/socket.h>

#include "conf/json.h"
#include "proxy/record.h"
#include "sandbox/ring.h"

#define GUARD_SECONDS 20
#define LINES_MAX 64

struct world {
	struct event_base *base;
	struct event *guard;
	struct ring *ring, *reader;
	char lines[LINES_MAX][2048];
	size_t n_lines;
};

static inline void on_guard(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
	fail_msg("what was waited for did not come");
}

static inline void world_open(struct world *w)
{
	const struct timeval tv = { .tv_sec = GUARD_SECONDS };
	struct ring_fds fds, copy;

	memset(w, 0, sizeof(*w));
	w->base = event_base_new();
	w->guard = event_new(w->base, -1, 0, on_guard, NULL);
	event_add(w->guard, &tv);
	assert_int_equal(ring_create(&fds), OK);
	copy = (struct ring_fds){ dup(fds.memory), dup(fds.wake), dup(fds.room) };
	assert_int_equal(ring_open_writer(&fds, &w->ring), OK);
	assert_int_equal(ring_open_reader(&copy, &w->reader), OK);
}

static inline void world_close(struct world *w)
{
	ring_close(w->ring);
	ring_close(w->reader);
	event_free(w->guard);
	event_base_free(w->base);
}

static inline void turn(struct world *w)
{
	event_base_loop(w->base, EVLOOP_ONCE);
}

#define WAIT_UNTIL(world, condition)                                                              \
	do {                                                                                      \
		while (!(condition))                                                              \
			turn(world);                                                              \
	} while (0)

/* Takes what is in the ring, as the recorder would write it for @role. */
static inline void world_read_log(struct world *w, enum role role)
{
	struct str bytes;

	while (ring_next(w->reader, &bytes) == OK) {
		struct record_head head;
		struct buf out;
		struct json json;

		assert_int_equal(record_check(bytes, role, &head), OK);
		buf_init(&out, sizeof(w->lines[0]) - 1);
		json_init(&json, &out);
		json_object(&json);
		json_put_str(&json, "kind", str_of(record_kind_name(head.kind)));
		record_write_fields(bytes, &json);
		if (head.policy.n)
			json_put_str(&json, "policy", head.policy);
		json_object_end(&json);
		assert_true(w->n_lines < LINES_MAX && !out.failed);
		memcpy(w->lines[w->n_lines], out.p, out.n);
		w->lines[w->n_lines++][out.n] = '\0';
		buf_free(&out);
	}
	ring_advance(w->reader);
}

/* The last line in the log has this text. */
#define assert_logged(world, text)                                                                \
	do {                                                                                      \
		assert_true((world)->n_lines > 0);                                                \
		if (!strstr((world)->lines[(world)->n_lines - 1], text))                          \
			fail_msg("\"%s\" is not in %s", text, (world)->lines[(world)->n_lines - 1]); \
	} while (0)

/* A socket bound to 127.0.0.1 and a port of the kernel's choice. */
static inline int bound_socket(int type, uint16_t *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				  .sin_port = htons(*port) };
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	*port = ntohs(at.sin_port);
	return fd;
}

/* UDP and TCP at one port: the kernel's choice for the one may be taken for the other. */
static inline void bound_pair(uint16_t *port, int *udp, int *tcp)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int on = 1;

	for (unsigned i = 0; i < 100; i++) {
		*port = 0;
		*udp = bound_socket(SOCK_DGRAM, port);
		*tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		setsockopt(*tcp, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		at.sin_port = htons(*port);
		if (bind(*tcp, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(*tcp, 128) == 0)
			return;
		close(*udp);
		close(*tcp);
	}
	fail_msg("no port is free for both UDP and TCP");
}

static inline int connected_socket(int type, uint16_t port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				  .sin_port = htons(port) };
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

#endif
