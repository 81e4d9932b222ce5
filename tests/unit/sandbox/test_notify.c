#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "sandbox/notify.h"

static char folder[] = "/tmp/test_notify.XXXXXX";
static char said[256];

/* A manager's socket at @where, and NOTIFY_SOCKET set to it. */
static int manager(const char *where)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	size_t n = strlen(where);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	memcpy(at.sun_path, where, n);
	if (where[0] == '@')
		at.sun_path[0] = '\0';
	assert_int_equal(bind(fd, (struct sockaddr *)&at,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)), 0);
	assert_int_equal(setenv("NOTIFY_SOCKET", where, 1), 0);
	return fd;
}

static const char *heard(int manager)
{
	ssize_t n = recv(manager, said, sizeof(said) - 1, 0);

	said[n > 0 ? n : 0] = '\0';
	return said;
}

static void talks_to(const char *where)
{
	int m = manager(where), fd = notify_open();

	assert_true(fd >= 0);
	assert_null(getenv("NOTIFY_SOCKET"));
	notify_send(fd, "READY=1\nSTATUS=two sandboxes");
	assert_string_equal(heard(m), "READY=1\nSTATUS=two sandboxes");
	notify_send(fd, "WATCHDOG=1");
	assert_string_equal(heard(m), "WATCHDOG=1");
	close(fd);
	close(m);
}

static void a_socket_in_the_file_system_is_told(void **state)
{
	char path[64];

	(void)state;
	snprintf(path, sizeof(path), "%s/notify", folder);
	talks_to(path);
	unlink(path);
}

static void an_abstract_socket_is_told(void **state)
{
	char name[64];

	(void)state;
	snprintf(name, sizeof(name), "@exeat-test-%d", (int)getpid());
	talks_to(name);
}

static void reloading_says_when(void **state)
{
	char name[64];
	int m, fd;
	unsigned long long us;
	struct timespec now;

	(void)state;
	snprintf(name, sizeof(name), "@exeat-test-%d", (int)getpid());
	m = manager(name);
	fd = notify_open();
	notify_reloading(fd);
	assert_int_equal(sscanf(heard(m), "RELOADING=1\nMONOTONIC_USEC=%llu", &us), 1);
	clock_gettime(CLOCK_MONOTONIC, &now);
	assert_in_range((unsigned long long)now.tv_sec - us / 1000000, 0, 5);
	close(fd);
	close(m);
}

static void without_a_manager_nothing_happens(void **state)
{
	(void)state;
	unsetenv("NOTIFY_SOCKET");
	assert_int_equal(notify_open(), -1);
	notify_send(-1, "READY=1");
	setenv("NOTIFY_SOCKET", "/nonexistent/notify", 1);
	assert_int_equal(notify_open(), -1);
	assert_null(getenv("NOTIFY_SOCKET"));
}

static void names_that_are_no_sockets_are_not_tried(void **state)
{
	char longer[200];

	(void)state;
	memset(longer, 'x', sizeof(longer));
	longer[0] = '/';
	longer[sizeof(longer) - 1] = '\0';
	setenv("NOTIFY_SOCKET", longer, 1);
	assert_int_equal(notify_open(), -1);
	setenv("NOTIFY_SOCKET", "relative", 1);
	assert_int_equal(notify_open(), -1);
	setenv("NOTIFY_SOCKET", "@", 1);
	assert_int_equal(notify_open(), -1);
}

static void a_manager_that_does_not_read_does_not_hold_us(void **state)
{
	char name[64];
	int m, fd;

	(void)state;
	snprintf(name, sizeof(name), "@exeat-test-%d", (int)getpid());
	m = manager(name);
	fd = notify_open();
	for (int i = 0; i < 100000; i++)
		notify_send(fd, "STATUS=busy");
	assert_string_equal(heard(m), "STATUS=busy");
	close(m);
	notify_send(fd, "STATUS=nobody there");	/* no SIGPIPE either */
	close(fd);
}

static void the_watchdogs_time_is_read_for_us_alone(void **state)
{
	char pid[16];

	(void)state;
	unsetenv("WATCHDOG_PID");
	setenv("WATCHDOG_USEC", "30000000", 1);
	assert_int_equal(notify_watchdog_ms(), 30000);
	assert_null(getenv("WATCHDOG_USEC"));
	assert_int_equal(notify_watchdog_ms(), 0);
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	setenv("WATCHDOG_PID", pid, 1);
	setenv("WATCHDOG_USEC", "2000000", 1);
	assert_int_equal(notify_watchdog_ms(), 2000);
	setenv("WATCHDOG_PID", "1", 1);
	setenv("WATCHDOG_USEC", "2000000", 1);
	assert_int_equal(notify_watchdog_ms(), 0);
	setenv("WATCHDOG_USEC", "soon", 1);
	assert_int_equal(notify_watchdog_ms(), 0);
}

static int setup(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_socket_in_the_file_system_is_told),
		cmocka_unit_test(an_abstract_socket_is_told),
		cmocka_unit_test(reloading_says_when),
		cmocka_unit_test(without_a_manager_nothing_happens),
		cmocka_unit_test(names_that_are_no_sockets_are_not_tried),
		cmocka_unit_test(a_manager_that_does_not_read_does_not_hold_us),
		cmocka_unit_test(the_watchdogs_time_is_read_for_us_alone),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
