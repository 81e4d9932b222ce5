/* One batch: what it takes, what has failed with it, what holds once it is written. */
#include "proxy/journal_state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TURN_RECORDS 64

static void stop_reading(struct source *s, const char *why)
{
	fprintf(stderr, "exeat-recorder: %s%s%s: %s\n", role_name(s->role), s->sandbox[0] ? " of " : "",
		s->sandbox, why);
	s->fault = why;
	s->fault_is_new = true;
	ring_set_refusing(s->ring, true);
}

/* OK, ERR_AGAIN when the source has nothing more, else the batch has failed. */
static enum err take_one(struct journal *j, struct source *s, uint64_t now_ms,
			 enum journal_want want)
{
	struct record_head head;
	struct str bytes;
	bool written;
	enum err e;

	if (s->fault)
		return ERR_AGAIN;
	e = ring_next(s->ring, &bytes);
	if (e == ERR_SYNTAX)
		stop_reading(s, "its ring was broken: it is not read any more");
	else if (!e && record_check(bytes, s->role, &head) != OK)
		stop_reading(s, "it wrote a record that it may not write: it is not read any more");
	if (e || s->fault)
		return ERR_AGAIN;
	j->batch.found = true;
	if (head.ends && head.has_exchange)
		journal_end_seen(s, head.exchange);
	e = journal_is_written(j, s, &written);
	if (e || written)
		return e;
	/* The end of an old one may be in the file. */
	if (head.begins && head.has_exchange && !j->config.synced &&
	    (ring_is_old(s->ring) || !journal_is_hurried(s, want)) &&
	    journal_hold(s, &head, bytes, now_ms))
		return OK;
	return journal_put_record(j, s, bytes, ring_position(s->ring));
}

static enum err take_turn(struct journal *j, struct source *s, uint64_t now_ms,
			  enum journal_want want)
{
	for (unsigned i = 0; i < TURN_RECORDS; i++) {
		enum err e;

		s->empty = false;
		s->over = want < JOURNAL_ALL && !s->ending && !allowance_has(&s->allowance, now_ms);
		if (s->over || log_batch_full(j->log))
			return OK;
		e = take_one(j, s, now_ms, want);
		s->empty = e == ERR_AGAIN;
		if (e)
			return e == ERR_AGAIN ? OK : e;
	}
	return OK;
}

static enum err take_records(struct journal *j, uint64_t now_ms, enum journal_want want, bool *more)
{
	bool busy = true;

	while (busy) {
		busy = false;
		for (size_t i = 0; i < j->n; i++) {
			struct source *s = j->sources[(j->first + i) % j->n];
			enum err e = s ? take_turn(j, s, now_ms, want) : OK;

			if (e)
				return e;
			busy |= s && !s->empty && !s->over;
		}
		if (log_batch_full(j->log)) {
			*more = busy;
			return OK;
		}
	}
	return OK;
}

/* A file ends with a batch behind which nothing is held, whatever the rings have got meanwhile. */
static enum err make_batch(struct journal *j, uint64_t now_ms, enum journal_want want, bool *more)
{
	enum err e = want == JOURNAL_ROTATE ? journal_put_due(j, now_ms, want) : OK;

	if (!e)
		e = take_records(j, now_ms, want, more);
	if (!e)
		e = journal_put_due(j, now_ms, want);
	if (!e)
		e = journal_put_faults(j);
	if (e)
		return e;
	*more = want == JOURNAL_ROTATE ? !journal_all_are_out(j) : *more || log_batch_full(j->log);
	return journal_put_last(j, now_ms, *more ? JOURNAL_NORMAL : want);
}

/* What is written leaves the table, and the tail passes it. */
static void source_is_written(struct source *s)
{
	struct held *h = TAILQ_FIRST(&s->held);

	while (h) {
		struct held *next = TAILQ_NEXT(h, order);

		if (h->writing)
			journal_let_go(s, h);
		h = next;
	}
	h = TAILQ_FIRST(&s->held);
	s->fault_told |= s->fault_in_batch;
	ring_keep(s->ring, h ? h->position : RING_KEEP_NOTHING);
	ring_advance(s->ring);
}

static void batch_is_written(struct journal *j, uint64_t now_ms)
{
	for (size_t i = 0; i < j->n; i++)
		if (j->sources[i])
			source_is_written(j->sources[i]);
	if (j->batch.torn)
		j->torn = 0;
	if (j->batch.note)
		j->note[0] = '\0';
	j->has_written = (j->has_written || j->batch.records) && !j->batch.rotated;
	j->since_checkpoint = j->batch.since_checkpoint;
	if (!j->config.signer || j->since_checkpoint == 0)
		j->checkpoint_due = JOURNAL_NEVER;
	else if (j->checkpoint_due == JOURNAL_NEVER || j->batch.checkpoint)
		j->checkpoint_due = now_ms + JOURNAL_CHECKPOINT_MS;
	journal_forget_recalled(j);
	if (j->n)
		j->first = (j->first + 1) % j->n;
}

/* What it wrote before its fault comes again, and then the fault; begins, too, but for those
 * that an earlier batch has left behind. */
static void source_has_failed(struct source *s)
{
	struct held *h = TAILQ_FIRST(&s->held);

	if (s->fault_is_new)
		s->fault = NULL;
	allowance_give_back(&s->allowance, s->taken);
	ring_rewind(s->ring);
	while (h) {
		struct held *next = TAILQ_NEXT(h, order);

		h->writing = false;
		if (h->position >= ring_position(s->ring))
			journal_let_go(s, h);
		h = next;
	}
}

static void batch_has_failed(struct journal *j)
{
	for (size_t i = 0; i < j->n; i++)
		if (j->sources[i])
			source_has_failed(j->sources[i]);
	journal_refuse(j);
}

/* The lines are in the file; now to the disk with them, where that is wanted. */
static enum err bring_to_disk(struct journal *j)
{
	if (!j->config.synced || (!j->unsynced && j->batch.lines == 0))
		return OK;
	j->unsynced = true;
	if (log_sync(j->log) != OK) {
		int code = errno;

		if (!j->sync_failed)	/* once, not at each try */
			journal_note(j, "the disk did not take what was written: lines before this one may be "
					"lost when the machine stops");
		j->sync_failed = true;
		journal_refuse(j);
		errno = code;
		return ERR_SYSTEM;
	}
	j->unsynced = j->sync_failed = false;
	for (size_t i = 0; i < j->n; i++)
		if (j->sources[i])
			ring_set_synced(j->sources[i]->ring);
	return OK;
}

static void go_on(struct journal *j)
{
	if (!j->refusing)
		return;
	for (size_t i = 0; i < j->n; i++)
		if (j->sources[i] && !j->sources[i]->fault)
			ring_set_refusing(j->sources[i]->ring, false);
	j->refusing = false;
}

static void batch_begins(struct journal *j)
{
	memset(&j->batch, 0, sizeof(j->batch));
	j->batch.since_checkpoint = j->since_checkpoint;
	for (size_t i = 0; i < j->n; i++) {
		if (!j->sources[i])
			continue;
		j->sources[i]->fault_in_batch = j->sources[i]->fault_is_new = false;
		j->sources[i]->taken = 0;
	}
}

enum err journal_batch(struct journal *j, uint64_t now_ms, enum journal_want want, bool *more)
{
	enum err e = log_batch_begin(j->log);
	int code;

	*more = false;
	if (e == ERR_AGAIN || e == ERR_CLOSED)
		return e;
	batch_begins(j);
	if (!e)
		e = make_batch(j, now_ms, want, more);
	if (!e && j->batch.lines)
		e = log_batch_end(j->log);
	else
		log_batch_drop(j->log);
	if (e) {
		code = errno;
		batch_has_failed(j);
		errno = code;
		return e;
	}
	batch_is_written(j, now_ms);
	e = bring_to_disk(j);
	if (!e)
		go_on(j);
	return e;
}
