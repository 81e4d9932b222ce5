/* proxy/access_show.h - requests for access as JSON, for the operator's commands
 *
 * Ownership   borrows.       Blocking  never.
 * Failure     sticky in the writer's buffer.
 * Limits      ACCESS_MAX entries.
 * Tests       tests/unit/proxy/test_access_show.c
 */
#ifndef PROXY_ACCESS_SHOW_H
#define PROXY_ACCESS_SHOW_H

#include "conf/json.h"
#include "policy/policy.h"
#include "proxy/access_table.h"

/* An array of objects: number, state, asked, sandbox, method, url. @closed: those, too. */
void access_show_list(const struct access_table *t, bool closed, struct json *j);
/* One object, with reason, note and rule (proxy/access_rule.h). @p: the sandbox's, or NULL. */
void access_show_one(const struct access *a, const struct policy *p, struct json *j);

#endif
