#include "broker/der.h"

#define SHORT_LENGTH_MAX 127u	/* X.690 8.1.3.4 */
#define UTC_TIME_YEAR_MAX 2049	/* RFC 5280 4.1.2.5 */

void der_init(struct der *d, char *room, size_t size)
{
	*d = (struct der){ .room = room, .at = size, .size = size };
}

void der_put(struct der *d, struct str bytes)
{
	if (bytes.n > d->at)
		d->failed = true;
	if (d->failed || bytes.n == 0)
		return;
	d->at -= bytes.n;
	memcpy(d->room + d->at, bytes.p, bytes.n);
}

static void put_byte(struct der *d, size_t byte)
{
	char c = (char)(unsigned char)byte;

	der_put(d, str_n(&c, 1));
}

size_t der_left(const struct der *d)
{
	return d->at;
}

void der_wrap(struct der *d, unsigned tag, size_t before)
{
	size_t n = before - d->at;

	if (n > DER_VALUE_MAX)
		d->failed = true;
	put_byte(d, n & 0xff);
	if (n > 0xff)
		put_byte(d, n >> 8);
	if (n > SHORT_LENGTH_MAX)
		put_byte(d, n > 0xff ? 0x82 : 0x81);
	put_byte(d, tag);
}

void der_value(struct der *d, unsigned tag, struct str bytes)
{
	size_t before = der_left(d);

	der_put(d, bytes);
	der_wrap(d, tag, before);
}

void der_time(struct der *d, time_t t)
{
	char text[sizeof("YYYYMMDDhhmmssZ")];
	struct tm tm;

	if (!gmtime_r(&t, &tm) || tm.tm_year < 0 || tm.tm_year > 9999 - 1900) {
		d->failed = true;
	} else if (tm.tm_year <= UTC_TIME_YEAR_MAX - 1900) {
		(void)strftime(text, sizeof(text), "%y%m%d%H%M%SZ", &tm);
		der_value(d, DER_UTC_TIME, str_of(text));
	} else {
		(void)strftime(text, sizeof(text), "%Y%m%d%H%M%SZ", &tm);
		der_value(d, DER_GENERALIZED_TIME, str_of(text));
	}
}

struct str der_str(const struct der *d)
{
	return d->failed ? STR_NONE : str_n(d->room + d->at, d->size - d->at);
}
