#include "sandbox/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEPTH_MAX 32

int tree_find(int root, const char *path)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC,
				.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };

	return (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

static void close_keeping_errno(int fd)
{
	int saved = errno;

	if (fd >= 0)
		close(fd);
	errno = saved;
}

static bool is_folder(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The folder that holds @path's last part, made where it lacks; *name is that part. */
static enum err parent_of(int root, const char *path, int *parent, const char **name)
{
	const char *slash = strrchr(path, '/');
	char above[TREE_PATH_MAX];

	*name = slash ? slash + 1 : path;
	snprintf(above, sizeof(above), "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
	return tree_folder(root, above, parent);
}

/* Goes down part by part; a part that is a link leads where it leads inside the root. */
enum err tree_folder(int root, const char *path, int *out)
{
	char upto[TREE_PATH_MAX];
	size_t n = strlen(path);
	int at = -1;

	if (n >= sizeof(upto)) {
		errno = ENAMETOOLONG;
		return ERR_SYSTEM;
	}
	for (size_t i = 1; i <= n; i++) {
		char *slash;

		if (path[i] != '/' && path[i] != '\0')
			continue;
		snprintf(upto, sizeof(upto), "%.*s", (int)i, path);
		close_keeping_errno(at);
		at = tree_find(root, upto);
		if (at >= 0 && !is_folder(at)) {
			close(at);
			errno = ENOTDIR;
			return ERR_SYSTEM;
		}
		if (at >= 0)
			continue;
		slash = strrchr(upto, '/');
		if (slash)
			*slash = '\0';
		at = tree_find(root, slash ? upto : ".");
		if (at < 0 || mkdirat(at, slash ? slash + 1 : upto, 0755) < 0) {
			close_keeping_errno(at);
			return ERR_SYSTEM;
		}
		i -= 1;		/* once more: now it is there */
	}
	if (out)
		*out = at;
	else
		close_keeping_errno(at);
	return OK;
}

enum err tree_mode(int root, const char *path, unsigned mode)
{
	char link[64];
	int fd = tree_find(root, path);
	enum err e;

	if (fd < 0)
		return ERR_SYSTEM;
	/* The only way to name what an O_PATH descriptor stands for. */
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	e = chmod(link, mode) == 0 ? OK : ERR_SYSTEM;
	close_keeping_errno(fd);
	return e;
}

/* Takes away what stands at a place that we are to fill: a file or a link, never a folder. */
static enum err clear_place(int parent, const char *name)
{
	return unlinkat(parent, name, 0) == 0 || errno == ENOENT ? OK : ERR_SYSTEM;
}

static enum err write_whole(int fd, struct str content)
{
	while (content.n > 0) {
		ssize_t n = write(fd, content.p, content.n);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return ERR_SYSTEM;
		content = str_from(content, (size_t)n);
	}
	return OK;
}

enum err tree_file(int root, const char *path, struct str content, unsigned mode)
{
	const char *name;
	int parent, fd = -1;
	enum err e = parent_of(root, path, &parent, &name);

	if (e != OK)
		return e;
	e = clear_place(parent, name);
	if (e == OK)
		fd = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			    mode);
	if (fd < 0 || fchmod(fd, mode) < 0)
		e = ERR_SYSTEM;
	if (e == OK)
		e = write_whole(fd, content);
	close_keeping_errno(fd);
	close_keeping_errno(parent);
	return e;
}

enum err tree_link(int root, const char *path, const char *target)
{
	const char *name;
	int parent;
	enum err e = parent_of(root, path, &parent, &name);

	if (e != OK)
		return e;
	e = clear_place(parent, name);
	if (e == OK && symlinkat(target, parent, name) < 0)
		e = ERR_SYSTEM;
	close_keeping_errno(parent);
	return e;
}

static enum err read_whole(int fd, struct buf *out)
{
	for (;;) {
		char *room = buf_room(out, 4096);
		ssize_t n;

		if (!room)
			return ERR_LIMIT;
		n = read(fd, room, 4096);
		if (n < 0)
			return ERR_SYSTEM;
		if (n == 0)
			return OK;
		buf_grown(out, (size_t)n);
	}
}

enum err tree_read(int root, const char *path, struct buf *out)
{
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
				.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	struct stat st;
	enum err e;

	if (fd < 0)
		return ERR_SYSTEM;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		e = ERR_SYNTAX;
	else
		e = read_whole(fd, out);
	close_keeping_errno(fd);
	return e;
}

int tree_outside(const char *path)
{
	struct open_how how = { .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
				.resolve = RESOLVE_NO_SYMLINKS };

	return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
}

void tree_of_fd(int fd, char out[TREE_OF_FD_MAX])
{
	snprintf(out, TREE_OF_FD_MAX, "/proc/self/fd/%d", fd);
}

enum err tree_mount(int root, const char *path, const char *from, const struct tree_view *view)
{
	struct mount_attr a = { .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV };
	unsigned recursive = view->recursive ? AT_RECURSIVE : 0;
	int tree = open_tree(AT_FDCWD, from, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | recursive);
	int place = tree_find(root, path);
	enum err e = OK;

	if (!view->writable)
		a.attr_set |= MOUNT_ATTR_RDONLY;
	if (view->userns >= 0) {
		a.attr_set |= MOUNT_ATTR_IDMAP;
		a.userns_fd = (__u64)view->userns;
	}
	if (tree < 0 || place < 0 ||
	    mount_setattr(tree, "", AT_EMPTY_PATH | recursive, &a, sizeof(a)) < 0 ||
	    move_mount(tree, "", place, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		e = ERR_SYSTEM;
	close_keeping_errno(tree);
	close_keeping_errno(place);
	return e;
}

static enum err remove_at(int parent, const char *name, dev_t device, unsigned depth);

static enum err remove_entries(int folder, dev_t device, unsigned depth)
{
	DIR *d = fdopendir(folder);
	enum err e = OK;

	if (!d) {
		close_keeping_errno(folder);
		return ERR_SYSTEM;
	}
	for (struct dirent *entry = readdir(d); entry && e == OK; entry = readdir(d)) {
		bool dots = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;

		if (!dots)
			e = remove_at(folder, entry->d_name, device, depth + 1);
	}
	closedir(d);
	return e;
}

static enum err remove_at(int parent, const char *name, dev_t device, unsigned depth)
{
	struct stat st;
	int folder;
	enum err e;

	if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
		return OK;
	folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (folder < 0)
		return ERR_SYSTEM;
	if (depth > DEPTH_MAX || fstat(folder, &st) < 0 || st.st_dev != device) {
		close(folder);
		errno = EXDEV;
		return ERR_SYSTEM;
	}
	e = remove_entries(folder, device, depth);
	if (e == OK && unlinkat(parent, name, AT_REMOVEDIR) < 0)
		e = ERR_SYSTEM;
	return e;
}

enum err tree_remove(int parent, const char *name)
{
	struct stat st;

	if (fstat(parent, &st) < 0)
		return ERR_SYSTEM;
	return remove_at(parent, name, st.st_dev, 0);
}
