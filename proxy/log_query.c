#include "proxy/log_query.h"

#include <stdio.h>

#define MINUTE_US UINT64_C(60000000)

struct str log_text(const json_t *object, const char *key)
{
	const json_t *j = json_object_get(object, key);

	return json_is_string(j) ? str_n(json_string_value(j), json_string_length(j)) : STR_NONE;
}

/* ---- matching ---- */

static bool is_one_of(struct str list, struct str word)
{
	while (list.n)
		if (str_eq(str_trim(str_cut(&list, ',')), word))
			return true;
	return false;
}

static bool is_text(struct str wanted, const json_t *object, const char *key)
{
	return wanted.n == 0 || str_eq(wanted, log_text(object, key));
}

/* Names in the log are lower case and without a dot at their end; in a question they need not
 * be. */
static bool is_name(struct str wanted, struct str name)
{
	if (str_ends(wanted, STR(".")))
		wanted.n--;
	if (!str_starts(wanted, STR("*.")))
		return str_eq_nocase(wanted, name);
	wanted = str_from(wanted, 1);
	return name.n > wanted.n && str_eq_nocase(wanted, str_from(name, name.n - wanted.n));
}

static bool is_host(struct str wanted, const json_t *object)
{
	static const char *const members[] = { "host", "destination", "name", "sni" };

	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		struct str name = log_text(object, members[i]);

		if (name.n && is_name(wanted, name))
			return true;
	}
	return wanted.n == 0;
}

json_t *log_query_match(const struct log_query *q, struct str line)
{
	struct log_head head;
	json_t *object;

	if (!log_line_head(line, &head) || (q->since_us && head.time_us < q->since_us) ||
	    (q->until_us && head.time_us >= q->until_us) ||
	    (q->kinds.n && !is_one_of(q->kinds, head.kind)))
		return NULL;
	object = json_loadb(line.p, line.n, JSON_ALLOW_NUL, NULL);
	if (is_text(q->sandbox, object, "sandbox") && is_text(q->rule, object, "rule") &&
	    is_text(q->verdict, object, "verdict") && is_text(q->credential, object, "credential") &&
	    is_host(q->host, object))
		return object;
	json_decref(object);
	return NULL;
}

/* ---- times ---- */

static bool ago(struct str text, uint64_t now_us, uint64_t *time_us)
{
	static const struct {
		char unit;
		uint64_t us;
	} units[] = { { 's', 1000000 }, { 'm', MINUTE_US }, { 'h', 60 * MINUTE_US },
		    { 'd', 1440 * MINUTE_US } };
	uint64_t n;

	if (text.n < 2 || !str_to_u64(str_n(text.p, text.n - 1), 1000000, &n))
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (text.p[text.n - 1] != units[i].unit)
			continue;
		*time_us = n * units[i].us < now_us ? now_us - n * units[i].us : 1;
		return true;
	}
	return false;
}

/* "Z", "+01:00", "-07:30" (RFC 3339, 5.6): what is to be taken from the time for UTC. */
static bool offset(struct str text, int64_t *us)
{
	uint64_t hours, minutes;

	if (str_eq(text, STR("Z"))) {
		*us = 0;
		return true;
	}
	if (text.n != 6 || (text.p[0] != '+' && text.p[0] != '-') || text.p[3] != ':' ||
	    !str_to_u64(str_n(text.p + 1, 2), 23, &hours) ||
	    !str_to_u64(str_n(text.p + 4, 2), 59, &minutes))
		return false;
	*us = (int64_t)((hours * 60 + minutes) * MINUTE_US) * (text.p[0] == '+' ? 1 : -1);
	return true;
}

/* Up to six digits of a second's fraction, as microseconds; moves behind it. */
static bool fraction(struct str *text, char out[7])
{
	size_t n = 0;

	snprintf(out, 7, "000000");
	if (text->n == 0 || text->p[0] != '.')
		return true;
	*text = str_from(*text, 1);
	for (; n < text->n && text->p[n] >= '0' && text->p[n] <= '9'; n++)
		if (n < 6)
			out[n] = text->p[n];
	*text = str_from(*text, n);
	return n > 0;
}

bool log_query_time(struct str text, uint64_t now_us, uint64_t *time_us)
{
	static const size_t day = 10, second = 19;	/* characters */
	char whole[DATE_TEXT_MAX + 8], part[7] = "000000";
	struct str date = text, rest = STR("Z");
	int64_t less;

	if (ago(text, now_us, time_us))
		return true;
	if (text.n > second) {
		date = str_n(text.p, second);
		rest = str_from(text, second);
		if (!fraction(&rest, part))
			return false;
	}
	if (text.n != day && text.n <= second)
		return false;
	snprintf(whole, sizeof(whole), "%.*s%s.%sZ", STR_ARG(date), text.n == day ? "T00:00:00" : "", part);
	if (!offset(rest, &less) || !date_parse(str_of(whole), time_us))
		return false;
	if (less > 0 && *time_us <= (uint64_t)less)
		return false;
	*time_us = (uint64_t)((int64_t)*time_us - less);
	return true;
}
