/* proxy/allowance.h - so much in a second, and no more than that at once
 *
 * A bucket that fills steadily up to what it may hold. Who finds anything in it may take more than
 * there is, and the next one waits until that is made up for.
 *
 * Ownership   the struct holds all.       Blocking  never.
 * Failure     none.
 * Tests       tests/unit/proxy/test_allowance.c
 */
#ifndef PROXY_ALLOWANCE_H
#define PROXY_ALLOWANCE_H

#include <stdbool.h>
#include <stdint.h>

struct allowance {
	uint32_t per_second;	/* 0: no limit */
	int64_t left;		/* in thousandths */
	uint64_t at_ms;
};

/* Full. */
void allowance_init(struct allowance *a, uint32_t per_second, uint64_t now_ms);
bool allowance_has(struct allowance *a, uint64_t now_ms);
void allowance_take(struct allowance *a, uint64_t n);
/* What was taken for nothing. */
void allowance_give_back(struct allowance *a, uint64_t n);
/* When there is something again, as @now_ms; 0 where there is. */
uint64_t allowance_due(const struct allowance *a);

#endif
