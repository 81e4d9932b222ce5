/* proxy/run.h - one sandbox from first process to last: roles, wire, box, and the end
 *
 * Ownership   struct run_spec is borrowed for the call.
 * Blocking    until the box's command has ended and all is away again.
 * Failure     messages on stderr, one line each; RUN_FAILED is returned when the command was not
 *             run, or its sandbox was ended because roles died.
 * Tests       tests/e2e
 */
#ifndef PROXY_RUN_H
#define PROXY_RUN_H

#include "proxy/settings.h"

#define RUN_FAILED 125		/* as env(1), timeout(1) and others say "not the command's own status" */

struct run_spec {
	const struct settings *settings;
	const char *name;		/* of the sandbox, as it stands in the log */
	const char *policy_file;
	int policy;			/* the compiled image; -1: that goes on record, no more */
	struct str rejected;		/* where -1: what the reader said */
	const char *log_path;
	int log;			/* the audit log, opened for reading and appending */
	const char *rootfs, *workspace;	/* or NULL */
	char *const *command;
};

/* The command's exit status as a shell tells it (128 + signal), or RUN_FAILED. */
int run_sandbox(const struct run_spec *spec);

#endif
