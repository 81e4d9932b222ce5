/* proxy/dialer_tickets.h - the connections of one sandbox that the dialer vouches for
 *
 * Each with all that the broker was told of it, since a broker's successor has to be told again.
 *
 * Ownership   the caller owns the struct, dialer_tickets_free(); a ticket is copied. What
 *             dialer_tickets_each() hands out is borrowed for the call.
 * Blocking    never.
 * Callbacks   must not change the table.
 * Failure     by result.
 * Limits      DIALER_TICKETS_MAX.
 * Tests       tests/unit/proxy/test_dialer_tickets.c
 */
#ifndef PROXY_DIALER_TICKETS_H
#define PROXY_DIALER_TICKETS_H

#include "proxy/messages.h"

#define DIALER_TICKETS_MAX 8192

struct dialer_ticket;

/* An open-addressing table. */
struct dialer_tickets {
	struct dialer_ticket **slots;
	size_t size, n;
};

bool dialer_tickets_init(struct dialer_tickets *t);
void dialer_tickets_free(struct dialer_tickets *t);
/* False: full, or its number is there already, or is 0, or no memory. */
bool dialer_tickets_add(struct dialer_tickets *t, const struct msg_ticket *m);
/* Was there one with that number? */
bool dialer_tickets_remove(struct dialer_tickets *t, uint64_t ticket);
/* True to go on to the next. */
typedef bool dialer_tickets_fn(void *arg, const struct msg_ticket *m);
/* False: @fn has ended it. */
bool dialer_tickets_each(const struct dialer_tickets *t, dialer_tickets_fn *fn, void *arg);

#endif
