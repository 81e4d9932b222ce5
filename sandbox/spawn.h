/* sandbox/spawn.h - starts a role's program with one end of a channel as descriptor 3
 *
 * Ownership   the channel's other end is the caller's. The child gets descriptors 0 to 3 and no
 *             others, an environment of its own (nothing of ours), its own process group, and dies
 *             with its parent.
 * Blocking    until exec has been done or has failed.
 * Failure     ERR_SYSTEM with errno, of fork or of the child's exec.
 * Tests       tests/unit/sandbox/test_spawn.c
 */
#ifndef SANDBOX_SPAWN_H
#define SANDBOX_SPAWN_H

#include <sys/types.h>

#include "conf/err.h"
#include "sandbox/roles.h"

#define ROLE_CHANNEL_FD 3

/* The folder that holds "exeat-worker" and its kin: next to the running program, or libexec/exeat
 * beside its bin. */
must_use enum err spawn_find_programs(char *dir, size_t n);
enum spawn_as { SPAWN_CHILD, SPAWN_SIBLING };
/* It is called "exeat-ROLE", whichever program it runs: a nursery's is the worker's. A sibling is a
 * child of our parent: that one waits for it, and takes it along when it dies. *pid is set for one
 * that failed, too (or 0): its parent has to wait for it. */
must_use enum err spawn_role(const char *dir, enum role role, enum spawn_as as, int *channel_fd,
			     pid_t *pid);
/* As fork(), for a single-threaded process, but the child is our parent's. */
pid_t spawn_fork_sibling(void);

#endif
