/* Theory of operation
 *
 * The certificate in a box: BOX_CA_BUNDLE is the roots that the box had anyway (its own image's, or
 * the host's where it has none) and Exeat's; BOX_CA_ONLY is Exeat's alone, for programs that add it
 * to roots of their own. The bundle is then mounted over each place where a program may look for
 * the system's roots, if that place exists. A folder of roots, where each is found by the hash of
 * its subject, gets a link of that name. Java has a store of its own kind, which is made of the
 * same roots. The files of an image are never written to: in a root with an image everything here
 * lands in the overlay's upper folder.
 */
#include "sandbox/host_root.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/addr.h"
#include "sandbox/bundle.h"
#include "sandbox/java_store.h"
#include "sandbox/tree.h"

#define CA_BUNDLE_MAX (4u << 20)
#define HASHED_ROOTS "etc/ssl/certs"
#define SAME_HASH_MAX 16
#define COMMAND_MAX (8u << 20)	/* the kernel gives a program 6 MiB of them at most */

#define PLACES_MADE 2		/* of the first bundle_places */
#define JAVA_HOMES "usr/lib/jvm"
#define JAVA_HOMES_MAX 32

/* Debian and Alpine, OpenSSL's default, SUSE, Fedora (three), SUSE's other. */
static const char *const bundle_places[] = {
	"etc/ssl/certs/ca-certificates.crt",
	"etc/ssl/cert.pem",
	"etc/ssl/ca-bundle.pem",
	"etc/pki/tls/certs/ca-bundle.crt",
	"etc/pki/tls/cert.pem",
	"etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	"var/lib/ca-certificates/ca-bundle.pem",
	NULL,
};

/* Debian, then Fedora, whose own Javas link their store to these; then images of Java. */
static const char *const java_places[] = {
	"etc/ssl/certs/java/cacerts",
	"etc/pki/ca-trust/extracted/java/cacerts",
	"etc/pki/java/cacerts",
	"opt/java/openjdk/lib/security/cacerts",
	NULL,
};

/* Paths in a box are written absolute, and used relative to its root here. */
static const char *below(const char *absolute)
{
	return absolute + 1;
}

static bool read_roots(int root, struct buf *out)
{
	for (size_t i = 0; bundle_places[i]; i++) {
		out->n = 0;
		if (tree_read(root, bundle_places[i], out) == OK && out->n > 0)
			return true;
	}
	out->n = 0;
	return false;
}

/* The roots of the box's image; of the host where it has none. */
static enum err gather_roots(int root, struct buf *out)
{
	int host;

	if (read_roots(root, out))
		return OK;
	host = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (host < 0)
		return ERR_SYSTEM;
	(void)read_roots(host, out);
	close(host);
	return out->failed ? ERR_LIMIT : OK;
}

static bool is_there(int root, const char *path)
{
	int fd = tree_find(root, path);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static bool same_file(int root, const char *a, const char *b)
{
	struct stat x, y;
	int fa = tree_find(root, a), fb = tree_find(root, b);
	bool same = fa >= 0 && fb >= 0 && fstat(fa, &x) == 0 && fstat(fb, &y) == 0 &&
		    x.st_dev == y.st_dev && x.st_ino == y.st_ino;

	if (fa >= 0)
		close(fa);
	if (fb >= 0)
		close(fb);
	return same;
}

static bool is_file(int root, const char *path)
{
	struct stat st;
	int fd = tree_find(root, path);
	bool file = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);

	if (fd >= 0)
		close(fd);
	return file;
}

/* Mounts the file @made over @place, if that is a file. Places are often links to one another: once
 * is enough. */
static enum err cover(int root, const char *made, const char *place)
{
	const struct tree_view view = { .userns = -1 };
	char from[64];
	int file;
	enum err e;

	if (!is_file(root, place) || same_file(root, place, made))
		return OK;
	file = tree_find(root, made);
	if (file < 0)
		return ERR_SYSTEM;
	snprintf(from, sizeof(from), "/proc/self/fd/%d", file);
	e = tree_mount(root, place, from, &view);
	close(file);
	return e;
}

static enum err cover_places(int root, const char *made, const char *const *places)
{
	enum err e = OK;

	for (; e == OK && *places; places++)
		e = cover(root, made, *places);
	return e;
}

/* What is no certificate has no subject, and gets no link. */
static bool subject_hash(struct str ca, unsigned long *hash)
{
	BIO *text = BIO_new_mem_buf(ca.p, (int)ca.n);
	X509 *certificate = text ? PEM_read_bio_X509(text, NULL, NULL, NULL) : NULL;

	if (certificate)
		*hash = X509_subject_name_hash(certificate);
	ERR_clear_error();
	X509_free(certificate);
	BIO_free(text);
	return certificate != NULL;
}

/* Of subjects with one hash the first has ".0" to its name, the next ".1"; OpenSSL stops at the first
 * number that is not there. */
static enum err put_hash_link(int root, struct str ca)
{
	unsigned long hash;
	char path[64];

	if (!is_there(root, HASHED_ROOTS) || !subject_hash(ca, &hash))
		return OK;
	for (unsigned i = 0; i < SAME_HASH_MAX; i++) {
		snprintf(path, sizeof(path), HASHED_ROOTS "/%08lx.%u", hash, i);
		if (!is_there(root, path))
			return tree_link(root, path, BOX_CA_ONLY);
	}
	return ERR_LIMIT;
}

/* In a root without roots, a program that is told nothing by its environment finds them, too. Where
 * these places cannot be made (/etc/ssl is a file) there is the environment. */
static void make_places(int root)
{
	for (size_t i = 0; i < PLACES_MADE; i++)
		if (!is_there(root, bundle_places[i]) &&
		    tree_link(root, bundle_places[i], BOX_CA_BUNDLE) != OK)
			return;
}

static DIR *open_folder(int root, const char *path)
{
	int fd = tree_find(root, path);
	int folder = fd < 0 ? -1 : openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = folder < 0 ? NULL : fdopendir(folder);

	if (fd >= 0)
		close(fd);
	if (!d && folder >= 0)
		close(folder);
	return d;
}

/* A Java that is not the distribution's brings its own store. */
static enum err cover_java_homes(int root)
{
	static const char *const stores[] = { "lib/security/cacerts", "jre/lib/security/cacerts" };
	DIR *homes = open_folder(root, JAVA_HOMES);
	struct dirent *home;
	enum err e = OK;

	if (!homes)
		return OK;
	for (size_t n = 0; e == OK && n < JAVA_HOMES_MAX && (home = readdir(homes)); n++)
		for (size_t i = 0; e == OK && i < sizeof(stores) / sizeof(*stores); i++) {
			char place[TREE_PATH_MAX];

			snprintf(place, sizeof(place), JAVA_HOMES "/%s/%s", home->d_name, stores[i]);
			e = cover(root, below(BOX_JAVA_STORE), place);
		}
	closedir(homes);
	return e;
}

static enum err put_java_store(int root, struct str roots)
{
	struct buf store;
	enum err e;

	buf_init(&store, JAVA_STORE_MAX);
	e = java_store_write(roots, &store);
	if (e == OK)
		e = tree_file(root, below(BOX_JAVA_STORE), buf_str(&store), 0444);
	if (e == OK)
		e = cover_places(root, below(BOX_JAVA_STORE), java_places);
	if (e == OK)
		e = cover_java_homes(root);
	buf_free(&store);
	return e;
}

static enum err put_certificates(int root, struct str ca)
{
	struct buf roots;
	enum err e;

	buf_init(&roots, CA_BUNDLE_MAX);
	e = gather_roots(root, &roots);
	if (roots.n > 0 && roots.p[roots.n - 1] != '\n')
		buf_put_c(&roots, '\n');
	buf_put_str(&roots, ca);
	if (e == OK && roots.failed)
		e = ERR_LIMIT;
	if (e == OK)
		e = tree_file(root, below(BOX_CA_BUNDLE), buf_str(&roots), 0444);
	if (e == OK)
		e = tree_file(root, below(BOX_CA_ONLY), ca, 0444);
	if (e == OK)
		e = put_hash_link(root, ca);
	if (e == OK) {
		make_places(root);
		e = cover_places(root, below(BOX_CA_BUNDLE), bundle_places);
	}
	if (e == OK)
		e = put_java_store(root, buf_str(&roots));
	buf_free(&roots);
	return e;
}

static enum err put_names(int root, uint32_t nameserver)
{
	char address[ADDR_TEXT_MAX], text[128];
	struct addr a = addr_v4(nameserver);
	enum err e;

	snprintf(text, sizeof(text), "nameserver %s\noptions timeout:5 attempts:3\n",
		 addr_format(&a, address));
	e = tree_file(root, "etc/resolv.conf", str_of(text), 0444);
	if (e == OK)
		e = tree_file(root, "etc/hosts", STR("127.0.0.1 localhost\n127.0.1.1 box\n"), 0444);
	if (e == OK)
		e = tree_file(root, "etc/hostname", STR("box\n"), 0444);
	return e;
}

static enum err put_command(int root, char *const *command)
{
	struct buf arguments;
	enum err e;

	buf_init(&arguments, COMMAND_MAX);
	for (; *command; command++)
		buf_put(&arguments, *command, strlen(*command) + 1);
	e = arguments.failed ? ERR_LIMIT : OK;
	if (arguments.failed)
		errno = E2BIG;
	if (e == OK)
		e = tree_file(root, below(BOX_COMMAND), buf_str(&arguments), 0444);
	buf_free(&arguments);
	return e;
}

static enum err put_init(int root, const char *init)
{
	const struct tree_view view = { .userns = -1 };
	enum err e = tree_file(root, below(BOX_INIT), STR_NONE, 0555);

	return e == OK ? tree_mount(root, below(BOX_INIT), init, &view) : e;
}

/* runc gives a file system in memory the mode of the folder that it covers, whatever it is told. */
static enum err put_mount_points(int root, const char **what)
{
	static const struct {
		const char *path;
		unsigned mode;
	} folders[] = { { "etc/exeat", 0755 }, { "proc", 0755 }, { "dev", 0755 }, { "tmp", 01777 },
			{ "run", 01777 }, { "home/box", 0700 }, { "workspace", 0755 } };
	enum err e = OK;

	for (size_t i = 0; e == OK && i < sizeof(folders) / sizeof(*folders); i++) {
		e = tree_folder(root, *what = folders[i].path, NULL);
		if (e == OK)
			e = tree_mode(root, folders[i].path, folders[i].mode);
	}
	return e;
}

enum err box_files_fill(int root, const struct box_spec *spec, const char **what)
{
	enum err e = put_mount_points(root, what);

	if (e == OK) {
		*what = "names in /etc";
		e = put_names(root, spec->nameserver);
	}
	if (e == OK) {
		*what = "certificates";
		e = put_certificates(root, spec->ca_pem);
	}
	if (e == OK) {
		*what = "command";
		e = put_command(root, spec->command);
	}
	if (e == OK) {
		*what = spec->init;
		e = put_init(root, spec->init);
	}
	return e;
}
