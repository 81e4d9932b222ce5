/* policy/digest.h - SHA-256 of a block
 *
 * Ownership   plain values.       Blocking  never.
 * Failure     false: the library cannot (out of memory, no such digest); @out is then all zero.
 * Tests       tests/unit/policy/test_digest.c
 */
#ifndef POLICY_DIGEST_H
#define POLICY_DIGEST_H

#include "conf/str.h"

#define DIGEST_BYTES 32
#define DIGEST_HEX 64

bool digest_sha256(const void *p, size_t n, uint8_t out[DIGEST_BYTES]);

#endif
