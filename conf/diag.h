/* conf/diag.h - what is wrong in a file that somebody wrote, told like a colleague would
 *
 *     policy.yaml:14:7: error: unknown key "alow"
 *       14 | alow:
 *          | ^~~~
 *          did you mean "allow"?
 *
 * Ownership   a struct diags borrows file name and text; messages are copied. diags_free().
 * Blocking    diags_print() writes to a stream.
 * Failure     past DIAGS_MAX further diagnostics are counted, and the last line printed says how
 *             many.
 * Text        bytes of the file that are controls or no UTF-8 are shown as \xNN: a policy cannot
 *             drive the terminal of who checks it.
 * Tests       tests/unit/conf/test_diag.c
 */
#ifndef CONF_DIAG_H
#define CONF_DIAG_H

#include <stdio.h>

#include "conf/str.h"

#define DIAGS_MAX 100

enum diag_level { DIAG_ERROR, DIAG_WARNING, DIAG_NOTE };

/* 1-based; column in bytes; len for the caret's underline (0: one). */
struct mark {
	uint32_t line, column, len;
};

struct diag {
	enum diag_level level;
	struct mark at;
	char *text;
	char *advice;	/* or NULL */
};

struct diags {
	struct str file, text;
	struct diag *items;
	size_t n, errors, warnings, dropped;
};

void diags_init(struct diags *d, struct str file, struct str text);
void diags_free(struct diags *d);
/* @advice: what to write instead, or NULL. Both texts are printed after escaping. */
void diag_add(struct diags *d, enum diag_level level, struct mark at, const char *advice,
	      const char *fmt, ...) __attribute__((format(printf, 5, 6)));
#define diag_error(d, ...) diag_add((d), DIAG_ERROR, __VA_ARGS__)
/* In order of position. */
void diags_print(const struct diags *d, FILE *to);
/* The candidate closest to @word, near enough to be a misspelling of it; or NULL. */
const char *diag_nearest(struct str word, const char *const *candidates, size_t n);

#endif
