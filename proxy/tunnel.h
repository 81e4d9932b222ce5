/* proxy/tunnel.h - bytes both ways between two sockets, as they come
 *
 * Nothing is read of what passes. Each direction ends by itself: an end that one side sends goes on
 * to the other behind its last byte, and the other direction lives on. A reset goes on as a reset.
 * Whoever does not read holds who sends.
 *
 * Ownership   tunnel_new() takes both descriptors over, whatever becomes of it. tunnel_free()
 *             closes them: after TUNNEL_OVER as they are, before that by a reset of both, so that
 *             neither side takes what came so far for all there is.
 * Blocking    never.
 * Callbacks   wake, from the event loop only, once tunnel_state() is another than TUNNEL_RUNS. It
 *             may free the tunnel.
 * Failure     by state.
 * Limits      TUNNEL_PIECE kept a direction while its reader does not take it, nothing while it
 *             does; TUNNEL_PASS_MAX a wake-up; two descriptors.
 * Tests       tests/unit/proxy/test_tunnel.c
 */
#ifndef PROXY_TUNNEL_H
#define PROXY_TUNNEL_H

#include "conf/str.h"

#define TUNNEL_PIECE (128u << 10)
#define TUNNEL_PASS_MAX (512u << 10)

struct event_base;
struct tunnel;

typedef void tunnel_wake_fn(void *arg);

enum tunnel_side { TUNNEL_BOX, TUNNEL_ORIGIN, TUNNEL_SIDES };

enum tunnel_state {
	TUNNEL_RUNS,
	TUNNEL_OVER,		/* both sides have ended, and all of it was passed on */
	TUNNEL_BROKEN,		/* tunnel_breaker()'s connection broke, tunnel_error() says how */
	TUNNEL_UPLOADED,	/* more came than is to pass */
	TUNNEL_DOWNLOADED,
	TUNNEL_NO_MEMORY,
};

/* The most that may pass, in bytes; 0: any. */
struct tunnel_limits {
	uint64_t up, down;
};

struct tunnel_ends {
	int box, origin;
	struct str said;	/* what the box has sent already: goes out first */
};

struct tunnel *tunnel_new(struct event_base *base, const struct tunnel_ends *ends,
			  const struct tunnel_limits *limits, tunnel_wake_fn *wake, void *arg);
void tunnel_free(struct tunnel *t);
void tunnel_limit(struct tunnel *t, const struct tunnel_limits *limits);
enum tunnel_state tunnel_state(const struct tunnel *t);
enum tunnel_side tunnel_breaker(const struct tunnel *t);
int tunnel_error(const struct tunnel *t);	/* an errno */
/* Passed on to that side so far, and when a byte has last come or gone (clock_ms()). */
uint64_t tunnel_bytes_to(const struct tunnel *t, enum tunnel_side side);
uint64_t tunnel_moved(const struct tunnel *t);

#endif
