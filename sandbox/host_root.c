#include "sandbox/host_root.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/bundle.h"
#include "sandbox/tree.h"

#define ROOTS "/etc/ssl/certs"

/* Of /etc: what loaders, languages and shells read. No configuration of services, no accounts, and
 * nothing that not everybody may read. */
static const char *const etc_shown[] = {
	"alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "mime.types", "protocols",
	"services", "localtime", "timezone", "os-release", "debian_version", "bash.bashrc",
	"profile", "inputrc", "terminfo", "fonts", "perl", "magic", "magic.mime", "pki",
	"ssl/openssl.cnf", "crypto-policies", "python3", "python3.11", "nodejs",
	"java", "java-11-openjdk", "java-17-openjdk", "java-21-openjdk", "maven", "gitattributes",
	"R", "lynx", "emacs", "vim", "groff", "papersize", "texmf", "xml", "sgml", NULL,
};

static const char *const top_level[] = { "usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32",
					 NULL };

static enum err show_link(int root, const char *from, const char *path)
{
	char target[TREE_PATH_MAX];
	ssize_t n = readlink(from, target, sizeof(target) - 1);

	if (n < 0)
		return ERR_SYSTEM;
	target[n] = '\0';
	return tree_link(root, path, target);
}

/* The host's "/path" at the same place, if there is such a thing and everybody may read it. */
static enum err show(int root, const char *path)
{
	const struct tree_view view = { .recursive = true, .userns = -1 };
	char from[TREE_PATH_MAX];
	struct stat st;
	enum err e;

	snprintf(from, sizeof(from), "/%s", path);
	if (lstat(from, &st) < 0)
		return errno == ENOENT || errno == ENOTDIR ? OK : ERR_SYSTEM;
	if (S_ISLNK(st.st_mode))
		return show_link(root, from, path);
	if (!(st.st_mode & S_IROTH) || (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)))
		return OK;
	e = S_ISDIR(st.st_mode) ? tree_folder(root, path, NULL) :
	    tree_file(root, path, STR_NONE, 0444);
	return e == OK ? tree_mount(root, path, from, &view) : e;
}

static enum err mount_at(int place, const char *options)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", place);
	return mount("overlay", path, "overlay", MS_NOSUID | MS_NODEV, options) == 0 ? OK : ERR_SYSTEM;
}

/* The host's folder of roots, to which one will be added: in a layer of its own, which lies in the
 * bundle and not in the root. */
static enum err show_roots(int bundle, int root)
{
	static const char *const layers[] = { "roots-upper", "roots-work" };
	char options[192];
	int fd[3] = { -1, -1, -1 };
	enum err e = OK;

	if (access(ROOTS, R_OK) < 0)
		return OK;
	for (size_t i = 0; e == OK && i < 2; i++)
		e = tree_folder(bundle, layers[i], &fd[i]);
	if (e == OK)
		e = tree_folder(root, &ROOTS[1], &fd[2]);
	snprintf(options, sizeof(options), "lowerdir=" ROOTS ",upperdir=/proc/self/fd/%d,"
		 "workdir=/proc/self/fd/%d", fd[0], fd[1]);
	if (e == OK)
		e = mount_at(fd[2], options);
	for (size_t i = 0; i < 3; i++)
		if (fd[i] >= 0)
			close(fd[i]);
	return e;
}

static const struct {
	const char *path, *content;
} etc_made[] = {
	{ "etc/passwd", "root:x:0:0:root:/root:/usr/sbin/nologin\n"
			"box:x:1000:1000:box:" BOX_HOME ":/bin/sh\n"
			"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n" },
	{ "etc/group", "root:x:0:\nbox:x:1000:\nnogroup:x:65534:\n" },
	{ "etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\nnetworks: files\n"
			       "protocols: files\nservices: files\n" },
	{ "etc/shells", "/bin/sh\n/bin/bash\n" },
	{ NULL, NULL },
};

enum err host_root_fill(int bundle, int root, const char **what)
{
	static const char *const folders[] = { "etc", "root", "var/lib", "var/cache", "opt", "srv", "mnt",
					       NULL };
	enum err e = OK;

	for (size_t i = 0; e == OK && top_level[i]; i++)
		e = show(root, *what = top_level[i]);
	for (size_t i = 0; e == OK && folders[i]; i++)
		e = tree_folder(root, *what = folders[i], NULL);
	for (size_t i = 0; e == OK && etc_shown[i]; i++) {
		char path[TREE_PATH_MAX];

		snprintf(path, sizeof(path), "etc/%s", *what = etc_shown[i]);
		e = show(root, path);
	}
	if (e == OK) {
		*what = "roots: the kernel has no overlay file system";
		e = show_roots(bundle, root);
	}
	for (size_t i = 0; e == OK && etc_made[i].path; i++)
		e = tree_file(root, *what = etc_made[i].path, str_of(etc_made[i].content), 0444);
	if (e == OK)
		e = tree_link(root, *what = "etc/mtab", "../proc/self/mounts");
	if (e == OK)
		e = tree_link(root, *what = "etc/ssl/cert.pem", BOX_CA_BUNDLE);
	if (e == OK)
		e = tree_link(root, *what = "var/tmp", "../tmp");
	if (e == OK)
		e = tree_link(root, *what = "var/run", "../run");
	return e;
}

/* The layer that was written to is no longer. The runtime does the same for "/" alone. */
enum err host_root_seal(int root, const char **what)
{
	struct mount_attr a = { .attr_set = MOUNT_ATTR_RDONLY };
	int roots = tree_find(root, &ROOTS[1]);
	enum err e = OK;

	if (roots < 0)
		return OK;
	*what = "roots: read-only";
	if (mount_setattr(roots, "", AT_EMPTY_PATH, &a, sizeof(a)) < 0)
		e = ERR_SYSTEM;
	close(roots);
	return e;
}
