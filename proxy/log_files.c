#include "proxy/log_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/sort.h"
#include "proxy/log_read.h"

#define LOOKS_MAX 8	/* so often a log may be rotated while its files are looked up */

struct log_files {
	struct log_names paths;
	int last;		/* the last of them, opened before the others; or -1 */
	size_t at;		/* which is read */
	int fd;
	struct log_reader *reader;
	uint64_t line;
};

/* ---- names ---- */

void log_names_free(struct log_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->name[i]);
	free(names->name);
	*names = (struct log_names){ 0 };
}

static enum err add_name(struct log_names *names, const char *name)
{
	if (!names->name)
		names->name = calloc(LOG_FILES_MAX + 1, sizeof(*names->name));
	if (!names->name)
		return ERR_NOMEM;
	if (names->n == LOG_FILES_MAX + 1)
		return ERR_LIMIT;
	names->name[names->n] = strdup(name);
	return names->name[names->n] ? (names->n++, OK) : ERR_NOMEM;
}

static int by_age(const void *a, const void *b)
{
	return log_aside_order(*(char *const *)a, *(char *const *)b);
}

enum err log_names_aside(int dir, struct str name, struct log_names *out)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	enum err e = d ? OK : ERR_SYSTEM;
	struct dirent *entry;

	*out = (struct log_names){ 0 };
	if (!d && fd >= 0)
		close(fd);
	while (!e && (errno = 0, entry = readdir(d)) != NULL)
		if (log_is_aside(name, str_of(entry->d_name)))
			e = add_name(out, entry->d_name);
	if (!e && errno)
		e = ERR_SYSTEM;
	if (d)
		closedir(d);
	if (e)
		log_names_free(out);
	else if (out->n)
		sort_items(out->name, out->n, sizeof(*out->name), by_age);
	return e;
}

/* ---- opening ---- */

static enum err add_aside(struct log_files *f, const char *path)
{
	const char *slash = strrchr(path, '/');
	int n = slash ? (int)(slash - path) + 1 : 0;
	char folder[PATH_MAX], full[PATH_MAX];
	struct log_names names;
	enum err e;
	int dir;

	if (snprintf(folder, sizeof(folder), "%.*s", n ? n : 1, n ? path : ".") >= PATH_MAX)
		return ERR_LIMIT;
	dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return ERR_SYSTEM;
	e = log_names_aside(dir, str_of(path + n), &names);
	close(dir);
	for (size_t i = 0; !e && i < names.n; i++) {
		if (snprintf(full, sizeof(full), "%.*s%s", n, path, names.name[i]) >= PATH_MAX)
			e = ERR_LIMIT;
		else
			e = add_name(&f->paths, full);
	}
	log_names_free(&names);
	return e;
}

static bool is_still(int fd, const char *path)
{
	struct stat ours, named;

	return fstat(fd, &ours) == 0 && stat(path, &named) == 0 && ours.st_ino == named.st_ino &&
	       ours.st_dev == named.st_dev;
}

/* The last file first: who is put aside after that is still ours, by its descriptor. */
static enum err look_up(struct log_files *f, const char *path)
{
	for (unsigned i = 0; i < LOOKS_MAX; i++) {
		enum err e;

		log_names_free(&f->paths);
		if (f->last >= 0)
			close(f->last);
		f->last = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
		if (f->last < 0)
			return ERR_SYSTEM;
		e = add_aside(f, path);
		if (e)
			return e;
		if (is_still(f->last, path))
			return add_name(&f->paths, path);
	}
	errno = EBUSY;
	return ERR_SYSTEM;
}

static struct log_files *make(void)
{
	struct log_files *f = calloc(1, sizeof(*f));

	if (f)
		f->last = f->fd = -1;
	return f;
}

enum err log_files_open(const char *path, struct log_files **out)
{
	struct log_files *f = make();
	enum err e = f ? OK : ERR_NOMEM;

	if (!e)
		e = look_up(f, path);
	if (e)
		log_files_close(f);
	else
		*out = f;
	return e;
}

enum err log_files_open_list(char **paths, size_t n, struct log_files **out)
{
	struct log_files *f = make();
	enum err e = f ? OK : ERR_NOMEM;

	for (size_t i = 0; !e && i < n; i++)
		e = add_name(&f->paths, paths[i]);
	if (e)
		log_files_close(f);
	else
		*out = f;
	return e;
}

static void end_file(struct log_files *f)
{
	int code = errno;

	log_reader_close(f->reader);
	f->reader = NULL;
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
	errno = code;
}

void log_files_close(struct log_files *f)
{
	int code = errno;

	if (!f)
		return;
	end_file(f);
	if (f->last >= 0)
		close(f->last);
	log_names_free(&f->paths);
	free(f);
	errno = code;
}

/* ---- reading ---- */

/* Where the last whole batch ends: writers hold the lock while they write. */
static enum err stop_at_batch(int fd, struct log_reader *r)
{
	struct stat st;
	bool locked = flock(fd, LOCK_SH) == 0;
	enum err e = fstat(fd, &st) < 0 ? ERR_SYSTEM : OK;

	if (locked)
		flock(fd, LOCK_UN);
	if (!e && S_ISREG(st.st_mode))
		log_reader_stop_at(r, (uint64_t)st.st_size);
	return e;
}

static enum err begin_file(struct log_files *f)
{
	enum err e;

	f->line = 0;
	if (f->at + 1 == f->paths.n && f->last >= 0) {
		f->fd = f->last;
		f->last = -1;
	} else {
		f->fd = open(f->paths.name[f->at], O_RDONLY | O_CLOEXEC | O_NOCTTY);
	}
	if (f->fd < 0)
		return ERR_SYSTEM;
	e = log_reader_open(f->fd, &f->reader);
	return e ? e : stop_at_batch(f->fd, f->reader);
}

enum err log_files_next(struct log_files *f, struct str *line)
{
	for (;;) {
		enum err e = f->reader ? OK : begin_file(f);

		if (!e)
			e = log_reader_next(f->reader, line);
		if (e != ERR_AGAIN) {
			f->line++;
			return e;
		}
		if (f->at + 1 == f->paths.n)
			return e;
		end_file(f);
		f->at++;
	}
}

size_t log_files_count(const struct log_files *f)
{
	return f->paths.n;
}

const char *log_files_path(const struct log_files *f, size_t number)
{
	return f->paths.name[number];
}

const char *log_files_name(const struct log_files *f)
{
	return f->paths.n ? f->paths.name[f->at] : "";
}

uint64_t log_files_line(const struct log_files *f)
{
	return f->line;
}
