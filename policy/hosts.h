/* policy/hosts.h - which rules name this host, by hash of its label suffixes
 *
 * "a.b.c" is looked up as a.b.c (exact), b.c ("*." and "**." before it) and c ("**." before it):
 * as many look-ups as it has labels, however many hosts the image has.
 *
 * Ownership   a walk borrows image and host.       Blocking  never.
 * Failure     none.
 * Tests       tests/unit/policy/test_hosts.c
 */
#ifndef POLICY_HOSTS_H
#define POLICY_HOSTS_H

#include "policy/image.h"

enum host_kind { HOST_EXACT, HOST_ONE, HOST_MANY, HOST_ANY };

/* A pattern as a policy has it ("x", "*.x", "**.x", "**"), parted into kind and name. */
enum host_kind host_pattern(struct str pattern, struct str *name);
/* Does @name, canonical, match? */
bool host_matches(enum host_kind kind, struct str pattern_name, struct str name);

/* The bucket of @name in a table of @n (a power of two). */
uint32_t host_bucket(struct str name, uint32_t seed, uint32_t n);

struct host_walk {
	const struct image *im;
	struct str host;
	size_t at;			/* the suffix from here on was looked up */
	size_t parent;			/* where the suffix without the first label starts */
	uint64_t hash;			/* of that suffix */
	struct image_span pending;	/* a second list of the same suffix */
};

void host_walk_start(struct host_walk *w, const struct image *im, struct str host);
/* One list of rules (refs) after the other, until false. */
bool host_walk_next(struct host_walk *w, struct image_span *list);

#endif
