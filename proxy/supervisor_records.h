/* proxy/supervisor_records.h - what the supervisor itself puts on record
 *
 * Ownership   borrows.       Blocking  never.
 * Failure     what record_commit() says; the caller decides whether things may go on.
 * Tests       tests/e2e
 */
#ifndef PROXY_SUPERVISOR_RECORDS_H
#define PROXY_SUPERVISOR_RECORDS_H

#include "proxy/appliance.h"

/* @found: what the one before has left, or empty. */
must_use enum err put_start(struct ring *ring, const struct settings *settings, struct str found);
/* @before: the digest of what it replaces, or "". */
must_use enum err put_policy_load(struct ring *ring, const char *sandbox,
				  const struct policy_file *file, const char *before);
/* One that does not load. @sandbox: that it was for, or "". */
must_use enum err put_policy_reject(struct ring *ring, const char *sandbox, const char *file,
				    struct str diagnostics);
/* What a sandbox may have at most, in words. */
void sandbox_limits(const struct sandbox *s, char *out, size_t size);
must_use enum err put_sandbox_start(const struct sandbox *s);
must_use enum err put_sandbox_stop(const struct sandbox *s);
must_use enum err put_role_lost(const struct part *p, const char *sandbox);
/* A control request that changed something or was refused. */
struct control_done;
must_use enum err put_control(struct ring *ring, const struct control_done *done);
/* Refusals over the control socket that have no record each. */
must_use enum err put_control_suppressed(struct ring *ring, uint64_t n);
must_use enum err put_stop(struct ring *ring, const char *how);

#endif
