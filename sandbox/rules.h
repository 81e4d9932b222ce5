/* sandbox/rules.h - the gateway's nf_tables ruleset: fixed, a box adds elements to it
 *
 * Each call is one transaction: all of it or nothing. rules.c says which rules stand in which
 * order.
 *
 * Ownership   all arguments are borrowed for the call.
 * Blocking    as netlink.h.
 * Failure     as netlink.h. Admitting what is admitted is no error.
 * Limits      RULES_PORTS_MAX pairs a call, RULES_LOG_PER_SECOND refusals logged a box.
 * Tests       tests/unit/sandbox/test_wire.c
 */
#ifndef SANDBOX_RULES_H
#define SANDBOX_RULES_H

#include "sandbox/netlink.h"

#define RULES_TABLE "exeat"
#define RULES_PORTS_MAX 1024
#define RULES_LOG_PER_SECOND 100
#define RULES_LOG_BURST 200

struct rules_pair {
	uint32_t address;	/* host order */
	uint16_t port;
};

must_use enum err rules_install(struct netlink *nft, struct wire_error *why);
/* Refusals of this interface go to this group, at its own rate; @own is admitted as long as the box
 * is there. */
must_use enum err rules_add_box(struct netlink *nft, const char *ifname, uint16_t group,
				struct rules_pair own, struct wire_error *why);
/* Refusals that its rate did not let into the log, so far. */
must_use enum err rules_beyond_log(struct netlink *nft, const char *ifname, uint64_t *packets,
				   struct wire_error *why);
must_use enum err rules_remove_box(struct netlink *nft, const char *ifname, struct rules_pair own,
				   struct wire_error *why);
must_use enum err rules_admit(struct netlink *nft, const char *ifname,
			      const struct rules_pair *pairs, size_t n, struct wire_error *why);
must_use enum err rules_withdraw(struct netlink *nft, const char *ifname,
				 const struct rules_pair *pairs, size_t n, struct wire_error *why);

#endif
