/* exeat - the program that an operator starts: a table of commands */
#include <stdio.h>
#include <string.h>

#include "proxy/cmd_log.h"
#include "proxy/cmd_policy.h"
#include "proxy/cmd_run.h"
#include "proxy/version.h"

#define EXIT_USAGE 64

static const struct {
	const char *name, *help;
	int (*run)(int argc, char **argv);
} commands[] = {
	{ "run", "run one command in a box, behind a policy", cmd_run },
	{ "policy", "check a policy, explain what it does to a request", cmd_policy },
	{ "log", "verify the audit log, show it", cmd_log },
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(*commands))

static void usage(FILE *to)
{
	fprintf(to, "usage: exeat COMMAND ...\n\n");
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		fprintf(to, "  %-8s %s\n", commands[i].name, commands[i].help);
	fprintf(to, "  %-8s %s\n", "version", "print the version");
}

int main(int argc, char **argv)
{
	if (argc >= 2 && (strcmp(argv[1], "version") == 0 || strcmp(argv[1], "--version") == 0)) {
		printf("exeat %s\n", EXEAT_VERSION);
		return 0;
	}
	if (argc >= 2 && (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0)) {
		usage(stdout);
		return 0;
	}
	for (size_t i = 0; argc >= 2 && i < COMMAND_COUNT; i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argc - 1, argv + 1);
	if (argc >= 2)
		fprintf(stderr, "exeat: no command \"%s\"\n", argv[1]);
	usage(stderr);
	return EXIT_USAGE;
}
