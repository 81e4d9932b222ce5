/* conf/amount.h - numbers, durations and sizes as people write them
 *
 * One way each: decimal numbers; durations with ms, s, m, h or d (2s, 1h); sizes in bytes or with
 * KiB, MiB or GiB (64KiB).
 *
 * Ownership   plain values.       Blocking  never.
 * Failure     false: it is no such amount, or too large to be told.
 * Tests       tests/unit/conf/test_amount.c
 */
#ifndef CONF_AMOUNT_H
#define CONF_AMOUNT_H

#include "conf/str.h"

enum amount { AMOUNT_NUMBER, AMOUNT_DURATION /* milliseconds */, AMOUNT_SIZE /* bytes */ };

bool amount_parse(enum amount kind, struct str text, uint64_t *out);
/* In the largest unit that divides it. Returns @out. */
const char *amount_written(enum amount kind, uint64_t v, char *out, size_t n);

#endif
