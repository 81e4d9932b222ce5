/* broker/der.h - writes DER (X.690 10) from its end to its beginning
 *
 * A value's length stands before it and is known once it is written: so the last is written first,
 * and what is there is wrapped.
 *
 * Ownership   over the caller's room; der_str() borrows from it.
 * Blocking    never.
 * Failure     sticky: what does not fit sets @failed, and nothing more is written.
 * Limits      the room; values of at most DER_VALUE_MAX bytes.
 * Tests       tests/unit/broker/test_der.c
 */
#ifndef BROKER_DER_H
#define BROKER_DER_H

#include <time.h>

#include "conf/str.h"

#define DER_VALUE_MAX 65535u

enum der_tag {
	DER_INTEGER = 0x02,
	DER_BIT_STRING = 0x03,
	DER_OCTET_STRING = 0x04,
	DER_UTF8_STRING = 0x0c,
	DER_UTC_TIME = 0x17,
	DER_GENERALIZED_TIME = 0x18,
	DER_SEQUENCE = 0x30,
	DER_SET = 0x31,
};

struct der {
	char *room;
	size_t at, size;	/* the first byte written; size where there is none */
	bool failed;
};

void der_init(struct der *d, char *room, size_t size);
/* As they are. */
void der_put(struct der *d, struct str bytes);
/* What was written since der_left() was @before becomes the value of @tag (one byte: X.690
 * 8.1.2.2). */
size_t der_left(const struct der *d);
void der_wrap(struct der *d, unsigned tag, size_t before);
/* A whole value. */
void der_value(struct der *d, unsigned tag, struct str bytes);
/* A Time (RFC 5280 4.1.2.5): UTCTime to the end of 2049, then GeneralizedTime. */
void der_time(struct der *d, time_t t);
struct str der_str(const struct der *d);

#endif
