#include "proxy/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/arena.h"
#include "conf/hex.h"
#include "conf/schema.h"
#include "policy/digest.h"
#include "policy/pattern.h"
#include "proxy/messages.h"

#define SETTINGS_FILE_MAX (1u << 20)
#define SETTINGS_PATH_MAX 4096
/* What fits into the messages that carry them (proxy/messages.h). */
#define SERVERS_MAX 8
#define TRUST_MAX 64
#define NAMES_MAX 128
#define NAME_ADDRS_MAX 16
#define SECRETS_TEXT_MAX (48u << 10)
#define WHOLE_PATH "write the whole path, from its /"

struct owned {
	struct arena arena;
	struct yaml *tree;
	char *text;
};

struct fields {
	unsigned version;
	const struct yaml_node *servers, *names, *trust_add, *secrets;
	struct str link_pool, synthetic_pool, log_path;
	uint32_t timeout_ms, max_leases, max_connections, idle_ms, max_headers;
	bool trust_system;
};

struct load {
	struct settings *s;
	struct owned *owned;
	struct diags diags;
};

#define FIELD(key_, type_, member, ...)                                                           \
	{ .key = key_, .type = SCHEMA_##type_, .offset = offsetof(struct fields, member), \
	  __VA_ARGS__ }
#define GROUP(key_, rows_) { .key = key_, .type = SCHEMA_GROUP, .rows = (rows_) }
#define LATER(key_) { .key = key_, .type = SCHEMA_LATER }

static const char *const versions[] = { "1", NULL };

static const struct schema_row resolver_rows[] = {
	FIELD("servers", TEXTS, servers, .help = "ADDR:PORT of each; without them the system's"),
	FIELD("timeout", DURATION, timeout_ms, .min = 100, .max = 60000, .initial = "2s",
	      .help = "how long one server is waited for"),
	FIELD("names", MAP, names,
	      .help = "answered before any server is asked, vetted like any answer"),
	{ .type = SCHEMA_END },
};

static const struct schema_row trust_rows[] = {
	FIELD("system", BOOL, trust_system, .initial = "true",
	      .help = "the system's CA certificates"),
	FIELD("add", TEXTS, trust_add, .help = "PEM files of origins' private CAs, added"),
	{ .type = SCHEMA_END },
};

static const struct schema_row network_rows[] = {
	FIELD("link_pool", TEXT, link_pool, .initial = "100.96.0.0/12",
	      .help = "where the /30 between gateway and box is taken from"),
	FIELD("synthetic_pool", TEXT, synthetic_pool, .initial = "198.18.0.0/15",
	      .help = "the addresses that names stand for inside a box"),
	{ .type = SCHEMA_END },
};

static const struct schema_row log_rows[] = {
	FIELD("path", TEXT, log_path, .max = SETTINGS_PATH_MAX - 1, .help = "the audit log's file"),
	LATER("durability"), LATER("on_log_failure"), LATER("rotate"),
	{ .type = SCHEMA_END },
};

static const struct schema_row limits_rows[] = {
	FIELD("leases", NUMBER, max_leases, .min = 1, .max = 4096, .initial = "4096",
	      .help = "names that one box may know at once"),
	FIELD("connections", NUMBER, max_connections, .min = 1, .max = 16384, .initial = "1024",
	      .help = "connections that one box may have open"),
	FIELD("idle", DURATION, idle_ms, .min = 1000, .max = 86400000, .initial = "1h",
	      .help = "after so long without a byte a connection is closed"),
	FIELD("headers", SIZE, max_headers, .min = 4096, .max = 1 << 20, .initial = "64KiB",
	      .help = "how large the header section of a request or an answer may be"),
	{ .type = SCHEMA_END },
};

static const struct schema_row rows[] = {
	FIELD("exeat-settings", CHOICE, version, .choices = versions, .required = true,
	      .help = "the version of this format: write exeat-settings: 1"),
	GROUP("resolver", resolver_rows),
	GROUP("trust", trust_rows),
	FIELD("secrets", MAP, secrets,
	      .help = "where each value comes from, and the most hosts it may go to"),
	GROUP("network", network_rows),
	GROUP("log", log_rows),
	GROUP("limits", limits_rows),
	LATER("control"), LATER("policies"),
	{ .type = SCHEMA_END },
};

struct secret_fields {
	struct str file, env;
	const struct yaml_node *hosts;
};

#define SECRET(key_, type_, member, ...)                                                          \
	{ .key = key_, .type = SCHEMA_##type_, .offset = offsetof(struct secret_fields, member), \
	  __VA_ARGS__ }

static const struct schema_row secret_rows[] = {
	SECRET("file", TEXT, file, .max = SETTINGS_PATH_MAX - 1,
	       .help = "a file that others cannot read"),
	SECRET("env", TEXT, env, .max = 256,
	       .help = "a variable of the environment, taken at start"),
	SECRET("hosts", TEXTS, hosts, .required = true,
	       .help = "the most hosts that the value may go to"),
	{ .key = "systemd", .type = SCHEMA_LATER, .help = "a value comes from file or env" },
	{ .key = "exec", .type = SCHEMA_LATER, .help = "a value comes from file or env" },
	{ .key = "every", .type = SCHEMA_LATER },
	{ .key = "kubernetes", .type = SCHEMA_LATER, .help = "a value comes from file or env" },
	{ .key = "vault", .type = SCHEMA_LATER, .help = "a value comes from file or env" },
	{ .key = "sealed", .type = SCHEMA_LATER, .help = "a value comes from file or env" },
	{ .type = SCHEMA_END },
};

/* ---- values ---- */

static bool over(struct load *l, const struct yaml_node *node, const char *what, size_t n,
		 size_t max)
{
	if (n > max)
		diag_error(&l->diags, node->at, NULL, "more than %zu %s", max, what);
	return n > max;
}

static void take_servers(struct load *l, const struct yaml_node *list)
{
	size_t n = schema_count(list);
	struct str *v = arena_take(&l->owned->arena, n, sizeof(*v));

	if (!v || !list || over(l, list, "servers", n, SERVERS_MAX))
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

	if (list->kind != YAML_LIST || n == 0 || n > NAME_ADDRS_MAX) {
		diag_error(&l->diags, list->at, NULL, "a name has a list of 1 to %d addresses",
			   NAME_ADDRS_MAX);
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

	if (!v || !map || over(l, map, "names", n, NAMES_MAX))
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

	if (!v || !list || over(l, list, "files", n, TRUST_MAX))
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

static const char *check_env(struct str name)
{
	for (size_t i = 0; i < name.n; i++) {
		char c = ascii_lower(name.p[i]);

		if (c != '_' && !(c >= 'a' && c <= 'z') && (i == 0 || c < '0' || c > '9'))
			return "no name of a variable";
	}
	return NULL;
}

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
	struct secret_fields f = { 0 };
	const char *wrong = check_secret_name(key->text), *wrong_env;

	if (wrong)
		diag_error(&l->diags, key->at, NULL, "secret \"%.*s\": %s", STR_ARG(key->text),
			   wrong);
	if (key->next->kind == YAML_TEXT) {
		diag_error(&l->diags, key->at, "write {file: /PATH, hosts: [HOST]}: a value never stands here",
			   "a secret says where its value is, and where it may go");
		return;
	}
	if (schema_read(secret_rows, "a secret", key->next, &f, &l->diags) && !f.file.n == !f.env.n)
		diag_error(&l->diags, key->at, "write file: /PATH, or env: VARIABLE",
			   "a secret has one source: \"file\" or \"env\"");
	wrong_env = check_env(f.env);
	if (wrong_env)
		diag_error(&l->diags, schema_key(key->next, "env")->next->at, NULL, "\"%.*s\": %s",
			   STR_ARG(f.env), wrong_env);
	if (f.file.n && f.file.p[0] != '/')
		diag_error(&l->diags, schema_key(key->next, "file")->next->at, WHOLE_PATH,
			   "\"%.*s\" is no absolute path", STR_ARG(f.file));
	out->name = key->text;
	out->file = f.file;
	out->env = f.env;
	take_hosts(l, f.hosts, out);
}

static void take_secrets(struct load *l, const struct yaml_node *map)
{
	size_t n = schema_count(map) / 2, text = 0;
	struct settings_secret *v = arena_take(&l->owned->arena, n, sizeof(*v));

	if (!v || !map || over(l, map, "secrets", n, MSG_SECRETS_MAX))
		return;
	for (const struct yaml_node *key = map->first; key; key = key->next->next) {
		struct settings_secret *s = &v[l->s->n_secrets++];

		take_secret(l, key, s);
		text += s->name.n + 8;
		for (size_t i = 0; i < s->n_hosts; i++)
			text += s->hosts[i].n + 1;
	}
	(void)over(l, map, "bytes in the names and hosts of all secrets", text, SECRETS_TEXT_MAX);
	l->s->secrets = v;
}

/* ---- the whole ---- */

/* @root NULL: no file, the defaults. */
static void take_settings(struct load *l, const struct yaml_node *root)
{
	static const struct yaml_node none = { .kind = YAML_MAP };
	struct diags quiet;
	struct fields f = { 0 };

	diags_init(&quiet, STR_NONE, STR_NONE);
	(void)schema_read(rows, "the settings", root ? root : &none, &f, root ? &l->diags : &quiet);
	diags_free(&quiet);
	take_servers(l, f.servers);
	take_names(l, f.names);
	take_trust(l, f.trust_add);
	take_secrets(l, f.secrets);
	take_pool(l, root, "link_pool", f.link_pool, 28, &l->s->link_pool);
	/* Room for every lease that a box may have, and the refusal address. */
	take_pool(l, root, "synthetic_pool", f.synthetic_pool, 18, &l->s->synthetic_pool);
	check_pools(l, root);
	l->s->resolver_timeout_ms = f.timeout_ms;
	l->s->trust_system = f.trust_system;
	l->s->log_path = f.log_path;
	l->s->max_leases = f.max_leases;
	l->s->max_connections = f.max_connections;
	l->s->idle_ms = f.idle_ms;
	l->s->max_headers = f.max_headers;
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

static bool load_file(struct load *l, const char *path)
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
	if (l->owned->tree)
		take_settings(l, yaml_root(l->owned->tree));
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

struct settings *settings_load(const char *path)
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
			good = load_file(&l, path);
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
