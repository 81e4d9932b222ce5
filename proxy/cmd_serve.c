#include "proxy/cmd_serve.h"

#include <errno.h>
#include <getopt.h>
#include <grp.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy/control_api.h"
#include "proxy/log_path.h"
#include "proxy/serve.h"
#include "proxy/usage.h"

static const char usage_text[] =
	"usage: exeat serve [--settings FILE] [--log FILE] [--socket PATH] [--group NAME] [--policies DIR]\n"
	"\n"
	"Runs sandboxes that are started over the control socket. Root only.\n";

struct options {
	const char *settings, *log, *socket, *group, *policies;
};

static char command_name[] = "exeat serve";

static const char **slot(struct options *o, int c)
{
	switch (c) {
	case 's': return &o->settings;
	case 'l': return &o->log;
	case 'c': return &o->socket;
	case 'g': return &o->group;
	case 'p': return &o->policies;
	default:  return NULL;
	}
}

static bool parse(int argc, char **argv, struct options *o, int *status)
{
	static const struct option options[] = {
		{ "settings", required_argument, NULL, 's' }, { "log", required_argument, NULL, 'l' },
		{ "socket", required_argument, NULL, 'c' },   { "group", required_argument, NULL, 'g' },
		{ "policies", required_argument, NULL, 'p' }, { "help", no_argument, NULL, 'h' }, { 0 },
	};
	int c;

	argv[0] = command_name;
	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		const char **to = slot(o, c);

		if (!to) {
			*status = c == 'h' ? usage_show(usage_text) : usage_wrong(command_name, NULL);
			return false;
		}
		*to = optarg;
	}
	*status = optind < argc ? usage_wrong(command_name, "it takes no argument") : 0;
	return *status == 0;
}

static bool find_group(const char *name, gid_t *gid)
{
	struct group *g = name ? getgrnam(name) : NULL;

	*gid = g ? g->gr_gid : (gid_t)-1;
	if (!name || g)
		return true;
	fprintf(stderr, "exeat serve: there is no group \"%s\"\n", name);
	return false;
}

int cmd_serve(int argc, char **argv)
{
	struct options o = { .socket = CONTROL_SOCKET, .policies = "/etc/exeat/policies",
			     .log = "/var/log/exeat/audit.jsonl" };
	struct serve_spec spec = { .log = -1 };
	struct settings *settings;
	int status;

	if (!parse(argc, argv, &o, &status))
		return status;
	if (geteuid() != 0) {
		fprintf(stderr, "exeat serve: must be root: start it with sudo\n");
		return EXIT_FAILURE;
	}
	settings = settings_load(o.settings);
	if (!settings || !find_group(o.group, &spec.group))
		return EXIT_FAILURE;
	spec.settings = settings;
	spec.log_path = o.log;
	spec.socket = o.socket;
	spec.policies = o.policies;
	if (log_path_open(o.log, &spec.log) != OK)
		fprintf(stderr, "exeat serve: the audit log %s: %s\n", o.log, strerror(errno));
	status = spec.log >= 0 && serve_run(&spec) ? EXIT_SUCCESS : EXIT_FAILURE;
	if (spec.log >= 0)
		close(spec.log);
	settings_free(settings);
	return status;
}
