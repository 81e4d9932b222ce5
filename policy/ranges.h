/* policy/ranges.h - addresses that no name may resolve to unless a rule says so
 *
 * Loopback, link-local (the metadata addresses), private, CGNAT, unique local, multicast,
 * reserved, benchmarking (the synthetic pool), NAT64, 6to4, Teredo and v4-mapped forms of these.
 * Documentation ranges (203.0.113.0/24 and its kin) are not on the list: tests use them as the
 * internet.
 *
 * Ownership   static.       Blocking  never.       Failure  none.
 * Tests       tests/unit/policy/test_ranges.c
 */
#ifndef POLICY_RANGES_H
#define POLICY_RANGES_H

#include "conf/addr.h"

/* The name of the prohibited range that @a lies in ("private (RFC 1918)"), or NULL. */
const char *range_prohibited(const struct addr *a);

#endif
