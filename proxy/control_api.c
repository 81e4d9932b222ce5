#include "proxy/control_api.h"

/* ---- what a text may be ---- */

/* It stands in the log, on channels and in paths. */
static const char *check_name(struct str s)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

	for (size_t i = 0; i < s.n; i++)
		if (!memchr(allowed, s.p[i], sizeof(allowed) - 1))
			return "is no name: write letters, digits, '.', '_' and '-'";
	return s.p[0] == '.' || s.p[0] == '-' ? "is no name: begin with a letter or a digit" : NULL;
}

static const char *check_policy(struct str s)
{
	return str_is_id(s) ? NULL
			    : "is no name of a policy: write NAME for NAME.yaml in the policies' directory";
}

static const char *check_path(struct str s)
{
	return s.p[0] == '/' ? NULL : "is no absolute path: write it from its /";
}

/* ---- tables ---- */

#define AT(route, member) offsetof(struct control_##route##_args, member)
#define NAME(route, member, key, where, need) \
	{ .name = key, .from = where, .type = CONTROL_TEXT, .offset = AT(route, member), .required = need, \
	  .min = 1, .max = CONTROL_NAME_MAX, .check = check_name, .help = "the name of a sandbox" }
#define HOST_PATH(route, member, text) \
	{ .name = #member, .from = CONTROL_BODY, .type = CONTROL_TEXT, .offset = AT(route, member), \
	  .root_only = true, .min = 1, .max = CONTROL_PATH_MAX, .check = check_path, .help = text }
#define COMMAND(route, need) \
	{ .name = "command", .from = CONTROL_BODY, .type = CONTROL_TEXTS, .offset = AT(route, command), \
	  .required = need, .min = 1, .max = CONTROL_WORDS_MAX, .help = "the program and its arguments" }
#define CHOICE(route, member, text) \
	{ .name = #member, .from = CONTROL_QUERY, .type = CONTROL_BOOL, .offset = AT(route, member), \
	  .help = text }
#define NUMBER(route) \
	{ .name = "number", .from = CONTROL_PATH, .type = CONTROL_NUMBER, .offset = AT(route, number), \
	  .required = true, .min = 1, .max = UINT32_MAX, .help = "the number of a request for access" }

const struct control_field control_status_fields[] = { { 0 } };
const struct control_field control_sandbox_list_fields[] = { { 0 } };

const struct control_field control_sandbox_start_fields[] = {
	NAME(sandbox_start, name, "name", CONTROL_BODY, true),
	{ .name = "policy", .from = CONTROL_BODY, .type = CONTROL_TEXT, .offset = AT(sandbox_start, policy),
	  .min = 1, .max = CONTROL_NAME_MAX, .check = check_policy,
	  .help = "the name of a policy in the policies' directory" },
	HOST_PATH(sandbox_start, policy_file, "a policy's file"),
	HOST_PATH(sandbox_start, rootfs, "a folder, the box's root"),
	HOST_PATH(sandbox_start, workspace, "a folder, the box's /workspace"),
	HOST_PATH(sandbox_start, output, "a file, to which the command's output is added"),
	COMMAND(sandbox_start, false),
	HOST_PATH(sandbox_start, netns, "a network namespace without any interface but loopback"),
	{ 0 },
};

const struct control_field control_sandbox_inspect_fields[] = {
	NAME(sandbox_inspect, name, "name", CONTROL_PATH, true),
	CHOICE(sandbox_inspect, wait, "whether to answer when it has ended"),
	{ 0 },
};

const struct control_field control_sandbox_stop_fields[] = {
	NAME(sandbox_stop, name, "name", CONTROL_PATH, true),
	CHOICE(sandbox_stop, kill, "whether to end it without asking its command"),
	{ 0 },
};

const struct control_field control_sandbox_exec_fields[] = {
	NAME(sandbox_exec, name, "name", CONTROL_PATH, true),
	COMMAND(sandbox_exec, true),
	{ 0 },
};

const struct control_field control_policy_reload_fields[] = {
	NAME(policy_reload, sandbox, "sandbox", CONTROL_BODY, false),
	{ 0 },
};

const struct control_field control_request_list_fields[] = {
	CHOICE(request_list, closed, "whether those that are closed come, too"),
	{ 0 },
};

const struct control_field control_request_show_fields[] = { NUMBER(request_show), { 0 } };

const struct control_field control_request_close_fields[] = {
	NUMBER(request_close),
	{ .name = "note", .from = CONTROL_BODY, .type = CONTROL_TEXT, .offset = AT(request_close, note),
	  .max = CONTROL_NOTE_MAX, .help = "why it is closed, for the log" },
	{ 0 },
};

const char *control_start_check(const void *args)
{
	const struct control_sandbox_start_args *a = args;

	if (!a->policy.n == !a->policy_file.n)
		return "a sandbox has one policy: give \"policy\", or \"policy_file\"";
	if (!a->command.n == !a->netns.n)
		return "a sandbox runs a \"command\" in a box of its own, or is the wire of a \"netns\" that is "
		       "there: give one of them";
	if (a->netns.n && (a->rootfs.n || a->workspace.n || a->output.n))
		return "\"rootfs\", \"workspace\" and \"output\" are of a box: a \"netns\" has none";
	return NULL;
}

/* ---- answers ---- */

static void put_known(struct json *j, const char *key, struct str s)
{
	if (s.n)
		json_put_str(j, key, s);
}

void control_write_sandbox(struct json *j, const struct control_sandbox *s)
{
	json_object(j);
	json_put_str(j, "name", s->name);
	json_put_u64(j, "number", s->number);
	json_put_str(j, "state", s->state);
	json_key(j, "policy");
	json_object(j);
	put_known(j, "name", s->policy);
	put_known(j, "digest", s->digest);
	json_object_end(j);
	put_known(j, "isolation", s->isolation);
	put_known(j, "address", s->address);
	put_known(j, "link", s->link);
	put_known(j, "started", s->started);
	put_known(j, "limits", s->limits);
	json_put_u64(j, "leases", s->leases);
	json_put_u64(j, "bytes_up", s->bytes_up);
	json_put_u64(j, "bytes_down", s->bytes_down);
	json_key(j, "worker");
	json_object(j);
	if (s->worker_pid)
		json_put_u64(j, "pid", s->worker_pid);
	json_put_u64(j, "crashes", s->worker_crashes);
	json_object_end(j);
	if (s->has_exit)
		json_put_u64(j, "exit", s->exit);
	put_known(j, "why", s->why);
	json_object_end(j);
}

void control_write_exec(struct json *j, const struct control_exec *e)
{
	json_object(j);
	json_put_str(j, "container", e->container);
	json_put_str(j, "runtime", e->runtime);
	json_put_str(j, "state", e->state);
	json_object_end(j);
}
