/* proxy/log_write.h - appends lines to the audit log's file and keeps the chain of their hashes
 *
 * A line is a JSON object without a newline in it; its first members are seq, prev (SHA-256 of the
 * line before, in hex, without its newline; 64 zeros in a file's first line), time, kind and, where
 * there is one, sandbox.
 *
 * Lines are written in batches: log_batch_begin(), log_batch_line() for each, log_batch_end().
 * The file is locked from begin to end or drop, so that several writers share one chain.
 *
 * Ownership   log_file_open() takes the descriptor over, also when it fails; log_file_close().
 * Blocking    file reads and writes; never for the lock: ERR_AGAIN while another writer holds it.
 * Failure     ERR_SYSTEM with errno: the file could not be read or written, and no line of the
 *             batch is in it. ERR_SYNTAX: the file's last line is no line of an audit log.
 *             ERR_FULL: the batch takes no more lines, end it first. ERR_LIMIT: this line is too
 *             long. After any other failure of log_batch_line() the batch can only be dropped.
 * Limits      LOG_LINE_MAX bytes a line, LOG_BATCH_MAX bytes a batch.
 * Tests       tests/unit/proxy/test_log_write.c
 */
#ifndef PROXY_LOG_WRITE_H
#define PROXY_LOG_WRITE_H

#include "conf/err.h"
#include "conf/str.h"

#define LOG_LINE_MAX (128u << 10)
#define LOG_BATCH_MAX (1u << 20)
#define LOG_HASH_HEX 64

struct json;
struct log_file;

struct log_line {
	uint64_t time_us;	/* since 1970-01-01T00:00:00Z */
	const char *kind;
	struct str sandbox;	/* empty: left out */
	/* Appends the other members to the open object. */
	void (*fields)(void *arg, struct json *json);
	void *arg;
};

/* @fd: opened for reading and appending. */
must_use enum err log_file_open(int fd, struct log_file **out);
void log_file_close(struct log_file *l);
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

#endif
