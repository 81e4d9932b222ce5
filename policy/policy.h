/* policy/policy.h - compiled policies, mapped and asked
 *
 * A policy file is compiled once (policy/build.h) into an image: a flat, position-independent
 * block in a sealed memfd. A sandbox's policy is a stack of images; deciding ORs four bits over
 * them (deny yes, deny unknown, allow yes, allow unknown). The same function answers in worker,
 * dialer and broker, for DNS, connections, requests and grants: no second matcher lives anywhere.
 *
 * Ownership   policy_map() takes no descriptor over: it maps, the caller closes. Images that are
 *             mapped in this process already are validated and mapped once: it is held once more.
 *             Every str handed out points into the image and lives as long as the policy.
 * Blocking    never.
 * Failure     policy_map() validates each image whole before it is used (seals, magic, version,
 *             every offset, count and text); what does not hold is ERR_SYNTAX. policy_decide()
 *             cannot fail. Indices may come from a peer: one that is out of bounds is the default
 *             rule, or a credential without a name that is bound to nothing.
 * Cost        policy_decide() allocates nothing, and looks up hosts by hash of label suffixes:
 *             the same with ten rules and a million hosts.
 * Limits      POLICY_STACK_MAX images, POLICY_IMAGE_MAX bytes each, POLICY_TEXT_MAX bytes a text
 *             (id, reason, path, ...), POLICY_PORTS_MAX, POLICY_LITERALS_MAX, POLICY_LIMITED_MAX,
 *             POLICY_LIMITS_MAX.
 * Tests       tests/unit/policy/test_image.c, test_decide.c, fuzz/fuzz_policy_image.c
 */
#ifndef POLICY_POLICY_H
#define POLICY_POLICY_H

#include "conf/err.h"
#include "policy/facts.h"

#define POLICY_STACK_MAX 16
#define POLICY_IMAGE_MAX (256u << 20)
#define POLICY_TEXT_MAX 4096u
#define POLICY_DIGEST_HEX 64
#define POLICY_PORTS_MAX 1024		/* ports one rule, or one name, may have */

/* What an image's memfd is sealed against (fcntl(2)): nothing of it changes any more. */
#define POLICY_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)

struct policy;

must_use enum err policy_map(const int *memfds, size_t n, struct policy **out);
/* Whoever keeps a rule's number or a text of it beyond the present event holds the policy that it
 * is of: another may take its place meanwhile. NULL holds nothing. */
struct policy *policy_hold(struct policy *p);
/* Gives one hold back, or the one that policy_map() gave; with the last one the policy goes. */
void policy_free(struct policy *p);

/* SHA-256 over the stack's image digests, hex; each image's digest is over its bytes. */
struct str policy_digest(const struct policy *p);
/* Did the first image (the sandbox's own file) ask for "refusal: explain"? */
bool policy_explains(const struct policy *p);

/* What counts as "**": in a deny any target at all, a literal too; in an allow any name. */
struct decision policy_decide(const struct policy *p, const struct facts *f);

enum foreign { FOREIGN_STRIP, FOREIGN_REFUSE, FOREIGN_KEEP };

#define NO_CREDENTIAL UINT32_MAX

/* What an allow rule lets through at most; 0: no such limit. A rule whose bytes nobody reads
 * (tcp, passthrough) counts connections where others count requests, and has no "requests". */
struct rule_limits {
	uint32_t requests, per_s;	/* so many at once, and as many again in 1, 60 or 3600 s */
	uint32_t concurrent;		/* at once */
	uint64_t upload, download;	/* bytes of one request's, of one connection's, content */
	uint32_t idle_s, total_s;	/* of one request or connection */
};

struct rule_info {
	struct str id;		/* "default" for RULE_DEFAULT */
	struct str reason;	/* may be empty */
	struct str file;	/* as the operator named it */
	uint32_t line;		/* of the rule's first key; 0 for the default */
	bool deny;
	uint32_t credential;	/* index for policy_credential(), or NO_CREDENTIAL */
	enum foreign foreign;	/* what is done with credentials that the box brings itself */
	bool has_foreign;	/* the rule says so, or has a credential */
	bool plaintext;		/* credential may go over plain HTTP */
	bool passthrough;	/* TLS is not opened: its bytes go on as they come */
	struct rule_limits limits;
};

struct rule_info policy_rule(const struct policy *p, struct rule_ref ref);

#define POLICY_LIMITED_MAX 1024	/* rules of one image that have limits */
#define POLICY_LIMITS_MAX 16	/* of those, that can match one request: the loader sees to it */

/* Every allow rule that says yes to @f and has limits: all of them hold. The first @max are
 * written, each once, in the order of the file. Returns how many; over @max: there are more. */
size_t policy_limits(const struct policy *p, const struct facts *f, struct rule_ref *out,
		     size_t max);

enum credential_kind { CREDENTIAL_BEARER, CREDENTIAL_HEADER, CREDENTIAL_BASIC };

struct credential_info {
	struct str name;	/* in the policy */
	struct str secret;	/* in the operator's settings */
	enum credential_kind kind;
	struct str header;	/* field name, lower case; "authorization" for bearer and basic */
	struct str format;	/* with "{}" for the value; kind header only */
	struct str user;	/* kind basic */
	enum foreign foreign;
};

uint32_t policy_credentials(const struct policy *p, uint16_t image);
struct credential_info policy_credential(const struct policy *p, uint16_t image, uint32_t index);
/* May the credential's value go to this host? (its own hosts list; the rule was matched before) */
bool policy_credential_bound(const struct policy *p, uint16_t image, uint32_t index,
			     struct str host);

/* Is there a path rule that could apply to this host? Then an ambiguous path is refused. */
bool policy_has_paths(const struct policy *p, struct str host);

/* Could an allow rule by protocol tcp be about this target and port? Then no byte need be waited
 * for to know what is spoken. f->proto is ignored. */
bool policy_allows_raw(const struct policy *p, const struct facts *f);

/* All ports that a rule could allow for this name, ascending. Returns how many; at most @max are
 * written. An allow rule without ports adds none: the loader writes defaults down. */
size_t policy_ports(const struct policy *p, struct str host, uint16_t *out, size_t max);

/* (address, port) pairs that allow rules admit by address: one call of @fn each, until it says
 * false. At most POLICY_LITERALS_MAX (the loader refuses more). */
#define POLICY_LITERALS_MAX 4096
typedef bool policy_literal_fn(void *arg, struct addr addr, uint16_t port);
void policy_literals(const struct policy *p, policy_literal_fn *fn, void *arg);

/* May a name resolve to this address? Prohibited ranges (policy/ranges.h) are refused, unless an
 * allow rule that is not "no" for @f names the address in its resolves_to. f->addr is ignored. */
bool policy_resolve_ok(const struct policy *p, const struct facts *f, const struct addr *a);

/* For explain: one rule's answer to the facts, matcher by matcher. */
enum answer { ANSWER_NO, ANSWER_UNKNOWN, ANSWER_YES };
enum matcher {
	MATCH_HOST, MATCH_ADDRESS, MATCH_PORT, MATCH_PROTO, MATCH_METHOD, MATCH_PATH, MATCH_COUNT
};
const char *matcher_name(enum matcher m);

struct rule_answer {
	enum answer all;
	enum answer each[MATCH_COUNT];	/* YES where the rule has no such matcher */
};

size_t policy_images(const struct policy *p);
uint32_t policy_rules(const struct policy *p, uint16_t image);
struct rule_answer policy_ask_rule(const struct policy *p, struct rule_ref ref,
				   const struct facts *f);

#endif
