/* The whole way of a control request: bytes on a connection, read, judged by the real table of routes,
 * its fields read, answered. The first byte chooses how the rest is cut; the second, whether answers
 * come at once or later, and whether the client is still there then. Every request that a handler
 * gets is answered once, every answer is a whole message. */
#include <event2/event.h>
#include <jansson.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/control.h"
#include "proxy/control_api.h"
#include "proxy/http1.h"

#define HELD_MAX 16
#define PASSES_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct fuzz {
	struct event_base *base;
	struct control *control;
	struct control_request *held[HELD_MAX];
	unsigned n_held, answered;
	unsigned handled, done;
	bool later;
};

/* All that a handler is given can be read. */
static void look_at(const struct control_field *f, const void *args)
{
	volatile char sum = 0;

	for (; f->name; f++) {
		const char *at = (const char *)args + f->offset;
		const struct str *text = (const void *)at;
		const struct control_texts *texts = (const void *)at;

		if (f->type == CONTROL_TEXT) {
			if (text->n > f->max || (text->n && f->check && f->check(*text)))
				abort();
			for (size_t i = 0; i < text->n; i++)
				sum = (char)(sum ^ text->p[i]);
		} else if (f->type == CONTROL_NUMBER) {
			if (*(const uint64_t *)(const void *)at > f->max)
				abort();
		} else if (f->type == CONTROL_TEXTS) {
			if (texts->n > f->max)
				abort();
			for (size_t i = 0; i < texts->n; i++)
				for (size_t k = 0; k < texts->items[i].n; k++)
					sum = (char)(sum ^ texts->items[i].p[k]);
		}
	}
	(void)sum;
}

static void answer(struct control_request *rq, unsigned n)
{
	if (n & 1)
		control_answer(rq, 200, STR("{\"fine\":true}"));
	else
		control_refuse(rq, 409, "it is %s", "so");
}

static void handle(struct fuzz *f, struct control_request *rq, const struct control_field *fields,
		   const void *args)
{
	f->handled++;
	look_at(fields, args);
	control_about(rq, STR("about"));
	if (f->later && f->n_held < HELD_MAX)
		f->held[f->n_held++] = rq;
	else
		answer(rq, f->handled);
}

static void answer_held(struct fuzz *f)
{
	for (; f->answered < f->n_held; f->answered++)
		answer(f->held[f->answered], f->answered);
}

#define X(name, method, pattern, root, check) \
	static void on_##name(struct control_request *rq, const void *args, void *arg) \
	{ \
		handle(arg, rq, control_##name##_fields, args); \
	}
CONTROL_ROUTES(X)
#undef X

static const struct control_route routes[] = {
#define X(name, verb, path, root, together) \
	{ .method = verb, .pattern = path, .root_only = root, \
	  .args_size = sizeof(struct control_##name##_args), .fields = control_##name##_fields, \
	  .handler = on_##name, .check = together },
	CONTROL_ROUTES(X)
#undef X
	{ 0 },
};

static void on_done(void *arg, const struct control_done *d)
{
	struct fuzz *f = arg;

	if ((d->status >= 400) != (d->problem.n > 0))
		abort();
	f->done++;
}

/* What came back is whole answers, each a JSON object. */
static void check_answers(struct str in)
{
	struct http1_parser *p = http1_new(true, CONTROL_HEAD_MAX);
	enum http1_event e;
	struct buf body;

	buf_init(&body, CONTROL_ANSWER_MAX);
	while (p && (e = http1_read(p, &in)) != H1_MORE) {
		if (e == H1_ERROR)
			abort();
		if (e == H1_BODY)
			buf_put_str(&body, http1_body(p));
		if (e != H1_END)
			continue;
		if (http1_head(p)->status != 100) {
			json_t *j = json_loadb(body.p, body.n, JSON_REJECT_DUPLICATES, NULL);

			if (!json_is_object(j))
				abort();
			json_decref(j);
		}
		body.n = 0;
		http1_next(p, false);
	}
	buf_free(&body);
	http1_free(p);
}

static void take(int fd, struct buf *got)
{
	char room[4096];
	ssize_t n;

	while ((n = recv(fd, room, sizeof(room), 0)) > 0)
		buf_put(got, room, (size_t)n);
}

static void run(struct fuzz *f, struct str bytes, size_t step, bool leaves)
{
	struct buf got;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	buf_init(&got, 1u << 26);
	control_take(f->control, pair[1]);
	for (unsigned i = 0; i < PASSES_MAX && bytes.n; i++) {
		size_t want = i + 1 == PASSES_MAX || bytes.n < step ? bytes.n : step;
		ssize_t n = send(pair[0], bytes.p, want, MSG_NOSIGNAL);

		if (n < 0)
			break;
		bytes = str_from(bytes, (size_t)n);
		event_base_loop(f->base, EVLOOP_NONBLOCK);
		take(pair[0], &got);
	}
	if (leaves) {
		close(pair[0]);
		event_base_loop(f->base, EVLOOP_NONBLOCK);
	}
	for (unsigned i = 0; i < 4; i++) {
		answer_held(f);
		event_base_loop(f->base, EVLOOP_NONBLOCK);
		if (!leaves)
			take(pair[0], &got);
	}
	if (!leaves) {
		check_answers(buf_str(&got));
		close(pair[0]);
	}
	buf_free(&got);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct event_base *base;
	struct fuzz f = { 0 };
	struct control_config config = { .listener = -1, .group = (gid_t)-1, .routes = routes,
					 .on_done = on_done, .arg = &f };

	if (size < 2)
		return 0;
	if (!base)
		base = event_base_new();
	f.base = config.base = base;
	f.later = data[1] & 1;
	f.control = control_new(&config);
	if (!base || !f.control)
		abort();
	run(&f, str_n((const char *)data + 2, size - 2), 1 + (size_t)data[0] * 8, data[1] & 2);
	if (f.done < f.answered)
		abort();
	control_free(f.control);
	answer_held(&f);	/* they outlive the server */
	return 0;
}
