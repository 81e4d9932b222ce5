/* proxy/journal.h - from the roles' rings to the log's lines
 *
 * Reads all rings in turn, checks the records, stamps who wrote them, holds begins of requests
 * (record.h), signs checkpoints and writes batches. Knows no event loop: the recorder says when.
 *
 * Ownership   journal_new() borrows the log file and the signer; journal_add() takes the
 *             descriptors over, also when it fails. journal_free() releases the rings, not the
 *             file.
 * Blocking    as proxy/log_write.h.
 * Failure     journal_batch(): ERR_AGAIN while another writer holds the file's lock; ERR_CLOSED:
 *             the file's successor is to be had; anything else: the log cannot be written (errno
 *             for ERR_SYSTEM). Nothing is lost: what was not written is still in the rings, and
 *             the rings refuse until a batch succeeds.
 * Limits      a sandbox's records are written at its rate: past it its ring is read no further, so
 *             that it waits for room there, and nobody else. JOURNAL_RINGS_MAX rings at a time;
 *             per ring JOURNAL_HELD_MAX begins held, and never more than half of it.
 * Tests       tests/unit/proxy/test_journal.c, test_journal_file.c
 */
#ifndef PROXY_JOURNAL_H
#define PROXY_JOURNAL_H

#include "proxy/log_sign.h"
#include "proxy/log_write.h"
#include "proxy/record.h"

#define JOURNAL_RINGS_MAX 1024
#define JOURNAL_HELD_MAX 1024
#define JOURNAL_CHECKPOINT_LINES 1000
#define JOURNAL_CHECKPOINT_MS 60000
#define JOURNAL_NEVER UINT64_MAX

struct journal;

struct journal_config {
	uint32_t sandbox_bytes;		/* of a sandbox's records in a second; 0: no limit */
	bool synced;			/* each batch is to be on the disk; begins are not held */
	struct log_signer *signer;	/* NULL: no checkpoints */
};

struct journal_writer {
	enum role role;
	struct str sandbox;	/* stamped on each record; empty: the record itself may say */
	struct str policy;	/* likewise; see journal_policy() */
};

must_use enum err journal_new(struct log_file *log, const struct journal_config *config,
			      struct journal **out);
void journal_free(struct journal *j);

/* Returns in *number which one it is here, until journal_remove(). Records that a reader before
 * this one has written down already are not written again. */
must_use enum err journal_add(struct journal *j, const struct ring_fds *fds,
			      const struct journal_writer *writer, size_t *number);
/* Its writer is gone: what is in it is written, begins too. */
void journal_end(struct journal *j, size_t number);
/* Is that done? */
bool journal_ended(const struct journal *j, size_t number);
void journal_remove(struct journal *j, size_t number);
/* The policy in force for a ring. Its records may name this one or the one before it, and are
 * stamped with this one where they do not. */
must_use enum err journal_policy(struct journal *j, size_t number, struct str policy);
int journal_wake_fd(const struct journal *j, size_t number);
void journal_wake_seen(struct journal *j, size_t number);

/* What a batch is for; NORMAL is implied by the others. */
enum journal_want {
	JOURNAL_NORMAL,
	JOURNAL_ALL,		/* held begins are written, too */
	JOURNAL_END,		/* and the last lines are signed */
	JOURNAL_ROTATE,		/* and the file is ended */
};
/* One batch. *more: call again soon; else what was wanted is done. */
must_use enum err journal_batch(struct journal *j, uint64_t now_ms, enum journal_want want,
				bool *more);
/* When there is something to write that no ring will wake for (a held begin, a checkpoint): as
 * @now_ms, or JOURNAL_NEVER. */
uint64_t journal_due(const struct journal *j);
/* Did the last batch find nothing in any ring? */
bool journal_idle(const struct journal *j);
/* ring_linger() for all rings, from the next batch on; never where lines are waited for
 * (config.synced). */
void journal_linger(struct journal *j, bool linger);
/* Has anything but checkpoints been written since the file was last changed? */
bool journal_has_written(const struct journal *j);
/* Puts a line of kind log_fault into the next batch; its text is copied. */
void journal_note(struct journal *j, const char *text);
/* Makes every ring refuse until a batch succeeds. */
void journal_refuse(struct journal *j);

#endif
