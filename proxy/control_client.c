#include "proxy/control_client.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sysexits.h>
#include <unistd.h>

#include "proxy/control.h"
#include "proxy/http1.h"
#include "proxy/show.h"

#define READ_ROOM 16384

/* ---- what went wrong ---- */

static int fail(const struct control_ask *ask, const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", ask->command, ask->socket, what);
	return EXIT_FAILURE;
}

static int fail_connect(const struct control_ask *ask, int code)
{
	if (code == ENOENT || code == ECONNREFUSED || code == ENOTDIR) {
		fprintf(stderr, "%s: no appliance listens on %s: start it with exeat serve, or name another with "
			"--socket\n", ask->command, ask->socket);
		return EX_UNAVAILABLE;
	}
	if (code == EACCES || code == EPERM)
		return fail(ask, "you may not control this appliance: use sudo, or become a member of the group that "
				 "its settings name as control.group");
	if (code == EAGAIN || code == ETIMEDOUT)
		return fail(ask, "the appliance does not take the connection: it is busy, or hangs");
	return fail(ask, strerror(code));
}

/* One line each, whatever is in them; a text of several lines keeps them. */
static void say(const char *before, const char *text)
{
	struct str rest = str_of(text);

	if (!text)
		return;
	fputs(before, stderr);
	while (rest.p) {
		show_text(stderr, str_cut(&rest, '\n'));
		fputc('\n', stderr);
	}
}

static int fail_refused(const struct control_ask *ask, const struct control_reply *reply)
{
	const json_t *errors = json_object_get(reply->json, "errors"), *one;
	const char *detail = json_string_value(json_object_get(reply->json, "detail"));
	size_t i;

	fprintf(stderr, "%s: refused (%u): ", ask->command, reply->status);
	say("", detail ? detail : "the appliance does not say why");
	if (json_array_size(errors) < 2)
		return EXIT_FAILURE;
	json_array_foreach(errors, i, one) {
		const char *at = json_string_value(json_object_get(one, "at"));

		fputs("  ", stderr);
		show_text(stderr, str_of(at ? at : ""));
		say(" ", json_string_value(json_object_get(one, "detail")));
	}
	return EXIT_FAILURE;
}

/* ---- sending ---- */

/* errno, or 0. */
static int connect_to(const struct control_ask *ask, int *fd)
{
	const struct timeval wait = { ask->patient ? 0 : CONTROL_ASK_MS / 1000, 0 };
	const struct timeval send_wait = { CONTROL_ASK_MS / 1000, 0 };
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	size_t n = strlen(ask->socket);

	if (n == 0 || n >= sizeof(to.sun_path))
		return ENAMETOOLONG;
	memcpy(to.sun_path, ask->socket, n + 1);
	*fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (*fd < 0 || setsockopt(*fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) < 0 ||
	    setsockopt(*fd, SOL_SOCKET, SO_SNDTIMEO, &send_wait, sizeof(send_wait)) < 0 ||
	    connect(*fd, (const struct sockaddr *)&to, sizeof(to)) < 0)
		return errno;
	return 0;
}

static void write_request(const struct control_ask *ask, struct buf *out)
{
	struct fields fields;
	char length[24];

	fields_init(&fields, CONTROL_HEAD_MAX);
	snprintf(length, sizeof(length), "%zu", ask->body.n);
	fields_add(&fields, STR("host"), STR("exeat"));
	if (ask->body.n) {
		fields_add(&fields, STR("content-type"), STR("application/json"));
		fields_add(&fields, STR("content-length"), str_of(length));
	}
	fields_add(&fields, STR("connection"), STR("close"));
	http1_write_request(out, str_of(ask->method), ask->target, &fields);
	buf_put_str(out, ask->body);
	fields_free(&fields);
}

/* What it could not be sent of is of no use; the answer says why it was not wanted. */
static void send_all(int fd, struct str s)
{
	while (s.n) {
		ssize_t n = send(fd, s.p, s.n, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		s = str_from(s, (size_t)n);
	}
}

/* ---- the answer ---- */

/* True: go on. */
static bool take_event(const struct http1_parser *p, enum http1_event e, struct control_reply *r)
{
	switch (e) {
	case H1_HEAD:
		r->status = http1_head(p)->status;
		return true;
	case H1_BODY:
		buf_put_str(&r->text, http1_body(p));
		return !r->text.failed;
	case H1_TRAILERS:
		return true;
	case H1_MORE:
	case H1_END:
	case H1_ERROR:
		break;
	}
	return false;
}

/* NULL: a whole answer is there. */
static const char *read_answer(int fd, struct http1_parser *p, struct control_reply *r)
{
	static const char broken[] = "the appliance broke off its answer";
	char room[READ_ROOM];

	for (;;) {
		ssize_t n = recv(fd, room, sizeof(room), 0);
		struct str in = str_n(room, n > 0 ? (size_t)n : 0);
		enum http1_event e;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return "the appliance does not answer in time";
		if (n <= 0)
			return http1_eof(p) == H1_END ? NULL : broken;
		do {
			e = http1_read(p, &in);
		} while (take_event(p, e, r));
		if (r->text.failed)
			return "the answer is too large";
		if (e == H1_END)
			return NULL;
		if (e == H1_ERROR)
			return http1_error(p);
	}
}

static int ask_on(const struct control_ask *ask, int fd, struct control_reply *reply)
{
	struct http1_parser *p = http1_new(true, CONTROL_HEAD_MAX);
	struct buf request;
	const char *wrong = "the request is too large";

	if (!p)
		return fail(ask, err_text(ERR_NOMEM));
	buf_init(&request, CONTROL_HEAD_MAX + CONTROL_TARGET_MAX + CONTROL_BODY_MAX);
	write_request(ask, &request);
	if (!request.failed) {
		send_all(fd, buf_str(&request));
		wrong = read_answer(fd, p, reply);
	}
	buf_free(&request);
	http1_free(p);
	if (wrong)
		return fail(ask, wrong);
	reply->json = json_loadb(reply->text.p, reply->text.n, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(reply->json))
		return fail(ask, "what answers there is no appliance");
	return reply->status / 100 == 2 ? EXIT_SUCCESS : fail_refused(ask, reply);
}

int control_ask(const struct control_ask *ask, struct control_reply *reply)
{
	int fd = -1, code, status;

	*reply = (struct control_reply){ 0 };
	buf_init(&reply->text, CONTROL_ANSWER_MAX);
	code = connect_to(ask, &fd);
	status = code ? fail_connect(ask, code) : ask_on(ask, fd, reply);
	if (fd >= 0)
		close(fd);
	return status;
}

void control_reply_free(struct control_reply *reply)
{
	json_decref(reply->json);
	buf_free(&reply->text);
}

void control_encode(struct str text, struct buf *out)
{
	for (size_t i = 0; i < text.n; i++) {
		char c = ascii_lower(text.p[i]);

		if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c && strchr("-._~", c)))
			buf_put_c(out, text.p[i]);
		else
			buf_printf(out, "%%%02X", (unsigned char)text.p[i]);
	}
}
