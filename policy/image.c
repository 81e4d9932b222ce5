/* Theory of operation
 *
 * image_open() is one pass over a block that a hostile compiler may have written. After it, no
 * reader checks a bound again. Each check_*() says what must hold of one kind of item; what must
 * hold between items (lists in order, none shared) is kept by a running mark per section, which at
 * the end has to stand at the section's end.
 */
#include "policy/image.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "conf/hex.h"
#include "policy/hosts.h"
#include "policy/name.h"
#include "policy/path.h"

const uint32_t image_item_size[SECTION_COUNT] = {
	[SECTION_TEXT] = 1,
	[SECTION_RULES] = sizeof(struct image_rule),
	[SECTION_HOSTS] = sizeof(struct image_host),
	[SECTION_BUCKETS] = sizeof(uint32_t),
	[SECTION_REFS] = sizeof(uint32_t),
	[SECTION_RANGES] = sizeof(struct addr_range),
	[SECTION_PORTS] = sizeof(struct image_ports),
	[SECTION_METHODS] = sizeof(struct image_span),
	[SECTION_PATHS] = sizeof(struct image_span),
	[SECTION_CREDENTIALS] = sizeof(struct image_credential),
	[SECTION_BOUNDS] = sizeof(struct image_pattern),
	[SECTION_LIMITS] = sizeof(struct image_limits),
};

struct check {
	const struct image *im;
	uint32_t mark[SECTION_COUNT];	/* items that have found their owner */
};

static uint32_t count_of(const struct image *im, enum image_section s)
{
	return im->header->sections[s].count;
}

/* ---- header and sections ---- */

static bool check_place(const struct image_header *h, enum image_section s)
{
	const struct image_place *p = &h->sections[s];

	return p->offset % 8 == 0 && p->offset >= sizeof(*h) && p->offset <= h->length &&
	       (uint64_t)p->count * image_item_size[s] <= h->length - p->offset;
}

static bool check_header(const struct image_header *h, size_t n)
{
	if (n < sizeof(*h) || n > POLICY_IMAGE_MAX || memcmp(h->magic, IMAGE_MAGIC, 8) != 0 ||
	    h->version != IMAGE_VERSION || h->length != n || h->explain > 1)
		return false;
	for (enum image_section s = 0; s < SECTION_COUNT; s++)
		if (!check_place(h, s))
			return false;
	return true;
}

static void set_pointers(struct image *im, const char *block)
{
	const struct image_place *at;

	im->header = (const struct image_header *)(const void *)block;
	at = im->header->sections;
	im->text = block + at[SECTION_TEXT].offset;
	im->rules = (const void *)(block + at[SECTION_RULES].offset);
	im->hosts = (const void *)(block + at[SECTION_HOSTS].offset);
	im->buckets = (const void *)(block + at[SECTION_BUCKETS].offset);
	im->refs = (const void *)(block + at[SECTION_REFS].offset);
	im->ranges = (const void *)(block + at[SECTION_RANGES].offset);
	im->ports = (const void *)(block + at[SECTION_PORTS].offset);
	im->methods = (const void *)(block + at[SECTION_METHODS].offset);
	im->paths = (const void *)(block + at[SECTION_PATHS].offset);
	im->credentials = (const void *)(block + at[SECTION_CREDENTIALS].offset);
	im->bounds = (const void *)(block + at[SECTION_BOUNDS].offset);
	im->limits = (const void *)(block + at[SECTION_LIMITS].offset);
	im->n_rules = at[SECTION_RULES].count;
	im->n_credentials = at[SECTION_CREDENTIALS].count;
	im->n_buckets = at[SECTION_BUCKETS].count ? at[SECTION_BUCKETS].count - 1 : 0;
}

/* ---- spans and texts ---- */

static bool in_bounds(struct image_span s, uint32_t count)
{
	return s.first <= count && s.count <= count - s.first;
}

/* Does @s begin where the items of its predecessor ended? */
static bool take(struct check *c, enum image_section section, struct image_span s)
{
	if (s.first != c->mark[section] || !in_bounds(s, count_of(c->im, section)))
		return false;
	c->mark[section] += s.count;
	return true;
}

/* @spared: controls that may stand in it. */
static bool check_text_but(const struct image *im, struct image_span s, struct str spared)
{
	struct str text;

	if (s.count > POLICY_TEXT_MAX || !in_bounds(s, count_of(im, SECTION_TEXT)))
		return false;
	text = image_text(im, s);
	for (size_t i = 0; i < text.n; i++)
		if (((unsigned char)text.p[i] < 0x20 || text.p[i] == 0x7f) &&
		    str_find(spared, text.p[i]) == spared.n)
			return false;
	return true;
}

static bool check_text(const struct image *im, struct image_span s)
{
	return check_text_but(im, s, STR_NONE);
}

static bool check_name(const struct image *im, struct image_span s)
{
	struct name name;
	struct str text;

	if (s.count > NAME_MAX_LEN || !in_bounds(s, count_of(im, SECTION_TEXT)))
		return false;
	text = image_text(im, s);
	return name_canon(text, &name) == NAME_OK && str_eq(name_str(&name), text);
}

/* ---- rules ---- */

static bool check_range(const struct addr_range *r)
{
	return (r->net.family == 4 && r->bits <= 32) || (r->net.family == 6 && r->bits <= 128);
}

static bool ranges_ascend(const struct addr_range *a, const struct addr_range *b)
{
	int order = a->net.family - b->net.family;

	if (order == 0)
		order = memcmp(a->net.b, b->net.b, sizeof(a->net.b));
	return order < 0 && !addr_in_range(&b->net, a);
}

static bool check_ranges(struct check *c, struct image_span s)
{
	const struct addr_range *r;

	if (!take(c, SECTION_RANGES, s))
		return false;
	r = c->im->ranges + s.first;
	for (uint32_t i = 0; i < s.count; i++)
		if (!check_range(&r[i]) || (i > 0 && !ranges_ascend(&r[i - 1], &r[i])))
			return false;
	return true;
}

static bool check_ports(struct check *c, const struct image_rule *rule)
{
	const struct image_ports *p;
	uint32_t sum = 0;

	if (!take(c, SECTION_PORTS, rule->ports))
		return false;
	p = c->im->ports + rule->ports.first;
	for (uint32_t i = 0; i < rule->ports.count; i++) {
		if (p[i].first == 0 || p[i].first > p[i].last)
			return false;
		sum += (uint32_t)p[i].last - p[i].first + 1;
		if (!(rule->flags & RULE_DENY) && sum > POLICY_PORTS_MAX)
			return false;
	}
	return true;
}

static bool check_texts(struct check *c, enum image_section section, struct image_span s)
{
	const struct image_span *texts = section == SECTION_PATHS ? c->im->paths : c->im->methods;

	if (!take(c, section, s))
		return false;
	for (uint32_t i = s.first; i < s.first + s.count; i++)
		if (texts[i].count == 0 || !check_text(c->im, texts[i]))
			return false;
	return true;
}

/* Limits are an allow rule's; one record at most, and not an empty one. */
static bool check_limits(struct check *c, const struct image_rule *r)
{
	const struct image_limits *k;

	if (!take(c, SECTION_LIMITS, r->limits))
		return false;
	if (r->limits.count == 0)
		return true;
	k = &c->im->limits[r->limits.first];
	if (r->limits.count > 1 || (r->flags & RULE_DENY) || k->zero != 0 ||
	    (k->requests > 0) != (k->per_s > 0) ||
	    (k->per_s > 1 && k->per_s != 60 && k->per_s != 3600))
		return false;
	return k->requests || k->concurrent || k->upload || k->download || k->idle_s || k->total_s;
}

/* What is not opened has no methods, no paths, nothing that could be put on it, and no requests. */
static bool check_unopened(const struct check *c, const struct image_rule *r)
{
	bool passthrough = r->flags & RULE_PASSTHROUGH;

	if (passthrough && ((r->flags & RULE_DENY) || r->protos != PROTO_HTTPS))
		return false;
	if (!passthrough && ((r->flags & RULE_DENY) || !(r->protos & PROTO_TCP)))
		return true;
	return r->methods.count == 0 && r->paths.count == 0 && r->credential == NO_CREDENTIAL &&
	       (r->flags & (RULE_HAS_FOREIGN | RULE_PLAINTEXT)) == 0 &&
	       (r->limits.count == 0 || c->im->limits[r->limits.first].requests == 0);
}

static bool check_rule(struct check *c, const struct image_rule *r)
{
	bool has_hosts = r->flags & RULE_HAS_HOSTS, any_host = r->flags & RULE_ANY_HOST;

	return (r->flags & ~RULE_FLAGS) == 0 && (has_hosts || !any_host) &&
	       (r->protos & ~(uint32_t)(PROTO_HTTPS | PROTO_HTTP | PROTO_TCP)) == 0 &&
	       r->foreign <= FOREIGN_KEEP &&
	       (r->credential == NO_CREDENTIAL || r->credential < c->im->n_credentials) &&
	       check_text(c->im, r->id) && check_text_but(c->im, r->reason, STR("\n\t")) &&
	       check_ranges(c, r->addresses) && check_ranges(c, r->resolves_to) &&
	       check_ports(c, r) && check_texts(c, SECTION_METHODS, r->methods) &&
	       check_texts(c, SECTION_PATHS, r->paths) && check_limits(c, r) &&
	       check_unopened(c, r);
}

/* ---- hosts ---- */

static bool check_refs(struct check *c, struct image_span s)
{
	const uint32_t *refs;

	if (!take(c, SECTION_REFS, s))
		return false;
	refs = c->im->refs + s.first;
	for (uint32_t i = 0; i < s.count; i++)
		if (refs[i] >= c->im->n_rules || (i > 0 && refs[i] <= refs[i - 1]))
			return false;
	return true;
}

static bool check_host(struct check *c, const struct image_host *h)
{
	uint32_t first = h->first, counts[] = { h->n_exact, h->n_one, h->n_many };

	if (!check_name(c->im, h->name))
		return false;
	for (size_t i = 0; i < 3; i++) {
		if (!check_refs(c, (struct image_span){ first, counts[i] }))
			return false;
		first += counts[i];
	}
	return true;
}

static bool check_buckets(const struct image *im)
{
	const uint32_t *b = im->buckets;
	uint32_t n = im->n_buckets;

	if (n == 0 || (n & (n - 1)) || b[0] != 0 || b[n] != count_of(im, SECTION_HOSTS))
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (b[i] > b[i + 1] || b[i + 1] - b[i] > IMAGE_BUCKET_MAX)
			return false;
	return true;
}

/* ---- credentials ---- */

/* A field name as HTTP has it (RFC 9110 5.1), lower case. */
static bool is_field_name(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] != ascii_lower(s.p[i]))
			return false;
	return str_is_token(s);
}

static bool check_pattern(const struct image *im, const struct image_pattern *p)
{
	if (p->kind == HOST_ANY)
		return p->name.count == 0 && in_bounds(p->name, count_of(im, SECTION_TEXT));
	return p->kind < HOST_ANY && check_name(im, p->name);
}

static bool check_credential(struct check *c, const struct image_credential *k)
{
	const struct image *im = c->im;

	if (!check_text(im, k->name) || !check_text(im, k->secret) || !check_text(im, k->header) ||
	    !check_text(im, k->format) || !check_text(im, k->user) ||
	    !is_field_name(image_text(im, k->header)) || k->kind > CREDENTIAL_BASIC ||
	    k->foreign > FOREIGN_KEEP || !take(c, SECTION_BOUNDS, k->bounds))
		return false;
	for (uint32_t i = 0; i < k->bounds.count; i++)
		if (!check_pattern(im, &im->bounds[k->bounds.first + i]))
			return false;
	return true;
}

/* ---- the whole ---- */

static bool check_items(struct check *c)
{
	const struct image *im = c->im;

	if (!check_text(im, im->header->file) || !check_buckets(im) ||
	    count_of(im, SECTION_LIMITS) > POLICY_LIMITED_MAX)
		return false;
	for (uint32_t i = 0; i < im->n_credentials; i++)
		if (!check_credential(c, &im->credentials[i]))
			return false;
	for (uint32_t i = 0; i < im->n_rules; i++)
		if (!check_rule(c, &im->rules[i]))
			return false;
	for (uint32_t i = 0; i < count_of(im, SECTION_HOSTS); i++)
		if (!check_host(c, &im->hosts[i]))
			return false;
	return check_refs(c, im->header->anywhere) && check_refs(c, im->header->literal);
}

enum err image_open(const void *block, size_t n, struct image *out)
{
	static const enum image_section owned[] = {
		SECTION_REFS, SECTION_RANGES, SECTION_PORTS,
		SECTION_METHODS, SECTION_PATHS, SECTION_BOUNDS, SECTION_LIMITS,
	};
	struct image im;
	struct check c = { .im = &im };

	if (n < sizeof(struct image_header) || !check_header(block, n))
		return ERR_SYNTAX;
	set_pointers(&im, block);
	if (!check_items(&c))
		return ERR_SYNTAX;
	for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++)
		if (c.mark[owned[i]] != count_of(&im, owned[i]))
			return ERR_SYNTAX;
	*out = im;
	return OK;
}

/* ---- mapping a stack ---- */

/* All that are mapped in this process: whoever maps one of them again holds that one. Its memfd
 * cannot change, nor its number be another's, while it is mapped. */
static struct policy *mapped;

static bool identify(const int *memfds, size_t n, struct image_id *out)
{
	struct stat st;

	for (size_t i = 0; i < n; i++) {
		if (fstat(memfds[i], &st) < 0)
			return false;
		out[i] = (struct image_id){ st.st_dev, st.st_ino };
	}
	return true;
}

static struct policy *find_mapped(const struct image_id *ids, size_t n)
{
	for (struct policy *p = mapped; p; p = p->next) {
		size_t i = 0;

		while (p->n == n && i < n && p->ids[i].device == ids[i].device &&
		       p->ids[i].file == ids[i].file)
			i++;
		if (i == n)
			return p;
	}
	return NULL;
}

static void forget_mapped(const struct policy *p)
{
	struct policy **at = &mapped;

	while (*at && *at != p)
		at = &(*at)->next;
	if (*at)
		*at = p->next;
}

static enum err map_one(int memfd, struct image *out, uint8_t digest[DIGEST_BYTES])
{
	struct stat st;
	int seals = fcntl(memfd, F_GET_SEALS);
	void *block;
	enum err e;

	/* A descriptor that is no memfd has no seals at all. */
	if (seals < 0 || (seals & POLICY_SEALS) != POLICY_SEALS)
		return ERR_SYNTAX;
	if (fstat(memfd, &st) < 0)
		return ERR_SYSTEM;
	if (st.st_size < (off_t)sizeof(struct image_header) || st.st_size > POLICY_IMAGE_MAX)
		return ERR_SYNTAX;
	/* Private: kernels before 6.7 refuse a shared map of what is sealed against writing. */
	block = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, memfd, 0);
	if (block == MAP_FAILED)
		return ERR_SYSTEM;
	e = image_open(block, (size_t)st.st_size, out);
	if (e == OK && !digest_sha256(block, (size_t)st.st_size, digest))
		e = ERR_CRYPTO;
	if (e != OK)
		munmap(block, (size_t)st.st_size);
	return e;
}

static enum err map_stack(const int *memfds, size_t n, struct policy *p)
{
	uint8_t digests[POLICY_STACK_MAX][DIGEST_BYTES], all[DIGEST_BYTES];
	enum err e = OK;

	for (; p->n < n && e == OK; p->n += e == OK)
		e = map_one(memfds[p->n], &p->images[p->n], digests[p->n]);
	if (e == OK && !digest_sha256(digests, n * DIGEST_BYTES, all))
		e = ERR_CRYPTO;
	if (e == OK)
		hex_text(all, DIGEST_BYTES, p->digest);
	return e;
}

enum err policy_map(const int *memfds, size_t n, struct policy **out)
{
	struct image_id ids[POLICY_STACK_MAX];
	struct policy *p;
	enum err e;

	if (n == 0 || n > POLICY_STACK_MAX)
		return ERR_LIMIT;
	if (!identify(memfds, n, ids))
		return ERR_SYSTEM;
	*out = policy_hold(find_mapped(ids, n));
	if (*out)
		return OK;
	p = calloc(1, sizeof(*p));
	if (!p)
		return ERR_NOMEM;
	p->holders = 1;
	e = map_stack(memfds, n, p);
	if (e != OK) {
		policy_free(p);
		return e;
	}
	memcpy(p->ids, ids, n * sizeof(*ids));
	p->next = mapped;
	mapped = p;
	*out = p;
	return OK;
}

struct policy *policy_hold(struct policy *p)
{
	if (p)
		p->holders++;
	return p;
}

void policy_free(struct policy *p)
{
	if (!p || --p->holders > 0)
		return;
	forget_mapped(p);
	for (size_t i = 0; i < p->n; i++)
		munmap((void *)(uintptr_t)p->images[i].header, p->images[i].header->length);
	free(p);
}

/* ---- what is in it ---- */

struct str policy_digest(const struct policy *p)
{
	return str_n(p->digest, POLICY_DIGEST_HEX);
}

bool policy_explains(const struct policy *p)
{
	return p->images[0].header->explain;
}

size_t policy_images(const struct policy *p)
{
	return p->n;
}

uint32_t policy_rules(const struct policy *p, uint16_t image)
{
	return image < p->n ? p->images[image].n_rules : 0;
}

static struct rule_limits limits_of(const struct image *im, const struct image_rule *r)
{
	const struct image_limits *k = im->limits + r->limits.first;

	if (r->limits.count == 0)
		return (struct rule_limits){ 0 };
	return (struct rule_limits){ .requests = k->requests, .per_s = k->per_s,
				     .concurrent = k->concurrent,
				     .upload = k->upload, .download = k->download,
				     .idle_s = k->idle_s, .total_s = k->total_s };
}

struct rule_info policy_rule(const struct policy *p, struct rule_ref ref)
{
	const struct image *im = &p->images[ref.image < p->n ? ref.image : 0];
	const struct image_rule *r;

	if (ref.image >= p->n || ref.rule >= im->n_rules)
		return (struct rule_info){ .id = STR("default"), .deny = true,
					   .file = image_text(im, im->header->file),
					   .credential = NO_CREDENTIAL };
	r = &im->rules[ref.rule];
	return (struct rule_info){ .id = image_text(im, r->id),
				   .reason = image_text(im, r->reason),
				   .file = image_text(im, im->header->file),
				   .line = r->line,
				   .deny = r->flags & RULE_DENY,
				   .credential = r->credential,
				   .foreign = (enum foreign)r->foreign,
				   .has_foreign = r->flags & RULE_HAS_FOREIGN,
				   .plaintext = r->flags & RULE_PLAINTEXT,
				   .passthrough = r->flags & RULE_PASSTHROUGH,
				   .limits = limits_of(im, r) };
}

uint32_t policy_credentials(const struct policy *p, uint16_t image)
{
	return image < p->n ? p->images[image].n_credentials : 0;
}

struct credential_info policy_credential(const struct policy *p, uint16_t image, uint32_t index)
{
	const struct image *im;
	const struct image_credential *k;

	if (image >= p->n || index >= p->images[image].n_credentials)
		return (struct credential_info){ .foreign = FOREIGN_REFUSE };
	im = &p->images[image];
	k = &im->credentials[index];
	return (struct credential_info){ .name = image_text(im, k->name),
					 .secret = image_text(im, k->secret),
					 .kind = (enum credential_kind)k->kind,
					 .header = image_text(im, k->header),
					 .format = image_text(im, k->format),
					 .user = image_text(im, k->user),
					 .foreign = (enum foreign)k->foreign };
}

bool policy_credential_bound(const struct policy *p, uint16_t image, uint32_t index,
			     struct str host)
{
	const struct image *im;
	struct image_span bounds;

	if (image >= p->n || index >= p->images[image].n_credentials || host.n == 0)
		return false;
	im = &p->images[image];
	bounds = im->credentials[index].bounds;
	for (uint32_t i = bounds.first; i < bounds.first + bounds.count; i++)
		if (host_matches((enum host_kind)im->bounds[i].kind,
				 image_text(im, im->bounds[i].name), host))
			return true;
	return false;
}
