/* sandbox/cgroup.h - which limits this machine's cgroups can hold, and the removal of a box's
 *
 * Runtimes make a box's cgroup, and remove it; one that was killed while it started a box left it,
 * and no record of it.
 *
 * Ownership   arguments are borrowed for the call.
 * Blocking    cgroup_remove() waits for killed processes to go, CGROUP_WAIT_MS at most.
 * Failure     ERR_SYSTEM with errno: what could not be removed.
 * Limits      both layouts: one tree (v2), and a tree for each controller one level down (v1,
 *             hybrid).
 * Tests       tests/unit/sandbox/test_cgroup.c, tests/e2e/test_box.py
 */
#ifndef SANDBOX_CGROUP_H
#define SANDBOX_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "conf/err.h"

#define CGROUP_ROOT "/sys/fs/cgroup"
#define CGROUP_WAIT_MS 2000

bool cgroup_has_controller(const char *name);
/* On a hybrid machine: no v2 tree in the caller's mount namespace, which is its own. */
must_use enum err cgroup_hide_second_tree(void);
/* Processor time of all that ran in the cgroup of that name; 0 where nothing counts it. */
uint64_t cgroup_cpu_ms(const char *name);
/* Puts the calling process into each cgroup of that name. ERR_NOTFOUND: there are none. */
must_use enum err cgroup_join(const char *name);
/* Kills who is in the cgroups of that name and removes them. OK where there are none. */
must_use enum err cgroup_remove(const char *name);

#endif
