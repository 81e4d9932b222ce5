/* proxy/exchange.h - one request and its answer, from the box to an origin and back
 *
 * Knows no version of HTTP: the two connections are ports that it calls through small tables
 * (struct box_ops, struct origin_ops) and that call it with what they have read. Either side is
 * held back by the other's queue: exchange_wants_body() and exchange_wants_answer().
 *
 * Ownership   exchange_free(); its leg goes back to the worker's pool (proxy/pool.h). What ports
 *             hand in is copied or passed on before the call returns. Fields, edits and patterns
 *             are wiped.
 * Blocking    never: where something must be waited for, exchange_step() returns, and the owner
 *             calls it again after any event of its streams, its questions or the ring.
 * Callbacks   box_ops and origin_ops from within exchange_step() and the exchange_*() that ports
 *             call.
 * Failure     a refusal is an answer; after the answer has begun, box->abort().
 * Limits      what the streams' queues hold; times as named here; w->idle_ms without a byte of a
 *             stream in either direction, before its answer begins and after. None in all.
 * Tests       tests/unit/proxy/test_engine.c, tests/unit/proxy/test_engine_streams.c
 */
#ifndef PROXY_EXCHANGE_H
#define PROXY_EXCHANGE_H

#include "broker/scrub.h"
#include "policy/name.h"
#include "proxy/foreign.h"
#include "proxy/upstream.h"

#define EXCHANGE_BODY_MS 300000u	/* a pause inside a request's body of known length */
#define EXCHANGE_EXPECT_MS 1000u /* Expect: 100-continue: how long the origin is waited for */
#define EXCHANGE_INTERIM_MAX 64u	/* answers before the answer */
#define EXCHANGE_TEXT_MAX (3 * HTTP1_LINE_MAX)

struct exchange;

enum body_kind {
	BODY_NONE,
	BODY_LENGTH,
	BODY_STREAM,		/* its end is told, not counted */
};

struct request {
	struct str method, target;
	unsigned minor;		/* of HTTP/1; 1 for all that is newer */
	const struct fields *fields;	/* as the box sent them */
	enum body_kind body;
	uint64_t length;
	bool expect_continue;
	const struct fields *secrets;	/* of these names are fields that were put on; or NULL */
};

struct reply {
	unsigned status;
	struct str reason;
	struct fields *fields;	/* may be changed */
	enum body_kind body;
	uint64_t length;
};

/* The connection that the request came by. */
struct box_ops {
	void (*interim)(void *port, const struct reply *a);
	void (*head)(void *port, const struct reply *a);
	void (*body)(void *port, struct str piece);
	void (*end)(void *port, const struct fields *trailers);
	/* The answer has begun and cannot be finished: the box must see that. */
	void (*abort)(void *port);
	bool (*full)(void *port);
	/* What was queued may not go out (yet). */
	void (*hold)(void *port, bool hold);
};

/* The way to the origin; the leg's upstream is ready. */
struct origin_ops {
	/* @fields: the request's, Host first; framing is added to them. */
	void (*head)(struct leg *l, const struct request *r, struct fields *fields);
	void (*body)(struct leg *l, struct str piece);
	void (*end)(struct leg *l, const struct fields *trailers);
	bool (*full)(const struct leg *l);
	/* Reads what has come and calls exchange_answer_*(). True when something moved. */
	bool (*read)(struct leg *l, struct exchange *x);
	/* Has the answer left the connection so that it can carry another exchange? */
	bool (*reusable)(const struct leg *l);
	/* Is it certain that the origin has done nothing about the request, and may another have
	 * been meant? */
	bool (*unprocessed)(const struct leg *l);
	/* Nobody wants the answer any more: the origin is to see that. */
	void (*abort)(struct leg *l);
	/* The leg goes off. What is not finished is broken off. */
	void (*leave)(struct leg *l);
	/* The connection's state, from when it is ready to its end. False: out of memory. */
	bool (*open)(struct upstream *u);
	void (*close)(struct upstream *u);
	/* Its stream of bytes has moved: the legs that are to be woken are marked. */
	void (*look)(struct upstream *u);
	/* May another leg come? */
	bool (*has_room)(const struct upstream *u);
	/* Queues what is to go out. True: that has made room, and legs are marked to be woken. */
	bool (*flush)(struct upstream *u);
	bool shared;			/* by many legs */
};

/* What an exchange knows of the connection that it is on. */
struct exchange_env {
	struct worker *w;
	struct site site;
	struct addr literal;		/* where site.literal */
	bool refusal_address;		/* all is refused here, in words */
	uint64_t connection;		/* number of the connection, for the record */
	uint64_t *next_exchange;
	stream_wake_fn *wake;		/* for the leg and answers to questions */
	void *wake_arg;
	const struct box_ops *box;
	void *box_port;
	/* Where each request says itself where it goes (proxy/explicit.h), NULL else: makes @site
	 * what it says. REFUSAL_COUNT, or what it is refused for. Called with wake_arg. */
	enum refusal_reason (*aim)(void *arg, const struct request *r, const char **why);
};

/* @env is borrowed for the exchange's life. NULL: out of memory. */
struct exchange *exchange_new(const struct exchange_env *env);
void exchange_free(struct exchange *x);

/* ---- from the box's port ---- */
void exchange_begin(struct exchange *x, const struct request *r);
/* A request that could not be read. */
void exchange_malformed(struct exchange *x, enum refusal_reason reason, const char *why);
bool exchange_wants_body(const struct exchange *x);
void exchange_request_body(struct exchange *x, struct str piece);
void exchange_request_end(struct exchange *x, const struct fields *trailers);
/* The box is gone, or broke off. */
void exchange_abandon(struct exchange *x, const char *how);

/* ---- from the origin's port ---- */
bool exchange_wants_answer(struct exchange *x);
bool exchange_answers_head(const struct exchange *x);
void exchange_answer_head(struct exchange *x, struct reply *a);
void exchange_answer_body(struct exchange *x, struct str piece);
void exchange_answer_end(struct exchange *x, const struct fields *trailers);
void exchange_answer_failed(struct exchange *x, enum refusal_reason reason, const char *why);

/* ---- from the owner ---- */
/* Goes as far as it can. True when something moved. */
bool exchange_step(struct exchange *x);
/* env->w->policy is another: it is judged again. To be stepped afterwards. */
void exchange_new_policy(struct exchange *x);
/* Nothing more will be done; with @clean the connection can carry another. */
bool exchange_over(const struct exchange *x, bool *clean);
/* Waits for room in the audit ring. */
bool exchange_waits_for_room(const struct exchange *x);
/* The stream towards the origin is to be settled after a pass; NULL: none. */
struct upstream *exchange_upstream(const struct exchange *x);
/* When exchange_timeout() is due; 0: the owner's own limits hold. */
uint64_t exchange_deadline(const struct exchange *x);
void exchange_timeout(struct exchange *x);

#endif
