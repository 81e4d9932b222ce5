/* proxy/secret_table.h - the operator's secrets by name, each with the most hosts it may go to
 *
 * Ownership   the table owns its secrets; values found are borrowed. secret_table_free() wipes.
 * Blocking    secret_table_read() as long as the source's descriptor does.
 * Failure     secret_table_read() says why in *objection (static text, no byte of the value); the
 *             name is then known without a value. ERR_FULL, ERR_PROTOCOL for a name that is there
 *             already.
 * Limits      MSG_SECRETS_MAX.
 * Tests       tests/unit/proxy/test_secret_table.c
 */
#ifndef PROXY_SECRET_TABLE_H
#define PROXY_SECRET_TABLE_H

#include "broker/secret.h"
#include "proxy/messages.h"

struct secret_table;

struct secret_table *secret_table_new(void);
void secret_table_free(struct secret_table *t);
/* Reads @fd (the caller closes it) at once. */
must_use enum err secret_table_read(struct secret_table *t, const struct msg_secret *m, int fd,
				    const char **objection);

struct table_secret;
/* NULL: the settings do not declare it. */
const struct table_secret *secret_table_find(const struct secret_table *t, struct str name);
/* NULL: it has no usable value. */
const struct secret *table_secret_value(const struct table_secret *s);
/* "file" or "env". */
const char *table_secret_source(const struct table_secret *s);
/* Do the settings let it go to this host: one of its hosts, as itself, "*.x" (one label before x) or
 * "**.x" (one or more)? */
bool table_secret_may_go_to(const struct table_secret *s, struct str host);

#endif
