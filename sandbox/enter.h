/* sandbox/enter.h - one more command in a box that runs
 *
 * The caller (root, not confined) gets a child that has joined the box's cgroups and namespaces and
 * has given up what the box's own command has not: its user, every capability, gaining privileges,
 * the calls that the box's profile refuses. It dies with its caller. The runtime cannot do that: it
 * joins the user namespace first, and may then not join the network's, which is not the box's own.
 *
 * Ownership   borrows.
 * Blocking    until the command has ended; SIGTERM, SIGINT, SIGHUP and SIGQUIT go to it.
 * Failure     enter_box(): ERR_..., with what failed in *what and errno, before anything was run. A
 *             command that cannot be executed ends with 127 or 126.
 * Tests       tests/e2e/test_control.py
 */
#ifndef SANDBOX_ENTER_H
#define SANDBOX_ENTER_H

#include <sys/types.h>

#include "conf/err.h"

struct enter_spec {
	const char *id;			/* of the box: its cgroups' name */
	pid_t first;			/* its first process */
	char *const *command;		/* NULL-ended */
	char *const *environment;	/* NULL-ended, "K=V" */
};

/* *status as from a shell. */
must_use enum err enter_box(const struct enter_spec *spec, int *status, const char **what);

#endif
