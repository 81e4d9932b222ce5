/* broker/locked.h - memory for secrets: locked, in no core file and no fork, wiped at its end
 *
 * Each piece is whole pages of its own, so that nothing else ever lies beside it.
 *
 * Ownership   locked_free() wipes and unmaps; the caller keeps no pointer.
 * Blocking    no.
 * Failure     NULL: no memory, or it cannot be locked (RLIMIT_MEMLOCK) or kept from cores and
 *             forks.
 * Needs       mmap, munmap, mlock, madvise.
 * Tests       tests/unit/broker/test_locked.c
 */
#ifndef BROKER_LOCKED_H
#define BROKER_LOCKED_H

#include <stddef.h>

/* Zeroed. */
void *locked_new(size_t n);
void locked_free(void *p);

#endif
