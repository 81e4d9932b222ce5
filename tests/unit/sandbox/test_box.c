#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "sandbox/box.h"
#include "sandbox/box_root.h"
#include "sandbox/bundle.h"
#include "sandbox/keeper.h"
#include "sandbox/wire.h"

#define WAIT_MS 20000
#define CA "-----BEGIN CERTIFICATE-----\nZXhlYXQ=\n-----END CERTIFICATE-----\n"

static char init_path[160], scratch[] = "/tmp/exeat-test-box-XXXXXX";
static int netns = -1;

/* ---- one box, its output gathered ---- */

struct outcome {
	int status;
	char out[16384];
};

static char run_id[32];

static struct box_spec spec_of(char *const *command)
{
	static unsigned count;

	snprintf(run_id, sizeof(run_id), "test-%d-%u", (int)getpid(), count++);
	return (struct box_spec){ .id = run_id, .init = init_path, .command = command, .netns = netns,
				  .nameserver = 0x64400001, .ca_pem = STR(CA), .stdio = { 0, 1, 2 },
				  .processes = 1024 };
}

static char isolation[BOX_ISOLATION_MAX];
static pid_t keeper;		/* of the box that was made last */
static char failure[256];	/* of the last prepare() */

static enum box_news await_news(struct box *b)
{
	struct pollfd p = { .fd = box_fd(b), .events = POLLIN };

	return poll(&p, 1, WAIT_MS) == 1 ? box_hear(b) : BOX_NOTHING;
}

static int await_end(struct box *b)
{
	assert_int_equal(await_news(b), BOX_ENDED);
	return box_status(b);
}

/* Whatever it has told already: until all is removed. */
static void remove_box(struct box *b)
{
	struct pollfd p = { .fd = box_fd(b), .events = POLLIN };
	char news[1024];

	box_end(b);
	while (poll(&p, 1, WAIT_MS) == 1 && recv(p.fd, news, sizeof(news), 0) > 0)
		;
	box_free(b);
	/* Its channel ends before it is one that can be waited for. */
	assert_int_equal(waitpid(keeper, NULL, 0), keeper);
}

static pid_t newest_child(void)
{
	char path[64];
	int pid = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	f = fopen(path, "re");
	assert_non_null(f);
	while (fscanf(f, "%d", &pid) == 1)
		;
	fclose(f);
	assert_true(pid > 0);
	return pid;
}

/* Makes a box and waits until it is ready. */
static enum err prepare(const struct box_spec *spec, struct box **out)
{
	int channel;
	enum err e = box_make(spec, &channel, isolation);

	snprintf(failure, sizeof(failure), "%s", e ? box_error() : "");
	if (e)
		return e;
	keeper = newest_child();
	*out = box_take(channel);
	if (await_news(*out) == BOX_READY)
		return OK;
	snprintf(failure, sizeof(failure), "%s", box_text(*out));
	remove_box(*out);
	return ERR_SYSTEM;
}

static bool is_left(const char *id)
{
	char path[128], line[1024];
	FILE *f = fopen("/proc/mounts", "re");
	bool mounted = false;
	struct stat st;

	snprintf(path, sizeof(path), KEEPER_FOLDER "/%s", id);
	while (fgets(line, sizeof(line), f))
		mounted = mounted || strstr(line, path);
	fclose(f);
	return mounted || lstat(path, &st) == 0;
}

/* Standard input, output and errors of the box are files of ours for the while. */
static void run_spec(const struct box_spec *spec, const char *input, struct outcome *o)
{
	FILE *in = tmpfile(), *out = tmpfile();
	int saved[3];
	struct box *b = NULL;
	enum err e;
	size_t n;

	fflush(NULL);
	for (int fd = 0; fd < 3; fd++)
		saved[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 10);
	fputs(input, in);
	fflush(in);
	rewind(in);
	dup2(fileno(in), 0);
	dup2(fileno(out), 1);
	dup2(fileno(out), 2);
	e = prepare(spec, &b);
	for (int fd = 0; fd < 3; fd++) {
		dup2(saved[fd], fd);
		close(saved[fd]);
	}
	if (e != OK)
		fail_msg("%s", failure);
	assert_int_equal(box_start(b), OK);
	o->status = await_end(b);
	remove_box(b);
	rewind(out);
	n = fread(o->out, 1, sizeof(o->out) - 1, out);
	o->out[n] = '\0';
	fclose(in);
	fclose(out);
	assert_false(is_left(spec->id));
}

static void run_shell(const char *script, struct outcome *o)
{
	char *const command[] = { "/bin/sh", "-c", (char *)script, NULL };
	struct box_spec spec = spec_of(command);

	run_spec(&spec, "", o);
}

static void expect_output(const char *script, const char *want)
{
	struct outcome o;

	run_shell(script, &o);
	assert_string_equal(o.out, want);
	assert_int_equal(o.status, 0);
}

/* ---- how it ends ---- */

static void exit_status_comes_back(void **state)
{
	struct outcome o;

	(void)state;
	run_shell("exit 7", &o);
	assert_int_equal(o.status, 7);
}

static void death_by_signal_is_128_and_its_number(void **state)
{
	struct outcome o;

	(void)state;
	run_shell("kill -SEGV $$", &o);
	assert_int_equal(o.status, 128 + SIGSEGV);
}

static void command_that_is_not_there_is_127_and_says_so(void **state)
{
	char *const command[] = { "no-such-command", NULL };
	struct box_spec spec = spec_of(command);
	struct outcome o;

	(void)state;
	run_spec(&spec, "", &o);
	assert_int_equal(o.status, 127);
	assert_non_null(strstr(o.out, "no-such-command"));
}

static void standard_streams_are_the_commands(void **state)
{
	char *const command[] = { "sh", "-c", "tr a-z A-Z; echo errors >&2", NULL };
	struct box_spec spec = spec_of(command);
	struct outcome o;

	(void)state;
	run_spec(&spec, "through and back\n", &o);
	assert_string_equal(o.out, "THROUGH AND BACK\nerrors\n");
}

/* Starts a command that says on a pipe when it runs. */
static struct box *start_talking(const char *script, int *out)
{
	char *const command[] = { "/bin/sh", "-c", (char *)script, NULL };
	struct box_spec spec = spec_of(command);
	int p[2], saved = fcntl(1, F_DUPFD_CLOEXEC, 10);
	struct box *b = NULL;
	char line[6];

	fflush(NULL);
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	dup2(p[1], 1);
	close(p[1]);
	if (prepare(&spec, &b) != OK)
		fail_msg("%s", failure);
	dup2(saved, 1);
	close(saved);
	assert_int_equal(box_start(b), OK);
	assert_int_equal(read(p[0], line, sizeof(line)), 6);
	assert_memory_equal(line, "ready\n", 6);
	*out = p[0];
	return b;
}

static void pipe_can_be_opened_again_by_its_name(void **state)
{
	char byte;
	int out;
	struct box *b = start_talking("echo ready > /dev/stdout", &out);

	(void)state;
	assert_int_equal(await_end(b), 0);
	assert_int_equal(read(out, &byte, 1), 0);
	remove_box(b);
	close(out);
}

static void signals_reach_the_command(void **state)
{
	static const int sent[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 };

	(void)state;
	for (size_t i = 0; i < sizeof(sent) / sizeof(*sent); i++) {
		int out;
		struct box *b = start_talking("trap 'exit 40' TERM INT HUP QUIT USR1 USR2; echo ready;"
					      "while :; do sleep 0.05; done", &out);

		box_signal(b, sent[i]);
		assert_int_equal(await_end(b), 40);
		remove_box(b);
		close(out);
	}
}

static void kill_cannot_be_caught(void **state)
{
	int out;
	struct box *b = start_talking("trap '' TERM; echo ready; while :; do sleep 1; done", &out);

	(void)state;
	box_signal(b, SIGKILL);
	assert_int_equal(await_end(b), 128 + SIGKILL);
	remove_box(b);
	close(out);
}

static void box_that_runs_is_ended_by_box_free(void **state)
{
	char byte;
	int out;
	struct box *b = start_talking("echo ready; exec sleep 1000", &out);

	(void)state;
	remove_box(b);
	assert_int_equal(read(out, &byte, 1), 0);
	close(out);
	assert_false(is_left(run_id));
}

static void box_that_was_never_started_leaves_nothing(void **state)
{
	char *const command[] = { "true", NULL };
	struct box_spec spec = spec_of(command);
	struct box *b;

	(void)state;
	assert_int_equal(prepare(&spec, &b), OK);
	assert_true(is_left(spec.id));
	remove_box(b);
	assert_false(is_left(spec.id));
}

/* Gone when the command's own output has been closed and the folder is removed. */
static bool await_gone(int out, const char *id)
{
	struct timespec step = { .tv_nsec = 10 * 1000 * 1000 };
	struct pollfd p = { .fd = out, .events = POLLIN };
	char byte;

	if (poll(&p, 1, WAIT_MS) != 1 || read(out, &byte, 1) != 0)
		return false;
	for (int i = 0; i < WAIT_MS / 10 && is_left(id); i++)
		nanosleep(&step, NULL);
	return !is_left(id);
}

static void parent_killed_takes_the_box_with_it(void **state)
{
	int out[2];
	char id[32], line[6];
	pid_t parent;

	(void)state;
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	snprintf(id, sizeof(id), "test-killed-%d", (int)getpid());
	parent = fork();
	if (parent == 0) {
		char *const command[] = { "sh", "-c", "echo ready; exec sleep 1000", NULL };
		struct box_spec spec = spec_of(command);
		struct box *b;

		spec.id = id;
		dup2(out[1], 1);
		if (prepare(&spec, &b) == OK && box_start(b) == OK)
			(void)await_end(b);
		_exit(1);
	}
	close(out[1]);
	assert_int_equal(read(out[0], line, 6), 6);
	kill(parent, SIGKILL);
	assert_int_equal(waitpid(parent, NULL, 0), parent);
	assert_true(await_gone(out[0], id));
	close(out[0]);
}

static void keeper_killed_ends_the_box_and_the_next_run_removes_the_rest(void **state)
{
	struct outcome o;
	int out, status;
	struct box *b = start_talking("echo ready; exec sleep 1000", &out);
	char id[sizeof(run_id)], byte;

	(void)state;
	memcpy(id, run_id, sizeof(id));
	kill(keeper, SIGKILL);
	assert_int_equal(read(out, &byte, 1), 0);
	close(out);
	status = await_end(b);
	assert_int_equal(status, 128 + SIGKILL);
	remove_box(b);
	run_shell("true", &o);
	assert_int_equal(o.status, 0);
	assert_false(is_left(id));
}

/* ---- the lock-down ---- */

static void process_has_no_capability_and_gets_none(void **state)
{
	(void)state;
	expect_output("grep -E '^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp):' /proc/self/status | "
		      "tr -s '\\t' ' '",
		      "CapInh: 0000000000000000\nCapPrm: 0000000000000000\nCapEff: 0000000000000000\n"
		      "CapBnd: 0000000000000000\nCapAmb: 0000000000000000\nNoNewPrivs: 1\nSeccomp: 2\n");
}

static void root_is_read_only_and_workspace_is_not(void **state)
{
	(void)state;
	expect_output("for d in / /usr /etc /etc/exeat /usr/bin /proc/sys/kernel; do "
		      "touch $d/x 2>/dev/null && echo $d; done; "
		      "touch /workspace/x /tmp/x /home/box/x /dev/shm/x && echo good", "good\n");
}

static void hosts_environment_and_processes_are_not_seen(void **state)
{
	(void)state;
	setenv("EXEAT_TEST_SECRET", "seen", 1);
	expect_output("echo $EXEAT_TEST_SECRET; cat /proc/1/environ 2>/dev/null | grep -c SECRET; "
		      "ls /proc | grep -c '^[0-9]' | grep -q '^[0-9]$' && ls /sys 2>/dev/null; id -un",
		      "\n0\nbox\n");
	unsetenv("EXEAT_TEST_SECRET");
}

static void host_root_is_mapped_to_nothing(void **state)
{
	struct outcome o;
	unsigned in[2], out[2], size[2];

	(void)state;
	run_shell("cat /proc/self/uid_map /proc/self/gid_map", &o);
	assert_int_equal(sscanf(o.out, "%u %u %u %u %u %u", &in[0], &out[0], &size[0], &in[1], &out[1],
				&size[1]), 6);
	for (size_t i = 0; i < 2; i++) {
		assert_true(out[i] >= BOX_UID_BASE && out[i] < BOX_UID_BASE + BOX_UID_RANGE + 1);
		assert_int_equal(size[i], 1);
	}
}

static void calls_that_reach_beyond_the_box_are_refused(void **state)
{
	(void)state;
	expect_output("unshare -U true 2>/dev/null && echo unshare; mount -t tmpfs x /tmp 2>/dev/null && "
		      "echo mount; keyctl show 2>/dev/null; dmesg 2>/dev/null | head -1; "
		      "touch /workspace/x; chmod u+s /workspace/x 2>/dev/null && echo setuid; "
		      "chmod g+s /workspace/x 2>/dev/null && echo setgid; chmod 755 /workspace/x && "
		      "echo good", "good\n");
	expect_output("/usr/bin/python3 -c '\nimport socket, os\n"
		      "for family in (40, 17, 38):\n"
		      "  try: socket.socket(family, socket.SOCK_STREAM); print(family)\n"
		      "  except OSError as e: print(e.errno)\n"
		      "try: os.open(\"/workspace/y\", os.O_CREAT, 0o4755); print(\"made\")\n"
		      "except OSError as e: print(e.errno)\n"
		      "os.open(\"/workspace/z\", os.O_CREAT, 0o755)'", "97\n97\n97\n1\n");
}

static void certificate_is_in_the_systems_bundle_and_alone_for_those_who_add_it(void **state)
{
	(void)state;
	expect_output("for f in /etc/ssl/certs/ca-certificates.crt /etc/ssl/cert.pem $SSL_CERT_FILE; do "
		      "tail -2 $f | head -1; test $(grep -c BEGIN $f) -gt 10 && echo roots; done; "
		      "grep -c BEGIN $NODE_EXTRA_CA_CERTS",
		      "ZXhlYXQ=\nroots\nZXhlYXQ=\nroots\nZXhlYXQ=\nroots\n1\n");
}

static void environment_is_the_usual_and_what_was_given(void **state)
{
	static const char *const given[] = { "TOKEN=placeholder", "LANG=de_DE.UTF-8", NULL };
	char *const command[] = { "sh", "-c", "env | grep -E '^(TOKEN|LANG|HOME|USER|TERM)=' | sort", NULL };
	struct box_spec spec = spec_of(command);
	struct outcome o;

	(void)state;
	spec.environment = given;
	run_spec(&spec, "", &o);
	assert_string_equal(o.out, "HOME=/home/box\nLANG=de_DE.UTF-8\nTERM=dumb\nTOKEN=placeholder\n"
				   "USER=box\n");
}

static void isolation_names_the_runtime_and_its_version(void **state)
{
	char *const command[] = { "true", NULL };
	struct box_spec spec = spec_of(command);
	struct box *b;

	(void)state;
	assert_int_equal(prepare(&spec, &b), OK);
	assert_memory_equal(isolation, "container/", 10);
	assert_non_null(strpbrk(isolation, "0123456789"));
	remove_box(b);
}

static void resolver_is_the_gateway(void **state)
{
	(void)state;
	expect_output("head -1 /etc/resolv.conf; cat /etc/hostname", "nameserver 100.64.0.1\nbox\n");
}

static void network_is_the_given_namespace_and_nothing_else(void **state)
{
	char text[64];
	struct stat st;

	(void)state;
	assert_int_equal(fstat(netns, &st), 0);
	snprintf(text, sizeof(text), "net:[%lu]\n", (unsigned long)st.st_ino);
	expect_output("readlink /proc/self/ns/net", text);
}

/* Answers one connection at the worker's place. */
static pid_t serve_once(int listener)
{
	static const char answer[] = "HTTP/1.0 200 OK\r\n\r\nhello\n";
	struct pollfd p = { .fd = listener, .events = POLLIN };
	char request[4096];
	pid_t pid = fork();
	int fd;

	if (pid != 0)
		return pid;
	if (poll(&p, 1, WAIT_MS) != 1)
		_exit(1);
	fd = accept(listener, NULL, NULL);
	if (read(fd, request, sizeof(request)) <= 0)
		_exit(2);
	_exit(write(fd, answer, sizeof(answer) - 1) == sizeof(answer) - 1 ? 0 : 3);
}

static void box_on_a_wire_reaches_what_is_admitted_and_is_refused_the_rest(void **state)
{
	char *const command[] = { "sh", "-c", "curl -s http://198.18.0.7/; curl -s -m 5 http://198.18.0.8/; "
				  "echo $?; curl -s -m 5 http://8.8.8.8/; echo $?", NULL };
	struct wire_error why = { "", 0 };
	struct box_spec spec = spec_of(command);
	struct wire_gateway *g;
	struct addr_range pool;
	struct wire_box w;
	struct outcome o;
	uint16_t port = 80;
	pid_t server;
	int status;

	(void)state;
	assert_true(addr_range_parse(STR("100.64.0.0/24"), &pool));
	assert_int_equal(wire_gateway_open(&g, &why), OK);
	assert_int_equal(wire_box_open(g, 0, &pool, -1, &w, &why), OK);
	assert_int_equal(wire_admit(g, &w, 0xc6120007u, &port, 1, &why), OK);
	spec.netns = w.netns;
	server = serve_once(w.tproxy);
	run_spec(&spec, "", &o);
	assert_string_equal(o.out, "hello\n7\n7\n");
	assert_int_equal(waitpid(server, &status, 0), server);
	assert_int_equal(status, 0);
	wire_box_close(g, &w);
	wire_gateway_close(g);
}

static void usual_languages_start(void **state)
{
	(void)state;
	expect_output("/usr/bin/python3 -c 'import ssl, json; print(1)'; node -e 'console.log(2)' 2>/dev/null; "
		      "git --version >/dev/null && echo 3; perl -e 'print \"4\\n\"'", "1\n2\n3\n4\n");
}

/* ---- workspaces and roots that somebody gave ---- */

static void make_folder(char path[128], const char *name, uid_t owner)
{
	snprintf(path, 128, "%s/%s", scratch, name);
	assert_int_equal(mkdir(path, 0755), 0);
	assert_int_equal(chown(path, owner, owner), 0);
}

static void expect_owner(const char *folder, const char *name, uid_t owner)
{
	char path[256];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(st.st_uid, owner);
	assert_int_equal(st.st_gid, owner);
}

static void files_made_in_a_workspace_belong_to_its_owner(void **state)
{
	static const uid_t owners[] = { 0, 12345 };
	char *const command[] = { "sh", "-c", "echo x > made && mkdir d && stat -c %U . made", NULL };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct box_spec spec = spec_of(command);
		struct outcome o;
		char path[128];

		make_folder(path, i == 0 ? "of-root" : "of-user", owners[i]);
		spec.workspace = path;
		run_spec(&spec, "", &o);
		assert_string_equal(o.out, "box\nbox\n");
		assert_int_equal(o.status, 0);
		expect_owner(path, "made", owners[i]);
		expect_owner(path, "d", owners[i]);
	}
}

/* Between the look at a folder and its mount, a box may put a link in its place. */
static void workspace_that_has_become_a_link_is_not_mounted(void **state)
{
	char *const command[] = { "true", NULL };
	struct box_spec spec = spec_of(command);
	struct box *b;
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/link", scratch);
	assert_int_equal(symlink("/etc", path), 0);
	spec.workspace = path;
	assert_int_equal(prepare(&spec, &b), ERR_SYSTEM);
	assert_non_null(strstr(failure, "/link: Too many levels of symbolic links"));
	assert_false(is_left(spec.id));
	spec.workspace = NULL;
	spec.rootfs = path;
	assert_int_equal(prepare(&spec, &b), ERR_SYSTEM);
	assert_non_null(strstr(failure, "/link: Too many levels of symbolic links"));
	assert_int_equal(unlink(path), 0);
}

static void workspace_that_is_not_there_is_told(void **state)
{
	char *const command[] = { "true", NULL };
	struct box_spec spec = spec_of(command);
	struct box *b;

	(void)state;
	spec.workspace = "/nonexistent/workspace";
	assert_int_equal(prepare(&spec, &b), ERR_SYSTEM);
	assert_non_null(strstr(failure, "/nonexistent/workspace: No such file or directory"));
	assert_false(is_left(spec.id));
}

static void shell(const char *fmt, ...)
{
	char text[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	assert_int_equal(system(text), 0);
}

/* A root as an image might be: no mount points, links that try to lead out, a bundle. */
static void given_root_is_used_and_never_written_to(void **state)
{
	char *const command[] = { "sh", "-c", "cat /etc/resolv.conf | head -1; tail -2 "
				  "/etc/ssl/certs/ca-certificates.crt; touch /x 2>/dev/null || echo ro; "
				  "cat /mark; echo w > /workspace/w", NULL };
	struct box_spec spec = spec_of(command);
	struct outcome o;
	char path[128];

	(void)state;
	make_folder(path, "image", 0);
	shell("cd %s && mkdir -p usr etc/ssl/certs && echo mark > mark && for d in bin lib lib64; do "
	      "ln -s usr/$d $d; done && cp -a /usr/bin usr/bin 2>/dev/null; true", path);
	shell("cd %s && rm -rf usr/bin && mkdir usr/bin && for p in sh cat tail head touch; do "
	      "cp -L /bin/$p usr/bin/; done && mkdir -p usr/lib64 usr/lib/x86_64-linux-gnu && "
	      "cp -L /lib64/ld-linux-x86-64.so.2 usr/lib64/ && cp -L /lib/x86_64-linux-gnu/libc.so.6 "
	      "usr/lib/x86_64-linux-gnu/ && printf 'image roots\\n' > etc/ssl/certs/ca-certificates.crt && "
	      "ln -s %s/outside etc/resolv.conf && ln -s /nowhere etc/ssl/cert.pem && "
	      "find . | sort > %s/before", path, scratch, scratch);
	spec.rootfs = path;
	run_spec(&spec, "", &o);
	assert_string_equal(o.out, "nameserver 100.64.0.1\nZXhlYXQ=\n-----END CERTIFICATE-----\nro\nmark\n");
	shell("cd %s && find . | sort | cmp - %s/before && ! test -e %s/outside", path, scratch, scratch);
}

static void name_that_is_a_path_is_refused(void **state)
{
	char *const command[] = { "true", NULL };
	struct box_spec spec = spec_of(command);
	struct box *b;

	(void)state;
	spec.id = "../x";
	assert_int_equal(prepare(&spec, &b), ERR_SYNTAX);
}

static void who_is_not_root_is_told_what_to_do(void **state)
{
	int status;
	pid_t pid = fork();

	(void)state;
	if (pid == 0) {
		char *const command[] = { "true", NULL };
		struct box_spec spec = spec_of(command);
		struct box *b;

		if (setuid(65534) < 0 || prepare(&spec, &b) != ERR_DENIED)
			_exit(1);
		_exit(strstr(failure, "root") ? 0 : 2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- the surroundings ---- */

static int open_surroundings(void **state)
{
	char self[128];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *tests;
	int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

	(void)state;
	/* build/MODE/tests/unit/sandbox/test_box stands beside build/MODE/exeat-init */
	self[n > 0 ? n : 0] = '\0';
	tests = strstr(self, "/tests/unit/");
	if (tests)
		*tests = '\0';
	snprintf(init_path, sizeof(init_path), "%s/exeat-init", tests ? self : "/nonexistent");
	if (getenv("EXEAT_INIT"))
		snprintf(init_path, sizeof(init_path), "%s", getenv("EXEAT_INIT"));
	if (unshare(CLONE_NEWNET) < 0)
		return -1;
	netns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	return setns(home, CLONE_NEWNET) < 0 || close(home) < 0 || !mkdtemp(scratch) ||
	       chmod(scratch, 0755) < 0 ? -1 : 0;
}

static int close_surroundings(void **state)
{
	(void)state;
	shell("rm -rf %s", scratch);
	close(netns);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exit_status_comes_back),
		cmocka_unit_test(death_by_signal_is_128_and_its_number),
		cmocka_unit_test(command_that_is_not_there_is_127_and_says_so),
		cmocka_unit_test(standard_streams_are_the_commands),
		cmocka_unit_test(pipe_can_be_opened_again_by_its_name),
		cmocka_unit_test(signals_reach_the_command),
		cmocka_unit_test(kill_cannot_be_caught),
		cmocka_unit_test(box_that_runs_is_ended_by_box_free),
		cmocka_unit_test(box_that_was_never_started_leaves_nothing),
		cmocka_unit_test(parent_killed_takes_the_box_with_it),
		cmocka_unit_test(keeper_killed_ends_the_box_and_the_next_run_removes_the_rest),
		cmocka_unit_test(process_has_no_capability_and_gets_none),
		cmocka_unit_test(root_is_read_only_and_workspace_is_not),
		cmocka_unit_test(hosts_environment_and_processes_are_not_seen),
		cmocka_unit_test(host_root_is_mapped_to_nothing),
		cmocka_unit_test(calls_that_reach_beyond_the_box_are_refused),
		cmocka_unit_test(certificate_is_in_the_systems_bundle_and_alone_for_those_who_add_it),
		cmocka_unit_test(environment_is_the_usual_and_what_was_given),
		cmocka_unit_test(isolation_names_the_runtime_and_its_version),
		cmocka_unit_test(resolver_is_the_gateway),
		cmocka_unit_test(network_is_the_given_namespace_and_nothing_else),
		cmocka_unit_test(box_on_a_wire_reaches_what_is_admitted_and_is_refused_the_rest),
		cmocka_unit_test(usual_languages_start),
		cmocka_unit_test(files_made_in_a_workspace_belong_to_its_owner),
		cmocka_unit_test(workspace_that_has_become_a_link_is_not_mounted),
		cmocka_unit_test(workspace_that_is_not_there_is_told),
		cmocka_unit_test(given_root_is_used_and_never_written_to),
		cmocka_unit_test(name_that_is_a_path_is_refused),
		cmocka_unit_test(who_is_not_root_is_told_what_to_do),
	};

	if (geteuid() != 0 || !box_runtime()) {
		print_message("needs root and a container runtime\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, open_surroundings, close_surroundings);
}
