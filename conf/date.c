#include "conf/date.h"

#include <stddef.h>

/* Days since 1970-01-01 to a date of the Gregorian calendar, by eras of 400 years that begin on the
 * first of March. */
static void date_of(uint64_t days, unsigned *year, unsigned *month, unsigned *day)
{
	uint64_t z = days + 719468, era = z / 146097, doe = z % 146097;
	uint64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	uint64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;

	*day = (unsigned)(doy - (153 * mp + 2) / 5 + 1);
	*month = (unsigned)(mp < 10 ? mp + 3 : mp - 9);
	*year = (unsigned)(yoe + era * 400 + (*month <= 2));
}

/* @n digits, and what stands behind them. */
static char *put_digits(char *to, unsigned v, size_t n, char behind)
{
	for (size_t i = n; i > 0; i--) {
		to[i - 1] = (char)('0' + v % 10);
		v /= 10;
	}
	to[n] = behind;
	return to + n + 1;
}

/* By hand: every line of the log has one, and printf() would be a tenth of what a line costs. */
void date_format(uint64_t time_us, char out[DATE_TEXT_MAX])
{
	uint64_t seconds = time_us / 1000000, in_day = seconds % 86400;
	unsigned year, month, day;

	date_of(seconds / 86400, &year, &month, &day);
	out = put_digits(out, year % 10000, 4, '-');
	out = put_digits(out, month, 2, '-');
	out = put_digits(out, day, 2, 'T');
	out = put_digits(out, (unsigned)(in_day / 3600), 2, ':');
	out = put_digits(out, (unsigned)(in_day / 60 % 60), 2, ':');
	out = put_digits(out, (unsigned)(in_day % 60), 2, '.');
	out = put_digits(out, (unsigned)(time_us % 1000000), 6, 'Z');
	*out = '\0';
}
