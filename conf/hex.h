/* conf/hex.h - bytes as hexadecimal digits, and a digit's value
 *
 * Ownership   hex_text() fills the caller's room; nothing is kept.
 * Blocking    never.
 * Failure     hex_text() none; hex_value() -1: no digit.
 * Tests       tests/unit/conf/test_hex.c
 */
#ifndef CONF_HEX_H
#define CONF_HEX_H

#include "conf/str.h"

/* Lower case, NUL-ended: 2 * @n + 1 characters at @out. */
void hex_text(const uint8_t *bytes, size_t n, char *out);
/* Either case; -1 for what is no digit. */
int hex_value(char c);

#endif
