/* proxy/log_verify.h - is an audit log whole and unchanged?
 *
 * Every line must be a JSON object that begins with seq, prev, time and kind; numbers run from 1
 * without a gap, prev is the hash of the line before, times are RFC 3339 UTC with microseconds.
 *
 * A chain holds every line but its last one: that the end was cut off or the last line changed
 * shows only against a hash that was noted elsewhere (@must_have).
 *
 * Ownership   borrows the descriptor. The verdict's texts are its own.
 * Blocking    reads the file; waits for the lock that a writer holds while it writes.
 * Failure     ERR_SYNTAX: line @bad_line is wrong, @why says what. ERR_NOTFOUND: no line has the
 *             hash @must_have. ERR_SYSTEM with errno.
 * Tests       tests/unit/proxy/test_log_verify.c
 */
#ifndef PROXY_LOG_VERIFY_H
#define PROXY_LOG_VERIFY_H

#include "conf/err.h"
#include "conf/str.h"
#include "proxy/log_write.h"

struct log_verdict {
	uint64_t lines;		/* that are right */
	char last_hash[LOG_HASH_HEX + 1];	/* of the last of them; zeros where there is none */
	uint64_t bad_line;
	char why[160];
};

/* @must_have: the hash of some line, or NULL. */
must_use enum err log_verify(int fd, const char *must_have, struct log_verdict *v);
/* "2026-01-31T12:00:00.000001Z", a day that exists, nothing else. */
bool log_time_valid(struct str text);

#endif
