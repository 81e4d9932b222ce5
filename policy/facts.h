/* policy/facts.h - what is known of a request at one step, and what a policy says of it
 *
 * Ownership   a struct facts borrows all that it points to.       Blocking  never.
 * Failure     none: these are plain values.
 * Tests       tests/unit/policy/test_decide.c
 */
#ifndef POLICY_FACTS_H
#define POLICY_FACTS_H

#include "conf/addr.h"

enum proto { PROTO_UNKNOWN = 0, PROTO_HTTPS = 1, PROTO_HTTP = 2, PROTO_TCP = 4 };

/* A fact that is not known yet has its zero value. */
struct facts {
	struct str host;	/* canonical name (policy/name.h); none while unknown or @literal */
	bool literal; /* the box went to an address, not to a name: @addr is what it asked for */
	struct addr addr;	/* the literal, or the address that the name was resolved to */
	uint16_t port;
	enum proto proto;
	struct str method;	/* as sent: case matters (RFC 9110 9.1) */
	struct str path;	/* normalised (policy/path.h), no query */
};

enum verdict { VERDICT_DENY, VERDICT_ALLOW, VERDICT_UNDECIDED };

/* One rule of one image of the stack. */
struct rule_ref {
	uint16_t image;
	uint32_t rule;		/* RULE_DEFAULT: no rule, the default */
};

#define RULE_DEFAULT UINT32_MAX

struct decision {
	enum verdict verdict;
	struct rule_ref rule; /* what decided; for UNDECIDED the first rule that may still allow */
};

#endif
