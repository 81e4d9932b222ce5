/* proxy/control_api.h - every request that the control socket takes, and every answer
 *
 * The list of routes is the whole interface. Each has a struct that its fields fill and a table of
 * those fields (control_api.c); the answers' members are in the structs at the end. A member that
 * is not known is left out. Texts that name something of the host (files, folders, namespaces) are
 * taken from root alone: for everybody else an appliance runs policies of its operator's directory
 * in boxes of its own making.
 *
 * Ownership   structs borrow.       Blocking  never.
 * Failure     none: writers are sticky in their buffer.
 * Tests       tests/unit/proxy/test_control_api.c, tests/e2e/test_control.py
 */
#ifndef PROXY_CONTROL_API_H
#define PROXY_CONTROL_API_H

#include "conf/json.h"
#include "proxy/control_route.h"

#define CONTROL_SOCKET "/run/exeat/control.sock"	/* where settings say nothing */
#define CONTROL_NAME_MAX 64u
#define CONTROL_PATH_MAX 4095u
#define CONTROL_WORDS_MAX 1024u
#define CONTROL_NOTE_MAX 512u

/* name, method, path, for root alone, what checks fields that go together (NULL: none do) */
#define CONTROL_ROUTES(X)                                                                         \
	X(status,          "GET",    "/v1/status",                false, NULL)                    \
	X(sandbox_list,    "GET",    "/v1/sandboxes",             false, NULL)                    \
	X(sandbox_start,   "POST",   "/v1/sandboxes",             false, control_start_check)     \
	X(sandbox_inspect, "GET",    "/v1/sandboxes/{name}",      false, NULL)                    \
	X(sandbox_stop,    "DELETE", "/v1/sandboxes/{name}",      false, NULL)                    \
	X(sandbox_exec,    "POST",   "/v1/sandboxes/{name}/exec", true,  NULL)                    \
	X(policy_reload,   "POST",   "/v1/policy/reload",         false, NULL)                    \
	X(request_list,    "GET",    "/v1/requests",              false, NULL)                    \
	X(request_show,    "GET",    "/v1/requests/{number}",     false, NULL)                    \
	X(request_close,   "DELETE", "/v1/requests/{number}",     false, NULL)

/* ---- what they carry ---- */

struct control_status_args {
	uint8_t unused;
};

struct control_sandbox_list_args {
	uint8_t unused;
};

/* A box of its own, or (@netns) the wire of a namespace that is there. */
struct control_sandbox_start_args {
	struct str name;
	struct str policy;		/* a file NAME.yaml of the policies' directory */
	struct str policy_file;		/* instead of it */
	struct str rootfs, workspace;	/* empty: made, and gone at the end */
	struct str output;		/* where the command's output goes; empty: nowhere */
	struct control_texts command;
	struct str netns;
};

struct control_sandbox_inspect_args {
	struct str name;
	bool wait;			/* answered when it has ended */
};

struct control_sandbox_stop_args {
	struct str name;
	bool kill;			/* at once, without asking its command to end */
};

struct control_sandbox_exec_args {
	struct str name;
	struct control_texts command;	/* for the record: the asker runs it */
};

struct control_policy_reload_args {
	struct str sandbox;		/* empty: all */
};

struct control_request_list_args {
	bool closed;			/* those, too */
};

struct control_request_show_args {
	uint64_t number;
};

struct control_request_close_args {
	uint64_t number;
	struct str note;
};

#define X(name, method, pattern, root, check) \
	extern const struct control_field control_##name##_fields[];
CONTROL_ROUTES(X)
#undef X

/* Fields that do not go together: what is wrong, or NULL. */
const char *control_start_check(const void *args);

/* ---- what is answered ---- */

/* One of GET /v1/sandboxes ({"sandboxes": [...]}), and what start, inspect and stop answer. */
struct control_sandbox {
	struct str name;
	uint64_t number;
	struct str state;		/* starting, running, stopping, ended, failed */
	struct str policy, digest;
	struct str isolation, address, link, limits;
	struct str started;		/* RFC 3339 */
	uint64_t leases, bytes_up, bytes_down;
	uint64_t worker_pid, worker_crashes;
	bool has_exit;
	uint64_t exit;
	struct str why;			/* it failed, or was ended */
};

void control_write_sandbox(struct json *j, const struct control_sandbox *s);

/* What exec answers. */
struct control_exec {
	struct str container, runtime, state;	/* state: the folder of box_state() */
};

void control_write_exec(struct json *j, const struct control_exec *e);

#endif
