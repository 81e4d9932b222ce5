#include "sandbox/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define PATH_BYTES 512
#define STEP_MS 5

/* One tree (v2), or one of each controller (v1), or both. The first error; ERR_NOTFOUND where @fn
 * says so of all. */
static enum err in_every_tree(const char *name, enum err (*fn)(const char *cgroup))
{
	char path[PATH_BYTES];
	DIR *d = opendir(CGROUP_ROOT);
	enum err e;

	snprintf(path, sizeof(path), CGROUP_ROOT "/%s", name);
	e = fn(path);
	for (struct dirent *entry = d ? readdir(d) : NULL; entry; entry = readdir(d)) {
		enum err one;

		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), CGROUP_ROOT "/%s/%s", entry->d_name, name);
		one = fn(path);
		if (one != ERR_NOTFOUND && (e == OK || e == ERR_NOTFOUND))
			e = one;
	}
	if (d)
		closedir(d);
	return e;
}

/* One of the words of a line. */
static bool has_word(const char *line, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = strstr(line, word); at; at = strstr(at + 1, word))
		if ((at == line || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\n' || !at[n]))
			return true;
	return false;
}

bool cgroup_has_controller(const char *name)
{
	char path[PATH_BYTES], line[512] = "";
	FILE *f = fopen(CGROUP_ROOT "/cgroup.controllers", "re");
	bool has;

	if (!f) {
		snprintf(path, sizeof(path), CGROUP_ROOT "/%s", name);
		return access(path, W_OK) == 0;
	}
	has = fgets(line, sizeof(line), f) && has_word(line, name);
	fclose(f);
	return has && access(CGROUP_ROOT, W_OK) == 0;
}

enum err cgroup_hide_second_tree(void)
{
	struct statfs fs;

	if (statfs(CGROUP_ROOT "/unified", &fs) < 0 || fs.f_type != CGROUP2_SUPER_MAGIC)
		return OK;
	return mount("exeat", CGROUP_ROOT "/unified", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
		     "mode=0755,size=64k") == 0 ? OK : ERR_SYSTEM;
}

/* The first number in a file that is laid out like @format; else 0. */
static uint64_t number_in(const char *path, const char *format)
{
	FILE *f = fopen(path, "re");
	unsigned long long n = 0;

	if (f && fscanf(f, format, &n) != 1)
		n = 0;
	if (f)
		fclose(f);
	return n;
}

uint64_t cgroup_cpu_ms(const char *name)
{
	char path[PATH_BYTES];
	uint64_t ns;

	snprintf(path, sizeof(path), CGROUP_ROOT "/cpuacct/%s/cpuacct.usage", name);
	ns = number_in(path, "%llu");
	if (ns)
		return ns / 1000000;
	snprintf(path, sizeof(path), CGROUP_ROOT "/%s/cpu.stat", name);
	return number_in(path, "usage_usec %llu") / 1000;
}

static void kill_members(const char *cgroup)
{
	char path[PATH_BYTES + 16];
	FILE *f;
	int pid;

	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
	f = fopen(path, "re");
	/* 0 is a process of a namespace that we do not see. */
	while (f && fscanf(f, "%d", &pid) == 1)
		if (pid > 0)
			(void)kill(pid, SIGKILL);
	if (f)
		fclose(f);
}

/* The dead leave a cgroup a little later than they die. */
static enum err remove_one(const char *cgroup)
{
	const struct timespec step = { .tv_nsec = STEP_MS * 1000000L };

	if (access(cgroup, F_OK) < 0)
		return ERR_NOTFOUND;	/* even where nothing can be written to */
	for (int waited = 0; rmdir(cgroup) < 0; waited += STEP_MS) {
		/* Only what is no cgroup is "not empty". */
		if (errno == ENOENT || errno == ENOTDIR || errno == ENOTEMPTY)
			return OK;
		if (errno != EBUSY || waited >= CGROUP_WAIT_MS)
			return ERR_SYSTEM;
		kill_members(cgroup);
		(void)nanosleep(&step, NULL);
	}
	return OK;
}

enum err cgroup_remove(const char *name)
{
	enum err e = in_every_tree(name, remove_one);

	return e == ERR_NOTFOUND ? OK : e;
}

/* ---- joining ---- */

/* ERR_NOTFOUND: it is not there. */
static enum err join_one(const char *cgroup)
{
	char path[PATH_BYTES + 16];
	enum err e = OK;
	FILE *f;

	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
	f = fopen(path, "we");
	if (!f)
		return errno == ENOENT || errno == ENOTDIR ? ERR_NOTFOUND : ERR_SYSTEM;
	if (fputs("0", f) < 0)	/* who writes */
		e = ERR_SYSTEM;
	if (fclose(f) != 0)
		e = ERR_SYSTEM;
	return e;
}

enum err cgroup_join(const char *name)
{
	return in_every_tree(name, join_one);
}
