/* proxy/run_records.h - what the supervisor itself puts on record
 *
 * Ownership   borrows.       Blocking  never.
 * Failure     what record_commit() says; the caller decides whether the run may go on.
 * Tests       tests/e2e
 */
#ifndef PROXY_RUN_RECORDS_H
#define PROXY_RUN_RECORDS_H

#include <sys/types.h>

#include "policy/policy.h"
#include "proxy/supervisor.h"
#include "sandbox/box.h"
#include "sandbox/ring.h"
#include "sandbox/roles.h"

must_use enum err put_start(struct ring *ring, const struct run_spec *spec);
must_use enum err put_policy_load(struct ring *ring, const struct run_spec *spec,
				  struct str digest);
/* One that does not load. */
must_use enum err put_policy_reject(struct ring *ring, const struct run_spec *spec);
must_use enum err put_sandbox_start(struct ring *ring, const struct run_spec *spec,
				    struct str digest, const struct box *box);
struct run_cost {
	uint64_t seconds, cpu_ms;
	uint64_t bytes_up, bytes_down;	/* on the box's wire */
};

/* @status as a shell tells it. */
must_use enum err put_sandbox_stop(struct ring *ring, const struct run_spec *spec, int status,
				   const struct run_cost *cost);
/* @wait_status as waitpid() gave it. */
must_use enum err put_role_lost(struct ring *ring, const struct run_spec *spec, enum role role,
				pid_t pid, int wait_status, const char *why);
must_use enum err put_stop(struct ring *ring, const char *how);

#endif
