/* What each command asks an appliance, and what it makes of the answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <sysexits.h>

#include "proxy/cmd_reload.h"
#include "proxy/cmd_request.h"
#include "proxy/cmd_sandbox.h"
#include "proxy/cmd_status.h"
#include "proxy/control.h"
#include "tests/unit/proxy/said.h"

#define ASKED_MAX 8192
#define WORDS_MAX 24

static char folder[] = "/tmp/exeat-cmd-XXXXXX";
static char path[64], out[SAID_MAX], err[SAID_MAX], asked[ASKED_MAX];
static int requests = -1;	/* what was asked, as it came */
static pid_t server;

/* ---- an appliance that knows its answers ---- */

static const struct {
	const char *start, *status, *body;
} answers[] = {
	{ "GET /v1/status ", "200 OK",
	  "{\"version\":\"9.9\",\"pid\":7,\"sandboxes\":{\"running\":2},\"log\":{\"writable\":false},"
	  "\"roles\":[{\"role\":\"broker\",\"pid\":12,\"state\":\"ready\",\"crashes\":1}]}" },
	{ "GET /v1/sandboxes ", "200 OK",
	  "{\"sandboxes\":[{\"name\":\"de\\u001bv\",\"state\":\"running\",\"policy\":{\"name\":\"web\"},\"bytes_up\":2048}]}" },
	{ "GET /v1/sandboxes/one?wait=true ", "200 OK", "{\"name\":\"one\",\"state\":\"ended\",\"exit\":3}" },
	{ "GET /v1/sandboxes/bad?wait=true ", "200 OK", "{\"name\":\"bad\",\"state\":\"failed\",\"why\":\"so\"}" },
	{ "GET /v1/sandboxes/one ", "200 OK", "{\"name\":\"one\",\"state\":\"running\",\"bytes_down\":1}" },
	{ "POST /v1/sandboxes ", "201 Created", "{\"name\":\"one\",\"state\":\"running\"}" },
	{ "POST /v1/sandboxes/one/exec ", "200 OK",
	  "{\"container\":\"7-1\",\"runtime\":\"/bin/true\",\"state\":\"/nowhere\"}" },
	{ "POST /v1/sandboxes/odd/exec ", "200 OK", "{\"container\":\"7-1\",\"runtime\":\"runc\",\"state\":7}" },
	{ "DELETE /v1/sandboxes/", "200 OK", "{\"name\":\"one\",\"state\":\"ended\",\"why\":\"stopped\"}" },
	{ "POST /v1/policy/reload ", "200 OK", "{\"files\":1,\"sandboxes\":4,\"changed\":2}" },
	{ "GET /v1/requests ", "200 OK", "{\"requests\":[{\"number\":3,\"state\":\"open\",\"url\":\"https://a/\"}]}" },
	{ "GET /v1/requests?closed=true ", "200 OK", "{\"requests\":[]}" },
	{ "GET /v1/requests/3 ", "200 OK", "{\"number\":3,\"rule\":\"- id: a\\n  hosts: [b]\\n\"}" },
	{ "DELETE /v1/requests/3 ", "200 OK", "{\"number\":3,\"state\":\"closed\"}" },
};

static bool is_whole(const char *bytes)
{
	const char *head = strstr(bytes, "\r\n\r\n"), *length = strstr(bytes, "content-length: ");

	return head && strlen(head + 4) >= (length ? strtoul(length + 16, NULL, 10) : 0);
}

static void serve_one(int fd)
{
	char bytes[ASKED_MAX] = "", answer[1024];
	size_t n = 0;
	ssize_t got = 1;

	while (got > 0 && !is_whole(bytes)) {
		got = recv(fd, bytes + n, sizeof(bytes) - 1 - n, 0);
		n += got > 0 ? (size_t)got : 0;
		bytes[n] = '\0';
	}
	(void)!write(requests, bytes, n);
	snprintf(answer, sizeof(answer), "HTTP/1.1 404 Not Found\r\ncontent-length: 15\r\n\r\n{\"detail\":\"no\"}");
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
		if (strncmp(bytes, answers[i].start, strlen(answers[i].start)) == 0)
			snprintf(answer, sizeof(answer), "HTTP/1.1 %s\r\ncontent-length: %zu\r\n\r\n%s",
				 answers[i].status, strlen(answers[i].body), answers[i].body);
	(void)!send(fd, answer, strlen(answer), MSG_NOSIGNAL);
	close(fd);
}

static int setup(void **state)
{
	int listener;

	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/exeat-cmd-XXXXXX");
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/s", folder);
	requests = memfd_create("requests", MFD_CLOEXEC);
	assert_true(control_listen(path, (gid_t)-1, &listener));
	server = fork();
	assert_true(server >= 0);
	if (server == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;) {
			struct pollfd p = { .fd = listener, .events = POLLIN };

			if (poll(&p, 1, -1) == 1)
				serve_one(accept(listener, NULL, NULL));
		}
	}
	close(listener);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	close(requests);
	(void)unlink(path);
	return rmdir(folder);
}

/* ---- calling ---- */

static void take(int memory, char *to, size_t size)
{
	ssize_t n = pread(memory, to, size - 1, 0);

	to[n > 0 ? n : 0] = '\0';
}

/* In a process of its own, as a command is: exec may replace it. */
static int run(int (*cmd)(int, char **), char **argv, int argc)
{
	int to = memfd_create("out", MFD_CLOEXEC), said = memfd_create("err", MFD_CLOEXEC), status;
	pid_t child;

	fflush(stdout);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		dup2(to, STDOUT_FILENO);
		dup2(said, STDERR_FILENO);
		status = cmd(argc, argv);
		fflush(stdout);
		_exit(status);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	take(to, out, sizeof(out));
	take(said, err, sizeof(err));
	take(requests, asked, sizeof(asked));
	close(to);
	close(said);
	return WEXITSTATUS(status);
}

/* Words, cut at spaces; the socket's path is put behind the first @verbs of them. */
static int call(int (*cmd)(int, char **), int verbs, const char *line)
{
	char text[1024], *argv[WORDS_MAX] = { (char *)"exeat" }, *rest = text;
	int argc = 1;

	snprintf(text, sizeof(text), "%s", line);
	assert_int_equal(ftruncate(requests, 0), 0);
	assert_int_equal(lseek(requests, 0, SEEK_SET), 0);
	while (rest && *rest && argc < WORDS_MAX - 3) {
		char *word = strsep(&rest, " ");

		argv[argc++] = word;
		if (argc - 1 != verbs)
			continue;
		argv[argc++] = (char *)"--socket";
		argv[argc++] = path;
	}
	if (verbs == 0) {
		argv[argc++] = (char *)"--socket";
		argv[argc++] = path;
	}
	return run(cmd, argv, argc);
}

static void has(const char *where, const char *text)
{
	if (!strstr(where, text))
		fail_msg("\"%s\" is not in:\n%s", text, where);
}

static void status_shows_the_appliance_and_its_roles(void **state)
{
	(void)state;
	assert_int_equal(call(cmd_status, 0, ""), 0);
	has(out, "version        9.9\n");
	has(out, "boxes running  2\n");
	has(out, "log writable   no\n");
	has(out, "\nROLE    PID  STATE  CRASHES\nbroker  12   ready  1\n");
	assert_int_equal(call(cmd_status, 0, "--json"), 0);
	has(out, "{\"version\":\"9.9\",\"pid\":7,");
}

static void list_shows_a_table_that_no_name_can_break(void **state)
{
	(void)state;
	assert_int_equal(call(cmd_sandbox, 1, "list"), 0);
	has(out, "NAME");
	has(out, "de\\u001bv  running  web");
	has(out, "2.0 KiB");
	assert_int_equal(call(cmd_sandbox, 1, "list --json"), 0);
	assert_null(strchr(out, '\033'));
}

static void start_sends_what_was_said(void **state)
{
	char here[4096], text[4200];

	(void)state;
	assert_int_equal(call(cmd_sandbox, 1, "start one --policy web --workspace work --output /o -- curl -4 --json"), 0);
	assert_string_equal(out, "one: running\n");
	assert_non_null(getcwd(here, sizeof(here)));
	snprintf(text, sizeof(text), "{\"name\":\"one\",\"policy\":\"web\",\"workspace\":\"%s/work\",\"output\":\"/o\","
		 "\"command\":[\"curl\",\"-4\",\"--json\"]}", here);
	has(asked, text);
	has(asked, "content-type: application/json\r\n");
	assert_int_equal(call(cmd_sandbox, 1, "start one --policy p.yaml -- true"), 0);
	snprintf(text, sizeof(text), "\"policy_file\":\"%s/p.yaml\"", here);
	has(asked, text);
	assert_int_equal(call(cmd_sandbox, 1, "start one --policy /etc/p -- true"), 0);
	has(asked, "\"policy_file\":\"/etc/p\"");
}

static void start_wants_a_policy_and_a_command(void **state)
{
	(void)state;
	assert_int_equal(call(cmd_sandbox, 1, "start one -- true"), EX_USAGE);
	has(err, "--policy is needed");
	assert_int_equal(call(cmd_sandbox, 1, "start one --policy web"), EX_USAGE);
	has(err, "put it behind --");
	assert_string_equal(asked, "");
}

static void start_that_waits_ends_as_the_command_did(void **state)
{
	(void)state;
	assert_int_equal(call(cmd_sandbox, 1, "start one --wait --policy web -- true"), 3);
	assert_string_equal(out, "one: ended\n");
	has(asked, "GET /v1/sandboxes/one?wait=true ");
	assert_int_equal(call(cmd_sandbox, 1, "start bad --wait --policy web -- true"), 1);
	assert_string_equal(out, "bad: failed: so\n");
	assert_int_equal(call(cmd_sandbox, 1, "start one --wait --json --policy web -- true"), 3);
	assert_string_equal(out, "{\"name\":\"one\",\"state\":\"ended\",\"exit\":3}\n");
}

static void attach_names_a_namespace(void **state)
{
	(void)state;
	assert_int_equal(call(cmd_sandbox, 1, "attach one --netns /run/netns/x --policy web"), 0);
	has(asked, "{\"name\":\"one\",\"policy\":\"web\",\"netns\":\"/run/netns/x\"}");
	assert_int_equal(call(cmd_sandbox, 1, "attach one --policy web"), EX_USAGE);
	has(err, "--netns and --policy are needed");
}

static void inspect_and_stop_name_their_sandbox_encoded(void **state)
{
	(void)state;
	assert_int_equal(call(cmd_sandbox, 1, "inspect one"), 0);
	has(out, "bytes down  1 B\n");
	assert_int_equal(call(cmd_sandbox, 1, "inspect a/../b?x"), 1);
	has(asked, "GET /v1/sandboxes/a%2F..%2Fb%3Fx HTTP/1.1\r\n");
	has(err, "exeat sandbox inspect: refused (404): no\n");
	assert_int_equal(call(cmd_sandbox, 1, "stop one"), 0);
	has(asked, "DELETE /v1/sandboxes/one HTTP/1.1\r\n");
	assert_string_equal(out, "one: ended: stopped\n");
	assert_int_equal(call(cmd_sandbox, 1, "stop one --kill"), 0);
	has(asked, "DELETE /v1/sandboxes/one?kill=true HTTP/1.1\r\n");
}

/* What it does in a box that runs, tests/e2e/test_control.py shows. */
static void exec_enters_only_a_box_that_runs(void **state)
{
	(void)state;
	assert_int_equal(call(cmd_sandbox, 1, "exec one -- ls -l"), 1);
	has(asked, "{\"command\":[\"ls\",\"-l\"]}");
	has(err, "exeat sandbox exec: the box has not begun, or has ended\n");
	assert_int_equal(call(cmd_sandbox, 1, "exec odd -- ls"), 1);
	has(err, "the box has not begun");
	assert_int_equal(call(cmd_sandbox, 1, "exec one"), EX_USAGE);
}

static void requests_are_listed_shown_and_closed(void **state)
{
	(void)state;
	assert_int_equal(call(cmd_request, 1, "list"), 0);
	has(out, "NUMBER  STATE");
	has(out, "https://a/");
	assert_int_equal(call(cmd_request, 1, "list --closed"), 0);
	has(asked, "GET /v1/requests?closed=true ");
	assert_int_equal(call(cmd_request, 1, "show 3"), 0);
	has(out, "rule\n  - id: a\n    hosts: [b]\n");
	assert_int_equal(call(cmd_request, 1, "close 3 --note done"), 0);
	has(asked, "{\"note\":\"done\"}");
	assert_int_equal(call(cmd_request, 1, "show 03"), 0);
	has(asked, "GET /v1/requests/3 ");
	assert_int_equal(call(cmd_request, 1, "show x"), EX_USAGE);
	assert_int_equal(call(cmd_request, 1, "close 99999999999"), EX_USAGE);
}

static void reload_tells_what_changed(void **state)
{
	(void)state;
	assert_int_equal(call(cmd_reload, 0, ""), 0);
	has(asked, "\r\n\r\n{}");
	has(out, "changed       2\n");
	assert_int_equal(call(cmd_reload, 0, "--sandbox dev"), 0);
	has(asked, "{\"sandbox\":\"dev\"}");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(status_shows_the_appliance_and_its_roles),
		CASE(list_shows_a_table_that_no_name_can_break),
		CASE(start_sends_what_was_said),
		CASE(start_wants_a_policy_and_a_command),
		CASE(start_that_waits_ends_as_the_command_did),
		CASE(attach_names_a_namespace),
		CASE(inspect_and_stop_name_their_sandbox_encoded),
		CASE(exec_enters_only_a_box_that_runs),
		CASE(requests_are_listed_shown_and_closed),
		CASE(reload_tells_what_changed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
