#include "proxy/tally.h"

#include <event2/event.h>
#include <stdlib.h>

struct row {
	struct tally_line line;
	char key[TALLY_KEY_MAX];
};

struct tally {
	struct policy *const *policy;
	tally_fn *fn;
	void *arg;
	struct event *timer;
	uint64_t suppressed;
	size_t used;
	struct row *rows[TALLY_MAX];	/* NULL: unused; most boxes need few or none */
};

static void arm(struct tally *t)
{
	const struct timeval window = { .tv_sec = TALLY_WINDOW_MS / 1000,
					.tv_usec = (TALLY_WINDOW_MS % 1000) * 1000 };

	if (!event_pending(t->timer, EV_TIMEOUT, NULL))
		event_add(t->timer, &window);
}

static void release(struct tally *t, struct row **row)
{
	policy_free((*row)->line.policy);
	free(*row);
	*row = NULL;
	t->used--;
}

/* @quiet: rows that had nothing to tell are forgotten. */
static void tell(struct tally *t, bool quiet)
{
	for (size_t i = 0; i < TALLY_MAX; i++) {
		struct row *row = t->rows[i];

		if (!row)
			continue;
		if (row->line.count == 0) {
			if (quiet)
				release(t, &t->rows[i]);
		} else if (t->fn(t->arg, &row->line, 0)) {
			row->line.count = 0;
		}
	}
	if (t->suppressed && t->fn(t->arg, NULL, t->suppressed))
		t->suppressed = 0;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct tally *t = arg;

	(void)fd;
	(void)what;
	tell(t, true);
	if (t->used || t->suppressed)
		arm(t);
}

struct tally *tally_new(struct event_base *base, struct policy *const *policy, tally_fn *fn,
			void *arg)
{
	struct tally *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->policy = policy;
	t->fn = fn;
	t->arg = arg;
	t->timer = event_new(base, -1, 0, on_timer, t);
	if (!t->timer) {
		free(t);
		return NULL;
	}
	return t;
}

void tally_free(struct tally *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < TALLY_MAX; i++)
		if (t->rows[i])
			release(t, &t->rows[i]);
	event_free(t->timer);
	free(t);
}

void tally_flush(struct tally *t)
{
	tell(t, false);
}

/* The key's row, or NULL; *@unused: a place for one, or NULL. */
static struct row **find(struct tally *t, struct str key, struct row ***unused)
{
	*unused = NULL;
	for (size_t i = 0; i < TALLY_MAX; i++) {
		struct row *row = t->rows[i];

		if (row && row->line.policy == *t->policy && str_eq(row->line.key, key))
			return &t->rows[i];
		if (!row && !*unused)
			*unused = &t->rows[i];
	}
	return NULL;
}

static struct row *make_row(struct tally *t, struct str key, struct decision decision,
			    const char id[17])
{
	struct row *row = calloc(1, sizeof(*row));

	if (!row)
		return NULL;
	memcpy(row->key, key.p, key.n);
	row->line = (struct tally_line){ .key = str_n(row->key, key.n), .decision = decision,
					 .policy = policy_hold(*t->policy) };
	memcpy(row->line.id, id, sizeof(row->line.id));
	t->used++;
	return row;
}

enum tally_result tally_note(struct tally *t, struct str key, struct decision decision,
			     const char id[17], const struct tally_line **line)
{
	struct row **room, **row = find(t, key, &room);

	arm(t);
	if (row) {
		(*row)->line.count++;
		*line = &(*row)->line;
		return TALLY_COUNTED;
	}
	if (room && key.n <= TALLY_KEY_MAX)
		*room = make_row(t, key, decision, id);
	if (!room || !*room) {
		t->suppressed++;
		return TALLY_NO_ROOM;
	}
	*line = &(*room)->line;
	return TALLY_FIRST;
}

void tally_drop(struct tally *t, struct str key)
{
	struct row **room, **row = find(t, key, &room);

	if (row)
		release(t, row);
}

void tally_retry(struct tally *t, struct str key)
{
	struct row **room, **row = find(t, key, &room);

	if (row)
		(*row)->line.count++;
}

void tally_suppress(struct tally *t, uint64_t n)
{
	t->suppressed += n;
	arm(t);
}
