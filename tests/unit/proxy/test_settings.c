#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <sys/stat.h>

#include "proxy/settings.h"
#include "said.h"

static char folder[] = "/tmp/test_settings.XXXXXX";
static char file[64];
static char said[SAID_MAX];

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(file, sizeof(file), "%s/exeat.yaml", folder);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(file);
	return rmdir(folder);
}

static struct settings *load(const char *text)
{
	FILE *f = fopen(file, "w");
	struct said s;
	struct settings *settings;

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	s = said_begin();
	settings = settings_load(file);
	said_end(s, said);
	return settings;
}

static void refuse(const char *text, const char *why)
{
	assert_null(load(text));
	if (!strstr(said, why))
		fail_msg("says %s", said);
}

static void the_least_file_gives_the_defaults(void **state)
{
	struct settings *s = load("exeat-settings: 1\n");
	struct addr a = addr_v4(0xc6120000);

	(void)state;
	assert_non_null(s);
	assert_string_equal(said, "");
	assert_true(str_eq(s->path, str_of(file)));
	assert_int_equal(s->resolver_timeout_ms, 2000);
	assert_true(s->trust_system);
	assert_int_equal(s->link_pool.bits, 12);
	assert_true(addr_eq(&s->synthetic_pool.net, &a));
	assert_int_equal(s->synthetic_pool.bits, 15);
	assert_int_equal(s->max_leases, 4096);
	assert_int_equal(s->max_connections, 1024);
	assert_int_equal(s->idle_ms, 3600000);
	assert_int_equal(s->max_headers, 65536);
	assert_int_equal(s->max_sandboxes, 1000);
	assert_int_equal(s->max_dials, 256);
	assert_int_equal(s->max_grants, 5000);
	assert_int_equal(s->max_queued, 8 << 20);
	assert_int_equal(s->max_log_bytes, 8 << 20);
	assert_int_equal(s->max_worker_memory, 256 << 20);
	assert_int_equal(s->max_memory, 0);
	assert_int_equal(s->max_processes, 1024);
	assert_false(s->log_synced);
	assert_int_equal(s->rotate_bytes, 256 << 20);
	assert_int_equal(s->rotate_seconds, 7 * 86400);
	assert_int_equal(s->rotate_keep, 12);
	assert_true(str_eq(s->control_socket, STR("/run/exeat/control.sock")));
	assert_int_equal(s->control_group.n, 0);
	assert_true(str_eq(s->policies_directory, STR("/etc/exeat/policies")));
	assert_int_equal(s->notice_contact.n, 0);
	assert_int_equal(s->n_servers + s->n_names + s->n_trust_add + s->n_secrets, 0);
	settings_free(s);
}

static void every_key_is_taken(void **state)
{
	struct settings *s = load("exeat-settings: 1\n"
				  "resolver:\n  servers: [203.0.113.53, \"[2001:db8::1]:5353\"]\n  timeout: 500ms\n"
				  "  names: {API.demo.test.: [203.0.113.10, \"2001:db8::2\"]}\n"
				  "trust: {system: false, add: [/etc/a.pem, /etc/b.pem]}\n"
				  "secrets:\n  token: {file: /etc/token, hosts: [API.test, \"*.x.test\"]}\n"
				  "  other: {env: OTHER, hosts: [y.test]}\n"
				  "network: {link_pool: 10.0.0.0/16, synthetic_pool: 198.18.0.0/16}\n"
				  "log: {path: /var/log/x.jsonl, durability: synced, on_log_failure: refuse,\n"
				  "      rotate: {size: 5GiB, age: 90d, keep: 3}}\n"
				  "limits: {leases: 10, connections: 20, idle: 1m, headers: 8KiB, sandboxes: 2,\n"
				  "         dials: 3, grants: 4, queued: 1MiB, log_bytes: 64KiB, worker_memory: 1GiB,\n"
				  "         memory: 8GiB, processes: 50}\n"
				  "control: {socket: /run/x.sock, group: wheel}\n"
				  "policies: {directory: /srv/policies}\n"
				  "notice: {contact: \"Ask in #egress.\"}\n");

	(void)state;
	assert_string_equal(said, "");
	assert_non_null(s);
	assert_true(str_eq(s->servers[0], STR("203.0.113.53:53")));
	assert_true(str_eq(s->servers[1], STR("[2001:db8::1]:5353")));
	assert_int_equal(s->resolver_timeout_ms, 500);
	assert_true(str_eq(s->names[0].name, STR("api.demo.test")));
	assert_int_equal(s->names[0].n_addrs, 2);
	assert_int_equal(s->names[0].addrs[1].family, 6);
	assert_false(s->trust_system);
	assert_true(str_eq(s->trust_add[1], STR("/etc/b.pem")));
	assert_int_equal(s->n_secrets, 2);
	assert_true(str_eq(s->secrets[0].file, STR("/etc/token")));
	assert_int_equal(s->secrets[0].env.n, 0);
	assert_true(str_eq(s->secrets[0].hosts[0], STR("api.test")));
	assert_true(str_eq(s->secrets[1].env, STR("OTHER")));
	assert_int_equal(s->link_pool.bits, 16);
	assert_true(str_eq(s->log_path, STR("/var/log/x.jsonl")));
	assert_int_equal(s->max_leases, 10);
	assert_int_equal(s->max_connections, 20);
	assert_int_equal(s->idle_ms, 60000);
	assert_int_equal(s->max_headers, 8192);
	assert_true(s->log_synced);
	assert_true(s->rotate_bytes == 5ull << 30);
	assert_int_equal(s->rotate_seconds, 90 * 86400);
	assert_int_equal(s->rotate_keep, 3);
	assert_int_equal(s->max_sandboxes, 2);
	assert_int_equal(s->max_dials, 3);
	assert_int_equal(s->max_grants, 4);
	assert_int_equal(s->max_queued, 1 << 20);
	assert_int_equal(s->max_log_bytes, 64 << 10);
	assert_true(s->max_worker_memory == 1ull << 30);
	assert_true(s->max_memory == 8ull << 30);
	assert_int_equal(s->max_processes, 50);
	assert_true(str_eq(s->control_socket, STR("/run/x.sock")));
	assert_true(str_eq(s->control_group, STR("wheel")));
	assert_true(str_eq(s->policies_directory, STR("/srv/policies")));
	assert_true(str_eq(s->notice_contact, STR("Ask in #egress.")));
	settings_free(s);
}

static void the_digest_is_of_the_files_bytes(void **state)
{
	struct settings *s = load("exeat-settings: 1\n");

	(void)state;
	assert_non_null(s);
	assert_string_equal(s->digest,
			    "38a47e4241be4eca22914536573979a40de1ccca82de48498c27e4a15ec61c08");
	settings_free(s);
}

static void errors_are_told_with_their_place(void **state)
{
	(void)state;
	refuse("exeat-settings: 1\nlimts: {}\n",
	       "exeat.yaml:2:1: error: unknown key \"limts\" in the settings");
	assert_non_null(strstr(said, "did you mean \"limits\"?"));
	refuse("resolver: {}\n", "\"exeat-settings\" is missing");
	refuse("exeat-settings: 1\nsecrets: {a: {vault: {}, hosts: [x.test]}}\n",
	       "this version does not have \"vault\" in a secret");
	refuse("exeat-settings: 1\nsecrets: {a: {hosts: [x.test]}}\n", "a secret has one source");
	refuse("exeat-settings: 1\nsecrets: {a: {env: A}}\n", "\"hosts\" is missing in a secret");
	refuse("exeat-settings: 1\nnetwork: {link_pool: 198.18.0.0/16}\n", "overlap");
}

static void lists_are_limited_to_what_messages_carry(void **state)
{
	char text[4096] = "exeat-settings: 1\nresolver:\n  servers: [";
	size_t n = strlen(text);

	(void)state;
	for (int i = 0; i < 9; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "203.0.113.%d%s", i + 1,
				      i < 8 ? ", " : "]\n");
	refuse(text, "\"servers\" has more than 8 items");
}

static void a_file_that_others_can_write_is_refused(void **state)
{
	struct said s;

	(void)state;
	settings_free(load("exeat-settings: 1\n"));
	assert_int_equal(chmod(file, 0666), 0);
	s = said_begin();
	assert_null(settings_load(file));
	said_end(s, said);
	assert_non_null(strstr(said, "everybody can write to it"));
	assert_int_equal(chmod(file, 0644), 0);
}

static void what_is_no_file_is_told_in_one_line(void **state)
{
	struct said s = said_begin();

	(void)state;
	assert_null(settings_load(folder));
	assert_null(settings_load("/nonexistent/exeat.yaml"));
	said_end(s, said);
	assert_non_null(strstr(said, ": is no file\n"));
	assert_non_null(strstr(said,
			       "exeat: the settings /nonexistent/exeat.yaml: No such file or directory\n"));
}

static void the_home_folder_comes_before_the_system(void **state)
{
	char config[64], sub[128], path[192];
	struct settings *s;
	FILE *f;

	(void)state;
	snprintf(config, sizeof(config), "%s/.config", folder);
	snprintf(sub, sizeof(sub), "%s/exeat", config);
	snprintf(path, sizeof(path), "%s/exeat.yaml", sub);
	assert_int_equal(mkdir(config, 0700) | mkdir(sub, 0700), 0);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs("exeat-settings: 1\nlimits: {leases: 7}\n", f);
	fclose(f);
	assert_int_equal(setenv("HOME", folder, 1), 0);
	s = settings_load(NULL);
	assert_non_null(s);
	assert_int_equal(s->max_leases, 7);
	settings_free(s);
	unlink(path);
	rmdir(sub);
	rmdir(config);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_least_file_gives_the_defaults),
		cmocka_unit_test(every_key_is_taken),
		cmocka_unit_test(the_digest_is_of_the_files_bytes),
		cmocka_unit_test(errors_are_told_with_their_place),
		cmocka_unit_test(lists_are_limited_to_what_messages_carry),
		cmocka_unit_test(a_file_that_others_can_write_is_refused),
		cmocka_unit_test(what_is_no_file_is_told_in_one_line),
		cmocka_unit_test(the_home_folder_comes_before_the_system),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
