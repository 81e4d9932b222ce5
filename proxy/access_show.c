#include "proxy/access_show.h"

#include "conf/date.h"
#include "proxy/access_rule.h"

static void put_time(struct json *j, const char *key, uint64_t us)
{
	char text[DATE_TEXT_MAX];

	date_format(us, text);
	json_put_str(j, key, str_of(text));
}

static void put_row(const struct access *a, struct json *j)
{
	json_put_u64(j, "number", a->number);
	json_put_str(j, "state", a->open ? STR("open") : STR("closed"));
	put_time(j, "asked", a->asked_us);
	json_put_str(j, "sandbox", a->sandbox);
	json_put_str(j, "method", a->method);
	json_put_str(j, "url", a->url);
}

void access_show_list(const struct access_table *t, bool closed, struct json *j)
{
	json_array(j);
	for (const struct access *a = NULL; (a = access_table_next(t, a));) {
		if (!a->open && !closed)
			continue;
		json_object(j);
		put_row(a, j);
		json_object_end(j);
	}
	json_array_end(j);
}

void access_show_one(const struct access *a, const struct policy *p, struct json *j)
{
	struct buf rule;

	buf_init(&rule, ACCESS_RULE_MAX);
	access_rule_put(a, p, &rule);
	json_object(j);
	put_row(a, j);
	json_put_str(j, "reason", a->reason);
	if (!a->open) {
		put_time(j, "closed", a->closed_us);
		json_put_str(j, "note", a->note);
	}
	json_put_str(j, "rule", buf_str(&rule));
	json_object_end(j);
	j->out->failed |= rule.failed;
	buf_free(&rule);
}
