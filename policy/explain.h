/* policy/explain.h - tells a reader why a request is decided as it is
 *
 * Each step that the request would go through is asked with what is known at it: the name lookup,
 * the connection, the request. For each: the verdict, the rule with its place in the file, and what
 * would have matched but for one thing. All of it is policy_decide() and policy_ask_rule(): what
 * is told here is what is done there.
 *
 *     name lookup    undecided  api.github.com
 *         github-read (policy.yaml:14): may allow it, once more is known
 *     connection     undecided  api.github.com port 443
 *         github-read (policy.yaml:14): may allow it, once more is known
 *     request        deny       POST /gists/1 to api.github.com port 443 https
 *         no-gists (policy.yaml:31): Gists are readable by anyone with the link.
 *     verdict        deny
 *
 * Ownership   borrows the policy and the request for the call.
 * Blocking    writes to the stream.       Failure     none of its own; ask ferror(@to).
 * Text        names and reasons of the file are printed after escaping.
 * Limits      EXPLAIN_NEAR_MAX near misses are printed a step, the rest is counted.
 * Tests       tests/unit/policy/test_explain.c
 */
#ifndef POLICY_EXPLAIN_H
#define POLICY_EXPLAIN_H

#include <stdio.h>

#include "policy/policy.h"

#define EXPLAIN_NEAR_MAX 10

enum explain_kind {
	EXPLAIN_RESOLVE,	/* a name: facts.host */
	EXPLAIN_CONNECT,	/* and a port, perhaps a protocol; or a literal and a port */
	EXPLAIN_REQUEST,	/* and method and path */
};

struct explain_request {
	enum explain_kind kind;
	/* All facts of the last step; earlier steps are asked with their part of it. An address
	 * beside a host is one that the name resolves to: whether it may is told, too. path:
	 * normalised; where that fails leave it empty, and url says what it was. */
	struct facts facts;
	struct str url;		/* as the reader wrote it; may be empty */
	/* The reader is the box: no file's place, no credential's and no secret's name. */
	bool for_box;
};

/* Returns the verdict of the last step. UNDECIDED: steps would follow (of a lookup or connection),
 * or it depends on the address and none was given. */
enum verdict policy_explain(const struct policy *p, const struct explain_request *r, FILE *to);

#endif
