/* proxy/access_rule.h - the rule that would allow what a sandbox has asked for, as YAML to paste
 *
 *       # request 3 of "dev": GET https://api.github.com/x
 *       - id: request-20261130-3
 *         hosts: ["api.github.com"]
 *         methods: ["GET"]
 *         paths: ["/x"]
 *
 * It allows exactly what was asked for: one host, method and path. Every text of the request stands
 * quoted, and its stars are escaped, so that nothing in it can say more than that. Where no rule
 * can be made, or an added one would change nothing, a comment says why.
 *
 * Ownership   borrows; appends to the caller's buffer.       Blocking  never.
 * Failure     sticky in the buffer.
 * Limits      ACCESS_RULE_MAX bytes are enough for any request.
 * Tests       tests/unit/proxy/test_access_rule.c
 */
#ifndef PROXY_ACCESS_RULE_H
#define PROXY_ACCESS_RULE_H

#include "policy/policy.h"
#include "proxy/access_table.h"

#define ACCESS_RULE_MAX 65536u

/* @p: the policy in force for the sandbox, or NULL where it is not known. */
void access_rule_put(const struct access *a, const struct policy *p, struct buf *out);

#endif
