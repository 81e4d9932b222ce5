/* proxy/h1_origin.h - an exchange's port towards an origin that speaks HTTP/1.1
 *
 * Ownership   static table; the state is in the upstream.       Blocking  never.
 * Failure     told to the exchange: exchange_answer_failed().
 * Tests       tests/unit/proxy/test_engine.c
 */
#ifndef PROXY_H1_ORIGIN_H
#define PROXY_H1_ORIGIN_H

#include "proxy/exchange.h"

extern const struct origin_ops h1_origin;

#endif
