/* proxy/leaf_cache.h - the leaves that were signed for one sandbox, by name
 *
 * Ownership   copies what it is given; what it finds is borrowed until the next leaf_cache_put().
 * Blocking    never.
 * Failure     a leaf that cannot be kept is not: it is signed again the next time.
 * Limits      LEAVES_MAX: past it the oldest goes. A leaf over LEAF_FRESH_SECONDS old is not found,
 *             so that none is handed out near its end.
 * Tests       tests/unit/proxy/test_leaf_cache.c
 */
#ifndef PROXY_LEAF_CACHE_H
#define PROXY_LEAF_CACHE_H

#include "conf/buf.h"

#define LEAVES_MAX 512
#define LEAF_FRESH_SECONDS (30 * 86400)

struct leaf_cache;

struct leaf_cache *leaf_cache_new(void);
void leaf_cache_free(struct leaf_cache *c);
/* The leaf's DER, empty where there is none. @now: seconds of any clock that does not go back. */
struct str leaf_cache_find(const struct leaf_cache *c, struct str name, uint64_t now);
void leaf_cache_put(struct leaf_cache *c, struct str name, struct str der, uint64_t now);

#endif
