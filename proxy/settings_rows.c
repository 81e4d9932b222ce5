#include "proxy/settings_rows.h"

#include <sys/un.h>

#include "proxy/messages.h"

#define SOCKET_PATH_MAX (sizeof(((struct sockaddr_un *)0)->sun_path) - 1)
#define CONTACT_MAX 500
#define DAY_MS 86400000ull

#define FIELD(key_, type_, member, ...)                                                            \
	{ .key = key_, .type = SCHEMA_##type_, .offset = offsetof(struct settings_fields, member), \
	  __VA_ARGS__ }
#define GROUP(key_, rows_, help_)                                                                  \
	{ .key = key_, .type = SCHEMA_GROUP, .rows = (rows_), .help = help_ }
#define END { .type = SCHEMA_END }
#define PATH .max = SETTINGS_PATH_MAX - 1, .check = check_path, .pattern = "^/"

/* ---- checks ---- */

static const char *check_path(struct str path)
{
	return path.p[0] == '/' ? NULL : "no absolute path: write the whole path, from its /";
}

static const char *check_env(struct str name)
{
	for (size_t i = 0; i < name.n; i++) {
		char c = ascii_lower(name.p[i]);

		if (c != '_' && !(c >= 'a' && c <= 'z') && (i == 0 || c < '0' || c > '9'))
			return "no name of a variable";
	}
	return NULL;
}

/* It is shown to who is refused, as one paragraph. */
static const char *check_contact(struct str text)
{
	for (size_t i = 0; i < text.n; i++)
		if ((unsigned char)text.p[i] < ' ' || text.p[i] == 0x7f)
			return "one line of text";
	return NULL;
}

/* ---- the table ---- */

static const char *const versions[] = { "1", NULL };
static const char *const durabilities[] = { [SETTINGS_WRITTEN] = "written",
					    [SETTINGS_SYNCED] = "synced", NULL };
static const char *const log_failures[] = { "refuse", NULL };

static const struct schema_row name_row = {
	.key = "NAME", .type = SCHEMA_TEXTS, .max = SETTINGS_NAME_ADDRS_MAX, .help = "its addresses",
};

static const struct schema_row resolver_rows[] = {
	FIELD("servers", TEXTS, servers, .max = SETTINGS_SERVERS_MAX, .without = "the system's",
	      .help = "the DNS servers, ADDR or ADDR:PORT each"),
	FIELD("timeout", DURATION, timeout_ms, .min = 100, .max = 60000, .initial = "2s",
	      .help = "how long one server is waited for"),
	FIELD("names", MAP, names, .max = SETTINGS_NAMES_MAX, .each = &name_row, .without = "none",
	      .help = "answered before any server is asked, vetted like any answer"),
	END,
};

static const struct schema_row trust_rows[] = {
	FIELD("system", BOOL, trust_system, .initial = "true",
	      .help = "whether the system's CA certificates are trusted"),
	FIELD("add", TEXTS, trust_add, .max = SETTINGS_TRUST_MAX, .without = "none",
	      .pattern = "^/", .help = "PEM files of origins' private CAs, added"),
	END,
};

#define SECRET(key_, type_, member, ...)                                                           \
	{ .key = key_, .type = SCHEMA_##type_,                                                     \
	  .offset = offsetof(struct settings_secret_fields, member), __VA_ARGS__ }

const struct schema_row settings_secret_rows[] = {
	SECRET("file", TEXT, file, PATH, .without = "its value comes from env",
	       .help = "a file that holds the value alone, which others cannot read"),
	SECRET("env", TEXT, env, .max = 256, .check = check_env, .pattern = "^[A-Za-z_][A-Za-z0-9_]*$",
	       .without = "its value comes from file",
	       .help = "a variable of the environment, taken at start"),
	SECRET("hosts", TEXTS, hosts, .required = true,
	       .help = "the most hosts that the value may go to"),
	{ .key = "systemd", .type = SCHEMA_LATER, .help = "a value comes from file or env" },
	{ .key = "exec", .type = SCHEMA_LATER, .help = "a value comes from file or env" },
	{ .key = "every", .type = SCHEMA_LATER },
	{ .key = "kubernetes", .type = SCHEMA_LATER, .help = "a value comes from file or env" },
	{ .key = "vault", .type = SCHEMA_LATER, .help = "a value comes from file or env" },
	{ .key = "sealed", .type = SCHEMA_LATER, .help = "a value comes from file or env" },
	END,
};

static const struct schema_row secret_row = {
	.key = "NAME", .type = SCHEMA_GROUP, .rows = settings_secret_rows,
	.help = "one secret, with one source: file or env",
};

static const struct schema_row network_rows[] = {
	FIELD("link_pool", TEXT, link_pool, .initial = "100.96.0.0/12",
	      .help = "where the /30 between gateway and each box is taken from"),
	FIELD("synthetic_pool", TEXT, synthetic_pool, .initial = "198.18.0.0/15",
	      .help = "the addresses that names stand for inside a box"),
	END,
};

static const struct schema_row rotate_rows[] = {
	FIELD("size", SIZE, rotate_bytes, .min = 4096, .max = 1ull << 40, .initial = "256MiB",
	      .help = "a file that has grown so large is put aside"),
	FIELD("age", DURATION, rotate_ms, .min = 1000, .max = 3650 * DAY_MS, .initial = "7d",
	      .help = "a file that has become so old is put aside"),
	FIELD("keep", NUMBER, rotate_keep, .min = 1, .max = 100000, .initial = "12",
	      .help = "so many files that were put aside stay; the oldest goes first"),
	END,
};

static const struct schema_row log_rows[] = {
	FIELD("path", TEXT, log_path, PATH, .without = "exeat serve: /var/log/exeat/audit.jsonl; the others: "
	      "$XDG_STATE_HOME/exeat/audit.jsonl, else ~/.local/state/exeat/audit.jsonl", .help = "the audit log's file"),
	FIELD("durability", CHOICE, durability, .choices = durabilities, .initial = "written",
	      .help = "what must have happened to a request's record before the request goes out: "
		      "written to the file, or synced to the disk"),
	FIELD("on_log_failure", CHOICE, on_log_failure, .choices = log_failures, .initial = "refuse",
	      .help = "while the log cannot be written, requests are refused"),
	GROUP("rotate", rotate_rows, "when the log's file is put aside and a new one begun"),
	END,
};

static const struct schema_row limits_rows[] = {
	FIELD("sandboxes", NUMBER, sandboxes, .min = 1, .max = 1000, .initial = "1000",
	      .help = "sandboxes at once, all together"),
	FIELD("leases", NUMBER, leases, .min = 1, .max = 4096, .initial = "4096",
	      .help = "names that one box may know at once"),
	FIELD("connections", NUMBER, connections, .min = 1, .max = MSG_CONNECTIONS_MAX, .initial = "1024",
	      .help = "connections that one box may have open"),
	FIELD("dials", NUMBER, dials, .min = 1, .max = 4096, .initial = "256",
	      .help = "connections to origins that may be under way at once"),
	FIELD("grants", NUMBER, grants, .min = 1, .max = 100000, .initial = "5000",
	      .help = "requests in one second that a credential is put on; those beyond are refused"),
	FIELD("idle", DURATION, idle_ms, .min = 1000, .max = DAY_MS, .initial = "1h",
	      .help = "after so long without a byte a connection is closed, or what streams on it broken off"),
	FIELD("headers", SIZE, headers, .min = 4096, .max = 1 << 20, .initial = "64KiB",
	      .help = "how large the header section of a request or an answer may be"),
	FIELD("queued", SIZE, queued, .min = 256 << 10, .max = 1 << 30, .initial = "8MiB",
	      .help = "bytes that may wait for the sandbox's worker; one that lets more wait is ended"),
	FIELD("log_bytes", SIZE, log_bytes, .min = 16 << 10, .max = 1 << 30, .initial = "8MiB",
	      .help = "bytes of records in one second; what goes beyond waits"),
	FIELD("worker_memory", SIZE, worker_memory, .min = 64 << 20, .max = 1ull << 40,
	      .initial = "256MiB", .help = "memory of the process that serves one box"),
	FIELD("memory", SIZE, memory, .min = 16 << 20, .max = 1ull << 44,
	      .without = "three quarters of the machine's", .help = "memory of the box itself"),
	FIELD("processes", NUMBER, processes, .min = 8, .max = 4194304, .initial = "1024",
	      .help = "processes and threads in the box"),
	END,
};

static const struct schema_row control_rows[] = {
	FIELD("socket", TEXT, control_socket, .max = SOCKET_PATH_MAX, .check = check_path,
	      .pattern = "^/", .initial = "/run/exeat/control.sock",
	      .help = "where exeat serve takes commands"),
	FIELD("group", TEXT, control_group, .max = SETTINGS_GROUP_MAX, .without = "root alone",
	      .help = "the group that may give commands, beside root"),
	END,
};

static const struct schema_row policies_rows[] = {
	FIELD("directory", TEXT, policies_directory, PATH, .initial = "/etc/exeat/policies",
	      .help = "where policies are looked for that are named without a path"),
	END,
};

static const struct schema_row proxy_rows[] = {
	FIELD("explicit", BOOL, proxy_explicit, .initial = "true",
	      .help = "whether a box may also ask for connections at exeat.internal itself, by CONNECT, "
		      "http://... or SOCKS5"),
	FIELD("port", NUMBER, proxy_port, .min = 1024, .max = 65535, .initial = "3128",
	      .help = "the port of exeat.internal that it does that at"),
	END,
};

static const struct schema_row notice_rows[] = {
	FIELD("contact", TEXT, contact, .max = CONTACT_MAX, .check = check_contact, .without = "nothing",
	      .help = "how to ask for access, told to who is refused"),
	END,
};

const struct schema_row settings_rows[] = {
	FIELD("exeat-settings", CHOICE, version, .choices = versions, .required = true, .initial = "1",
	      .help = "the version of this format: write exeat-settings: 1"),
	GROUP("resolver", resolver_rows, "how names are resolved"),
	GROUP("trust", trust_rows, "which certificates of origins are believed"),
	FIELD("secrets", MAP, secrets, .max = MSG_SECRETS_MAX, .each = &secret_row, .without = "none",
	      .help = "where each value comes from, and the most hosts it may go to"),
	GROUP("network", network_rows, "address ranges that the machine does not use otherwise"),
	GROUP("log", log_rows, "the audit log"),
	GROUP("limits", limits_rows, "for each sandbox, the most that it may have"),
	GROUP("control", control_rows, "the socket of exeat serve"),
	GROUP("policies", policies_rows, "where policies lie"),
	GROUP("proxy", proxy_rows, "the explicit proxy, for clients that know no other way"),
	GROUP("notice", notice_rows, "what a box is told on http://exeat.internal/"),
	END,
};
