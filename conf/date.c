#include "conf/date.h"

#include <stdio.h>

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

void date_format(uint64_t time_us, char out[DATE_TEXT_MAX])
{
	uint64_t seconds = time_us / 1000000, in_day = seconds % 86400;
	unsigned year, month, day;

	date_of(seconds / 86400, &year, &month, &day);
	snprintf(out, DATE_TEXT_MAX, "%04u-%02u-%02uT%02u:%02u:%02u.%06uZ", year % 10000, month % 100,
		 day % 100, (unsigned)(in_day / 3600), (unsigned)(in_day / 60 % 60),
		 (unsigned)(in_day % 60), (unsigned)(time_us % 1000000));
}
