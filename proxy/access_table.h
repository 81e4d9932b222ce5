/* proxy/access_table.h - what sandboxes have asked for, until an operator has looked at it
 *
 * A request for access allows nothing. It stands here with a number, is on record, and is closed by
 * the operator, who may have changed the policy by then. The supervisor keeps the one table, for
 * all sandboxes; what it takes comes from a box and is checked again here, whatever a worker has
 * done.
 *
 * Ownership   the table copies what it is given; access_table_free(). Entries that are handed out
 *             live until the next call that is given the table.
 * Blocking    never.
 * Failure     access_table_ask() says in words why it was not taken; what is not on record is not.
 * Limits      ACCESS_MAX entries: the oldest closed one gives way, then the oldest that is open for
 *             ACCESS_STALE_DAYS; ACCESS_SANDBOX_MAX open ones and ACCESS_PER_MINUTE new ones a
 *             sandbox. What a sandbox asks for twice while it is open is one request.
 * Tests       tests/unit/proxy/test_access_table.c
 */
#ifndef PROXY_ACCESS_TABLE_H
#define PROXY_ACCESS_TABLE_H

#include "proxy/messages.h"
#include "sandbox/ring.h"

#define ACCESS_MAX 1000
#define ACCESS_SANDBOX_MAX 50
#define ACCESS_PER_MINUTE 10
#define ACCESS_STALE_DAYS 30
#define ACCESS_METHOD_MAX 32
#define ACCESS_NOTE_MAX 512

struct access {
	uint32_t number;
	bool open;
	uint64_t asked_us, closed_us;	/* since 1970 */
	struct str sandbox, method, url, reason, note;
};

struct access_table;

struct access_table *access_table_new(void);
void access_table_free(struct access_table *t);
/* Fills in the answer to @m, but for its id. answer->why lives until the next call. */
void access_table_ask(struct access_table *t, struct ring *ring, struct str sandbox,
		      const struct msg_access *m, uint64_t now_us, struct msg_access_taken *answer);
/* NULL: there is none, or no more. @after NULL: the first, by number. */
const struct access *access_table_find(const struct access_table *t, uint32_t number);
const struct access *access_table_next(const struct access_table *t, const struct access *after);
/* ERR_NOTFOUND: there is none that is open. Else what the record's commit says; then it is open. */
must_use enum err access_table_close(struct access_table *t, struct ring *ring, uint32_t number,
				     struct str note, uint64_t now_us);

#endif
