#include "conf/schema.h"

#include <stdio.h>

#include "conf/amount.h"

#define ADVICE_MAX 512

struct walk {
	const char *what;
	char *out;
	struct diags *diags;
};

bool schema_parse_bool(struct str text, bool *out)
{
	if (!str_eq(text, STR("true")) && !str_eq(text, STR("false")))
		return false;
	*out = text.n == 4;
	return true;
}

/* ---- one value ---- */

static void store_amount(const struct walk *w, const struct schema_row *row, uint64_t v)
{
	uint32_t narrow = (uint32_t)v;

	if (row->type == SCHEMA_NUMBER)
		memcpy(w->out + row->offset, &narrow, sizeof(narrow));
	else
		memcpy(w->out + row->offset, &v, sizeof(v));
}

/* NUMBER, DURATION, SIZE: how such a thing is counted, and is said to be written. */
static enum amount amount_of(enum schema_type type)
{
	return type == SCHEMA_DURATION ? AMOUNT_DURATION
	     : type == SCHEMA_SIZE ? AMOUNT_SIZE : AMOUNT_NUMBER;
}

static const char *const forms[] = {
	[AMOUNT_NUMBER] = "a number",
	[AMOUNT_DURATION] = "a duration, such as 2s, 500ms or 1h",
	[AMOUNT_SIZE] = "a size, such as 64KiB or 10MiB",
};

const char *schema_written(enum schema_type type, uint64_t v, char *out, size_t n)
{
	return amount_written(amount_of(type), v, out, n);
}

static void fill_amount(const struct walk *w, const struct schema_row *row,
			const struct yaml_node *value)
{
	uint64_t v;
	uint64_t max = row->max ? row->max : row->type == SCHEMA_NUMBER ? UINT32_MAX : UINT64_MAX;
	char low[32], high[32];

	if (!amount_parse(amount_of(row->type), value->text, &v))
		diag_error(w->diags, value->at, NULL, "\"%s\" is %s, not \"%.*s\"", row->key,
			   forms[amount_of(row->type)], STR_ARG(value->text));
	else if (v < row->min || v > max)
		diag_error(w->diags, value->at, NULL, "\"%s\" must be from %s to %s", row->key,
			   schema_written(row->type, row->min, low, sizeof(low)),
			   schema_written(row->type, max, high, sizeof(high)));
	else
		store_amount(w, row, v);
}

static void fill_bool(const struct walk *w, const struct schema_row *row,
		      const struct yaml_node *value)
{
	bool v;

	if (schema_parse_bool(value->text, &v))
		memcpy(w->out + row->offset, &v, sizeof(v));
	else
		diag_error(w->diags, value->at, NULL, "\"%s\" is true or false, not \"%.*s\"",
			   row->key, STR_ARG(value->text));
}

static bool word_in(const char *words, struct str word)
{
	struct str rest = str_of(words);

	while (rest.n)
		if (str_eq(str_cut(&rest, ' '), word))
			return true;
	return false;
}

static void advise_choices(const struct schema_row *row, char *out, size_t n)
{
	size_t at = (size_t)snprintf(out, n, "it is");

	for (size_t i = 0; row->choices[i] && at < n; i++)
		at += (size_t)snprintf(out + at, n - at, "%s %s",
				       i == 0 ? "" : row->choices[i + 1] ? "," : " or", row->choices[i]);
}

static void fill_choice(const struct walk *w, const struct schema_row *row,
			const struct yaml_node *value)
{
	char advice[ADVICE_MAX];

	for (unsigned i = 0; row->choices[i]; i++)
		if (str_eq(value->text, str_of(row->choices[i]))) {
			memcpy(w->out + row->offset, &i, sizeof(i));
			return;
		}
	advise_choices(row, advice, sizeof(advice));
	if (row->later && word_in(row->later, value->text))
		diag_error(w->diags, value->at, advice,
			   "this version does not have \"%s: %.*s\"", row->key, STR_ARG(value->text));
	else
		diag_error(w->diags, value->at, advice, "\"%s\" cannot be \"%.*s\"", row->key,
			   STR_ARG(value->text));
}

static void fill_text(const struct walk *w, const struct schema_row *row,
		      const struct yaml_node *value)
{
	if (value->text.n == 0)
		diag_error(w->diags, value->at, NULL, "\"%s\" has no value", row->key);
	else if (row->max && value->text.n > row->max)
		diag_error(w->diags, value->at, NULL, "\"%s\" is longer than %llu bytes", row->key,
			   (unsigned long long)row->max);
	else
		memcpy(w->out + row->offset, &value->text, sizeof(value->text));
}

static bool too_many(const struct walk *w, const struct schema_row *row,
		     const struct yaml_node *value, size_t n)
{
	if (row->max == 0 || n <= row->max)
		return false;
	diag_error(w->diags, value->at, NULL, "\"%s\" has more than %llu items", row->key,
		   (unsigned long long)row->max);
	return true;
}

static void fill_list(const struct walk *w, const struct schema_row *row,
		      const struct yaml_node *value)
{
	bool good = !too_many(w, row, value, schema_count(value));

	if (!value->first) {
		diag_error(w->diags, value->at, "leave the key out, or write what it is to hold",
			   "\"%s\" is an empty list", row->key);
		return;
	}
	for (const struct yaml_node *i = value->first; i; i = i->next) {
		if (row->type != SCHEMA_TEXTS || i->kind == YAML_TEXT)
			continue;
		diag_error(w->diags, i->at, NULL, "an item of \"%s\" is text, not %s", row->key,
			   yaml_kind_name(i->kind));
		good = false;
	}
	if (good)
		memcpy(w->out + row->offset, &value, sizeof(value));
}

static bool read_rows(const struct schema_row *rows, const struct walk *w,
		      const struct yaml_node *map);

static void fill_map(const struct walk *w, const struct schema_row *row,
		     const struct yaml_node *value)
{
	struct walk inner = *w;

	if (row->type == SCHEMA_GROUP) {
		inner.what = row->key;
		(void)read_rows(row->rows, &inner, value);
	} else if (!too_many(w, row, value, schema_count(value) / 2)) {
		memcpy(w->out + row->offset, &value, sizeof(value));
	}
}

static enum yaml_kind kind_of(enum schema_type type)
{
	return type == SCHEMA_TEXTS || type == SCHEMA_LIST ? YAML_LIST
	     : type == SCHEMA_MAP || type == SCHEMA_GROUP ? YAML_MAP : YAML_TEXT;
}

static bool kind_fits(const struct walk *w, const struct schema_row *row,
		      const struct yaml_node *value)
{
	enum yaml_kind want = kind_of(row->type);
	char advice[ADVICE_MAX];

	if (value->kind == want)
		return true;
	if (want == YAML_LIST && value->kind == YAML_TEXT && value->text.n) {
		snprintf(advice, sizeof(advice), "write %s: [%.*s]", row->key,
			 value->text.n < 100 ? (int)value->text.n : 100, value->text.p);
		diag_error(w->diags, value->at, advice, "\"%s\" is a list", row->key);
		return false;
	}
	diag_error(w->diags, value->at,
		   want == YAML_LIST ? "each item of a list stands behind a \"- \", or all stand in [ ]" : NULL,
		   "\"%s\" is %s, not %s", row->key, yaml_kind_name(want),
		   value->kind == YAML_TEXT && !value->text.n ? "nothing" : yaml_kind_name(value->kind));
	return false;
}

static void fill(const struct walk *w, const struct schema_row *row, const struct yaml_node *value)
{
	const char *wrong;

	if (!kind_fits(w, row, value))
		return;
	wrong = row->check && value->kind == YAML_TEXT && value->text.n ? row->check(value->text)
									: NULL;
	if (wrong) {
		diag_error(w->diags, value->at, NULL, "\"%s\": %s", row->key, wrong);
		return;
	}
	switch (row->type) {
	case SCHEMA_TEXT:
		fill_text(w, row, value);
		break;
	case SCHEMA_BOOL:
		fill_bool(w, row, value);
		break;
	case SCHEMA_NUMBER:
	case SCHEMA_DURATION:
	case SCHEMA_SIZE:
		fill_amount(w, row, value);
		break;
	case SCHEMA_CHOICE:
		fill_choice(w, row, value);
		break;
	case SCHEMA_TEXTS:
	case SCHEMA_LIST:
		fill_list(w, row, value);
		break;
	case SCHEMA_MAP:
	case SCHEMA_GROUP:
		fill_map(w, row, value);
		break;
	case SCHEMA_LATER:
	case SCHEMA_END:
		break;
	}
}

/* ---- one map ---- */

static void tell_unknown(const struct walk *w, const struct schema_row *rows,
			 const struct yaml_node *key)
{
	const char *keys[SCHEMA_ROWS_MAX], *near;
	char advice[ADVICE_MAX];
	size_t n = 0;

	for (const struct schema_row *r = rows; r->type != SCHEMA_END && n < SCHEMA_ROWS_MAX; r++)
		if (r->type != SCHEMA_LATER)
			keys[n++] = r->key;
	near = diag_nearest(key->text, keys, n);
	if (near)
		snprintf(advice, sizeof(advice), "did you mean \"%s\"?", near);
	diag_error(w->diags, key->at, near ? advice : NULL, "unknown key \"%.*s\" in %s",
		   STR_ARG(key->text), w->what);
}

static void read_pair(const struct schema_row *rows, const struct walk *w,
		      const struct yaml_node *key)
{
	for (const struct schema_row *r = rows; r->type != SCHEMA_END; r++) {
		if (!str_eq(key->text, str_of(r->key)))
			continue;
		if (r->type == SCHEMA_LATER)
			diag_error(w->diags, key->at, r->help,
				   "this version does not have \"%s\" in %s", r->key, w->what);
		else
			fill(w, r, key->next);
		return;
	}
	tell_unknown(w, rows, key);
}

static void set_default(const struct walk *w, const struct schema_row *row)
{
	struct yaml_node text = { .kind = YAML_TEXT, .text = str_of(row->initial) };

	if (row->initial)
		fill(w, row, &text);
	for (const struct schema_row *r = row->rows; r && r->type != SCHEMA_END; r++)
		set_default(w, r);
}

static bool read_rows(const struct schema_row *rows, const struct walk *w,
		      const struct yaml_node *map)
{
	size_t before = w->diags->errors;

	for (const struct yaml_node *key = map->first; key; key = key->next->next)
		read_pair(rows, w, key);
	for (const struct schema_row *r = rows; r->type != SCHEMA_END; r++)
		if (r->required && !schema_key(map, r->key))
			diag_error(w->diags, map->at, r->help, "\"%s\" is missing in %s", r->key,
				   w->what);
	return w->diags->errors == before;
}

bool schema_read(const struct schema_row *rows, const char *what, const struct yaml_node *map,
		 void *out, struct diags *diags)
{
	struct walk w = { what, out, diags };

	for (const struct schema_row *r = rows; r->type != SCHEMA_END; r++)
		set_default(&w, r);
	if (map->kind == YAML_MAP)
		return read_rows(rows, &w, map);
	diag_error(diags, map->at, NULL, "%s: a map of keys is wanted, not %s", what,
		   map->kind == YAML_TEXT && !map->text.n ? "nothing" : yaml_kind_name(map->kind));
	return false;
}

const struct yaml_node *schema_key(const struct yaml_node *map, const char *key)
{
	for (const struct yaml_node *k = map->kind == YAML_MAP ? map->first : NULL; k;
	     k = k->next->next)
		if (str_eq(k->text, str_of(key)))
			return k;
	return NULL;
}

size_t schema_count(const struct yaml_node *list)
{
	size_t n = 0;

	for (const struct yaml_node *i = list ? list->first : NULL; i; i = i->next)
		n++;
	return n;
}
