#include "proxy/dialer_tickets.h"

#include <stdlib.h>

#include "conf/addr.h"

/* Linear probing over twice the room that is needed; removal closes the gap it leaves. */
#define SLOTS (2u * DIALER_TICKETS_MAX)
#define SLOTS_FIRST 64u

struct dialer_ticket {
	uint64_t number;
	uint16_t port;
	uint8_t literal, name_n;
	char addr[ADDR_PACKED];
	char name[];
};

bool dialer_tickets_init(struct dialer_tickets *t)
{
	t->n = 0;
	t->size = SLOTS_FIRST;
	t->slots = calloc(t->size, sizeof(*t->slots));
	return t->slots != NULL;
}

void dialer_tickets_free(struct dialer_tickets *t)
{
	for (size_t i = 0; t->slots && i < t->size; i++)
		free(t->slots[i]);
	free(t->slots);
	t->slots = NULL;
}

static size_t slot_of(const struct dialer_tickets *t, uint64_t number)
{
	size_t i = number & (t->size - 1);

	while (t->slots[i] && t->slots[i]->number != number)
		i = (i + 1) & (t->size - 1);
	return i;
}

static bool grow(struct dialer_tickets *t)
{
	struct dialer_tickets bigger = { .size = 2 * t->size, .n = t->n };

	if (t->size >= SLOTS)
		return false;
	bigger.slots = calloc(bigger.size, sizeof(*bigger.slots));
	if (!bigger.slots)
		return false;
	for (size_t i = 0; i < t->size; i++)
		if (t->slots[i])
			bigger.slots[slot_of(&bigger, t->slots[i]->number)] = t->slots[i];
	free(t->slots);
	*t = bigger;
	return true;
}

static struct dialer_ticket *copy(const struct msg_ticket *m)
{
	struct dialer_ticket *k;

	if (m->name.n > MSG_NAME_MAX || m->addr.n != ADDR_PACKED)
		return NULL;
	k = malloc(sizeof(*k) + m->name.n);
	if (!k)
		return NULL;
	k->number = m->ticket;
	k->port = m->port;
	k->literal = m->literal;
	k->name_n = (uint8_t)m->name.n;
	memcpy(k->addr, m->addr.p, ADDR_PACKED);
	memcpy(k->name, m->name.p, m->name.n);
	return k;
}

bool dialer_tickets_add(struct dialer_tickets *t, const struct msg_ticket *m)
{
	size_t i;

	if (m->ticket == 0 || t->n >= DIALER_TICKETS_MAX || (2 * (t->n + 1) > t->size && !grow(t)))
		return false;
	i = slot_of(t, m->ticket);
	if (t->slots[i])
		return false;
	t->slots[i] = copy(m);
	if (!t->slots[i])
		return false;
	t->n++;
	return true;
}

bool dialer_tickets_remove(struct dialer_tickets *t, uint64_t ticket)
{
	size_t gap = slot_of(t, ticket), i;

	if (!t->slots[gap])
		return false;
	free(t->slots[gap]);
	t->slots[gap] = NULL;
	t->n--;
	for (i = (gap + 1) & (t->size - 1); t->slots[i]; i = (i + 1) & (t->size - 1)) {
		struct dialer_ticket *moved = t->slots[i];

		t->slots[i] = NULL;
		t->slots[slot_of(t, moved->number)] = moved;
	}
	return true;
}

bool dialer_tickets_each(const struct dialer_tickets *t, dialer_tickets_fn *fn, void *arg)
{
	for (size_t i = 0; i < t->size; i++) {
		const struct dialer_ticket *k = t->slots[i];
		struct msg_ticket m;

		if (!k)
			continue;
		m = (struct msg_ticket){ .ticket = k->number, .name = str_n(k->name, k->name_n),
					 .literal = k->literal, .port = k->port,
					 .addr = str_n(k->addr, ADDR_PACKED) };
		if (!fn(arg, &m))
			return false;
	}
	return true;
}
