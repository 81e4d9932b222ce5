#include "tests/unit/proxy/control_rig.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

static struct rig rig;

static int setup(void **state)
{
	(void)state;
	rig_open(&rig, -1, (gid_t)-1);
	return 0;
}

/* For cases that wait for its patience to end. In the others a busy machine must not end it. */
static int setup_impatient(void **state)
{
	(void)state;
	rig_open_with(&rig, -1, (gid_t)-1, 150, 300);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_close(&rig);
	return 0;
}

#define POST(path, body) \
	"POST " path " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s"

static void post(const char *body, struct rig_answer *a)
{
	char text[2048];

	snprintf(text, sizeof(text), POST("/v1/things/one", ""), strlen(body), body);
	rig_ask(&rig, text, a);
}

/* ---- answers ---- */

static void a_request_is_answered_and_told(void **state)
{
	struct rig_answer a;

	(void)state;
	rig_ask(&rig, "GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n", &a);
	assert_int_equal(a.status, 200);
	assert_string_equal(a.body, "{\"fine\":true}");
	assert_non_null(strstr(a.head, "content-type: application/json\r\n"));
	assert_null(strstr(a.head, "connection: close"));
	assert_int_equal(rig.n_done, 1);
	assert_string_equal(rig_last(&rig)->method, "GET");
	assert_string_equal(rig_last(&rig)->path, "/v1/status");
	assert_string_equal(rig_last(&rig)->problem, "");
	assert_int_equal(rig_last(&rig)->peer.pid, getpid());
	assert_int_equal(rig_last(&rig)->peer.uid, getuid());
}

static void values_of_path_query_and_body_reach_the_handler(void **state)
{
	const char *body = "{\"text\":\"two\",\"words\":[\"a\",\"b\"],\"flag\":true}";
	struct rig_answer a;
	char text[1024];

	(void)state;
	snprintf(text, sizeof(text), POST("/v1/things/%%6fne?number=7", ""), strlen(body), body);
	rig_ask(&rig, text, &a);
	assert_int_equal(a.status, 201);
	assert_string_equal(a.body, "{\"name\":\"one\",\"text\":\"two\",\"words\":2,\"number\":7}");
	assert_string_equal(rig_last(&rig)->about, "one");
}

static void requests_follow_each_other_on_a_connection(void **state)
{
	struct rig_answer a;
	int fd = rig_client(&rig);

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		rig_say(&rig, fd, "GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n");
		rig_read(&rig, fd, &a);
		assert_int_equal(a.status, 200);
	}
	rig_say(&rig, fd, "GET /v1/nothing HTTP/1.1\r\nHost: x\r\n\r\nGET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n");
	rig_read(&rig, fd, &a);
	assert_int_equal(a.status, 404);
	rig_read(&rig, fd, &a);
	assert_int_equal(a.status, 200);
	rig_say(&rig, fd, "GET /v1/status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
	rig_read(&rig, fd, &a);
	assert_int_equal(a.status, 200);
	assert_non_null(strstr(a.head, "connection: close\r\n"));
	assert_true(rig_closed(&rig, fd));
	close(fd);
}

static void a_request_that_comes_byte_by_byte_is_read(void **state)
{
	const char *text = "GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n";
	struct rig_answer a;
	int fd = rig_client(&rig);

	(void)state;
	for (; *text; text++)
		rig_send(&rig, fd, text, 1);
	rig_read(&rig, fd, &a);
	assert_int_equal(a.status, 200);
	close(fd);
}

static void a_large_answer_goes_out_as_it_is_read(void **state)
{
	struct rig_answer a;
	char *big = malloc(CONTROL_ANSWER_MAX + 1);
	int fd = rig_client(&rig);

	(void)state;
	assert_non_null(big);
	memset(big, ' ', CONTROL_ANSWER_MAX + 1);
	rig.big = str_n(big, CONTROL_ANSWER_MAX);
	rig_say(&rig, fd, "GET /v1/big HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_int_equal(rig_read(&rig, fd, &a), CONTROL_ANSWER_MAX);
	assert_int_equal(a.status, 200);
	rig.big = str_n(big, CONTROL_ANSWER_MAX + 1);
	rig_say(&rig, fd, "GET /v1/big HTTP/1.1\r\nHost: x\r\n\r\n");
	rig_read(&rig, fd, &a);
	assert_int_equal(a.status, 500);
	close(fd);
	free(big);
}

static void a_body_is_asked_for_where_it_is_expected(void **state)
{
	struct rig_answer a;
	int fd = rig_client(&rig);

	(void)state;
	rig_say(&rig, fd, "POST /v1/things/one HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
			  "Content-Length: 14\r\nExpect: 100-continue\r\n\r\n");
	rig_read(&rig, fd, &a);
	assert_int_equal(a.status, 100);
	rig_say(&rig, fd, "{\"text\": \"x\"} ");
	rig_read(&rig, fd, &a);
	assert_int_equal(a.status, 201);
	close(fd);
}

/* ---- later ---- */

static int ask_later(void)
{
	int fd = rig_client(&rig);

	rig.held = NULL;
	rig_say(&rig, fd, "GET /v1/later HTTP/1.1\r\nHost: x\r\n\r\n");
	RIG_WAIT(&rig, rig.held);
	return fd;
}

static void an_answer_may_come_later(void **state)
{
	struct rig_answer a;
	int fd = ask_later();

	(void)state;
	for (unsigned i = 0; i < 200; i++)	/* longer than anything else may take */
		rig_pass(&rig);
	assert_int_equal(rig.n_done, 0);
	control_answer(rig.held, 200, STR("{}"));
	rig_read(&rig, fd, &a);
	assert_int_equal(a.status, 200);
	assert_int_equal(rig.gone, 0);
	close(fd);
}

static void a_client_that_left_is_told_of_and_its_request_stays_safe(void **state)
{
	int fd = ask_later();

	(void)state;
	close(fd);
	RIG_WAIT(&rig, rig.gone == 1);
	assert_int_equal(control_clients(rig.control), 1);	/* it counts until it is answered */
	control_answer(rig.held, 200, STR("{}"));
	assert_int_equal(control_clients(rig.control), 0);
	assert_int_equal(rig_last(&rig)->status, 200);
}

static void a_client_that_only_stopped_sending_is_answered(void **state)
{
	struct rig_answer a;
	int fd = ask_later();

	(void)state;
	shutdown(fd, SHUT_WR);
	for (unsigned i = 0; i < 5; i++)
		rig_pass(&rig);
	control_refuse(rig.held, 409, "it is %s", "so");
	rig_read(&rig, fd, &a);
	assert_int_equal(a.status, 409);
	assert_non_null(strstr(a.body, "\"detail\":\"it is so\""));
	assert_int_equal(rig.gone, 0);
	close(fd);
}

static void a_request_outlives_the_server(void **state)
{
	int fd = ask_later();
	struct rig other;

	(void)state;
	rig_open(&other, -1, (gid_t)-1);
	control_free(rig.control);
	rig.control = NULL;
	assert_int_equal(control_peer(rig.held).pid, getpid());
	control_answer(rig.held, 200, STR("{}"));
	assert_int_equal(rig.n_done, 0);
	close(fd);
	rig_close(&other);
}

/* ---- refusals ---- */

static void expect_refused(const char *text, unsigned status, const char *detail)
{
	struct rig_answer a;

	rig_ask(&rig, text, &a);
	assert_int_equal(a.status, status);
	assert_non_null(strstr(a.head, "content-type: application/problem+json\r\n"));
	if (!strstr(a.body, detail))
		fail_msg("\"%s\" is not in %s", detail, a.body);
	assert_int_equal(rig_last(&rig)->status, status);
	assert_string_not_equal(rig_last(&rig)->problem, "");
}

static void malformed_heads_are_refused(void **state)
{
	(void)state;
	expect_refused("GET /v1/status\r\n\r\n", 400, "\"status\":400");
	expect_refused("GET /v1/status HTTP/1.1\nHost: x\n\n", 400, "\"status\":400");
	expect_refused("GET /v1/status HTTP/1.1\r\n\r\n", 400, "no Host");
	expect_refused("GET /v1/status HTTP/2.0\r\nHost: x\r\n\r\n", 505, "\"status\":505");
	expect_refused("GET http://x/v1/status HTTP/1.1\r\nHost: x\r\n\r\n", 400, "write GET /v1/status");
	expect_refused("POST /v1/things/one HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
		       400, "several Content-Lengths");
}

static void what_is_not_there_is_404_and_names_what_is(void **state)
{
	(void)state;
	expect_refused("GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n", 404, "there are /v1/status, /v1/big");
	expect_refused("GET /v1/status/ HTTP/1.1\r\nHost: x\r\n\r\n", 404, "nothing at this path");
	expect_refused("GET /v1//status HTTP/1.1\r\nHost: x\r\n\r\n", 404, "nothing at this path");
	expect_refused("POST /v1/things/ HTTP/1.1\r\nHost: x\r\n\r\n", 404, "nothing at this path");
}

static void another_method_is_405_with_allow(void **state)
{
	struct rig_answer a;

	(void)state;
	rig_ask(&rig, "DELETE /v1/things/one HTTP/1.1\r\nHost: x\r\n\r\n", &a);
	assert_int_equal(a.status, 405);
	assert_non_null(strstr(a.head, "allow: POST\r\n"));
	assert_non_null(strstr(a.body, "it takes POST"));
}

static void bodies_that_are_no_json_object_are_refused(void **state)
{
	struct rig_answer a;

	(void)state;
	post("{\"text\": ", &a);
	assert_int_equal(a.status, 400);
	assert_non_null(strstr(a.body, "the body is no JSON"));
	post("[1]", &a);
	assert_non_null(strstr(a.body, "no JSON object"));
	post("{\"text\":\"a\",\"text\":\"b\"}", &a);
	assert_non_null(strstr(a.body, "duplicate"));
	post("{\"text\":[[[[[[[[1]]]]]]]]}", &a);
	assert_non_null(strstr(a.body, "levels deep"));
	post("{\"text\":\"a\\u0000b\"}", &a);
	assert_int_equal(a.status, 400);
	post("{\"text\":\"\xff\"}", &a);
	assert_int_equal(a.status, 400);
	expect_refused("POST /v1/things/one HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}",
		       415, "send content-type: application/json");
	expect_refused("POST /v1/things/one HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
		       "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411, "content-length");
}

static void all_errors_of_a_request_come_at_once(void **state)
{
	const char *body = "{\"tex\":1,\"words\":[1],\"flag\":7}";
	struct rig_answer a;
	char text[1024];

	(void)state;
	snprintf(text, sizeof(text), POST("/v1/things/no%%20name?number=10&x=1", ""), strlen(body), body);
	rig_ask(&rig, text, &a);
	assert_int_equal(a.status, 400);
	assert_non_null(strstr(a.body, "\"at\":\"#/tex\",\"detail\":\"is not known here: did you mean \\\"text\\\"?\""));
	assert_non_null(strstr(a.body, "\"at\":\"#/text\",\"detail\":\"is missing: some text\""));
	assert_non_null(strstr(a.body, "\"at\":\"#/words\""));
	assert_non_null(strstr(a.body, "\"at\":\"#/flag\",\"detail\":\"is neither true nor false: a choice\""));
	assert_non_null(strstr(a.body, "\"at\":\"{name}\",\"detail\":\"is a name"));
	assert_non_null(strstr(a.body, "\"at\":\"?number\",\"detail\":\"is no whole number from 1 to 9: how many\""));
	assert_non_null(strstr(a.body, "\"at\":\"?x\""));
	assert_non_null(strstr(a.body, "and 6 more"));
}

static void fields_that_do_not_go_together_are_refused(void **state)
{
	struct rig_answer a;

	(void)state;
	post("{\"text\":\"one\"}", &a);
	assert_int_equal(a.status, 400);
	assert_non_null(strstr(a.body, "\"detail\":\"name and text are the same\""));
}

/* ---- limits ---- */

static void a_target_over_the_limit_is_414(void **state)
{
	char *text = malloc(CONTROL_TARGET_MAX + 128);

	(void)state;
	assert_non_null(text);
	snprintf(text, CONTROL_TARGET_MAX + 128, "GET /%0*d HTTP/1.1\r\nHost: x\r\n\r\n", CONTROL_TARGET_MAX, 0);
	expect_refused(text, 414, "may have 4096 bytes, not 4097");
	free(text);
}

static void a_head_over_the_limit_is_431(void **state)
{
	char *text = malloc(CONTROL_HEAD_MAX + 128);

	(void)state;
	assert_non_null(text);
	snprintf(text, CONTROL_HEAD_MAX + 128, "GET /v1/status HTTP/1.1\r\nHost: x\r\nX: %0*d\r\n\r\n",
		 CONTROL_HEAD_MAX, 0);
	expect_refused(text, 431, "\"status\":431");
	free(text);
}

static void a_body_over_the_limit_is_413_before_it_is_sent(void **state)
{
	char text[256];

	(void)state;
	snprintf(text, sizeof(text), "POST /v1/things/one HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
		 "Content-Length: %u\r\n\r\n", CONTROL_BODY_MAX + 1);
	expect_refused(text, 413, "may have 262144 bytes, not 262145");
}

static void a_body_at_the_limit_is_read(void **state)
{
	char *body = malloc(CONTROL_BODY_MAX), head[256];
	struct rig_answer a;
	int fd = rig_client(&rig);

	(void)state;
	assert_non_null(body);
	memset(body, ' ', CONTROL_BODY_MAX);
	memcpy(body, "{\"text\":\"x\"}", 12);
	snprintf(head, sizeof(head), "POST /v1/things/one HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
		 "Content-Length: %u\r\n\r\n", CONTROL_BODY_MAX);
	rig_say(&rig, fd, head);
	rig_send(&rig, fd, body, CONTROL_BODY_MAX);
	rig_read(&rig, fd, &a);
	assert_int_equal(a.status, 201);
	close(fd);
	free(body);
}

static void what_follows_a_refused_head_is_read_past(void **state)
{
	char *body = calloc(1, CONTROL_BODY_MAX + 1), head[256];
	struct rig_answer a;
	int fd = rig_client(&rig);

	(void)state;
	assert_non_null(body);
	snprintf(head, sizeof(head), "POST /v1/things/one HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
		 "Content-Length: %u\r\n\r\n", CONTROL_BODY_MAX + 1);
	rig_say(&rig, fd, head);
	rig_send(&rig, fd, body, CONTROL_BODY_MAX + 1);	/* none of it fails */
	rig_read(&rig, fd, &a);
	assert_int_equal(a.status, 413);
	assert_true(rig_closed(&rig, fd));
	close(fd);
	free(body);
}

static void a_client_that_never_stops_sending_is_closed(void **state)
{
	static char bytes[1 << 16];
	size_t sent = 0;
	int fd = rig_client(&rig);

	(void)state;
	rig_say(&rig, fd, "nonsense\r\n\r\n");
	while (sent < (8u << 20)) {
		ssize_t n = send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN)
			break;
		sent += n > 0 ? (size_t)n : 0;
		rig_pass(&rig);
	}
	assert_true(sent < (8u << 20));
	assert_int_equal(control_clients(rig.control), 0);
	close(fd);
}

static void a_slow_head_is_408(void **state)
{
	struct rig_answer a;
	int fd = rig_client(&rig);

	(void)state;
	rig_say(&rig, fd, "GET /v1/status HTTP/1.1\r\nHost: x\r\n");
	rig_read(&rig, fd, &a);
	assert_int_equal(a.status, 408);
	assert_true(rig_closed(&rig, fd));
	assert_int_equal(rig_last(&rig)->status, 408);
	close(fd);
}

static void a_slow_body_is_408_however_it_trickles(void **state)
{
	struct rig_answer a;
	int fd = rig_client(&rig);

	(void)state;
	rig_say(&rig, fd, "POST /v1/things/one HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
			  "Content-Length: 262144\r\n\r\n");
	while (rig.n_done == 0)
		rig_send(&rig, fd, " ", 1);
	rig_read(&rig, fd, &a);
	assert_int_equal(a.status, 408);
	assert_string_equal(rig_last(&rig)->path, "/v1/things/one");
	close(fd);
}

static void a_client_that_does_not_read_its_answer_is_closed(void **state)
{
	char *big = calloc(1, CONTROL_ANSWER_MAX);
	int fd = rig_client(&rig);

	(void)state;
	assert_non_null(big);
	rig.big = str_n(big, CONTROL_ANSWER_MAX);
	rig_say(&rig, fd, "GET /v1/big HTTP/1.1\r\nHost: x\r\n\r\n");
	RIG_WAIT(&rig, control_clients(rig.control) == 0);
	assert_int_equal(rig.n_done, 1);
	close(fd);
	free(big);
}

static void an_idle_connection_is_closed(void **state)
{
	struct rig_answer a;
	int fd = rig_client(&rig);

	(void)state;
	assert_true(rig_closed(&rig, fd));
	close(fd);
	fd = rig_client(&rig);
	rig_say(&rig, fd, "GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n");
	rig_read(&rig, fd, &a);
	assert_true(rig_closed(&rig, fd));
	assert_int_equal(rig.n_done, 1);
	close(fd);
}

static void a_request_that_breaks_off_is_told(void **state)
{
	int fd = rig_client(&rig);

	(void)state;
	rig_say(&rig, fd, "GET /v1/sta");
	close(fd);
	RIG_WAIT(&rig, control_clients(rig.control) == 0);
	assert_int_equal(rig_last(&rig)->status, 400);
}

static void connections_over_the_limit_are_503(void **state)
{
	int fds[CONTROL_CLIENTS_MAX], one;
	unsigned limit = getuid() == 0 ? CONTROL_CLIENTS_MAX : CONTROL_CLIENTS_OF_USER;
	struct rig_answer a;

	(void)state;
	for (unsigned i = 0; i < limit; i++)
		fds[i] = rig_client(&rig);
	assert_int_equal(control_clients(rig.control), limit);
	one = rig_client(&rig);
	rig_read(&rig, one, &a);
	assert_int_equal(a.status, 503);
	assert_non_null(strstr(a.head, "retry-after: 1\r\n"));
	assert_true(rig_closed(&rig, one));
	close(one);
	close(fds[0]);
	RIG_WAIT(&rig, control_clients(rig.control) < limit);
	rig_ask(&rig, "GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n", &a);
	assert_int_equal(a.status, 200);
	for (unsigned i = 1; i < limit; i++)
		close(fds[i]);
}

/* ---- who may ask ---- */

#define OTHER_USER 65533u
#define OTHER_GROUP 65532u

/* Asks as another user, over a real socket; returns the connection. */
static int ask_as(const char *path, gid_t gid, const gid_t *more, size_t n, const char *text, pid_t *child)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int pair[2];

	snprintf(to.sun_path, sizeof(to.sun_path), "%s", path);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	*child = fork();
	assert_true(*child >= 0);
	if (*child == 0) {
		char bytes[4096];
		ssize_t got = -1;
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);

		if (setgroups(n, more) == 0 && setgid(gid) == 0 && setuid(OTHER_USER) == 0 &&
		    connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 &&
		    send(fd, text, strlen(text), MSG_NOSIGNAL) > 0)
			got = recv(fd, bytes, sizeof(bytes), 0);
		if (got > 0)
			got = send(pair[1], bytes, (size_t)got, MSG_NOSIGNAL);
		_exit(0);
	}
	close(pair[1]);
	assert_int_equal(fcntl(pair[0], F_SETFL, O_NONBLOCK), 0);
	return pair[0];
}

static unsigned status_as(const char *path, gid_t gid, const gid_t *more, size_t n, const char *text)
{
	struct rig_answer a;
	pid_t child;
	int fd = ask_as(path, gid, more, n, text, &child), status;

	rig_read(&rig, fd, &a);
	close(fd);
	assert_int_equal(waitpid(child, &status, 0), child);
	return a.status;
}

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

static void only_root_and_the_groups_members_may_ask(void **state)
{
	const gid_t more[] = { 1234, OTHER_GROUP };
	char folder[] = "/tmp/exeat-control-XXXXXX", path[64];
	const char *body = "POST /v1/things/one HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
			   "Content-Length: 27\r\n\r\n{\"text\":\"x\",\"flag\": false }";
	int listener;

	(void)state;
	if (getuid() != 0)
		skip();
	assert_non_null(mkdtemp(folder));
	assert_int_equal(chmod(folder, 0755), 0);
	snprintf(path, sizeof(path), "%s/s", folder);
	assert_true(control_listen(path, OTHER_GROUP, &listener));
	rig_close(&rig);
	rig_open(&rig, listener, OTHER_GROUP);

	assert_int_equal(status_as(path, OTHER_GROUP, NULL, 0, GET("/v1/status")), 200);
	assert_int_equal(rig_last(&rig)->peer.uid, OTHER_USER);
	assert_int_equal(status_as(path, OTHER_USER, more, 2, GET("/v1/status")), 200);
	assert_int_equal(status_as(path, OTHER_GROUP, NULL, 0, GET("/v1/root")), 403);
	assert_int_equal(status_as(path, OTHER_GROUP, NULL, 0, body), 403);
	assert_string_equal(rig_last(&rig)->problem, "#/flag may be given by root alone: a choice");
	/* The socket's mode keeps others out; where it does not, this does. */
	assert_int_equal(status_as(path, OTHER_USER, more, 1, GET("/v1/status")), 0);
	assert_int_equal(chmod(path, 0666), 0);
	assert_int_equal(status_as(path, OTHER_USER, more, 1, GET("/v1/status")), 403);
	assert_int_equal(status_as(path, OTHER_USER, NULL, 0, GET("/v1/status")), 403);
	assert_string_equal(rig_last(&rig)->path, "/v1/status");

	close(listener);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define IMPATIENT(name) cmocka_unit_test_setup_teardown(name, setup_impatient, teardown)
	const struct CMUnitTest tests[] = {
		CASE(a_request_is_answered_and_told),
		CASE(values_of_path_query_and_body_reach_the_handler),
		CASE(requests_follow_each_other_on_a_connection),
		CASE(a_request_that_comes_byte_by_byte_is_read),
		CASE(a_large_answer_goes_out_as_it_is_read),
		CASE(a_body_is_asked_for_where_it_is_expected),
		CASE(an_answer_may_come_later),
		CASE(a_client_that_left_is_told_of_and_its_request_stays_safe),
		CASE(a_client_that_only_stopped_sending_is_answered),
		CASE(a_request_outlives_the_server),
		CASE(malformed_heads_are_refused),
		CASE(what_is_not_there_is_404_and_names_what_is),
		CASE(another_method_is_405_with_allow),
		CASE(bodies_that_are_no_json_object_are_refused),
		CASE(all_errors_of_a_request_come_at_once),
		CASE(fields_that_do_not_go_together_are_refused),
		CASE(a_target_over_the_limit_is_414),
		CASE(a_head_over_the_limit_is_431),
		CASE(a_body_over_the_limit_is_413_before_it_is_sent),
		CASE(a_body_at_the_limit_is_read),
		CASE(what_follows_a_refused_head_is_read_past),
		IMPATIENT(a_client_that_never_stops_sending_is_closed),
		IMPATIENT(a_slow_head_is_408),
		IMPATIENT(a_slow_body_is_408_however_it_trickles),
		IMPATIENT(a_client_that_does_not_read_its_answer_is_closed),
		IMPATIENT(an_idle_connection_is_closed),
		CASE(a_request_that_breaks_off_is_told),
		CASE(connections_over_the_limit_are_503),
		CASE(only_root_and_the_groups_members_may_ask),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
