#include "sandbox/bundle.h"

#include <stdio.h>

#include "conf/json.h"

static void put_list(struct json *j, const char *key, const char *const *v)
{
	json_key(j, key);
	json_array(j);
	for (; *v; v++)
		json_str(j, str_of(*v));
	json_array_end(j);
}

static void put_text(struct json *j, const char *key, const char *text)
{
	json_put_str(j, key, str_of(text));
}

/* ---- the process ---- */

/* All that a box is told. The programs of the first group replace their roots by the file, so it
 * holds the system's, too; those of the second add it. */
static const char *const environment[] = {
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	"HOME=" BOX_HOME,
	"USER=box",
	"LANG=C.UTF-8",
	"SSL_CERT_FILE=" BOX_CA_BUNDLE,
	"CURL_CA_BUNDLE=" BOX_CA_BUNDLE,
	"REQUESTS_CA_BUNDLE=" BOX_CA_BUNDLE,
	"GIT_SSL_CAINFO=" BOX_CA_BUNDLE,
	"AWS_CA_BUNDLE=" BOX_CA_BUNDLE,
	"PIP_CERT=" BOX_CA_BUNDLE,
	"CARGO_HTTP_CAINFO=" BOX_CA_BUNDLE,
	"NODE_EXTRA_CA_CERTS=" BOX_CA_ONLY,
	"DENO_CERT=" BOX_CA_ONLY,
	NULL,
};

static bool same_key(const char *a, const char *b)
{
	size_t n = strcspn(a, "=");

	return strncmp(a, b, n) == 0 && b[n] == '=';
}

/* Of two entries with one key, programs differ in which they take: there is only one. */
static void put_usual(struct json *j, const char *entry, const char *const *given)
{
	for (; given && *given; given++)
		if (same_key(entry, *given))
			return;
	json_str(j, str_of(entry));
}

static void put_environment(struct json *j, const struct box_spec *spec)
{
	const char *const *given = spec->environment;

	json_key(j, "env");
	json_array(j);
	for (size_t i = 0; environment[i]; i++)
		put_usual(j, environment[i], given);
	put_usual(j, spec->terminal ? "TERM=xterm-256color" : "TERM=dumb", given);
	for (; given && *given; given++)
		json_str(j, str_of(*given));
	json_array_end(j);
}

static void put_no_capabilities(struct json *j)
{
	static const char *const sets[] = { "bounding", "effective", "inheritable", "permitted",
					    "ambient", NULL };
	static const char *const none[] = { NULL };

	json_key(j, "capabilities");
	json_object(j);
	for (size_t i = 0; sets[i]; i++)
		put_list(j, sets[i], none);
	json_object_end(j);
}

/* No core files: they would hold what the process held. */
static void put_rlimits(struct json *j)
{
	json_key(j, "rlimits");
	json_array(j);
	json_object(j);
	put_text(j, "type", "RLIMIT_CORE");
	json_put_u64(j, "hard", 0);
	json_put_u64(j, "soft", 0);
	json_object_end(j);
	json_array_end(j);
}

static void put_process(struct json *j, const struct box_spec *spec)
{
	static const char *const init[] = { BOX_INIT, NULL };

	json_key(j, "process");
	json_object(j);
	json_put_bool(j, "terminal", spec->terminal);
	json_key(j, "user");
	json_object(j);
	json_put_u64(j, "uid", BOX_UID);
	json_put_u64(j, "gid", BOX_GID);
	json_object_end(j);
	/* The command is in BOX_COMMAND: arguments are bytes, which JSON cannot carry. */
	put_list(j, "args", init);
	put_environment(j, spec);
	put_text(j, "cwd", BOX_WORKSPACE);
	put_no_capabilities(j);
	put_rlimits(j);
	json_put_bool(j, "noNewPrivileges", true);
	json_put_u64(j, "oomScoreAdj", BOX_OOM_SCORE);
	json_object_end(j);
}

/* ---- mounts: what the runtime adds to a root that is otherwise complete ---- */

#define OPTIONS_MAX 10

struct mount_row {
	const char *destination, *type;
	const char *options[OPTIONS_MAX];
};

/* No /sys: nothing in a box needs it, and it tells about the host. */
static const struct mount_row mounts[] = {
	{ "/proc", "proc", { "nosuid", "noexec", "nodev" } },
	{ "/dev", "tmpfs", { "nosuid", "strictatime", "mode=755", "size=64k" } },
	{ "/dev/pts", "devpts", { "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620" } },
	{ "/dev/shm", "tmpfs", { "nosuid", "noexec", "nodev", "mode=1777" } },
	{ "/dev/mqueue", "mqueue", { "nosuid", "noexec", "nodev" } },
	{ "/tmp", "tmpfs", { "nosuid", "nodev", "mode=1777" } },
	{ "/run", "tmpfs", { "nosuid", "nodev", "mode=1777" } },
	{ BOX_HOME, "tmpfs", { "nosuid", "nodev", "mode=700", "uid=1000", "gid=1000" } },
	{ NULL, NULL, { NULL } },
};

static const struct mount_row own_workspace = {
	BOX_WORKSPACE, "tmpfs", { "nosuid", "nodev", "mode=755", "uid=1000", "gid=1000" }
};

_Static_assert(BOX_UID == 1000 && BOX_GID == 1000, "the numbers in the mounts' options");

static void put_mount(struct json *j, const struct mount_row *m)
{
	json_object(j);
	put_text(j, "destination", m->destination);
	put_text(j, "type", m->type);
	put_text(j, "source", m->type);
	put_list(j, "options", m->options);
	json_object_end(j);
}

static void put_mounts(struct json *j, const struct box_spec *spec)
{
	json_key(j, "mounts");
	json_array(j);
	for (size_t i = 0; mounts[i].destination; i++)
		put_mount(j, &mounts[i]);
	if (!spec->workspace)
		put_mount(j, &own_workspace);
	json_array_end(j);
}

/* ---- namespaces and numbers ---- */

static void put_mapping(struct json *j, uint32_t inside, uint32_t outside)
{
	json_object(j);
	json_put_u64(j, "containerID", inside);
	json_put_u64(j, "hostID", outside);
	json_put_u64(j, "size", 1);
	json_object_end(j);
}

/* Two numbers exist in a box: its user's, and a root that owns nothing (runtimes want one). */
static void put_mappings(struct json *j, const char *key, uint32_t root, uint32_t inside,
			 uint32_t outside)
{
	json_key(j, key);
	json_array(j);
	put_mapping(j, 0, root);
	put_mapping(j, inside, outside);
	json_array_end(j);
}

static void put_namespaces(struct json *j, const char *netns)
{
	static const char *const fresh[] = { "pid", "mount", "ipc", "uts", "cgroup", "user", NULL };

	json_key(j, "namespaces");
	json_array(j);
	for (size_t i = 0; fresh[i]; i++) {
		json_object(j);
		put_text(j, "type", fresh[i]);
		json_object_end(j);
	}
	json_object(j);
	put_text(j, "type", "network");
	put_text(j, "path", netns);
	json_object_end(j);
	json_array_end(j);
}

static void put_limits(struct json *j, const struct bundle *b)
{
	json_key(j, "resources");
	json_object(j);
	if (b->limit_processes) {
		json_key(j, "pids");
		json_object(j);
		json_put_u64(j, "limit", b->limit_processes);
		json_object_end(j);
	}
	if (b->limit_cpu) {
		json_key(j, "cpu");
		json_object(j);
		json_put_u64(j, "shares", BOX_CPU_SHARES);
		json_object_end(j);
	}
	if (b->limit_memory > 0) {
		json_key(j, "memory");
		json_object(j);
		json_put_u64(j, "limit", b->limit_memory);
		json_object_end(j);
	}
	json_object_end(j);
}

static void put_linux(struct json *j, const struct bundle *b)
{
	static const char *const masked[] = {
		"/proc/acpi", "/proc/asound", "/proc/config.gz", "/proc/kallsyms", "/proc/kcore",
		"/proc/keys", "/proc/key-users", "/proc/latency_stats", "/proc/modules",
		"/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats",
		"/sys/firmware", NULL };
	static const char *const readonly[] = { "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys",
						"/proc/sysrq-trigger", NULL };
	char cgroup[128];

	json_key(j, "linux");
	json_object(j);
	put_namespaces(j, b->netns);
	put_mappings(j, "uidMappings", b->root_uid, BOX_UID, b->uid);
	put_mappings(j, "gidMappings", b->root_uid, BOX_GID, b->gid);
	snprintf(cgroup, sizeof(cgroup), "/" BOX_CGROUP_PREFIX "%s", b->spec->id);
	put_text(j, "cgroupsPath", cgroup);
	put_limits(j, b);
	put_list(j, "maskedPaths", masked);
	put_list(j, "readonlyPaths", readonly);
	json_key(j, "seccomp");
	seccomp_profile_write(j);
	json_object_end(j);
}

void bundle_write_environment(const struct box_spec *spec, struct buf *out)
{
	struct json j;

	json_init(&j, out);
	json_object(&j);
	put_environment(&j, spec);
	json_object_end(&j);
}

void bundle_write(const struct bundle *b, struct buf *out)
{
	struct json j;

	json_init(&j, out);
	json_object(&j);
	put_text(&j, "ociVersion", "1.0.2");
	put_process(&j, b->spec);
	json_key(&j, "root");
	json_object(&j);
	put_text(&j, "path", b->root);
	json_put_bool(&j, "readonly", true);
	json_object_end(&j);
	put_text(&j, "hostname", "box");
	put_mounts(&j, b->spec);
	put_linux(&j, b);
	json_object_end(&j);
}
