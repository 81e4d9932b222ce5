#include "proxy/control_fields.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>

#include "conf/diag.h"

#define FIELDS_NAMED_MAX 32u	/* of one table: for "did you mean" */

/* ---- errors ---- */

/* A name as RFC 6901 writes it in a pointer. */
static void put_pointer(char *to, size_t room, const char *name)
{
	size_t n = 0;

	for (; *name && n + 3 < room; name++) {
		if (*name != '~' && *name != '/') {
			to[n++] = *name;
			continue;
		}
		to[n++] = '~';
		to[n++] = *name == '~' ? '0' : '1';
	}
	to[n] = '\0';
}

__attribute__((format(printf, 4, 5)))
static void add(struct control_errors *errors, enum control_from from, const char *name,
		const char *fmt, ...)
{
	struct control_error *e;
	va_list ap;
	int n;

	if (errors->n == CONTROL_ERRORS_MAX) {
		errors->dropped++;
		return;
	}
	e = &errors->items[errors->n++];
	if (from == CONTROL_BODY) {
		memcpy(e->at, "#/", 3);
		put_pointer(e->at + 2, sizeof(e->at) - 2, name);
	} else {
		n = snprintf(e->at, sizeof(e->at), from == CONTROL_PATH ? "{%.*s}" : "?%.*s",
			     (int)sizeof(e->at) - 3, name);
		(void)n;
	}
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
}

static void say_help(const struct control_field *f, struct control_errors *errors, const char *what)
{
	add(errors, f->from, f->name, "%s: %s", what, f->help);
}

/* ---- values ---- */

/* One value, wherever it stood: as JSON, or as the text of a path or a query. */
struct raw {
	const json_t *json;
	struct str text;
};

static bool raw_text(const struct raw *raw, struct str *out)
{
	if (raw->json && !json_is_string(raw->json))
		return false;
	*out = raw->json ? str_n(json_string_value(raw->json), json_string_length(raw->json))
			 : raw->text;
	return true;
}

static void take_text(const struct control_field *f, const struct raw *raw, struct str *out,
		      struct control_errors *errors)
{
	const char *wrong;
	struct str s;

	if (!raw_text(raw, &s)) {
		say_help(f, errors, "is no text");
		return;
	}
	if (s.n < f->min || s.n > f->max) {
		add(errors, f->from, f->name, "has %zu bytes, and may have %" PRIu64 " to %" PRIu64 ": %s",
		    s.n, f->min, f->max, f->help);
		return;
	}
	wrong = f->check ? f->check(s) : NULL;
	if (wrong)
		add(errors, f->from, f->name, "%s", wrong);
	else
		*out = s;
}

static void take_number(const struct control_field *f, const struct raw *raw, uint64_t *out,
			struct control_errors *errors)
{
	uint64_t v = 0;
	bool good;

	if (raw->json) {
		json_int_t i = json_integer_value(raw->json);

		good = json_is_integer(raw->json) && i >= 0;
		v = good ? (uint64_t)i : 0;
	} else {
		good = str_to_u64(raw->text, UINT64_MAX, &v);
	}
	if (good && v >= f->min && v <= f->max)
		*out = v;
	else
		add(errors, f->from, f->name, "is no whole number from %" PRIu64 " to %" PRIu64 ": %s",
		    f->min, f->max, f->help);
}

static void take_bool(const struct control_field *f, const struct raw *raw, bool *out,
		      struct control_errors *errors)
{
	if (raw->json ? json_is_boolean(raw->json)
		      : str_eq(raw->text, STR("true")) || str_eq(raw->text, STR("false")))
		*out = raw->json ? json_is_true(raw->json) : str_eq(raw->text, STR("true"));
	else
		say_help(f, errors, "is neither true nor false");
}

static void take_texts(const struct control_field *f, const struct raw *raw, struct arena *arena,
		       struct control_texts *out, struct control_errors *errors)
{
	size_t n = raw->json ? json_array_size(raw->json) : 0;

	if (!raw->json || !json_is_array(raw->json)) {
		say_help(f, errors, "is no list of texts");
		return;
	}
	if (n < f->min || n > f->max) {
		add(errors, f->from, f->name, "has %zu texts, and may have %" PRIu64 " to %" PRIu64 ": %s",
		    n, f->min, f->max, f->help);
		return;
	}
	out->items = arena_take(arena, n, sizeof(*out->items));
	for (size_t i = 0; i < n && out->items; i++) {
		const struct raw item = { .json = json_array_get(raw->json, i) };

		if (raw_text(&item, &out->items[i]) && out->items[i].n <= CONTROL_ITEM_MAX)
			continue;
		add(errors, f->from, f->name, "its text number %zu is none, or is over %u bytes: %s", i + 1,
		    CONTROL_ITEM_MAX, f->help);
		return;
	}
	out->n = n;
}

static void take(const struct control_field *f, const struct raw *raw, struct arena *arena,
		 void *out, struct control_errors *errors)
{
	void *to = (char *)out + f->offset;

	switch (f->type) {
	case CONTROL_TEXT:
		take_text(f, raw, to, errors);
		break;
	case CONTROL_NUMBER:
		take_number(f, raw, to, errors);
		break;
	case CONTROL_BOOL:
		take_bool(f, raw, to, errors);
		break;
	case CONTROL_TEXTS:
		take_texts(f, raw, arena, to, errors);
		break;
	}
}

/* ---- the table ---- */

static bool find_value(const struct control_values *v, struct str name, struct str *out)
{
	for (size_t i = 0; i < v->n; i++) {
		if (!str_eq(v->items[i].name, name))
			continue;
		*out = v->items[i].value;
		return true;
	}
	return false;
}

static bool find(const struct control_field *f, const struct control_given *given, struct raw *raw)
{
	*raw = (struct raw){ 0 };
	if (f->from != CONTROL_BODY)
		return find_value(f->from == CONTROL_PATH ? given->path : given->query,
				  str_of(f->name), &raw->text);
	raw->json = json_object_get((const json_t *)given->body, f->name);
	return raw->json != NULL;
}

/* The row for @name; NULL: there is none, and *nearest is what may have been meant. */
static const struct control_field *row_of(const struct control_field *table, enum control_from from,
					  struct str name, const char **nearest)
{
	const char *names[FIELDS_NAMED_MAX];
	size_t n = 0;

	for (; table->name; table++) {
		if (table->from != from)
			continue;
		if (str_eq(name, str_of(table->name)))
			return table;
		if (n < FIELDS_NAMED_MAX)
			names[n++] = table->name;
	}
	*nearest = diag_nearest(name, names, n);
	return NULL;
}

static void check_known(const struct control_field *table, enum control_from from, struct str name,
			struct control_errors *errors)
{
	const char *nearest = NULL;
	char text[64];

	if (row_of(table, from, name, &nearest))
		return;
	snprintf(text, sizeof(text), "%.*s", STR_ARG(name));
	if (nearest)
		add(errors, from, text, "is not known here: did you mean \"%s\"?", nearest);
	else
		add(errors, from, text, "is not known here: leave it out");
}

static void check_all_known(const struct control_field *table, const struct control_given *given,
			    struct control_errors *errors)
{
	void *i;

	for (size_t k = 0; k < given->query->n; k++)
		check_known(table, CONTROL_QUERY, given->query->items[k].name, errors);
	for (i = json_object_iter((json_t *)given->body); i;
	     i = json_object_iter_next((json_t *)given->body, i))
		check_known(table, CONTROL_BODY, str_of(json_object_iter_key(i)), errors);
}

/* What is not permitted is said first. */
static void check_allowed(const struct control_field *table, const struct control_given *given,
			  struct control_errors *errors)
{
	struct raw raw;

	for (; table->name; table++) {
		if (!table->root_only || given->root || !find(table, given, &raw))
			continue;
		say_help(table, errors, "may be given by root alone");
		errors->denied = true;
	}
}

void control_fields_read(const struct control_field *table, const struct control_given *given,
			 struct arena *arena, void *out, struct control_errors *errors)
{
	struct raw raw;

	check_allowed(table, given, errors);
	check_all_known(table, given, errors);
	for (const struct control_field *f = table; f->name; f++) {
		bool there = find(f, given, &raw);

		if (there && (given->root || !f->root_only))
			take(f, &raw, arena, out, errors);
		else if (!there && f->required)
			say_help(f, errors, "is missing");
	}
	if (arena->failed)
		add(errors, CONTROL_BODY, "", "%s", err_text(ERR_NOMEM));
}

/* ---- bodies ---- */

/* Before anything is built of it: how deep does it go? Brackets in texts do not count. */
static bool too_deep(struct str s)
{
	bool in_text = false;
	size_t depth = 0;

	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (in_text && c == '\\')
			i++;
		else if (c == '"')
			in_text = !in_text;
		else if (!in_text && (c == '{' || c == '['))
			depth++;
		else if (!in_text && (c == '}' || c == ']') && depth)
			depth--;
		if (depth > CONTROL_DEPTH_MAX)
			return true;
	}
	return false;
}

bool control_body_parse(struct str text, struct json_t **out, char why[CONTROL_WHY_MAX])
{
	json_error_t error;
	json_t *j;

	*out = NULL;
	if (too_deep(text)) {
		snprintf(why, CONTROL_WHY_MAX, "the body is over %u levels deep", CONTROL_DEPTH_MAX);
		return false;
	}
	j = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, &error);
	if (!j) {
		snprintf(why, CONTROL_WHY_MAX, "the body is no JSON: line %d, column %d: %s",
			 error.line, error.column, error.text);
		return false;
	}
	if (!json_is_object(j)) {
		snprintf(why, CONTROL_WHY_MAX, "the body is no JSON object: write {\"NAME\": VALUE, ...}");
		json_decref(j);
		return false;
	}
	*out = j;
	return true;
}
