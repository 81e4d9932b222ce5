/* sandbox/wire_state.h - what the parts of the wire share
 *
 *   wire.c		namespaces, the veth, addresses and routes
 *   wire_sockets.c	the sockets that a box's worker hears it through
 *   wire_admit.c	which addresses and ports the kernel steers to them
 *
 * Ownership   as sandbox/wire.h.
 * Blocking    as sandbox/wire.h.
 * Failure     as sandbox/wire.h.
 * Tests       tests/unit/sandbox/test_wire.c (root)
 */
#ifndef SANDBOX_WIRE_STATE_H
#define SANDBOX_WIRE_STATE_H

#include "sandbox/netlink.h"
#include "sandbox/rules.h"
#include "sandbox/wire.h"

struct wire_gateway {
	int home;		/* the namespace we came from */
	int netns;
	struct netlink *route, *nft;
};

struct wire_admitted {
	size_t n, cap;
	struct rules_pair *pairs;
	/* Between wire_admit_anew() and wire_admit_done(): what was admitted before, sorted. */
	size_t n_before;
	struct rules_pair *before;
};

/* ERR_SYSTEM, and errno in @why. */
enum err wire_failed(struct wire_error *why, const char *what);

/* For a thread in the gateway namespace. What it has opened is in @b, also when it fails. */
must_use enum err wire_open_sockets(struct wire_box *b, uint16_t group, struct wire_error *why);

/* Where the box is told what is what: admitted as long as it is there, whatever a policy says. */
struct rules_pair wire_own_pair(const struct wire_box *b);
/* A number may be used again: nothing of what this box was admitted to may be left for the next.
 * Fails only where somebody else has taken the table away. */
void wire_withdraw_all(struct wire_gateway *g, struct wire_box *b);
void wire_admitted_free(struct wire_box *b);

#endif
