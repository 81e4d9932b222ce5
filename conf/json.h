/* conf/json.h - writes JSON (RFC 8259) into a struct buf, one value after the other
 *
 * For log lines, problem bodies and OCI documents. Reading JSON is jansson's work.
 *
 * Ownership   the writer borrows the buffer.       Blocking  never.
 * Failure     sticky in the buffer (buf.failed).
 * Text        bytes that are no valid UTF-8 are written as U+FFFD; controls, quotes, backslash and
 *             U+007F are escaped, so that a line is always one line and safe on a terminal.
 * Limits      JSON_DEPTH_MAX levels; deeper is a bug and aborts.
 * Tests       tests/unit/conf/test_json.c
 */
#ifndef CONF_JSON_H
#define CONF_JSON_H

#include "conf/buf.h"

#define JSON_DEPTH_MAX 16

struct json {
	struct buf *out;
	unsigned depth;
	bool first[JSON_DEPTH_MAX];	/* no comma before the next item at this level */
};

/* libjansson, which one program links, has functions of these names: its own calls of them must not
 * come to ours. A file that needs both includes <jansson.h> first. */
#define json_object exeat_json_object
#define json_array exeat_json_array
#define json_null exeat_json_null

void json_init(struct json *j, struct buf *out);
void json_object(struct json *j);
void json_object_end(struct json *j);
void json_array(struct json *j);
void json_array_end(struct json *j);
void json_key(struct json *j, const char *key);
/* The same for one that is there as it is written: in its quotes, with its colon. */
void json_key_written(struct json *j, struct str key);
void json_str(struct json *j, struct str s);
void json_u64(struct json *j, uint64_t v);
void json_bool(struct json *j, bool v);
void json_null(struct json *j);

/* key and value in one */
void json_put_str(struct json *j, const char *key, struct str s);
void json_put_u64(struct json *j, const char *key, uint64_t v);
void json_put_bool(struct json *j, const char *key, bool v);

#endif
