#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cmocka.h>

#include "proxy/control.h"
#include "tests/unit/proxy/said.h"

static char folder[] = "/tmp/exeat-listen-XXXXXX";
static char inner[64], path[96];

static int setup(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/exeat-listen-XXXXXX");
	assert_non_null(mkdtemp(folder));
	snprintf(inner, sizeof(inner), "%s/run", folder);
	snprintf(path, sizeof(path), "%s/control.sock", inner);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	(void)unlink(path);
	(void)rmdir(inner);
	return rmdir(folder);
}

static int connects(void)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), rc;

	snprintf(to.sun_path, sizeof(to.sun_path), "%s", path);
	rc = connect(fd, (const struct sockaddr *)&to, sizeof(to));
	close(fd);
	return rc;
}

/* False, with this in what is said. */
static void expect_refused(const char *where, gid_t group, const char *text)
{
	char said[SAID_MAX];
	struct said s = said_begin();
	int fd = -1;
	bool ok = control_listen(where, group, &fd);

	said_end(s, said);
	assert_false(ok);
	assert_int_equal(fd, -1);
	if (!strstr(said, text))
		fail_msg("\"%s\" is not in %s", text, said);
}

static void the_folder_and_the_socket_are_made_for_root_and_the_group(void **state)
{
	struct stat st;
	int fd;

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_true(control_listen(path, 4321, &fd));
	assert_int_equal(stat(inner, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0711);
	assert_int_equal(stat(path, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(st.st_mode & 07777, 0660);
	assert_int_equal(st.st_uid, 0);
	assert_int_equal(st.st_gid, 4321);
	assert_int_equal(connects(), 0);
	close(fd);
}

static void without_a_group_it_is_its_owners_alone(void **state)
{
	struct stat st;
	mode_t before = umask(0);
	int fd;

	(void)state;
	assert_true(control_listen(path, (gid_t)-1, &fd));
	assert_int_equal(umask(before), 0);	/* as it was */
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(stat(inner, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0711);
	close(fd);
}

static void one_that_was_left_behind_gives_way(void **state)
{
	int fd;

	(void)state;
	assert_true(control_listen(path, (gid_t)-1, &fd));
	close(fd);
	assert_int_equal(connects(), -1);
	assert_true(control_listen(path, (gid_t)-1, &fd));
	assert_int_equal(connects(), 0);
	close(fd);
}

static void one_that_answers_stays(void **state)
{
	int fd;

	(void)state;
	assert_true(control_listen(path, (gid_t)-1, &fd));
	expect_refused(path, (gid_t)-1, "an appliance answers there already");
	assert_int_equal(connects(), 0);
	close(fd);
}

static void what_is_no_socket_is_not_removed(void **state)
{
	int fd;

	(void)state;
	assert_int_equal(mkdir(inner, 0700), 0);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	expect_refused(path, (gid_t)-1, "something else is there");
	assert_int_equal(access(path, F_OK), 0);
}

static void a_path_that_is_none_is_refused(void **state)
{
	char longer[200];

	(void)state;
	snprintf(longer, sizeof(longer), "/%0*d", 150, 0);
	expect_refused("control.sock", (gid_t)-1, "absolute path");
	expect_refused("", (gid_t)-1, "absolute path");
	expect_refused("/tmp/", (gid_t)-1, "absolute path");
	expect_refused(longer, (gid_t)-1, "at most 107 bytes");
	expect_refused("/nowhere/at/all", (gid_t)-1, "its folder cannot be made");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(the_folder_and_the_socket_are_made_for_root_and_the_group),
		CASE(without_a_group_it_is_its_owners_alone),
		CASE(one_that_was_left_behind_gives_way),
		CASE(one_that_answers_stays),
		CASE(what_is_no_socket_is_not_removed),
		CASE(a_path_that_is_none_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
