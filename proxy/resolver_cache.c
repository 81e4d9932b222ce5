#include "proxy/resolver_cache.h"

#include <stdlib.h>

/* Addresses are allocated as many as there are: most names have a few. */
struct entry {
	struct entry *next_in_bucket;
	struct entry *newer, *older;
	uint64_t expires_ms;
	enum resolve_status status;
	const char *server;
	size_t n;
	struct addr *addrs;
	struct name name;
};

struct resolver_cache {
	size_t max, count, n_buckets;
	struct entry **buckets;
	struct entry *newest, *oldest;
	struct resolver_answer out;
};

struct resolver_cache *resolver_cache_new(size_t max)
{
	struct resolver_cache *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->max = max;
	c->n_buckets = max;
	c->buckets = calloc(max, sizeof(struct entry *));
	if (!c->buckets) {
		free(c);
		return NULL;
	}
	return c;
}

static struct entry **bucket(struct resolver_cache *c, struct str name)
{
	uint32_t h = 2166136261u;	/* FNV-1a */

	for (size_t i = 0; i < name.n; i++)
		h = (h ^ (uint8_t)name.p[i]) * 16777619u;
	return &c->buckets[h % c->n_buckets];
}

static void age_unlink(struct resolver_cache *c, struct entry *e)
{
	if (e->newer)
		e->newer->older = e->older;
	else
		c->newest = e->older;
	if (e->older)
		e->older->newer = e->newer;
	else
		c->oldest = e->newer;
}

static void age_push(struct resolver_cache *c, struct entry *e)
{
	e->newer = NULL;
	e->older = c->newest;
	if (c->newest)
		c->newest->newer = e;
	else
		c->oldest = e;
	c->newest = e;
}

static void remove_entry(struct resolver_cache *c, struct entry *e)
{
	struct entry **at = bucket(c, name_str(&e->name));

	while (*at != e)
		at = &(*at)->next_in_bucket;
	*at = e->next_in_bucket;
	age_unlink(c, e);
	c->count--;
	free(e->addrs);
	free(e);
}

static struct entry *find(struct resolver_cache *c, struct str name)
{
	struct entry *e = *bucket(c, name);

	while (e && !str_eq(name_str(&e->name), name))
		e = e->next_in_bucket;
	return e;
}

void resolver_cache_free(struct resolver_cache *c)
{
	if (!c)
		return;
	while (c->oldest)
		remove_entry(c, c->oldest);
	free(c->buckets);
	free(c);
}

static uint32_t bounded_ttl(const struct resolver_answer *a)
{
	if (a->status != RESOLVE_OK)
		return RESOLVER_NEGATIVE_TTL;
	return a->ttl < RESOLVER_TTL_MIN ? RESOLVER_TTL_MIN :
	       a->ttl > RESOLVER_TTL_MAX ? RESOLVER_TTL_MAX : a->ttl;
}

static struct entry *new_entry(struct str name, const struct resolver_answer *a)
{
	struct entry *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->n = a->n > RESOLVER_ADDRS_MAX ? RESOLVER_ADDRS_MAX : a->n;
	if (e->n) {
		e->addrs = calloc(e->n, sizeof(struct addr));
		if (!e->addrs) {
			free(e);
			return NULL;
		}
		memcpy(e->addrs, a->addrs, e->n * sizeof(struct addr));
	}
	e->name.n = (uint8_t)name.n;
	memcpy(e->name.s, name.p, name.n);
	e->status = a->status;
	e->server = a->server;
	return e;
}

void resolver_cache_put(struct resolver_cache *c, struct str name, const struct resolver_answer *a,
			uint64_t now_ms)
{
	struct entry *e = find(c, name);

	if (e)
		remove_entry(c, e);
	if (name.n > NAME_MAX_LEN || (a->status != RESOLVE_OK && a->status != RESOLVE_NODATA &&
				      a->status != RESOLVE_NXDOMAIN))
		return;
	e = new_entry(name, a);
	if (!e)
		return;
	e->expires_ms = now_ms + (uint64_t)bounded_ttl(a) * 1000;
	while (c->count >= c->max)
		remove_entry(c, c->oldest);
	e->next_in_bucket = *bucket(c, name);
	*bucket(c, name) = e;
	age_push(c, e);
	c->count++;
}

const struct resolver_answer *resolver_cache_get(struct resolver_cache *c, struct str name,
						 uint64_t now_ms)
{
	struct entry *e = find(c, name);

	if (!e)
		return NULL;
	if (e->expires_ms <= now_ms) {
		remove_entry(c, e);
		return NULL;
	}
	age_unlink(c, e);
	age_push(c, e);
	c->out = (struct resolver_answer){ .status = e->status, .n = e->n, .cached = true,
					   .server = e->server };
	c->out.ttl = (uint32_t)((e->expires_ms - now_ms + 999) / 1000);
	if (e->n)
		memcpy(c->out.addrs, e->addrs, e->n * sizeof(struct addr));
	return &c->out;
}

size_t resolver_cache_count(const struct resolver_cache *c)
{
	return c->count;
}
