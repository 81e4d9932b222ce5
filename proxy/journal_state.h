/* proxy/journal_state.h - what the parts of the journal share
 *
 *   journal.c		life, the rings, when there is something to do
 *   journal_held.c	begins that wait for their ends
 *   journal_lines.c	records, faults and checkpoints as lines of the batch that is being made
 *   journal_batch.c	a batch: taken, written, or forgotten
 *
 * Ownership   the journal owns its sources; a source its ring and what it holds.
 * Blocking    as proxy/log_write.h.
 * Failure     an error fails the batch that is being made: nothing of it holds then.
 * Tests       tests/unit/proxy/test_journal.c
 */
#ifndef PROXY_JOURNAL_STATE_H
#define PROXY_JOURNAL_STATE_H

#include <sys/queue.h>

#include "conf/buf.h"
#include "proxy/allowance.h"
#include "proxy/journal.h"
#include "sandbox/ring.h"

#define JOURNAL_STAMP_MAX 65
#define JOURNAL_NOTE_MAX 256
#define JOURNAL_RECALL_BYTES (LOG_RECALL_MAX / 8)	/* no line is shorter than 64 bytes */

/* A request's begin that waits for its end. */
struct held {
	TAILQ_ENTRY(held) order;
	bool writing;		/* is in the batch that is being made */
	uint64_t exchange, position, due;
	size_t n;
	char bytes[];
};

/* One ring, and who writes into it. */
struct source {
	struct ring *ring;
	enum role role;
	char sandbox[JOURNAL_STAMP_MAX];
	char policy[JOURNAL_STAMP_MAX], policy_before[JOURNAL_STAMP_MAX];
	const char *fault;	/* why it is not read any more; NULL: it is */
	bool fault_told, fault_in_batch, fault_is_new;
	struct allowance allowance;
	uint64_t taken;		/* of it, for the batch that is being made */
	bool over;		/* its allowance is used up: the rest waits */
	bool ending, empty;	/* its writer is gone; the last batch found nothing more in it */
	struct held **table;	/* by exchange; NULL until one is held */
	TAILQ_HEAD(held_list, held) held;
};

struct journal {
	struct log_file *log;
	struct journal_config config;
	struct source *sources[JOURNAL_RINGS_MAX];	/* NULL: free */
	size_t n;		/* behind the last one in use */
	size_t first;		/* whose turn is first in the next batch */
	bool refusing, lingers;
	uint64_t torn;		/* bytes cut off, not told yet */
	char note[JOURNAL_NOTE_MAX];
	bool sync_failed;
	bool unsynced;		/* lines are in the file that are perhaps not on the disk */
	bool has_written;
	uint64_t since_checkpoint, checkpoint_due;
	struct buf recalled;	/* stamps of the lines that were there */
	bool recalls;
	struct {		/* the batch that is being made */
		uint64_t lines, records, since_checkpoint;
		bool found;	/* something in a ring */
		bool checkpoint, rotated, note, torn;
	} batch;
};

/* ---- journal_held.c ---- */

/* Keeps the record that ring_next() gave last. False: not this one, not now. */
bool journal_hold(struct source *s, const struct record_head *head, struct str bytes,
		  uint64_t now_ms);
void journal_let_go(struct source *s, struct held *h);
void journal_end_seen(struct source *s, uint64_t exchange);
/* Does nothing of this ring wait any longer? */
bool journal_is_hurried(const struct source *s, enum journal_want want);
/* Lines of those that have waited long enough. */
must_use enum err journal_put_due(struct journal *j, uint64_t now_ms, enum journal_want want);
/* Nothing is held that is not in the batch. */
bool journal_all_are_out(const struct journal *j);

/* ---- journal_lines.c ---- */

/* @position: where the record stands in its ring. */
must_use enum err journal_put_record(struct journal *j, struct source *s, struct str bytes,
				     uint64_t position);
must_use enum err journal_put_faults(struct journal *j);
/* What comes behind all others: a checkpoint, and the line that ends a file. */
must_use enum err journal_put_last(struct journal *j, uint64_t now_ms, enum journal_want want);
/* Is the record that ring_next() gave last in the file already? */
must_use enum err journal_is_written(struct journal *j, const struct source *s, bool *yes);
/* Gives up what that is known by, once no ring has a record that was there before. */
void journal_forget_recalled(struct journal *j);

#endif
