#include "conf/arena.h"

#include <stdlib.h>

#define BLOCK_SIZE (256u << 10)

struct arena_block {
	struct arena_block *next;
	size_t used, size;
	_Alignas(max_align_t) char bytes[];
};

static struct arena_block *add_block(struct arena *a, size_t need)
{
	size_t size = need > BLOCK_SIZE ? need : BLOCK_SIZE;
	struct arena_block *b = calloc(1, sizeof(*b) + size);

	if (!b) {
		a->failed = true;
		return NULL;
	}
	b->next = a->blocks;
	b->size = size;
	a->blocks = b;
	return b;
}

void *arena_take(struct arena *a, size_t count, size_t size)
{
	size_t align = sizeof(max_align_t) / 2, need;
	struct arena_block *b = a->blocks;
	void *p;

	if (size && count > (SIZE_MAX / 2) / size) {
		a->failed = true;
		return NULL;
	}
	need = (count * size + align - 1) & ~(align - 1);
	if (!b || b->size - b->used < need)
		b = add_block(a, need);
	if (!b)
		return NULL;
	p = b->bytes + b->used;
	b->used += need;
	return p;
}

struct str arena_copy(struct arena *a, struct str s)
{
	char *p = arena_take(a, s.n + 1, 1);

	if (!p)
		return STR_NONE;
	if (s.n)
		memcpy(p, s.p, s.n);
	return str_n(p, s.n);
}

void arena_free(struct arena *a)
{
	while (a->blocks) {
		struct arena_block *b = a->blocks;

		a->blocks = b->next;
		free(b);
	}
}
