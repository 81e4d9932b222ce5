/* proxy/kept_grant.h - grants that last: kept with their connection for the requests after these
 *
 * Where any request on a connection would be granted the same, the broker says so, and the worker
 * need not ask again for GRANT_LASTS_MS after the grant, on that connection, under that policy and
 * for the same rule. When the time is over it is wiped, whether a request comes or not. A grant's
 * search has a state, so each serves one request at a time: as many are kept as there were requests
 * at once.
 *
 * Ownership   the connection to the origin owns it; kept_grant_put() and kept_grant_take() move the
 *             edits and the scrub, one way and back.
 * Blocking    never.
 * Failure     a grant that cannot be kept is wiped: the broker is asked again.
 * Limits      KEPT_GRANTS_MAX a connection; GRANT_LASTS_MS.
 * Tests       tests/unit/proxy/test_kept_grant.c
 */
#ifndef PROXY_KEPT_GRANT_H
#define PROXY_KEPT_GRANT_H

#include "broker/scrub.h"
#include "policy/policy.h"
#include "proxy/fields.h"

#define GRANT_LASTS_MS 1000u
#define GRANT_CREDENTIAL_MAX 129
#define KEPT_GRANTS_MAX 128u

struct event_base;
struct kept_grant;

struct lasting_grant {
	uint64_t until_ms;		/* 0: it does not last */
	struct rule_ref rule;
	unsigned policies;		/* worker's count of policies when it was granted */
	char credential[GRANT_CREDENTIAL_MAX];
};

struct kept_grant *kept_grant_new(struct event_base *base);
void kept_grant_free(struct kept_grant *k);
/* Keeps it, or wipes it where it does not last any longer or there are too many. @edits is empty
 * then, *@scrub NULL. */
void kept_grant_put(struct kept_grant *k, const struct lasting_grant *grant, struct fields *edits,
		    struct scrub **scrub);
/* False: there is none, or none for this rule and policy. @edits: empty before. */
bool kept_grant_take(struct kept_grant *k, struct rule_ref rule, unsigned policies,
		     struct lasting_grant *grant, struct fields *edits, struct scrub **scrub);

#endif
