/* policy/limits_text.h - a rule's limits as a policy writes them
 *
 * Durations and sizes as conf/amount.h has them; a rate is a number and its time: 5/s, 60/min, 9/h.
 *
 * Ownership   plain values; names are static.       Blocking  never.
 * Failure     none.
 * Limits      LIMIT_TEXT_MAX bytes a value, with its NUL; LIMIT_COUNT_MAX.
 * Tests       tests/unit/policy/test_limits_text.c
 */
#ifndef POLICY_LIMITS_TEXT_H
#define POLICY_LIMITS_TEXT_H

#include "conf/buf.h"
#include "policy/policy.h"

#define LIMIT_TEXT_MAX 32
#define LIMIT_COUNT_MAX 1000000	/* requests in a time, and how many at once */

enum limit {
	LIMIT_REQUESTS, LIMIT_CONCURRENT, LIMIT_UPLOAD, LIMIT_DOWNLOAD, LIMIT_IDLE, LIMIT_TOTAL,
	LIMIT_KINDS
};

/* The key, as the policy has it. */
const char *limit_name(enum limit kind);
/* False: it is no rate. */
bool limit_read_rate(struct str text, uint32_t *requests, uint32_t *per_s);
/* False: there is no such limit. */
bool limit_value(const struct rule_limits *k, enum limit kind, char out[LIMIT_TEXT_MAX]);
/* "requests: 60/min, concurrent: 8"; nothing where there are none. */
void limits_put(const struct rule_limits *k, struct buf *out);

#endif
