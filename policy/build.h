/* policy/build.h - puts a policy image together, rule by rule
 *
 * The loader (policy/load.h) has checked every value: names canonical, patterns valid, defaults of
 * the language filled in. This writes them down.
 *
 * Ownership   the builder copies what it is given; policy_build_free() releases it.
 * Blocking    policy_build_finish() writes to the memfd.
 * Failure     ERR_LIMIT past a limit of policy/policy.h, ERR_NOMEM, ERR_SYSTEM (errno), ERR_SYNTAX
 *             where a value is none that policy_map() would take. After one only
 *             policy_build_free() is left to call.
 * Digest      the same calls give the same bytes.
 * Tests       tests/unit/policy/test_build.c
 */
#ifndef POLICY_BUILD_H
#define POLICY_BUILD_H

#include "policy/policy.h"

struct policy_build;

struct port_range {
	uint16_t first, last;
};

struct build_credential {
	struct str name, secret, header, format, user;
	enum credential_kind kind;
	enum foreign foreign;
	const struct str *hosts;	/* exact, "*.x" or "**.x" */
	size_t n_hosts;
};

/* An empty list: the rule has no such matcher. */
struct build_rule {
	bool deny;
	struct str id, reason;
	uint32_t line;
	const struct str *hosts;	/* exact, "*.x", "**.x", or "**" (any) */
	size_t n_hosts;
	const struct addr_range *addresses;
	size_t n_addresses;
	const struct port_range *ports;
	size_t n_ports;
	unsigned protos;		/* OR of enum proto; 0: any */
	const struct str *methods;
	size_t n_methods;
	const struct str *paths;
	size_t n_paths;
	const struct addr_range *resolves_to;
	size_t n_resolves_to;
	uint32_t credential; /* what policy_build_credential() returned, or NO_CREDENTIAL */
	bool has_foreign;
	enum foreign foreign;
	bool plaintext;
	bool passthrough;
	struct rule_limits limits;	/* all zero: none */
};

struct policy_build *policy_build_new(struct str file, bool explain);
void policy_build_free(struct policy_build *b);
must_use enum err policy_build_credential(struct policy_build *b, const struct build_credential *c,
					  uint32_t *index);
must_use enum err policy_build_rule(struct policy_build *b, const struct build_rule *r);
/* Writes the image into @memfd, empty and made with MFD_ALLOW_SEALING, and seals it (shrink, grow,
 * write, seal). */
must_use enum err policy_build_finish(struct policy_build *b, int memfd);

#endif
