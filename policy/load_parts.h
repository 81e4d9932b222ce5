/* policy/load_parts.h - what the loader's files share: a policy between its text and its image
 *
 * load.c reads the top level and drives the rest: load_credential.c and load_rule.c read one item
 * each, load_hosts.c the host lists of both, load_limits.c a rule's limits; load_pairs.c sets rules
 * against each other, load_limited.c counts those with limits that can match one request.
 *
 * Ownership   all texts, rules and lists lie in the arena; keys and values borrow from the tree.
 * Blocking    never.
 * Failure     errors go into the diags; reading goes on after them.
 * Limits      as named below.
 * Tests       tests/unit/policy/test_load.c, tests/policy/{good,bad}
 */
#ifndef POLICY_LOAD_PARTS_H
#define POLICY_LOAD_PARTS_H

#include "conf/arena.h"
#include "conf/schema.h"
#include "policy/build.h"
#include "policy/load.h"
#include "policy/name.h"

#define LOAD_ID_MAX 64
#define LOAD_CREDENTIALS_MAX 256
#define LOAD_CREDENTIAL_HOSTS_MAX 256
#define LOAD_REASON_MAX 1024
#define LOAD_PATH_MAX 2048
#define LOAD_METHOD_MAX 32

struct load_hosts {
	struct str *v;
	struct mark *at;
	size_t n;
};

struct load_credential {
	struct build_credential b;
	struct load_hosts hosts;
	struct mark at;
	uint32_t index;		/* in the image */
};

struct load_rule {
	struct build_rule b;
	struct load_hosts hosts;
	struct mark at;
	struct load_credential *credential;	/* or NULL */
	uint32_t limited;	/* which of those with limits; from 1, 0: it has none */
	bool good;		/* read without an error: worth to be set against others */
};

struct load {
	struct arena arena;
	struct diags *diags;
	const struct load_env *env;
	struct load_credential *credentials;
	size_t n_credentials;
	struct load_rule *rules;
	size_t n_rules;
	uint64_t literals;	/* (address, port) pairs of allow rules so far */
	struct limited *limited;	/* NULL: too few rules have limits to be too many */
};

enum hosts_use { HOSTS_ALLOW, HOSTS_DENY, HOSTS_CREDENTIAL };

struct hosts_rules {
	enum hosts_use use;
	bool any_host, any_tenant;
};

/* The words of "foreign", in the order of enum foreign. */
extern const char *const load_foreigns[];

/* May this be the id of a rule, the name of a credential or of a secret? NULL, or why not. */
const char *load_check_id(struct str id);
void load_hosts(struct load *l, const struct yaml_node *list, struct hosts_rules rules,
		struct load_hosts *out);
/* Wildcards that leave out the name that stands closest to them, and the other way round. */
void load_hosts_hints(struct load *l);
void load_credential(struct load *l, const struct yaml_node *name, struct load_credential *out);
void load_rule(struct load *l, const struct yaml_node *node, bool deny, struct load_rule *out);
void load_limits(struct load *l, const struct yaml_node *map, struct rule_limits *out);
void load_pairs(struct load *l);
/* False: too many have limits, which was told. */
bool load_limited_start(struct load *l);
/* Both have limits, and one request can match both. */
void load_limited_meet(struct load *l, const struct load_rule *a, const struct load_rule *b);
void load_limited_end(struct load *l);

#endif
