/* Theory of operation
 *
 * A file comes into the folder whole, by a rename from a name that is no digest, after it is on the
 * disk. When it was put in is its time of modification; one that is there gets a new one. What lies
 * there under another name is not touched.
 */
#include "proxy/policy_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAKING ".making"

static bool is_digest(struct str s, size_t min)
{
	for (size_t i = 0; i < s.n; i++)
		if (!(s.p[i] >= '0' && s.p[i] <= '9') && !(s.p[i] >= 'a' && s.p[i] <= 'f'))
			return false;
	return s.n >= min && s.n <= POLICY_DIGEST_HEX;
}

static enum err open_folder(const char *log_path, bool make, int *dir)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s" POLICY_STORE_SUFFIX, log_path) >= PATH_MAX)
		return ERR_LIMIT;
	if (make && mkdir(path, 0700) < 0 && errno != EEXIST)
		return ERR_SYSTEM;
	*dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (*dir < 0)
		return !make && errno == ENOENT ? ERR_NOTFOUND : ERR_SYSTEM;
	return OK;
}

/* ---- putting in ---- */

static enum err write_all(int to, const char *p, size_t n)
{
	while (n) {
		ssize_t k = write(to, p, n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return ERR_SYSTEM;
		p += k;
		n -= (size_t)k;
	}
	return OK;
}

static enum err copy(int from, int to)
{
	char block[65536];
	off_t at = 0;

	for (;;) {
		ssize_t n = pread(from, block, sizeof(block), at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 || fsync(to) < 0 ? ERR_SYSTEM : OK;
		at += n;
		if (at > (off_t)POLICY_STORE_BYTES)
			return ERR_LIMIT;
		if (write_all(to, block, (size_t)n) != OK)
			return ERR_SYSTEM;
	}
}

static enum err make(int dir, const char *name, int source)
{
	char making[32];
	int fd, code;
	enum err e;

	snprintf(making, sizeof(making), MAKING "-%d", (int)getpid());
	fd = openat(dir, making, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return ERR_SYSTEM;
	e = copy(source, fd);
	if (!e && renameat(dir, making, dir, name) < 0)
		e = ERR_SYSTEM;
	if (!e && fsync(dir) < 0)
		e = ERR_SYSTEM;
	code = errno;
	close(fd);
	if (e)
		unlinkat(dir, making, 0);
	errno = code;
	return e;
}

/* Calls @fn for each file of the store until it returns false. */
static enum err each(int dir, bool (*fn)(void *arg, int dir, const char *name), void *arg)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;
	bool more = true;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return ERR_SYSTEM;
	}
	while (more && (entry = readdir(d)) != NULL)
		if (is_digest(str_of(entry->d_name), POLICY_DIGEST_HEX))
			more = fn(arg, dir, entry->d_name);
	closedir(d);
	return OK;
}

struct census {
	unsigned n;
	char oldest[POLICY_DIGEST_HEX + 1];
	struct timespec since;
};

static bool count(void *arg, int dir, const char *name)
{
	struct census *c = arg;
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return true;
	if (c->n++ == 0 || st.st_mtim.tv_sec < c->since.tv_sec ||
	    (st.st_mtim.tv_sec == c->since.tv_sec && st.st_mtim.tv_nsec < c->since.tv_nsec)) {
		snprintf(c->oldest, sizeof(c->oldest), "%s", name);
		c->since = st.st_mtim;
	}
	return true;
}

static enum err remove_oldest(int dir)
{
	for (;;) {
		struct census c = { 0 };
		enum err e = each(dir, count, &c);

		if (e || c.n <= POLICY_STORE_MAX)
			return e;
		if (unlinkat(dir, c.oldest, 0) < 0 && errno != ENOENT)	/* another did */
			return ERR_SYSTEM;
	}
}

enum err policy_store_renew(const char *log_path, struct str digest)
{
	char name[POLICY_DIGEST_HEX + 1];
	int dir = -1;
	enum err e = is_digest(digest, POLICY_DIGEST_HEX) ? open_folder(log_path, false, &dir)
						       : ERR_SYNTAX;

	if (e)
		return e;
	snprintf(name, sizeof(name), "%.*s", STR_ARG(digest));
	if (utimensat(dir, name, NULL, AT_SYMLINK_NOFOLLOW) < 0)
		e = errno == ENOENT ? ERR_NOTFOUND : ERR_SYSTEM;
	close(dir);
	return e;
}

enum err policy_store_put(const char *log_path, struct str digest, int source)
{
	char name[POLICY_DIGEST_HEX + 1];
	int dir = -1;
	enum err e = policy_store_renew(log_path, digest);

	if (e == ERR_NOTFOUND)
		e = open_folder(log_path, true, &dir);
	if (e || dir < 0)
		return e;
	snprintf(name, sizeof(name), "%.*s", STR_ARG(digest));
	e = make(dir, name, source);
	if (!e)
		e = remove_oldest(dir);
	close(dir);
	return e;
}

/* ---- finding ---- */

struct search {
	struct str prefix;
	unsigned found;
	char name[POLICY_DIGEST_HEX + 1];
};

static bool match(void *arg, int dir, const char *name)
{
	struct search *s = arg;

	(void)dir;
	if (!str_starts(str_of(name), s->prefix))
		return true;
	snprintf(s->name, sizeof(s->name), "%s", name);
	return ++s->found < 2;
}

enum err policy_store_find(const char *log_path, struct str digest, int *fd)
{
	struct search s = { .prefix = digest };
	int dir = -1;
	enum err e = is_digest(digest, POLICY_PREFIX_MIN) ? open_folder(log_path, false, &dir)
						       : ERR_SYNTAX;

	if (e)
		return e;
	e = each(dir, match, &s);
	if (!e)
		e = s.found == 0 ? ERR_NOTFOUND : s.found > 1 ? ERR_FULL : OK;
	if (!e) {
		*fd = openat(dir, s.name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		e = *fd < 0 ? ERR_SYSTEM : OK;
	}
	close(dir);
	return e;
}
