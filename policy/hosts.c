/* Theory of operation
 *
 * Names are hashed from their end, so that one pass over a host gives the hash of each of its
 * suffixes. Buckets are slices of one array that is sorted by bucket: no chain to follow, and none
 * that could loop. The builder tries seeds until no bucket is over its limit; the image keeps the
 * seed, so equal policies are equal bytes.
 */
#include "policy/hosts.h"

#include "policy/name.h"

enum host_kind host_pattern(struct str pattern, struct str *name)
{
	if (str_eq(pattern, STR("**"))) {
		*name = STR("");
		return HOST_ANY;
	}
	if (str_starts(pattern, STR("**."))) {
		*name = str_from(pattern, 3);
		return HOST_MANY;
	}
	if (str_starts(pattern, STR("*."))) {
		*name = str_from(pattern, 2);
		return HOST_ONE;
	}
	*name = pattern;
	return HOST_EXACT;
}

bool host_matches(enum host_kind kind, struct str pattern_name, struct str name)
{
	switch (kind) {
	case HOST_EXACT:
		return str_eq(pattern_name, name);
	case HOST_ONE:
		return name.n > pattern_name.n && str_eq(pattern_name, name_parent(name));
	case HOST_MANY:
		return name.n > pattern_name.n + 1 && str_ends(name, pattern_name) &&
		       name.p[name.n - pattern_name.n - 1] == '.';
	case HOST_ANY:
		return name.n > 0;
	}
	return false;
}

/* ---- the hash: FNV-1a over the bytes from the last to the first, stirred at the end ---- */

static uint64_t hash_start(uint32_t seed)
{
	return 0xcbf29ce484222325u ^ ((uint64_t)seed * 0x9e3779b97f4a7c15u);
}

static uint64_t hash_step(uint64_t h, char c)
{
	return (h ^ (unsigned char)c) * 0x100000001b3u;
}

static uint32_t hash_bucket(uint64_t h, uint32_t n)
{
	h ^= h >> 33;
	h *= 0xff51afd7ed558ccdu;
	h ^= h >> 33;
	return (uint32_t)h & (n - 1);
}

uint32_t host_bucket(struct str name, uint32_t seed, uint32_t n)
{
	uint64_t h = hash_start(seed);

	for (size_t i = name.n; i > 0; i--)
		h = hash_step(h, name.p[i - 1]);
	return hash_bucket(h, n);
}

static const struct image_host *find_host(const struct image *im, struct str name, uint64_t hash)
{
	uint32_t bucket = hash_bucket(hash, im->n_buckets);

	for (uint32_t i = im->buckets[bucket]; i < im->buckets[bucket + 1]; i++)
		if (str_eq(image_text(im, im->hosts[i].name), name))
			return &im->hosts[i];
	return NULL;
}

/* ---- the walk ---- */

void host_walk_start(struct host_walk *w, const struct image *im, struct str host)
{
	*w = (struct host_walk){ .im = im, .host = host, .at = host.n,
				 .parent = host.n - name_parent(host).n,
				 .hash = hash_start(im->header->seed) };
}

/* Moves to the next longer suffix of whole labels. */
static bool next_suffix(struct host_walk *w)
{
	if (w->at == 0)
		return false;
	do {
		w->hash = hash_step(w->hash, w->host.p[--w->at]);
	} while (w->at > 0 && w->host.p[w->at - 1] != '.');
	return true;
}

static struct image_span lists_of(struct host_walk *w, const struct image_host *h)
{
	struct image_span exact = { h->first, h->n_exact };
	struct image_span one = { h->first + h->n_exact, h->n_one };
	struct image_span many = { h->first + h->n_exact + h->n_one, h->n_many };

	if (w->at == 0)
		return exact;
	if (w->at != w->parent)
		return many;
	w->pending = many;
	return one;
}

bool host_walk_next(struct host_walk *w, struct image_span *list)
{
	const struct image_host *h;

	*list = w->pending;
	w->pending = (struct image_span){ 0, 0 };
	while (list->count == 0) {
		if (!next_suffix(w))
			return false;
		h = find_host(w->im, str_from(w->host, w->at), w->hash);
		if (!h)
			continue;
		*list = lists_of(w, h);
		if (list->count == 0) {
			*list = w->pending;
			w->pending = (struct image_span){ 0, 0 };
		}
	}
	return true;
}
