/* proxy/answer.h - answers a request with a refusal, in the words of proxy/refusal.h
 *
 * Ownership   writes to the exchange's box port; answer_free() what answer_make() has made, also
 *             where that failed.
 * Blocking    never.
 * Failure     without memory for the words the box sees an abort.
 * Tests       tests/unit/proxy/test_engine.c
 */
#ifndef PROXY_ANSWER_H
#define PROXY_ANSWER_H

#include "proxy/exchange_state.h"

struct answer_parts {
	struct fields fields;
	struct buf body, phrase;
};

/* The words alone, for who has no exchange. False: no memory. */
bool answer_make(const struct refusal *r, struct answer_parts *out);
void answer_free(struct answer_parts *parts);
/* x->refusal is filled in; no part of an answer has been sent. HEAD gets the fields alone. */
void answer_refusal(struct exchange *x);

#endif
