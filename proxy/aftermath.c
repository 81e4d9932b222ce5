#include "proxy/aftermath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sandbox/box.h"

#define STATE_MAX 96

static bool fail(const char *path, const char *why)
{
	fprintf(stderr, "exeat serve: %s: %s\n", path, why);
	return false;
}

static void read_last(int fd, struct buf *found)
{
	char text[STATE_MAX];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	buf_printf(found, "the appliance before this one (%s) did not end in order", text);
}

static bool write_own(int fd)
{
	char text[STATE_MAX], when[32];
	time_t now = time(NULL);
	struct tm tm;
	int n;

	gmtime_r(&now, &tm);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	n = snprintf(text, sizeof(text), "process %d, since %s\n", (int)getpid(), when);
	return ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)n, 0) == n;
}

/* After a start of the machine there is none. */
static bool make_folder(const char *path)
{
	char folder[PATH_MAX];
	mode_t before = umask(022);
	int made;

	snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(path, '/') - path), path);
	made = folder[0] ? mkdir(folder, 0711) : 0;
	umask(before);
	return made == 0 || errno == EEXIST || fail(folder, strerror(errno));
}

bool aftermath_begin(const char *socket, int *fd, struct buf *found)
{
	char path[PATH_MAX];
	unsigned boxes;

	if ((size_t)snprintf(path, sizeof(path), "%s.state", socket) >= sizeof(path))
		return fail(socket, "too long a path");
	if (socket[0] == '/' && !make_folder(path))
		return false;
	*fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (*fd < 0)
		return fail(path, strerror(errno));
	if (flock(*fd, LOCK_EX | LOCK_NB) < 0)
		return fail(socket, "another appliance has this socket");
	read_last(*fd, found);
	boxes = box_remove_dead();
	if (boxes)
		buf_printf(found, "%s%u box%s that nobody kept any more %s removed",
			   found->n ? "; " : "", boxes, boxes == 1 ? "" : "es",
			   boxes == 1 ? "was" : "were");
	return write_own(*fd) || fail(path, strerror(errno));
}

void aftermath_end(int fd)
{
	if (fd >= 0 && ftruncate(fd, 0) < 0)
		fprintf(stderr, "exeat: the next start will take this end for a crash: %s\n",
			strerror(errno));
}
