#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <event2/event.h>

#include "proxy/messages.h"
#include "sandbox/channel.h"

#define SIZE_MAX_OF_A_MESSAGE 512	/* what a channel decodes into */

static unsigned came;
static const char *ended;

static void on_message(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	(void)arg;
	(void)type;
	(void)msg;
	for (size_t i = 0; i < n_fds; i++)
		close(fds[i]);
	came++;
}

static void on_closed(void *arg, const char *why)
{
	(void)arg;
	ended = why;
}

static void every_row_is_sound(void **state)
{
	uint64_t types = 0;

	(void)state;
	for (const struct message_row *row = exeat_messages; row->type; row++) {
		size_t end = 0;
		uint64_t worst = 2;

		/* One row a type. */
		assert_in_range(row->type, 1, MSG_SANDBOX_LOST);
		assert_false(types & UINT64_C(1) << row->type);
		types |= UINT64_C(1) << row->type;
		assert_non_null(row->name);
		assert_true(row->size > 0 && row->size <= SIZE_MAX_OF_A_MESSAGE);
		assert_true(row->from <= ROLE_COUNT && row->to <= ROLE_COUNT && row->from != row->to);
		assert_true(row->phases != 0 && (row->phases & ~(unsigned)(PHASE_START | PHASE_RUN)) == 0);
		assert_true(row->fds_min <= row->fds_max && row->fds_max <= MESSAGE_FDS_MAX);
		for (const struct field *f = row->fields; f->kind != FIELD_END; f++) {
			assert_true(f < row->fields + MESSAGE_FIELDS_MAX - 1);
			/* In the order of the struct, within it, with a cap where there is a length. */
			assert_true(f->offset >= end && f->offset < row->size);
			end = f->offset + 1;
			assert_true((f->max > 0) == (f->kind == FIELD_STR || f->kind == FIELD_LIST));
			assert_true(f->kind != FIELD_LIST || f->max <= MESSAGE_LIST_MAX);
			worst += f->kind == FIELD_STR ? 4 + f->max : 8;
		}
		assert_true(worst <= MESSAGE_MAX);
	}
	assert_true(types == (UINT64_C(1) << (MSG_SANDBOX_LOST + 1)) - 2);
}

/* The smallest packet of a row: zeros. */
static size_t smallest(const struct message_row *row, unsigned char *out)
{
	size_t n = 2;

	for (const struct field *f = row->fields; f->kind != FIELD_END; f++)
		n += f->kind == FIELD_U8 ? 1 : f->kind == FIELD_U16 ? 2 : f->kind == FIELD_U64 ? 8 : 4;
	memset(out, 0, n);
	out[0] = (unsigned char)row->type;
	out[1] = (unsigned char)(row->type >> 8);
	return n;
}

static void send_packet(int fd, const unsigned char *bytes, size_t n, size_t n_fds)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(MESSAGE_FDS_MAX * sizeof(int))] = { 0 };
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
			memcpy(CMSG_DATA(h) + i * sizeof(int), &fd, sizeof(int));
	}
	assert_int_equal(sendmsg(fd, &m, 0), n);
}

/* What a channel between two roles says to this packet: how many came, and how it ended. */
static void offer(enum role from, enum role to, enum phase phase, const struct message_row *row, unsigned times,
		  size_t n_fds)
{
	struct channel_peer peer = { .self = to, .other = from, .table = exeat_messages,
				     .on_message = on_message, .on_closed = on_closed };
	struct event_base *base = event_base_new();
	unsigned char packet[256];
	size_t n = smallest(row, packet);
	struct channel *c;
	int fds[2];

	came = 0;
	ended = NULL;
	assert_int_equal(channel_pair(fds), OK);
	c = channel_new(base, fds[0], &peer);
	assert_non_null(c);
	channel_set_phase(c, phase);
	while (times--)
		send_packet(fds[1], packet, n, n_fds);
	channel_drain(c);
	channel_free(c);
	close(fds[1]);
	event_base_free(base);
}

static bool fits(enum role in_row, enum role there)
{
	return in_row == ROLE_ANY || in_row == there;
}

static void each_message_comes_only_from_its_sender_to_its_receiver_in_its_phase(void **state)
{
	static const enum phase phases[] = { PHASE_START, PHASE_RUN };

	(void)state;
	for (const struct message_row *row = exeat_messages; row->type; row++)
		for (enum role from = 0; from < ROLE_COUNT; from++)
			for (enum role to = 0; to < ROLE_COUNT; to++)
				for (size_t p = 0; p < 2; p++) {
					bool right = fits(row->from, from) && fits(row->to, to) &&
						     (row->phases & phases[p]);

					offer(from, to, phases[p], row, 1, row->fds_min);
					assert_int_equal(came, right);
					assert_int_equal(ended != NULL, !right);
				}
}

static enum role some(enum role r)
{
	return r == ROLE_ANY ? ROLE_BROKER : r;
}

static enum phase some_phase(const struct message_row *row)
{
	return row->phases & PHASE_RUN ? PHASE_RUN : PHASE_START;
}

static void each_message_has_as_many_descriptors_as_its_row_says(void **state)
{
	(void)state;
	for (const struct message_row *row = exeat_messages; row->type; row++)
		for (size_t n = 0; n <= MESSAGE_FDS_MAX; n++) {
			offer(some(row->from), some(row->to), some_phase(row), row, 1, n);
			assert_int_equal(came, n >= row->fds_min && n <= row->fds_max);
		}
}

static void what_may_come_once_comes_once(void **state)
{
	(void)state;
	for (const struct message_row *row = exeat_messages; row->type; row++) {
		offer(some(row->from), some(row->to), some_phase(row), row, 3, row->fds_min);
		assert_int_equal(came, row->once ? 1 : 3);
	}
}

static void no_secret_goes_to_anyone_but_a_worker(void **state)
{
	(void)state;
	for (const struct message_row *row = exeat_messages; row->type; row++)
		if (row->secret) {
			assert_int_equal(row->from, ROLE_BROKER);
			assert_int_equal(row->to, ROLE_WORKER);
		}
	assert_true(message_row(exeat_messages, MSG_GRANTED)->secret);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_row_is_sound),
		cmocka_unit_test(each_message_comes_only_from_its_sender_to_its_receiver_in_its_phase),
		cmocka_unit_test(each_message_has_as_many_descriptors_as_its_row_says),
		cmocka_unit_test(what_may_come_once_comes_once),
		cmocka_unit_test(no_secret_goes_to_anyone_but_a_worker),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
