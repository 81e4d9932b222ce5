/* conf/utf8.h - where a character of UTF-8 ends
 *
 * Ownership   none.       Blocking  never.
 * Failure     0: the bytes at the start of the text are no valid character.
 * Tests       tests/unit/conf/test_utf8.c
 */
#ifndef CONF_UTF8_H
#define CONF_UTF8_H

#include "conf/str.h"

/* The length of the character at the start of @s (RFC 3629: no overlong forms, no surrogates), and
 * its code point in *code. 0 for an empty text and for bytes that are none. */
size_t utf8_next(struct str s, uint32_t *code);

#endif
