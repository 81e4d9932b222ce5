#include "proxy/cmd_sandbox.h"

#include <jansson.h>
#include <stdlib.h>
#include <sysexits.h>

#include "conf/json.h"
#include "proxy/box_exec.h"
#include "proxy/control.h"
#include "proxy/control_api.h"
#include "proxy/show.h"
#include "proxy/usage.h"
#include "proxy/verbs.h"

static const char usage_text[] =
	"usage: exeat sandbox start NAME --policy FILE|NAME [--rootfs DIR] [--workspace DIR]\n"
	"                           [--output FILE] [--wait] -- COMMAND [ARGUMENT ...]\n"
	"       exeat sandbox attach NAME --netns PATH --policy FILE|NAME\n"
	"       exeat sandbox list\n"
	"       exeat sandbox inspect NAME\n"
	"       exeat sandbox exec NAME -- COMMAND [ARGUMENT ...]\n"
	"       exeat sandbox stop NAME [--kill]\n"
	"\n"
	"start    runs COMMAND in a box of its own\n"
	"attach   makes the wire of a network namespace that is there: a container started with no network\n"
	"list     every sandbox\n"
	"inspect  all that is known of one\n"
	"exec     runs one more command in its box, with our terminal. Root only\n"
	"stop     ends its command, and the box with it\n"
	"\n"
	"  --policy FILE      what it may reach; a NAME without '/' and \".yaml\" is one of the appliance's\n"
	"                     directory of policies. FILE, and every other path, is for root alone\n"
	"  --rootfs DIR       the box's root, read-only; if not given, one made of the machine's /usr\n"
	"  --workspace DIR    /workspace in the box, writable; if not given, one that is gone at the end\n"
	"  --output FILE      what COMMAND prints is added to it; if not given, it is not kept\n"
	"  --wait             until it has ended\n"
	"  --netns PATH       as /run/netns/NAME or /proc/PID/ns/net\n"
	"  --kill             at once, without SIGTERM first\n"
	"  --socket PATH      where the appliance listens (/run/exeat/control.sock)\n"
	"  --json             its answer as it is\n"
	"\n"
	"The exit status is 0; 1 if it was refused or failed, 69 if there is no appliance, 64 for a wrong command\n"
	"line. Of start --wait and exec it is COMMAND's, once it runs.\n";

#define COUNT(columns) (sizeof(columns) / sizeof((columns)[0]))

/* ---- what is shown ---- */

static void show_one(const json_t *answer)
{
	static const struct show_column members[] = {
		{ "name", "name", SHOW_AS_IT_IS }, { "number", "number", SHOW_AS_IT_IS },
		{ "state", "state", SHOW_AS_IT_IS }, { "why", "why", SHOW_AS_IT_IS },
		{ "exit", "exit", SHOW_AS_IT_IS }, { "policy", "policy.name", SHOW_AS_IT_IS },
		{ "policy digest", "policy.digest", SHOW_AS_IT_IS },
		{ "isolation", "isolation", SHOW_AS_IT_IS }, { "address", "address", SHOW_AS_IT_IS },
		{ "link", "link", SHOW_AS_IT_IS }, { "started", "started", SHOW_AS_IT_IS },
		{ "limits", "limits", SHOW_AS_IT_IS }, { "leases", "leases", SHOW_AS_IT_IS },
		{ "bytes up", "bytes_up", SHOW_BYTES }, { "bytes down", "bytes_down", SHOW_BYTES },
		{ "worker", "worker.pid", SHOW_AS_IT_IS },
		{ "worker crashes", "worker.crashes", SHOW_AS_IT_IS },
	};

	show_members(stdout, members, COUNT(members), answer);
}

static void show_list(const json_t *answer)
{
	static const struct show_column columns[] = {
		{ "NAME", "name", SHOW_AS_IT_IS }, { "STATE", "state", SHOW_AS_IT_IS },
		{ "POLICY", "policy.name", SHOW_AS_IT_IS }, { "ISOLATION", "isolation", SHOW_AS_IT_IS },
		{ "ADDRESS", "address", SHOW_AS_IT_IS }, { "LEASES", "leases", SHOW_AS_IT_IS },
		{ "UP", "bytes_up", SHOW_BYTES }, { "DOWN", "bytes_down", SHOW_BYTES },
		{ "EXIT", "exit", SHOW_AS_IT_IS }, { "WHY", "why", SHOW_AS_IT_IS },
	};

	show_table(stdout, columns, COUNT(columns), json_object_get(answer, "sandboxes"));
}

/* A line for each change: "dev: running". */
static void show_state(const json_t *answer)
{
	static const char *const shown[] = { "name", "state", "why" };

	for (size_t i = 0; i < COUNT(shown); i++) {
		const char *text = json_string_value(json_object_get(answer, shown[i]));

		if (!text)
			continue;
		fputs(i ? ": " : "", stdout);
		show_text(stdout, str_of(text));
	}
	fputc('\n', stdout);
}

/* ---- asking ---- */

/* "/v1/sandboxes/NAME" and what follows. */
static struct str target_of(const struct verb_call *call, const char *more, struct buf *out)
{
	buf_init(out, CONTROL_TARGET_MAX);
	buf_put_str(out, STR("/v1/sandboxes/"));
	control_encode(str_of(call->words[0]), out);
	buf_put_str(out, str_of(more));
	return buf_str(out);
}

static struct control_ask ask_of(const struct verb_call *call, const char *method,
				 struct str target)
{
	return (struct control_ask){ .command = call->command, .socket = call->socket,
				     .method = method, .target = target };
}

static int list(const struct verb_call *call)
{
	const struct control_ask ask = ask_of(call, "GET", STR("/v1/sandboxes"));

	return verb_ask(call, &ask, show_list);
}

static int inspect(const struct verb_call *call)
{
	struct buf target;
	const struct control_ask ask = ask_of(call, "GET", target_of(call, "", &target));
	int status = verb_ask(call, &ask, show_one);

	buf_free(&target);
	return status;
}

static int stop(const struct verb_call *call)
{
	struct buf target;
	const struct control_ask ask =
		ask_of(call, "DELETE", target_of(call, call->value[0] ? "?kill=true" : "", &target));
	int status = verb_ask(call, &ask, show_state);

	buf_free(&target);
	return status;
}

/* ---- starting ---- */

enum { START_POLICY, START_ROOTFS, START_WORKSPACE, START_OUTPUT, START_WAIT };
enum { ATTACH_POLICY, ATTACH_NETNS };

static bool put_path(const struct verb_call *call, const char *member, const char *path,
		     struct json *j)
{
	struct buf whole;
	bool ok;

	if (!path)
		return true;
	buf_init(&whole, CONTROL_BODY_MAX);
	ok = verb_path(call, path, &whole);
	json_put_str(j, member, buf_str(&whole));
	j->out->failed |= whole.failed;
	buf_free(&whole);
	return ok;
}

static bool put_policy(const struct verb_call *call, const char *policy, struct json *j)
{
	struct str s = str_of(policy);

	if (str_find(s, '/') < s.n || str_ends(s, STR(".yaml")) || str_ends(s, STR(".yml")))
		return put_path(call, "policy_file", policy, j);
	json_put_str(j, "policy", s);
	return true;
}

static void put_command(char *const *command, struct json *j)
{
	json_key(j, "command");
	json_array(j);
	for (; *command; command++)
		json_str(j, str_of(*command));
	json_array_end(j);
}

static int post(const struct verb_call *call, const struct buf *body, void (*shown)(const json_t *))
{
	struct control_ask ask = ask_of(call, "POST", STR("/v1/sandboxes"));

	if (body->failed)
		return usage_wrong(call->command, "more than %u bytes of command and paths", CONTROL_BODY_MAX);
	ask.body = buf_str(body);
	return verb_ask(call, &ask, shown);
}

static void show_nothing(const json_t *answer)
{
	(void)answer;
}

/* Its command's status, or 1 where it has none. */
static int wait_for_end(const struct verb_call *call)
{
	struct control_reply reply;
	struct buf target;
	struct control_ask ask = ask_of(call, "GET", target_of(call, "?wait=true", &target));
	const json_t *code;
	int status;

	ask.patient = true;
	status = control_ask(&ask, &reply);
	if (status == EX_OK) {
		if (call->json)
			show_text(stdout, buf_str(&reply.text));
		else
			show_state(reply.json);
		if (call->json)
			fputc('\n', stdout);
		code = json_object_get(reply.json, "exit");
		status = json_is_integer(code) ? (int)(json_integer_value(code) & 0xff)
					       : EXIT_FAILURE;
		if (fflush(stdout) != 0)
			status = EXIT_FAILURE;
	}
	control_reply_free(&reply);
	buf_free(&target);
	return status;
}

static int start(const struct verb_call *call)
{
	bool wait = call->value[START_WAIT];
	struct verb_call first = *call;
	struct buf body;
	struct json j;
	int status = EXIT_FAILURE;

	if (!call->value[START_POLICY])
		return usage_wrong(call->command, "--policy is needed: what the box may do is always said");
	if (!call->behind)
		return usage_wrong(call->command, "no command is given: put it behind --");
	first.json = call->json && !wait;	/* one answer is shown: the last */
	buf_init(&body, CONTROL_BODY_MAX);
	json_init(&j, &body);
	json_object(&j);
	json_put_str(&j, "name", str_of(call->words[0]));
	if (put_policy(call, call->value[START_POLICY], &j) &&
	    put_path(call, "rootfs", call->value[START_ROOTFS], &j) &&
	    put_path(call, "workspace", call->value[START_WORKSPACE], &j) &&
	    put_path(call, "output", call->value[START_OUTPUT], &j)) {
		put_command(call->behind, &j);
		json_object_end(&j);
		status = post(&first, &body, wait ? show_nothing : show_state);
		if (status == EX_OK && wait)
			status = wait_for_end(call);
	}
	buf_free(&body);
	return status;
}

static int attach(const struct verb_call *call)
{
	struct buf body;
	struct json j;
	int status = EXIT_FAILURE;

	if (!call->value[ATTACH_POLICY] || !call->value[ATTACH_NETNS])
		return usage_wrong(call->command, "--netns and --policy are needed");
	buf_init(&body, CONTROL_BODY_MAX);
	json_init(&j, &body);
	json_object(&j);
	json_put_str(&j, "name", str_of(call->words[0]));
	if (put_policy(call, call->value[ATTACH_POLICY], &j) &&
	    put_path(call, "netns", call->value[ATTACH_NETNS], &j)) {
		json_object_end(&j);
		status = post(call, &body, show_state);
	}
	buf_free(&body);
	return status;
}

/* ---- one more command ---- */

static int exec(const struct verb_call *call)
{
	struct control_reply reply;
	struct buf target, body;
	struct control_ask ask;
	struct json j;
	int status;

	if (!call->behind)
		return usage_wrong(call->command, "no command is given: put it behind --");
	ask = ask_of(call, "POST", target_of(call, "/exec", &target));
	buf_init(&body, CONTROL_BODY_MAX);
	json_init(&j, &body);
	json_object(&j);
	put_command(call->behind, &j);
	json_object_end(&j);
	ask.body = buf_str(&body);
	if (body.failed) {
		status = usage_wrong(call->command, "more than %u bytes of command", CONTROL_BODY_MAX);
	} else {
		status = control_ask(&ask, &reply);
		if (status == EX_OK)
			status = box_exec(call->command, reply.json, call->behind);
		control_reply_free(&reply);
	}
	buf_free(&body);
	buf_free(&target);
	return status;
}

int cmd_sandbox(int argc, char **argv)
{
	static char start_name[] = "exeat sandbox start", stop_name[] = "exeat sandbox stop",
		    list_name[] = "exeat sandbox list", inspect_name[] = "exeat sandbox inspect",
		    attach_name[] = "exeat sandbox attach", exec_name[] = "exeat sandbox exec";
	static const struct verb table[] = {
		{ .name = "start", .command = start_name, .min = 1, .max = 1, .words = "NAME", .behind = true,
		  .options = { [START_POLICY] = { "policy", true }, [START_ROOTFS] = { "rootfs", true },
			       [START_WORKSPACE] = { "workspace", true },
			       [START_OUTPUT] = { "output", true }, [START_WAIT] = { "wait", false } },
		  .run = start },
		{ .name = "attach", .command = attach_name, .min = 1, .max = 1, .words = "NAME",
		  .options = { [ATTACH_POLICY] = { "policy", true }, [ATTACH_NETNS] = { "netns", true } },
		  .run = attach },
		{ .name = "list", .command = list_name, .run = list },
		{ .name = "inspect", .command = inspect_name, .min = 1, .max = 1, .words = "NAME",
		  .run = inspect },
		{ .name = "exec", .command = exec_name, .min = 1, .max = 1, .words = "NAME", .behind = true,
		  .run = exec },
		{ .name = "stop", .command = stop_name, .min = 1, .max = 1, .words = "NAME",
		  .options = { { "kill", false } }, .run = stop },
	};
	static const struct verbs verbs = { "exeat sandbox", usage_text, table, COUNT(table) };

	return verbs_run(&verbs, argc, argv);
}
