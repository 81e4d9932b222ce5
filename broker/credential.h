/* broker/credential.h - what a credential puts on a request
 *
 * Ownership   edits go into the caller's secret buffers; credential_edit_wipe() in each case.
 * Blocking    never.
 * Failure     ERR_NOMEM; ERR_LIMIT for a field over CREDENTIAL_VALUE_MAX; ERR_SYNTAX for a format
 *             without "{}" or a user with ':' (RFC 7617 2): the value would not arrive as itself.
 * Tests       tests/unit/broker/test_credential.c
 */
#ifndef BROKER_CREDENTIAL_H
#define BROKER_CREDENTIAL_H

#include "broker/secret.h"
#include "conf/buf.h"
#include "policy/policy.h"

#define CREDENTIAL_VALUE_MAX (2 * SECRET_MAX)
#define CREDENTIAL_PATTERNS_MAX 5
#define CREDENTIAL_ENCODED_MAX 4096	/* longer values are looked for as they are, only */

/* One field to set, and what to look for in the answer: first the value; for basic then the base64
 * text that goes out, without its padding, so that it is found however it is written; then the
 * value as it shows in the base64 of a text that it stands in, at each of the three alignments. */
struct credential_edit {
	struct str field;		/* lower case; borrowed from the policy */
	struct buf value;		/* the field's whole value */
	struct buf patterns[CREDENTIAL_PATTERNS_MAX];
	size_t n_patterns;
};

must_use enum err credential_edit(const struct credential_info *c, const struct secret *s,
				  struct credential_edit *out);
void credential_edit_wipe(struct credential_edit *e);

#endif
