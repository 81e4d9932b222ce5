/* Theory of operation
 *
 * All under the lock of the file that is to go, so that no writer adds a line meanwhile and no two
 * do this at once:
 *
 *   1. The successor is made under the name that the old file will have (never over one that is
 *      there), with its first line, and is on the disk.
 *   2. The old file loses its permission to be written: a writer that still has it open sees that.
 *   3. The two names change places in one step. At no time is the log's name without a file.
 *   4. The folder is on the disk; what is over the number to keep is removed.
 *
 * What dies between 1 and 3 leaves a successor under the wrong name. It continues the very line
 * that the log ends with, which tells it from any file that was put aside: the next try removes
 * it.
 */
#include "proxy/log_rotate.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/json.h"
#include "proxy/clock.h"
#include "proxy/log_files.h"
#include "proxy/log_read.h"
#include "proxy/log_write.h"
#include "proxy/record.h"

#define LOCK_RETRY_MS 2

struct rotation {
	int dir;
	const char *name;		/* of the log, in @dir */
	char aside[LOG_NAME_MAX];
	struct log_file *old, *new;
	int old_fd, new_fd;		/* the files' own: log files have duplicates */
};

/* ---- opening ---- */

static enum err open_folder(struct rotation *r, const char *path)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX];
	int n = slash ? (int)(slash - path) + 1 : 0;

	if (snprintf(folder, sizeof(folder), "%.*s", n ? n : 1, n ? path : ".") >= PATH_MAX)
		return ERR_LIMIT;
	r->name = path + n;
	r->dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return r->dir < 0 ? ERR_SYSTEM : OK;
}

static enum err open_as_log(int fd, struct log_file **out)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	return copy < 0 ? ERR_SYSTEM : log_file_open(copy, out);
}

static bool is_named(const struct rotation *r, int fd)
{
	struct stat ours, named;

	return fstat(fd, &ours) == 0 && fstatat(r->dir, r->name, &named, 0) == 0 &&
	       ours.st_ino == named.st_ino && ours.st_dev == named.st_dev;
}

static enum err open_old(struct rotation *r)
{
	r->old_fd = openat(r->dir, r->name, O_RDWR | O_APPEND | O_CLOEXEC | O_NOCTTY);
	return r->old_fd < 0 ? ERR_SYSTEM : open_as_log(r->old_fd, &r->old);
}

/* OK: locked, and to be put aside. ERR_NOTFOUND: it is the one to write. */
static enum err lock_old(struct rotation *r, struct log_aside *aside)
{
	enum err e = log_aside_begin(r->old, aside);

	for (int waited = 0; e == ERR_AGAIN && waited < ROTATE_LOCK_MS; waited += LOCK_RETRY_MS) {
		poll(NULL, 0, LOCK_RETRY_MS);
		e = log_aside_begin(r->old, aside);
	}
	if (e == ERR_AGAIN) {
		errno = EWOULDBLOCK;
		return ERR_SYSTEM;
	}
	if (!e && !is_named(r, r->old_fd)) {	/* another was faster */
		log_batch_drop(r->old);
		return ERR_AGAIN;
	}
	return e;
}

/* ---- the successor ---- */

static void continued_fields(void *arg, struct json *json)
{
	json_put_str(json, "file", str_of(arg));
}

static enum err write_first_line(struct rotation *r)
{
	struct log_line line = { .time_us = clock_wall_us(),
				 .kind = record_kind_name(RECORD_continued),
				 .fields = continued_fields, .arg = r->aside };
	enum err e;

	log_file_continues(r->new, r->old);
	e = log_batch_begin(r->new);
	if (!e)
		e = log_batch_line(r->new, &line);
	if (!e)
		e = log_batch_end(r->new);
	return e ? e : log_sync(r->new);
}

/* A successor of this very file that never came into its place. */
static bool is_left_over(struct rotation *r)
{
	struct log_reader *reader = NULL;
	struct log_head head;
	struct str line;
	bool ours = false;
	int fd = openat(r->dir, r->aside, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return false;
	if (log_reader_open(fd, &reader) == OK) {
		enum err e = log_reader_next(reader, &line);

		ours = e == ERR_AGAIN || e == ERR_TRUNCATED ||	/* not one whole line */
		       (e == OK && log_line_head(line, &head) &&
			str_eq(head.kind, str_of(record_kind_name(RECORD_continued))) &&
			log_is_next(r->old, head.seq, head.prev) &&
			log_reader_next(reader, &line) == ERR_AGAIN);
	}
	log_reader_close(reader);
	close(fd);
	return ours;
}

static int create(struct rotation *r)
{
	return openat(r->dir, r->aside, O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY,
		      0600);
}

static enum err make_new(struct rotation *r)
{
	enum err e;

	r->new_fd = create(r);
	if (r->new_fd < 0 && errno == EEXIST && is_left_over(r) &&
	    unlinkat(r->dir, r->aside, 0) == 0)
		r->new_fd = create(r);
	if (r->new_fd < 0)
		return ERR_SYSTEM;
	e = open_as_log(r->new_fd, &r->new);
	return e ? e : write_first_line(r);
}

/* ---- the exchange ---- */

static enum err change_places(struct rotation *r)
{
	if (fchmod(r->old_fd, 0400) == 0 && fsync(r->old_fd) == 0 &&
	    renameat2(r->dir, r->aside, r->dir, r->name, RENAME_EXCHANGE) == 0)
		return OK;
	return ERR_SYSTEM;
}

static void take_back(struct rotation *r)
{
	int code = errno;

	if (fchmod(r->old_fd, 0600) == 0)
		unlinkat(r->dir, r->aside, 0);
	errno = code;
}

/* What cannot be removed stays: that is no reason not to go on. */
static void remove_oldest(const struct rotation *r, unsigned keep)
{
	struct log_names names;

	if (keep == 0 || log_names_aside(r->dir, str_of(r->name), &names) != OK)
		return;
	for (size_t i = 0; i + keep < names.n; i++)
		unlinkat(r->dir, names.name[i], 0);
	log_names_free(&names);
}

static enum err put_aside(struct rotation *r, const struct log_aside *aside)
{
	enum err e;

	if (!log_aside_name(str_of(r->name), aside->last_us, aside->first_seq, r->aside))
		return ERR_LIMIT;
	e = make_new(r);
	if (!e)
		e = change_places(r);
	if (e && r->new_fd >= 0)
		take_back(r);
	if (!e && fsync(r->dir) < 0)
		e = ERR_SYSTEM;		/* the new one is in its place all the same */
	return e;
}

static void close_one(int fd)
{
	if (fd >= 0)
		close(fd);
}

static void release(struct rotation *r)
{
	int code = errno;

	log_file_close(r->old);
	log_file_close(r->new);
	close_one(r->old_fd);
	close_one(r->new_fd);
	r->old = r->new = NULL;
	r->old_fd = r->new_fd = -1;
	errno = code;
}

enum err log_rotate(const char *path, unsigned keep, int *fd)
{
	struct rotation r = { .dir = -1, .old_fd = -1, .new_fd = -1 };
	struct log_aside aside;
	enum err e = open_folder(&r, path);

	while (!e) {
		e = open_old(&r);
		if (!e)
			e = lock_old(&r, &aside);
		if (e != ERR_AGAIN)
			break;
		release(&r);
		e = OK;
	}
	if (!e)
		e = put_aside(&r, &aside);
	if (!e) {
		remove_oldest(&r, keep);
		*fd = r.new_fd;
		r.new_fd = -1;
	} else if (e == ERR_NOTFOUND) {
		*fd = r.old_fd;
		r.old_fd = -1;
		e = OK;
	}
	release(&r);
	close_one(r.dir);
	return e;
}
