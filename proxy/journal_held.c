/* Begins of requests that wait for their ends. */
#include "proxy/journal_state.h"

#include <stdlib.h>

void journal_let_go(struct source *s, struct held *h)
{
	TAILQ_REMOVE(&s->held, h, order);
	s->table[h->exchange % JOURNAL_HELD_MAX] = NULL;
	free(h);
}

bool journal_hold(struct source *s, const struct record_head *head, struct str bytes,
		 uint64_t now_ms)
{
	struct held **slot, *h;

	if (!s->table)
		s->table = calloc(JOURNAL_HELD_MAX, sizeof(struct held *));
	slot = s->table ? &s->table[head->exchange % JOURNAL_HELD_MAX] : NULL;
	if (!slot || *slot)
		return false;
	h = malloc(sizeof(*h) + bytes.n);
	if (!h)
		return false;
	*h = (struct held){ .exchange = head->exchange, .position = ring_position(s->ring),
			    .due = now_ms + RECORD_BEGIN_HOLD_MS, .n = bytes.n };
	memcpy(h->bytes, bytes.p, bytes.n);
	TAILQ_INSERT_TAIL(&s->held, h, order);
	*slot = h;
	return true;
}

void journal_end_seen(struct source *s, uint64_t exchange)
{
	struct held *h = s->table ? s->table[exchange % JOURNAL_HELD_MAX] : NULL;

	if (h && h->exchange == exchange && !h->writing)
		journal_let_go(s, h);
}

bool journal_is_hurried(const struct source *s, enum journal_want want)
{
	return want >= JOURNAL_ALL || s->ending || s->fault || ring_pressed(s->ring);
}

static enum err put_due(struct journal *j, struct source *s, uint64_t now_ms,
			enum journal_want want)
{
	bool everything = journal_is_hurried(s, want);
	struct held *h;

	TAILQ_FOREACH(h, &s->held, order) {
		enum err e;

		if (log_batch_full(j->log) || (!everything && h->due > now_ms))
			return OK;
		if (h->writing)
			continue;
		e = journal_put_record(j, s, str_n(h->bytes, h->n), h->position);
		if (e)
			return e;
		h->writing = true;
	}
	return OK;
}

enum err journal_put_due(struct journal *j, uint64_t now_ms, enum journal_want want)
{
	enum err e = OK;

	for (size_t i = 0; !e && i < j->n; i++)
		if (j->sources[i])
			e = put_due(j, j->sources[i], now_ms, want);
	return e;
}

bool journal_all_are_out(const struct journal *j)
{
	for (size_t i = 0; i < j->n; i++) {
		const struct source *s = j->sources[i];
		const struct held *last = s ? TAILQ_LAST(&s->held, held_list) : NULL;

		if (last && !last->writing)
			return false;
	}
	return true;
}
