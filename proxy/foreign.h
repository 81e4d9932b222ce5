/* proxy/foreign.h - credentials that the box brings itself, found and taken off
 *
 * On a host where Exeat puts on a credential, the box's own are a way out under somebody else's
 * account. Looked at: Authorization, Proxy-Authorization, Cookie, header fields that are known to
 * bear API keys, and query parameters that bear tokens or signatures (access_token, presigned URLs
 * of S3, GCS, Azure).
 *
 * Ownership   changes the fields and the query buffer given.       Blocking  never.
 * Failure     sticky in the buffer.
 * Limits      FOREIGN_TOLD_MAX names are told; all are taken off.
 * Tests       tests/unit/proxy/test_foreign.c
 */
#ifndef PROXY_FOREIGN_H
#define PROXY_FOREIGN_H

#include "proxy/fields.h"

#define FOREIGN_TOLD_MAX 8

/* The names of what was found, never values. Static texts. */
struct foreign_found {
	const char *names[FOREIGN_TOLD_MAX];
	size_t n;		/* how many there were; may be over FOREIGN_TOLD_MAX */
};

/* Only looks. @query: with its '?', or empty. */
void foreign_find(const struct fields *f, struct str query, struct foreign_found *found);
/* Takes them off: from @f in place; what is left of @query is appended to @out (with '?', or
 * nothing). */
void foreign_strip(struct fields *f, struct str query, struct buf *out);

#endif
