/* proxy/control_fields.h - what a control request carries, read by a table
 *
 * A row says where a value stands (the path, the query, the JSON body), its type, its range and
 * where it goes in the handler's struct. What no row names is an error, and all errors are found in
 * one pass.
 *
 * Ownership   texts that were read borrow from the values and the body; lists lie in the arena.
 * Blocking    never.
 * Failure     collected in struct control_errors; out of memory is one of them.
 * Limits      CONTROL_VALUES_MAX of a path or a query, CONTROL_DEPTH_MAX levels of a body,
 *             CONTROL_ERRORS_MAX errors are told, the others counted.
 * Tests       tests/unit/proxy/test_control_fields.c, fuzz/fuzz_control.c
 */
#ifndef PROXY_CONTROL_FIELDS_H
#define PROXY_CONTROL_FIELDS_H

#include "conf/arena.h"
#include "conf/err.h"

#define CONTROL_VALUES_MAX 8u
#define CONTROL_DEPTH_MAX 8u
#define CONTROL_ERRORS_MAX 16u
#define CONTROL_ITEM_MAX (128u << 10)	/* bytes of one text of a list */
#define CONTROL_WHY_MAX 256

struct json_t;

enum control_from { CONTROL_PATH, CONTROL_QUERY, CONTROL_BODY };
enum control_type { CONTROL_TEXT, CONTROL_NUMBER, CONTROL_BOOL, CONTROL_TEXTS };

struct control_texts {
	struct str *items;
	size_t n;
};

struct control_field {
	const char *name;		/* NULL ends a table */
	enum control_from from;
	enum control_type type;
	size_t offset;			/* of a struct str, uint64_t, bool, struct control_texts */
	bool required;
	bool root_only;			/* from user 0 alone */
	uint64_t min, max;		/* a number's range, a text's bytes, a list's texts */
	const char *(*check)(struct str text);	/* what it must be, or NULL: it is */
	const char *help;
};

struct control_values {
	struct {
		struct str name, value;
	} items[CONTROL_VALUES_MAX];
	size_t n;
};

struct control_error {
	char at[96];			/* "#/name" in the body, "?name" in the query, "{name}" */
	char text[CONTROL_WHY_MAX];
};

struct control_errors {
	struct control_error items[CONTROL_ERRORS_MAX];
	size_t n, dropped;
	bool denied;			/* one of them is a value that only root may give */
};

struct control_given {
	const struct control_values *path, *query;
	const struct json_t *body;	/* an object; NULL: none was sent */
	bool root;
};

/* Fills @out, which is zeroed, with what was given. */
void control_fields_read(const struct control_field *table, const struct control_given *given,
			 struct arena *arena, void *out, struct control_errors *errors);
/* A body: one JSON object, no member twice, not too deep. False: @why says what is wrong. The
 * caller releases *out with json_decref(). */
bool control_body_parse(struct str text, struct json_t **out, char why[CONTROL_WHY_MAX]);

#endif
