#include "proxy/cmd_serve.h"

#include <errno.h>
#include <getopt.h>
#include <grp.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proxy/log_path.h"
#include "proxy/machine.h"
#include "proxy/serve.h"
#include "proxy/usage.h"
#include "sandbox/notify.h"

#define SETTINGS_FILE "/etc/exeat/exeat.yaml"
#define LOG_FILE "/var/log/exeat/audit.jsonl"

static const char usage_text[] =
	"usage: exeat serve [--settings FILE]\n"
	"\n"
	"Runs an appliance: boxes that are started over its control socket (exeat sandbox), until it is\n"
	"told to end (SIGTERM, SIGINT). SIGHUP has the policies read again. Root only.\n"
	"\n"
	"  --settings FILE    this machine's settings; if not given, " SETTINGS_FILE ", else\n"
	"                     the defaults. exeat settings show says what is in force\n"
	"\n"
	"Without log.path the audit log is " LOG_FILE ".\n"
	"\n"
	"The exit status is 0; 1 if it could not start or not go on, 64 for a wrong command line.\n";

static char command_name[] = "exeat serve";

/* False: the command ends here, with *status. */
static bool parse(int argc, char **argv, const char **settings, int *status)
{
	static const struct option options[] = { { "settings", required_argument, NULL, 's' },
						 { "help", no_argument, NULL, 'h' },
						 { 0 } };
	int c;

	argv[0] = command_name;
	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (c != 's') {
			*status = c == 'h' ? usage_show(usage_text) :
					     usage_wrong(command_name, NULL);
			return false;
		}
		*settings = optarg;
	}
	*status = optind < argc ? usage_wrong(command_name, "it takes no argument") : 0;
	return optind == argc;
}

/* An empty name: root alone. */
static bool find_group(struct str name, gid_t *gid)
{
	char text[256];
	struct group *g;

	*gid = (gid_t)-1;
	if (name.n == 0)
		return true;
	snprintf(text, sizeof(text), "%.*s", STR_ARG(name));
	g = getgrnam(text);
	if (g)
		*gid = g->gr_gid;
	else
		fprintf(stderr, "exeat serve: control.group: there is no group \"%s\": groupadd --system %s\n",
			text, text);
	return g != NULL;
}

static bool open_log(const char *path, int *fd)
{
	if (log_path_open(path, fd) == OK)
		return true;
	fprintf(stderr, "exeat serve: the audit log %s: %s; nothing is run without one\n", path,
		strerror(errno));
	return false;
}

/* Of a text of the settings, or what stands for it where there is none. */
static void put_path(char to[PATH_MAX], struct str from, const char *otherwise)
{
	snprintf(to, PATH_MAX, "%.*s", STR_ARG(from.n ? from : str_of(otherwise)));
}

static int serve(const struct settings *settings)
{
	char log[PATH_MAX], socket[PATH_MAX], policies[PATH_MAX];
	struct serve_spec spec = { .settings = settings, .log_path = log, .log = -1,
				   .socket = socket, .policies = policies };
	bool ok;

	put_path(log, settings->log_path, LOG_FILE);
	put_path(socket, settings->control_socket, "");
	put_path(policies, settings->policies_directory, "");
	if (!find_group(settings->control_group, &spec.group) || !open_log(log, &spec.log))
		return EXIT_FAILURE;
	spec.watchdog_ms = notify_watchdog_ms();
	spec.notify = notify_open();
	ok = serve_run(&spec);
	close(spec.log);
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

int cmd_serve(int argc, char **argv)
{
	const char *file = NULL;
	struct settings *settings;
	int status;

	if (!parse(argc, argv, &file, &status))
		return status;
	if (!machine_ok(command_name))
		return EXIT_FAILURE;
	if (!file && access(SETTINGS_FILE, F_OK) == 0)
		file = SETTINGS_FILE;
	settings = settings_load_here(file ? file : "");
	if (!settings)
		return EXIT_FAILURE;
	status = serve(settings);
	settings_free(settings);
	return status;
}
