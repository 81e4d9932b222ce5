/* proxy/dialer_ranges.h - which addresses the dialer may go to
 *
 * Ownership   the caller owns the struct.       Blocking  never.
 * Failure     by result.
 * Limits      DIALER_OWN_MAX ranges.
 * Tests       tests/unit/proxy/test_dialer_service.c
 */
#ifndef PROXY_DIALER_RANGES_H
#define PROXY_DIALER_RANGES_H

#include "policy/policy.h"
#include "proxy/dialer_service.h"

/* The host's own addresses and pools. */
struct dialer_ranges {
	struct addr_range own[DIALER_OWN_MAX];
	size_t n_own;
};

/* Reads the ranges of MSG_DIALER_START. */
bool dialer_ranges_parse(struct dialer_ranges *out, const struct str_list *own);
/* Why @a may not be connected to for these facts (f->addr is ignored unless literal); NULL: it may.
 * An address of the host itself is refused, unless it also lies in a prohibited range and a rule's
 * resolves_to names it. */
const char *dialer_objection(const struct dialer_ranges *ranges, const struct policy *p,
			     const struct facts *f, const struct addr *a);

#endif
