/* proxy/log_query.h - which lines of an audit log are asked for
 *
 * Ownership   borrows all texts.
 * Blocking    never.
 * Failure     false: it does not match, or is no line or time.
 * Tests       tests/unit/proxy/test_log_query.c, fuzz/fuzz_log_head.c
 */
#ifndef PROXY_LOG_QUERY_H
#define PROXY_LOG_QUERY_H

#include <jansson.h>

#include "proxy/log_line.h"

/* An empty text asks for nothing. */
struct log_query {
	struct str sandbox, rule, verdict, credential;
	struct str host;	/* the name itself, or "*.NAME": any name below it */
	struct str kinds;	/* separated by commas */
	uint64_t since_us, until_us;	/* from, and before; 0: no end */
};

/* The line's object, which is the caller's to let go, if it is one that is asked for; else NULL. */
json_t *log_query_match(const struct log_query *q, struct str line);
/* A time that is said in one of these ways: "2026-01-31", "2026-01-31T12:00:00Z", also with a fraction
 * or with an offset for Z ("+01:00"); or so long before @now_us: "45s", "10m", "2h", "7d". */
bool log_query_time(struct str text, uint64_t now_us, uint64_t *time_us);
/* A member's text, or none. */
struct str log_text(const json_t *object, const char *key);

#endif
