#include "proxy/show.h"

#include <jansson.h>
#include <string.h>

#include "conf/utf8.h"
#include "proxy/log_tail.h"

#define TEXT_MAX (1u << 20)
#define GAP 2
#define INDENT "  "

void show_text(FILE *to, struct str text)
{
	struct buf out;

	buf_init(&out, TEXT_MAX);
	log_tail_escape(text, &out);
	fwrite(out.p ? out.p : "", 1, out.n, to);
	buf_free(&out);
}

/* ---- values ---- */

static const json_t *find(const json_t *object, const char *member)
{
	struct str rest = str_of(member);
	char key[32];

	while (rest.p && object) {
		struct str part = str_cut(&rest, '.');

		snprintf(key, sizeof(key), "%.*s", STR_ARG(part));
		object = json_object_get(object, key);
	}
	return object;
}

static void put_bytes(json_int_t v, struct buf *out)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double n = (double)v;
	size_t unit = 0;

	while (n >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		n /= 1024;
		unit++;
	}
	buf_printf(out, unit ? "%.1f %s" : "%.0f %s", n, units[unit]);
}

/* Texts are escaped; nothing is put for what is no single value. */
static void put_value(const json_t *j, enum show_as as, struct buf *out)
{
	if (json_is_string(j))
		log_tail_escape(str_n(json_string_value(j), json_string_length(j)), out);
	else if (json_is_integer(j) && as == SHOW_BYTES)
		put_bytes(json_integer_value(j), out);
	else if (json_is_integer(j))
		buf_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(j));
	else if (json_is_boolean(j))
		buf_put_str(out, json_is_true(j) ? STR("yes") : STR("no"));
}

/* ---- columns ---- */

static size_t width(struct str s)
{
	size_t n = 0;
	uint32_t code;

	for (; s.n; n++) {
		size_t bytes = utf8_next(s, &code);

		s = str_from(s, bytes ? bytes : 1);
	}
	return n;
}

static void put_cell(const struct show_column *c, const json_t *row, struct buf *out)
{
	out->n = 0;
	put_value(find(row, c->member), c->as, out);
	if (out->n == 0)
		buf_put_c(out, '-');
}

static void pad(FILE *to, size_t n)
{
	while (n--)
		fputc(' ', to);
}

static void print_cell(FILE *to, struct str cell, size_t wide, bool last)
{
	fwrite(cell.p, 1, cell.n, to);
	if (last)
		fputc('\n', to);
	else
		pad(to, wide - width(cell) + GAP);
}

void show_table(FILE *to, const struct show_column *columns, size_t n, const struct json_t *rows)
{
	size_t wide[SHOW_COLUMNS_MAX], i;
	struct buf cell;
	const json_t *row;

	if (n > SHOW_COLUMNS_MAX)
		n = SHOW_COLUMNS_MAX;
	buf_init(&cell, TEXT_MAX);
	for (size_t c = 0; c < n; c++) {
		wide[c] = strlen(columns[c].title);
		json_array_foreach(rows, i, row) {
			put_cell(&columns[c], row, &cell);
			if (width(buf_str(&cell)) > wide[c])
				wide[c] = width(buf_str(&cell));
		}
	}
	for (size_t c = 0; c < n; c++)
		print_cell(to, str_of(columns[c].title), wide[c], c + 1 == n);
	json_array_foreach(rows, i, row) {
		for (size_t c = 0; c < n; c++) {
			put_cell(&columns[c], row, &cell);
			print_cell(to, buf_str(&cell), wide[c], c + 1 == n);
		}
	}
	buf_free(&cell);
}

static void print_lines(FILE *to, struct str text)
{
	fputc('\n', to);
	while (text.n) {
		fputs(INDENT, to);
		show_text(to, str_cut(&text, '\n'));
		fputc('\n', to);
	}
}

void show_members(FILE *to, const struct show_column *members, size_t n,
		  const struct json_t *object)
{
	size_t wide = 0;
	struct buf cell;

	for (size_t i = 0; i < n; i++)
		if (find(object, members[i].member) && strlen(members[i].title) > wide)
			wide = strlen(members[i].title);
	buf_init(&cell, TEXT_MAX);
	for (size_t i = 0; i < n; i++) {
		const json_t *value = find(object, members[i].member);
		const char *text = json_string_value(value);

		if (!value || json_is_null(value))
			continue;
		fputs(members[i].title, to);
		if (text && strchr(text, '\n')) {
			print_lines(to, str_of(text));
			continue;
		}
		pad(to, wide - strlen(members[i].title) + GAP);
		put_cell(&members[i], object, &cell);
		print_cell(to, buf_str(&cell), 0, true);
	}
	buf_free(&cell);
}
