/* conf/date.h - a time as people and the log read it: RFC 3339, UTC, microseconds
 *
 * Not strftime(3): the C library looks for the zone's file first, and a confined process opens
 * none.
 *
 * Ownership   writes into the caller's array.       Blocking  never.
 * Failure     none.
 * Tests       tests/unit/conf/test_date.c
 */
#ifndef CONF_DATE_H
#define CONF_DATE_H

#include <stdint.h>

#define DATE_TEXT_MAX 28

/* "2026-01-31T12:00:00.000001Z" */
void date_format(uint64_t time_us, char out[DATE_TEXT_MAX]);

#endif
