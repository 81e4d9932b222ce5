#include "proxy/cmd_run.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/policy.h"
#include "proxy/log_path.h"
#include "proxy/machine.h"
#include "proxy/messages.h"
#include "proxy/policy_store.h"
#include "proxy/reader_client.h"
#include "proxy/run.h"
#include "proxy/run_folders.h"
#include "proxy/settings.h"
#include "proxy/usage.h"

static const char usage_text[] =
	"usage: exeat run --policy FILE [--settings FILE] [--log FILE] [--name NAME]\n"
	"                 [--rootfs DIR] [--workspace DIR] -- COMMAND [ARGUMENT ...]\n"
	"\n"
	"Runs COMMAND in a box whose only way out is what the policy allows. Root only.\n"
	"\n"
	"  --policy FILE      what the box may reach\n"
	"  --settings FILE    this machine's settings; if not given, ~/.config/exeat/exeat.yaml, else\n"
	"                     /etc/exeat/exeat.yaml, else none\n"
	"  --log FILE         the audit log; if not given, the settings' log.path, else\n"
	"                     $XDG_STATE_HOME/exeat/audit.jsonl, else ~/.local/state/exeat/audit.jsonl\n"
	"  --name NAME        what the log calls this box (run-PID)\n"
	"  --rootfs DIR       the box's root, read-only; if not given, one made of this machine's /usr\n"
	"  --workspace DIR    /workspace in the box, writable; if not given, one that is gone at the end\n"
	"\n"
	"The exit status is COMMAND's (128 + N if signal N ended it). Exeat's own: 1 the policy does not\n"
	"load, 125 COMMAND was not run for another reason (a secret is missing, say) or its box was ended,\n"
	"126 it cannot be executed, 127 there is no such COMMAND, 64 a wrong command line.\n";

#define EXIT_REJECTED 1		/* as "exeat policy check" says of the same file */

static char command_name[] = "exeat run";

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

/* False: the command ends here, with *status. */
static bool parse(int argc, char **argv, struct options *o, int *status)
{
	int c;

	argv[0] = command_name;	/* for getopt's messages */
	while ((c = getopt_long(argc, argv, "+h", long_options, NULL)) != -1) {
		const char **to = slot(o, c);

		if (!to) {
			*status =
				c == 'h' ? usage_show(usage_text) : usage_wrong(command_name, NULL);
			return false;
		}
		*to = optarg;
	}
	if (o->policy && optind < argc)
		return true;
	*status = usage_wrong(command_name, "%s", o->policy ? "no command is given: put it behind --" :
			      "--policy FILE is needed: what the box may do is always said");
	return false;
}

/* The name stands in the log and on channels. */
static bool name_ok(const char *name)
{
	size_t n = strlen(name);

	return n >= 1 && n <= 64 &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

static bool folder_ok(const char *option, const char *path)
{
	struct stat st;

	if (!path || (stat(path, &st) == 0 && S_ISDIR(st.st_mode)))
		return true;
	fprintf(stderr, "exeat run: %s %s: no such folder\n", option, path);
	return false;
}

static bool folders_ok(const struct options *o, const char *log, const struct settings *settings)
{
	struct buf why;
	bool ok;

	buf_init(&why, 4 * PATH_MAX);
	ok = run_folders_ok(o->rootfs, o->workspace, log, settings, &why);
	if (!ok)
		fprintf(stderr, "exeat run: --%.*s\n", STR_ARG(buf_str(&why)));
	buf_free(&why);
	return ok;
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
		fprintf(stderr, "exeat run: no place for the audit log: HOME is no absolute path; name one with --log\n");
		return false;
	}
	if (o->log)
		snprintf(out, PATH_MAX, "%s", o->log);
	else if (s->log_path.n)
		snprintf(out, PATH_MAX, "%.*s", STR_ARG(s->log_path));
	return true;
}

/* What was compiled is kept beside the log. */
static void keep_policy(const struct run_spec *spec, int source)
{
	struct policy *p = NULL;
	enum err e = policy_map(&spec->policy, 1, &p);

	if (!e)
		e = policy_store_put(spec->log_path, policy_digest(p), source);
	if (e)
		fprintf(stderr, "exeat run: %s: not kept beside the log: %s\n", spec->policy_file,
			e == ERR_SYSTEM ? strerror(errno) : err_text(e));
	policy_free(p);
}

static int run(const struct options *o, const struct settings *settings, char **command)
{
	char name[32], log[PATH_MAX];
	struct run_spec spec = { .settings = settings, .name = o->name, .policy_file = o->policy,
				 .policy = -1, .log_path = log, .log = -1, .rootfs = o->rootfs,
				 .workspace = o->workspace, .command = command };
	struct reader_job job = { .file = o->policy, .source = reader_source_told(o->policy),
				  .settings = settings };
	int status = RUN_FAILED;
	struct buf rejected;

	buf_init(&rejected, MSG_DIAGNOSTICS_MAX);
	snprintf(name, sizeof(name), "run-%d", (int)getpid());
	if (!spec.name)
		spec.name = name;
	/* One that does not load is put on record, too. */
	if (job.source < 0 || !reader_compile(&job, &spec.policy, NULL, &rejected))
		spec.rejected = buf_str(&rejected);
	if (log_path(o, settings, log))
		spec.log = open_log(log);
	/* Only once the log is there has it a real path. */
	if (spec.log >= 0 && folders_ok(o, log, settings)) {
		if (spec.policy >= 0)
			keep_policy(&spec, job.source);
		status = run_sandbox(&spec);
	}
	if (spec.policy < 0)
		status = EXIT_REJECTED;
	buf_free(&rejected);
	if (spec.policy >= 0)
		close(spec.policy);
	if (spec.log >= 0)
		close(spec.log);
	if (job.source >= 0)
		close(job.source);
	return status;
}

int cmd_run(int argc, char **argv)
{
	struct options o = { 0 };
	struct settings *settings;
	int status;

	if (!parse(argc, argv, &o, &status))
		return status;
	if (o.name && !name_ok(o.name))
		return usage_wrong(command_name, "--name \"%s\": a name is 1 to 64 letters, digits, '.', '_' "
				   "and '-'", o.name);
	if (!machine_ok(command_name) || !folder_ok("--rootfs", o.rootfs) || !folder_ok("--workspace", o.workspace))
		return RUN_FAILED;
	settings = settings_load(o.settings);
	if (!settings)
		return RUN_FAILED;
	status = run(&o, settings, argv + optind);
	settings_free(settings);
	return status;
}
