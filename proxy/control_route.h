/* proxy/control_route.h - which row of a table of routes a control request's target means
 *
 * A pattern is segments: "/v1/sandboxes/{name}". A segment in braces takes one segment that is not
 * empty, percent-decoded; the others are compared as they are. A target is read once and never
 * normalised: "/v1/./status" is nothing.
 *
 * Ownership   values lie in the arena.
 * Blocking    never.
 * Failure     CONTROL_NO_PATH, CONTROL_NO_METHOD, CONTROL_BAD_TARGET: what is percent-encoded is
 *             no UTF-8, or has a control in it, a parameter stands twice, or there are too many.
 * Tests       tests/unit/proxy/test_control_route.c, fuzz/fuzz_control.c
 */
#ifndef PROXY_CONTROL_ROUTE_H
#define PROXY_CONTROL_ROUTE_H

#include "conf/buf.h"
#include "proxy/control_fields.h"

struct control_request;

/* Answers with control_answer() or control_refuse(), once, now or later. @args: the struct that the
 * route's fields fill, valid until then. @arg: struct control_config's. */
typedef void control_handler(struct control_request *rq, const void *args, void *arg);

struct control_route {
	const char *method;		/* NULL ends a table */
	const char *pattern;
	bool root_only;			/* for user 0 alone */
	size_t args_size;
	const struct control_field *fields;
	control_handler *handler;
	const char *(*check)(const void *args);	/* fields that go together, or NULL: they do */
};

enum control_found { CONTROL_FOUND, CONTROL_NO_PATH, CONTROL_NO_METHOD, CONTROL_BAD_TARGET };

/* @path begins with '/'. Of CONTROL_NO_METHOD, *allow gets what Allow has to say. */
enum control_found control_route_find(const struct control_route *routes, struct str method,
				      struct str path, struct arena *arena,
				      const struct control_route **out,
				      struct control_values *values, struct buf *allow);
/* @query without its '?'. False: *why says what is wrong. */
bool control_query_split(struct str query, struct arena *arena, struct control_values *out,
			 const char **why);

#endif
