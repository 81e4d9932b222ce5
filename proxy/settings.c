#include "proxy/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/arena.h"
#include "conf/hex.h"
#include "policy/digest.h"
#include "policy/pattern.h"
#include "proxy/settings_machine.h"
#include "proxy/settings_rows.h"

#define SETTINGS_FILE_MAX (1u << 20)
#define SECRETS_TEXT_MAX (48u << 10)
#define WHOLE_PATH "write the whole path, from its /"

struct owned {
	struct arena arena;
	struct yaml *tree;
	char *text;
};

struct load {
	struct settings *s;
	struct owned *owned;
	struct diags diags;
};

/* ---- values ---- */

static void take_servers(struct load *l, const struct yaml_node *list)
{
	size_t n = schema_count(list);
	struct str *v = arena_take(&l->owned->arena, n, sizeof(*v));

	if (!v || !list)
		return;
	for (const struct yaml_node *i = list->first; i; i = i->next) {
		char text[ADDR_PORT_TEXT_MAX], addr[ADDR_TEXT_MAX];
		struct addr a;
		uint16_t port;

		if (!addr_port_parse(i->text, 53, &a, &port)) {
			diag_error(&l->diags, i->at,
				   "write \"203.0.113.53:53\" or \"[2001:db8::1]:53\"",
				   "\"%.*s\" is no address of a server", STR_ARG(i->text));
			continue;
		}
		snprintf(text, sizeof(text), a.family == 6 ? "[%s]:%u" : "%s:%u",
			 addr_format(&a, addr), port);
		v[l->s->n_servers++] = arena_copy(&l->owned->arena, str_of(text));
	}
	l->s->servers = v;
}

static void take_addrs(struct load *l, const struct yaml_node *name, struct settings_name *out)
{
	const struct yaml_node *list = name->next;
	size_t n = schema_count(list);

	if (list->kind != YAML_LIST || n == 0 || n > SETTINGS_NAME_ADDRS_MAX) {
		diag_error(&l->diags, list->at, NULL, "a name has a list of 1 to %d addresses",
			   SETTINGS_NAME_ADDRS_MAX);
		return;
	}
	out->addrs = arena_take(&l->owned->arena, n, sizeof(*out->addrs));
	for (const struct yaml_node *i = list->first; i && out->addrs; i = i->next) {
		if (i->kind == YAML_TEXT && addr_parse(i->text, &out->addrs[out->n_addrs]))
			out->n_addrs++;
		else
			diag_error(&l->diags, i->at, NULL, "\"%.*s\" is no address",
				   STR_ARG(i->text));
	}
}

static void take_names(struct load *l, const struct yaml_node *map)
{
	size_t n = schema_count(map) / 2;
	struct settings_name *v = arena_take(&l->owned->arena, n, sizeof(*v));

	if (!v || !map)
		return;
	for (const struct yaml_node *key = map->first; key; key = key->next->next) {
		struct name name;
		enum name_result r = name_canon(key->text, &name);

		if (r != NAME_OK) {
			diag_error(&l->diags, key->at, NULL, "name \"%.*s\": %s",
				   STR_ARG(key->text),
				   name_result_text(r));
			continue;
		}
		v[l->s->n_names].name = arena_copy(&l->owned->arena, name_str(&name));
		take_addrs(l, key, &v[l->s->n_names++]);
	}
	l->s->names = v;
}

static void take_trust(struct load *l, const struct yaml_node *list)
{
	size_t n = schema_count(list);
	struct str *v = arena_take(&l->owned->arena, n, sizeof(*v));

	if (!v || !list)
		return;
	for (const struct yaml_node *i = list->first; i; i = i->next) {
		if (i->text.p[0] != '/' || i->text.n >= SETTINGS_PATH_MAX)
			diag_error(&l->diags, i->at, WHOLE_PATH, "\"%.*s\" is no absolute path",
				   STR_ARG(i->text));
		else
			v[l->s->n_trust_add++] = i->text;
	}
	l->s->trust_add = v;
}

/* ---- pools ---- */

static void take_pool(struct load *l, const struct yaml_node *root, const char *key,
		      struct str text,
		      uint8_t longest, struct addr_range *out)
{
	const struct yaml_node *network = root ? schema_key(root, "network") : NULL;
	const struct yaml_node *node = network ? schema_key(network->next, key) : NULL;

	if (addr_range_parse(text, out) && out->net.family == 4 && out->bits >= 8 &&
	    out->bits <= longest)
		return;
	if (node)
		diag_error(&l->diags, node->next->at, NULL,
			   "\"%s\" is an IPv4 range from /8 to /%u, not \"%.*s\"", key, longest, STR_ARG(text));
}

static void check_pools(struct load *l, const struct yaml_node *root)
{
	const struct addr_range *a = &l->s->link_pool, *b = &l->s->synthetic_pool;
	const struct yaml_node *network = root ? schema_key(root, "network") : NULL;

	if (network && l->diags.errors == 0 && (addr_in_range(&a->net, b) ||
						addr_in_range(&b->net, a)))
		diag_error(&l->diags, network->at, NULL,
			   "\"link_pool\" and \"synthetic_pool\" overlap");
}

/* ---- secrets ---- */

static const char *check_secret_name(struct str name)
{
	if (name.n == 0 || name.n > 64)
		return "a name of 1 to 64 bytes";
	if (!str_is_id(name))
		return "must be lower-case letters, digits, '_', '.' and '-', a letter or digit first";
	return NULL;
}

static void take_hosts(struct load *l, const struct yaml_node *list, struct settings_secret *out)
{
	out->hosts = arena_take(&l->owned->arena, schema_count(list), sizeof(*out->hosts));
	for (const struct yaml_node *i = list ? list->first : NULL; i && out->hosts; i = i->next) {
		struct host_pattern pattern;
		struct str base;
		enum name_result r = pattern_canon(i->text, &pattern);

		if (pattern_kind(i->text, &base) == PATTERN_ANY)
			diag_error(&l->diags, i->at, NULL, "a secret goes to hosts that are named");
		else if (r != NAME_OK)
			diag_error(&l->diags, i->at, NULL, "host \"%.*s\": %s", STR_ARG(i->text),
				   name_result_text(r));
		else
			out->hosts[out->n_hosts++] = arena_copy(&l->owned->arena,
								str_n(pattern.s, pattern.n));
	}
}

static void take_secret(struct load *l, const struct yaml_node *key, struct settings_secret *out)
{
	struct settings_secret_fields f = { 0 };
	const char *wrong = check_secret_name(key->text);

	if (wrong)
		diag_error(&l->diags, key->at, NULL, "secret \"%.*s\": %s", STR_ARG(key->text),
			   wrong);
	if (key->next->kind == YAML_TEXT) {
		diag_error(&l->diags, key->at, "write {file: /PATH, hosts: [HOST]}: a value never stands here",
			   "a secret says where its value is, and where it may go");
		return;
	}
	if (schema_read(settings_secret_rows, "a secret", key->next, &f, &l->diags) && !f.file.n == !f.env.n)
		diag_error(&l->diags, key->at, "write file: /PATH, or env: VARIABLE",
			   "a secret has one source: \"file\" or \"env\"");
	out->name = key->text;
	out->file = f.file;
	out->env = f.env;
	take_hosts(l, f.hosts, out);
}

static void take_secrets(struct load *l, const struct yaml_node *map)
{
	size_t n = schema_count(map) / 2, text = 0;
	struct settings_secret *v = arena_take(&l->owned->arena, n, sizeof(*v));

	if (!v || !map)
		return;
	for (const struct yaml_node *key = map->first; key; key = key->next->next) {
		struct settings_secret *s = &v[l->s->n_secrets++];

		take_secret(l, key, s);
		text += s->name.n + 8;
		for (size_t i = 0; i < s->n_hosts; i++)
			text += s->hosts[i].n + 1;
	}
	if (text > SECRETS_TEXT_MAX)
		diag_error(&l->diags, map->at, NULL,
			   "more than %u bytes in the names and hosts of all secrets", SECRETS_TEXT_MAX);
	l->s->secrets = v;
}

/* ---- the whole ---- */

/* The rows' ranges fit what is narrower here. */
static void take_amounts(struct settings *s, const struct settings_fields *f)
{
	s->resolver_timeout_ms = (uint32_t)f->timeout_ms;
	s->rotate_bytes = f->rotate_bytes;
	s->rotate_seconds = (uint32_t)(f->rotate_ms / 1000);
	s->rotate_keep = f->rotate_keep;
	s->max_sandboxes = f->sandboxes;
	s->max_leases = f->leases;
	s->max_connections = f->connections;
	s->max_dials = f->dials;
	s->max_grants = f->grants;
	s->idle_ms = (uint32_t)f->idle_ms;
	s->max_headers = (uint32_t)f->headers;
	s->max_queued = (uint32_t)f->queued;
	s->max_log_bytes = (uint32_t)f->log_bytes;
	s->max_worker_memory = f->worker_memory;
	s->max_memory = f->memory;
	s->max_processes = f->processes;
}

/* @root NULL: no file, the defaults. */
static void take_settings(struct load *l, const struct yaml_node *root)
{
	static const struct yaml_node none = { .kind = YAML_MAP };
	struct diags quiet;
	struct settings_fields f = { 0 };

	diags_init(&quiet, STR_NONE, STR_NONE);
	(void)schema_read(settings_rows, "the settings", root ? root : &none, &f, root ? &l->diags : &quiet);
	diags_free(&quiet);
	take_servers(l, f.servers);
	take_names(l, f.names);
	take_trust(l, f.trust_add);
	take_secrets(l, f.secrets);
	take_pool(l, root, "link_pool", f.link_pool, 28, &l->s->link_pool);
	/* Room for every lease that a box may have, and the refusal address. */
	take_pool(l, root, "synthetic_pool", f.synthetic_pool, 18, &l->s->synthetic_pool);
	check_pools(l, root);
	take_amounts(l->s, &f);
	l->s->trust_system = f.trust_system;
	l->s->log_path = f.log_path;
	l->s->log_synced = f.durability == SETTINGS_SYNCED;
	l->s->control_socket = f.control_socket;
	l->s->control_group = f.control_group;
	l->s->policies_directory = f.policies_directory;
	l->s->proxy_port = f.proxy_explicit ? (uint16_t)f.proxy_port : 0;
	l->s->notice_contact = f.contact;
}

static bool read_all(int fd, char *to, size_t n)
{
	size_t at = 0;

	while (at < n) {
		ssize_t got = read(fd, to + at, n - at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		at += (size_t)got;
	}
	return true;
}

/* NULL: nothing is wrong with the file. */
static const char *read_file(const char *path, struct owned *owned, size_t *n)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	const char *wrong = NULL;
	struct stat st;

	if (fd < 0)
		return strerror(errno);
	if (fstat(fd, &st) < 0)
		wrong = strerror(errno);
	else if (!S_ISREG(st.st_mode))
		wrong = "is no file";
	else if (st.st_mode & S_IWOTH)
		wrong = "everybody can write to it: chmod o-w";
	else if (st.st_size > SETTINGS_FILE_MAX)
		wrong = "larger than 1 MiB";
	*n = wrong ? 0 : (size_t)st.st_size;
	owned->text = wrong ? NULL : malloc(*n + 1);
	if (!wrong && !owned->text)
		wrong = "out of memory";
	if (!wrong && !read_all(fd, owned->text, *n))
		wrong = "cannot be read whole";
	close(fd);
	return wrong;
}

static bool digest_text(struct settings *s, struct str text)
{
	uint8_t digest[DIGEST_BYTES];

	if (!digest_sha256(text.p, text.n, digest))
		return false;
	hex_text(digest, DIGEST_BYTES, s->digest);
	return true;
}

static bool load_file(struct load *l, const char *path, bool here)
{
	size_t n = 0;
	const char *wrong = read_file(path, l->owned, &n);

	if (wrong) {
		fprintf(stderr, "exeat: the settings %s: %s\n", path, wrong);
		return false;
	}
	l->s->path = arena_copy(&l->owned->arena, str_of(path));
	diags_init(&l->diags, l->s->path, str_n(l->owned->text, n));
	l->owned->tree = yaml_parse(l->diags.text, &l->diags);
	if (l->owned->tree) {
		take_settings(l, yaml_root(l->owned->tree));
		if (here)
			settings_machine(yaml_root(l->owned->tree), &l->diags);
	}
	diags_print(&l->diags, stderr);
	if (l->diags.errors)
		fprintf(stderr, "exeat: %s: does not load: %zu error%s\n", path, l->diags.errors,
			l->diags.errors == 1 ? "" : "s");
	return l->diags.errors == 0 && digest_text(l->s, l->diags.text);
}

/* The first of the places where settings lie, or an empty text. */
static const char *find_file(char *out, size_t n)
{
	const char *home = getenv("HOME");

	snprintf(out, n, "%s/.config/exeat/exeat.yaml", home ? home : "");
	if (home && home[0] == '/' && access(out, F_OK) == 0)
		return out;
	snprintf(out, n, "/etc/exeat/exeat.yaml");
	if (access(out, F_OK) != 0)
		out[0] = '\0';
	return out;
}

static struct settings *load(const char *path, bool here)
{
	char found[SETTINGS_PATH_MAX];
	struct load l = { .s = calloc(1, sizeof(struct settings)),
			  .owned = calloc(1, sizeof(struct owned)) };
	bool good = l.s && l.owned;

	if (good) {
		l.s->owned = l.owned;
		path = path ? path : find_file(found, sizeof(found));
		diags_init(&l.diags, STR_NONE, STR_NONE);
		if (*path) {
			good = load_file(&l, path, here);
		} else {
			take_settings(&l, NULL);
			good = digest_text(l.s, STR(""));
		}
		diags_free(&l.diags);
		good = good && !l.owned->arena.failed;
	}
	if (good)
		return l.s;
	if (!l.s)
		free(l.owned);
	settings_free(l.s);
	return NULL;
}

struct settings *settings_load(const char *path)
{
	return load(path, false);
}

struct settings *settings_load_here(const char *path)
{
	return load(path, true);
}

const struct yaml_node *settings_tree(const struct settings *s)
{
	const struct owned *owned = s->owned;

	return owned->tree ? yaml_root(owned->tree) : NULL;
}

void settings_free(struct settings *s)
{
	struct owned *owned = s ? s->owned : NULL;

	if (owned) {
		yaml_release(owned->tree);
		arena_free(&owned->arena);
		free(owned->text);
		free(owned);
	}
	free(s);
}
