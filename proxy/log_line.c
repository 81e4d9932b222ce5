#include "proxy/log_line.h"

#include <inttypes.h>
#include <stdio.h>

#define PREFIX_SEQ "{\"seq\":"
#define PREFIX_PREV ",\"prev\":\""
#define PREFIX_TIME "\",\"time\":\""
#define PREFIX_KIND "\",\"kind\":\""

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
	       skip(&line, STR(PREFIX_TIME)) && take_until(&line, '"', DATE_TEXT_MAX, &time) &&
	       date_parse(time, &head->time_us) && skip(&line, STR(PREFIX_KIND)) &&
	       take_until(&line, '"', 32, &head->kind) && is_kind(head->kind);
}

/* ---- names ---- */

bool log_aside_name(struct str name, uint64_t last_us, uint64_t first_seq, char out[LOG_NAME_MAX])
{
	char t[DATE_TEXT_MAX];
	int n;

	date_format(last_us, t);
	n = snprintf(out, LOG_NAME_MAX, "%.*s.%.4s%.2s%.2sT%.2s%.2s%.2sZ-%" PRIu64, STR_ARG(name), t, t + 5,
		     t + 8, t + 11, t + 14, t + 17, first_seq);
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
	return date_match(str_n(entry.p, shape.n), shape, numbers) &&
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
