#include "policy/limits_text.h"

#include <stdio.h>

#include "conf/amount.h"

static const struct {
	const char *name;
	enum amount type;
} kinds[LIMIT_KINDS] = {
	[LIMIT_REQUESTS] = { "requests", AMOUNT_NUMBER },
	[LIMIT_CONCURRENT] = { "concurrent", AMOUNT_NUMBER },
	[LIMIT_UPLOAD] = { "upload", AMOUNT_SIZE },
	[LIMIT_DOWNLOAD] = { "download", AMOUNT_SIZE },
	[LIMIT_IDLE] = { "idle", AMOUNT_DURATION },
	[LIMIT_TOTAL] = { "total", AMOUNT_DURATION },
};

static const struct {
	const char *name;
	uint32_t seconds;
} times[] = { { "s", 1 }, { "min", 60 }, { "h", 3600 } };

#define TIMES (sizeof(times) / sizeof(times[0]))

bool limit_read_rate(struct str text, uint32_t *requests, uint32_t *per_s)
{
	struct str rest = text, number = str_cut(&rest, '/');
	uint64_t n;

	if (!amount_parse(AMOUNT_NUMBER, number, &n) || n == 0 || n > LIMIT_COUNT_MAX)
		return false;
	for (size_t i = 0; i < TIMES; i++) {
		if (!str_eq(rest, str_of(times[i].name)))
			continue;
		*requests = (uint32_t)n;
		*per_s = times[i].seconds;
		return true;
	}
	return false;
}

static const char *time_name(uint32_t seconds)
{
	size_t i = 0;

	while (i + 1 < TIMES && times[i].seconds != seconds)
		i++;
	return times[i].name;
}

const char *limit_name(enum limit kind)
{
	return kinds[kind].name;
}

/* As its type is counted: numbers, bytes, milliseconds. */
static uint64_t amount(const struct rule_limits *k, enum limit kind)
{
	const uint64_t all[LIMIT_KINDS] = {
		[LIMIT_REQUESTS] = k->requests, [LIMIT_CONCURRENT] = k->concurrent,
		[LIMIT_UPLOAD] = k->upload, [LIMIT_DOWNLOAD] = k->download,
		[LIMIT_IDLE] = k->idle_s * 1000ull, [LIMIT_TOTAL] = k->total_s * 1000ull,
	};

	return all[kind];
}

bool limit_value(const struct rule_limits *k, enum limit kind, char out[LIMIT_TEXT_MAX])
{
	uint64_t v = amount(k, kind);

	if (v && kind == LIMIT_REQUESTS)
		snprintf(out, LIMIT_TEXT_MAX, "%u/%s", k->requests, time_name(k->per_s));
	else if (v)
		amount_written(kinds[kind].type, v, out, LIMIT_TEXT_MAX);
	return v > 0;
}

void limits_put(const struct rule_limits *k, struct buf *out)
{
	char text[LIMIT_TEXT_MAX];
	const char *between = "";

	for (enum limit kind = 0; kind < LIMIT_KINDS; kind++) {
		if (!limit_value(k, kind, text))
			continue;
		buf_printf(out, "%s%s: %s", between, limit_name(kind), text);
		between = ", ";
	}
}
