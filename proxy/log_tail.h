/* proxy/log_tail.h - shows an audit log's last lines to people, and what is added to it
 *
 * Columns: time, sandbox, verdict, what happened, rule. Every text is escaped: what a box
 * sent cannot drive the terminal of who reads about it.
 *
 * Ownership   borrows everything.
 * Blocking    reads the file; with @follow it waits for more and returns only on failure.
 * Failure     ERR_SYSTEM with errno (the file, or what is written to is gone), ERR_LIMIT: a line
 *             that is too long to be one.
 * Tests       tests/unit/proxy/test_log_tail.c
 */
#ifndef PROXY_LOG_TAIL_H
#define PROXY_LOG_TAIL_H

#include <stdio.h>

#include "conf/buf.h"
#include "conf/err.h"

struct log_tail {
	const char *path;
	uint64_t lines;		/* so many of the last ones */
	bool follow;		/* also across truncation and rename */
	bool json;		/* the lines as they are */
	bool colour;
	FILE *to;
};

must_use enum err log_tail(const struct log_tail *t);
/* One line for people, with its newline. */
void log_tail_line(struct str line, bool colour, struct buf *out);
/* Controls (C0, DEL, C1), marks that change the direction of text, and bytes that are no UTF-8
 * become \uXXXX: in JSON still the same text. */
void log_tail_escape(struct str text, struct buf *out);

#endif
