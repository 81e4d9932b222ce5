/* sandbox/host_root.h - a box's root made of the host's /usr, and what goes into every root
 *
 * host_root_fill() is for the box without an image: the host's programs and libraries, read-only,
 * and of /etc what programs need and everybody may read; nothing of anybody's.
 * box_files_fill() adds what each box gets, an image's or the host's: names and resolver, Exeat's
 * certificate, init, the mount points.
 *
 * Ownership   @root stays the caller's. Mounts live in the caller's (private) mount namespace.
 * Blocking    file work.
 * Failure     ERR_SYSTEM with errno; *what names the path or step (static or @spec's).
 * Tests       tests/unit/sandbox/test_box.c
 */
#ifndef SANDBOX_HOST_ROOT_H
#define SANDBOX_HOST_ROOT_H

#include "sandbox/box.h"

/* @bundle, on the same file system as @root, holds the layers. To be sealed when all is filled. */
must_use enum err host_root_fill(int bundle, int root, const char **what);
must_use enum err host_root_seal(int root, const char **what);
must_use enum err box_files_fill(int root, const struct box_spec *spec, const char **what);

#endif
