/* sandbox/wire.h - the gateway namespace, a box's veth into it, and the rules between
 *
 * wire_gateway_open() makes a network namespace with no uplink: forwarding off, every address its
 * own (local 0.0.0.0/0 dev lo), one nftables table with one chain and one set. wire_box_open()
 * makes a box's namespace with one veth and the sockets through which its worker hears it. All by
 * rtnetlink and nf_tables messages; no ip or nft process.
 *
 * Ownership   namespaces are held by descriptor only: when the last holder is gone the kernel takes
 *             them away, so that nothing can be left behind. wire_*_close() releases what was
 *             opened; descriptors that were handed out are the caller's.
 * Blocking    waits for netlink's acknowledgements (micro- to milliseconds).
 * Failure     ERR_SYSTEM with errno, and @what names the step for the operator. A thread that
 *             cannot be moved back to its own namespace aborts the process.
 * Limits      WIRE_BOXES_MAX boxes, WIRE_ADMIT_MAX pairs of address and port a box (ERR_FULL).
 * After confinement  wire_admit(), wire_box_bytes(), wire_box_untold(), wire_box_close() and
 *             wire_gateway_close() need CAP_NET_ADMIN and sendto, recvfrom, close. wire_*_open()
 *             need CAP_SYS_ADMIN, setns, unshare and /proc, too.
 * Thread      setns() moves the calling thread for a moment and back: single-threaded use.
 * Tests       tests/unit/sandbox/test_wire.c (root), tests/e2e
 */
#ifndef SANDBOX_WIRE_H
#define SANDBOX_WIRE_H

#include "conf/addr.h"
#include "conf/err.h"

#define WIRE_TPROXY_PORT 15001
#define WIRE_NOTICE_PORT 80	/* of the gateway's address: the worker answers there itself */
/* wire_error.what, where it is not the wire that fails but the namespace that was named. */
#define WIRE_GIVEN "the network namespace to attach to"
#define WIRE_NFLOG_GROUP 1	/* of box 0; one each, since one socket only may bind a group */
#define WIRE_BOXES_MAX 65535	/* log groups; also capped by the link pool */
#define WIRE_IFNAME_MAX 16
#define WIRE_ADMIT_MAX 65536
#define WIRE_LISTEN_BACKLOG 4096	/* a burst waits here, not for SYNs to be sent again */
#define WIRE_ASK_AFTER_S 10	/* a connection that has been silent is asked after, */
#define WIRE_ASK_AGAIN_S 5	/* and again, */
#define WIRE_ASK_TIMES 3	/* before it is given up */

struct wire_error {
	const char *what;	/* static: "nf_tables: rules", "veth", ... */
	int code;		/* errno */
};

struct wire_gateway;
struct wire_admitted;

struct wire_box {
	char ifname[WIRE_IFNAME_MAX];	/* the gateway's end, "ex-<id>" */
	uint32_t ifindex;
	uint32_t gateway, address;	/* host order: the two ends of the /30 */
	int netns;		/* the box's namespace */
	int tproxy;		/* TCP, transparent, listening, bound to the veth */
	int dns_udp, dns_tcp;	/* port 53 of every address, bound to the veth, IP_PKTINFO on */
	int nflog;		/* netlink socket: what was refused here, packets' first bytes */
	struct wire_admitted *admitted;	/* wire.c's: what wire_box_close() takes back */
};

must_use enum err wire_gateway_open(struct wire_gateway **out, struct wire_error *why);
void wire_gateway_close(struct wire_gateway *g);
int wire_gateway_netns(const struct wire_gateway *g);

/* For a child of who opened it: netlink sockets of its own, since answers on a shared one would go
 * to either. */
must_use enum err wire_gateway_rejoin(struct wire_gateway *g, struct wire_error *why);

/* How many /30s it has that can be used: indices are below. */
uint32_t wire_links(const struct addr_range *link_pool);

/* @link_pool gives the /30 number @index. @netns: a namespace that is there, to attach to,
 * borrowed; -1: one is made. One that has any interface but loopback is refused (EEXIST): it has
 * another way out. The box is admitted to its gateway's WIRE_NOTICE_PORT for as long as it is
 * there. */
must_use enum err wire_box_open(struct wire_gateway *g, uint32_t index,
				const struct addr_range *link_pool, int netns,
				struct wire_box *out, struct wire_error *why);
/* For who has not opened it but was given its descriptors and numbers: it can admit now. */
must_use enum err wire_box_adopt(struct wire_box *b);
/* Bytes that the box has sent and was sent, as the kernel has counted them on its wire. */
must_use enum err wire_box_bytes(struct wire_gateway *g, const struct wire_box *b, uint64_t *up,
				 uint64_t *down, struct wire_error *why);
/* Packets that were refused there without being told to its nflog socket: more in a second than
 * are. */
must_use enum err wire_box_untold(struct wire_gateway *g, const struct wire_box *b,
				  uint64_t *packets,
				  struct wire_error *why);
/* Closes the descriptors that are not -1 and removes the veth. */
void wire_box_close(struct wire_gateway *g, struct wire_box *b);
/* Closes the descriptors alone: for the last box, whose gateway is closed next. (Removing a veth
 * waits for all processors, tens of milliseconds.) */
void wire_box_release(struct wire_box *b);

/* Admits (the box's interface, address, each port), in one transaction, acknowledged when it
 * returns. Elements that are there already are no error. */
must_use enum err wire_admit(struct wire_gateway *g, const struct wire_box *b, uint32_t address,
			     const uint16_t *ports, size_t n, struct wire_error *why);
/* Between the two, wire_admit() says all that is admitted from then on: what it does not say again
 * is withdrawn at the end, what it says again is admitted all the time. */
void wire_admit_anew(struct wire_box *b);
must_use enum err wire_admit_done(struct wire_gateway *g, struct wire_box *b,
				  struct wire_error *why);

#endif
