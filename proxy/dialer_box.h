/* proxy/dialer_box.h - which addresses the dialer may go to, and which connections are open
 *
 * Ownership   the caller owns the structs; dialer_tickets_free().       Blocking  never.
 * Failure     by result.
 * Limits      DIALER_OWN_MAX ranges, DIALER_TICKETS_MAX tickets.
 * Tests       tests/unit/proxy/test_dialer_service.c
 */
#ifndef PROXY_DIALER_BOX_H
#define PROXY_DIALER_BOX_H

#include "policy/policy.h"
#include "proxy/dialer_service.h"
#include "proxy/resolver.h"

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

/* Open connections, by ticket: an open-addressing table. */
struct dialer_tickets {
	uint64_t *slots;
	size_t size, n;
};

bool dialer_tickets_init(struct dialer_tickets *t);
void dialer_tickets_free(struct dialer_tickets *t);
/* False: full, or there already. */
bool dialer_tickets_add(struct dialer_tickets *t, uint64_t ticket);
bool dialer_tickets_remove(struct dialer_tickets *t, uint64_t ticket);

#endif
