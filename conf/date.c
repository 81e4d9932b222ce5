#include "conf/date.h"

#include <stddef.h>

#define DAY 86400u

/* ---- writing ---- */

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
	uint64_t seconds = time_us / 1000000, in_day = seconds % DAY;
	unsigned year, month, day;

	date_of(seconds / DAY, &year, &month, &day);
	out = put_digits(out, year % 10000, 4, '-');
	out = put_digits(out, month, 2, '-');
	out = put_digits(out, day, 2, 'T');
	out = put_digits(out, (unsigned)(in_day / 3600), 2, ':');
	out = put_digits(out, (unsigned)(in_day / 60 % 60), 2, ':');
	out = put_digits(out, (unsigned)(in_day % 60), 2, '.');
	out = put_digits(out, (unsigned)(time_us % 1000000), 6, 'Z');
	*out = '\0';
}

/* ---- reading ---- */

/* Days since 1970-01-01, by eras of 400 years that begin on the first of March. */
static uint64_t days_of(unsigned year, unsigned month, unsigned day)
{
	uint64_t y = month <= 2 ? year - 1u : year, era = y / 400, yoe = y % 400;
	uint64_t doy = (153 * (uint64_t)(month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;

	return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

static unsigned days_in(unsigned year, unsigned month)
{
	static const unsigned char days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return days[month - 1] + (month == 2 && leap ? 1u : 0u);
}

bool date_match(struct str text, struct str shape, unsigned *numbers)
{
	if (text.n != shape.n)
		return false;
	for (size_t i = 0; i < text.n; i++) {
		bool digit = text.p[i] >= '0' && text.p[i] <= '9';

		if (shape.p[i] != 'd') {
			if (shape.p[i] != text.p[i])
				return false;
			continue;
		}
		if (!digit)
			return false;
		*numbers = *numbers * 10 + (unsigned)(text.p[i] - '0');
		if (i + 1 == text.n || shape.p[i + 1] != 'd')
			numbers++;
	}
	return true;
}

bool date_parse(struct str text, uint64_t *time_us)
{
	unsigned v[7] = { 0 };

	if (!date_match(text, STR("dddd-dd-ddTdd:dd:dd.ddddddZ"), v))
		return false;
	if (v[0] < 1970 || v[1] < 1 || v[1] > 12 || v[2] < 1 || v[2] > days_in(v[0], v[1]) ||
	    v[3] > 23 || v[4] > 59 || v[5] > 59)
		return false;
	*time_us = days_of(v[0], v[1], v[2]) * DAY + v[3] * 3600u + v[4] * 60u + v[5];
	*time_us = *time_us * 1000000 + v[6];
	return true;
}
