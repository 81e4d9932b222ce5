/* Theory of operation
 *
 * Leaves stand in a ring in the order in which they were made: the next one takes the place of the
 * oldest. Buckets of a hash of the name lead to them. A name is put only when it was not found, but
 * its stale leaf may still be there: a find takes the newest of its bucket, which stands first.
 */
#include "proxy/leaf_cache.h"

#include <stdlib.h>

#define BUCKETS 256
#define TEXT_MAX 16384

struct leaf {
	struct leaf *next;	/* in its bucket */
	struct buf name, der;
	uint64_t made;
};

struct leaf_cache {
	struct leaf *buckets[BUCKETS];
	struct leaf *ring[LEAVES_MAX];
	size_t at;		/* in the ring: the next one's place */
};

/* FNV-1a. Names come from the box: the ring bounds what collisions can cost. */
static size_t bucket_of(struct str name)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < name.n; i++)
		h = (h ^ (unsigned char)name.p[i]) * 16777619u;
	return h % BUCKETS;
}

static void leaf_free(struct leaf *l)
{
	buf_free(&l->name);
	buf_free(&l->der);
	free(l);
}

static void unlink_leaf(struct leaf_cache *c, struct leaf *l)
{
	struct leaf **at = &c->buckets[bucket_of(buf_str(&l->name))];

	while (*at != l)
		at = &(*at)->next;
	*at = l->next;
}

struct leaf_cache *leaf_cache_new(void)
{
	return calloc(1, sizeof(struct leaf_cache));
}

void leaf_cache_free(struct leaf_cache *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < LEAVES_MAX; i++)
		if (c->ring[i])
			leaf_free(c->ring[i]);
	free(c);
}

struct str leaf_cache_find(const struct leaf_cache *c, struct str name, uint64_t now)
{
	const struct leaf *l = c->buckets[bucket_of(name)];

	while (l && !str_eq(buf_str(&l->name), name))
		l = l->next;
	return l && now - l->made <= LEAF_FRESH_SECONDS ? buf_str(&l->der) : STR_NONE;
}

void leaf_cache_put(struct leaf_cache *c, struct str name, struct str der, uint64_t now)
{
	struct leaf *l = calloc(1, sizeof(*l)), **bucket = &c->buckets[bucket_of(name)];

	if (!l)
		return;
	buf_init(&l->name, TEXT_MAX);
	buf_init(&l->der, TEXT_MAX);
	buf_put_str(&l->name, name);
	buf_put_str(&l->der, der);
	if (l->name.failed || l->der.failed) {
		leaf_free(l);
		return;
	}
	l->made = now;
	if (c->ring[c->at]) {
		unlink_leaf(c, c->ring[c->at]);
		leaf_free(c->ring[c->at]);
	}
	c->ring[c->at] = l;
	c->at = (c->at + 1) % LEAVES_MAX;
	l->next = *bucket;
	*bucket = l;
}
