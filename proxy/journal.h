/* proxy/journal.h - from the roles' rings to the log's lines
 *
 * Reads all rings in turn, checks the records, stamps who wrote them, holds begins of requests
 * (record.h) and writes batches. Knows no event loop: the recorder says when.
 *
 * Ownership   journal_new() borrows the log file; journal_add() takes the descriptors over, also
 *             when it fails. journal_free() releases the rings, not the file.
 * Blocking    as proxy/log_write.h.
 * Failure     journal_batch(): ERR_AGAIN while another writer holds the file's lock; anything else:
 *             the log cannot be written (errno for ERR_SYSTEM). Nothing is lost: what was not
 *             written is still in the rings, and the rings refuse until a batch succeeds.
 * Limits      JOURNAL_RINGS_MAX rings; per ring JOURNAL_HELD_MAX begins held, and never more than
 *             half of it.
 * Tests       tests/unit/proxy/test_journal.c
 */
#ifndef PROXY_JOURNAL_H
#define PROXY_JOURNAL_H

#include "proxy/log_write.h"
#include "proxy/record.h"

#define JOURNAL_RINGS_MAX 1024
#define JOURNAL_HELD_MAX 1024
#define JOURNAL_NEVER UINT64_MAX

struct journal;

struct journal_writer {
	enum role role;
	struct str sandbox;	/* stamped on each record; empty: the record itself may say */
	struct str policy;	/* likewise */
};

must_use enum err journal_new(struct log_file *log, struct journal **out);
void journal_free(struct journal *j);
/* Returns the ring's number in *number. */
must_use enum err journal_add(struct journal *j, const struct ring_fds *fds,
			      const struct journal_writer *writer, size_t *number);
int journal_wake_fd(const struct journal *j, size_t number);
void journal_wake_seen(struct journal *j, size_t number);

/* One batch. @all: held begins are written, too. *more: call again soon. */
must_use enum err journal_batch(struct journal *j, uint64_t now_ms, bool all, bool *more);
/* Did the last batch find nothing in any ring? */
bool journal_idle(const struct journal *j);
/* ring_linger() for all rings, from the next batch on. */
void journal_linger(struct journal *j, bool linger);
/* When a held begin has to be written: as @now_ms, or JOURNAL_NEVER. */
uint64_t journal_due(const struct journal *j);
/* Makes every ring refuse until a batch succeeds. */
void journal_refuse(struct journal *j);

#endif
