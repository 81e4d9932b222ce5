#include "conf/diag.h"

#include <stdarg.h>
#include <stdlib.h>

#include "conf/sort.h"
#include "conf/utf8.h"

/*
 * Theory of operation
 *
 * Diagnostics are kept in the order in which they are found and printed in the order of the file:
 * one pass over the text finds all their lines, so that a hundred of them in a file of one line of
 * 64 MB cost one reading of it.
 *
 * A place in the table goes to an error first: once the table is full, an error takes the place of
 * the last note or warning; what finds no place is counted.
 *
 * The line that is shown is a window of LINE_BEFORE + LINE_AFTER bytes around the column.
 */

#define LINE_BEFORE 60
#define LINE_AFTER 60
#define NEAREST_MAX 64

void diags_init(struct diags *d, struct str file, struct str text)
{
	*d = (struct diags){ .file = file, .text = text };
}

static void diag_clear(struct diag *item)
{
	free(item->text);
	free(item->advice);
	*item = (struct diag){ 0 };
}

void diags_free(struct diags *d)
{
	for (size_t i = 0; i < d->n; i++)
		diag_clear(&d->items[i]);
	free(d->items);
	diags_init(d, STR_NONE, STR_NONE);
}

/* A free row, for an error also one that something lesser had. */
static struct diag *take_row(struct diags *d, enum diag_level level)
{
	if (!d->items)
		d->items = calloc(DIAGS_MAX, sizeof(*d->items));
	if (!d->items)
		return NULL;
	if (d->n < DIAGS_MAX)
		return &d->items[d->n++];
	for (size_t i = d->n; level == DIAG_ERROR && i-- > 0;)
		if (d->items[i].level != DIAG_ERROR) {
			diag_clear(&d->items[i]);
			d->dropped++;
			return &d->items[i];
		}
	return NULL;
}

void diag_add(struct diags *d, enum diag_level level, struct mark at, const char *advice,
	      const char *fmt, ...)
{
	struct diag *row = take_row(d, level);
	va_list ap;

	if (level == DIAG_ERROR)
		d->errors++;
	else if (level == DIAG_WARNING)
		d->warnings++;
	if (!row) {
		d->dropped++;
		return;
	}
	row->level = level;
	row->at = at;
	va_start(ap, fmt);
	if (vasprintf(&row->text, fmt, ap) < 0)
		row->text = NULL;
	va_end(ap);
	row->advice = advice ? strdup(advice) : NULL;
}

/* Marks that a terminal acts upon without showing them: zero width, direction. */
static bool is_invisible(uint32_t c)
{
	return (c >= 0x80 && c < 0xa0) || c == 0xad || c == 0x61c || (c >= 0x200b && c <= 0x200f) ||
	       (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff;
}

/* Writes @s so that no byte of it can drive a terminal (NULL: only measures); returns the columns
 * it takes. */
static size_t put_escaped(struct str s, FILE *to)
{
	size_t columns = 0;

	while (s.n) {
		uint32_t c = 0;
		size_t n = utf8_next(s, &c);
		bool plain = n > 0 && c >= 0x20 && c != 0x7f && !is_invisible(c);

		if (n == 0)
			n = 1;
		for (size_t i = 0; to && i < n; i++) {
			if (plain)
				fputc(s.p[i], to);
			else
				fprintf(to, "\\x%02x", (unsigned char)s.p[i]);
		}
		columns += plain ? 1 : 4 * n;
		s = str_from(s, n);
	}
	return columns;
}

static void put_times(char c, size_t n, FILE *to)
{
	while (n--)
		fputc(c, to);
}

/* @column: 0-based, in bytes. */
static void put_line(struct str line, const struct mark *at, FILE *to)
{
	size_t column = at->column ? at->column - 1 : 0, start, end, len = at->len ? at->len : 1;
	int width = snprintf(NULL, 0, "%u", at->line);

	if (column > line.n)
		column = line.n;
	start = column > LINE_BEFORE ? column - LINE_BEFORE : 0;
	while (start > 0 && start < column && ((unsigned char)line.p[start] & 0xc0) == 0x80)
		start++;
	end = line.n - column > LINE_AFTER ? column + LINE_AFTER : line.n;
	while (end < line.n && end > column && ((unsigned char)line.p[end] & 0xc0) == 0x80)
		end--;
	if (len > end - column)
		len = end - column;
	fprintf(to, "  %u | ", at->line);
	put_escaped(str_n(line.p + start, end - start), to);
	fprintf(to, "\n  %*s | ", width, "");
	put_times(' ', put_escaped(str_n(line.p + start, column - start), NULL), to);
	len = put_escaped(str_n(line.p + column, len), NULL);
	fputc('^', to);
	put_times('~', len > 1 ? len - 1 : 0, to);
	fputc('\n', to);
}

/* Where the pass over the text has come to. */
struct reading {
	struct str rest;	/* from the start of the line on */
	uint32_t line;
};

static struct str line_at(struct reading *r, uint32_t line)
{
	struct str found;

	while (r->line < line && r->rest.n) {
		size_t end = str_find(r->rest, '\n');

		r->rest = str_from(r->rest, end < r->rest.n ? end + 1 : end);
		r->line++;
	}
	found = str_n(r->rest.p, str_find(r->rest, '\n'));
	if (found.n && found.p[found.n - 1] == '\r')
		found.n--;
	return found;
}

static int by_position(const void *a, const void *b)
{
	const struct diag *x = a, *y = b;

	if (x->at.line != y->at.line)
		return x->at.line < y->at.line ? -1 : 1;
	if (x->at.column != y->at.column)
		return x->at.column < y->at.column ? -1 : 1;
	return x < y ? -1 : x > y;
}

static void put_diag(const struct diags *d, const struct diag *item, struct reading *r, FILE *to)
{
	static const char *const levels[] = { "error", "warning", "note" };
	int width = snprintf(NULL, 0, "%u", item->at.line);

	put_escaped(d->file, to);
	if (item->at.line)
		fprintf(to, ":%u:%u", item->at.line, item->at.column);
	fprintf(to, ": %s: ", levels[item->level]);
	put_escaped(str_of(item->text ? item->text : "(out of memory)"), to);
	fputc('\n', to);
	if (item->at.line)
		put_line(line_at(r, item->at.line), &item->at, to);
	if (item->advice) {
		fprintf(to, "  %*s   ", item->at.line ? width : 0, "");
		put_escaped(str_of(item->advice), to);
		fputc('\n', to);
	}
}

void diags_print(const struct diags *d, FILE *to)
{
	const void *sorted[DIAGS_MAX];
	struct reading r = { d->text, 1 };

	for (size_t i = 0; i < d->n; i++)
		sorted[i] = &d->items[i];
	sort_pointers(sorted, d->n, by_position);
	for (size_t i = 0; i < d->n; i++)
		put_diag(d, sorted[i], &r, to);
	if (d->dropped) {
		put_escaped(d->file, to);
		fprintf(to, ": and %zu more that are not shown\n", d->dropped);
	}
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Optimal string alignment: insertions, deletions, changes and swaps of neighbours, case aside. */
static size_t distance(struct str a, struct str b)
{
	size_t rows[3][NEAREST_MAX + 1] = { { 0 } };
	size_t *before = rows[0], *last = rows[1], *now = rows[2], *spare;

	for (size_t j = 0; j <= b.n; j++)
		last[j] = j;
	for (size_t i = 1; i <= a.n; i++) {
		now[0] = i;
		for (size_t j = 1; j <= b.n; j++) {
			bool same = ascii_lower(a.p[i - 1]) == ascii_lower(b.p[j - 1]);

			now[j] = least(last[j - 1] + !same, least(last[j], now[j - 1]) + 1);
			if (i > 1 && j > 1 && ascii_lower(a.p[i - 1]) == ascii_lower(b.p[j - 2]) &&
			    ascii_lower(a.p[i - 2]) == ascii_lower(b.p[j - 1]))
				now[j] = least(now[j], before[j - 2] + 1);
		}
		spare = before;
		before = last;
		last = now;
		now = spare;
	}
	return last[b.n];
}

const char *diag_nearest(struct str word, const char *const *candidates, size_t n)
{
	const char *best = NULL;
	size_t best_distance = word.n / 3 + 1;

	if (word.n == 0 || word.n > NEAREST_MAX)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		struct str candidate = str_of(candidates[i]);
		size_t d;

		if (candidate.n > NEAREST_MAX)
			continue;
		d = distance(word, candidate);
		if (d < candidate.n && (d < best_distance || (!best && d == best_distance))) {
			best = candidates[i];
			best_distance = d;
		}
	}
	return best;
}
