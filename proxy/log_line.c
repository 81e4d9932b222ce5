#include "proxy/log_line.h"

#include <stdio.h>

#define PREFIX_SEQ "{\"seq\":"
#define PREFIX_PREV ",\"prev\":\""
#define PREFIX_TIME "\",\"time\":\""
#define PREFIX_KIND "\",\"kind\":\""
#define DAY 86400u

/* ---- time ---- */

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

/* The other way. */
static uint64_t days_of(unsigned year, unsigned month, unsigned day)
{
	uint64_t y = month <= 2 ? year - 1u : year, era = y / 400, yoe = y % 400;
	uint64_t doy = (153 * (uint64_t)(month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;

	return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

struct moment {
	unsigned year, month, day, hour, minute, second;
};

static struct moment moment_of(uint64_t time_us)
{
	uint64_t seconds = time_us / 1000000, in_day = seconds % DAY;
	struct moment m = { .hour = (unsigned)(in_day / 3600), .minute = (unsigned)(in_day / 60 % 60),
			    .second = (unsigned)(in_day % 60) };

	date_of(seconds / DAY, &m.year, &m.month, &m.day);
	m.year %= 10000;
	return m;
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

/* By hand: every line has one, and printf() would be a tenth of what a line costs. */
void log_time_format(uint64_t time_us, char out[LOG_TIME_MAX])
{
	struct moment m = moment_of(time_us);

	out = put_digits(out, m.year, 4, '-');
	out = put_digits(out, m.month, 2, '-');
	out = put_digits(out, m.day, 2, 'T');
	out = put_digits(out, m.hour, 2, ':');
	out = put_digits(out, m.minute, 2, ':');
	out = put_digits(out, m.second, 2, '.');
	out = put_digits(out, (unsigned)(time_us % 1000000), 6, 'Z');
	*out = '\0';
}

static unsigned days_in(unsigned year, unsigned month)
{
	static const unsigned char days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return days[month - 1] + (month == 2 && leap ? 1u : 0u);
}

/* @text against @shape, where each run of 'd' is a number. */
static bool read_shape(struct str text, struct str shape, unsigned *numbers)
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

bool log_time_parse(struct str text, uint64_t *time_us)
{
	unsigned v[7] = { 0 };

	if (!read_shape(text, STR("dddd-dd-ddTdd:dd:dd.ddddddZ"), v))
		return false;
	if (v[0] < 1970 || v[1] < 1 || v[1] > 12 || v[2] < 1 || v[2] > days_in(v[0], v[1]) ||
	    v[3] > 23 || v[4] > 59 || v[5] > 59)
		return false;
	*time_us = ((days_of(v[0], v[1], v[2]) * DAY + v[3] * 3600u + v[4] * 60u + v[5]) * 1000000) + v[6];
	return true;
}

/* ---- the head ---- */

/* Takes @prefix off the beginning of *rest. */
static bool skip(struct str *rest, struct str prefix)
{
	if (!str_starts(*rest, prefix))
		return false;
	*rest = str_from(*rest, prefix.n);
	return true;
}

/* What stands before @end, and moves there. */
static bool take_until(struct str *rest, char end, size_t max, struct str *out)
{
	size_t n = str_find(*rest, end);

	if (n == rest->n || n == 0 || n > max)
		return false;
	*out = str_n(rest->p, n);
	*rest = str_from(*rest, n);
	return true;
}

static bool is_hash(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!(s.p[i] >= '0' && s.p[i] <= '9') && !(s.p[i] >= 'a' && s.p[i] <= 'f'))
			return false;
	return s.n == LOG_HASH_HEX;
}

static bool is_kind(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!(s.p[i] >= 'a' && s.p[i] <= 'z') && s.p[i] != '_')
			return false;
	return s.n != 0;
}

bool log_line_head(struct str line, struct log_head *head)
{
	struct str digits, time;

	return line.n && line.p[line.n - 1] == '}' && skip(&line, STR(PREFIX_SEQ)) &&
	       take_until(&line, ',', 19, &digits) && digits.p[0] != '0' &&
	       str_to_u64(digits, INT64_MAX - 1, &head->seq) && skip(&line, STR(PREFIX_PREV)) &&
	       take_until(&line, '"', LOG_HASH_HEX, &head->prev) && is_hash(head->prev) &&
	       skip(&line, STR(PREFIX_TIME)) && take_until(&line, '"', LOG_TIME_MAX, &time) &&
	       log_time_parse(time, &head->time_us) && skip(&line, STR(PREFIX_KIND)) &&
	       take_until(&line, '"', 32, &head->kind) && is_kind(head->kind);
}

/* ---- names ---- */

bool log_aside_name(struct str name, uint64_t last_us, uint64_t first_seq, char out[LOG_NAME_MAX])
{
	struct moment m = moment_of(last_us);
	int n = snprintf(out, LOG_NAME_MAX, "%.*s.%04u%02u%02uT%02u%02u%02uZ-%llu", STR_ARG(name), m.year,
			 m.month % 100, m.day % 100, m.hour, m.minute, m.second,
			 (unsigned long long)first_seq);

	return n > 0 && n < LOG_NAME_MAX;
}

bool log_is_aside(struct str name, struct str entry)
{
	static const struct str shape = { ".ddddddddTddddddZ-", 18 };
	unsigned numbers[2] = { 0 };
	uint64_t seq;

	if (!str_starts(entry, name) || entry.n <= name.n + shape.n)
		return false;
	entry = str_from(entry, name.n);
	return read_shape(str_n(entry.p, shape.n), shape, numbers) &&
	       str_to_u64(str_from(entry, shape.n), INT64_MAX - 1, &seq);
}

/* Only the numbers behind the last '-' differ in length. */
int log_aside_order(const char *a, const char *b)
{
	size_t to_a = (size_t)(strrchr(a, '-') - a), to_b = (size_t)(strrchr(b, '-') - b);
	int order = strncmp(a, b, to_a < to_b ? to_b : to_a);

	if (order)
		return order;
	if (strlen(a) != strlen(b))
		return strlen(a) < strlen(b) ? -1 : 1;
	return strcmp(a, b);
}
