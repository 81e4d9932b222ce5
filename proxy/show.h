/* proxy/show.h - JSON from an appliance, for people: tables and lists of members
 *
 * Ownership   borrows.       Blocking  writes to a stream.
 * Failure     the stream's: the caller flushes it and asks.
 * Text        controls, marks of direction and broken UTF-8 are shown as \uXXXX (proxy/log_tail.h):
 *             a name or a reason that a box chose cannot drive the terminal.
 * Limits      SHOW_COLUMNS_MAX columns.
 * Tests       tests/unit/proxy/test_show.c
 */
#ifndef PROXY_SHOW_H
#define PROXY_SHOW_H

#include <stdio.h>

#include "conf/buf.h"

#define SHOW_COLUMNS_MAX 12

struct json_t;

enum show_as { SHOW_AS_IT_IS, SHOW_BYTES };

struct show_column {
	const char *title;
	const char *member;		/* "name", or "policy.name" */
	enum show_as as;
};

void show_text(FILE *to, struct str text);
/* A line of titles, and one for each object of an array. What is missing is "-". */
void show_table(FILE *to, const struct show_column *columns, size_t n, const struct json_t *rows);
/* A line for each that is there: title, value. A text of several lines is set in. */
void show_members(FILE *to, const struct show_column *members, size_t n,
		  const struct json_t *object);

#endif
