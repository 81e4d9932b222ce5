/* conf/schema_man.h - a table of keys as a part of a manual page (mdoc)
 *
 * A list with an item for each key, by its whole name: what it is written as, what it is for, its
 * range and its default.
 *
 * Ownership   arguments are borrowed for the call.
 * Blocking    never.
 * Failure     sticky in the buffer (buf.failed).
 * Tests       tests/unit/conf/test_schema_man.c, tests/install/run.sh
 */
#ifndef CONF_SCHEMA_MAN_H
#define CONF_SCHEMA_MAN_H

#include "conf/buf.h"
#include "conf/schema.h"

void schema_man(const struct schema_row *rows, struct buf *out);

#endif
