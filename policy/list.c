#include "policy/list.h"

#include <stdlib.h>

#include "conf/sort.h"
#include "policy/hosts.h"

struct kept_host {
	struct str name;
	enum host_kind kind;
};

struct rule_hosts {
	uint32_t total, kept, room;
	struct kept_host *v;
};

struct image_list {
	struct rule_hosts *rules;
	struct kept_host *hosts;
};

struct policy_list {
	const struct policy *p;
	struct image_list images[POLICY_STACK_MAX];
};

/* ---- the host table, turned round ---- */

typedef void host_fn(struct rule_hosts *of, struct kept_host host);

static void count_host(struct rule_hosts *of, struct kept_host host)
{
	(void)host;
	of->total++;
}

static void keep_host(struct rule_hosts *of, struct kept_host host)
{
	if (of->kept < of->room)
		of->v[of->kept++] = host;
}

static void each_host(const struct image *im, struct rule_hosts *rules, host_fn *fn)
{
	uint32_t n_hosts = im->header->sections[SECTION_HOSTS].count;

	for (uint32_t i = 0; i < n_hosts; i++) {
		const struct image_host *h = &im->hosts[i];
		const uint32_t n[] = { h->n_exact, h->n_one, h->n_many };
		const uint32_t *ref = im->refs + h->first;

		for (enum host_kind kind = HOST_EXACT; kind <= HOST_MANY; kind++)
			for (uint32_t k = 0; k < n[kind]; k++)
				fn(&rules[*ref++],
				   (struct kept_host){ image_text(im, h->name), kind });
	}
}

static int by_name(const void *a, const void *b)
{
	const struct kept_host *x = a, *y = b;
	size_t n = x->name.n < y->name.n ? x->name.n : y->name.n;
	int order = memcmp(x->name.p, y->name.p, n);

	if (order)
		return order;
	if (x->name.n != y->name.n)
		return x->name.n < y->name.n ? -1 : 1;
	return (int)x->kind - (int)y->kind;
}

static void give_room(struct rule_hosts *r, uint32_t *left)
{
	r->room = r->total < LIST_HOSTS_A_RULE ? r->total : LIST_HOSTS_A_RULE;
	if (r->room > *left)
		r->room = *left;
	*left -= r->room;
}

static bool list_image(const struct image *im, struct image_list *out, uint32_t *left)
{
	uint32_t before = *left, at = 0;

	out->rules = calloc(im->n_rules ? im->n_rules : 1, sizeof(*out->rules));
	if (!out->rules)
		return false;
	each_host(im, out->rules, count_host);
	for (uint32_t i = 0; i < im->n_rules; i++)
		give_room(&out->rules[i], left);
	out->hosts = calloc(before - *left + 1, sizeof(*out->hosts));
	if (!out->hosts)
		return false;
	for (uint32_t i = 0; i < im->n_rules; i++) {
		out->rules[i].v = out->hosts + at;
		at += out->rules[i].room;
	}
	each_host(im, out->rules, keep_host);
	for (uint32_t i = 0; i < im->n_rules; i++)
		sort_items(out->rules[i].v, out->rules[i].kept, sizeof(*out->hosts), by_name);
	return true;
}

struct policy_list *policy_list_new(const struct policy *p)
{
	struct policy_list *l = calloc(1, sizeof(*l));
	uint32_t left = LIST_HOSTS_MAX;

	if (!l)
		return NULL;
	l->p = p;
	for (size_t i = 0; i < p->n; i++) {
		if (!list_image(&p->images[i], &l->images[i], &left)) {
			policy_list_free(l);
			return NULL;
		}
	}
	return l;
}

void policy_list_free(struct policy_list *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < POLICY_STACK_MAX; i++) {
		free(l->images[i].rules);
		free(l->images[i].hosts);
	}
	free(l);
}

/* ---- items ---- */

/* NULL: there is no such rule. */
static const struct image_rule *rule_at(const struct policy_list *l, struct rule_ref ref)
{
	if (ref.rule >= policy_rules(l->p, ref.image))
		return NULL;
	return &l->p->images[ref.image].rules[ref.rule];
}

static size_t count_protocols(uint32_t protos)
{
	size_t n = 0;

	for (; protos; protos &= protos - 1)
		n++;
	return n;
}

static size_t count(const struct policy_list *l, struct rule_ref ref, enum listed what, bool kept)
{
	const struct image_rule *r = rule_at(l, ref);
	const struct rule_hosts *hosts;

	if (!r)
		return 0;
	hosts = &l->images[ref.image].rules[ref.rule];
	switch (what) {
	case LISTED_HOSTS:
		return (kept ? hosts->kept : hosts->total) + (r->flags & RULE_ANY_HOST ? 1 : 0);
	case LISTED_ADDRESSES:
		return r->addresses.count;
	case LISTED_PORTS:
		return r->ports.count;
	case LISTED_PROTOCOLS:
		return count_protocols(r->protos);
	case LISTED_METHODS:
		return r->methods.count;
	case LISTED_PATHS:
		return r->paths.count;
	case LISTED_KINDS:
		break;
	}
	return 0;
}

size_t policy_list_count(const struct policy_list *l, struct rule_ref ref, enum listed what)
{
	return count(l, ref, what, false);
}

size_t policy_list_kept(const struct policy_list *l, struct rule_ref ref, enum listed what)
{
	return count(l, ref, what, true);
}

/* "**" comes first: all others are covered by it. */
static void put_host(const struct rule_hosts *hosts, bool any, size_t i, struct buf *out)
{
	static const char *const stars[] = { "", "*.", "**." };
	const struct kept_host *h;

	if (any && i == 0) {
		buf_put_str(out, STR("**"));
		return;
	}
	h = &hosts->v[i - any];
	buf_put_str(out, str_of(stars[h->kind]));
	buf_put_str(out, h->name);
}

static void put_range(const struct addr_range *r, struct buf *out)
{
	char text[ADDR_TEXT_MAX];

	buf_put_str(out, str_of(addr_format(&r->net, text)));
	if (r->bits < 8 * addr_len(&r->net))
		buf_printf(out, "/%u", r->bits);
}

static void put_ports(const struct image_ports *p, struct buf *out)
{
	buf_printf(out, "%u", p->first);
	if (p->last != p->first)
		buf_printf(out, "-%u", p->last);
}

static void put_protocol(uint32_t protos, size_t i, struct buf *out)
{
	while (i--)
		protos &= protos - 1;
	protos &= ~protos + 1;
	buf_put_str(out, protos == PROTO_HTTPS ? STR("https") : protos == PROTO_HTTP ? STR("http")
										     : STR("tcp"));
}

void policy_list_item(const struct policy_list *l, struct rule_ref ref, enum listed what, size_t i,
		      struct buf *out)
{
	const struct image_rule *r = rule_at(l, ref);
	const struct image *im;

	if (!r || i >= policy_list_kept(l, ref, what))
		return;
	im = &l->p->images[ref.image];
	switch (what) {
	case LISTED_HOSTS:
		put_host(&l->images[ref.image].rules[ref.rule], r->flags & RULE_ANY_HOST, i, out);
		break;
	case LISTED_ADDRESSES:
		put_range(&im->ranges[r->addresses.first + i], out);
		break;
	case LISTED_PORTS:
		put_ports(&im->ports[r->ports.first + i], out);
		break;
	case LISTED_PROTOCOLS:
		put_protocol(r->protos, i, out);
		break;
	case LISTED_METHODS:
		buf_put_str(out, image_text(im, im->methods[r->methods.first + i]));
		break;
	case LISTED_PATHS:
		buf_put_str(out, image_text(im, im->paths[r->paths.first + i]));
		break;
	case LISTED_KINDS:
		break;
	}
}
