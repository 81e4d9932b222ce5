#include "proxy/cmd_reload.h"

#include <jansson.h>

#include "proxy/show.h"
#include "proxy/verbs.h"

static const char usage_text[] =
	"usage: exeat policy reload [--sandbox NAME] [--socket PATH] [--json]\n"
	"\n"
	"Has the appliance read its sandboxes' policies again. A file that does not load changes nothing.\n"
	"\n"
	"  --sandbox NAME     only this one's\n"
	"  --socket PATH      where the appliance listens (/run/exeat/control.sock)\n"
	"  --json             its answer as it is\n"
	"\n"
	"The exit status is 0; 1 if a policy does not load or it was refused, 69 if there is no appliance, 64\n"
	"for a wrong command line.\n";

static void show(const json_t *answer)
{
	static const struct show_column members[] = {
		{ "sandboxes", "sandboxes", SHOW_AS_IT_IS }, { "policy files", "files", SHOW_AS_IT_IS },
		{ "changed", "changed", SHOW_AS_IT_IS },
		{ "not taken yet", "waiting", SHOW_AS_IT_IS },
	};

	show_members(stdout, members, sizeof(members) / sizeof(members[0]), answer);
}

static int reload(const struct verb_call *call)
{
	struct control_ask ask = { .command = call->command, .socket = call->socket, .method = "POST",
				   .target = STR("/v1/policy/reload") };

	return verb_ask_with(call, &ask, "sandbox", call->value[0], show);
}

int cmd_reload(int argc, char **argv)
{
	static char name[] = "exeat policy reload";
	static const struct verb verb = { .command = name, .options = { { "sandbox", true } },
					  .run = reload };
	static const struct verbs verbs = { name, usage_text, &verb, 1 };

	return verbs_run(&verbs, argc, argv);
}
