/* Theory of operation
 *
 * Every section of the image grows in a buffer of its own while rules come in; indices are final
 * at once, but for hosts. A name may be named by many rules and in three ways, so hosts are held
 * as entries (one a name, found by an open table) and mentions (entry, kind, rule). At the end the
 * entries are sorted by bucket and the mentions by entry and kind, both by counting: a million
 * hosts cost a few passes.
 *
 * The finished block goes through the reader's own check before it is written.
 */
#include "policy/build.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "conf/buf.h"
#include "conf/sort.h"
#include "policy/hosts.h"

#define NAMED_KINDS 3		/* all of enum host_kind but HOST_ANY */
#define TABLE_FIRST 64u

static_assert(HOST_ANY == NAMED_KINDS, "kinds with a name come first");

struct entry {
	struct image_span name;
	uint32_t count[NAMED_KINDS];
	uint32_t last_rule[NAMED_KINDS];	/* plus one: twice in one rule is once */
};

struct mention {
	uint32_t entry, kind, rule;
};

struct policy_build {
	struct buf section[SECTION_COUNT];
	struct buf entries, mentions, anywhere, literal;
	uint32_t *table;		/* entry plus one */
	uint32_t table_n;		/* a power of two, at least twice the entries */
	struct image_span file;
	bool explain;
	size_t literals;		/* (address, port) pairs so far */
	enum err failed;
};

static uint32_t count_in(const struct policy_build *b, enum image_section s)
{
	return (uint32_t)(b->section[s].n / image_item_size[s]);
}

static const struct entry *entries_of(const struct policy_build *b)
{
	return (const struct entry *)(const void *)b->entries.p;
}

static uint32_t entry_count(const struct policy_build *b)
{
	return (uint32_t)(b->entries.n / sizeof(struct entry));
}

/* ---- putting ---- */

static void fail(struct policy_build *b, enum err e)
{
	if (b->failed == OK)
		b->failed = e;
}

static void put(struct policy_build *b, struct buf *to, const void *item, size_t n)
{
	if (n > to->max - to->n)
		fail(b, ERR_LIMIT);
	else
		buf_put(to, item, n);
	if (to->failed)
		fail(b, ERR_NOMEM);
}

static struct image_span put_text(struct policy_build *b, struct str s)
{
	struct image_span at = { count_in(b, SECTION_TEXT), (uint32_t)s.n };

	if (s.n > POLICY_TEXT_MAX)
		fail(b, ERR_LIMIT);
	else if (s.n)
		put(b, &b->section[SECTION_TEXT], s.p, s.n);
	return at;
}

static struct image_span put_texts(struct policy_build *b, enum image_section section,
				   const struct str *texts, size_t n)
{
	struct image_span at = { count_in(b, section), (uint32_t)n };

	for (size_t i = 0; i < n && b->failed == OK; i++) {
		struct image_span text = put_text(b, texts[i]);

		put(b, &b->section[section], &text, sizeof(text));
	}
	return at;
}

static int compare_ranges(const void *left, const void *right)
{
	const struct addr_range *a = left, *b = right;
	int order = a->net.family - b->net.family;

	if (order == 0)
		order = memcmp(a->net.b, b->net.b, sizeof(a->net.b));
	return order ? order : a->bits - b->bits;
}

/* Sorted, and without those that lie in another: ranges are nested or apart, nothing else. */
static struct image_span put_ranges(struct policy_build *b, const struct addr_range *ranges,
				    size_t n)
{
	struct image_span at = { count_in(b, SECTION_RANGES), 0 };
	struct addr_range *sorted, *last = NULL;

	if (n == 0)
		return at;
	sorted = reallocarray(NULL, n, sizeof(*sorted));
	if (!sorted) {
		fail(b, ERR_NOMEM);
		return at;
	}
	memcpy(sorted, ranges, n * sizeof(*sorted));
	sort_items(sorted, n, sizeof(*sorted), compare_ranges);
	for (size_t i = 0; i < n && b->failed == OK; i++) {
		if (last && addr_in_range(&sorted[i].net, last))
			continue;
		last = &sorted[i];
		put(b, &b->section[SECTION_RANGES], last, sizeof(*last));
		at.count++;
	}
	free(sorted);
	return at;
}

static struct image_span put_ports(struct policy_build *b, const struct build_rule *r)
{
	struct image_span at = { count_in(b, SECTION_PORTS), (uint32_t)r->n_ports };
	size_t sum = 0;

	for (size_t i = 0; i < r->n_ports && b->failed == OK; i++) {
		struct image_ports p = { r->ports[i].first, r->ports[i].last };

		put(b, &b->section[SECTION_PORTS], &p, sizeof(p));
		sum += p.last >= p.first ? (size_t)(p.last - p.first) + 1 : 0;
		if (!r->deny && sum > POLICY_PORTS_MAX)
			fail(b, ERR_LIMIT);
	}
	return at;
}

/* ---- hosts ---- */

static bool table_grow(struct policy_build *b)
{
	uint32_t n = b->table_n ? b->table_n * 2 : TABLE_FIRST;
	uint32_t *table = calloc(n, sizeof(*table));

	if (!table)
		return false;
	for (uint32_t i = 0; i < entry_count(b); i++) {
		struct image_span at = entries_of(b)[i].name;
		struct str name = str_n(b->section[SECTION_TEXT].p + at.first, at.count);
		uint32_t slot = host_bucket(name, 0, n);

		while (table[slot])
			slot = (slot + 1) & (n - 1);
		table[slot] = i + 1;
	}
	free(b->table);
	b->table = table;
	b->table_n = n;
	return true;
}

/* The entry of @name, made where there was none. */
static struct entry *find_entry(struct policy_build *b, struct str name)
{
	uint32_t slot, i;
	struct entry fresh = { 0 };

	if (entry_count(b) >= b->table_n / 2 && !table_grow(b)) {
		fail(b, ERR_NOMEM);
		return NULL;
	}
	for (slot = host_bucket(name, 0, b->table_n); b->table[slot];
	     slot = (slot + 1) & (b->table_n - 1)) {
		struct entry *e = (struct entry *)(void *)b->entries.p + (b->table[slot] - 1);

		if (str_eq(str_n(b->section[SECTION_TEXT].p + e->name.first, e->name.count), name))
			return e;
	}
	i = entry_count(b);
	fresh.name = put_text(b, name);
	put(b, &b->entries, &fresh, sizeof(fresh));
	if (b->failed != OK)
		return NULL;
	b->table[slot] = i + 1;
	return (struct entry *)(void *)b->entries.p + i;
}

static void put_host(struct policy_build *b, enum host_kind kind, struct str name, uint32_t rule)
{
	struct entry *e = find_entry(b, name);
	struct mention m;

	if (!e || e->last_rule[kind] == rule + 1)
		return;
	e->last_rule[kind] = rule + 1;
	e->count[kind]++;
	m = (struct mention){ (uint32_t)(e - entries_of(b)), kind, rule };
	put(b, &b->mentions, &m, sizeof(m));
}

/* Returns the rule's flags of hosts. */
static uint32_t put_hosts(struct policy_build *b, const struct build_rule *r, uint32_t rule)
{
	uint32_t flags = r->n_hosts ? RULE_HAS_HOSTS : 0;

	for (size_t i = 0; i < r->n_hosts && b->failed == OK; i++) {
		struct str name;
		enum host_kind kind = host_pattern(r->hosts[i], &name);

		if (kind == HOST_ANY)
			flags |= RULE_ANY_HOST;
		else
			put_host(b, kind, name, rule);
	}
	return flags;
}

/* ---- rules and credentials ---- */

struct policy_build *policy_build_new(struct str file, bool explain)
{
	struct policy_build *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	for (size_t i = 0; i < SECTION_COUNT; i++)
		buf_init(&b->section[i], POLICY_IMAGE_MAX);
	buf_init(&b->entries, POLICY_IMAGE_MAX);
	buf_init(&b->mentions, POLICY_IMAGE_MAX);
	buf_init(&b->anywhere, POLICY_IMAGE_MAX);
	buf_init(&b->literal, POLICY_IMAGE_MAX);
	b->explain = explain;
	b->file = put_text(b, file);
	return b;
}

void policy_build_free(struct policy_build *b)
{
	if (!b)
		return;
	for (size_t i = 0; i < SECTION_COUNT; i++)
		buf_free(&b->section[i]);
	buf_free(&b->entries);
	buf_free(&b->mentions);
	buf_free(&b->anywhere);
	buf_free(&b->literal);
	free(b->table);
	free(b);
}

enum err policy_build_credential(struct policy_build *b, const struct build_credential *c,
				 uint32_t *index)
{
	struct image_credential k = { .kind = c->kind, .foreign = c->foreign };

	k.name = put_text(b, c->name);
	k.secret = put_text(b, c->secret);
	k.header = put_text(b, c->kind == CREDENTIAL_HEADER ? c->header : STR("authorization"));
	k.format = put_text(b, c->format);
	k.user = put_text(b, c->user);
	k.bounds = (struct image_span){ count_in(b, SECTION_BOUNDS), (uint32_t)c->n_hosts };
	for (size_t i = 0; i < c->n_hosts && b->failed == OK; i++) {
		struct str name;
		struct image_pattern p = { .kind = host_pattern(c->hosts[i], &name) };

		p.name = put_text(b, name);
		put(b, &b->section[SECTION_BOUNDS], &p, sizeof(p));
	}
	*index = count_in(b, SECTION_CREDENTIALS);
	put(b, &b->section[SECTION_CREDENTIALS], &k, sizeof(k));
	return b->failed;
}

/* How many addresses @r holds, or one more than may be. */
static size_t range_size(const struct addr_range *r)
{
	unsigned free_bits = (r->net.family == 4 ? 32u : 128u) - r->bits;

	return free_bits > 12 ? POLICY_LITERALS_MAX + 1 : (size_t)1 << free_bits;
}

static_assert(POLICY_LITERALS_MAX == 1 << 12, "range_size() counts to it");

static void count_literals(struct policy_build *b, const struct image_rule *rule)
{
	const struct addr_range *ranges =
		(const struct addr_range *)(const void *)b->section[SECTION_RANGES].p;
	const struct image_ports *ports =
		(const struct image_ports *)(const void *)b->section[SECTION_PORTS].p;
	size_t n_ports = 0;

	for (uint32_t i = 0; i < rule->ports.count; i++) {
		const struct image_ports *p = &ports[rule->ports.first + i];

		n_ports += p->last >= p->first ? (size_t)(p->last - p->first) + 1 : 0;
	}
	for (uint32_t i = 0; i < rule->addresses.count; i++) {
		b->literals += range_size(&ranges[rule->addresses.first + i]) * n_ports;
		if (b->literals > POLICY_LITERALS_MAX) {
			fail(b, ERR_LIMIT);
			return;
		}
	}
}

/* Where a decision finds the rule, other than by a name. */
static void put_lists(struct policy_build *b, const struct image_rule *rule, uint32_t index)
{
	bool deny = rule->flags & RULE_DENY, addresses = rule->addresses.count > 0;
	bool hosts = rule->flags & RULE_HAS_HOSTS;

	if ((rule->flags & RULE_ANY_HOST) || (!hosts && !addresses) || (deny && addresses))
		put(b, &b->anywhere, &index, sizeof(index));
	else if (addresses)
		put(b, &b->literal, &index, sizeof(index));
}

/* Nothing for a rule without limits. */
static struct image_span put_limits(struct policy_build *b, const struct rule_limits *k)
{
	struct image_span at = { count_in(b, SECTION_LIMITS), 0 };
	struct image_limits item = { .upload = k->upload, .download = k->download,
				     .requests = k->requests, .per_s = k->per_s,
				     .concurrent = k->concurrent,
				     .idle_s = k->idle_s, .total_s = k->total_s };
	static const struct image_limits none;

	if (memcmp(&item, &none, sizeof(item)) == 0)
		return at;
	if (at.first == POLICY_LIMITED_MAX)
		fail(b, ERR_LIMIT);
	put(b, &b->section[SECTION_LIMITS], &item, sizeof(item));
	at.count = 1;
	return at;
}

enum err policy_build_rule(struct policy_build *b, const struct build_rule *r)
{
	uint32_t index = count_in(b, SECTION_RULES);
	struct image_rule rule = { .line = r->line, .protos = r->protos, .foreign = r->foreign,
				   .credential = r->credential };

	rule.flags = (r->deny ? RULE_DENY : 0) | (r->has_foreign ? RULE_HAS_FOREIGN : 0) |
		     (r->plaintext ? RULE_PLAINTEXT : 0) |
		     (r->passthrough ? RULE_PASSTHROUGH : 0) | put_hosts(b, r, index);
	rule.id = put_text(b, r->id);
	rule.reason = put_text(b, r->reason);
	rule.addresses = put_ranges(b, r->addresses, r->n_addresses);
	rule.resolves_to = put_ranges(b, r->resolves_to, r->n_resolves_to);
	rule.ports = put_ports(b, r);
	rule.methods = put_texts(b, SECTION_METHODS, r->methods, r->n_methods);
	rule.paths = put_texts(b, SECTION_PATHS, r->paths, r->n_paths);
	rule.limits = put_limits(b, &r->limits);
	if (b->failed == OK && !r->deny)
		count_literals(b, &rule);
	put_lists(b, &rule, index);
	put(b, &b->section[SECTION_RULES], &rule, sizeof(rule));
	return b->failed;
}

/* ---- finishing: hosts by bucket ---- */

static uint32_t table_size(uint32_t hosts)
{
	uint32_t n = 1;

	while (n < hosts)
		n *= 2;
	return n;
}

/* Fills @buckets (@n + 1) for @seed. False: a bucket is over the limit. */
static bool spread(const struct policy_build *b, uint32_t seed, uint32_t n, uint32_t *buckets)
{
	const char *text = b->section[SECTION_TEXT].p;

	memset(buckets, 0, (n + 1) * sizeof(*buckets));
	for (uint32_t i = 0; i < entry_count(b); i++) {
		struct image_span at = entries_of(b)[i].name;
		uint32_t bucket = host_bucket(str_n(text + at.first, at.count), seed, n);

		if (++buckets[bucket + 1] > IMAGE_BUCKET_MAX)
			return false;
	}
	for (uint32_t i = 0; i < n; i++)
		buckets[i + 1] += buckets[i];
	return true;
}

static enum err choose_seed(const struct policy_build *b, uint32_t n, uint32_t *buckets,
			    uint32_t *seed)
{
	for (*seed = 0; *seed < IMAGE_SEEDS; ++*seed)
		if (spread(b, *seed, n, buckets))
			return OK;
	return ERR_LIMIT;
}

/* For each entry its place among the hosts; @next is scratch. */
static void place_entries(const struct policy_build *b, uint32_t seed, uint32_t n,
			  const uint32_t *buckets, uint32_t *next, uint32_t *place)
{
	const char *text = b->section[SECTION_TEXT].p;

	memcpy(next, buckets, n * sizeof(*next));
	for (uint32_t i = 0; i < entry_count(b); i++) {
		struct image_span at = entries_of(b)[i].name;

		place[i] = next[host_bucket(str_n(text + at.first, at.count), seed, n)]++;
	}
}

/* Hosts in their places, each with its lists' place in the refs; returns how many those are. */
static uint32_t lay_hosts(const struct policy_build *b, const uint32_t *place,
			  struct image_host *hosts)
{
	uint32_t total = 0;

	for (uint32_t i = 0; i < entry_count(b); i++) {
		const struct entry *e = &entries_of(b)[i];

		hosts[place[i]] = (struct image_host){ .name = e->name,
						       .n_exact = e->count[HOST_EXACT],
						       .n_one = e->count[HOST_ONE],
						       .n_many = e->count[HOST_MANY] };
	}
	for (uint32_t i = 0; i < entry_count(b); i++) {
		hosts[i].first = total;
		total += hosts[i].n_exact + hosts[i].n_one + hosts[i].n_many;
	}
	return total;
}

/* Mentions come in the order of rules, so each list ascends. @next: one cursor a host and kind. */
static void lay_refs(const struct policy_build *b, const uint32_t *place,
		     const struct image_host *hosts, uint32_t *next, uint32_t *refs)
{
	const struct mention *m = (const struct mention *)(const void *)b->mentions.p;

	for (uint32_t i = 0; i < entry_count(b); i++) {
		uint32_t *cursor = next + NAMED_KINDS * i;

		cursor[HOST_EXACT] = hosts[i].first;
		cursor[HOST_ONE] = cursor[HOST_EXACT] + hosts[i].n_exact;
		cursor[HOST_MANY] = cursor[HOST_ONE] + hosts[i].n_one;
	}
	for (size_t i = 0; i < b->mentions.n / sizeof(*m); i++)
		refs[next[NAMED_KINDS * place[m[i].entry] + m[i].kind]++] = m[i].rule;
}

static struct image_span append_refs(struct policy_build *b, const struct buf *list)
{
	uint32_t n = (uint32_t)(list->n / sizeof(uint32_t));
	struct image_span at = { count_in(b, SECTION_REFS), n };

	if (list->n)
		put(b, &b->section[SECTION_REFS], list->p, list->n);
	return at;
}

static enum err finish_hosts(struct policy_build *b, struct image_header *h)
{
	uint32_t n = entry_count(b), n_buckets = table_size(n);
	uint32_t n_refs = (uint32_t)(b->mentions.n / sizeof(struct mention));
	/* One more than needed each, so that none is of size zero. */
	uint32_t *buckets = calloc(n_buckets + 1, sizeof(*buckets));
	uint32_t *next = calloc((size_t)NAMED_KINDS * n + n_buckets, sizeof(*next));
	uint32_t *place = calloc(n + 1, sizeof(*place));
	uint32_t *refs = calloc(n_refs + 1, sizeof(*refs));
	struct image_host *hosts = calloc(n + 1, sizeof(*hosts));
	enum err e = ERR_NOMEM;

	if (!buckets || !next || !place || !refs || !hosts)
		goto out;
	e = choose_seed(b, n_buckets, buckets, &h->seed);
	if (e != OK)
		goto out;
	place_entries(b, h->seed, n_buckets, buckets, next, place);
	if (lay_hosts(b, place, hosts) != n_refs) {
		e = ERR_BUG;
		goto out;
	}
	lay_refs(b, place, hosts, next, refs);
	put(b, &b->section[SECTION_BUCKETS], buckets, (n_buckets + 1) * sizeof(*buckets));
	put(b, &b->section[SECTION_HOSTS], hosts, n * sizeof(*hosts));
	put(b, &b->section[SECTION_REFS], refs, n_refs * sizeof(*refs));
	h->anywhere = append_refs(b, &b->anywhere);
	h->literal = append_refs(b, &b->literal);
	e = b->failed;
out:
	free(buckets);
	free(next);
	free(place);
	free(refs);
	free(hosts);
	return e;
}

/* ---- finishing: the block ---- */

static enum err place_sections(const struct policy_build *b, struct image_header *h)
{
	uint64_t at = (sizeof(*h) + 7) & ~(uint64_t)7;

	for (enum image_section s = 0; s < SECTION_COUNT; s++) {
		h->sections[s] = (struct image_place){ (uint32_t)at, count_in(b, s) };
		at = (at + b->section[s].n + 7) & ~(uint64_t)7;
		if (at > POLICY_IMAGE_MAX)
			return ERR_LIMIT;
	}
	h->length = (uint32_t)at;
	return OK;
}

static char *assemble(const struct policy_build *b, const struct image_header *h)
{
	char *block = calloc(1, h->length);

	if (!block)
		return NULL;
	memcpy(block, h, sizeof(*h));
	for (enum image_section s = 0; s < SECTION_COUNT; s++)
		if (b->section[s].n)
			memcpy(block + h->sections[s].offset, b->section[s].p, b->section[s].n);
	return block;
}

static enum err write_sealed(int memfd, const char *block, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t wrote = pwrite(memfd, block + done, n - done, (off_t)done);

		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote <= 0)
			return ERR_SYSTEM;
		done += (size_t)wrote;
	}
	if (fcntl(memfd, F_ADD_SEALS, POLICY_SEALS) < 0)
		return ERR_SYSTEM;
	return OK;
}

enum err policy_build_finish(struct policy_build *b, int memfd)
{
	struct image_header h = { .version = IMAGE_VERSION, .file = b->file,
				  .explain = b->explain };
	struct image im;
	char *block;
	enum err e;

	memcpy(h.magic, IMAGE_MAGIC, sizeof(h.magic));
	if (b->failed != OK)
		return b->failed;
	e = finish_hosts(b, &h);
	if (e == OK)
		e = place_sections(b, &h);
	if (e != OK)
		return e;
	block = assemble(b, &h);
	if (!block)
		return ERR_NOMEM;
	e = image_open(block, h.length, &im);
	if (e == OK)
		e = write_sealed(memfd, block, h.length);
	free(block);
	return e;
}
