/* Theory of operation
 *
 * The socket appears under its name with its mode and is not listening: whoever connects now is
 * refused. Then it gets its group, and only then listens. (No chmod(): where others may write to
 * its folder, that would follow a link which took its place.) A name that is taken is tried:
 * if somebody answers, that is an appliance, and this one must not serve beside it; if nobody does,
 * it was left behind. The folder's lock keeps two that start at once from taking each other for
 * left behind.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "proxy/control.h"

#define LOCK_RETRY_MS 20
#define LOCK_WAIT_MS 5000

static bool fail(const char *path, const char *what)
{
	fprintf(stderr, "exeat: the control socket %s: %s: %s\n", path, what, strerror(errno));
	return false;
}

static bool split(const char *path, struct sockaddr_un *addr, char folder[sizeof(addr->sun_path)])
{
	const char *slash = strrchr(path, '/');

	*addr = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (path[0] != '/' || slash[1] == '\0' || strlen(path) >= sizeof(addr->sun_path)) {
		fprintf(stderr, "exeat: the control socket %s: it takes an absolute path of at most %zu bytes\n",
			path, sizeof(addr->sun_path) - 1);
		return false;
	}
	memcpy(addr->sun_path, path, strlen(path) + 1);
	snprintf(folder, sizeof(addr->sun_path), "%.*s", slash == path ? 1 : (int)(slash - path), path);
	return true;
}

/* Whoever can open the folder can lock it: no start waits for that longer than another's takes. */
static bool lock(int folder)
{
	for (int waited = 0; flock(folder, LOCK_EX | LOCK_NB) < 0; waited += LOCK_RETRY_MS) {
		if (errno != EWOULDBLOCK || waited >= LOCK_WAIT_MS)
			return false;
		poll(NULL, 0, LOCK_RETRY_MS);
	}
	return true;
}

/* Makes it where it is missing, and locks it. -1 after a message. Others pass through it, and
 * cannot open it. */
static int lock_folder(const char *path, const char *folder)
{
	mode_t before = umask(022);
	int made = mkdir(folder, 0711), fd;

	umask(before);
	if (made < 0 && errno != EEXIST) {
		fail(path, "its folder cannot be made");
		return -1;
	}
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || !lock(fd)) {
		fail(path, fd < 0 ? "its folder" : "its folder is locked by another process");
		if (fd >= 0)
			close(fd);
		return -1;
	}
	return fd;
}

/* Nothing is at the name, or nobody was behind what is: it is gone now. */
static bool clear_name(const char *path, const struct sockaddr_un *addr)
{
	struct stat st;
	int fd, connected;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? true : fail(path, "cannot be looked at");
	if (!S_ISSOCK(st.st_mode)) {
		fprintf(stderr, "exeat: the control socket %s: something else is there: move it away\n", path);
		return false;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fail(path, "no socket");
	connected = connect(fd, (const struct sockaddr *)addr, sizeof(*addr));
	close(fd);
	if (connected == 0 || errno == EAGAIN) {
		fprintf(stderr, "exeat: the control socket %s: an appliance answers there already: stop it, or "
				"give this one another path (control.socket)\n", path);
		return false;
	}
	if (errno != ECONNREFUSED)
		return fail(path, "cannot be tried");
	return unlink(path) == 0 ? true : fail(path, "the one left behind cannot be removed");
}

static bool bind_and_listen(int fd, const char *path, const struct sockaddr_un *addr, gid_t group)
{
	mode_t before = umask(group == (gid_t)-1 ? 0177 : 0117);
	int bound = bind(fd, (const struct sockaddr *)addr, sizeof(*addr));

	umask(before);
	if (bound < 0)
		return fail(path, "cannot be made");
	if (group != (gid_t)-1 && lchown(path, 0, group) < 0)
		return fail(path, "cannot be given to its group");
	return listen(fd, CONTROL_CLIENTS_MAX) == 0 ? true : fail(path, "cannot listen");
}

bool control_listen(const char *path, gid_t group, int *fd)
{
	struct sockaddr_un addr;
	char folder[sizeof(addr.sun_path)];
	bool ok = false;
	int locked;

	*fd = -1;
	if (!split(path, &addr, folder))
		return false;
	locked = lock_folder(path, folder);
	if (locked < 0)
		return false;
	if (clear_name(path, &addr)) {
		*fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		ok = *fd >= 0 ? bind_and_listen(*fd, path, &addr, group) : fail(path, "no socket");
	}
	if (!ok && *fd >= 0) {
		close(*fd);
		*fd = -1;
	}
	close(locked);
	return ok;
}
