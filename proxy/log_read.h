/* proxy/log_read.h - reads an audit log line by line, also while it grows
 *
 * Ownership   log_reader_open() borrows the descriptor; log_reader_close() releases the rest. A
 *             line is valid until the next call.
 * Blocking    file reads.
 * Failure     ERR_AGAIN: no more lines for now. ERR_TRUNCATED: there are bytes, but not yet the
 *             line's end. Both may be asked again. ERR_LIMIT: a line over LOG_LINE_MAX.
 *             ERR_SYSTEM with errno.
 * Tests       tests/unit/proxy/test_log_read.c
 */
#ifndef PROXY_LOG_READ_H
#define PROXY_LOG_READ_H

#include "conf/err.h"
#include "conf/str.h"

struct log_reader;

must_use enum err log_reader_open(int fd, struct log_reader **out);
void log_reader_close(struct log_reader *r);
/* Nothing at or behind @end is read. */
void log_reader_stop_at(struct log_reader *r, uint64_t end);
/* Goes on so that the file's last @n lines come. */
must_use enum err log_reader_seek_last(struct log_reader *r, uint64_t n);
/* Goes on at the beginning of the file. */
void log_reader_seek_start(struct log_reader *r);
/* Without its newline. */
must_use enum err log_reader_next(struct log_reader *r, struct str *line);
/* Forgets the beginning of a line that has no end yet: it will be read again. */
void log_reader_unread(struct log_reader *r);
/* How much of the file has been read. */
uint64_t log_reader_position(const struct log_reader *r);

#endif
