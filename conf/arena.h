/* conf/arena.h - memory that is taken piece by piece and given back all at once
 *
 * Ownership   pieces live until arena_free(); none is given back alone.
 * Blocking    never.
 * Failure     NULL when memory ran out; *failed stays set, so that a builder may ask once, at its
 *             end. Pieces are zeroed.
 * Tests       tests/unit/conf/test_arena.c
 */
#ifndef CONF_ARENA_H
#define CONF_ARENA_H

#include "conf/str.h"

struct arena_block;

struct arena {
	struct arena_block *blocks;
	bool failed;
};

void *arena_take(struct arena *a, size_t count, size_t size);
/* A copy with a NUL behind it; STR_NONE when memory ran out. */
struct str arena_copy(struct arena *a, struct str s);
void arena_free(struct arena *a);

#endif
