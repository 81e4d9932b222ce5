/* proxy/resolver_cache.h - what upstream said of a name, for as long as it said
 *
 * Holds addresses as they came, not vetted: each sandbox's policy reads them at each use. An entry
 * is used until it expires and not a moment longer, whatever state upstream is in: there is no
 * stale use. Failures (no answer, SERVFAIL) are never kept.
 *
 * Ownership   owns its entries; resolver_cache_get()'s result lives until the next put.
 * Blocking    never.
 * Failure     without memory nothing is kept.
 * Limits      the entries given; the one that was used longest ago makes room.
 * Tests       tests/unit/proxy/test_resolver_cache.c
 */
#ifndef PROXY_RESOLVER_CACHE_H
#define PROXY_RESOLVER_CACHE_H

#include "policy/name.h"
#include "proxy/messages.h"

#define RESOLVER_ADDRS_MAX 64		/* of one name; more are left out */
#define RESOLVER_TTL_MIN 1		/* seconds */
#define RESOLVER_TTL_MAX 600
#define RESOLVER_NEGATIVE_TTL 5		/* NODATA, NXDOMAIN */

struct resolver_answer {
	enum resolve_status status;	/* OK, NODATA, NXDOMAIN, SERVFAIL, TIMEOUT */
	struct addr addrs[RESOLVER_ADDRS_MAX];
	size_t n;
	uint32_t ttl;			/* seconds left */
	uint32_t ms;			/* what the look-up took */
	bool cached;
	const char *server;		/* static, or the resolver's */
};

struct resolver_cache;

struct resolver_cache *resolver_cache_new(size_t max);
void resolver_cache_free(struct resolver_cache *c);
/* @a->ttl is brought within the limits; status decides whether it is kept. */
void resolver_cache_put(struct resolver_cache *c, struct str name, const struct resolver_answer *a,
			uint64_t now_ms);
/* With ttl what is left, rounded up, and cached set; NULL where nothing usable is known. */
const struct resolver_answer *resolver_cache_get(struct resolver_cache *c, struct str name,
						 uint64_t now_ms);
size_t resolver_cache_count(const struct resolver_cache *c);

#endif
