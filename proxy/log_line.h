/* proxy/log_line.h - the head that every line of an audit log has, and its files' names
 *
 * {"seq":N,"prev":"64 hex digits","time":"...","kind":"...": always these, in this order and
 * spelling, so that they can be read without a parser of JSON.
 *
 * Ownership   texts of a head lie in the line.
 * Blocking    never.
 * Failure     false: it is no such thing.
 * Tests       tests/unit/proxy/test_log_line.c, fuzz/fuzz_log_head.c
 */
#ifndef PROXY_LOG_LINE_H
#define PROXY_LOG_LINE_H

#include "conf/date.h"
#include "conf/str.h"

#define LOG_LINE_MAX (128u << 10)
#define LOG_HASH_HEX 64
#define LOG_NAME_MAX 256

struct log_head {
	uint64_t seq;
	struct str prev;
	uint64_t time_us;	/* since 1970-01-01T00:00:00Z */
	struct str kind;
};

/* @line is without its newline. */
bool log_line_head(struct str line, struct log_head *head);

/* What a log's file is called once it is put aside: "NAME.20260131T120000Z-1" with the time of its
 * last line and the number of its first. False: too long. */
bool log_aside_name(struct str name, uint64_t last_us, uint64_t first_seq, char out[LOG_NAME_MAX]);
/* Is @entry such a name for @name? */
bool log_is_aside(struct str name, struct str entry);
/* Order of two such names of one log, as for the C library's qsort: by time, then by number. */
int log_aside_order(const char *a, const char *b);

#endif
