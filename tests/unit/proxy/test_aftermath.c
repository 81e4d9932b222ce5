/* What one appliance leaves for the next to find. Boxes that were left: tests/unit/sandbox/test_box.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/aftermath.h"

static char dir[64], folder[80], path[100], file[120];

static int setup(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/exeat-aftermath-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(folder, sizeof(folder), "%s/run", dir);
	snprintf(path, sizeof(path), "%s/control.sock", folder);
	snprintf(file, sizeof(file), "%s.state", path);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(file);
	rmdir(folder);
	return rmdir(dir);
}

/* What is found, as text. Only words of the state: a machine's own dead boxes may follow. */
static bool begin(int *fd, char *text, size_t size)
{
	struct buf found;
	bool ok;

	buf_init(&found, AFTERMATH_FOUND_MAX);
	ok = aftermath_begin(path, fd, &found);
	snprintf(text, size, "%.*s", STR_ARG(buf_str(&found)));
	buf_free(&found);
	return ok;
}

static void the_folder_is_made_as_after_the_machines_start(void **state)
{
	char text[500];
	struct stat st;
	int fd;

	(void)state;
	assert_true(begin(&fd, text, sizeof(text)));
	assert_null(strstr(text, "in order"));
	assert_int_equal(stat(folder, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0711);
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	aftermath_end(fd);
	close(fd);
}

static void an_end_in_order_is_not_told(void **state)
{
	char text[500];
	int fd;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		assert_true(begin(&fd, text, sizeof(text)));
		assert_null(strstr(text, "in order"));
		aftermath_end(fd);
		close(fd);
	}
}

static void one_that_died_is_told_with_its_number_and_time(void **state)
{
	char text[500], who[64];
	int fd, status;
	pid_t pid = fork();

	(void)state;
	if (pid == 0)
		_exit(begin(&fd, text, sizeof(text)) ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(begin(&fd, text, sizeof(text)));
	snprintf(who, sizeof(who), "(process %d, since 20", (int)pid);
	assert_non_null(strstr(text, who));
	assert_non_null(strstr(text, "did not end in order"));
	close(fd);
	/* This one did not, either. */
	assert_true(begin(&fd, text, sizeof(text)));
	snprintf(who, sizeof(who), "(process %d, since 20", (int)getpid());
	assert_non_null(strstr(text, who));
	close(fd);
}

static void two_cannot_have_one_socket(void **state)
{
	char text[500];
	int fd, second;

	(void)state;
	assert_true(begin(&fd, text, sizeof(text)));
	assert_false(begin(&second, text, sizeof(text)));
	if (second >= 0)
		close(second);
	aftermath_end(fd);
	close(fd);
	assert_true(begin(&fd, text, sizeof(text)));
	assert_null(strstr(text, "in order"));	/* the second has changed nothing */
	aftermath_end(fd);
	close(fd);
}

static void what_is_no_file_of_ours_is_refused(void **state)
{
	char text[500], long_path[PATH_MAX + 10];
	struct buf found;
	int fd;

	(void)state;
	assert_int_equal(mkdir(folder, 0755), 0);
	assert_int_equal(symlink("/etc/passwd", file), 0);
	assert_false(begin(&fd, text, sizeof(text)));
	memset(long_path, 'a', sizeof(long_path) - 1);
	long_path[0] = '/';
	long_path[sizeof(long_path) - 1] = '\0';
	buf_init(&found, AFTERMATH_FOUND_MAX);
	assert_false(aftermath_begin(long_path, &fd, &found));
	buf_free(&found);
}

/* More than it ever writes: of a longer one, what fits is told. */
static void a_state_that_somebody_else_wrote_is_told_in_bounds(void **state)
{
	char text[500];
	FILE *f;
	int fd;

	(void)state;
	assert_int_equal(mkdir(folder, 0755), 0);
	f = fopen(file, "w");
	for (unsigned i = 0; i < 10000; i++)
		fputc('x', f);
	fclose(f);
	assert_true(begin(&fd, text, sizeof(text)));
	assert_non_null(strstr(text, "did not end in order"));
	assert_true(strlen(text) < AFTERMATH_FOUND_MAX);
	aftermath_end(fd);
	close(fd);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(the_folder_is_made_as_after_the_machines_start),
		CASE(an_end_in_order_is_not_told),
		CASE(one_that_died_is_told_with_its_number_and_time),
		CASE(two_cannot_have_one_socket),
		CASE(what_is_no_file_of_ours_is_refused),
		CASE(a_state_that_somebody_else_wrote_is_told_in_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
