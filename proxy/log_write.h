/* proxy/log_write.h - appends lines to the audit log's file and keeps the chain of their hashes
 *
 * A line is a JSON object without a newline in it; its first members are seq, prev (SHA-256 of the
 * line before, in hex, without its newline; 64 zeros in a log's first line), time, kind and, where
 * there is one, sandbox.
 *
 * A file whose last line is of kind "rotated", or that nobody may write any more (its mode says
 * so), is to be put aside or has been: its successor is to be had, and the chain goes on there.
 *
 * Lines are written in batches: log_batch_begin(), log_batch_line() for each, log_batch_end().
 * The file is locked from begin to end or drop, so that several writers share one chain.
 *
 * Ownership   log_file_open() takes the descriptor over, also when it fails; log_file_close().
 * Blocking    file reads and writes; never for the lock: ERR_AGAIN while another writer holds it.
 * Failure     ERR_SYSTEM with errno: the file could not be read or written, and no line of the
 *             batch is in it. ERR_SYNTAX: the file's last line is no line of an audit log.
 *             ERR_CLOSED: get the file's successor, then log_file_switch().
 *             ERR_FULL: the batch takes no more lines, end it first. ERR_LIMIT: this line is too
 *             long. After any other failure of log_batch_line() the batch can only be dropped.
 * Limits      LOG_LINE_MAX bytes a line, LOG_BATCH_MAX bytes a batch.
 * Tests       tests/unit/proxy/test_log_write.c
 */
#ifndef PROXY_LOG_WRITE_H
#define PROXY_LOG_WRITE_H

#include "conf/err.h"
#include "proxy/log_line.h"

#define LOG_BATCH_MAX (1u << 20)
#define LOG_KIND_ROTATED "rotated"

struct buf;
struct json;
struct log_file;

struct log_line {
	uint64_t time_us;	/* since 1970-01-01T00:00:00Z */
	const char *kind;
	struct str sandbox;	/* empty: left out */
	/* Appends the other members to the open object. */
	void (*fields)(void *arg, struct json *json);
	void *arg;
	bool ends_file;		/* into a full batch, too: such lines are few and short */
};

/* @fd: opened for reading and appending. */
must_use enum err log_file_open(int fd, struct log_file **out);
void log_file_close(struct log_file *l);
/* From now on @fd is the file, which it takes over. */
void log_file_switch(struct log_file *l, int fd);
/* There is no successor to be had: lines go on behind the one that says "rotated", where the file's
 * mode allows it. */
void log_file_stay(struct log_file *l);
must_use enum err log_batch_begin(struct log_file *l);
must_use enum err log_batch_line(struct log_file *l, const struct log_line *line);
/* Does the batch take no more lines? */
bool log_batch_full(const struct log_file *l);
must_use enum err log_batch_end(struct log_file *l);
/* Forgets the batch's lines. */
void log_batch_drop(struct log_file *l);
must_use enum err log_sync(struct log_file *l);
/* Bytes of a line without an end that were cut off since this was last asked: a writer died. */
uint64_t log_take_torn(struct log_file *l);
/* The number of the last line. */
uint64_t log_last_seq(const struct log_file *l);
/* Of the file, and when its first line was written; as of the last batch. 0: it is empty. */
uint64_t log_size(const struct log_file *l);
uint64_t log_first_time_us(const struct log_file *l);

/* ---- for who puts files aside ---- */

/* OK: the file's last line is of kind "rotated"; it is locked until log_batch_drop(). ERR_NOTFOUND:
 * it is not. Else as log_batch_begin(). */
struct log_aside {
	uint64_t first_seq, last_us;
};
must_use enum err log_aside_begin(struct log_file *l, struct log_aside *aside);
/* Would a line with these go on where the file ends? */
bool log_is_next(const struct log_file *l, uint64_t seq, struct str prev);
/* If @l is empty, its first line goes on with the chain of @before as it was last seen. */
void log_file_continues(struct log_file *l, const struct log_file *before);

/* ---- in a batch ---- */

/* What the next line's seq and prev will be. */
struct log_place {
	uint64_t seq;
	const char *prev;
};
struct log_place log_next_place(const struct log_file *l);
/* Of the line that was put last: the first bytes of its hash, never 0. */
uint64_t log_stamp(const struct log_file *l);
/* Adds the stamps of all lines in the file's last LOG_RECALL_MAX bytes, for log_recalled(). */
#define LOG_RECALL_MAX (32u << 20)
must_use enum err log_recall(struct log_file *l, struct buf *stamps);
bool log_recalled(const struct buf *stamps, uint64_t stamp);

#endif
