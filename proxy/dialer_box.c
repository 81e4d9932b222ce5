#include "proxy/dialer_box.h"

#include <stdlib.h>

#include "policy/ranges.h"

/* ---- addresses ---- */

bool dialer_ranges_parse(struct dialer_ranges *out, const struct str_list *own)
{
	if (own->n > DIALER_OWN_MAX)
		return false;
	out->n_own = 0;
	for (size_t i = 0; i < own->n; i++)
		if (!addr_range_parse(own->v[i], &out->own[out->n_own++]))
			return false;
	return true;
}

static bool is_own(const struct dialer_ranges *ranges, const struct addr *a)
{
	for (size_t i = 0; i < ranges->n_own; i++)
		if (addr_in_range(a, &ranges->own[i]))
			return true;
	return false;
}

static const char *name_objection(const struct dialer_ranges *ranges, const struct policy *p,
				  const struct facts *f, const struct addr *a)
{
	const char *range = range_prohibited(a);

	if (range)
		return policy_resolve_ok(p, f, a) ? NULL : range;
	return is_own(ranges, a) ? "an address of the host itself" : NULL;
}

const char *dialer_objection(const struct dialer_ranges *ranges, const struct policy *p,
			     const struct facts *f, const struct addr *a)
{
	struct facts with_addr = *f;

	with_addr.addr = *a;
	if (policy_decide(p, &with_addr).verdict == VERDICT_DENY)
		return "denied by policy";
	if (f->literal)
		return is_own(ranges, a) ? "an address of the host itself" : NULL;
	return name_objection(ranges, p, f, a);
}

/* ---- tickets ---- */

/* Linear probing over twice the room that is needed; removal closes the gap it leaves. */
#define TICKET_SLOTS (2u * DIALER_TICKETS_MAX)
#define TICKET_SLOTS_FIRST 64u

bool dialer_tickets_init(struct dialer_tickets *t)
{
	t->n = 0;
	t->size = TICKET_SLOTS_FIRST;
	t->slots = calloc(t->size, sizeof(*t->slots));
	return t->slots != NULL;
}

void dialer_tickets_free(struct dialer_tickets *t)
{
	free(t->slots);
	t->slots = NULL;
}

static size_t slot_of(const struct dialer_tickets *t, uint64_t ticket)
{
	size_t i = ticket & (t->size - 1);

	while (t->slots[i] && t->slots[i] != ticket)
		i = (i + 1) & (t->size - 1);
	return i;
}

static bool grow(struct dialer_tickets *t)
{
	struct dialer_tickets bigger = { .size = 2 * t->size, .n = t->n };

	if (t->size >= TICKET_SLOTS)
		return false;
	bigger.slots = calloc(bigger.size, sizeof(*bigger.slots));
	if (!bigger.slots)
		return false;
	for (size_t i = 0; i < t->size; i++)
		if (t->slots[i])
			bigger.slots[slot_of(&bigger, t->slots[i])] = t->slots[i];
	free(t->slots);
	*t = bigger;
	return true;
}

bool dialer_tickets_add(struct dialer_tickets *t, uint64_t ticket)
{
	size_t i;

	if (ticket == 0 || t->n >= DIALER_TICKETS_MAX || (2 * (t->n + 1) > t->size && !grow(t)))
		return false;
	i = slot_of(t, ticket);
	if (t->slots[i])
		return false;
	t->slots[i] = ticket;
	t->n++;
	return true;
}

bool dialer_tickets_remove(struct dialer_tickets *t, uint64_t ticket)
{
	size_t gap, i;

	if (ticket == 0)
		return false;
	gap = slot_of(t, ticket);
	if (!t->slots[gap])
		return false;
	t->slots[gap] = 0;
	t->n--;
	for (i = (gap + 1) & (t->size - 1); t->slots[i]; i = (i + 1) & (t->size - 1)) {
		uint64_t moved = t->slots[i];

		t->slots[i] = 0;
		t->slots[slot_of(t, moved)] = moved;
	}
	return true;
}
