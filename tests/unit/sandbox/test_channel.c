#include <dirent.h>
#include <event2/event.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "sandbox/channel.h"

enum { PLAIN = 1, EARLY, ONCE, WITH_FDS, SECRET, OTHER_WAY, FOR_ANYONE, BIG };

struct msg_text {
	struct str text;
};

#define ROW(type_, from_, to_, phases_, ...) \
	{ .type = (type_), .name = #type_, .from = (from_), .to = (to_), .phases = (phases_), \
	  .size = sizeof(struct msg_text), .fields = { F(struct msg_text, STR, text, MESSAGE_MAX) }, __VA_ARGS__ }

static const struct message_row table[] = {
	ROW(PLAIN, ROLE_WORKER, ROLE_SUPERVISOR, PHASE_RUN, .once = false),
	ROW(EARLY, ROLE_WORKER, ROLE_SUPERVISOR, PHASE_START, .once = false),
	ROW(ONCE, ROLE_WORKER, ROLE_SUPERVISOR, PHASE_RUN, .once = true),
	ROW(WITH_FDS, ROLE_WORKER, ROLE_SUPERVISOR, PHASE_RUN, .fds_min = 1, .fds_max = 2),
	ROW(SECRET, ROLE_WORKER, ROLE_SUPERVISOR, PHASE_RUN, .secret = true),
	ROW(OTHER_WAY, ROLE_SUPERVISOR, ROLE_WORKER, PHASE_RUN, .once = false),
	ROW(FOR_ANYONE, ROLE_ANY, ROLE_SUPERVISOR, PHASE_RUN, .once = false),
	ROW(BIG, ROLE_WORKER, ROLE_SUPERVISOR, PHASE_RUN, .once = false),
	{ 0 },
};

struct end {
	struct channel *c;
	unsigned messages, closed;
	uint16_t type;
	char text[64];
	size_t n_fds;
	const char *why;
	bool frees;
};

struct fixture {
	struct event_base *base;
	struct end sup, work;
	int raw;	/* the worker's end, for packets that no channel would send */
	size_t fds_before;
};

static size_t open_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	size_t n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void on_message(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	struct end *e = arg;
	const struct msg_text *m = msg;

	e->messages++;
	e->type = type;
	e->n_fds = n_fds;
	memcpy(e->text, m->text.p, m->text.n < sizeof(e->text) ? m->text.n : sizeof(e->text) - 1);
	e->text[m->text.n < sizeof(e->text) ? m->text.n : sizeof(e->text) - 1] = '\0';
	for (size_t i = 0; i < n_fds; i++)
		close(fds[i]);
	if (e->frees) {
		channel_free(e->c);
		e->c = NULL;
	}
}

static void on_closed(void *arg, const char *why)
{
	struct end *e = arg;

	e->closed++;
	e->why = why;
	if (e->frees) {
		channel_free(e->c);
		e->c = NULL;
	}
}

static struct channel *make(struct fixture *f, int fd, enum role self, enum role other, struct end *e)
{
	struct channel_peer peer = { .self = self, .other = other, .table = table, .on_message = on_message,
				     .on_closed = on_closed, .arg = e };
	struct channel *c = channel_new(f->base, fd, &peer);

	assert_non_null(c);
	channel_set_phase(c, PHASE_RUN);
	return c;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	int fds[2];

	f->fds_before = open_descriptors();
	f->base = event_base_new();
	assert_int_equal(channel_pair(fds), OK);
	f->raw = dup(fds[1]);
	f->sup.c = make(f, fds[0], ROLE_SUPERVISOR, ROLE_WORKER, &f->sup);
	f->work.c = make(f, fds[1], ROLE_WORKER, ROLE_SUPERVISOR, &f->work);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	channel_free(f->sup.c);
	channel_free(f->work.c);
	close(f->raw);
	event_base_free(f->base);
	assert_int_equal(open_descriptors(), f->fds_before);
	free(f);
	return 0;
}

static void turn(struct fixture *f)
{
	event_base_loop(f->base, EVLOOP_NONBLOCK);
}

static enum err send_text(struct channel *c, uint16_t type, const char *text)
{
	struct msg_text m = { str_of(text) };

	return channel_send(c, type, &m, NULL, 0);
}

/* A packet as a hostile worker makes it. */
static void send_raw(struct fixture *f, const char *bytes, size_t n, size_t n_fds)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(64 * sizeof(int))] = { 0 };
	struct iovec iov = { (void *)(uintptr_t)bytes, n };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n_fds) {
		struct cmsghdr *h;

		m.msg_control = control;
		m.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		h = CMSG_FIRSTHDR(&m);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		for (size_t i = 0; i < n_fds; i++)
			memcpy(CMSG_DATA(h) + i * sizeof(int), &f->raw, sizeof(int));
	}
	assert_int_equal(sendmsg(f->raw, &m, 0), n);
}

static void must_end(struct fixture *f, const char *why)
{
	turn(f);
	assert_int_equal(f->sup.messages, 0);
	assert_int_equal(f->sup.closed, 1);
	assert_string_equal(f->sup.why, why);
	/* Nothing more is looked at, not even what is right. */
	send_raw(f, "\x01\0\0\0\0\0", 6, 0);
	turn(f);
	channel_drain(f->sup.c);
	assert_int_equal(f->sup.messages, 0);
	assert_int_equal(f->sup.closed, 1);
	assert_int_equal(send_text(f->sup.c, OTHER_WAY, ""), ERR_CLOSED);
}

static void a_message_goes_through(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(send_text(f->work.c, PLAIN, "hello"), OK);
	turn(f);
	assert_int_equal(f->sup.messages, 1);
	assert_int_equal(f->sup.type, PLAIN);
	assert_string_equal(f->sup.text, "hello");
	assert_int_equal(send_text(f->sup.c, OTHER_WAY, "back"), OK);
	channel_drain(f->work.c);
	assert_string_equal(f->work.text, "back");
}

static void gathered_messages_come_in_order_in_one_packet(void **state)
{
	struct fixture *f = *state;

	channel_gather(f->work.c);
	channel_gather(f->sup.c);
	assert_int_equal(send_text(f->work.c, PLAIN, "one"), OK);
	assert_int_equal(send_text(f->work.c, SECRET, "two"), OK);
	assert_int_equal(send_text(f->work.c, PLAIN, "three"), OK);
	channel_drain(f->sup.c);
	assert_int_equal(f->sup.messages, 0);
	turn(f);
	turn(f);
	assert_int_equal(f->sup.messages, 3);
	assert_string_equal(f->sup.text, "three");
	assert_int_equal(channel_queued(f->work.c), 0);
}

static void several_messages_in_a_packet_end_a_peer_that_may_not_gather(void **state)
{
	struct fixture *f = *state;

	send_raw(f, "\x01\0\0\0\0\0\x01\0\0\0\0\0", 12, 0);
	must_end(f, "malformed message");
}

static void descriptors_with_several_messages_end_the_peer_and_are_closed(void **state)
{
	struct fixture *f = *state;

	channel_gather(f->sup.c);
	send_raw(f, "\x04\0\0\0\0\0\x04\0\0\0\0\0", 12, 1);
	must_end(f, "malformed message");
}

static void a_handler_may_free_a_channel_inside_a_gathered_packet(void **state)
{
	struct fixture *f = *state;

	channel_gather(f->sup.c);
	f->sup.frees = true;
	send_raw(f, "\x01\0\0\0\0\0\x01\0\0\0\0\0", 12, 0);
	turn(f);
	assert_int_equal(f->sup.messages, 1);
	assert_null(f->sup.c);
}

static void a_row_for_anyone_fits_whoever_stands_there(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(send_text(f->work.c, FOR_ANYONE, ""), OK);
	turn(f);
	assert_int_equal(f->sup.messages, 1);
	assert_int_equal(send_text(f->sup.c, FOR_ANYONE, ""), ERR_BUG);
}

static void an_unknown_message_ends_the_peer(void **state)
{
	send_raw(*state, "\x63\0\0\0\0\0", 6, 0);
	must_end(*state, "unknown message");
}

static void the_type_that_ends_a_table_is_no_message(void **state)
{
	send_raw(*state, "\0\0\0\0\0\0", 6, 0);
	must_end(*state, "unknown message");
}

static void a_message_in_the_wrong_direction_ends_the_peer(void **state)
{
	send_raw(*state, "\x06\0\0\0\0\0", 6, 0);
	must_end(*state, "message in the wrong direction");
}

static void a_message_in_the_wrong_phase_ends_the_peer(void **state)
{
	send_raw(*state, "\x02\0\0\0\0\0", 6, 0);
	must_end(*state, "message in the wrong phase");
}

static void a_repeated_message_ends_the_peer(void **state)
{
	struct fixture *f = *state;

	send_raw(f, "\x03\0\0\0\0\0", 6, 0);
	turn(f);
	assert_int_equal(f->sup.messages, 1);
	f->sup.messages = 0;
	send_raw(f, "\x03\0\0\0\0\0", 6, 0);
	must_end(f, "message repeated");
}

static void a_malformed_message_ends_the_peer(void **state)
{
	send_raw(*state, "\x01\0\x05\0\0\0abc", 9, 0);
	must_end(*state, "malformed message");
}

static void a_malformed_secret_ends_the_peer(void **state)
{
	send_raw(*state, "\x05\0\x05\0\0\0abc", 9, 0);
	must_end(*state, "malformed message");
}

static void one_byte_is_no_message(void **state)
{
	send_raw(*state, "\x01", 1, 0);
	must_end(*state, "message too short");
}

static void a_packet_over_the_limit_ends_the_peer(void **state)
{
	static char big[MESSAGE_MAX + 2] = "\x08";

	send_raw(*state, big, MESSAGE_MAX + 1, 0);
	must_end(*state, "message too long");
}

static void a_packet_cut_short_by_the_kernel_ends_the_peer(void **state)
{
	static char big[MESSAGE_MAX + 2] = "\x08";

	send_raw(*state, big, MESSAGE_MAX + 2, 0);
	must_end(*state, "message too long");
}

static void too_few_descriptors_end_the_peer(void **state)
{
	send_raw(*state, "\x04\0\0\0\0\0", 6, 0);
	must_end(*state, "wrong number of descriptors");
}

/* teardown() counts descriptors: those of a refused message are closed. */
static void too_many_descriptors_end_the_peer_and_are_closed(void **state)
{
	send_raw(*state, "\x04\0\0\0\0\0", 6, 3);
	must_end(*state, "wrong number of descriptors");
}

static void descriptors_with_a_message_that_has_none_are_closed(void **state)
{
	send_raw(*state, "\x01\0\0\0\0\0", 6, 1);
	must_end(*state, "wrong number of descriptors");
}

static void more_descriptors_than_any_message_has_end_the_peer_and_are_closed(void **state)
{
	send_raw(*state, "\x04\0\0\0\0\0", 6, MESSAGE_FDS_MAX + 1);
	must_end(*state, "message too long");
}

static void descriptors_of_a_malformed_message_are_closed(void **state)
{
	send_raw(*state, "\x04\0\x09\0\0\0", 6, 2);
	must_end(*state, "malformed message");
}

static void descriptors_come_with_their_message_and_stay_the_senders(void **state)
{
	struct fixture *f = *state;
	struct msg_text m = { STR("fds") };
	int fds[2] = { f->raw, f->raw };

	assert_int_equal(channel_send(f->work.c, WITH_FDS, &m, fds, 2), OK);
	turn(f);
	assert_int_equal(f->sup.n_fds, 2);
	assert_true(fcntl(f->raw, F_GETFD) >= 0);
}

static void what_may_not_be_sent_is_a_bug_of_the_sender(void **state)
{
	struct fixture *f = *state;
	struct msg_text m = { STR("") };
	int fds[3] = { f->raw, f->raw, f->raw };

	assert_int_equal(send_text(f->work.c, 99, ""), ERR_BUG);
	assert_int_equal(send_text(f->work.c, OTHER_WAY, ""), ERR_BUG);
	assert_int_equal(send_text(f->work.c, EARLY, ""), ERR_BUG);
	assert_int_equal(send_text(f->work.c, WITH_FDS, ""), ERR_BUG);
	assert_int_equal(channel_send(f->work.c, WITH_FDS, &m, fds, 3), ERR_BUG);
	assert_int_equal(channel_send(f->work.c, PLAIN, &m, fds, 1), ERR_BUG);
}

static void the_end_of_the_other_side_is_told_once(void **state)
{
	struct fixture *f = *state;

	channel_free(f->work.c);
	f->work.c = NULL;
	shutdown(f->raw, SHUT_RDWR);
	turn(f);
	turn(f);
	assert_int_equal(f->sup.closed, 1);
	assert_string_equal(f->sup.why, "end of file");
}

static void what_was_sent_before_the_end_still_comes(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(send_text(f->work.c, PLAIN, "last words"), OK);
	channel_free(f->work.c);
	f->work.c = NULL;
	shutdown(f->raw, SHUT_RDWR);
	turn(f);
	assert_int_equal(f->sup.messages, 1);
	assert_int_equal(f->sup.closed, 1);
}

static char *big_text(void)
{
	static char text[60001];

	memset(text, 'x', sizeof(text) - 1);
	return text;
}

static void a_full_socket_queues_in_order_up_to_the_limit(void **state)
{
	struct fixture *f = *state;
	unsigned sent = 0;
	enum err e;

	while ((e = send_text(f->work.c, BIG, big_text())) == OK) {
		sent++;
		if (channel_queued(f->work.c))
			break;
	}
	assert_int_equal(e, OK);
	/* Smaller ones do not overtake. */
	assert_int_equal(send_text(f->work.c, PLAIN, "behind"), OK);
	while ((e = send_text(f->work.c, BIG, big_text())) == OK)
		sent++;
	assert_int_equal(e, ERR_FULL);
	assert_true(channel_queued(f->work.c) <= CHANNEL_QUEUE_MAX);
	assert_true(channel_queued(f->work.c) > CHANNEL_QUEUE_MAX - 70000);
	for (unsigned i = 0; i < 2 * sent && channel_queued(f->work.c); i++)
		turn(f);
	turn(f);
	assert_int_equal(channel_queued(f->work.c), 0);
	assert_int_equal(f->sup.messages, sent + 1);
}

/* Its bytes are the least that a small message costs. */
static void small_messages_fill_the_queue_by_the_memory_that_they_take(void **state)
{
	const unsigned least = MESSAGE_FDS_MAX * sizeof(int) + 64;
	struct fixture *f = *state;
	unsigned queued = 0;
	enum err e;

	while ((e = send_text(f->work.c, PLAIN, "x")) == OK)
		queued += channel_queued(f->work.c) != 0;
	assert_int_equal(e, ERR_FULL);
	assert_true(queued > 1000);
	assert_true(queued < CHANNEL_QUEUE_MAX / least);
}

static void a_limit_of_its_own_holds_for_the_queue(void **state)
{
	const size_t limit = 64 << 10;
	struct fixture *f = *state;
	unsigned sent = 0;

	channel_set_limit(f->work.c, limit, SIZE_MAX);
	while (send_text(f->work.c, PLAIN, "x") == OK)
		sent++;
	assert_true(sent > 0);
	assert_true(channel_queued(f->work.c) <= limit);
	assert_true(channel_queued(f->work.c) > limit - 4096);
}

static void so_many_messages_may_wait(void **state)
{
	struct fixture *f = *state;
	unsigned waiting = 0;
	enum err e;

	channel_set_limit(f->work.c, CHANNEL_QUEUE_MAX, 10);
	while ((e = send_text(f->work.c, PLAIN, "x")) == OK)
		waiting += channel_queued(f->work.c) != 0;
	assert_int_equal(e, ERR_FULL);
	assert_int_equal(waiting, 10);
	for (unsigned i = 0; i < 100000 && channel_queued(f->work.c); i++)
		turn(f);
	assert_int_equal(send_text(f->work.c, PLAIN, "x"), OK);
}

static void queued_descriptors_have_a_limit_and_are_closed_with_the_channel(void **state)
{
	struct fixture *f = *state;
	struct msg_text m = { str_of(big_text()) };
	int fds[2] = { f->raw, f->raw };
	enum err e;

	while (channel_queued(f->work.c) == 0)
		assert_int_equal(send_text(f->work.c, BIG, big_text()), OK);
	m.text = STR("");
	for (unsigned i = 0; i < CHANNEL_QUEUE_FDS_MAX / 2; i++) {
		e = channel_send(f->work.c, WITH_FDS, &m, fds, 2);
		assert_int_equal(e, OK);
	}
	e = channel_send(f->work.c, WITH_FDS, &m, fds, 1);
	assert_int_equal(e, ERR_FULL);
	/* A message without descriptors still goes. */
	assert_int_equal(send_text(f->work.c, PLAIN, ""), OK);
}

static void queued_descriptors_arrive(void **state)
{
	struct fixture *f = *state;
	struct msg_text m = { STR("") };
	int fd = dup(f->raw);

	while (channel_queued(f->work.c) == 0)
		assert_int_equal(send_text(f->work.c, BIG, big_text()), OK);
	assert_int_equal(channel_send(f->work.c, WITH_FDS, &m, &fd, 1), OK);
	close(fd);	/* duplicated already */
	for (unsigned i = 0; i < 100 && f->sup.type != WITH_FDS; i++)
		turn(f);
	assert_int_equal(f->sup.type, WITH_FDS);
	assert_int_equal(f->sup.n_fds, 1);
}

static void a_handler_may_free_the_channel(void **state)
{
	struct fixture *f = *state;

	f->sup.frees = true;
	assert_int_equal(send_text(f->work.c, PLAIN, ""), OK);
	assert_int_equal(send_text(f->work.c, PLAIN, ""), OK);
	assert_int_equal(send_text(f->work.c, SECRET, ""), OK);
	turn(f);
	assert_int_equal(f->sup.messages, 1);
	assert_null(f->sup.c);
	assert_int_equal(f->sup.closed, 0);
}

static void a_handler_of_a_secret_may_free_the_channel(void **state)
{
	struct fixture *f = *state;

	f->sup.frees = true;
	assert_int_equal(send_text(f->work.c, SECRET, "s"), OK);
	channel_drain(f->sup.c);
	assert_int_equal(f->sup.messages, 1);
	assert_null(f->sup.c);
}

/* Pauses as soon as one has come. */
static void on_message_pause(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	struct end *e = arg;

	on_message(arg, type, msg, fds, n_fds);
	channel_pause(e->c, true);
}

static void a_paused_channel_hears_nothing_until_it_goes_on(void **state)
{
	struct fixture *f = *state;

	channel_pause(f->sup.c, true);
	for (int i = 0; i < 3; i++)
		assert_int_equal(send_text(f->work.c, PLAIN, "waits"), OK);
	turn(f);
	channel_drain(f->sup.c);
	assert_int_equal(f->sup.messages, 0);
	channel_pause(f->sup.c, false);
	turn(f);
	assert_int_equal(f->sup.messages, 3);
}

static void a_handler_may_pause_its_channel_between_two_packets(void **state)
{
	struct fixture *f = *state;
	struct channel_peer peer = { .self = ROLE_SUPERVISOR, .other = ROLE_WORKER, .table = table,
				     .on_message = on_message_pause, .on_closed = on_closed, .arg = &f->sup };
	int fds[2];

	assert_int_equal(channel_pair(fds), OK);
	channel_free(f->sup.c);
	channel_free(f->work.c);
	f->sup.c = channel_new(f->base, fds[0], &peer);
	channel_set_phase(f->sup.c, PHASE_RUN);
	f->work.c = make(f, fds[1], ROLE_WORKER, ROLE_SUPERVISOR, &f->work);
	assert_int_equal(send_text(f->work.c, PLAIN, "one"), OK);
	assert_int_equal(send_text(f->work.c, PLAIN, "two"), OK);
	turn(f);
	assert_int_equal(f->sup.messages, 1);
	channel_pause(f->sup.c, false);
	turn(f);
	assert_int_equal(f->sup.messages, 2);
	assert_string_equal(f->sup.text, "two");
}

static void the_end_of_a_paused_channel_is_heard_when_it_goes_on(void **state)
{
	struct fixture *f = *state;

	channel_pause(f->sup.c, true);
	channel_free(f->work.c);
	f->work.c = NULL;
	close(f->raw);
	f->raw = dup(0);
	turn(f);
	assert_int_equal(f->sup.closed, 0);
	channel_pause(f->sup.c, false);
	turn(f);
	assert_int_equal(f->sup.closed, 1);
	assert_true(channel_ended(f->sup.why));
	channel_pause(f->sup.c, true);
	channel_pause(f->sup.c, false);
	turn(f);
	assert_int_equal(f->sup.closed, 1);
}

static void the_closed_handler_may_free_the_channel(void **state)
{
	struct fixture *f = *state;

	f->sup.frees = true;
	send_raw(f, "\x63\0", 2, 0);
	turn(f);
	assert_int_equal(f->sup.closed, 1);
	assert_null(f->sup.c);
}

static void the_closed_handler_may_free_the_channel_when_a_write_fails(void **state)
{
	struct fixture *f = *state;

	f->work.frees = true;
	while (channel_queued(f->work.c) == 0)
		assert_int_equal(send_text(f->work.c, BIG, big_text()), OK);
	channel_free(f->sup.c);
	f->sup.c = NULL;
	turn(f);
	assert_int_equal(f->work.closed, 1);
	assert_null(f->work.c);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_message_goes_through),
		CASE(gathered_messages_come_in_order_in_one_packet),
		CASE(several_messages_in_a_packet_end_a_peer_that_may_not_gather),
		CASE(descriptors_with_several_messages_end_the_peer_and_are_closed),
		CASE(a_handler_may_free_a_channel_inside_a_gathered_packet),
		CASE(a_row_for_anyone_fits_whoever_stands_there),
		CASE(an_unknown_message_ends_the_peer),
		CASE(the_type_that_ends_a_table_is_no_message),
		CASE(a_message_in_the_wrong_direction_ends_the_peer),
		CASE(a_message_in_the_wrong_phase_ends_the_peer),
		CASE(a_repeated_message_ends_the_peer),
		CASE(a_malformed_message_ends_the_peer),
		CASE(a_malformed_secret_ends_the_peer),
		CASE(one_byte_is_no_message),
		CASE(a_packet_over_the_limit_ends_the_peer),
		CASE(a_packet_cut_short_by_the_kernel_ends_the_peer),
		CASE(too_few_descriptors_end_the_peer),
		CASE(too_many_descriptors_end_the_peer_and_are_closed),
		CASE(descriptors_with_a_message_that_has_none_are_closed),
		CASE(more_descriptors_than_any_message_has_end_the_peer_and_are_closed),
		CASE(descriptors_of_a_malformed_message_are_closed),
		CASE(descriptors_come_with_their_message_and_stay_the_senders),
		CASE(what_may_not_be_sent_is_a_bug_of_the_sender),
		CASE(the_end_of_the_other_side_is_told_once),
		CASE(what_was_sent_before_the_end_still_comes),
		CASE(a_full_socket_queues_in_order_up_to_the_limit),
		CASE(small_messages_fill_the_queue_by_the_memory_that_they_take),
		CASE(a_limit_of_its_own_holds_for_the_queue),
		CASE(so_many_messages_may_wait),
		CASE(queued_descriptors_have_a_limit_and_are_closed_with_the_channel),
		CASE(queued_descriptors_arrive),
		CASE(a_handler_may_free_the_channel),
		CASE(a_handler_of_a_secret_may_free_the_channel),
		CASE(a_paused_channel_hears_nothing_until_it_goes_on),
		CASE(a_handler_may_pause_its_channel_between_two_packets),
		CASE(the_end_of_a_paused_channel_is_heard_when_it_goes_on),
		CASE(the_closed_handler_may_free_the_channel),
		CASE(the_closed_handler_may_free_the_channel_when_a_write_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
