#include "conf/schema_show.h"

#include "conf/json.h"

#define KEY_MAX 1024
#define VALUE_COLUMN 40

struct show {
	struct str file;
	struct buf *out;
	struct json json;	/* with .out, where JSON is wanted */
	struct buf path;	/* "limits.idle" */
};

/* ---- one key ---- */

static bool is_plain(struct str text)
{
	for (size_t i = 0; i < text.n; i++)
		if (text.p[i] < ' ' || text.p[i] > '~')
			return false;
	return text.n > 0;
}

static void put_text(struct show *s, struct str text)
{
	struct json j;

	if (is_plain(text)) {
		buf_put_str(s->out, text);
		return;
	}
	json_init(&j, s->out);
	json_str(&j, text);
}

static void put_value(struct show *s, const struct schema_row *row, const struct yaml_node *value)
{
	if (!value) {
		if (row->initial)
			buf_put_str(s->out, str_of(row->initial));
		else
			buf_printf(s->out, "(%s)", row->without ? row->without : "not set");
	} else if (value->kind == YAML_TEXT) {
		put_text(s, value->text);
	} else {
		buf_put_c(s->out, '[');
		for (const struct yaml_node *i = value->first; i; i = i->next) {
			put_text(s, i->text);
			buf_put_str(s->out, i->next ? STR(", ") : STR_NONE);
		}
		buf_put_c(s->out, ']');
	}
}

static void put_line(struct show *s, const struct schema_row *row, const struct yaml_node *value)
{
	size_t start = s->out->n;

	put_text(s, buf_str(&s->path));
	buf_put_str(s->out, STR(": "));
	put_value(s, row, value);
	do {
		buf_put_c(s->out, ' ');
	} while (s->out->n - start < VALUE_COLUMN && !s->out->failed);
	if (value)
		buf_printf(s->out, "# %.*s:%u\n", STR_ARG(s->file), value->at.line);
	else
		buf_put_str(s->out, STR("# default\n"));
}

static void put_json_value(struct json *j, const struct schema_row *row,
			   const struct yaml_node *value)
{
	json_key(j, "value");
	if (value && value->kind == YAML_LIST) {
		json_array(j);
		for (const struct yaml_node *i = value->first; i; i = i->next)
			json_str(j, i->text);
		json_array_end(j);
	} else if (value || row->initial) {
		json_str(j, value ? value->text : str_of(row->initial));
	} else {
		json_null(j);
		if (row->without)
			json_put_str(j, "without", str_of(row->without));
	}
}

static void put_json(struct show *s, const struct schema_row *row, const struct yaml_node *value)
{
	struct json *j = &s->json;

	json_object(j);
	json_put_str(j, "key", buf_str(&s->path));
	put_json_value(j, row, value);
	json_put_str(j, "from", value ? STR("file") : STR("default"));
	if (value)
		json_put_u64(j, "line", value->at.line);
	json_object_end(j);
}

/* ---- walking ---- */

static void show_rows(struct show *s, const struct schema_row *rows, const struct yaml_node *map);

/* @value NULL: it is not written. */
static void show_row(struct show *s, const struct schema_row *row, struct str key,
		     const struct yaml_node *value)
{
	size_t before = s->path.n;

	if (row->type == SCHEMA_LATER)
		return;
	buf_put_str(&s->path, before ? STR(".") : STR_NONE);
	buf_put_str(&s->path, key);
	if (row->type == SCHEMA_GROUP) {
		show_rows(s, row->rows, value);
	} else if (row->type == SCHEMA_MAP && row->each && value && value->first) {
		for (const struct yaml_node *k = value->first; k; k = k->next->next)
			show_row(s, row->each, k->text, k->next);
	} else if (s->json.out) {
		put_json(s, row, row->type == SCHEMA_MAP ? NULL : value);
	} else {
		put_line(s, row, row->type == SCHEMA_MAP ? NULL : value);
	}
	s->path.n = before;
}

static void show_rows(struct show *s, const struct schema_row *rows, const struct yaml_node *map)
{
	for (; rows->type != SCHEMA_END; rows++) {
		const struct yaml_node *key = map ? schema_key(map, rows->key) : NULL;

		show_row(s, rows, str_of(rows->key), key ? key->next : NULL);
	}
}

void schema_show(const struct schema_row *rows, const struct yaml_node *map, struct str file,
		 bool json, struct buf *out)
{
	struct show s = { .file = file, .out = out };

	buf_init(&s.path, KEY_MAX);
	if (json) {
		json_init(&s.json, out);
		json_object(&s.json);
		json_key(&s.json, "file");
		if (map)
			json_str(&s.json, file);
		else
			json_null(&s.json);
		json_key(&s.json, "keys");
		json_array(&s.json);
	}
	show_rows(&s, rows, map);
	if (json) {
		json_array_end(&s.json);
		json_object_end(&s.json);
		buf_put_c(out, '\n');
	}
	buf_free(&s.path);
}
