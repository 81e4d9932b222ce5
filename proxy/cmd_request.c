#include "proxy/cmd_request.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

#include "proxy/control_api.h"
#include "proxy/show.h"
#include "proxy/usage.h"
#include "proxy/verbs.h"

static const char usage_text[] =
	"usage: exeat request list [--closed] [--socket PATH] [--json]\n"
	"       exeat request show NUMBER [--socket PATH] [--json]\n"
	"       exeat request close NUMBER [--note TEXT] [--socket PATH] [--json]\n"
	"\n"
	"What boxes have asked for at http://exeat.internal/request. A request allows nothing: change the\n"
	"policy, then close it.\n"
	"\n"
	"list     what is open\n"
	"show     one, with the rule that would allow it\n"
	"close    one that has been looked at\n"
	"\n"
	"  --closed           those that are closed, too\n"
	"  --note TEXT        why it is closed, for the log\n"
	"  --socket PATH      where the appliance listens (/run/exeat/control.sock)\n"
	"  --json             its answer as it is\n"
	"\n"
	"The exit status is 0; 1 if it was refused, 69 if there is no appliance, 64 for a wrong command line.\n";

#define TARGET_MAX 64
#define COUNT(columns) (sizeof(columns) / sizeof((columns)[0]))

static void show_list(const json_t *answer)
{
	static const struct show_column columns[] = {
		{ "NUMBER", "number", SHOW_AS_IT_IS }, { "STATE", "state", SHOW_AS_IT_IS },
		{ "ASKED", "asked", SHOW_AS_IT_IS }, { "SANDBOX", "sandbox", SHOW_AS_IT_IS },
		{ "METHOD", "method", SHOW_AS_IT_IS }, { "URL", "url", SHOW_AS_IT_IS },
	};

	show_table(stdout, columns, COUNT(columns), json_object_get(answer, "requests"));
}

static void show_one(const json_t *answer)
{
	static const struct show_column members[] = {
		{ "number", "number", SHOW_AS_IT_IS }, { "state", "state", SHOW_AS_IT_IS },
		{ "asked", "asked", SHOW_AS_IT_IS }, { "sandbox", "sandbox", SHOW_AS_IT_IS },
		{ "method", "method", SHOW_AS_IT_IS }, { "url", "url", SHOW_AS_IT_IS },
		{ "reason", "reason", SHOW_AS_IT_IS }, { "closed", "closed", SHOW_AS_IT_IS },
		{ "note", "note", SHOW_AS_IT_IS }, { "rule", "rule", SHOW_AS_IT_IS },
	};

	show_members(stdout, members, COUNT(members), answer);
}

static int list(const struct verb_call *call)
{
	const struct control_ask ask = { .command = call->command, .socket = call->socket, .method = "GET",
					 .target = call->value[0] ? STR("/v1/requests?closed=true")
								  : STR("/v1/requests") };

	return verb_ask(call, &ask, show_list);
}

/* One that is asked for by its number. False: it is none, which was said. */
static bool target(const struct verb_call *call, char *out, size_t size)
{
	uint64_t number;

	if (!str_to_u64(str_of(call->words[0]), UINT32_MAX, &number)) {
		(void)usage_wrong(call->command, "\"%s\" is no number of a request", call->words[0]);
		return false;
	}
	snprintf(out, size, "/v1/requests/%" PRIu64, number);
	return true;
}

static int show(const struct verb_call *call)
{
	struct control_ask ask = { .command = call->command, .socket = call->socket, .method = "GET" };
	char path[TARGET_MAX];

	if (!target(call, path, sizeof(path)))
		return EX_USAGE;
	ask.target = str_of(path);
	return verb_ask(call, &ask, show_one);
}

static int close_one(const struct verb_call *call)
{
	struct control_ask ask = { .command = call->command, .socket = call->socket,
				   .method = "DELETE" };
	char path[TARGET_MAX];

	if (!target(call, path, sizeof(path)))
		return EX_USAGE;
	ask.target = str_of(path);
	return verb_ask_with(call, &ask, "note", call->value[0], show_one);
}

int cmd_request(int argc, char **argv)
{
	static char list_name[] = "exeat request list", show_name[] = "exeat request show",
		    close_name[] = "exeat request close";
	static const struct verb table[] = {
		{ .name = "list", .command = list_name, .options = { { "closed", false } }, .run = list },
		{ .name = "show", .command = show_name, .min = 1, .max = 1, .words = "NUMBER", .run = show },
		{ .name = "close", .command = close_name, .options = { { "note", true } }, .min = 1, .max = 1,
		  .words = "NUMBER", .run = close_one },
	};
	static const struct verbs verbs = { "exeat request", usage_text, table, COUNT(table) };

	return verbs_run(&verbs, argc, argv);
}
