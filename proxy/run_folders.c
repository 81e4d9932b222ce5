#include "proxy/run_folders.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of these not even a part: what is written there runs as root, sooner or later. */
static const char *const system_trees[] = { "/bin", "/boot", "/etc", "/lib", "/lib32", "/lib64",
					    "/libx32", "/proc", "/sbin", "/sys", "/usr", NULL };

/* A folder in one of these is as good as another. */
static const char *const system_folders[] = { "/", "/dev", "/home", "/media", "/mnt", "/opt", "/root",
					      "/run", "/srv", "/tmp", "/var", NULL };

/* "/" holds every path. */
static bool holds(const char *folder, const char *path)
{
	size_t n = strcmp(folder, "/") == 0 ? 0 : strlen(folder);

	return strncmp(folder, path, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

static bool is_systems(const char *folder)
{
	for (size_t i = 0; system_trees[i]; i++)
		if (holds(system_trees[i], folder))
			return true;
	for (size_t i = 0; system_folders[i]; i++)
		if (strcmp(system_folders[i], folder) == 0)
			return true;
	return false;
}

/* What is not there, the box cannot be shown. */
static bool holds_file(const char *folder, const char *file)
{
	char real[PATH_MAX];

	return realpath(file, real) && holds(folder, real);
}

static bool no_secret_in(const char *what, const char *path, const char *folder,
			 const struct settings *settings, struct buf *why)
{
	for (size_t i = 0; i < settings->n_secrets; i++) {
		char file[PATH_MAX];

		snprintf(file, sizeof(file), "%.*s", STR_ARG(settings->secrets[i].file));
		if (!settings->secrets[i].file.n || !holds_file(folder, file))
			continue;
		buf_printf(why, "%s %s: it holds the secret %s, which the box must not see: move one of them",
			   what, path, file);
		return false;
	}
	return true;
}

static bool rootfs_ok(const char *rootfs, const struct settings *settings, struct buf *why)
{
	char folder[PATH_MAX];

	if (!rootfs || !realpath(rootfs, folder))
		return true;
	if (strcmp(folder, "/") == 0) {
		buf_put_str(why, STR("rootfs /: a box is not shown all of this machine: without one of its own "
				     "it has this machine's programs"));
		return false;
	}
	return no_secret_in("rootfs", rootfs, folder, settings, why);
}

static bool workspace_ok(const char *workspace, const char *log, const struct settings *settings,
			 struct buf *why)
{
	char folder[PATH_MAX];

	if (!workspace || !realpath(workspace, folder))
		return true;
	if (is_systems(folder)) {
		buf_printf(why, "workspace %s: the system's own folder: the box could change it; make a folder "
			   "for its work", workspace);
		return false;
	}
	if (holds_file(folder, log)) {
		buf_printf(why, "workspace %s: it holds the audit log %s, which the box could change: give the "
			   "log another place (--log, log.path)", workspace, log);
		return false;
	}
	return no_secret_in("workspace", workspace, folder, settings, why);
}

/* Where it is, or would be: its folder has to be there. */
static bool real_place(const char *path, char real[PATH_MAX])
{
	char folder[PATH_MAX], real_folder[PATH_MAX];
	const char *slash = strrchr(path, '/');

	if (realpath(path, real))
		return true;
	if (!slash || snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path) + 1, path) >= PATH_MAX)
		return false;
	return realpath(folder, real_folder) &&
	       snprintf(real, PATH_MAX, "%s/%s", strcmp(real_folder, "/") ? real_folder : "",
			slash + 1) < PATH_MAX;
}

/* The log, its files that were put aside, its folder of policies. */
static bool is_logs(const char *file, const char *log)
{
	char real[PATH_MAX];
	size_t n;

	if (!real_place(log, real))
		return false;
	n = strlen(real);
	return strncmp(file, real, n) == 0 && (file[n] == '\0' || file[n] == '.');
}

bool run_output_ok(const char *output, const char *log, struct buf *why)
{
	char file[PATH_MAX];

	if (!real_place(output, file))
		return true;	/* it cannot be opened either */
	if (is_systems(file)) {
		buf_printf(why, "output %s: the system's own: a box does not add to it; give it another place",
			   output);
		return false;
	}
	if (is_logs(file, log)) {
		buf_printf(why, "output %s: it is the audit log's: a box does not add to it; give it another "
			   "place", output);
		return false;
	}
	return true;
}

bool run_folders_ok(const char *rootfs, const char *workspace, const char *log,
		    const struct settings *settings, struct buf *why)
{
	return rootfs_ok(rootfs, settings, why) && workspace_ok(workspace, log, settings, why);
}
