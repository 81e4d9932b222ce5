/* proxy/control_state.h - what the parts of the control server share
 *
 * Ownership   a server owns its clients, a client its request until a handler has it; from then on
 *             the request lives until it is answered.
 * Blocking    never.       Failure  see proxy/control.h.
 * Tests       tests/unit/proxy/test_control.c
 */
#ifndef PROXY_CONTROL_STATE_H
#define PROXY_CONTROL_STATE_H

#include "proxy/control.h"
#include "proxy/http1.h"

struct event;

#define CONTROL_IN_MAX (32u << 10)	/* read and not yet parsed */
#define CONTROL_DRAIN_MAX (1u << 20)	/* read past what was refused */

enum client_state {
	CLIENT_IDLE,		/* no byte of a request has come */
	CLIENT_HEAD,
	CLIENT_BODY,
	CLIENT_WAITS,		/* for the handler */
	CLIENT_WRITES,
	CLIENT_DRAINS,		/* answered; what it still sends is read past */
	CLIENT_GONE,		/* closed; its request is not answered yet */
};

struct client {
	struct control *control;
	struct client *next, **link;
	int fd;
	enum client_state state;
	struct control_peer peer;
	bool permitted;
	bool ended;		/* sends nothing more */
	bool whole;		/* its message was read to its end */
	bool keep;		/* the connection may serve another request */
	bool reading, writing;	/* the events that are added */
	struct event *readable, *writable, *timer;
	struct http1_parser *parser;
	struct buf in, body, out;
	size_t drained;
	struct control_request *rq;
};

struct control {
	struct control_config config;
	struct event *accepting, *pause;
	struct client *clients;
	unsigned n;
};

struct control_request {
	struct client *client;	/* NULL: the server is gone */
	struct control_peer peer;
	struct arena arena;
	struct str method, path, about;
	const struct control_route *route;
	struct control_values values, query;
	struct json_t *body;
	void (*gone)(void *arg);
	void *gone_arg;
};

/* ---- control.c ---- */
/* Into another state, with the time that it may last. */
void client_enter(struct client *cl, enum client_state state);
/* The answer is in its buffer: it goes out from the loop; one that is gone is freed. */
void client_send(struct client *cl);

/* ---- control_request.c ---- */
/* Reads what has come. */
void client_process(struct client *cl);
/* An answer before there was a request to answer; the connection ends after it. */
void client_refuse(struct client *cl, unsigned status, const char *why);
/* A whole problem answer, as bytes. */
void problem_write(struct buf *out, unsigned status, const char *why);
void request_free(struct control_request *rq);

#endif
