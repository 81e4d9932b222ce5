/* conf/date.h - a time as people and the log read it: RFC 3339, UTC, microseconds
 *
 * Not strftime(3): the C library looks for the zone's file first, and a confined process opens
 * none.
 *
 * Ownership   writes into the caller's array.       Blocking  never.
 * Failure     false: it is no such text.
 * Tests       tests/unit/conf/test_date.c
 */
#ifndef CONF_DATE_H
#define CONF_DATE_H

#include "conf/str.h"

#define DATE_TEXT_MAX 28

/* "2026-01-31T12:00:00.000001Z" */
void date_format(uint64_t time_us, char out[DATE_TEXT_MAX]);
/* What date_format() writes and nothing else, of a day that exists. */
bool date_parse(struct str text, uint64_t *time_us);
/* @text against @shape, where each run of 'd' is a number, which is added to one of @numbers. */
bool date_match(struct str text, struct str shape, unsigned *numbers);

#endif
