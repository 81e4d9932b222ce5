/* sandbox/netlink.h - requests to the kernel in one batch, each acknowledged, each with a name
 *
 * For rtnetlink and nfnetlink. A batch is put together message by message (libmnl and libnftnl
 * write into the room that netlink_message() gives), sent by netlink_commit() in one packet, and
 * done when every message of it has been acknowledged. The first refusal is told with the step's
 * name.
 *
 * Ownership   netlink_close() closes the socket; netlink_take_fd() hands it to the caller instead.
 *             @what texts are static.
 * Blocking    never: the kernel queues its answers before the send returns.
 * Failure     ERR_SYSTEM with why->code and why->what; ERR_LIMIT for a batch over its limits
 *             (sticky from the message that did not fit until the commit).
 * Limits      NETLINK_BATCH_BYTES, NETLINK_BATCH_STEPS messages, NETLINK_MESSAGE_MAX bytes each.
 * Tests       tests/unit/sandbox/test_netlink.c, test_wire.c
 */
#ifndef SANDBOX_NETLINK_H
#define SANDBOX_NETLINK_H

#include <linux/netlink.h>

#include "sandbox/wire.h"

#define NETLINK_BATCH_BYTES 65536u
#define NETLINK_BATCH_STEPS 48
#define NETLINK_MESSAGE_MAX 8192u

struct netlink;

/* @bus: NETLINK_ROUTE or NETLINK_NETFILTER; in the namespace that the thread is in. */
must_use enum err netlink_open(int bus, struct netlink **out);
void netlink_close(struct netlink *n);
/* Gives up the socket, frees the rest. */
int netlink_take_fd(struct netlink *n);

/* A new message's header, of @type and with NLM_F_REQUEST | NLM_F_ACK | @flags. It is in the batch
 * already: what is put behind it may grow it up to NETLINK_MESSAGE_MAX. */
struct nlmsghdr *netlink_message(struct netlink *n, uint16_t type, unsigned flags,
				 const char *what);
/* The same with the header that nfnetlink's subsystems want behind it. */
struct nlmsghdr *netlink_nf_message(struct netlink *n, uint8_t subsystem, uint8_t type,
				    uint8_t family, unsigned flags, const char *what);
/* Stands before and after the messages of an nf_tables transaction. */
void netlink_nf_begin(struct netlink *n);
void netlink_nf_end(struct netlink *n);

/* Who gets the answers that are no acknowledgements, during netlink_commit(). */
void netlink_on_answer(struct netlink *n, void (*hear)(void *arg, const struct nlmsghdr *h),
		       void *arg);
/* Forgets the batch. */
void netlink_discard(struct netlink *n);
/* Sends the batch and empties it, whatever comes of it. */
must_use enum err netlink_commit(struct netlink *n, struct wire_error *why);

#endif
