/* Theory of operation
 *
 * A batch takes records from the rings in turn, TURN_RECORDS at a time, makes lines of them and
 * writes all with one write. Only then do the rings' tails move. A batch that could not be written
 * is forgotten and the rings are rewound: the records come again with the next.
 *
 * A request's begin is held: in memory to be matched with its end, and in its ring (the tail does
 * not pass it), so that a successor of this process reads it again. It becomes a line of its own
 * when its end is over RECORD_BEGIN_HOLD_MS away, when its ring is over half full, when all is
 * wanted, and at once when its slot of the table is taken. What a batch does to the table holds
 * only once the batch is written: lines of held begins are marked, and the mark is taken back when
 * it fails. A begin whose end was seen is dropped at once: a rewind gives the end again, and the
 * end says all that the begin did. The held begins of a ring are in a list, the first due first.
 *
 * No record becomes two lines, whenever this process dies. Before a batch is written, each record's
 * place in its ring is stamped with the beginning of its line's hash. A successor gets the rings as
 * they were left, and for a record that has a stamp and was there before it, looks whether a line
 * of that hash is in the file: then it is written already. The lines are looked at once, when the
 * first such record comes, and forgotten when no ring has any left. Before a file is ended nothing
 * is held, so that no tail is behind its lines.
 *
 * Checkpoints count the lines that this process has written. A checkpoint and the line that ends a
 * file fit into every batch, also a full one.
 *
 * A role that breaks its ring or the tables of record.h is not read any more: its ring refuses for
 * good, which stops its traffic, and a line of kind log_fault says why. A writer could put stamps
 * of other lines on records that it left for a successor: those, its own, would be missing.
 */
#include "proxy/journal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/journal_state.h"

/* ---- life ---- */

enum err journal_new(struct log_file *log, const struct journal_config *config,
		     struct journal **out)
{
	struct journal *j = calloc(1, sizeof(*j));

	if (!j)
		return ERR_NOMEM;
	j->log = log;
	j->config = *config;
	j->checkpoint_due = JOURNAL_NEVER;
	j->unsynced = config->synced;	/* what one before this one may have left */
	buf_init(&j->recalled, JOURNAL_RECALL_BYTES);
	*out = j;
	return OK;
}

static void source_free(struct source *s)
{
	while (!TAILQ_EMPTY(&s->held))
		journal_let_go(s, TAILQ_FIRST(&s->held));
	free(s->table);
	ring_close(s->ring);
	free(s);
}

void journal_free(struct journal *j)
{
	if (!j)
		return;
	for (size_t i = 0; i < j->n; i++)
		if (j->sources[i])
			source_free(j->sources[i]);
	buf_free(&j->recalled);
	free(j);
}

static size_t free_number(const struct journal *j)
{
	size_t i = 0;

	while (i < j->n && j->sources[i])
		i++;
	return i;
}

enum err journal_add(struct journal *j, const struct ring_fds *fds,
		     const struct journal_writer *writer, size_t *number)
{
	struct ring *ring = NULL;
	struct source *s;
	enum err e = ring_open_reader(fds, &ring);

	if (e)
		return e;
	*number = free_number(j);
	if (*number == JOURNAL_RINGS_MAX || writer->role >= ROLE_COUNT ||
	    writer->sandbox.n >= JOURNAL_STAMP_MAX || writer->policy.n >= JOURNAL_STAMP_MAX) {
		ring_close(ring);
		return *number == JOURNAL_RINGS_MAX ? ERR_FULL : ERR_LIMIT;
	}
	s = calloc(1, sizeof(*s));
	if (!s) {
		ring_close(ring);
		return ERR_NOMEM;
	}
	s->ring = ring;
	s->role = writer->role;
	TAILQ_INIT(&s->held);
	allowance_init(&s->allowance, writer->sandbox.n ? j->config.sandbox_bytes : 0, 0);
	snprintf(s->sandbox, sizeof(s->sandbox), "%.*s", STR_ARG(writer->sandbox));
	snprintf(s->policy, sizeof(s->policy), "%.*s", STR_ARG(writer->policy));
	ring_set_refusing(ring, j->refusing);
	ring_linger(ring, j->lingers);
	j->sources[*number] = s;
	if (*number == j->n)
		j->n++;
	return OK;
}

void journal_end(struct journal *j, size_t number)
{
	j->sources[number]->ending = true;
	j->sources[number]->empty = false;	/* as far as is known */
}

bool journal_ended(const struct journal *j, size_t number)
{
	const struct source *s = j->sources[number];

	return s->ending && TAILQ_EMPTY(&s->held) && (s->fault ? s->fault_told : s->empty);
}

void journal_remove(struct journal *j, size_t number)
{
	source_free(j->sources[number]);
	j->sources[number] = NULL;
	while (j->n && !j->sources[j->n - 1])
		j->n--;
}

enum err journal_policy(struct journal *j, size_t number, struct str policy)
{
	struct source *s = j->sources[number];

	if (policy.n >= JOURNAL_STAMP_MAX)
		return ERR_LIMIT;
	memcpy(s->policy_before, s->policy, sizeof(s->policy));
	snprintf(s->policy, sizeof(s->policy), "%.*s", STR_ARG(policy));
	return OK;
}

int journal_wake_fd(const struct journal *j, size_t number)
{
	return ring_wake_fd(j->sources[number]->ring);
}

void journal_wake_seen(struct journal *j, size_t number)
{
	ring_wake_seen(j->sources[number]->ring);
}

/* ---- what a batch is to do ---- */

uint64_t journal_due(const struct journal *j)
{
	uint64_t due = j->checkpoint_due;

	for (size_t i = 0; i < j->n; i++) {
		const struct held *h = j->sources[i] ? TAILQ_FIRST(&j->sources[i]->held) : NULL;

		if (h && h->due < due)
			due = h->due;
		if (j->sources[i] && j->sources[i]->over &&
		    allowance_due(&j->sources[i]->allowance) < due)
			due = allowance_due(&j->sources[i]->allowance);
	}
	return due;
}

bool journal_idle(const struct journal *j)
{
	return !j->batch.found;
}

void journal_linger(struct journal *j, bool linger)
{
	j->lingers = linger && !j->config.synced;
	for (size_t i = 0; i < j->n; i++)
		if (j->sources[i])
			ring_linger(j->sources[i]->ring, j->lingers);
}

bool journal_has_written(const struct journal *j)
{
	return j->has_written;
}

void journal_note(struct journal *j, const char *text)
{
	snprintf(j->note, sizeof(j->note), "%s", text);
}

void journal_refuse(struct journal *j)
{
	j->refusing = true;
	for (size_t i = 0; i < j->n; i++)
		if (j->sources[i])
			ring_set_refusing(j->sources[i]->ring, true);
}
