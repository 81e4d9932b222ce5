/* proxy/dial.h - one TCP connection to whichever of several addresses answers first (RFC 8305)
 *
 * Families take turns, IPv6 first; a new attempt starts when one fails, and every DIAL_STAGGER_MS
 * while none has. The first to connect wins, the others are closed. Each address is put before the
 * caller's judge right before it is connected to.
 *
 * Ownership   the winner's descriptor is the callback's; dial_cancel() closes all attempts.
 * Blocking    never.
 * Failure     by the result: what went wrong at most addresses matters less than what can be told.
 * Callbacks   once, from the event loop, not after dial_cancel().
 * Limits      DIAL_ADDRS_MAX addresses, DIAL_TIMEOUT_MS for all of them together.
 * Tests       tests/unit/proxy/test_dial.c
 */
#ifndef PROXY_DIAL_H
#define PROXY_DIAL_H

#include "conf/addr.h"
#include "proxy/messages.h"

#define DIAL_ADDRS_MAX 8	/* so many sockets may one dial have */
#define DIAL_STAGGER_MS 250
#define DIAL_TIMEOUT_MS 10000
#define DIAL_ATTEMPTS_TEXT_MAX 512

struct event_base;
struct dial;

struct dial_result {
	enum dial_status status;	/* OK, REFUSED, TIMEOUT, UNREACHABLE, PROHIBITED, FAILED */
	int fd;				/* connected, non-blocking, close-on-exec; or -1 */
	struct addr addr;		/* connected to, or tried last */
	uint32_t ms;
	struct str attempts;		/* "203.0.113.10: connection refused; ..."; for the callback only */
};

/* May this address be connected to? NULL: yes; else why not. */
typedef const char *dial_judge_fn(void *arg, const struct addr *a);
typedef void dial_fn(void *arg, const struct dial_result *r);

struct dial_order {
	const struct addr *addrs;
	size_t n;
	uint16_t port;
	uint32_t timeout_ms;		/* 0: DIAL_TIMEOUT_MS */
	dial_judge_fn *judge;
	dial_fn *fn;
	void *arg;
};

/* NULL: no memory. */
struct dial *dial_start(struct event_base *base, const struct dial_order *order);
void dial_cancel(struct dial *d);

#endif
