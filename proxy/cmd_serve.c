#include "proxy/cmd_serve.h"

#include <errno.h>
#include <getopt.h>
#include <grp.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy/log_path.h"
#include "proxy/serve.h"
#include "proxy/usage.h"

#define LOG_DEFAULT "/var/log/exeat/audit.jsonl"

static const char usage_text[] =
	"usage: exeat serve [--settings FILE]\n"
	"\n"
	"Runs sandboxes that are started over its control socket: exeat sandbox --help. Root only.\n"
	"\n"
	"  --settings FILE    this machine's settings; if not given, ~/.config/exeat/exeat.yaml, else\n"
	"                     /etc/exeat/exeat.yaml, else none\n"
	"\n"
	"It ends at SIGTERM and SIGINT, and reads policies again at SIGHUP. The exit status is 0; 1 if it\n"
	"could not start or not go on, 64 for a wrong command line.\n";

static char command_name[] = "exeat serve";

/* False: the command ends here, with *status. */
static bool parse(int argc, char **argv, const char **settings, int *status)
{
	static const struct option options[] = {
		{ "settings", required_argument, NULL, 's' }, { "help", no_argument, NULL, 'h' }, { 0 },
	};
	int c;

	argv[0] = command_name;
	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (c != 's') {
			*status = c == 'h' ? usage_show(usage_text) : usage_wrong(command_name, NULL);
			return false;
		}
		*settings = optarg;
	}
	*status = optind < argc ? usage_wrong(command_name, "it takes no argument") : 0;
	return *status == 0;
}

static bool find_group(struct str name, gid_t *gid)
{
	char text[64];
	struct group *g;

	*gid = (gid_t)-1;
	if (!name.n)
		return true;
	snprintf(text, sizeof(text), "%.*s", STR_ARG(name));
	g = getgrnam(text);
	if (g)
		*gid = g->gr_gid;
	else
		fprintf(stderr, "%s: there is no group \"%s\": make it: groupadd --system %s\n", command_name, text,
			text);
	return g != NULL;
}

static bool serve(const struct settings *settings)
{
	char socket[PATH_MAX], policies[PATH_MAX], log[PATH_MAX];
	struct serve_spec spec = { .settings = settings, .log_path = log, .log = -1, .socket = socket,
				   .policies = policies };
	bool ok;

	snprintf(socket, sizeof(socket), "%.*s", STR_ARG(settings->control_socket));
	snprintf(policies, sizeof(policies), "%.*s", STR_ARG(settings->policies_directory));
	snprintf(log, sizeof(log), "%.*s",
		 STR_ARG(settings->log_path.n ? settings->log_path : STR(LOG_DEFAULT)));
	if (!find_group(settings->control_group, &spec.group))
		return false;
	if (log_path_open(log, &spec.log) != OK) {
		fprintf(stderr, "%s: the audit log %s: %s; nothing is run without one\n", command_name, log,
			strerror(errno));
		return false;
	}
	ok = serve_run(&spec);
	close(spec.log);
	return ok;
}

int cmd_serve(int argc, char **argv)
{
	const char *path = NULL;
	struct settings *settings;
	int status;

	if (!parse(argc, argv, &path, &status))
		return status;
	if (geteuid() != 0) {
		fprintf(stderr, "%s: must be root: start it with sudo\n", command_name);
		return EXIT_FAILURE;
	}
	settings = settings_load(path);
	if (!settings)
		return EXIT_FAILURE;
	status = serve(settings) ? EXIT_SUCCESS : EXIT_FAILURE;
	settings_free(settings);
	return status;
}
