/* conf/schema_json.h - a table of keys as a JSON Schema, for editors and other programs
 *
 * JSON Schema 2020-12: types, ranges of numbers, choices, forms of durations and sizes, lengths,
 * required keys, no others. What a schema cannot say (a range of durations, an address's form) the
 * loader alone says; what loads fits the schema, but that the loader takes every scalar as the text
 * that it is, be it a number or quoted.
 *
 * Ownership   arguments are borrowed for the call.
 * Blocking    never.
 * Failure     sticky in the buffer (buf.failed).
 * Tests       tests/unit/conf/test_schema_json.c, tests/settings/run.py
 */
#ifndef CONF_SCHEMA_JSON_H
#define CONF_SCHEMA_JSON_H

#include "conf/buf.h"
#include "conf/schema.h"

void schema_json(const struct schema_row *rows, const char *title, struct buf *out);

#endif
