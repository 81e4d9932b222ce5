#include "tests/unit/proxy/control_rig.h"

#include <jansson.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sysexits.h>

#include "proxy/control_client.h"
#include "tests/unit/proxy/said.h"

static char folder[] = "/tmp/exeat-client-XXXXXX";
static char path[64], said[SAID_MAX];
static pid_t server;
static struct control_reply reply;

static int setup(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/exeat-client-XXXXXX");
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/s", folder);
	server = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (server > 0) {
		kill(server, SIGKILL);
		waitpid(server, NULL, 0);
	}
	control_reply_free(&reply);
	memset(&reply, 0, sizeof(reply));
	(void)unlink(path);
	return rmdir(folder);
}

/* The real server, in a process of its own. */
static void start_server(void)
{
	int listener;

	assert_true(control_listen(path, (gid_t)-1, &listener));
	server = fork();
	assert_true(server >= 0);
	if (server == 0) {
		struct rig rig;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		rig_open(&rig, listener, (gid_t)-1);
		event_base_dispatch(rig.base);
		_exit(0);
	}
	close(listener);
}

/* One that answers every connection with these bytes and closes it. */
static void start_fake(const char *bytes, size_t n)
{
	int listener;

	assert_true(control_listen(path, (gid_t)-1, &listener));
	server = fork();
	assert_true(server >= 0);
	if (server == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;) {
			struct pollfd p = { .fd = listener, .events = POLLIN };
			char room[4096];
			int fd = poll(&p, 1, -1) == 1 ? accept(listener, NULL, NULL) : -1;

			(void)!recv(fd, room, sizeof(room), 0);
			(void)!send(fd, bytes, n, MSG_NOSIGNAL);
			close(fd);
		}
	}
	close(listener);
}

static int ask(const char *method, const char *target, const char *body)
{
	const struct control_ask a = { .command = "exeat test", .socket = path, .method = method,
				       .target = str_of(target), .body = str_of(body) };
	struct said s = said_begin();
	int status;

	control_reply_free(&reply);
	status = control_ask(&a, &reply);
	said_end(s, said);
	return status;
}

static void expect_said(const char *text)
{
	if (!strstr(said, text))
		fail_msg("\"%s\" is not in %s", text, said);
}

static void an_answer_comes_back(void **state)
{
	(void)state;
	start_server();
	assert_int_equal(ask("GET", "/v1/status", ""), EX_OK);
	assert_int_equal(reply.status, 200);
	assert_true(json_is_true(json_object_get(reply.json, "fine")));
	assert_string_equal(said, "");
	assert_int_equal(ask("POST", "/v1/things/a", "{\"text\":\"b\"}"), EX_OK);
	assert_string_equal(json_string_value(json_object_get(reply.json, "text")), "b");
}

static void a_refusal_is_told_with_all_of_its_errors(void **state)
{
	(void)state;
	start_server();
	assert_int_equal(ask("GET", "/v1/nothing", ""), EXIT_FAILURE);
	expect_said("exeat test: refused (404): there is nothing at this path");
	assert_int_equal(ask("POST", "/v1/things/a", "{\"txt\":\"b\",\"x\":\"\\u001b[2J\"}"), EXIT_FAILURE);
	expect_said("exeat test: refused (400): #/txt is not known here");
	expect_said("\n  #/text is missing: some text\n");
	assert_null(strchr(said, '\033'));
}

static void nobody_who_listens_is_69(void **state)
{
	int listener;

	(void)state;
	assert_int_equal(ask("GET", "/v1/status", ""), EX_UNAVAILABLE);
	snprintf(said + SAID_MAX / 2, SAID_MAX / 2,
		 "exeat test: no appliance listens on %s: start it with exeat serve, or name another with --socket\n",
		 path);
	assert_string_equal(said, said + SAID_MAX / 2);
	assert_true(control_listen(path, (gid_t)-1, &listener));
	close(listener);	/* its name stays */
	assert_int_equal(ask("GET", "/v1/status", ""), EX_UNAVAILABLE);
}

static void a_path_that_is_too_long_is_told(void **state)
{
	char longer[200];
	const struct control_ask a = { .command = "exeat test", .socket = longer, .method = "GET",
				       .target = STR("/") };
	struct said s = said_begin();

	(void)state;
	snprintf(longer, sizeof(longer), "/%0*d", 150, 0);
	assert_int_equal(control_ask(&a, &reply), EXIT_FAILURE);
	said_end(s, said);
	expect_said("too long");
}

static void what_is_no_appliance_is_told(void **state)
{
	static const struct {
		const char *bytes, *said;
	} answers[] = {
		{ "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]", "what answers there is no appliance" },
		{ "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n{}", "broke off its answer" },
		{ "SSH-2.0-OpenSSH_9.2\r\n", "exeat test: " },
		{ "", "broke off its answer" },
		{ "HTTP/1.1 500 Oops\r\ncontent-length: 2\r\n\r\n{}", "refused (500): the appliance does not say why" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		start_fake(answers[i].bytes, strlen(answers[i].bytes));
		assert_int_equal(ask("GET", "/v1/status", ""), EXIT_FAILURE);
		expect_said(answers[i].said);
		kill(server, SIGKILL);
		waitpid(server, NULL, 0);
		server = 0;
	}
}

static void an_answer_over_the_limit_is_given_up(void **state)
{
	size_t n = CONTROL_ANSWER_MAX + 256, head;
	char *bytes = malloc(n);

	(void)state;
	assert_non_null(bytes);
	memset(bytes, ' ', n);
	head = (size_t)snprintf(bytes, n, "HTTP/1.1 200 OK\r\ncontent-length: %u\r\n\r\n", CONTROL_ANSWER_MAX + 1);
	start_fake(bytes, head + CONTROL_ANSWER_MAX + 1);
	assert_int_equal(ask("GET", "/v1/status", ""), EXIT_FAILURE);
	expect_said("the answer is too large");
	free(bytes);
}

/* The appliance answers a body that it does not want before it has all of it. */
static void an_answer_that_comes_early_is_read(void **state)
{
	char *body = malloc(CONTROL_BODY_MAX + 1);

	(void)state;
	assert_non_null(body);
	memset(body, 'x', CONTROL_BODY_MAX);
	body[CONTROL_BODY_MAX] = '\0';
	start_server();
	assert_int_equal(ask("POST", "/v1/nothing", body), EXIT_FAILURE);
	expect_said("refused (404)");
	free(body);
}

static void what_is_not_plain_is_percent_encoded(void **state)
{
	struct buf out;

	(void)state;
	buf_init(&out, 64);
	control_encode(STR("aZ09-._~/ ?%\xc3"), &out);
	assert_true(str_eq(buf_str(&out), STR("aZ09-._~%2F%20%3F%25%C3")));
	buf_free(&out);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(an_answer_comes_back),
		CASE(a_refusal_is_told_with_all_of_its_errors),
		CASE(nobody_who_listens_is_69),
		CASE(a_path_that_is_too_long_is_told),
		CASE(what_is_no_appliance_is_told),
		CASE(an_answer_over_the_limit_is_given_up),
		CASE(an_answer_that_comes_early_is_read),
		CASE(what_is_not_plain_is_percent_encoded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
