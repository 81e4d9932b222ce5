/* sandbox/nflog.h - reads what the kernel refused: one packet head at a time
 *
 * Ownership   borrows the bytes.       Blocking  never (the socket is read by the caller).
 * Failure     nflog_next() skips what it cannot read; ERR_AGAIN at the end of the datagram.
 * Hostile     the packets are the box's: every length is checked.
 * Tests       tests/unit/sandbox/test_nflog.c, fuzz/fuzz_nflog.c
 */
#ifndef SANDBOX_NFLOG_H
#define SANDBOX_NFLOG_H

#include "conf/addr.h"
#include "conf/err.h"

struct refused_packet {
	uint32_t ifindex;	/* where it came in */
	uint8_t protocol;	/* IPPROTO_* */
	struct addr from, to;
	uint16_t port;		/* destination; 0 where the protocol has none */
};

/* Walks one netlink datagram. *rest starts as the whole datagram. */
must_use enum err nflog_next(struct str *rest, struct refused_packet *out);

#endif
