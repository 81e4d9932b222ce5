/* conf/schema_show.h - what a file says and what holds without it, key by key
 *
 * Every key of a table in its order, with its value as it is written in the file or as its default
 * is, and where it comes from: for people, a line each,
 *
 *     limits.idle: 1h                  # default
 *     limits.headers: 16KiB            # /etc/exeat/exeat.yaml:31
 *
 * or as JSON: {"file": FILE or null, "keys": [{"key", "value", "from": "file" or "default",
 * "line"}]}. A value is text, a list of texts, or null where nothing is written and there is no
 * default ("without" says what holds then).
 *
 * Ownership   arguments are borrowed for the call.
 * Blocking    never.
 * Failure     sticky in the buffer (buf.failed).
 * Text        what is no plain printable text is written as a JSON string is.
 * Tests       tests/unit/conf/test_schema_show.c
 */
#ifndef CONF_SCHEMA_SHOW_H
#define CONF_SCHEMA_SHOW_H

#include "conf/buf.h"
#include "conf/schema.h"

/* @map: a file that has been read by @rows without an error, or NULL: defaults alone. */
void schema_show(const struct schema_row *rows, const struct yaml_node *map, struct str file,
		 bool json, struct buf *out);

#endif
