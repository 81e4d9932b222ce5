/* proxy/h2_flood.h - when has a peer sent too much of what costs us and moves nothing?
 *
 * Two allowances: frames that carry nothing (SETTINGS, PING, PRIORITY, RST_STREAM, WINDOW_UPDATE,
 * CONTINUATION, empty DATA), and streams that were opened and broken off before they
 * were answered (CVE-2023-44487). Both come back with time and with work that was done.
 *
 * Ownership   the caller's struct.       Blocking  never.
 * Failure     false: over the limit; the session is to end with ENHANCE_YOUR_CALM.
 * Limits      as named here.
 * Tests       tests/unit/proxy/test_h2_flood.c, tests/unit/proxy/test_h2_limits.c
 */
#ifndef PROXY_H2_FLOOD_H
#define PROXY_H2_FLOOD_H

#include <stdbool.h>
#include <stdint.h>

#define H2_IDLE_FRAMES_MAX 1000u
#define H2_IDLE_FRAMES_A_SECOND 200u
#define H2_BREAKS_MAX 200u
#define H2_BREAKS_A_SECOND 20u

struct h2_allowance {
	uint32_t left, most, a_second;
	uint64_t at;		/* of the last refill, in milliseconds */
};

struct h2_flood {
	struct h2_allowance frames, breaks;
};

void h2_flood_init(struct h2_flood *f, uint64_t now);
/* A frame that carries nothing; a stream that was broken off. */
bool h2_flood_frame(struct h2_flood *f, uint64_t now);
bool h2_flood_break(struct h2_flood *f, uint64_t now);
/* Something was moved, which so many frames may well belong to; a stream was answered. */
void h2_flood_moved(struct h2_flood *f, uint32_t frames);
void h2_flood_answered(struct h2_flood *f);

#endif
