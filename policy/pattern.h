/* policy/pattern.h - host patterns set against each other
 *
 * A pattern is a canonical name, "*.NAME" (exactly one label more), "**.NAME" (one label or more)
 * or "**" (any host). One name never stands for those below it: "x.test" and "eviltrusted.test" have
 * nothing in common with "*.trusted.test".
 *
 * Ownership   borrows.       Blocking  never.
 * Failure     pattern_canon() by its result; the others take canonical patterns only.
 * Tests       tests/unit/policy/test_pattern.c
 */
#ifndef POLICY_PATTERN_H
#define POLICY_PATTERN_H

#include "policy/name.h"

#define PATTERN_MAX_LEN (NAME_MAX_LEN + 3)

struct host_pattern {
	uint16_t n;
	char s[PATTERN_MAX_LEN + 1];	/* NUL after n bytes */
};

enum pattern_kind { PATTERN_EXACT, PATTERN_ONE, PATTERN_DEEP, PATTERN_ANY };

/* The canonical form of a pattern as somebody wrote it: NAME_OK, or what is wrong with the name
 * behind the stars (a star that stands elsewhere is NAME_BYTE there). */
enum name_result pattern_canon(struct str text, struct host_pattern *out);
/* @base: the name without its stars; empty for PATTERN_ANY. */
enum pattern_kind pattern_kind(struct str pattern, struct str *base);
/* Does @outer match every host that @inner matches? */
bool pattern_covers(struct str outer, struct str inner);

#endif
