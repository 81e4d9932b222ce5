#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "sandbox/bundle.h"

static char *const command[] = { "sh", "-c", "say \"hello\"\n", NULL };

static json_t *config_of(const struct box_spec *spec)
{
	struct bundle b = { .spec = spec, .root = "/r", .netns = "/proc/7/fd/8", .root_uid = 5000,
			    .uid = 6000, .gid = 7000, .limit_processes = 77, .limit_cpu = true,
			    .limit_memory = 1u << 30 };
	struct buf out;
	json_error_t error;
	json_t *j;

	buf_init(&out, BUNDLE_MAX);
	bundle_write(&b, &out);
	assert_false(out.failed);
	j = json_loadb(out.p, out.n, JSON_REJECT_DUPLICATES, &error);
	assert_non_null(j);
	buf_free(&out);
	return j;
}

static struct box_spec plain(void)
{
	return (struct box_spec){ .id = "run-1", .command = command };
}

static const json_t *at(const json_t *j, const char *a, const char *b)
{
	const json_t *v = json_object_get(json_object_get(j, a), b);

	assert_non_null(v);
	return v;
}

static void every_namespace_is_its_own_and_the_network_is_joined(void **state)
{
	static const char *const wanted[] = { "pid", "mount", "ipc", "uts", "cgroup", "user", "network" };
	struct box_spec spec = plain();
	json_t *j = config_of(&spec);
	const json_t *list = at(j, "linux", "namespaces");

	(void)state;
	assert_int_equal(json_array_size(list), sizeof(wanted) / sizeof(*wanted));
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *n = json_array_get(list, i), *path = json_object_get(n, "path");

		assert_string_equal(json_string_value(json_object_get(n, "type")), wanted[i]);
		assert_int_equal(path != NULL, i == 6);
		if (path)
			assert_string_equal(json_string_value(path), "/proc/7/fd/8");
	}
	json_decref(j);
}

static void process_has_no_capability_in_any_set(void **state)
{
	struct box_spec spec = plain();
	json_t *j = config_of(&spec);
	const char *key;
	json_t *set;

	(void)state;
	assert_int_equal(json_object_size(at(j, "process", "capabilities")), 5);
	json_object_foreach((json_t *)at(j, "process", "capabilities"), key, set)
		assert_int_equal(json_array_size(set), 0);
	assert_true(json_is_true(at(j, "process", "noNewPrivileges")));
	assert_true(json_is_true(at(j, "root", "readonly")));
	json_decref(j);
}

static void command_is_left_to_init_since_json_carries_no_bytes(void **state)
{
	struct box_spec spec = plain();
	json_t *j = config_of(&spec);
	const json_t *args = at(j, "process", "args");

	(void)state;
	assert_int_equal(json_array_size(args), 1);
	assert_string_equal(json_string_value(json_array_get(args, 0)), BOX_INIT);
	json_decref(j);
}

static void root_outside_is_in_no_mapping(void **state)
{
	static const char *const keys[] = { "uidMappings", "gidMappings" };
	struct box_spec spec = plain();
	json_t *j = config_of(&spec);

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		const json_t *list = at(j, "linux", keys[i]);

		assert_int_equal(json_array_size(list), 2);
		for (size_t k = 0; k < 2; k++) {
			const json_t *m = json_array_get(list, k);

			assert_int_not_equal(json_integer_value(json_object_get(m, "hostID")), 0);
			assert_int_equal(json_integer_value(json_object_get(m, "size")), 1);
		}
	}
	json_decref(j);
}

static size_t count_key(const json_t *environment, const char *key)
{
	size_t n = 0;

	for (size_t i = 0; i < json_array_size(environment); i++)
		n += strncmp(json_string_value(json_array_get(environment, i)), key, strlen(key)) == 0;
	return n;
}

static void given_variable_replaces_the_usual_one(void **state)
{
	static const char *const given[] = { "PATH=/x", "PATHS=/y", NULL };
	struct box_spec spec = plain();
	json_t *j;

	(void)state;
	spec.environment = given;
	j = config_of(&spec);
	assert_int_equal(count_key(at(j, "process", "env"), "PATH="), 1);
	assert_int_equal(count_key(at(j, "process", "env"), "PATHS="), 1);
	assert_int_equal(count_key(at(j, "process", "env"), "HOME="), 1);
	json_decref(j);
}

static bool has_destination(const json_t *mounts, const char *path)
{
	for (size_t i = 0; i < json_array_size(mounts); i++)
		if (strcmp(json_string_value(json_object_get(json_array_get(mounts, i), "destination")),
			   path) == 0)
			return true;
	return false;
}

static void workspace_is_in_memory_unless_one_is_given(void **state)
{
	struct box_spec spec = plain();
	json_t *j = config_of(&spec);

	(void)state;
	assert_true(has_destination(json_object_get(j, "mounts"), BOX_WORKSPACE));
	assert_false(has_destination(json_object_get(j, "mounts"), "/sys"));
	json_decref(j);
	spec.workspace = "/w";
	j = config_of(&spec);
	assert_false(has_destination(json_object_get(j, "mounts"), BOX_WORKSPACE));
	json_decref(j);
}

static void seccomp_profile_refuses_each_way_to_a_namespace(void **state)
{
	struct box_spec spec = plain();
	json_t *j = config_of(&spec);
	const json_t *rules = json_object_get(at(j, "linux", "seccomp"), "syscalls");
	size_t clone_rules = 0;

	(void)state;
	for (size_t i = 0; i < json_array_size(rules); i++) {
		const json_t *rule = json_array_get(rules, i);

		assert_string_equal(json_string_value(json_object_get(rule, "action")), "SCMP_ACT_ERRNO");
		assert_true(json_integer_value(json_object_get(rule, "errnoRet")) > 0);
		clone_rules += strcmp(json_string_value(json_array_get(json_object_get(rule, "names"), 0)),
				      "clone") == 0;
	}
	assert_int_equal(clone_rules, 7);
	json_decref(j);
}

/* 0: as the profile says. Else which of them was not. */
static int try_profile(void)
{
	if (seccomp_profile_load() != OK)
		return 1;
	errno = 0;
	if (unshare(CLONE_NEWUSER) != -1 || errno != EPERM)
		return 2;
	if (syscall(SYS_clone3, NULL, 0) != -1 || errno != ENOSYS)
		return 3;
	if (socket(AF_VSOCK, SOCK_STREAM, 0) != -1 || errno != EAFNOSUPPORT)
		return 4;
	if (ioctl(0, TIOCSTI, "x") != -1 || errno != EPERM)
		return 5;
	if (fchmod(0, 04755) != -1 || errno != EPERM)
		return 6;
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		return 7;
	return close(socket(AF_UNIX, SOCK_STREAM, 0)) == 0 ? 0 : 8;
}

static void seccomp_profile_is_the_same_as_a_filter(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(try_profile());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void environment_is_the_configurations_own(void **state)
{
	struct box_spec spec = plain();
	json_t *j = config_of(&spec), *alone;
	struct buf out;

	(void)state;
	buf_init(&out, BUNDLE_MAX);
	bundle_write_environment(&spec, &out);
	alone = json_loadb(out.p, out.n, JSON_REJECT_DUPLICATES, NULL);
	assert_true(json_equal(json_object_get(alone, "env"), at(j, "process", "env")));
	json_decref(alone);
	json_decref(j);
	buf_free(&out);
}

static void limits_are_those_that_the_machine_can_hold(void **state)
{
	struct box_spec spec = plain();
	json_t *j = config_of(&spec);
	const json_t *r = at(j, "linux", "resources");

	(void)state;
	assert_int_equal(json_integer_value(at(r, "pids", "limit")), 77);
	assert_int_equal(json_integer_value(at(r, "memory", "limit")), 1u << 30);
	assert_int_equal(json_integer_value(at(r, "cpu", "shares")), BOX_CPU_SHARES);
	json_decref(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_namespace_is_its_own_and_the_network_is_joined),
		cmocka_unit_test(limits_are_those_that_the_machine_can_hold),
		cmocka_unit_test(process_has_no_capability_in_any_set),
		cmocka_unit_test(command_is_left_to_init_since_json_carries_no_bytes),
		cmocka_unit_test(root_outside_is_in_no_mapping),
		cmocka_unit_test(given_variable_replaces_the_usual_one),
		cmocka_unit_test(workspace_is_in_memory_unless_one_is_given),
		cmocka_unit_test(seccomp_profile_refuses_each_way_to_a_namespace),
		cmocka_unit_test(seccomp_profile_is_the_same_as_a_filter),
		cmocka_unit_test(environment_is_the_configurations_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
