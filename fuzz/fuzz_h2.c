/* An HTTP/2 peer that says whatever it likes, to a server or to a client of ours whose owners do all
 * that owners can do. Nothing breaks, what is kept stays within its limits, and a session that has
 * failed says so once.
 *
 * The first byte: 1 client, 2 the preface or settings come first, 4 the owners take nothing, 8 they
 * leave at once; the second: in how large pieces the bytes come. */
#include <assert.h>
#include <event2/event.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/h2.h"

#define REQUESTS 5

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct event_base *base;
static uint8_t manner;

static void wake(void *arg)
{
	(void)arg;
}

static void answer(struct h2_stream *s)
{
	struct fields f;

	fields_init(&f, 4096);
	fields_add(&f, STR("x-answer"), STR("yes"));
	if (s->id % 8 == 3)
		h2_send_interim(s, 103, &f);
	h2_answer(s, 200, &f);
	h2_hold(s, s->id % 16 == 5);
	h2_put(s, STR("a body"));
	h2_end(s, s->id % 16 == 1 ? &f : NULL);
	fields_free(&f);
}

static void on_opened(void *arg, struct h2_stream *s)
{
	(void)arg;
	assert(s->has_head && !s->reset && s->head.fields.n <= FIELDS_MAX);
	if (s->id % 32 == 9)
		h2_reset(s, H2_REFUSED_STREAM);
	else if (s->id % 4 == 1)
		answer(s);
	if (manner & 8)
		h2_leave(s);
}

static void on_moved(void *arg, struct h2_stream *s)
{
	(void)arg;
	assert(h2_body(s).n <= H2_STREAM_WINDOW);
	while (s->interims)
		h2_drop_interim(s);
	if (!(manner & 4))
		h2_take(s, h2_body(s).n);
	if (s->reset || (s->ended && s->id % 8 == 7))
		h2_leave(s);
}

static const struct h2_events events = { .opened = on_opened, .moved = on_moved };

static void ask(struct h2 *h)
{
	struct h2_request r = { .method = STR("POST"), .scheme = STR("https"),
				.authority = STR("api.test"), .path = STR("/") };

	for (int i = 0; i < REQUESTS; i++) {
		struct h2_stream *s = h2_request(h, NULL, &r);

		if (s && i % 2)
			h2_end(s, NULL);
		else if (s)
			h2_put(s, STR("a body"));
	}
}

static void pass(struct h2 *h, struct stream *s)
{
	struct buf *out = stream_out(s);

	stream_poll(s);
	h2_read(h);
	(void)h2_write(h);
	assert(stream_in(s).n == 0);
	assert(h2_count(h) <= H2_STREAMS_MAX);
	assert(!h2_failed(h) || (h2_over(h) && h2_count(h) == 0));
	assert(out->n < STREAM_OUT_MAX);
	stream_settle(s);
}

static void talk(struct h2 *h, struct stream *s, int other, struct str in, size_t step)
{
	char sink[65536];

	while (in.n) {
		size_t n = in.n < step ? in.n : step;
		ssize_t put = write(other, in.p, n);

		if (put <= 0)
			break;
		in = str_from(in, (size_t)put);
		pass(h, s);
		while (read(other, sink, sizeof(sink)) > 0)
			;
	}
}

static void run(struct str in, size_t step)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
	bool server = !(manner & 1);
	struct h2_setup setup = { .server = server, .events = &events, .max_headers = 4096,
				  .connect_protocol = true };
	int fds[2];
	struct h2 *h;

	assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
	setup.stream = stream_new(base, fds[0], wake, NULL);
	h = h2_new(&setup);
	assert(setup.stream && h);
	if (!server)
		ask(h);
	pass(h, setup.stream);
	if (manner & 2)
		talk(h, setup.stream, fds[1],
		     server ? str_n(preface, sizeof(preface)) : str_n(preface + 24, 9), 64);
	talk(h, setup.stream, fds[1], in, step);
	close(fds[1]);
	pass(h, setup.stream);
	assert(h2_failed(h));
	h2_free(h);
	stream_free(setup.stream);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!base) {
		signal(SIGPIPE, SIG_IGN);
		base = event_base_new();
	}
	if (size < 2)
		return 0;
	manner = data[0];
	run(str_n((const char *)data + 2, size - 2), (size_t)data[1] * 16 + 1);
	return 0;
}
