/* proxy/tickets.h - the live connections of one sandbox, as the dialer vouches for them
 *
 * Ownership   tickets_add() copies; tickets_find() borrows until that ticket ends. tickets_free().
 * Blocking    never.
 * Failure     ERR_FULL at the limit: that connection gets no grants, those that have a ticket do.
 *             ERR_SYNTAX for what is no ticket, ERR_PROTOCOL for a number that is taken: the dialer
 *             does not do that. ERR_NOMEM.
 * Limits      TICKETS_MAX.
 * Tests       tests/unit/proxy/test_tickets.c
 */
#ifndef PROXY_TICKETS_H
#define PROXY_TICKETS_H

#include "policy/name.h"
#include "proxy/messages.h"

#define TICKETS_MAX 4096

struct ticket {
	struct ticket *next;	/* in its bucket */
	uint64_t number;
	bool literal;		/* the box went to an address: @host is empty */
	struct name host;	/* canonical */
	struct addr addr;	/* connected to */
	uint16_t port;
};

struct tickets;

struct tickets *tickets_new(void);
void tickets_free(struct tickets *t);
must_use enum err tickets_add(struct tickets *t, const struct msg_ticket *m);
/* Was there one with that number? */
bool tickets_end(struct tickets *t, uint64_t number);
const struct ticket *tickets_find(const struct tickets *t, uint64_t number);
void tickets_clear(struct tickets *t);
size_t tickets_count(const struct tickets *t);

#endif
