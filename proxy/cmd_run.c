#include "proxy/cmd_run.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cap-ng.h>

#include "proxy/log_path.h"
#include "proxy/reader_client.h"
#include "proxy/run_folders.h"
#include "proxy/settings.h"
#include "proxy/supervisor.h"
#include "sandbox/box.h"

#define EXIT_USAGE 64

static const char usage[] =
	"usage: exeat run --policy FILE [--settings FILE] [--log FILE] [--name NAME]\n"
	"                 [--rootfs DIR] [--workspace DIR] -- COMMAND [ARGUMENT ...]\n";

struct options {
	const char *policy, *settings, *log, *name, *rootfs, *workspace;
};

static const struct option long_options[] = {
	{ "policy", required_argument, NULL, 'p' },    { "settings", required_argument, NULL, 's' },
	{ "log", required_argument, NULL, 'l' },       { "name", required_argument, NULL, 'n' },
	{ "rootfs", required_argument, NULL, 'r' },    { "workspace", required_argument, NULL, 'w' },
	{ "help", no_argument, NULL, 'h' },            { 0 },
};

/* Where each option's value goes. */
static const char **slot(struct options *o, int c)
{
	switch (c) {
	case 'p': return &o->policy;
	case 's': return &o->settings;
	case 'l': return &o->log;
	case 'n': return &o->name;
	case 'r': return &o->rootfs;
	case 'w': return &o->workspace;
	default:  return NULL;
	}
}

static bool parse(int argc, char **argv, struct options *o, int *status)
{
	int c;

	*status = EXIT_USAGE;
	while ((c = getopt_long(argc, argv, "+", long_options, NULL)) != -1) {
		const char **to = slot(o, c);

		if (c == 'h') {
			fputs(usage, stdout);
			*status = 0;
			return false;
		}
		if (!to) {
			fputs(usage, stderr);
			return false;
		}
		*to = optarg;
	}
	if (!o->policy || optind >= argc) {
		fprintf(stderr, "exeat run: %s\n%s", o->policy ? "no command is given after --" :
			"--policy FILE is needed: what the box may do is always said", usage);
		return false;
	}
	return true;
}

/* The name stands in the log and on channels. */
static bool name_ok(const char *name)
{
	size_t n = strlen(name);

	return n >= 1 && n <= 64 &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

static bool machine_ok(void)
{
	if (geteuid() != 0) {
		fprintf(stderr, "exeat run: must be root: start it with sudo\n");
		return false;
	}
	if (!capng_have_capability(CAPNG_EFFECTIVE, CAP_NET_ADMIN) ||
	    !capng_have_capability(CAPNG_EFFECTIVE, CAP_SYS_ADMIN)) {
		fprintf(stderr, "exeat run: CAP_NET_ADMIN and CAP_SYS_ADMIN are missing: give them to this "
				"container, or start exeat outside of it\n");
		return false;
	}
	if (!box_runtime()) {
		fprintf(stderr, "exeat run: no container runtime: install one: apt-get install runc\n");
		return false;
	}
	return true;
}

static bool folder_ok(const char *option, const char *path)
{
	struct stat st;

	if (!path || (stat(path, &st) == 0 && S_ISDIR(st.st_mode)))
		return true;
	fprintf(stderr, "exeat run: %s %s: no such folder\n", option, path);
	return false;
}

static int open_log(const char *path)
{
	int fd = -1;

	if (log_path_open(path, &fd) != OK)
		fprintf(stderr, "exeat run: the audit log %s: %s; nothing is run without one\n", path,
			strerror(errno));
	return fd;
}

/* --log, else the settings', else the default place. */
static bool log_path(const struct options *o, const struct settings *s, char out[PATH_MAX])
{
	if (!o->log && !s->log_path.n && log_default_path(out, PATH_MAX) != OK) {
		fprintf(stderr, "exeat run: no place for the audit log: HOME is not set; name one with --log\n");
		return false;
	}
	if (o->log)
		snprintf(out, PATH_MAX, "%s", o->log);
	else if (s->log_path.n)
		snprintf(out, PATH_MAX, "%.*s", STR_ARG(s->log_path));
	return true;
}

static int run(const struct options *o, const struct settings *settings, char **command)
{
	char name[32], log[PATH_MAX];
	struct run_spec spec = { .settings = settings, .name = o->name, .policy_file = o->policy,
				 .policy = -1, .log_path = log, .log = -1, .rootfs = o->rootfs,
				 .workspace = o->workspace, .command = command };
	int status = 1;

	snprintf(name, sizeof(name), "run-%d", (int)getpid());
	if (!spec.name)
		spec.name = name;
	if (!reader_compile(o->policy, settings, &spec.policy, NULL))
		goto out;
	status = RUN_FAILED;
	if (log_path(o, settings, log))
		spec.log = open_log(log);
	/* Only once the log is there has it a real path. */
	if (spec.log >= 0 && run_folders_ok(o->rootfs, o->workspace, log, settings))
		status = supervisor_run(&spec);
out:
	if (spec.policy >= 0)
		close(spec.policy);
	if (spec.log >= 0)
		close(spec.log);
	return status;
}

int cmd_run(int argc, char **argv)
{
	struct options o = { 0 };
	struct settings *settings;
	int status;

	if (!parse(argc, argv, &o, &status))
		return status;
	if (o.name && !name_ok(o.name)) {
		fprintf(stderr, "exeat run: --name %s: letters, digits, '.', '_' and '-', at most 64\n", o.name);
		return EXIT_USAGE;
	}
	if (!machine_ok() || !folder_ok("--rootfs", o.rootfs) || !folder_ok("--workspace", o.workspace))
		return RUN_FAILED;
	settings = settings_load(o.settings);
	if (!settings)
		return 1;
	status = run(&o, settings, argv + optind);
	settings_free(settings);
	return status;
}
