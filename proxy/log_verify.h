/* proxy/log_verify.h - is an audit log whole and unchanged?
 *
 * Every line must be a JSON object that begins with seq, prev, time and kind; numbers have no gap,
 * prev is the hash of the line before, times are RFC 3339 UTC with microseconds; also from one file
 * to the next. A log begins with number 1, or with a line of kind "continued" where its older files
 * were removed. Signatures of checkpoints are checked where there are keys.
 *
 * A chain holds every line but its last one: that the end was cut off, or all of it written anew,
 * shows only against what was noted elsewhere: a hash (@must_have), or checkpoints
 * (@kept, a file of lines of that kind).
 *
 * Ownership   borrows all that is in the question. The verdict's texts are its own.
 * Blocking    reads the files; see proxy/log_files.h.
 * Failure     ERR_SYNTAX: the line that @files is at is wrong, @why says what. ERR_NOTFOUND:
 *             what was noted elsewhere is not there, @why says what. ERR_SYSTEM with errno.
 * Limits      LOG_KEPT_MAX checkpoints that were kept.
 * Tests       tests/unit/proxy/test_log_verify.c
 */
#ifndef PROXY_LOG_VERIFY_H
#define PROXY_LOG_VERIFY_H

#include "proxy/log_files.h"
#include "proxy/log_sign.h"

#define LOG_KEPT_MAX 1000000

/* Checkpoints that were kept elsewhere, in the order of their numbers. */
struct log_kept;

/* @keys may be NULL: then signatures are not checked. ERR_SYNTAX: @bad_line is no checkpoint, or
 * its signature is wrong. */
must_use enum err log_kept_open(const char *path, const struct log_keys *keys,
				struct log_kept **out, uint64_t *bad_line);
void log_kept_close(struct log_kept *k);

struct log_question {
	struct log_files *files;
	const char *must_have;		/* the hash of some line, or NULL */
	const struct log_keys *keys;	/* or NULL */
	const struct log_kept *kept;	/* or NULL */
};

struct log_verdict {
	uint64_t lines;		/* that are right */
	uint64_t first_seq, last_seq;
	char last_hash[LOG_HASH_HEX + 1];	/* of the last of them; zeros where there is none */
	uint64_t checkpoints, signatures;	/* seen, and of those checked */
	uint64_t kept_older;	/* kept checkpoints of lines before the first one */
	char why[256];
};

must_use enum err log_verify(const struct log_question *q, struct log_verdict *v);

#endif
