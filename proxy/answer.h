/* proxy/answer.h - answers a request with a refusal, in the words of proxy/refusal.h
 *
 * Ownership   writes to the exchange's box port.       Blocking  never.
 * Failure     without memory for the words the box sees an abort.
 * Tests       tests/unit/proxy/test_engine.c
 */
#ifndef PROXY_ANSWER_H
#define PROXY_ANSWER_H

#include "proxy/exchange_state.h"

/* x->refusal is filled in; no part of an answer has been sent. HEAD gets the fields alone. */
void answer_refusal(struct exchange *x);

#endif
