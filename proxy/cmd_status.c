#include "proxy/cmd_status.h"

#include <jansson.h>

#include "proxy/show.h"
#include "proxy/verbs.h"

static const char usage_text[] =
	"usage: exeat status [--socket PATH] [--json]\n"
	"\n"
	"Says how the appliance is: what it runs, its roles, its log.\n"
	"\n"
	"  --socket PATH      where it listens (/run/exeat/control.sock)\n"
	"  --json             its answer as it is\n"
	"\n"
	"The exit status is 0; 1 if it refused, 69 if there is no appliance, 64 for a wrong command line.\n";

#define COUNT(columns) (sizeof(columns) / sizeof((columns)[0]))

static void show(const json_t *answer)
{
	static const struct show_column members[] = {
		{ "version", "version", SHOW_AS_IT_IS }, { "pid", "pid", SHOW_AS_IT_IS },
		{ "started", "started", SHOW_AS_IT_IS }, { "settings", "settings.file", SHOW_AS_IT_IS },
		{ "log", "log.file", SHOW_AS_IT_IS }, { "log writable", "log.writable", SHOW_AS_IT_IS },
		{ "boxes starting", "sandboxes.starting", SHOW_AS_IT_IS },
		{ "boxes running", "sandboxes.running", SHOW_AS_IT_IS },
		{ "boxes stopping", "sandboxes.stopping", SHOW_AS_IT_IS },
		{ "requests open", "requests", SHOW_AS_IT_IS },
	};
	static const struct show_column roles[] = {
		{ "ROLE", "role", SHOW_AS_IT_IS }, { "PID", "pid", SHOW_AS_IT_IS },
		{ "STATE", "state", SHOW_AS_IT_IS }, { "CRASHES", "crashes", SHOW_AS_IT_IS },
	};

	show_members(stdout, members, COUNT(members), answer);
	fputc('\n', stdout);
	show_table(stdout, roles, COUNT(roles), json_object_get(answer, "roles"));
}

static int status(const struct verb_call *call)
{
	const struct control_ask ask = { .command = call->command, .socket = call->socket, .method = "GET",
					 .target = STR("/v1/status") };

	return verb_ask(call, &ask, show);
}

int cmd_status(int argc, char **argv)
{
	static char name[] = "exeat status";
	static const struct verb verb = { .command = name, .run = status };
	static const struct verbs verbs = { name, usage_text, &verb, 1 };

	return verbs_run(&verbs, argc, argv);
}
