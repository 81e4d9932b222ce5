/* broker/locked.h - memory for secrets: locked, in no core file and no fork, wiped at its end
 *
 * Each piece is whole pages of its own, so that nothing else ever lies beside it. A few small ones
 * that were freed stay mapped, wiped, for the next: a request that bears a credential needs some.
 *
 * Ownership   locked_free() wipes, and unmaps or keeps; the caller has no pointer any more.
 * Blocking    no.
 * Failure     NULL: no memory, or it cannot be locked (RLIMIT_MEMLOCK) or kept from cores and
 *             forks.
 * Limits      LOCKED_SPARE_MAX pieces of at most LOCKED_SPARE_BYTES are kept.
 * Needs       mmap, munmap, mlock, madvise.
 * Tests       tests/unit/broker/test_locked.c
 */
#ifndef BROKER_LOCKED_H
#define BROKER_LOCKED_H

#include <stddef.h>

#define LOCKED_SPARE_MAX 32
#define LOCKED_SPARE_BYTES 16384u

/* Zeroed. */
void *locked_new(size_t n);
void locked_free(void *p);

#endif
