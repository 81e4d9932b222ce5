/* proxy/h1_box.h - an exchange's port towards a box that speaks HTTP/1.1 or 1.0
 *
 * One exchange at a time: what a client pipelines stays in the stream until the answer before it is
 * done.
 *
 * Ownership   h1_box_init() makes the parser, h1_box_free() releases it; the stream is borrowed.
 * Blocking    never.
 * Failure     a request that cannot be read becomes an exchange that is refused.
 * Tests       tests/unit/proxy/test_engine.c
 */
#ifndef PROXY_H1_BOX_H
#define PROXY_H1_BOX_H

#include "proxy/exchange.h"

struct h1_box {
	struct stream *stream;
	struct http1_parser *parser;
	unsigned minor;
	bool keep;		/* the connection may go on after this exchange */
	bool request_ended;
	bool chunked;
	bool aborted;
};

extern const struct box_ops h1_box_ops;

must_use enum err h1_box_init(struct h1_box *b, struct stream *stream, size_t max_headers);
void h1_box_free(struct h1_box *b);
/* What a parser that failed is refused with. */
enum refusal_reason h1_box_refusal(const struct http1_parser *parser);
/* A new exchange, where a request's head is there (or cannot be read); else NULL. */
struct exchange *h1_box_request(struct h1_box *b, const struct exchange_env *env);
/* Feeds the request's body as far as it is there and wanted. True when something moved. */
bool h1_box_body(struct h1_box *b, struct exchange *x);
/* The request that has begun did not become whole in time. NULL: out of memory. */
struct exchange *h1_box_late(struct h1_box *b, const struct exchange_env *env);
/* Has a request begun that is not whole? */
bool h1_box_begun(const struct h1_box *b);
/* The exchange is over: ready for the next. */
void h1_box_next(struct h1_box *b);

#endif
