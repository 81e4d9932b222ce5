#include "proxy/settings_machine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/secret.h"
#include "conf/addr.h"
#include "proxy/settings_rows.h"

#define PEM_MARK "-----BEGIN CERTIFICATE-----"
#define PEM_MAX (1u << 20)

struct place {
	struct diags *diags;
	const struct yaml_node *value;
	char path[SETTINGS_PATH_MAX];
};

/* ---- values in the tree ---- */

static const struct yaml_node *value_of(const struct yaml_node *map, const char *key,
					enum yaml_kind kind)
{
	const struct yaml_node *found = map ? schema_key(map, key) : NULL;

	return found && found->next->kind == kind ? found->next : NULL;
}

static const struct yaml_node *value_in(const struct yaml_node *root, const char *group,
					const char *key, enum yaml_kind kind)
{
	return value_of(value_of(root, group, YAML_MAP), key, kind);
}

/* False: no path, or one that has been refused already. */
static bool at_path(struct place *p, const struct yaml_node *value, struct diags *diags)
{
	if (!value || value->kind != YAML_TEXT || value->text.n == 0 || value->text.p[0] != '/' ||
	    value->text.n >= sizeof(p->path))
		return false;
	p->diags = diags;
	p->value = value;
	memcpy(p->path, value->text.p, value->text.n);
	p->path[value->text.n] = '\0';
	return true;
}

/* What the path lies in. */
static void to_folder(struct place *p)
{
	char *slash = strrchr(p->path, '/');

	slash[slash == p->path] = '\0';
}

/* ---- files and folders ---- */

static void tell(const struct place *p, const char *advice, const char *wrong)
{
	diag_error(p->diags, p->value->at, advice, "%s: %s", p->path, wrong);
}

/* @mode: what it is to be made with. */
static void check_folder(const struct place *p, const char *mode)
{
	char advice[SETTINGS_PATH_MAX + 64];
	struct stat st;

	snprintf(advice, sizeof(advice), "make it: mkdir -p -m %s %s", mode, p->path);
	if (stat(p->path, &st) < 0)
		tell(p, errno == ENOENT ? advice : NULL, strerror(errno));
	else if (!S_ISDIR(st.st_mode))
		tell(p, NULL, "is no folder");
	else if (st.st_mode & S_IWOTH && !(st.st_mode & S_ISVTX))
		tell(p, "chmod o-w", "everybody can write to it");
}

/* Opened for reading, and what it is; -1: told. */
static int open_file(const struct place *p, const char *advice, struct stat *st)
{
	int fd = open(p->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd >= 0 && fstat(fd, st) == 0 && S_ISREG(st->st_mode))
		return fd;
	if (fd < 0)
		tell(p, errno == ENOENT ? advice : NULL, strerror(errno));
	else
		tell(p, NULL, "is no file");
	if (fd >= 0)
		close(fd);
	return -1;
}

static void check_secret(const struct place *p)
{
	struct stat st;
	int fd = open_file(p, "install -m 600 /dev/stdin FILE: then type the value, Enter, Ctrl-D", &st);

	if (fd < 0)
		return;
	if (st.st_uid != 0 && st.st_uid != getuid())
		tell(p, "it must belong to root, or to the user that runs exeat",
		     "belongs to somebody else");
	if (st.st_mode & (S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH))
		tell(p, "chmod 600", "others can read or write it");
	/* The value is for the broker alone; its length is told without a look at it. */
	if (st.st_size < SECRET_MIN)
		tell(p, "a shorter value would be found everywhere in an answer",
		     "is shorter than 8 bytes");
	close(fd);
}

static void check_pem(const struct place *p)
{
	struct stat st;
	int fd = open_file(p, NULL, &st);
	char *text = fd >= 0 ? malloc(PEM_MAX) : NULL;
	ssize_t n = text ? read(fd, text, PEM_MAX) : 0;

	if (text && !(n > 0 && memmem(text, (size_t)n, PEM_MARK, strlen(PEM_MARK))))
		tell(p, "a file of trust is text that holds \"" PEM_MARK "\"", "has no certificate");
	if (fd >= 0)
		close(fd);
	free(text);
}

static void check_log(struct place *p)
{
	struct stat st;

	if (stat(p->path, &st) == 0 && !S_ISREG(st.st_mode)) {
		tell(p, NULL, "is no file");
		return;
	}
	to_folder(p);
	check_folder(p, "700");
}

static void check_socket(struct place *p)
{
	struct stat st;

	if (lstat(p->path, &st) == 0 && !S_ISSOCK(st.st_mode))
		tell(p, "a socket is put there, nothing else is replaced", "is there, and no socket");
	to_folder(p);
	if (stat(p->path, &st) < 0 && errno == ENOENT)
		to_folder(p);	/* one folder is made at start */
	check_folder(p, "755");
}

static void check_paths(const struct yaml_node *root, struct diags *diags)
{
	const struct yaml_node *list = value_in(root, "trust", "add", YAML_LIST);
	const struct yaml_node *secrets = value_of(root, "secrets", YAML_MAP);
	struct place p;

	for (const struct yaml_node *i = list ? list->first : NULL; i; i = i->next)
		if (at_path(&p, i, diags))
			check_pem(&p);
	for (const struct yaml_node *key = secrets ? secrets->first : NULL; key;
	     key = key->next->next)
		if (at_path(&p, value_of(key->next, "file", YAML_TEXT), diags))
			check_secret(&p);
	if (at_path(&p, value_in(root, "log", "path", YAML_TEXT), diags))
		check_log(&p);
	if (at_path(&p, value_in(root, "control", "socket", YAML_TEXT), diags))
		check_socket(&p);
	if (at_path(&p, value_in(root, "policies", "directory", YAML_TEXT), diags))
		check_folder(&p, "755");
}

/* ---- groups and routes ---- */

static void check_group(const struct yaml_node *value, struct diags *diags)
{
	char name[SETTINGS_GROUP_MAX + 1], advice[128];

	if (!value || value->text.n == 0 || value->text.n > SETTINGS_GROUP_MAX)
		return;
	snprintf(name, sizeof(name), "%.*s", STR_ARG(value->text));
	if (getgrnam(name))
		return;
	snprintf(advice, sizeof(advice), "make it: groupadd --system %s", name);
	diag_error(diags, value->at, advice, "there is no group \"%s\"", name);
}

/* Connecting a datagram socket looks a route up, and sends nothing. */
static void check_server(const struct yaml_node *value, struct diags *diags)
{
	struct sockaddr_storage ss;
	struct addr a;
	uint16_t port;
	int fd;

	if (value->kind != YAML_TEXT || !addr_port_parse(value->text, 53, &a, &port))
		return;
	fd = socket(a.family == 6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&ss, addr_to_sockaddr(&a, port, &ss)) < 0)
		diag_error(diags, value->at, NULL, "no way to the server %.*s: %s",
			   STR_ARG(value->text), strerror(errno));
	if (fd >= 0)
		close(fd);
}

void settings_machine(const struct yaml_node *root, struct diags *diags)
{
	const struct yaml_node *servers = value_in(root, "resolver", "servers", YAML_LIST);

	for (const struct yaml_node *i = servers ? servers->first : NULL; i; i = i->next)
		check_server(i, diags);
	check_paths(root, diags);
	check_group(value_in(root, "control", "group", YAML_TEXT), diags);
}
