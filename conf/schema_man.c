#include "conf/schema_man.h"

#define KEY_MAX 256

struct man {
	struct buf *out;
	struct buf path;	/* "limits.idle" */
};

/* Running text in mdoc: a backslash starts an escape, a dot or quote at its start a request. */
static void put_text(struct buf *out, const char *text)
{
	if (*text == '.' || *text == '\'')
		buf_put_str(out, STR("\\&"));
	for (; *text; text++) {
		if (*text == '\\')
			buf_put_str(out, STR("\\e"));
		else if (*text == '~')
			buf_put_str(out, STR("\\(ti"));
		else if (*text == '-')
			buf_put_str(out, STR("\\-"));
		else
			buf_put_c(out, *text);
	}
}

/* A row's help is a sentence without its beginning and its end. */
static void put_sentence(struct buf *out, const char *help)
{
	if (help[0] >= 'a' && help[0] <= 'z') {
		buf_put_c(out, (char)(*help - 'a' + 'A'));
		help++;
	}
	put_text(out, help);
	buf_put_str(out, STR(".\n"));
}

static void put_choices(struct buf *out, const struct schema_row *row)
{
	for (size_t i = 0; row->choices[i]; i++)
		buf_printf(out, "%s%s", i ? " | " : "", row->choices[i]);
}

/* What is written behind the key. */
static void put_form(struct buf *out, const struct schema_row *row)
{
	switch (row->type) {
	case SCHEMA_TEXT:
		buf_put_str(out, row->pattern && row->pattern[1] == '/' ? STR("path") : STR("text"));
		break;
	case SCHEMA_BOOL:
		buf_put_str(out, STR("true | false"));
		break;
	case SCHEMA_NUMBER:
		buf_put_str(out, STR("number"));
		break;
	case SCHEMA_DURATION:
		buf_put_str(out, STR("duration"));
		break;
	case SCHEMA_SIZE:
		buf_put_str(out, STR("size"));
		break;
	case SCHEMA_CHOICE:
		put_choices(out, row);
		break;
	case SCHEMA_TEXTS:
	case SCHEMA_LIST:
		buf_put_str(out, STR("list"));
		break;
	case SCHEMA_MAP:
	case SCHEMA_GROUP:
		buf_put_str(out, STR("map"));
		break;
	case SCHEMA_LATER:
	case SCHEMA_END:
		break;
	}
}

static void put_range(struct buf *out, const struct schema_row *row)
{
	char low[32], high[32];

	if (row->type == SCHEMA_NUMBER || row->type == SCHEMA_DURATION || row->type == SCHEMA_SIZE)
		buf_printf(out, "From %s to %s.\n",
			   schema_written(row->type, row->min, low, sizeof(low)),
			   schema_written(row->type, row->max ? row->max : UINT32_MAX, high,
					  sizeof(high)));
	else if (row->type == SCHEMA_TEXT && row->max)
		buf_printf(out, "At most %llu bytes.\n", (unsigned long long)row->max);
	else if (row->max)
		buf_printf(out, "At most %llu.\n", (unsigned long long)row->max);
}

static void put_default(struct buf *out, const struct schema_row *row)
{
	if (row->required) {
		buf_put_str(out, STR("It must be there.\n"));
	} else if (row->initial) {
		buf_put_str(out, STR("Default:\n.Ql "));
		put_text(out, row->initial);
		buf_put_str(out, STR(" .\n"));
	} else if (row->without) {
		buf_put_str(out, STR("Without it: "));
		put_text(out, row->without);
		buf_put_str(out, STR(".\n"));
	}
}

static void put_item(struct man *m, const struct schema_row *row)
{
	buf_put_str(m->out, STR(".It Ic "));
	put_text(m->out, m->path.p);
	buf_put_str(m->out, STR(" : Ar "));
	put_form(m->out, row);
	buf_put_c(m->out, '\n');
	if (row->help)
		put_sentence(m->out, row->help);
	put_range(m->out, row);
	put_default(m->out, row);
}

static void put_rows(struct man *m, const struct schema_row *rows);

static void put_row(struct man *m, const struct schema_row *row)
{
	size_t before = m->path.n;

	buf_printf(&m->path, "%s%s", before ? "." : "", row->key);
	if (m->path.failed)
		return;
	put_item(m, row);
	if (row->type == SCHEMA_GROUP)
		put_rows(m, row->rows);
	else if (row->each)
		put_row(m, row->each);
	m->path.n = before;
}

static void put_rows(struct man *m, const struct schema_row *rows)
{
	for (; rows->type != SCHEMA_END; rows++)
		if (rows->type != SCHEMA_LATER)
			put_row(m, rows);
}

void schema_man(const struct schema_row *rows, struct buf *out)
{
	struct man m = { .out = out };

	buf_init(&m.path, KEY_MAX);
	buf_put_str(out, STR(".Bl -tag -width Ds\n"));
	put_rows(&m, rows);
	buf_put_str(out, STR(".El\n"));
	out->failed |= m.path.failed;
	buf_free(&m.path);
}
