/* sandbox/box_root.h - puts a box's root together, in a mount namespace that goes with its maker
 *
 * Ownership   the caller's mount namespace, which must be private, holds all mounts; nothing is to
 *             be undone but the namespace to be left. @spec is borrowed.
 * Blocking    file work.
 * Failure     ERR_SYSTEM with errno; *what says which step, as a text for the operator.
 * Tests       tests/unit/sandbox/test_box.c
 */
#ifndef SANDBOX_BOX_ROOT_H
#define SANDBOX_BOX_ROOT_H

#include "sandbox/box.h"

/* Numbers outside: nobody's, except a workspace owner's. Below ROLE_UID_BASE (confine.h). */
#define BOX_UID_BASE 0x7ffe0000u
#define BOX_UID_RANGE 0x10000u

struct box_numbers {
	uint32_t root;		/* what root inside is: owns nothing */
	uint32_t uid, gid;	/* what the box's user is */
};

/* @bundle: an empty folder, over which a file system in memory is mounted; the root is "root" in
 * it. */
must_use enum err box_root_make(const char *bundle, const struct box_spec *spec,
				struct box_numbers *numbers, const char **what);

#endif
