/* conf/schema.h - which keys a map of a file may have, and how each fills a field of a struct
 *
 * A table of rows is the whole knowledge of a map: key, type, range, default, help. schema_read()
 * walks a map against it and tells everything that does not fit: unknown keys (with what was
 * probably meant), keys of a wider language that this version does not have, wrong types, empty
 * lists, values out of range, required keys that are missing.
 *
 * Values are written one way: true and false only; amounts as conf/amount.h has them.
 *
 * Ownership   a struct filled by schema_read() borrows from the tree and from the table.
 * Blocking    never.
 * Failure     false: at least one error was added to the diags. Fields whose value was wrong keep
 *             their default.
 * Limits      SCHEMA_ROWS_MAX rows a table.
 * Tests       tests/unit/conf/test_schema.c
 */
#ifndef CONF_SCHEMA_H
#define CONF_SCHEMA_H

#include "conf/yaml.h"

#define SCHEMA_ROWS_MAX 48

enum schema_type {
	SCHEMA_END,		/* ends a table */
	SCHEMA_TEXT,		/* struct str; not empty */
	SCHEMA_BOOL,		/* bool */
	SCHEMA_NUMBER,		/* uint32_t */
	SCHEMA_DURATION,	/* uint64_t, milliseconds */
	SCHEMA_SIZE,		/* uint64_t, bytes */
	SCHEMA_CHOICE,		/* unsigned: index in .choices */
	SCHEMA_TEXTS,		/* const struct yaml_node *: a list of texts, not empty itself */
	SCHEMA_LIST,		/* const struct yaml_node *: a list, not empty */
	SCHEMA_MAP,		/* const struct yaml_node *: a map, whose keys the caller reads */
	SCHEMA_GROUP,		/* a map whose keys fill the same struct, by the table .rows */
	SCHEMA_LATER,		/* a key of the language that this version does not have */
};

struct schema_row {
	const char *key;
	enum schema_type type;
	size_t offset;
	/* NUMBER, DURATION (ms), SIZE; max alone: bytes of a TEXT, items of TEXTS, LIST and MAP;
	 * max 0: no limit. */
	uint64_t min, max;
	const char *initial; /* the default, as it would be written; NULL: the field stays zero */
	/* What holds where it is not written and has no default, in words. */
	const char *without;
	bool required;
	const char *const *choices;	/* CHOICE: NULL-ended */
	const char *later; /* CHOICE: values that this version does not have, space-separated */
	const struct schema_row *rows;	/* GROUP */
	/* MAP: what a value is, for the documents; its .key: what a key is */
	const struct schema_row *each;
	const char *pattern;	/* TEXT, TEXTS: what .check wants, as ECMA 262 has it; or NULL */
	const char *help;		/* one line */
	/* Further checks once the type holds: NULL, or what is wrong (static text). */
	const char *(*check)(struct str value);
};

/* @what: how the map is called in errors ("a policy", "an allow rule"). */
bool schema_read(const struct schema_row *rows, const char *what, const struct yaml_node *map,
		 void *out, struct diags *diags);
/* The key's node in a map, or NULL: for the place of an error that schema_read() could not see. */
const struct yaml_node *schema_key(const struct yaml_node *map, const char *key);
size_t schema_count(const struct yaml_node *list);

bool schema_parse_bool(struct str text, bool *out);
/* A NUMBER, DURATION or SIZE as one would write it. Returns @out. */
const char *schema_written(enum schema_type type, uint64_t v, char *out, size_t n);

#endif
