/* policy/image.h - how a compiled policy lies in memory
 *
 * A header, then sections, each an array of one kind of item. Items name others by index, texts by
 * place in the text section. Little endian, naturally aligned, no pointers: the bytes mean the same
 * wherever they are mapped. What is read is read through a struct image, whose pointers
 * image_open() has set after it checked everything:
 *
 *  - each section lies inside the block, aligned; its items name only what exists;
 *  - items that belong to a rule or a host follow each other in the order of their owners, none
 *    shared, none left over: no list is longer than the block, and all lists together are not;
 *  - lists of rules ascend; ranges ascend and do not overlap; a bucket of the host table holds at
 *    most IMAGE_BUCKET_MAX names.
 *
 * Ownership   a struct image borrows its block.       Blocking  never.
 * Failure     image_open(): ERR_SYNTAX.
 * Limits      POLICY_IMAGE_MAX, POLICY_TEXT_MAX, IMAGE_BUCKET_MAX.
 * Tests       tests/unit/policy/test_image.c, fuzz/fuzz_policy_image.c
 */
#ifndef POLICY_IMAGE_H
#define POLICY_IMAGE_H

#include <assert.h>
#include <sys/types.h>

#include "policy/digest.h"
#include "policy/policy.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "images are little endian");

#define IMAGE_MAGIC "EXEATPOL"
#define IMAGE_VERSION 2u
#define IMAGE_BUCKET_MAX 32u
#define IMAGE_SEEDS 64u		/* tries to spread the host table */

/* @count items of a section, from @first on. Of the text section: bytes. */
struct image_span {
	uint32_t first, count;
};

enum image_section {
	SECTION_TEXT,		/* char */
	SECTION_RULES,		/* struct image_rule, in file order */
	SECTION_HOSTS,		/* struct image_host, by bucket */
	SECTION_BUCKETS,	/* uint32_t: each bucket's first host, and the end of the last */
	SECTION_REFS,		/* uint32_t: rule indices; lists of hosts, then the header's */
	SECTION_RANGES,		/* struct addr_range: each rule's addresses, then its resolves_to */
	SECTION_PORTS,		/* struct image_ports */
	SECTION_METHODS,	/* struct image_span of text */
	SECTION_PATHS,		/* struct image_span of text */
	SECTION_CREDENTIALS,	/* struct image_credential */
	SECTION_BOUNDS,		/* struct image_pattern: where credentials may go */
	SECTION_LIMITS,		/* struct image_limits: one, or none, a rule */
	SECTION_COUNT
};

struct image_header {
	char magic[8];
	uint32_t version, length;
	struct image_place {
		uint32_t offset, count;
	} sections[SECTION_COUNT];
	struct image_span file;		/* text: the policy file's name */
	/* Rules that a target may meet whatever its name is: no hosts and no addresses, "**", and
	 * denies with addresses. */
	struct image_span anywhere;	/* refs */
	/* Rules that only a literal may meet beside those: allows with addresses. */
	struct image_span literal;	/* refs */
	uint32_t explain;
	uint32_t seed;			/* of the host table's hash */
};

#define RULE_DENY 1u
#define RULE_HAS_HOSTS 2u
#define RULE_ANY_HOST 4u
#define RULE_HAS_FOREIGN 8u
#define RULE_PLAINTEXT 16u
#define RULE_PASSTHROUGH 32u
#define RULE_FLAGS 63u

struct image_rule {
	struct image_span id, reason;	/* text */
	uint32_t flags, line, protos, foreign, credential;
	struct image_span addresses, resolves_to, ports, methods, paths, limits;
};

/* One name, and the rules that name it: itself, "*." before it, "**." before it. */
struct image_host {
	struct image_span name;		/* text */
	uint32_t first;			/* refs: n_exact, then n_one, then n_many */
	uint32_t n_exact, n_one, n_many;
};

struct image_ports {
	uint16_t first, last;
};

struct image_pattern {
	struct image_span name;		/* text; empty for HOST_ANY */
	uint32_t kind;			/* enum host_kind */
};

struct image_credential {
	struct image_span name, secret, header, format, user;	/* text */
	uint32_t kind, foreign;
	struct image_span bounds;
};

/* As struct rule_limits. */
struct image_limits {
	uint64_t upload, download;
	uint32_t requests, per_s, concurrent, idle_s, total_s, zero;
};

static_assert(sizeof(struct image_header) == 16 + 8 * SECTION_COUNT + 3 * 8 + 8, "no padding");
static_assert(sizeof(struct image_rule) == 84, "no padding");
static_assert(sizeof(struct image_host) == 24, "no padding");
static_assert(sizeof(struct image_pattern) == 12, "no padding");
static_assert(sizeof(struct image_credential) == 56, "no padding");
static_assert(sizeof(struct image_limits) == 40, "no padding");
static_assert(sizeof(struct addr_range) == 18, "no padding");

extern const uint32_t image_item_size[SECTION_COUNT];

struct image {
	const struct image_header *header;
	const char *text;
	const struct image_rule *rules;
	const struct image_host *hosts;
	const uint32_t *buckets, *refs;
	const struct addr_range *ranges;
	const struct image_ports *ports;
	const struct image_span *methods, *paths;
	const struct image_credential *credentials;
	const struct image_pattern *bounds;
	const struct image_limits *limits;
	uint32_t n_rules, n_credentials, n_buckets;
};

/* A memfd; nobody else's while it is mapped. */
struct image_id {
	dev_t device;
	ino_t file;
};

/* What policy_map() makes of its descriptors. */
struct policy {
	unsigned holders;
	struct policy *next;		/* of all that are mapped */
	struct image_id ids[POLICY_STACK_MAX];
	size_t n;
	struct image images[POLICY_STACK_MAX];
	char digest[DIGEST_HEX + 1];
};

/* @block: aligned as malloc() and mmap() do. */
must_use enum err image_open(const void *block, size_t n, struct image *out);

static inline struct str image_text(const struct image *im, struct image_span s)
{
	return (struct str){ im->text + s.first, s.count };
}

#endif
