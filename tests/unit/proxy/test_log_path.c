#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/log_path.h"

static char dir[] = "/tmp/exeat-path-XXXXXX";

static int make_dir(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : 1;
}

static int remove_dir(void **state)
{
	(void)state;
	return rmdir(dir);
}

static void the_state_folder_comes_before_home(void **state)
{
	char out[PATH_MAX];

	(void)state;
	setenv("XDG_STATE_HOME", "/state", 1);
	setenv("HOME", "/home/me", 1);
	assert_int_equal(log_default_path(out, sizeof(out)), OK);
	assert_string_equal(out, "/state/exeat/audit.jsonl");
	unsetenv("XDG_STATE_HOME");
	assert_int_equal(log_default_path(out, sizeof(out)), OK);
	assert_string_equal(out, "/home/me/.local/state/exeat/audit.jsonl");
}

static void relative_and_empty_variables_are_as_if_unset(void **state)
{
	char out[PATH_MAX];

	(void)state;
	setenv("XDG_STATE_HOME", "state", 1);
	setenv("HOME", "/home/me", 1);
	assert_int_equal(log_default_path(out, sizeof(out)), OK);
	assert_string_equal(out, "/home/me/.local/state/exeat/audit.jsonl");
	setenv("XDG_STATE_HOME", "", 1);
	setenv("HOME", "", 1);
	assert_int_equal(log_default_path(out, sizeof(out)), ERR_NOTFOUND);
	unsetenv("HOME");
	assert_int_equal(log_default_path(out, sizeof(out)), ERR_NOTFOUND);
}

static void a_path_that_does_not_fit_is_refused(void **state)
{
	char out[10];

	(void)state;
	setenv("XDG_STATE_HOME", "/state", 1);
	assert_int_equal(log_default_path(out, sizeof(out)), ERR_LIMIT);
}

static void the_file_and_its_folders_are_made_for_the_owner_only(void **state)
{
	char path[128], folder[128];
	struct stat st;
	int fd;

	(void)state;
	umask(0);
	snprintf(folder, sizeof(folder), "%s/a", dir);
	snprintf(path, sizeof(path), "%s/a/b/log", dir);
	assert_int_equal(log_path_open(path, &fd), OK);
	assert_int_equal(fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND), O_RDWR | O_APPEND);
	close(fd);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(stat(folder, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	/* And again, when all is there. */
	assert_int_equal(log_path_open(path, &fd), OK);
	close(fd);
	unlink(path);
	snprintf(path, sizeof(path), "%s/a/b", dir);
	rmdir(path);
	rmdir(folder);
}

static void a_folder_that_cannot_be_made_is_an_error(void **state)
{
	int fd;

	(void)state;
	assert_int_equal(log_path_open("/proc/nothing/of/that/name", &fd), ERR_SYSTEM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_state_folder_comes_before_home),
		cmocka_unit_test(relative_and_empty_variables_are_as_if_unset),
		cmocka_unit_test(a_path_that_does_not_fit_is_refused),
		cmocka_unit_test(the_file_and_its_folders_are_made_for_the_owner_only),
		cmocka_unit_test(a_folder_that_cannot_be_made_is_an_error),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
