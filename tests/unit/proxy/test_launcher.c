/* A launcher that the test has forked, and speaks to as its supervisor. Needs root, and the programs
 * beside the tests' folder; skipped without them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/launcher.h"
#include "proxy/messages.h"
#include "sandbox/channel.h"

#define LIMIT_S 20

static struct {
	struct event_base *base;
	struct settings *settings;
	struct wire_gateway *gateway;
	struct broker_start broker;
	struct channel *c;
	pid_t pid;
	char programs[PATH_MAX], dir[64], log[100];
} w;

static struct {
	bool ready, closed, pong;
	unsigned n;
	struct msg_launched launched;
	struct msg_wired wired;
	struct msg_boxed boxed;
	struct msg_log_file rotated;
	char text[1100];
	int fds[8];
	size_t n_fds;
} got;

static void forget(void)
{
	channel_close_fds(got.fds, got.n_fds);
	got.n_fds = 0;
}

static void on_message(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	(void)arg;
	got.ready = got.ready || type == MSG_READY;
	got.pong = got.pong || type == MSG_PONG;
	got.n += type != MSG_READY;
	if (type == MSG_LAUNCHED)
		got.launched = *(const struct msg_launched *)msg;
	if (type == MSG_WIRED) {
		got.wired = *(const struct msg_wired *)msg;
		snprintf(got.text, sizeof(got.text), "%.*s", STR_ARG(got.wired.what));
	}
	if (type == MSG_BOXED) {
		got.boxed = *(const struct msg_boxed *)msg;
		snprintf(got.text, sizeof(got.text), "%.*s", STR_ARG(got.boxed.text));
	}
	if (type == MSG_ROTATED)
		got.rotated = *(const struct msg_log_file *)msg;
	forget();
	assert_true(n_fds <= 8);
	for (got.n_fds = 0; got.n_fds < n_fds; got.n_fds++)
		got.fds[got.n_fds] = fds[got.n_fds];
}

static void on_closed(void *arg, const char *why)
{
	(void)arg;
	(void)why;
	got.closed = true;
}

static void on_late(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	*(bool *)arg = true;
}

#define wait_for(cond)                                                                            \
	do {                                                                                      \
		struct timeval tv_ = { .tv_sec = LIMIT_S };                                       \
		bool late_ = false;                                                               \
		struct event *limit_ = evtimer_new(w.base, on_late, &late_);                      \
		event_add(limit_, &tv_);                                                          \
		while (!(cond) && !late_)                                                         \
			event_base_loop(w.base, EVLOOP_ONCE);                                     \
		event_free(limit_);                                                               \
		assert_true(cond);                                                                \
	} while (0)

/* build/MODE/tests/unit/proxy/test_launcher: the programs are in build/MODE. */
static bool find_programs(void)
{
	char recorder[PATH_MAX + 32];
	ssize_t n = readlink("/proc/self/exe", w.programs, sizeof(w.programs) - 1);

	for (unsigned up = 0; n > 0 && up < 4; n--)
		up += w.programs[n - 1] == '/';
	if (n <= 0)
		return false;
	w.programs[n] = '\0';
	snprintf(recorder, sizeof(recorder), "%s/exeat-recorder", w.programs);
	return access(recorder, X_OK) == 0 && geteuid() == 0;
}

static void start_launcher(void)
{
	struct launcher_job job = { .programs = w.programs, .settings = w.settings, .gateway = w.gateway,
				    .log_path = w.log, .not_its_own = &w.broker };
	struct channel_peer peer = { .self = ROLE_SUPERVISOR, .other = ROLE_LAUNCHER, .table = exeat_messages,
				     .on_message = on_message, .on_closed = on_closed };
	int fd;

	assert_int_equal(launcher_start(&job, &fd, &w.pid), OK);
	w.c = channel_new(w.base, fd, &peer);
	assert_non_null(w.c);
	wait_for(got.ready);
	channel_set_phase(w.c, PHASE_RUN);
}

static int setup(void **state)
{
	struct wire_error why = { "", 0 };

	(void)state;
	memset(&got, 0, sizeof(got));
	memset(&w, 0, sizeof(w));
	if (!find_programs())
		return 0;
	snprintf(w.dir, sizeof(w.dir), "/tmp/exeat-launcher-XXXXXX");
	assert_non_null(mkdtemp(w.dir));
	snprintf(w.log, sizeof(w.log), "%s/audit.jsonl", w.dir);
	w.settings = settings_load("");
	assert_non_null(w.settings);
	assert_int_equal(broker_start_open(&w.broker, w.settings), OK);
	assert_int_equal(wire_gateway_open(&w.gateway, &why), OK);
	w.base = event_base_new();
	start_launcher();
	return 0;
}

static int teardown(void **state)
{
	int status;

	(void)state;
	forget();
	if (!w.base)
		return 0;
	channel_free(w.c);
	if (w.pid) {
		assert_int_equal(waitpid(w.pid, &status, 0), w.pid);
		assert_int_equal(status, 0);
	}
	event_base_free(w.base);
	wire_gateway_close(w.gateway);
	broker_start_close(&w.broker);
	settings_free(w.settings);
	unlink(w.log);
	return rmdir(w.dir);
}

#define needs_programs()                                                                          \
	do {                                                                                      \
		if (!w.base)                                                                      \
			skip();                                                                   \
	} while (0)

static void ask(uint16_t type, const void *msg, const int *fds, size_t n)
{
	unsigned before = got.n;

	assert_int_equal(channel_send(w.c, type, msg, fds, n), OK);
	wait_for(got.n == before + 1);
}

static void launch(uint8_t role, uint32_t id)
{
	struct msg_launch m = { .id = id, .role = role };

	ask(MSG_LAUNCH, &m, NULL, 0);
	assert_int_equal(got.launched.id, id);
}

/* ---- roles ---- */

static void what_is_no_role_of_its_is_refused(void **state)
{
	static const uint8_t roles[] = { ROLE_SUPERVISOR, ROLE_WORKER, ROLE_COUNT, ROLE_COUNT + 1, 100, 255 };

	(void)state;
	needs_programs();
	for (unsigned i = 0; i < sizeof(roles); i++) {
		launch(roles[i], i + 1);
		assert_int_equal(got.launched.code, EINVAL);
		assert_int_equal(got.launched.pid, 0);
		assert_int_equal(got.n_fds, 0);
	}
}

static void a_role_is_started_as_a_child_of_who_asked(void **state)
{
	int status;

	(void)state;
	needs_programs();
	launch(ROLE_RECORDER, 7);
	assert_int_equal(got.launched.code, 0);
	assert_int_equal(got.n_fds, 1);
	forget();	/* its channel: it ends */
	assert_int_equal(waitpid((pid_t)got.launched.pid, &status, 0), got.launched.pid);
	assert_true(WIFEXITED(status));
}

static void a_second_launcher_outlives_the_first(void **state)
{
	struct channel_peer peer = { .self = ROLE_SUPERVISOR, .other = ROLE_LAUNCHER, .table = exeat_messages,
				     .on_message = on_message, .on_closed = on_closed };
	struct msg_ping ping = { .id = 1 };
	pid_t first = w.pid;
	int status;

	(void)state;
	needs_programs();
	launch(ROLE_LAUNCHER, 1);
	assert_int_equal(got.launched.code, 0);
	kill(first, SIGKILL);
	assert_int_equal(waitpid(first, &status, 0), first);
	channel_free(w.c);
	got.ready = false;
	got.n_fds = 0;
	w.pid = (pid_t)got.launched.pid;
	w.c = channel_new(w.base, got.fds[0], &peer);
	wait_for(got.ready);
	channel_set_phase(w.c, PHASE_RUN);
	ask(MSG_PING, &ping, NULL, 0);
	assert_true(got.pong);
	launch(ROLE_LAUNCHER, 2);
	assert_int_equal(got.launched.code, 0);
	forget();
	assert_int_equal(waitpid((pid_t)got.launched.pid, &status, 0), got.launched.pid);
}

/* ---- wires ---- */

static void a_wire_is_made_once_for_each_number(void **state)
{
	struct msg_wire m = { .id = 3, .index = 1 };
	unsigned first;

	(void)state;
	needs_programs();
	ask(MSG_WIRE, &m, NULL, 0);
	assert_int_equal(got.wired.id, 3);
	assert_int_equal(got.wired.code, 0);
	assert_int_equal(got.n_fds, FD_WIRED_N);
	first = got.wired.box;
	assert_int_equal(first, got.wired.gateway + 1);
	m.id = 4;
	ask(MSG_WIRE, &m, NULL, 0);
	assert_int_equal(got.wired.code, EEXIST);
	assert_int_equal(got.n_fds, 0);
	m = (struct msg_wire){ .id = 5, .index = 2 };
	ask(MSG_WIRE, &m, NULL, 0);
	assert_int_equal(got.wired.code, 0);
	assert_int_not_equal(got.wired.box, first);
}

static void a_wire_past_the_pool_or_into_what_is_no_namespace_is_refused(void **state)
{
	struct msg_wire m = { .id = 1, .index = wire_links(&w.settings->link_pool) };

	(void)state;
	needs_programs();
	ask(MSG_WIRE, &m, NULL, 0);
	assert_int_equal(got.wired.code, ENOSPC);
	m = (struct msg_wire){ .id = 2, .index = 1, .netns = str_of(w.dir) };
	ask(MSG_WIRE, &m, NULL, 0);
	assert_int_not_equal(got.wired.code, 0);
	m.netns = STR("/nowhere");
	ask(MSG_WIRE, &m, NULL, 0);
	assert_int_equal(got.wired.code, ENOENT);
	assert_string_equal(got.text, "the network namespace to attach to");
	/* It goes on. */
	m = (struct msg_wire){ .id = 3, .index = 1 };
	ask(MSG_WIRE, &m, NULL, 0);
	assert_int_equal(got.wired.code, 0);
}

/* ---- boxes ---- */

static void ask_box(struct msg_box *m, const char *texts, size_t n)
{
	int fds[FD_BOX_N], null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (size_t i = 0; i < FD_BOX_N; i++)
		fds[i] = null;
	fds[FD_BOX_TEXTS] = memfd_create("texts", MFD_CLOEXEC);
	assert_int_equal(write(fds[FD_BOX_TEXTS], texts, n), n);
	ask(MSG_BOX, m, fds, FD_BOX_N);
	close(fds[FD_BOX_TEXTS]);
	close(null);
	assert_int_equal(got.boxed.ok, 0);
	assert_int_equal(got.boxed.id, m->id);
	assert_int_equal(got.n_fds, 0);
}

static void a_box_with_a_bad_command_is_refused(void **state)
{
	struct msg_box m = { .id = 9, .name = STR("run-1-1"), .arguments = 1 };

	(void)state;
	needs_programs();
	ask_box(&m, "", 0);
	assert_string_equal(got.text, "a box needs a command");
	ask_box(&m, "no end", 6);
	assert_string_equal(got.text, "a box needs a command");
	m.arguments = 0;
	ask_box(&m, "sh", 3);
	assert_string_equal(got.text, "a box needs a command");
	m.arguments = 2;	/* more than there are */
	ask_box(&m, "sh", 3);
	assert_string_equal(got.text, "a box needs a command");
	m.arguments = UINT32_MAX;
	ask_box(&m, "sh", 3);
	assert_string_equal(got.text, "a box needs a command");
	m.arguments = 1;
	m.environment = UINT32_MAX;
	ask_box(&m, "sh", 3);
	assert_string_equal(got.text, "a box needs a command");
}

static void a_box_that_would_see_what_it_must_not_is_refused(void **state)
{
	struct msg_box m = { .id = 9, .name = STR("run-1-1"), .arguments = 1, .workspace = STR("/etc") };

	(void)state;
	needs_programs();
	ask_box(&m, "sh", 3);
	assert_non_null(strstr(got.text, "workspace /etc"));
	m.workspace = STR_NONE;
	m.rootfs = STR("/");
	ask_box(&m, "sh", 3);
	assert_non_null(strstr(got.text, "rootfs /"));
	m.rootfs = STR_NONE;
	m.name = STR("../up");
	ask_box(&m, "sh", 3);
	m.name = STR("run-1-1");
	m.output = str_of(w.dir);
	ask_box(&m, "sh", 3);
	assert_non_null(strstr(got.text, "output "));
	m.output = STR("/etc/cron.d/exeat-test");
	ask_box(&m, "sh", 3);
	assert_non_null(strstr(got.text, "output /etc/cron.d/exeat-test: the system's own"));
	assert_int_equal(access("/etc/cron.d/exeat-test", F_OK), -1);
	m.output = str_of(w.log);
	ask_box(&m, "sh", 3);
	assert_non_null(strstr(got.text, "it is the audit log's"));
	assert_int_equal(access(w.log, F_OK), -1);
}

/* ---- the log, and the end ---- */

static void a_log_that_is_not_there_is_not_rotated(void **state)
{
	struct msg_rotate m = { .id = 1 };

	(void)state;
	needs_programs();
	ask(MSG_ROTATE, &m, NULL, 0);
	assert_int_not_equal(got.rotated.code, 0);
	assert_int_equal(got.n_fds, 0);
}

static void it_ends_when_its_channel_does(void **state)
{
	int status;

	(void)state;
	needs_programs();
	channel_free(w.c);
	w.c = NULL;
	assert_int_equal(waitpid(w.pid, &status, 0), w.pid);
	assert_int_equal(status, 0);
	w.pid = 0;
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(what_is_no_role_of_its_is_refused),
		CASE(a_role_is_started_as_a_child_of_who_asked),
		CASE(a_second_launcher_outlives_the_first),
		CASE(a_wire_is_made_once_for_each_number),
		CASE(a_wire_past_the_pool_or_into_what_is_no_namespace_is_refused),
		CASE(a_box_with_a_bad_command_is_refused),
		CASE(a_box_that_would_see_what_it_must_not_is_refused),
		CASE(a_log_that_is_not_there_is_not_rotated),
		CASE(it_ends_when_its_channel_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
