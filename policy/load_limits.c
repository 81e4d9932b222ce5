#include "conf/amount.h"
#include "policy/limits_text.h"
#include "policy/load_parts.h"

#define DAY_MS 86400000ull
#define LIMIT_TIME_MAX (365 * DAY_MS)
#define LIMIT_SIZE_MAX (1ull << 40)

struct limits_fields {
	struct str requests;
	uint32_t concurrent;
	uint64_t upload, download, idle_ms, total_ms;
};

static const char *check_rate(struct str text)
{
	uint32_t count, per_s;

	return limit_read_rate(text, &count, &per_s) ? NULL
		: "write so many, from 1 to 1000000, in a time: 5/s, 60/min or 1000/h";
}

/* What is no duration at all schema_read() tells. */
static const char *check_seconds(struct str text)
{
	uint64_t ms;

	return amount_parse(AMOUNT_DURATION, text, &ms) && ms % 1000 ? "must be whole seconds" : NULL;
}

#define FIELD(key_, type_, member, ...)                                                           \
	{ .key = key_, .type = SCHEMA_##type_, .offset = offsetof(struct limits_fields, member),  \
	  __VA_ARGS__ }

static const struct schema_row rows[] = {
	FIELD("requests", TEXT, requests, .check = check_rate, .help = "how many in a time: 60/min"),
	FIELD("concurrent", NUMBER, concurrent, .min = 1, .max = LIMIT_COUNT_MAX, .help = "how many at once"),
	FIELD("upload", SIZE, upload, .min = 1, .max = LIMIT_SIZE_MAX, .help = "the content of one request"),
	FIELD("download", SIZE, download, .min = 1, .max = LIMIT_SIZE_MAX, .help = "the content of one answer"),
	FIELD("idle", DURATION, idle_ms, .min = 1000, .max = LIMIT_TIME_MAX, .check = check_seconds,
	      .help = "how long one may stand still"),
	FIELD("total", DURATION, total_ms, .min = 1000, .max = LIMIT_TIME_MAX, .check = check_seconds,
	      .help = "how long one may take"),
	{ .type = SCHEMA_END },
};

void load_limits(struct load *l, const struct yaml_node *map, struct rule_limits *out)
{
	struct limits_fields f = { 0 };

	if (!map->first) {
		diag_error(l->diags, map->at, "leave the key out, or write what it is to hold",
			   "\"limits\" is an empty map");
		return;
	}
	if (!schema_read(rows, "limits", map, &f, l->diags))
		return;
	*out = (struct rule_limits){ .concurrent = f.concurrent,
				     .upload = f.upload, .download = f.download,
				     .idle_s = (uint32_t)(f.idle_ms / 1000),
				     .total_s = (uint32_t)(f.total_ms / 1000) };
	if (f.requests.n)
		(void)limit_read_rate(f.requests, &out->requests, &out->per_s);
}
