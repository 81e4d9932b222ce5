#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "sandbox/cgroup.h"

/* In one tree or in the tree of a controller: wherever this machine lets us make one. */
static void make_cgroup(const char *name, char path[256])
{
	static const char *const trees[] = { "pids", "unified", "." };

	for (size_t i = 0; i < sizeof(trees) / sizeof(*trees); i++) {
		snprintf(path, 256, CGROUP_ROOT "/%s/%s", trees[i], name);
		if (mkdir(path, 0755) == 0)
			return;
	}
	skip();
}

static void processes_of_a_cgroup_are_killed_and_it_is_removed(void **state)
{
	char name[64], path[256], procs[300];
	int status;
	pid_t pid;
	FILE *f;

	(void)state;
	snprintf(name, sizeof(name), "exeat-test-%d", (int)getpid());
	make_cgroup(name, path);
	pid = fork();
	if (pid == 0)
		for (;;)
			pause();
	snprintf(procs, sizeof(procs), "%s/cgroup.procs", path);
	f = fopen(procs, "we");
	assert_non_null(f);
	fprintf(f, "%d", (int)pid);
	assert_int_equal(fclose(f), 0);
	signal(SIGCHLD, SIG_IGN);	/* nobody has to collect it before the cgroup is empty */
	assert_int_equal(cgroup_remove(name), OK);
	assert_int_not_equal(access(path, F_OK), 0);
	assert_int_equal(waitpid(pid, &status, 0), -1);
	signal(SIGCHLD, SIG_DFL);
}

static void who_joins_a_cgroup_is_in_it(void **state)
{
	char name[64], path[256];
	int status;
	pid_t pid;

	(void)state;
	snprintf(name, sizeof(name), "exeat-test-%d", (int)getpid());
	make_cgroup(name, path);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(cgroup_join(name) == OK ? rmdir(path) < 0 : 2);	/* not empty */
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 1);
	assert_int_equal(cgroup_remove(name), OK);
	assert_int_equal(cgroup_join(name), ERR_NOTFOUND);
}

static void cgroup_that_is_not_there_is_removed_already(void **state)
{
	(void)state;
	assert_int_equal(cgroup_remove("exeat-test-none"), OK);
}

static void controller_that_nobody_has_is_not_there(void **state)
{
	(void)state;
	assert_false(cgroup_has_controller("no-such-controller"));
	assert_false(cgroup_has_controller("cpus"));	/* of "cpuset" */
}

static void time_of_a_cgroup_that_is_not_there_is_none(void **state)
{
	(void)state;
	assert_int_equal(cgroup_cpu_ms("exeat-test-none"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(processes_of_a_cgroup_are_killed_and_it_is_removed),
		cmocka_unit_test(who_joins_a_cgroup_is_in_it),
		cmocka_unit_test(cgroup_that_is_not_there_is_removed_already),
		cmocka_unit_test(time_of_a_cgroup_that_is_not_there_is_none),
		cmocka_unit_test(controller_that_nobody_has_is_not_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
