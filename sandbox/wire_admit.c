/* What the kernel's set holds for a box. The list here says what is in it, so that nothing is asked
 * of the kernel twice, and that all of it can be taken back. */
#include "sandbox/wire_state.h"

#include <errno.h>
#include <stdlib.h>

#include "conf/sort.h"

struct rules_pair wire_own_pair(const struct wire_box *b)
{
	return (struct rules_pair){ .address = b->gateway, .port = WIRE_NOTICE_PORT };
}

enum err wire_box_adopt(struct wire_box *b)
{
	b->admitted = calloc(1, sizeof(*b->admitted));
	return b->admitted ? OK : ERR_NOMEM;
}

void wire_admitted_free(struct wire_box *b)
{
	if (b->admitted) {
		free(b->admitted->pairs);
		free(b->admitted->before);
	}
	free(b->admitted);
	b->admitted = NULL;
}

static enum err withdraw(struct wire_gateway *g, const struct wire_box *b,
			 const struct rules_pair *pairs, size_t n, struct wire_error *why)
{
	enum err e = OK;

	for (size_t i = 0; i < n && e == OK; i += RULES_PORTS_MAX) {
		size_t some = n - i < RULES_PORTS_MAX ? n - i : RULES_PORTS_MAX;

		e = rules_withdraw(g->nft, b->ifname, pairs + i, some, why);
	}
	return e;
}

void wire_withdraw_all(struct wire_gateway *g, struct wire_box *b)
{
	struct wire_error ignored;

	if (!b->admitted)
		return;
	(void)!withdraw(g, b, b->admitted->pairs, b->admitted->n, &ignored);
	(void)!withdraw(g, b, b->admitted->before, b->admitted->n_before, &ignored);
}

static enum err remember(struct wire_admitted *a, size_t n)
{
	struct rules_pair *p;
	size_t cap = a->cap;

	if (n > WIRE_ADMIT_MAX - a->n)
		return ERR_FULL;
	while (cap < a->n + n)
		cap = cap ? 2 * cap : 64;
	if (cap == a->cap)
		return OK;
	p = realloc(a->pairs, cap * sizeof(*p));
	if (!p)
		return ERR_NOMEM;
	a->pairs = p;
	a->cap = cap;
	return OK;
}

static bool is_admitted(const struct wire_admitted *a, uint32_t address, uint16_t port)
{
	for (size_t i = 0; i < a->n; i++)
		if (a->pairs[i].address == address && a->pairs[i].port == port)
			return true;
	return false;
}

static int compare(const void *a, const void *b)
{
	const struct rules_pair *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return (x->port > y->port) - (x->port < y->port);
}

static bool was_admitted(const struct wire_admitted *a, const struct rules_pair *p)
{
	return a->before && bsearch(p, a->before, a->n_before, sizeof(*p), compare);
}

/* Puts what is new of it at the end of the list, first what the kernel does not have yet: so many
 * are returned. */
static size_t list(const struct wire_box *b, uint32_t address, const uint16_t *ports, size_t n)
{
	const struct rules_pair own = wire_own_pair(b);
	struct wire_admitted *a = b->admitted;
	size_t unknown = a->n;

	for (size_t i = 0; i < n; i++) {
		struct rules_pair p = { .address = address, .port = ports[i] };

		if (is_admitted(a, address, ports[i]) || compare(&p, &own) == 0)
			continue;
		a->pairs[a->n++] = p;
		if (!was_admitted(a, &p)) {
			a->pairs[a->n - 1] = a->pairs[unknown];
			a->pairs[unknown++] = p;
		}
	}
	return unknown;
}

enum err wire_admit(struct wire_gateway *g, const struct wire_box *b, uint32_t address,
		    const uint16_t *ports, size_t n, struct wire_error *why)
{
	struct wire_admitted *a = b->admitted;
	size_t before = a->n, unknown;
	enum err e;

	*why = (struct wire_error){ .what = "admitted addresses", .code = ENOSPC };
	if (n > RULES_PORTS_MAX)
		return ERR_LIMIT;
	e = remember(a, n);
	if (e != OK)
		return e;
	unknown = list(b, address, ports, n);
	if (unknown == before)
		return OK;
	e = rules_admit(g->nft, b->ifname, a->pairs + before, unknown - before, why);
	if (e != OK)
		a->n = before;
	return e;
}

void wire_admit_anew(struct wire_box *b)
{
	struct wire_admitted *a = b->admitted;

	free(a->before);
	a->before = a->pairs;
	a->n_before = a->n;
	a->pairs = NULL;
	a->n = a->cap = 0;
	if (a->n_before)
		sort_items(a->before, a->n_before, sizeof(*a->before), compare);
}

enum err wire_admit_done(struct wire_gateway *g, struct wire_box *b, struct wire_error *why)
{
	struct wire_admitted *a = b->admitted;
	size_t gone = 0;
	enum err e;

	if (a->n)
		sort_items(a->pairs, a->n, sizeof(*a->pairs), compare);
	for (size_t i = 0; i < a->n_before; i++)
		if (!a->n || !bsearch(&a->before[i], a->pairs, a->n, sizeof(*a->pairs), compare))
			a->before[gone++] = a->before[i];
	e = withdraw(g, b, a->before, gone, why);
	free(a->before);
	a->before = NULL;
	a->n_before = 0;
	return e;
}
