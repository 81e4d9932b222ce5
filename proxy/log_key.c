/* Theory of operation
 *
 * A file is written whole under a name of its own, brought to the disk, and then linked to the name
 * it is for: whoever finds that name finds all of the key, and of two that make one at once, one
 * is first and the other takes what is there.
 */
#include "proxy/log_key.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum err path_of(const char *log_path, const char *suffix, char out[PATH_MAX])
{
	return snprintf(out, PATH_MAX, "%s%s", log_path, suffix) < PATH_MAX ? OK : ERR_LIMIT;
}

static bool sync_folder(const char *path)
{
	char folder[PATH_MAX];
	const char *slash = strrchr(path, '/');
	int n = slash ? (int)(slash - path) + 1 : 1, fd;
	bool ok;

	snprintf(folder, sizeof(folder), "%.*s", n, slash ? path : ".");
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ok = fd >= 0 && fsync(fd) == 0;
	if (fd >= 0)
		close(fd);
	return ok;
}

/* ERR_FULL: the name is taken. */
static enum err put_in_place(FILE *f, const char *made, const char *path)
{
	if (fflush(f) != 0 || fsync(fileno(f)) < 0)
		return ERR_SYSTEM;
	if (link(made, path) < 0)
		return errno == EEXIST ? ERR_FULL : ERR_SYSTEM;
	return sync_folder(path) ? OK : ERR_SYSTEM;
}

static enum err write_key(const char *path, EVP_PKEY *key, bool private)
{
	char made[PATH_MAX], buffer[4096];
	enum err e = path_of(path, ".XXXXXX", made);
	int fd = e ? -1 : mkostemp(made, O_CLOEXEC), code;
	FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;

	if (!f) {
		if (fd >= 0) {
			close(fd);
			unlink(made);
		}
		return e ? e : ERR_SYSTEM;
	}
	setvbuf(f, buffer, _IOFBF, sizeof(buffer));
	if (!private && fchmod(fd, 0644) < 0)
		e = ERR_SYSTEM;
	else if (!(private ? PEM_write_PKCS8PrivateKey(f, key, NULL, NULL, 0, NULL, NULL)
			   : PEM_write_PUBKEY(f, key)))
		e = ERR_CRYPTO;
	else
		e = put_in_place(f, made, path);
	code = errno;
	unlink(made);
	fclose(f);
	explicit_bzero(buffer, sizeof(buffer));
	errno = code;
	return e == ERR_FULL ? OK : e;
}

static enum err make_key(const char *path)
{
	EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	enum err e = key ? write_key(path, key, true) : ERR_CRYPTO;

	EVP_PKEY_free(key);
	return e;
}

static enum err check_owner(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return ERR_SYSTEM;
	return S_ISREG(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 077) ? OK
										    : ERR_DENIED;
}

static enum err open_private(const char *path, int *fd)
{
	enum err e = OK;

	*fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
	if (*fd < 0 && errno == ENOENT) {
		e = make_key(path);
		if (!e)
			*fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
	}
	if (e)
		return e;
	return *fd < 0 ? ERR_SYSTEM : check_owner(*fd);
}

/* The public half, where it is missing. */
static enum err make_public(const char *path, int private_fd)
{
	int copy = fcntl(private_fd, F_DUPFD_CLOEXEC, 0);
	FILE *f = copy >= 0 ? fdopen(copy, "r") : NULL;
	EVP_PKEY *key;
	enum err e;

	if (!f) {
		if (copy >= 0)
			close(copy);
		return ERR_SYSTEM;
	}
	setbuf(f, NULL);	/* no copy of the key stays in a buffer */
	key = PEM_read_PrivateKey(f, NULL, NULL, NULL);
	ERR_clear_error();
	fclose(f);
	e = key ? write_key(path, key, false) : ERR_SYNTAX;
	EVP_PKEY_free(key);
	return e;
}

enum err log_key_open(const char *log_path, int *fd)
{
	char private[PATH_MAX], public[PATH_MAX];
	enum err e = path_of(log_path, LOG_KEY_SUFFIX, private);
	int code;

	*fd = -1;
	if (!e)
		e = path_of(log_path, LOG_PUB_SUFFIX, public);
	if (!e)
		e = open_private(private, fd);
	if (!e && access(public, F_OK) < 0)
		e = make_public(public, *fd);
	if (!e && lseek(*fd, 0, SEEK_SET) < 0)
		e = ERR_SYSTEM;
	code = errno;
	if (e && *fd >= 0) {
		close(*fd);
		*fd = -1;
	}
	errno = code;
	return e;
}
