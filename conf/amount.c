#include "conf/amount.h"

#include <stdio.h>

struct unit {
	const char *name;
	uint64_t factor;
};

/* The smallest first. */
static const struct unit numbers[] = { { "", 1 }, { NULL, 0 } };
static const struct unit durations[] = { { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 },
					 { "d", 86400000 }, { NULL, 0 } };
static const struct unit sizes[] = { { "", 1 }, { "KiB", 1u << 10 }, { "MiB", 1u << 20 },
				     { "GiB", 1u << 30 }, { NULL, 0 } };

static const struct unit *const units_of[] = {
	[AMOUNT_NUMBER] = numbers, [AMOUNT_DURATION] = durations, [AMOUNT_SIZE] = sizes,
};

bool amount_parse(enum amount kind, struct str text, uint64_t *out)
{
	size_t digits = 0;
	uint64_t number;

	while (digits < text.n && text.p[digits] >= '0' && text.p[digits] <= '9')
		digits++;
	if (!str_to_u64(str_n(text.p, digits), UINT64_MAX, &number))
		return false;
	for (const struct unit *u = units_of[kind]; u->name; u++)
		if (str_eq(str_from(text, digits), str_of(u->name))) {
			if (number > UINT64_MAX / u->factor)
				return false;
			*out = number * u->factor;
			return true;
		}
	return false;
}

const char *amount_written(enum amount kind, uint64_t v, char *out, size_t n)
{
	const struct unit *best = units_of[kind];

	for (const struct unit *u = best; u->name; u++)
		if (v && v % u->factor == 0)
			best = u;
	snprintf(out, n, "%llu%s", (unsigned long long)(v / best->factor), best->name);
	return out;
}
