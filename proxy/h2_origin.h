/* proxy/h2_origin.h - an exchange's port towards an origin that speaks HTTP/2
 *
 * Ownership   static table; a leg's stream is the session's (proxy/h2.h), which is the upstream's.
 * Blocking    never.
 * Failure     told to the exchange: exchange_answer_failed(). A stream that the origin has done
 *             nothing about (RFC 9113 8.7) may be asked for again.
 * Tests       tests/e2e/test_http2_origin.py
 */
#ifndef PROXY_H2_ORIGIN_H
#define PROXY_H2_ORIGIN_H

#include "proxy/exchange.h"

extern const struct origin_ops h2_origin;

#endif
