#include "proxy/resolver.h"

#include <stdlib.h>

#include "proxy/clock.h"
#include "proxy/resolver_query.h"

#define BUCKETS 512

struct resolver_wait {
	struct resolver_wait *next, **prev;
	resolver_fn *fn;
	void *arg;
};

/* A name that is being asked for, and who waits for it. */
struct underway {
	struct resolver *resolver;
	struct underway *next, **prev;
	struct name name;
	struct resolver_wait *first;
};

/* A name that the operator answers. */
struct fixed {
	struct name name;
	struct resolver_answer answer;
};

struct resolver {
	struct resolver_net *net;
	struct resolver_cache *cache;
	struct fixed *fixed;
	size_t n_fixed;
	struct underway *buckets[BUCKETS];
	size_t n_underway;
};

/* ---- the operator's names: "name=ADDR,ADDR" ---- */

static bool parse_fixed(struct str line, struct fixed *f)
{
	struct str addrs = line, name = str_cut(&addrs, '=');

	if (name_canon(name, &f->name) != NAME_OK || addrs.n == 0)
		return false;
	f->answer = (struct resolver_answer){ .status = RESOLVE_OK, .ttl = RESOLVER_NAMES_TTL,
					      .server = "settings" };
	while (addrs.n) {
		struct str one = str_cut(&addrs, ',');

		if (f->answer.n == RESOLVER_ADDRS_MAX ||
		    !addr_parse(one, &f->answer.addrs[f->answer.n]))
			return false;
		f->answer.n++;
	}
	return true;
}

static bool take_fixed(struct resolver *r, const struct str_list *names, const char **why)
{
	if (names->n == 0)
		return true;
	*why = "out of memory";
	r->fixed = calloc(names->n, sizeof(*r->fixed));
	if (!r->fixed)
		return false;
	*why = "a name in resolver.names is malformed";
	for (size_t i = 0; i < names->n; i++)
		if (!parse_fixed(names->v[i], &r->fixed[r->n_fixed++]))
			return false;
	return true;
}

/* ---- life ---- */

struct resolver *resolver_new(struct event_base *base, const struct msg_dialer_start *start,
			      const char **why)
{
	struct resolver *r = calloc(1, sizeof(*r));

	*why = "out of memory";
	if (!r)
		return NULL;
	r->cache = resolver_cache_new(RESOLVER_CACHE_MAX);
	if (!r->cache || !take_fixed(r, &start->names, why)) {
		resolver_free(r);
		return NULL;
	}
	r->net = resolver_net_new(base, &start->servers, start->timeout_ms, why);
	if (!r->net) {
		resolver_free(r);
		return NULL;
	}
	return r;
}

static void wait_unlink(struct resolver_wait *w)
{
	*w->prev = w->next;
	if (w->next)
		w->next->prev = w->prev;
	free(w);
}

static void underway_end(struct underway *u)
{
	*u->prev = u->next;
	if (u->next)
		u->next->prev = u->prev;
	u->resolver->n_underway--;
	free(u);
}

void resolver_free(struct resolver *r)
{
	if (!r)
		return;
	resolver_net_free(r->net);
	for (size_t i = 0; i < BUCKETS; i++)
		while (r->buckets[i]) {
			while (r->buckets[i]->first)
				wait_unlink(r->buckets[i]->first);
			underway_end(r->buckets[i]);
		}
	resolver_cache_free(r->cache);
	free(r->fixed);
	free(r);
}

/* ---- asking ---- */

const struct resolver_answer *resolver_known(struct resolver *r, struct str name)
{
	for (size_t i = 0; i < r->n_fixed; i++)
		if (str_eq(name_str(&r->fixed[i].name), name))
			return &r->fixed[i].answer;
	return resolver_cache_get(r->cache, name, clock_ms());
}

static void on_answer(void *arg, const struct resolver_answer *a)
{
	struct underway *u = arg;
	struct resolver *r = u->resolver;
	struct resolver_answer told = *a;
	struct resolver_wait *w;

	resolver_cache_put(r->cache, name_str(&u->name), a, clock_ms());
	if (a->status != RESOLVE_OK)
		told.ttl = RESOLVER_NEGATIVE_TTL;
	else if (told.ttl < RESOLVER_TTL_MIN)
		told.ttl = RESOLVER_TTL_MIN;
	else if (told.ttl > RESOLVER_TTL_MAX)
		told.ttl = RESOLVER_TTL_MAX;
	/* A callback may cancel another waiter, or ask again: the list is read from its head. */
	while ((w = u->first) != NULL) {
		resolver_fn *fn = w->fn;
		void *fn_arg = w->arg;

		wait_unlink(w);
		fn(fn_arg, &told);
	}
	underway_end(u);
}

static struct underway **bucket(struct resolver *r, struct str name)
{
	uint32_t h = 2166136261u;	/* FNV-1a */

	for (size_t i = 0; i < name.n; i++)
		h = (h ^ (uint8_t)name.p[i]) * 16777619u;
	return &r->buckets[h % BUCKETS];
}

static struct underway *underway_begin(struct resolver *r, struct str name)
{
	struct underway **at = bucket(r, name), *u;

	if (r->n_underway >= RESOLVER_UNDERWAY_MAX || name.n > NAME_MAX_LEN)
		return NULL;
	u = calloc(1, sizeof(*u));
	if (!u)
		return NULL;
	u->resolver = r;
	u->name.n = (uint8_t)name.n;
	memcpy(u->name.s, name.p, name.n);
	if (resolver_net_ask(r->net, name, on_answer, u) != OK) {
		free(u);
		return NULL;
	}
	u->next = *at;
	u->prev = at;
	if (u->next)
		u->next->prev = &u->next;
	*at = u;
	r->n_underway++;
	return u;
}

struct resolver_wait *resolver_ask(struct resolver *r, struct str name, resolver_fn *fn, void *arg)
{
	struct resolver_wait *w = calloc(1, sizeof(*w));
	struct underway *u = *bucket(r, name);

	if (!w)
		return NULL;
	while (u && !str_eq(name_str(&u->name), name))
		u = u->next;
	if (!u)
		u = underway_begin(r, name);
	if (!u) {
		free(w);
		return NULL;
	}
	w->fn = fn;
	w->arg = arg;
	w->next = u->first;
	w->prev = &u->first;
	if (w->next)
		w->next->prev = &w->next;
	u->first = w;
	return w;
}

void resolver_cancel(struct resolver_wait *w)
{
	if (w)
		wait_unlink(w);
}
