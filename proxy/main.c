/* exeat - the program that an operator starts: a table of commands */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "proxy/cmd_log.h"
#include "proxy/cmd_policy.h"
#include "proxy/cmd_request.h"
#include "proxy/cmd_run.h"
#include "proxy/cmd_sandbox.h"
#include "proxy/cmd_serve.h"
#include "proxy/cmd_settings.h"
#include "proxy/cmd_status.h"
#include "proxy/usage.h"
#include "proxy/version.h"

#define COMMANDS "run, serve, status, sandbox, request, policy, log, settings or version"

static const char usage_text[] =
	"usage: exeat COMMAND ...\n"
	"\n"
	"  run       run one command in a box, behind a policy\n"
	"  serve     run an appliance: boxes that are started over its control socket\n"
	"  status    say how the appliance is\n"
	"  sandbox   start, stop and show the appliance's boxes\n"
	"  request   show and close what boxes have asked for\n"
	"  policy    check a policy, explain what it does to a request, have it reloaded\n"
	"  log       verify the audit log, show and search it\n"
	"  settings  show the operator's settings, check them\n"
	"  version   print the version\n"
	"\n"
	"exeat COMMAND --help says more of each.\n";

static int cmd_version(int argc, char **argv)
{
	if (argc > 1 && usage_asked(argv[1]))
		return usage_show("usage: exeat version\n\nPrints the version.\n");
	if (argc > 1)
		return usage_wrong("exeat version", "it takes no argument");
	return printf("exeat %s\n", EXEAT_VERSION) < 0 || fflush(stdout) != 0;
}

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} commands[] = {
	{ "run", cmd_run },
	{ "serve", cmd_serve },
	{ "status", cmd_status },
	{ "sandbox", cmd_sandbox },
	{ "request", cmd_request },
	{ "policy", cmd_policy },
	{ "log", cmd_log },
	{ "settings", cmd_settings },
	{ "version", cmd_version },
	{ "--version", cmd_version },
};

/* A file that is opened must not become stdout or stderr because whoever started us had closed it:
 * what is said would go into the audit log. */
static bool have_three_descriptors(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	return fd >= 0 && close(fd) == 0;
}

int main(int argc, char **argv)
{
	if (!have_three_descriptors())
		return EX_OSERR;
	/* A box passes through folders that are made for it as somebody who is not root. What
	 * others must not read says so where it is made. */
	(void)umask(022);
	if (argc < 2)
		return usage_wrong("exeat", "a command is needed: " COMMANDS);
	if (usage_asked(argv[1]))
		return usage_show(usage_text);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argc - 1, argv + 1);
	return usage_wrong("exeat", "no command \"%s\": it is " COMMANDS, argv[1]);
}
