/* sandbox/tree.h - makes files and mounts below a root that may be anyone's
 *
 * A box's root can be a folder full of links that somebody else laid out. Every path here is
 * resolved as the box would resolve it (openat2, RESOLVE_IN_ROOT): no link leads out of it.
 *
 * Ownership   returned descriptors are the caller's. Mounts live in the caller's mount namespace.
 * Blocking    file work.
 * Failure     ERR_SYSTEM with errno.
 * Tests       tests/unit/sandbox/test_tree.c, test_box.c
 */
#ifndef SANDBOX_TREE_H
#define SANDBOX_TREE_H

#include "conf/buf.h"
#include "conf/err.h"

#define TREE_PATH_MAX 512

/* A descriptor (O_PATH) of what @path names below @root, or -1. */
int tree_find(int root, const char *path);
/* Makes the folder and those above it; *out is its descriptor where @out is not NULL. */
must_use enum err tree_folder(int root, const char *path, int *out);
/* Sets the permissions of what is there. */
must_use enum err tree_mode(int root, const char *path, unsigned mode);
/* A file of this content, in place of what stands there. */
must_use enum err tree_file(int root, const char *path, struct str content, unsigned mode);
/* A symbolic link, in place of what stands there. */
must_use enum err tree_link(int root, const char *path, const char *target);
/* Reads a file below @root whole; at most as much as @out may hold. */
must_use enum err tree_read(int root, const char *path, struct buf *out);

/* A folder outside (O_PATH), no part of whose path is a link: ELOOP. Or -1. */
int tree_outside(const char *path);

struct tree_view {
	bool writable;
	bool recursive;		/* with what is mounted below */
	int userns;		/* >= 0: numbers of owners go through this namespace's map */
};

/* The path of a descriptor that is open, for tree_mount(). */
#define TREE_OF_FD_MAX 32
void tree_of_fd(int fd, char out[TREE_OF_FD_MAX]);
/* Mounts a view of @from (a path outside) over what is at @path below @root: nosuid, nodev. */
must_use enum err tree_mount(int root, const char *path, const char *from,
			     const struct tree_view *view);
/* Removes a folder and all that is in it, not following links, and staying on its file system. */
must_use enum err tree_remove(int parent, const char *name);

#endif
