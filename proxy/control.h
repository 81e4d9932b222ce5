/* proxy/control.h - the appliance's control socket: HTTP/1.1 and JSON over a Unix socket
 *
 * Requests are read strictly (proxy/http1.h), judged by a table of routes and handed to a handler,
 * which answers at once or later. Who may ask is known before a byte of a body is read: user 0, and
 * the members of one group (SO_PEERCRED, SO_PEERGROUPS); the socket's mode keeps everybody else
 * from connecting at all. Errors are application/problem+json (RFC 9457).
 *
 * Ownership   control_new() borrows the listener and what its configuration points to. A struct
 *             control_request is valid until control_answer() or control_refuse() has been called
 *             on it, whatever becomes of its client or of the server.
 * Blocking    never, but control_listen(), which is for the time before confinement.
 * Callbacks   handlers and on_done from the event loop; on_done and gone may also come from within
 *             control_answer(), control_refuse(). They may answer requests, not free the server.
 * Failure     what a client does wrong is answered to it: 400, 403, 404, 405, 408, 411, 413, 414,
 *             415, 417, 431, 501, 503. Out of memory closes its connection.
 * Limits      below. A client that left while its request waits counts until it is answered.
 * After confinement  accept4, getsockopt, recvfrom, sendto, shutdown, poll, close.
 * Tests       tests/unit/proxy/test_control.c, fuzz/fuzz_control.c, tests/e2e/test_control.py
 */
#ifndef PROXY_CONTROL_H
#define PROXY_CONTROL_H

#include <sys/types.h>

#include "proxy/control_route.h"

#define CONTROL_CLIENTS_MAX 64u
#define CONTROL_CLIENTS_OF_USER 16u	/* of one user that is not root */
#define CONTROL_CLIENTS_OF_ROOT 8u	/* kept for root: one person can be many users */
#define CONTROL_HEAD_MAX (16u << 10)	/* header section: 431 */
#define CONTROL_TARGET_MAX 4096u	/* 414 */
#define CONTROL_BODY_MAX (256u << 10)	/* 413 */
#define CONTROL_ANSWER_MAX (4u << 20)
#define CONTROL_SLOW_MS 5000		/* for a head, a body, and reading an answer, each: 408 */
#define CONTROL_IDLE_MS 60000		/* between requests: closed */

struct event_base;
struct control;

struct control_peer {
	uid_t uid;
	gid_t gid;
	pid_t pid;
};

/* One request that was answered. */
struct control_done {
	struct control_peer peer;
	struct str method, path;	/* empty where the head could not be read */
	struct str about;		/* control_about() */
	unsigned status;
	struct str problem;		/* what was said of it; empty: it was not refused */
};

struct control_config {
	struct event_base *base;
	int listener;			/* control_listen(); -1: they come by control_take() */
	gid_t group;			/* whose members may ask, too; (gid_t)-1: nobody's */
	const struct control_route *routes;
	void (*on_done)(void *arg, const struct control_done *done);
	void *arg;			/* of on_done and of handlers */
	unsigned slow_ms, idle_ms;	/* 0: as above */
};

/* NULL: out of memory. Before confinement. */
struct control *control_new(const struct control_config *config);
/* Closes every connection. Requests that wait are not answered any more. */
void control_free(struct control *c);
/* Serves a connection that is there; takes the descriptor over. */
void control_take(struct control *c, int fd);
unsigned control_clients(const struct control *c);

/* ---- for handlers ---- */
struct control_peer control_peer(const struct control_request *rq);
/* Which sandbox it is about, for the record. Copied. */
void control_about(struct control_request *rq, struct str sandbox);
/* Called when the client has left before the answer; the request must still be answered. */
void control_on_gone(struct control_request *rq, void (*gone)(void *arg), void *arg);
/* @json: the whole body. Copied. */
void control_answer(struct control_request *rq, unsigned status, struct str json);
/* A problem: what is wrong, and what to do instead. */
void control_refuse(struct control_request *rq, unsigned status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* ---- before all of it ---- */
/* Makes the socket's folder (0755), takes away a socket that nobody answers on, and listens: mode
 * 0660, root's and @group's ((gid_t)-1: 0600). False: why has been said on stderr. */
bool control_listen(const char *path, gid_t group, int *fd);

#endif
