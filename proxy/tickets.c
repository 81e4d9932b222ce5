#include "proxy/tickets.h"

#include <stdlib.h>

#include "conf/addr.h"
#include "conf/err.h"

#define BUCKETS 1024

struct tickets {
	struct ticket *buckets[BUCKETS];
	size_t n;
};

struct tickets *tickets_new(void)
{
	return calloc(1, sizeof(struct tickets));
}

void tickets_free(struct tickets *t)
{
	if (!t)
		return;
	tickets_clear(t);
	free(t);
}

void tickets_clear(struct tickets *t)
{
	for (size_t i = 0; i < BUCKETS; i++) {
		while (t->buckets[i]) {
			struct ticket *k = t->buckets[i];

			t->buckets[i] = k->next;
			free(k);
		}
	}
	t->n = 0;
}

/* Where the ticket with that number stands, or would. The dialer chooses numbers; the table is
 * bounded, so the worst that it can choose is one list of TICKETS_MAX. */
static struct ticket **place(struct tickets *t, uint64_t number)
{
	struct ticket **at = &t->buckets[number % BUCKETS];

	while (*at && (*at)->number != number)
		at = &(*at)->next;
	return at;
}

static bool read_ticket(const struct msg_ticket *m, struct ticket *out)
{
	struct addr asked;

	*out = (struct ticket){ .number = m->ticket, .literal = m->literal, .port = m->port };
	if (m->literal > 1 || m->port == 0 || !addr_unpack(m->addr, &out->addr))
		return false;
	if (m->literal)
		return addr_parse(m->name, &asked) && addr_eq(&asked, &out->addr);
	return name_canon(m->name, &out->host) == NAME_OK && str_eq(name_str(&out->host), m->name);
}

enum err tickets_add(struct tickets *t, const struct msg_ticket *m)
{
	struct ticket read, **at, *k;

	if (!read_ticket(m, &read))
		return ERR_SYNTAX;
	at = place(t, m->ticket);
	if (*at)
		return ERR_PROTOCOL;
	if (t->n == TICKETS_MAX)
		return ERR_FULL;
	k = malloc(sizeof(*k));
	if (!k)
		return ERR_NOMEM;
	*k = read;
	*at = k;
	t->n++;
	return OK;
}

bool tickets_end(struct tickets *t, uint64_t number)
{
	struct ticket **at = place(t, number), *k = *at;

	if (!k)
		return false;
	*at = k->next;
	free(k);
	t->n--;
	return true;
}

const struct ticket *tickets_find(const struct tickets *t, uint64_t number)
{
	const struct ticket *k = t->buckets[number % BUCKETS];

	while (k && k->number != number)
		k = k->next;
	return k;
}

size_t tickets_count(const struct tickets *t)
{
	return t->n;
}
