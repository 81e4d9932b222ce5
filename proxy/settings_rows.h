/* proxy/settings_rows.h - the table of every setting: its name, what it may be, what it does
 *
 * settings.c fills a struct settings by it; `exeat settings show` and `schema`, and the manual page
 * exeat.yaml(5), are written from it. A new setting is a row here.
 *
 * Ownership   a struct settings_fields borrows from the tree that it was read from.
 * Blocking    never.       Failure  see conf/schema.h.
 * Tests       tests/unit/proxy/test_settings.c, tests/policy/settings-bad
 */
#ifndef PROXY_SETTINGS_ROWS_H
#define PROXY_SETTINGS_ROWS_H

#include "conf/schema.h"

#define SETTINGS_PATH_MAX 4096
#define SETTINGS_GROUP_MAX 32	/* useradd(8) */
/* What fits into the messages that carry them (proxy/messages.h). */
#define SETTINGS_SERVERS_MAX 8
#define SETTINGS_TRUST_MAX 64
#define SETTINGS_NAMES_MAX 128
#define SETTINGS_NAME_ADDRS_MAX 16

enum { SETTINGS_WRITTEN, SETTINGS_SYNCED };	/* log.durability */

struct settings_fields {
	unsigned version, durability, on_log_failure;
	const struct yaml_node *servers, *names, *trust_add, *secrets;
	struct str link_pool, synthetic_pool, log_path;
	struct str control_socket, control_group, policies_directory, contact;
	uint64_t timeout_ms, rotate_bytes, rotate_ms;
	uint32_t rotate_keep, proxy_port;
	uint32_t sandboxes, leases, connections, dials, grants, processes;
	uint64_t idle_ms, headers, queued, log_bytes, worker_memory, memory;
	bool trust_system, proxy_explicit;
};

struct settings_secret_fields {
	struct str file, env;
	const struct yaml_node *hosts;
};

extern const struct schema_row settings_rows[];
extern const struct schema_row settings_secret_rows[];

#endif
