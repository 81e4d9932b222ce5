#include "conf/yaml.h"

#include <stdlib.h>
#include <yaml.h>

#include "conf/arena.h"
#include "conf/sort.h"
#include "conf/utf8.h"

/*
 * Theory of operation
 *
 * Two passes. The first looks at bytes alone and refuses what a reader of the file could not see or
 * two programs could read differently: NUL and other controls, text that is no UTF-8, tabs as
 * indentation, and line breaks that only YAML knows (a lone CR, NEL, LS, PS), which would put every
 * later line number out. Then libyaml turns the text into events and this file turns events into
 * nodes; it stops at the first syntax error, but goes on past what is only not in the subset, so
 * that all of that is told at once.
 *
 * libyaml counts characters, diagnostics count bytes: a cursor walks along with the events and
 * translates. Events come nearly in order, so all translations together cost one pass.
 *
 * Memory is bounded by the text: nodes and texts lie in an arena. Depth is checked as the
 * events come, before libyaml's own work per token can grow with it. Duplicate keys are found by
 * sorting a map's keys once it is complete.
 */

#define SYNTAX_ERRORS_MAX 10		/* byte-level errors that are told one by one */
#define FEW_KEYS 8			/* maps so small are compared pair by pair */

struct yaml {
	struct arena arena;
	struct yaml_node *root;
	size_t nodes;
};

struct level {
	struct yaml_node *node;
	struct yaml_node *last;
	size_t items;
};

struct cursor {
	struct str text;
	size_t index, byte, line_start;
};

struct parse {
	struct yaml *y;
	struct diags *diags;
	struct cursor cursor;
	struct level stack[YAML_DEPTH_MAX];
	size_t depth;
	size_t documents;
	bool stop;
};

void yaml_release(struct yaml *y)
{
	if (y)
		arena_free(&y->arena);
	free(y);
}

const struct yaml_node *yaml_root(const struct yaml *y)
{
	return y->root;
}

const char *yaml_kind_name(enum yaml_kind k)
{
	return k == YAML_TEXT ? "text" : k == YAML_LIST ? "a list" : "a map";
}

/* ---- bytes ---- */

static const char *bad_character(struct str at, size_t n, uint32_t c, const char **advice)
{
	*advice = NULL;
	if (n == 0)
		return "text that is no UTF-8";
	if (c == 0xfeff) {
		*advice = "save the file as plain UTF-8, without a byte order mark";
		return "a byte order mark";
	}
	if (c == '\r' && (at.n < 2 || at.p[1] != '\n'))
		return "a carriage return that ends no line";
	if (c == 0x85 || c == 0x2028 || c == 0x2029)
		return "a line break that editors do not show";
	if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || (c >= 0x7f && c < 0xa0))
		return c == 0 ? "a NUL byte" : "a control character";
	return NULL;
}

/* The first pass. False: something was found. */
static bool check_bytes(struct str text, struct diags *diags)
{
	struct mark at = { 1, 1, 1 };
	bool indent = true;
	size_t found = 0, n;

	for (size_t i = 0; i < text.n && found < SYNTAX_ERRORS_MAX; i += n) {
		uint32_t c = (unsigned char)text.p[i];
		const char *advice = NULL, *what = NULL;

		n = c < 0x80 ? 1 : utf8_next(str_from(text, i), &c);
		if (n == 0 || c < 0x20 || c >= 0x7f)
			what = bad_character(str_from(text, i), n, c, &advice);
		if (!what && indent && c == '\t') {
			what = "a tab as indentation";
			advice = "indent with spaces";
			indent = false;
		}
		if (what) {
			diag_error(diags, at, advice, "%s", what);
			found++;
		}
		if (n == 0)
			n = 1;
		indent = c == '\n' || (indent && c == ' ');
		at.column += (uint32_t)n;
		if (c == '\n')
			at = (struct mark){ at.line + 1, 1, 1 };
	}
	return found == 0;
}

/* ---- places ---- */

static bool is_continuation(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

static void cursor_seek(struct cursor *c, size_t index)
{
	while (c->index < index && c->byte < c->text.n) {
		if (c->text.p[c->byte] == '\n')
			c->line_start = c->byte + 1;
		do
			c->byte++;
		while (c->byte < c->text.n && is_continuation(c->text.p[c->byte]));
		c->index++;
	}
	while (c->index > index && c->byte > 0) {
		do
			c->byte--;
		while (c->byte > 0 && is_continuation(c->text.p[c->byte]));
		c->index--;
	}
	if (c->byte < c->line_start) {
		const char *nl = memrchr(c->text.p, '\n', c->byte);

		c->line_start = nl ? (size_t)(nl - c->text.p) + 1 : 0;
	}
}

static struct mark mark_of(struct parse *p, const yaml_mark_t *from, const yaml_mark_t *to)
{
	struct mark at = { .line = (uint32_t)from->line + 1, .len = 1 };

	cursor_seek(&p->cursor, from->index);
	at.column = (uint32_t)(p->cursor.byte - p->cursor.line_start) + 1;
	if (to && to->line == from->line && to->index > from->index)
		at.len = (uint32_t)(to->index - from->index);
	return at;
}

/* ---- nodes ---- */

static void fail(struct parse *p, struct mark at, const char *text, const char *advice)
{
	diag_error(p->diags, at, advice, "%s", text);
	p->stop = true;
}

static struct yaml_node *add_node(struct parse *p, enum yaml_kind kind, struct mark at)
{
	struct yaml_node *node;
	struct level *up = p->depth ? &p->stack[p->depth - 1] : NULL;

	if (p->y->nodes >= YAML_NODES_MAX) {
		fail(p, at, "too many values in one file", NULL);
		return NULL;
	}
	node = arena_take(&p->y->arena, 1, sizeof(*node));
	if (!node) {
		fail(p, at, "out of memory", NULL);
		return NULL;
	}
	p->y->nodes++;
	*node = (struct yaml_node){ .kind = kind, .at = at };
	if (!up) {
		if (!p->y->root)
			p->y->root = node;
		return node;
	}
	if (up->last)
		up->last->next = node;
	else
		up->node->first = node;
	up->last = node;
	up->items++;
	return node;
}

/* Is the next value a key of a map? */
static bool at_key(const struct parse *p)
{
	const struct level *up = p->depth ? &p->stack[p->depth - 1] : NULL;

	return up && up->node->kind == YAML_MAP && up->items % 2 == 0;
}

static void refuse_extras(struct parse *p, struct mark at, const void *anchor, const void *tag)
{
	if (anchor)
		diag_error(p->diags, at, "write the value out where it is meant",
			   "anchors are not part of this language");
	if (tag)
		diag_error(p->diags, at, "leave it out: what a value is, its key says",
			   "tags are not part of this language");
}

static void open_node(struct parse *p, const yaml_event_t *e, enum yaml_kind kind)
{
	struct mark at = mark_of(p, &e->start_mark, NULL);
	struct yaml_node *node;

	if (kind == YAML_MAP)
		refuse_extras(p, at, e->data.mapping_start.anchor, e->data.mapping_start.tag);
	else
		refuse_extras(p, at, e->data.sequence_start.anchor, e->data.sequence_start.tag);
	if (at_key(p))
		diag_error(p->diags, at, "a key is one word of text",
			   "%s as a key", yaml_kind_name(kind));
	if (p->depth == YAML_DEPTH_MAX) {
		fail(p, at, "nested too deep", NULL);
		return;
	}
	node = add_node(p, kind, at);
	if (node)
		p->stack[p->depth++] = (struct level){ .node = node };
}

static void add_text(struct parse *p, const yaml_event_t *e)
{
	struct mark at = mark_of(p, &e->start_mark, &e->end_mark);
	struct str s = str_n((const char *)e->data.scalar.value, e->data.scalar.length);
	bool quoted = e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE, key = at_key(p);
	struct yaml_node *node;
	refuse_extras(p, at, e->data.scalar.anchor, e->data.scalar.tag);
	if (s.n && memchr(s.p, '\0', s.n))
		diag_error(p->diags, at, NULL, "a NUL byte in a text");
	if (key && !quoted && str_eq(s, STR("<<")))
		diag_error(p->diags, at, "write the keys out where they are meant",
			   "merge keys are not part of this language");
	else if (key && s.n == 0)
		diag_error(p->diags, at, NULL, "an empty key");
	node = add_node(p, YAML_TEXT, at);
	if (!node)
		return;
	node->text = arena_copy(&p->y->arena, s);
	if (!node->text.p)
		fail(p, at, "out of memory", NULL);
	node->quoted = quoted;
}

static void add_alias(struct parse *p, const yaml_event_t *e)
{
	struct mark at = mark_of(p, &e->start_mark, &e->end_mark);

	diag_error(p->diags, at, "a text that starts with '*' must stand in quotes",
		   "aliases are not part of this language");
	(void)add_node(p, YAML_TEXT, at);
}

/* ---- duplicate keys ---- */

static int compare_keys(const struct yaml_node *a, const struct yaml_node *b)
{
	size_t n = a->text.n < b->text.n ? a->text.n : b->text.n;
	int order = n ? memcmp(a->text.p, b->text.p, n) : 0;

	if (order == 0 && a->text.n != b->text.n)
		order = a->text.n < b->text.n ? -1 : 1;
	return order;
}

static int by_key(const void *a, const void *b)
{
	const struct yaml_node *x = a, *y = b;
	int order = compare_keys(x, y);

	if (order == 0 && x->at.line != y->at.line)
		order = x->at.line < y->at.line ? -1 : 1;
	if (order == 0)
		order = x->at.column < y->at.column ? -1 : x->at.column > y->at.column;
	return order;
}

static void tell_duplicate(struct parse *p, const struct yaml_node *first,
			   const struct yaml_node *again)
{
	diag_error(p->diags, again->at, NULL, "the key \"%.*s\" is there twice: first in line %u",
		   STR_ARG(again->text), first->at.line);
}

static void find_duplicates_sorted(struct parse *p, const struct yaml_node *map, size_t keys)
{
	const void **v = calloc(keys, sizeof(*v));
	const struct yaml_node *key = map->first;
	size_t n = 0, first = 0;

	if (!v) {
		fail(p, map->at, "out of memory", NULL);
		return;
	}
	for (; key && n < keys; key = key->next ? key->next->next : NULL)
		if (key->kind == YAML_TEXT)
			v[n++] = key;
	sort_pointers(v, n, by_key);
	for (size_t i = 1; i < n; i++) {
		if (compare_keys(v[first], v[i]) == 0)
			tell_duplicate(p, v[first], v[i]);
		else
			first = i;
	}
	free(v);
}

static void find_duplicates(struct parse *p, const struct level *map)
{
	size_t keys = map->items / 2;

	if (keys > FEW_KEYS) {
		find_duplicates_sorted(p, map->node, keys);
		return;
	}
	for (const struct yaml_node *a = map->node->first; a; a = a->next->next)
		for (const struct yaml_node *b = map->node->first; b != a; b = b->next->next)
			if (a->kind == YAML_TEXT && b->kind == YAML_TEXT &&
			    str_eq(a->text, b->text)) {
				tell_duplicate(p, b, a);
				break;
			}
}

/* ---- events ---- */

static void open_document(struct parse *p, const yaml_event_t *e)
{
	struct mark at = mark_of(p, &e->start_mark, NULL);

	if (++p->documents > 1) {
		fail(p, at, "a second document in one file", "one file, one document");
		return;
	}
	if (e->data.document_start.version_directive ||
	    e->data.document_start.tag_directives.start !=
		    e->data.document_start.tag_directives.end)
		diag_error(p->diags, at, "leave the line that starts with '%' out",
			   "directives are not part of this language");
}

static void take_event(struct parse *p, const yaml_event_t *e)
{
	switch (e->type) {
	case YAML_NO_EVENT:
	case YAML_STREAM_START_EVENT:
	case YAML_DOCUMENT_END_EVENT:
		break;
	case YAML_STREAM_END_EVENT:
		p->stop = true;
		break;
	case YAML_DOCUMENT_START_EVENT:
		open_document(p, e);
		break;
	case YAML_ALIAS_EVENT:
		add_alias(p, e);
		break;
	case YAML_SCALAR_EVENT:
		add_text(p, e);
		break;
	case YAML_SEQUENCE_START_EVENT:
		open_node(p, e, YAML_LIST);
		break;
	case YAML_MAPPING_START_EVENT:
		open_node(p, e, YAML_MAP);
		break;
	case YAML_MAPPING_END_EVENT:
		find_duplicates(p, &p->stack[p->depth - 1]);
		p->depth--;
		break;
	case YAML_SEQUENCE_END_EVENT:
		p->depth--;
		break;
	}
}

/* libyaml tells what it was doing; for the mistakes that people make, this tells what they did. */
static const struct {
	const char *doing, *problem;	/* NULL: any */
	const char *text, *advice;
} mistakes[] = {
	{ "while scanning an alias", NULL, "a text that starts with '*' must stand in quotes",
	  "such as \"*.example.com\"" },
	{ NULL, "found character that cannot start any token",
	  "a text that starts with this character must stand in quotes", NULL },
	{ NULL, "mapping values are not allowed in this context", "a ':' where no key can be",
	  "a text with a ':' in it stands in quotes; before a key, check its indentation and the line above, "
	  "where a key ends in ':' and a space" },
	{ "while parsing a flow node", NULL, "a value is wanted here",
	  "a text that starts with ':' stands in quotes, such as \"::1\"" },
	{ "while parsing a block mapping", NULL, "this does not go on with the map that it stands in",
	  "the keys of a map start in the same column, and nothing follows a value in quotes or brackets" },
	{ "while parsing a block collection", NULL, "this does not go on with the list that it stands in",
	  "the dashes of a list start in the same column, and so do the keys behind one dash" },
};

static bool is_same(const char *wanted, const char *given)
{
	return !wanted || (given && strcmp(wanted, given) == 0);
}

static bool tell_mistake(struct parse *p, const yaml_parser_t *parser)
{
	for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
		if (!is_same(mistakes[i].doing, parser->context) ||
		    !is_same(mistakes[i].problem, parser->problem))
			continue;
		fail(p, mark_of(p, &parser->problem_mark, NULL), mistakes[i].text,
		     mistakes[i].advice);
		return true;
	}
	return false;
}

static void tell_syntax(struct parse *p, const yaml_parser_t *parser)
{
	struct mark at = mark_of(p, &parser->problem_mark, NULL);
	char advice[160];

	if (parser->error == YAML_MEMORY_ERROR) {
		fail(p, at, "out of memory", NULL);
		return;
	}
	if (tell_mistake(p, parser))
		return;
	if (parser->context)
		snprintf(advice, sizeof(advice), "%s, line %zu", parser->context,
			 parser->context_mark.line + 1);
	fail(p, at, parser->problem ? parser->problem : "not YAML",
	     parser->context ? advice : NULL);
}

static void run_events(struct parse *p, struct str text)
{
	yaml_parser_t parser;
	yaml_event_t event;

	if (!yaml_parser_initialize(&parser)) {
		fail(p, (struct mark){ 0 }, "out of memory", NULL);
		return;
	}
	yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&parser, (const unsigned char *)text.p, text.n);
	while (!p->stop) {
		if (!yaml_parser_parse(&parser, &event)) {
			tell_syntax(p, &parser);
			break;
		}
		take_event(p, &event);
		yaml_event_delete(&event);
	}
	yaml_parser_delete(&parser);
}

struct yaml *yaml_parse(struct str text, struct diags *diags)
{
	size_t errors_before = diags->errors;
	struct parse p = { .diags = diags, .cursor = { .text = text } };

	if (!check_bytes(text, diags))
		return NULL;
	p.y = calloc(1, sizeof(*p.y));
	if (!p.y) {
		diag_error(diags, (struct mark){ 0 }, NULL, "out of memory");
		return NULL;
	}
	run_events(&p, text.n ? text : STR(""));
	if (diags->errors == errors_before && !p.y->root)
		diag_error(diags, (struct mark){ 1, 1, 1 }, NULL, "the file is empty");
	if (diags->errors != errors_before) {
		yaml_release(p.y);
		return NULL;
	}
	return p.y;
}
