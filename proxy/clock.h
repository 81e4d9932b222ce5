/* proxy/clock.h - monotonic milliseconds for deadlines and measured phases, and the time of day
 *
 * Ownership   none.       Blocking  never (vDSO).       Failure  none.
 * Tests       through every deadline in tests/unit/proxy/test_engine.c
 */
#ifndef PROXY_CLOCK_H
#define PROXY_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* The time of day, for what is told to people and stands in the log. */
static inline uint64_t clock_wall_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

#endif
