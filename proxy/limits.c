/* Theory of operation
 *
 * A bucket is kept as what was taken out of it and has not come back. In units of a request's share
 * of time there are no fractions: a request takes @per_ms units, each millisecond gives @requests
 * back, and a request may pass while what is missing and it itself fit into @requests times
 * @per_ms.
 *
 * First all rules are asked, then all are counted: who is refused by one has cost the others
 * nothing. Room in the table is made before the first is looked for: what has been found stays.
 */
#include "proxy/limits.h"

#include <stdlib.h>

#define LIMITS_BUCKETS 256u

struct limit_count {
	struct limit_count *next;
	char *id;
	size_t id_n;
	uint64_t missing;		/* of the bucket, at @at */
	uint64_t at;
	uint32_t requests, per_s;	/* as the rule said last */
	uint32_t live;
};

struct limits {
	struct limit_count *buckets[LIMITS_BUCKETS];
	size_t n;
};

/* ---- what holds ---- */

static void least(uint64_t *kept, uint64_t limit)
{
	if (limit && (!*kept || limit < *kept))
		*kept = limit;
}

static void least_s(uint32_t *kept, uint32_t limit)
{
	if (limit && (!*kept || limit < *kept))
		*kept = limit;
}

bool limits_find(const struct policy *p, const struct facts *f, struct limit_rules *out)
{
	*out = (struct limit_rules){ 0 };
	out->n = policy_limits(p, f, out->v, POLICY_LIMITS_MAX);
	if (out->n > POLICY_LIMITS_MAX)
		return false;
	for (size_t i = 0; i < out->n; i++) {
		struct rule_limits l = policy_rule(p, out->v[i]).limits;

		least(&out->least.upload, l.upload);
		least(&out->least.download, l.download);
		least_s(&out->least.idle_s, l.idle_s);
		least_s(&out->least.total_s, l.total_s);
	}
	return true;
}

/* ---- the table ---- */

static struct limit_count **bucket_of(struct limits *l, struct str id)
{
	uint32_t h = 2166136261u;	/* FNV-1a */

	for (size_t i = 0; i < id.n; i++)
		h = (h ^ (unsigned char)id.p[i]) * 16777619u;
	return &l->buckets[h % LIMITS_BUCKETS];
}

static void refill(struct limit_count *c, uint64_t now)
{
	uint64_t back = (now - c->at) * c->requests;

	c->missing = c->missing > back ? c->missing - back : 0;
	c->at = now;
}

static void drop(struct limits *l, struct limit_count **at)
{
	struct limit_count *c = *at;

	*at = c->next;
	free(c->id);
	free(c);
	l->n--;
}

static void make_room(struct limits *l, uint64_t now)
{
	for (size_t i = 0; i < LIMITS_BUCKETS; i++) {
		struct limit_count **at = &l->buckets[i];

		while (*at) {
			refill(*at, now);
			if ((*at)->live == 0 && (*at)->missing == 0)
				drop(l, at);
			else
				at = &(*at)->next;
		}
	}
}

static struct limit_count *add(struct limits *l, struct str id, uint64_t now)
{
	struct limit_count *c = calloc(1, sizeof(*c)), **list = bucket_of(l, id);

	if (c)
		c->id = malloc(id.n + 1);
	if (!c || !c->id) {
		free(c);
		return NULL;
	}
	memcpy(c->id, id.p, id.n);
	c->id_n = id.n;
	c->at = now;
	c->next = *list;
	*list = c;
	l->n++;
	return c;
}

static struct limit_count *count_of(struct limits *l, struct str id, uint64_t now)
{
	for (struct limit_count *c = *bucket_of(l, id); c; c = c->next)
		if (str_eq(str_n(c->id, c->id_n), id))
			return c;
	return l->n < LIMITS_MAX ? add(l, id, now) : NULL;
}

/* ---- asking ---- */

/* Milliseconds until the next request may pass; 0: now. */
static uint64_t wait_ms(struct limit_count *c, const struct rule_limits *r, uint64_t now)
{
	uint64_t per_ms = (uint64_t)r->per_s * 1000, most = (uint64_t)(r->requests - 1) * per_ms;

	/* Under a rule that says something else now the bucket is full, or quite empty. */
	if (c->requests != r->requests || c->per_s != r->per_s) {
		c->requests = r->requests;
		c->per_s = r->per_s;
		if (c->missing > most + per_ms)
			c->missing = most + per_ms;
	}
	refill(c, now);
	return c->missing > most ? (c->missing - most + r->requests - 1) / r->requests : 0;
}

static bool lets_through(struct limit_count *c, const struct rule_info *rule, uint64_t now,
			 struct limit_no *no)
{
	const struct rule_limits *r = &rule->limits;
	uint64_t wait;

	*no = (struct limit_no){ .rule = rule->id };
	if (!c)
		return false;
	wait = r->requests ? wait_ms(c, r, now) : 0;
	if (wait) {
		no->requests = r->requests;
		no->per_s = r->per_s;
		no->wait_s = (uint32_t)((wait + 999) / 1000);
		return false;
	}
	if (r->concurrent && c->live >= r->concurrent) {
		no->concurrent = r->concurrent;
		return false;
	}
	return true;
}

static void take(struct limit_count *c, const struct rule_limits *r)
{
	if (r->requests)
		c->missing += (uint64_t)r->per_s * 1000;
	c->live++;
}

bool limits_take(struct limits *l, const struct policy *p, const struct rule_ref *rules, size_t n,
		 uint64_t now, struct limit_holds *holds, struct limit_no *no)
{
	struct rule_info info[POLICY_LIMITS_MAX];

	holds->n = 0;
	if (l->n + n > LIMITS_MAX)
		make_room(l, now);
	for (size_t i = 0; i < n && i < POLICY_LIMITS_MAX; i++) {
		info[i] = policy_rule(p, rules[i]);
		holds->v[i] = count_of(l, info[i].id, now);
		if (!lets_through(holds->v[i], &info[i], now, no))
			return false;
	}
	for (; holds->n < n && holds->n < POLICY_LIMITS_MAX; holds->n++)
		take(holds->v[holds->n], &info[holds->n].limits);
	return true;
}

void limits_give_back(struct limit_holds *holds)
{
	for (size_t i = 0; i < holds->n; i++)
		holds->v[i]->live--;
	holds->n = 0;
}

void limits_undo(struct limit_holds *holds)
{
	for (size_t i = 0; i < holds->n; i++) {
		struct limit_count *c = holds->v[i];
		uint64_t one = c->requests ? (uint64_t)c->per_s * 1000 : 0;

		c->missing -= one < c->missing ? one : c->missing;
	}
	limits_give_back(holds);
}

/* ---- life ---- */

struct limits *limits_new(void)
{
	return calloc(1, sizeof(struct limits));
}

void limits_free(struct limits *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < LIMITS_BUCKETS; i++)
		while (l->buckets[i])
			drop(l, &l->buckets[i]);
	free(l);
}
