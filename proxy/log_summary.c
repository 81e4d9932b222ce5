#include "proxy/log_summary.h"

#include <inttypes.h>
#include <stdlib.h>

#include "conf/json.h"
#include "conf/sort.h"
#include "proxy/log_query.h"
#include "proxy/log_tail.h"

#define SLOTS (2 * SUMMARY_ROWS_MAX)	/* a power of two */
#define OTHERS "(others)"
#define SHOWN_MAX (64u << 20)

/* What is counted of each name. */
enum number { ALLOWED, REFUSED, BYTES_UP, BYTES_DOWN, NUMBERS };

struct row {
	char *name;
	size_t length;
	uint64_t n[NUMBERS];
};

struct table {
	struct row *slots;		/* SLOTS; NULL until the first row */
	size_t n;
	struct row others;
};

enum subject { HOSTS, RULES, CREDENTIALS, SANDBOXES, SUBJECTS };

static const struct {
	const char *name, *title, *allowed, *refused;	/* NULL: that number says nothing here */
	bool bytes;
} subjects[SUBJECTS] = {
	[HOSTS] = { "hosts", "Hosts", "requests", "refused", true },
	[RULES] = { "refusals", "Refusals by rule", NULL, "refused", false },
	[CREDENTIALS] = { "credentials", "Credentials", "used", "refused", false },
	[SANDBOXES] = { "sandboxes", "Sandboxes", "requests", "refused", true },
};

struct log_summary {
	uint64_t lines, first_us, last_us;
	struct row total;
	struct table tables[SUBJECTS];
};

struct log_summary *log_summary_new(void)
{
	return calloc(1, sizeof(struct log_summary));
}

static void table_free(struct table *t)
{
	for (size_t i = 0; t->slots && i < SLOTS; i++)
		free(t->slots[i].name);
	free(t->slots);
}

void log_summary_free(struct log_summary *s)
{
	if (!s)
		return;
	for (enum subject i = 0; i < SUBJECTS; i++)
		table_free(&s->tables[i]);
	free(s);
}

/* ---- counting ---- */

/* FNV-1a. Names that are made to collide cost time, and no more than SUMMARY_ROWS_MAX steps
 * each. */
static size_t hash(struct str s)
{
	uint64_t h = UINT64_C(14695981039346656037);

	for (size_t i = 0; i < s.n; i++)
		h = (h ^ (unsigned char)s.p[i]) * UINT64_C(1099511628211);
	return (size_t)(h ^ h >> 32) & (SLOTS - 1);
}

/* NULL: no memory. */
static struct row *row_of(struct table *t, struct str name)
{
	size_t at = hash(name);
	struct row *r;

	if (!t->slots && !(t->slots = calloc(SLOTS, sizeof(*t->slots))))
		return NULL;
	for (r = &t->slots[at]; r->name; at = (at + 1) & (SLOTS - 1), r = &t->slots[at])
		if (r->length == name.n && memcmp(r->name, name.p, name.n) == 0)
			return r;
	if (t->n == SUMMARY_ROWS_MAX)
		return &t->others;
	r->name = malloc(name.n + 1);
	if (!r->name)
		return NULL;
	memcpy(r->name, name.p, name.n);
	r->name[name.n] = '\0';
	r->length = name.n;
	t->n++;
	return r;
}

static uint64_t number_of(const json_t *object, const char *key, uint64_t without)
{
	const json_t *j = json_object_get(object, key);

	return json_is_integer(j) && json_integer_value(j) >= 0 ? (uint64_t)json_integer_value(j)
								: without;
}

/* A sum that stays where it cannot grow: a log may say anything, and JSON's readers know no larger
 * numbers. */
static void add(uint64_t *to, uint64_t n)
{
	*to = n > INT64_MAX - *to ? INT64_MAX : *to + n;
}

static enum err count(struct log_summary *s, enum subject subject, struct str name,
		      const struct row *what)
{
	struct row *r;

	if (name.n == 0)
		return OK;
	r = row_of(&s->tables[subject], name);
	if (!r)
		return ERR_NOMEM;
	for (enum number i = 0; i < NUMBERS; i++)
		add(&r->n[i], what->n[i]);
	return OK;
}

static struct str host_of(const json_t *object)
{
	static const char *const members[] = { "host", "destination", "name" };
	struct str host = STR_NONE;

	for (size_t i = 0; host.n == 0 && i < sizeof(members) / sizeof(members[0]); i++)
		host = log_text(object, members[i]);
	return host;
}

/* The end of a connection in which no requests are seen? */
static bool is_unopened(const json_t *object, struct str kind)
{
	return str_eq(kind, STR("connection")) && str_eq(log_text(object, "phase"), STR("close")) &&
	       (str_eq(log_text(object, "protocol"), STR("tcp")) ||
		str_eq(log_text(object, "tls"), STR("passthrough")));
}

/* What a line adds; false: nothing. */
static bool weigh(const json_t *object, struct str kind, struct row *what)
{
	bool denied = str_eq(log_text(object, "verdict"), STR("deny"));
	bool request = str_eq(kind, STR("request")) || is_unopened(object, kind);

	if (str_eq(log_text(object, "phase"), STR("begin")) || (!request && !denied))
		return false;
	what->n[denied ? REFUSED : ALLOWED] = number_of(object, "count", 1);
	if (request) {
		what->n[BYTES_UP] = number_of(object, "bytes_up", 0);
		what->n[BYTES_DOWN] = number_of(object, "bytes_down", 0);
	}
	return true;
}

static enum err add_credential(struct log_summary *s, const json_t *object, struct str kind)
{
	struct row what = { 0 };
	struct str event = log_text(object, "event");

	if (str_eq(kind, STR("request")) && !str_eq(log_text(object, "phase"), STR("begin")))
		what.n[ALLOWED] = 1;
	else if (str_eq(kind, STR("credential")) && !str_eq(event, STR("granted")))
		what.n[REFUSED] = 1;
	else
		return OK;
	return count(s, CREDENTIALS, log_text(object, "credential"), &what);
}

static enum err add_traffic(struct log_summary *s, const json_t *object, const struct row *what)
{
	struct str rule = log_text(object, "rule");
	enum err e = count(s, HOSTS, host_of(object), what);

	if (!e)
		e = count(s, SANDBOXES, log_text(object, "sandbox"), what);
	if (!e && what->n[REFUSED])
		e = count(s, RULES, rule.n ? rule : STR("(no rule)"), what);
	for (enum number i = 0; i < NUMBERS; i++)
		add(&s->total.n[i], what->n[i]);
	return e;
}

enum err log_summary_add(struct log_summary *s, struct str line, const json_t *object)
{
	struct row what = { 0 };
	struct log_head head;
	enum err e;

	if (!log_line_head(line, &head))
		return OK;
	s->lines++;
	if (s->first_us == 0 || head.time_us < s->first_us)
		s->first_us = head.time_us;
	if (head.time_us > s->last_us)
		s->last_us = head.time_us;
	e = add_credential(s, object, head.kind);
	return !e && weigh(object, head.kind, &what) ? add_traffic(s, object, &what) : e;
}

/* ---- showing ---- */

static int by_size(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	uint64_t n = x->n[ALLOWED] + x->n[REFUSED], m = y->n[ALLOWED] + y->n[REFUSED];

	if (n != m)
		return n > m ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* The rows at the beginning, largest first. From then on none can be found by its name. */
static void sort(struct table *t)
{
	size_t n = 0;

	for (size_t i = 0; t->slots && i < SLOTS; i++)
		if (t->slots[i].name) {
			struct row r = t->slots[i];

			t->slots[i] = (struct row){ 0 };
			t->slots[n++] = r;
		}
	if (n)
		sort_items(t->slots, n, sizeof(*t->slots), by_size);
}

static void text_row(struct buf *out, enum subject subject, const char *name, size_t length,
		     const uint64_t n[NUMBERS])
{
	size_t start;

	buf_put_str(out, STR("  "));
	start = out->n;
	log_tail_escape(str_n(name, length), out);
	while (!out->failed && out->n - start < 40)
		buf_put_c(out, ' ');
	if (subjects[subject].allowed)
		buf_printf(out, " %10" PRIu64 " %s", n[ALLOWED], subjects[subject].allowed);
	buf_printf(out, " %10" PRIu64 " %s", n[REFUSED], subjects[subject].refused);
	if (subjects[subject].bytes)
		buf_printf(out, " %14" PRIu64 " bytes up %14" PRIu64 " down", n[BYTES_UP], n[BYTES_DOWN]);
	buf_put_c(out, '\n');
}

static void text_table(struct buf *out, const struct table *t, enum subject subject, size_t top)
{
	if (t->n == 0)
		return;
	buf_printf(out, "\n%s", subjects[subject].title);
	if (t->n > top)
		buf_printf(out, " (%zu of %zu)", top, t->n);
	buf_put_c(out, '\n');
	for (size_t i = 0; i < t->n && i < top; i++)
		text_row(out, subject, t->slots[i].name, t->slots[i].length, t->slots[i].n);
	if (t->others.n[ALLOWED] + t->others.n[REFUSED])
		text_row(out, subject, OTHERS, sizeof(OTHERS) - 1, t->others.n);
}

static void put_text(struct log_summary *s, size_t top, struct buf *out)
{
	char first[DATE_TEXT_MAX], last[DATE_TEXT_MAX];

	buf_printf(out, "%" PRIu64 " lines", s->lines);
	if (s->lines) {
		date_format(s->first_us, first);
		date_format(s->last_us, last);
		buf_printf(out, " from %s to %s", first, last);
	}
	buf_printf(out, "\n%" PRIu64 " requests, %" PRIu64 " refusals, %" PRIu64 " bytes up, %" PRIu64 " down\n",
		   s->total.n[ALLOWED], s->total.n[REFUSED], s->total.n[BYTES_UP],
		   s->total.n[BYTES_DOWN]);
	for (enum subject i = 0; i < SUBJECTS; i++)
		text_table(out, &s->tables[i], i, top);
}

static void json_numbers(struct json *j, enum subject subject, const uint64_t n[NUMBERS])
{
	if (subjects[subject].allowed)
		json_put_u64(j, subjects[subject].allowed, n[ALLOWED]);
	json_put_u64(j, subjects[subject].refused, n[REFUSED]);
	if (!subjects[subject].bytes)
		return;
	json_put_u64(j, "bytes_up", n[BYTES_UP]);
	json_put_u64(j, "bytes_down", n[BYTES_DOWN]);
}

static void json_row(struct json *j, enum subject subject, struct str name,
		     const uint64_t n[NUMBERS])
{
	json_object(j);
	json_put_str(j, "name", name);
	json_numbers(j, subject, n);
	json_object_end(j);
}

static void put_json(struct log_summary *s, size_t top, struct buf *out)
{
	char time[DATE_TEXT_MAX];
	struct json j;

	json_init(&j, out);
	json_object(&j);
	json_put_u64(&j, "lines", s->lines);
	date_format(s->first_us, time);
	json_put_str(&j, "first", s->lines ? str_of(time) : STR_NONE);
	date_format(s->last_us, time);
	json_put_str(&j, "last", s->lines ? str_of(time) : STR_NONE);
	json_numbers(&j, SANDBOXES, s->total.n);
	for (enum subject i = 0; i < SUBJECTS; i++) {
		const struct table *t = &s->tables[i];

		json_key(&j, subjects[i].name);
		json_array(&j);
		for (size_t k = 0; k < t->n && k < top; k++)
			json_row(&j, i, str_n(t->slots[k].name, t->slots[k].length), t->slots[k].n);
		if (t->others.n[ALLOWED] + t->others.n[REFUSED])
			json_row(&j, i, STR(OTHERS), t->others.n);
		json_array_end(&j);
	}
	json_object_end(&j);
	buf_put_c(out, '\n');
}

enum err log_summary_print(struct log_summary *s, size_t top, bool json, FILE *to)
{
	struct buf out, safe;
	enum err e = OK;

	buf_init(&out, SHOWN_MAX);
	buf_init(&safe, SHOWN_MAX);
	for (enum subject i = 0; i < SUBJECTS; i++)
		sort(&s->tables[i]);
	if (json) {
		put_json(s, top, &safe);
		if (safe.n && !safe.failed)
			log_tail_escape(str_n(safe.p, safe.n - 1), &out);
		buf_put_c(&out, '\n');
	} else {
		put_text(s, top, &out);
	}
	if (out.failed || safe.failed)
		e = ERR_NOMEM;
	else if (fwrite(out.p, 1, out.n, to) != out.n || fflush(to) != 0)
		e = ERR_SYSTEM;
	buf_free(&out);
	buf_free(&safe);
	return e;
}
