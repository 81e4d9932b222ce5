/* Theory of operation
 *
 * A file system in memory, mounted over the bundle's folder, holds
 *
 *   root/       what the box sees: the host's /usr with a small /etc, or an overlay of
 *   image/      the given folder (lowest, never written) and
 *   upper/      what Exeat adds: mount points, resolv.conf, certificates
 *   work/       the overlay's own
 *
 * Everything is mounted in the keeper's own mount namespace: no other process sees it, and the
 * kernel takes it away with the last process of the box, however that ended.
 *
 * Whose files are the box's? A workspace that belongs to a user: the box's user is that user
 * outside. One that belongs to root: the box's user is a number that nobody has, and the workspace
 * is mounted with a map of owners, under which root's files are that number's and the other way
 * round. So root itself is never in a box. (Where that leaves an owner's setuid bits,
 * seccomp_profile.c says.)
 */
#include "sandbox/box_root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/bundle.h"
#include "sandbox/host_root.h"
#include "sandbox/tree.h"

#define PATH_BYTES 256

static enum err step(bool done, const char **what, const char *text)
{
	if (done)
		return OK;
	*what = text;
	return ERR_SYSTEM;
}

/* ---- whose numbers ---- */

static enum err write_map(pid_t pid, const char *file, uint32_t disk, uint32_t box)
{
	char path[64], line[64];
	int fd, n;
	bool done;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	n = snprintf(line, sizeof(line), "%u %u 1\n", disk, box);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return ERR_SYSTEM;
	done = write(fd, line, (size_t)n) == n;
	close(fd);
	return done ? OK : ERR_SYSTEM;
}

/* A process that is there for its user namespace. It holds no end of @ready but the writing one. */
static pid_t fork_into_userns(void)
{
	int ready[2];
	char byte = 0;
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (unshare(CLONE_NEWUSER) == 0 && write(ready[1], "u", 1) == 1)
			for (;;)
				pause();
		_exit(1);
	}
	close(ready[1]);
	if (pid > 0 && read(ready[0], &byte, 1) != 1) {
		(void)waitpid(pid, NULL, 0);
		pid = -1;
		errno = EPERM;
	}
	close(ready[0]);
	return pid;
}

/* A user namespace whose map is (owner on the disk -> number in the box), for a mapped mount. */
static int owner_map(const struct stat *owner, const struct box_numbers *numbers)
{
	char path[64];
	pid_t pid = fork_into_userns();
	int fd = -1, saved;

	if (pid < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	if (write_map(pid, "uid_map", owner->st_uid, numbers->uid) == OK &&
	    write_map(pid, "gid_map", owner->st_gid, numbers->gid) == OK)
		fd = open(path, O_RDONLY | O_CLOEXEC);
	saved = errno;
	kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	errno = saved;
	return fd;
}

/* Two numbers of the range, others for a box that runs at the same time. */
static struct box_numbers free_numbers(void)
{
	uint32_t root = BOX_UID_BASE + (uint32_t)getpid() * 2 % BOX_UID_RANGE;

	return (struct box_numbers){ .root = root, .uid = root + 1, .gid = root + 1 };
}

/* A file of the workspace that is a mount cannot be removed or moved, and neither can the folders
 * above it, once they are: so that its name stays its own. */
static enum err keep_file(int root, const char *workspace, char *file, struct tree_view view)
{
	size_t n = strlen(workspace);
	char place[PATH_MAX + 16], *end = file + n;
	enum err e = OK;

	if (strncmp(file, workspace, n) != 0 || *end != '/')
		return OK;
	while (e == OK && *end == '/') {
		char next;

		end = strchrnul(end + 1, '/');
		next = *end;
		*end = '\0';
		snprintf(place, sizeof(place), "workspace%s", file + n);
		view.writable = next == '/';
		e = tree_mount(root, place, file, &view);
		*end = next;
	}
	return e;
}

static enum err show_workspace(int root, const struct box_spec *spec, int folder,
			       const struct tree_view *view, const char **what)
{
	char workspace[PATH_MAX], file[PATH_MAX], from[TREE_OF_FD_MAX];
	enum err e;

	tree_of_fd(folder, from);
	e = tree_mount(root, "workspace", from, view);
	if (e != OK)
		return e;
	for (size_t i = 0; e == OK && spec->kept && spec->kept[i]; i++) {
		*what = spec->kept[i];
		/* A file without a path (a pipe, or none at all) is in no workspace. */
		if (realpath(from, workspace) && realpath(spec->kept[i], file))
			e = keep_file(root, workspace, file, *view);
	}
	return e;
}

static enum err mount_folder(int root, const struct box_spec *spec, int folder,
			     struct box_numbers *numbers, const char **what)
{
	struct tree_view view = { .writable = true, .userns = -1 };
	struct stat st;
	enum err e;

	if (fstat(folder, &st) < 0)
		return ERR_SYSTEM;
	if (st.st_uid != 0) {
		*what = "workspace: cannot be mounted";
		numbers->uid = st.st_uid;
		if (st.st_gid != 0)
			numbers->gid = st.st_gid;
		return show_workspace(root, spec, folder, &view, what);
	}
	*what = "workspace: it belongs to root, and its file system cannot map owners "
		"(give it to a user: chown -R USER FOLDER)";
	view.userns = owner_map(&st, numbers);
	if (view.userns < 0)
		return ERR_SYSTEM;
	e = show_workspace(root, spec, folder, &view, what);
	close(view.userns);
	return e;
}

/* What was looked at is what is mounted, whatever its path leads to by then. */
static enum err mount_workspace(int root, const struct box_spec *spec, struct box_numbers *numbers,
				const char **what)
{
	enum err e;
	int folder;

	if (!spec->workspace)
		return OK;
	*what = spec->workspace;
	folder = tree_outside(spec->workspace);
	if (folder < 0)
		return ERR_SYSTEM;
	e = mount_folder(root, spec, folder, numbers, what);
	close(folder);
	return e;
}

/* ---- the root ---- */

/* The given folder below, what we add above. A colon or comma in the folder's own name means
 * nothing: it is mounted under a name of ours first. */
static enum err mount_image(int bundle, const char *path, const char *rootfs, const char **what)
{
	const struct tree_view view = { .recursive = true, .userns = -1 };
	char root[PATH_BYTES], options[4 * PATH_BYTES], from[TREE_OF_FD_MAX];
	enum err e = OK;
	int folder;

	*what = "root file system: cannot be mounted";
	for (size_t i = 0; e == OK && i < 3; i++)
		e = tree_folder(bundle, (const char *const[]){ "image", "upper", "work" }[i], NULL);
	if (e == OK) {
		*what = rootfs;
		folder = tree_outside(rootfs);
		tree_of_fd(folder, from);
		e = folder < 0 ? ERR_SYSTEM : tree_mount(bundle, "image", from, &view);
		if (folder >= 0)
			close(folder);
	}
	if (e != OK)
		return e;
	snprintf(root, sizeof(root), "%s/root", path);
	snprintf(options, sizeof(options), "lowerdir=%s/image,upperdir=%s/upper,workdir=%s/work", path,
		 path, path);
	return step(mount("overlay", root, "overlay", MS_NOSUID | MS_NODEV, options) == 0, what,
		    "root file system: the kernel has no overlay file system");
}

/* What cannot be made in a given root is told with whose it is: links that lead nowhere, mostly. */
static enum err fill_given(int root, const struct box_spec *spec, const char **what)
{
	static char text[PATH_BYTES];
	const char *place = "";
	enum err e = box_files_fill(root, spec, &place);

	if (e == OK)
		return OK;
	snprintf(text, sizeof(text), "root file system: %s", place);
	*what = text;
	return e;
}

static enum err fill_root(int bundle, const char *path, const struct box_spec *spec,
			  const char **what)
{
	int root = -1;
	enum err e = tree_folder(bundle, "root", NULL);

	if (e == OK && spec->rootfs)
		e = mount_image(bundle, path, spec->rootfs, what);
	if (e == OK)
		root = tree_find(bundle, "root");
	if (e == OK && root < 0)
		e = ERR_SYSTEM;
	if (e == OK && !spec->rootfs)
		e = host_root_fill(bundle, root, what);
	if (e == OK)
		e = spec->rootfs ? fill_given(root, spec, what) : box_files_fill(root, spec, what);
	if (e == OK && !spec->rootfs)
		e = host_root_seal(root, what);
	if (root >= 0)
		close(root);
	return e;
}

enum err box_root_make(const char *path, const struct box_spec *spec, struct box_numbers *numbers,
		       const char **what)
{
	int bundle = -1, root = -1;
	enum err e = step(mount("exeat", path, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0711,size=64m") == 0,
			  what, "file system in memory");

	*numbers = free_numbers();
	if (e == OK)
		bundle = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (e == OK)
		e = step(bundle >= 0, what, "bundle");
	if (e == OK)
		e = fill_root(bundle, path, spec, what);
	if (e == OK)
		root = tree_find(bundle, "root");
	if (e == OK)
		e = mount_workspace(root, spec, numbers, what);
	if (root >= 0)
		close(root);
	if (bundle >= 0)
		close(bundle);
	return e;
}
