#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
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

#include "conf/str.h"
#include "sandbox/spawn.h"

/* A folder with an "exeat-worker" that is a shell script: it tells what it was given on the channel
 * by way of descriptor 3. */
static char dir[] = "/tmp/exeat-spawn-XXXXXX";
static char script[PATH_MAX];

static void write_script(const char *text)
{
	int fd = open(script, O_WRONLY | O_CREAT | O_TRUNC, 0700);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static int make_dir(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return 1;
	snprintf(script, sizeof(script), "%s/exeat-worker", dir);
	return 0;
}

static int remove_dir(void **state)
{
	(void)state;
	unlink(script);
	return rmdir(dir);
}

/* What the child writes to descriptor 3, packet by packet, until it ends. */
static void hear(int channel, char *out, size_t n)
{
	size_t have = 0;
	struct pollfd p = { .fd = channel, .events = POLLIN };

	while (have + 1 < n && poll(&p, 1, 10000) == 1) {
		ssize_t got = read(channel, out + have, n - 1 - have);

		if (got <= 0)
			break;
		have += (size_t)got;
	}
	out[have] = '\0';
}

static void run(const char *text, char *out, size_t n)
{
	int channel = -1;
	pid_t pid = -1;

	write_script(text);
	assert_int_equal(spawn_role(dir, ROLE_WORKER, SPAWN_CHILD, &channel, &pid), OK);
	hear(channel, out, n);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(channel);
}

static void the_child_has_descriptors_0_to_3_and_no_others(void **state)
{
	char out[512];
	int spare = open("/dev/zero", O_RDONLY);	/* not close-on-exec: must not get through */

	(void)state;
	/* The shell reads the script through one of its own, 10 or above. */
	run("#!/bin/sh\nfor f in 0 1 2 3 4 5 6 7 8 9; do [ -e /proc/$$/fd/$f ] && printf $f >&3; done\n"
	    "a=$(readlink /proc/$$/fd/0); b=$(readlink /proc/$$/fd/1); printf \"%s\\n\" $a $b >&3\n", out, sizeof(out));
	assert_string_equal(out, "0123/dev/null\n/dev/null\n");
	close(spare);
}

static void the_child_knows_nothing_of_our_environment(void **state)
{
	char out[4096];

	(void)state;
	setenv("EXEAT_TEST_SECRET", "hunter2", 1);
	run("#!/bin/sh\n/usr/bin/tr '\\0' '\\n' < /proc/$$/environ >&3\nprintf end >&3\n", out, sizeof(out));
	assert_string_equal(out, "GLIBC_TUNABLES=glibc.malloc.tcache_count=32\nend");
	unsetenv("EXEAT_TEST_SECRET");
}

static void the_child_is_a_process_group_of_its_own(void **state)
{
	char out[256], want[64];
	int channel = -1;
	pid_t pid = -1;

	(void)state;
	write_script("#!/bin/sh\nread x </proc/$$/stat\nset -- $x\nprintf \"$5\" >&3\n");
	assert_int_equal(spawn_role(dir, ROLE_WORKER, SPAWN_CHILD, &channel, &pid), OK);
	hear(channel, out, sizeof(out));
	snprintf(want, sizeof(want), "%d", pid);
	assert_string_equal(out, want);
	waitpid(pid, NULL, 0);
	close(channel);
}

static void blocked_and_ignored_signals_are_not_inherited(void **state)
{
	char out[512];
	sigset_t term;

	(void)state;
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, NULL);
	run("#!/bin/sh\n/usr/bin/awk '/^Sig(Blk|Ign)/ { print $2 }' /proc/self/status >&3\n", out, sizeof(out));
	sigprocmask(SIG_UNBLOCK, &term, NULL);
	signal(SIGPIPE, SIG_DFL);
	/* 32 and 33 are the C library's own: nobody can set them, some launchers leave them ignored. */
	if (strcmp(out, "0000000000000000\n0000000180000000\n") != 0)
		assert_string_equal(out, "0000000000000000\n0000000000000000\n");
}

static void expect_no_child(void)
{
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static void a_program_that_cannot_be_started_gives_the_childs_errno(void **state)
{
	int channel = -1;
	pid_t pid = -1;

	(void)state;
	assert_int_equal(spawn_role("/nothing-of-that-name", ROLE_WORKER, SPAWN_CHILD, &channel, &pid), ERR_SYSTEM);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(channel, -1);
	/* It is told who it was, and has been waited for. */
	assert_true(pid > 0);
	expect_no_child();
}

/* In a child of ours: starts a sibling, and ends with 0 where that went as it should. */
static int start_sibling(int tell)
{
	int channel = -1;
	pid_t pid = -1;

	if (spawn_role("/nothing-of-that-name", ROLE_WORKER, SPAWN_SIBLING, &channel, &pid) != ERR_SYSTEM ||
	    errno != ENOENT || channel != -1)
		return 1;
	return write(tell, &pid, sizeof(pid)) == sizeof(pid) ? 0 : 2;
}

static void a_sibling_that_cannot_be_started_is_left_to_its_parent(void **state)
{
	int tell[2], status = -1;
	pid_t middle, pid = -1;

	(void)state;
	assert_int_equal(pipe(tell), 0);
	middle = fork();
	if (middle == 0)
		_exit(start_sibling(tell[1]));
	assert_int_equal(waitpid(middle, &status, 0), middle);
	assert_int_equal(status, 0);
	assert_int_equal(read(tell[0], &pid, sizeof(pid)), sizeof(pid));
	assert_true(pid > 0);
	/* Our child, though we have not forked it. */
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 127);
	expect_no_child();
	close(tell[0]);
	close(tell[1]);
}

static void a_folder_name_that_is_too_long_is_refused(void **state)
{
	static char name[PATH_MAX + 1];
	int channel;
	pid_t pid = -1;

	(void)state;
	memset(name, 'a', PATH_MAX);
	assert_int_equal(spawn_role(name, ROLE_WORKER, SPAWN_CHILD, &channel, &pid), ERR_LIMIT);
	assert_int_equal(pid, 0);
}

static void the_child_dies_with_its_parent(void **state)
{
	int channel = -1, ready[2];
	pid_t middle, pid;

	(void)state;
	write_script("#!/bin/sh\nprintf up >&3\nread x <&3\nread x <&3\nprintf later >&3\n");
	assert_int_equal(pipe(ready), 0);
	middle = fork();
	if (middle == 0) {
		if (spawn_role(dir, ROLE_WORKER, SPAWN_CHILD, &channel, &pid) != OK)
			_exit(1);
		hear(channel, (char[3]){ 0 }, 3);
		if (write(ready[1], &pid, sizeof(pid)) != sizeof(pid))
			_exit(1);
		_exit(0);
	}
	assert_int_equal(read(ready[0], &pid, sizeof(pid)), sizeof(pid));
	assert_int_equal(waitpid(middle, NULL, 0), middle);
	/* Reaped by whoever adopted it, or a zombie until then: not running in either case. */
	for (int i = 0; i < 1000; i++) {
		char path[64], state_of = '?';
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%d/stat", pid);
		f = fopen(path, "r");
		if (!f)
			break;
		if (fscanf(f, "%*d (%*[^)]) %c", &state_of) != 1)
			state_of = '?';
		fclose(f);
		if (state_of == 'Z' || state_of == 'X')
			break;
		assert_int_not_equal(i, 999);
		poll(NULL, 0, 10);
	}
	close(ready[0]);
	close(ready[1]);
}

static void programs_are_not_found_where_there_are_none(void **state)
{
	char found[PATH_MAX], tiny[2];

	(void)state;
	/* The test's own folder holds no exeat-worker. */
	assert_int_equal(spawn_find_programs(found, sizeof(found)), ERR_NOTFOUND);
	assert_int_equal(spawn_find_programs(tiny, sizeof(tiny)), ERR_LIMIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_child_has_descriptors_0_to_3_and_no_others),
		cmocka_unit_test(the_child_knows_nothing_of_our_environment),
		cmocka_unit_test(the_child_is_a_process_group_of_its_own),
		cmocka_unit_test(blocked_and_ignored_signals_are_not_inherited),
		cmocka_unit_test(a_program_that_cannot_be_started_gives_the_childs_errno),
		cmocka_unit_test(a_sibling_that_cannot_be_started_is_left_to_its_parent),
		cmocka_unit_test(a_folder_name_that_is_too_long_is_refused),
		cmocka_unit_test(the_child_dies_with_its_parent),
		cmocka_unit_test(programs_are_not_found_where_there_are_none),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
