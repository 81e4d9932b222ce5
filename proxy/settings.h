/* proxy/settings.h - the operator's settings: one schema table, one struct
 *
 * settings_load() reads a file by its table (settings_rows.h): every key has a row with type,
 * range, default and help. Unknown keys are errors. settings_load_here() also holds the file
 * against this machine (settings_machine.h): paths, groups and routes that it names are there.
 *
 * Ownership   settings_free() releases all; what is in the struct lives as long as it.
 * Blocking    reads the file.
 * Failure     NULL, with every error in the file printed to stderr as conf/diag.h does.
 * Tests       tests/unit/proxy/test_settings.c, tests/policy/settings-{bad,here}
 */
#ifndef PROXY_SETTINGS_H
#define PROXY_SETTINGS_H

#include "conf/addr.h"
#include "conf/yaml.h"

struct settings_secret {
	struct str name;
	struct str file;		/* one of file and env is set */
	struct str env;
	struct str *hosts;
	size_t n_hosts;
};

struct settings_name {
	struct str name;
	struct addr *addrs;
	size_t n_addrs;
};

struct settings {
	struct str path;		/* empty: defaults, no file */
	char digest[65];		/* SHA-256 of the file, hex; of nothing for the defaults */
	struct str *servers;		/* "ADDR:PORT" */
	size_t n_servers;
	uint32_t resolver_timeout_ms;
	struct settings_name *names;
	size_t n_names;
	bool trust_system;
	struct str *trust_add;
	size_t n_trust_add;
	struct settings_secret *secrets;
	size_t n_secrets;
	struct addr_range link_pool, synthetic_pool;
	struct str log_path;		/* empty: the default place */
	bool log_synced;
	uint64_t rotate_bytes;
	uint32_t rotate_seconds, rotate_keep;
	struct str control_socket;
	struct str control_group;	/* empty: root alone */
	struct str policies_directory;
	uint16_t proxy_port;		/* of the explicit proxy; 0: there is none */
	struct str notice_contact;	/* empty: none */
	/* the most that a sandbox may have; max_sandboxes: how many there may be */
	uint32_t max_sandboxes, max_leases, max_connections, idle_ms, max_headers;
	uint32_t max_dials;		/* under way at once */
	uint32_t max_grants;		/* in a second */
	uint32_t max_queued;		/* bytes that wait in channels */
	uint32_t max_log_bytes;		/* in a second */
	uint64_t max_worker_memory;	/* bytes */
	uint64_t max_memory;		/* of the box, bytes; 0: as sandbox/keeper.c has it */
	uint32_t max_processes;		/* in the box */
	void *owned;			/* the tree that the texts lie in */
};

/* @path NULL: ~/.config/exeat/exeat.yaml, else /etc/exeat/exeat.yaml, else the defaults.
 * Empty: the defaults. */
struct settings *settings_load(const char *path);
struct settings *settings_load_here(const char *path);
/* The file as it is written; NULL for the defaults. */
const struct yaml_node *settings_tree(const struct settings *s);
void settings_free(struct settings *s);

#endif
