#include "conf/schema_json.h"

#include "conf/json.h"

#define DIALECT "https://json-schema.org/draft/2020-12/schema"

static void put_map(struct json *j, const struct schema_row *rows);
static void put_row(struct json *j, const struct schema_row *row);

static void put_type(struct json *j, const char *type)
{
	json_put_str(j, "type", str_of(type));
}

/* A number that is written without a unit may come as a JSON number, too. */
static void put_types(struct json *j, const char *one, const char *other)
{
	json_key(j, "type");
	json_array(j);
	json_str(j, str_of(one));
	json_str(j, str_of(other));
	json_array_end(j);
}

static void put_choices(struct json *j, const struct schema_row *row)
{
	uint64_t number;

	json_key(j, "enum");
	json_array(j);
	for (const char *const *c = row->choices; *c; c++) {
		json_str(j, str_of(*c));
		if (str_to_u64(str_of(*c), UINT64_MAX, &number))
			json_u64(j, number);
	}
	json_array_end(j);
}

static void put_text(struct json *j, const char *pattern)
{
	put_type(j, "string");
	json_put_u64(j, "minLength", 1);
	if (pattern)
		json_put_str(j, "pattern", str_of(pattern));
}

static void put_texts(struct json *j, const struct schema_row *row)
{
	put_type(j, "array");
	json_put_u64(j, "minItems", 1);
	if (row->max)
		json_put_u64(j, "maxItems", row->max);
	if (row->type != SCHEMA_TEXTS)
		return;
	json_key(j, "items");
	json_object(j);
	put_type(j, "string");
	if (row->pattern)
		json_put_str(j, "pattern", str_of(row->pattern));
	json_object_end(j);
}

static void put_amount(struct json *j, const struct schema_row *row)
{
	if (row->type == SCHEMA_DURATION) {
		put_type(j, "string");
		json_put_str(j, "pattern", STR("^[0-9]+(ms|s|m|h|d)$"));
		return;
	}
	if (row->type == SCHEMA_SIZE) {
		put_types(j, "integer", "string");
		json_put_str(j, "pattern", STR("^[0-9]+(KiB|MiB|GiB)?$"));
	} else {
		put_type(j, "integer");
	}
	json_put_u64(j, "minimum", row->min);
	json_put_u64(j, "maximum", row->max ? row->max : UINT32_MAX);
}

static void put_each(struct json *j, const struct schema_row *row)
{
	put_type(j, "object");
	if (row->max)
		json_put_u64(j, "maxProperties", row->max);
	if (!row->each)
		return;
	json_key(j, "additionalProperties");
	json_object(j);
	put_row(j, row->each);
	json_object_end(j);
}

static void put_default(struct json *j, const struct schema_row *row)
{
	uint64_t number;

	if (!row->initial)
		return;
	json_key(j, "default");
	if (row->type == SCHEMA_BOOL)
		json_bool(j, str_eq(str_of(row->initial), STR("true")));
	else if (str_to_u64(str_of(row->initial), UINT64_MAX, &number))
		json_u64(j, number);
	else
		json_str(j, str_of(row->initial));
}

/* The members of the object that stands for one key. */
static void put_row(struct json *j, const struct schema_row *row)
{
	if (row->help)
		json_put_str(j, "description", str_of(row->help));
	switch (row->type) {
	case SCHEMA_TEXT:
		put_text(j, row->pattern);
		if (row->max)
			json_put_u64(j, "maxLength", row->max);
		break;
	case SCHEMA_BOOL:
		put_type(j, "boolean");
		break;
	case SCHEMA_NUMBER:
	case SCHEMA_DURATION:
	case SCHEMA_SIZE:
		put_amount(j, row);
		break;
	case SCHEMA_CHOICE:
		put_choices(j, row);
		break;
	case SCHEMA_TEXTS:
	case SCHEMA_LIST:
		put_texts(j, row);
		break;
	case SCHEMA_MAP:
		put_each(j, row);
		break;
	case SCHEMA_GROUP:
		put_map(j, row->rows);
		break;
	case SCHEMA_LATER:
	case SCHEMA_END:
		break;
	}
	put_default(j, row);
}

static void put_map(struct json *j, const struct schema_row *rows)
{
	put_type(j, "object");
	json_put_bool(j, "additionalProperties", false);
	json_key(j, "required");
	json_array(j);
	for (const struct schema_row *r = rows; r->type != SCHEMA_END; r++)
		if (r->required)
			json_str(j, str_of(r->key));
	json_array_end(j);
	json_key(j, "properties");
	json_object(j);
	for (const struct schema_row *r = rows; r->type != SCHEMA_END; r++) {
		if (r->type == SCHEMA_LATER)
			continue;
		json_key(j, r->key);
		json_object(j);
		put_row(j, r);
		json_object_end(j);
	}
	json_object_end(j);
}

void schema_json(const struct schema_row *rows, const char *title, struct buf *out)
{
	struct json j;

	json_init(&j, out);
	json_object(&j);
	json_put_str(&j, "$schema", STR(DIALECT));
	json_put_str(&j, "title", str_of(title));
	put_map(&j, rows);
	json_object_end(&j);
	buf_put_c(out, '\n');
}
