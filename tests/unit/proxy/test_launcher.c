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
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "policy/policy.h"
#include "proxy/launcher.h"
#include "proxy/messages.h"
#include "proxy/policy_store.h"
#include "proxy/reader_client.h"
#include "said.h"
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
	struct msg_source_is source;
	unsigned sources;
	char text[MSG_DIAGNOSTICS_MAX + 1];
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
	if (type == MSG_SOURCE_IS) {
		got.source = *(const struct msg_source_is *)msg;
		got.sources++;
		snprintf(got.text, sizeof(got.text), "%.*s", STR_ARG(got.source.why));
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

/* ---- what lies on somebody's disk ---- */

static void put_file(const char *name, const char *text, char path[PATH_MAX])
{
	int fd;

	snprintf(path, PATH_MAX, "%s/%s", w.dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static void a_policys_file_is_read_whole_and_cannot_change_any_more(void **state)
{
	struct msg_source m = { .id = 4 };
	char path[PATH_MAX], bytes[64];

	(void)state;
	needs_programs();
	put_file("policy.yaml", "exeat: 1\n", path);
	m.file = str_of(path);
	ask(MSG_SOURCE, &m, NULL, 0);
	assert_int_equal(got.source.id, 4);
	assert_string_equal(got.text, "");
	assert_int_equal(got.n_fds, 1);
	put_file("policy.yaml", "another\n", path);
	assert_int_equal(pread(got.fds[0], bytes, sizeof(bytes), 0), 9);
	assert_memory_equal(bytes, "exeat: 1\n", 9);
	assert_true(reader_sealed(got.fds[0]));
	unlink(path);
}

static void what_is_no_policys_file_is_told(void **state)
{
	char path[PATH_MAX], longer[MSG_PATH_MAX];
	struct msg_source m = { .id = 4, .file = str_of(w.dir) };

	(void)state;
	needs_programs();
	ask(MSG_SOURCE, &m, NULL, 0);
	assert_non_null(strstr(got.text, "is a folder, not a policy"));
	m.file = STR("/nowhere/policy.yaml");
	ask(MSG_SOURCE, &m, NULL, 0);
	assert_string_equal(got.text, "the policy /nowhere/policy.yaml: No such file or directory");
	snprintf(path, sizeof(path), "%s/pipe", w.dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	m.file = str_of(path);
	ask(MSG_SOURCE, &m, NULL, 0);	/* nobody writes to it */
	assert_non_null(strstr(got.text, "is no regular file"));
	unlink(path);
	memset(longer, '/', sizeof(longer));
	m.file = str_n(longer, sizeof(longer));	/* one byte less would be the root */
	ask(MSG_SOURCE, &m, NULL, 0);
	assert_non_null(strstr(got.text, "File name too long"));
	assert_int_equal(got.n_fds, 0);
}

/* A file system that nobody serves. */
static int mount_hung(const char *folder)
{
	char options[80];
	int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	assert_true(fuse >= 0);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fuse);
	assert_int_equal(mkdir(folder, 0700), 0);
	assert_int_equal(mount("hung", folder, "fuse.hung", 0, options), 0);
	return fuse;
}

static void a_disk_that_hangs_holds_up_no_other_order(void **state)
{
	char folder[80], path[100];
	struct msg_source hung = { .id = 1 }, absent = { .id = 2, .file = STR("/nowhere") };
	struct msg_wire wire = { .id = 3, .index = 1 }, into = { .id = 5, .index = 2 };
	struct msg_ping ping = { .id = 4 };
	int fuse;

	(void)state;
	needs_programs();
	snprintf(folder, sizeof(folder), "%s/hung", w.dir);
	snprintf(path, sizeof(path), "%s/policy.yaml", folder);
	fuse = mount_hung(folder);
	hung.file = into.netns = str_of(path);
	assert_int_equal(channel_send(w.c, MSG_SOURCE, &hung, NULL, 0), OK);
	assert_int_equal(channel_send(w.c, MSG_WIRE, &into, NULL, 0), OK);
	ask(MSG_SOURCE, &absent, NULL, 0);
	assert_int_equal(got.source.id, 2);
	ask(MSG_WIRE, &wire, NULL, 0);
	assert_int_equal(got.wired.id, 3);
	assert_int_equal(got.wired.code, 0);
	ask(MSG_PING, &ping, NULL, 0);
	assert_true(got.pong);
	assert_int_equal(got.sources, 1);
	close(fuse);	/* whoever hangs there has an error now */
	wait_for(got.sources == 2 && got.wired.id == 5);
	assert_int_equal(got.source.id, 1);
	assert_int_not_equal(got.wired.code, 0);
	assert_int_equal(umount2(folder, MNT_DETACH), 0);
	assert_int_equal(rmdir(folder), 0);
}

/* ---- what is kept of a policy ---- */

#define POLICY_FILE "/made/policy.yaml"
#define POLICY_TEXT(host) "exeat: 1\nprecedence: deny-over-allow\nallow:\n  - {id: a, hosts: [" host "]}\n"

static int source_of(const char *text, bool sealed)
{
	int fd = memfd_create("source", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_true(!sealed || fcntl(fd, F_ADD_SEALS, POLICY_SEALS) == 0);
	return fd;
}

static void digest_of(const char *text, char out[POLICY_DIGEST_HEX + 1])
{
	int source = source_of(text, true), image;
	struct reader_job job = { .file = POLICY_FILE, .source = source, .settings = w.settings,
				  .programs = w.programs };
	struct policy *p;

	assert_true(reader_compile(&job, &image, NULL, NULL));
	assert_int_equal(policy_map(&image, 1, &p), OK);
	snprintf(out, POLICY_DIGEST_HEX + 1, "%.*s", STR_ARG(policy_digest(p)));
	policy_free(p);
	close(image);
	close(source);
}

static void keep(const char *digest, int source)
{
	struct msg_keep_policy m = { .digest = str_of(digest), .file = STR(POLICY_FILE) };

	assert_int_equal(channel_send(w.c, MSG_KEEP_POLICY, &m, &source, 1), OK);
	close(source);
}

/* Its stderr is the test's from now on. */
static struct said restart_launcher(void)
{
	struct said s;

	channel_free(w.c);
	assert_int_equal(waitpid(w.pid, NULL, 0), w.pid);
	got.ready = false;
	s = said_begin();
	start_launcher();
	return s;
}

static bool has_said(struct said s, const char *words)
{
	char text[SAID_MAX];
	ssize_t n = pread(s.memory, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	return strstr(text, words) != NULL;
}

static bool is_kept(const char *digest)
{
	int fd = -1;
	bool is = policy_store_find(w.log, str_of(digest), &fd) == OK;

	if (fd >= 0)
		close(fd);
	return is;
}

/* Nothing comes when it is done: the launcher's other answers are taken for a clock. */
#define turn_until(cond)                                                                          \
	do {                                                                                      \
		time_t end_ = time(NULL) + LIMIT_S;                                               \
		while (!(cond) && time(NULL) < end_)                                              \
			ask(MSG_PING, &(struct msg_ping){ .id = 9 }, NULL, 0);                    \
		assert_true(cond);                                                                \
	} while (0)

static void a_source_is_kept_as_what_a_reader_makes_of_it_and_nothing_else(void **state)
{
	char one[POLICY_DIGEST_HEX + 1], two[POLICY_DIGEST_HEX + 1], path[200];
	char said[SAID_MAX];
	struct said s;

	(void)state;
	needs_programs();
	digest_of(POLICY_TEXT("one.test"), one);
	digest_of(POLICY_TEXT("two.test"), two);
	s = restart_launcher();
	keep(one, source_of(POLICY_TEXT("two.test"), true));
	turn_until(has_said(s, POLICY_FILE " is not kept beside the log: is another's\n"));
	keep(one, source_of("nonsense", true));
	turn_until(has_said(s, "is not kept beside the log: does not load\n"));
	keep(one, source_of(POLICY_TEXT("one.test"), false));
	turn_until(has_said(s, "is not kept beside the log: can still be changed\n"));
	keep(two, source_of(POLICY_TEXT("two.test"), true));
	turn_until(is_kept(two));
	assert_false(is_kept(one));
	said_end(s, said);
	snprintf(path, sizeof(path), "%s.policies/%s", w.log, two);
	unlink(path);
	snprintf(path, sizeof(path), "%s.policies", w.log);
	assert_int_equal(rmdir(path), 0);	/* and nothing else lies there */
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
		CASE(a_policys_file_is_read_whole_and_cannot_change_any_more),
		CASE(what_is_no_policys_file_is_told),
		CASE(a_disk_that_hangs_holds_up_no_other_order),
		CASE(a_source_is_kept_as_what_a_reader_makes_of_it_and_nothing_else),
		CASE(a_box_with_a_bad_command_is_refused),
		CASE(a_box_that_would_see_what_it_must_not_is_refused),
		CASE(a_log_that_is_not_there_is_not_rotated),
		CASE(it_ends_when_its_channel_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
