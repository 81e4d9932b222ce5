#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "sandbox/ring.h"

/* As ring.c lays it out: what a hostile writer knows. */
#define HEADER_BYTES 4096u
#define AT_HEAD 0
#define AT_TAIL 64

struct both {
	struct ring *w, *r;
	struct ring_fds kept;	/* for a successor, and for hostile hands */
	unsigned char *map;
};

static struct ring_fds dup_fds(const struct ring_fds *f)
{
	return (struct ring_fds){ dup(f->memory), dup(f->wake), dup(f->room) };
}

static int open_both(void **state)
{
	struct both *b = calloc(1, sizeof(*b));
	struct ring_fds one, two;

	assert_non_null(b);
	assert_int_equal(ring_create(&b->kept), OK);
	one = dup_fds(&b->kept);
	two = dup_fds(&b->kept);
	assert_int_equal(ring_open_writer(&one, &b->w), OK);
	assert_int_equal(ring_open_reader(&two, &b->r), OK);
	b->map = mmap(NULL, HEADER_BYTES + RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, b->kept.memory, 0);
	assert_true(b->map != MAP_FAILED);
	*state = b;
	return 0;
}

static int close_both(void **state)
{
	struct both *b = *state;

	ring_close(b->w);
	ring_close(b->r);
	munmap(b->map, HEADER_BYTES + RING_BYTES);
	close(b->kept.memory);
	close(b->kept.wake);
	close(b->kept.room);
	free(b);
	return 0;
}

static bool readable(int fd)
{
	return poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 0) == 1;
}

static void set_position(struct both *b, size_t where, uint64_t v)
{
	memcpy(b->map + where, &v, sizeof(v));
}

/* A record of @n bytes that differ by @seed. */
static void fill(char *p, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (char)(seed * 31 + i * 7);
}

static void must_write(struct ring *w, size_t n, unsigned seed)
{
	static char bytes[RING_RECORD_MAX];

	fill(bytes, n, seed);
	assert_int_equal(ring_write(w, str_n(bytes, n)), OK);
}

static void must_read(struct ring *r, size_t n, unsigned seed)
{
	static char bytes[RING_RECORD_MAX];
	struct str s;

	fill(bytes, n, seed);
	assert_int_equal(ring_next(r, &s), OK);
	assert_int_equal(s.n, n);
	assert_memory_equal(s.p, bytes, n);
}

static void records_come_as_they_were_written(void **state)
{
	struct both *b = *state;
	struct str s;

	assert_int_equal(ring_next(b->r, &s), ERR_AGAIN);
	must_write(b->w, 1, 1);
	must_write(b->w, RING_RECORD_MAX, 2);
	must_read(b->r, 1, 1);
	must_read(b->r, RING_RECORD_MAX, 2);
	assert_int_equal(ring_next(b->r, &s), ERR_AGAIN);
}

static void a_record_of_no_bytes_or_too_many_is_refused(void **state)
{
	struct both *b = *state;
	static char big[RING_RECORD_MAX + 1];

	assert_int_equal(ring_write(b->w, STR_NONE), ERR_LIMIT);
	assert_int_equal(ring_write(b->w, str_n(big, sizeof(big))), ERR_LIMIT);
	assert_false(ring_has_room(b->w, RING_RECORD_MAX + 1));
}

/* The end of the ring falls on each byte of a record's length and of its bytes. */
static void records_wrap_at_every_position(void **state)
{
	struct both *b = *state;

	for (unsigned before_end = 0; before_end <= 40; before_end++) {
		uint64_t at = UINT64_C(5) * RING_BYTES - before_end;
		struct ring_fds one = dup_fds(&b->kept), two = dup_fds(&b->kept);
		struct ring *w, *r;

		set_position(b, AT_HEAD, at);
		set_position(b, AT_TAIL, at);
		assert_int_equal(ring_open_writer(&one, &w), OK);
		assert_int_equal(ring_open_reader(&two, &r), OK);
		must_write(w, 33, before_end);
		must_write(w, 3, before_end + 1);
		must_read(r, 33, before_end);
		must_read(r, 3, before_end + 1);
		ring_close(w);
		ring_close(r);
	}
}

#define HEAD 12	/* length and stamp */

static void a_full_ring_says_so_and_tells_when_there_is_room(void **state)
{
	struct both *b = *state;
	static char bytes[1000];
	unsigned n = 0;
	enum err e;

	while ((e = ring_write(b->w, str_n(bytes, sizeof(bytes)))) == OK)
		n++;
	assert_int_equal(e, ERR_FULL);
	assert_int_equal(n, RING_BYTES / (1000 + HEAD));
	assert_false(ring_has_room(b->w, 1000));
	assert_false(readable(ring_room_fd(b->w)));
	assert_true(ring_pressed(b->r));
	assert_int_equal(ring_write(b->w, STR("x")), RING_BYTES % (1000 + HEAD) > HEAD ? OK : ERR_FULL);
}

static void room_is_told_once_the_tail_moves(void **state)
{
	struct both *b = *state;
	struct str s;

	while (ring_has_room(b->w, 1000))
		must_write(b->w, 1000, 7);
	must_read(b->r, 1000, 7);
	assert_false(readable(ring_room_fd(b->w)));
	assert_false(ring_has_room(b->w, 1000));
	ring_advance(b->r);
	assert_true(readable(ring_room_fd(b->w)));
	ring_room_seen(b->w);
	assert_false(readable(ring_room_fd(b->w)));
	assert_true(ring_has_room(b->w, 1000));
	/* Nobody waits any more: no call for nothing. */
	assert_int_equal(ring_next(b->r, &s), OK);
	ring_advance(b->r);
	assert_false(readable(ring_room_fd(b->w)));
}

static void an_exactly_full_ring_is_read_back(void **state)
{
	struct both *b = *state;
	size_t left = RING_BYTES;
	unsigned n = 0;

	for (; left > 0; n++) {
		size_t take = left > 16384 + HEAD ? 16384 : left - HEAD;

		if (left - take - HEAD > 0 && left - take - HEAD <= HEAD)
			take -= 2 * HEAD;
		must_write(b->w, take, n);
		left -= take + HEAD;
	}
	assert_false(ring_has_room(b->w, 1));
	left = RING_BYTES;
	for (unsigned i = 0; i < n; i++) {
		size_t take = left > 16384 + HEAD ? 16384 : left - HEAD;

		if (left - take - HEAD > 0 && left - take - HEAD <= HEAD)
			take -= 2 * HEAD;
		must_read(b->r, take, i);
		left -= take + HEAD;
	}
	ring_advance(b->r);
	assert_true(ring_has_room(b->w, RING_RECORD_MAX));
}

static void a_stamp_stays_with_its_record_for_the_next_reader(void **state)
{
	struct both *b = *state;
	struct str s;
	uint64_t first;

	must_write(b->w, 10, 1);
	must_write(b->w, 20, 2);
	must_read(b->r, 10, 1);
	assert_int_equal(ring_stamp(b->r), 0);
	assert_false(ring_is_old(b->r));
	first = ring_position(b->r);
	must_read(b->r, 20, 2);
	ring_set_stamp(b->r, first, 77);
	ring_set_stamp(b->r, ring_position(b->r), 88);
	ring_rewind(b->r);
	must_read(b->r, 10, 1);
	assert_int_equal(ring_stamp(b->r), 77);
	must_read(b->r, 20, 2);
	assert_int_equal(ring_stamp(b->r), 88);
	assert_int_equal(ring_next(b->r, &s), ERR_AGAIN);
}

/* A place where a record comes round the ring's end is where its stamp may, too. */
static void stamps_come_round_the_rings_end(void **state)
{
	struct both *b = *state;

	for (unsigned i = 0; i < 3 * RING_BYTES / 1003; i++) {
		must_write(b->w, 991 + i % 7, i);
		must_read(b->r, 991 + i % 7, i);
		assert_int_equal(ring_stamp(b->r), 0);
		ring_set_stamp(b->r, ring_position(b->r), UINT64_MAX - i);
		ring_rewind(b->r);
		must_read(b->r, 991 + i % 7, i);
		assert_true(ring_stamp(b->r) == UINT64_MAX - i);
		ring_advance(b->r);
	}
}

static void who_waits_for_the_disk_is_woken_when_it_has_all(void **state)
{
	struct both *b = *state;
	uint64_t at;

	must_write(b->w, 10, 1);
	at = ring_written(b->w);
	assert_false(ring_synced(b->w, at));
	must_read(b->r, 10, 1);
	ring_set_synced(b->r);
	assert_false(ring_synced(b->w, at));	/* read, but not done with */
	ring_room_seen(b->w);
	assert_false(ring_synced(b->w, at));
	ring_advance(b->r);
	ring_room_seen(b->w);
	assert_false(ring_synced(b->w, at));
	ring_set_synced(b->r);
	assert_true(readable(ring_room_fd(b->w)));
	assert_true(ring_synced(b->w, at));
	/* Nor does a disk that fails leave anybody waiting. */
	must_write(b->w, 10, 2);
	ring_room_seen(b->w);
	assert_false(ring_synced(b->w, ring_written(b->w)));
	ring_set_refusing(b->r, true);
	assert_true(readable(ring_room_fd(b->w)));
}

static void the_reader_is_woken_only_when_it_waits(void **state)
{
	struct both *b = *state;
	struct str s;

	/* At first it has to look once. */
	assert_true(readable(ring_wake_fd(b->r)));
	ring_wake_seen(b->r);
	must_write(b->w, 10, 1);
	assert_false(readable(ring_wake_fd(b->r)));
	must_read(b->r, 10, 1);
	assert_int_equal(ring_next(b->r, &s), ERR_AGAIN);
	must_write(b->w, 10, 2);
	assert_true(readable(ring_wake_fd(b->r)));
	ring_wake_seen(b->r);
	must_write(b->w, 10, 3);
	assert_false(readable(ring_wake_fd(b->r)));
}

static void a_reader_that_lingers_is_woken_only_when_there_is_much(void **state)
{
	struct both *b = *state;
	struct str s;

	ring_wake_seen(b->r);
	ring_linger(b->r, true);
	assert_int_equal(ring_next(b->r, &s), ERR_AGAIN);
	must_write(b->w, 10, 1);
	assert_false(readable(ring_wake_fd(b->r)));
	for (size_t n = 0; n < RING_BYTES / 4; n += RING_RECORD_MAX)
		must_write(b->w, RING_RECORD_MAX, 2);
	assert_true(readable(ring_wake_fd(b->r)));
	ring_wake_seen(b->r);
	while (ring_next(b->r, &s) == OK)
		;
	ring_advance(b->r);
	/* It says that it will wait: then the next record wakes it. */
	ring_linger(b->r, false);
	assert_int_equal(ring_next(b->r, &s), ERR_AGAIN);
	must_write(b->w, 10, 3);
	assert_true(readable(ring_wake_fd(b->r)));
}

static void the_successor_of_a_reader_that_lingered_looks_once(void **state)
{
	struct both *b = *state;
	struct ring_fds again = dup_fds(&b->kept);
	struct ring *successor;
	struct str s;

	ring_wake_seen(b->r);
	ring_linger(b->r, true);
	assert_int_equal(ring_next(b->r, &s), ERR_AGAIN);
	must_write(b->w, 10, 1);
	assert_int_equal(ring_open_reader(&again, &successor), OK);
	assert_true(readable(ring_wake_fd(successor)));
	must_read(successor, 10, 1);
	ring_close(successor);
}

static void what_was_not_advanced_over_is_given_again_after_a_rewind(void **state)
{
	struct both *b = *state;

	must_write(b->w, 10, 1);
	must_write(b->w, 20, 2);
	must_read(b->r, 10, 1);
	ring_advance(b->r);
	must_read(b->r, 20, 2);
	ring_rewind(b->r);
	must_read(b->r, 20, 2);
}

static void death_of_the_reader_between_write_and_advance_gives_the_record_again(void **state)
{
	struct both *b = *state;
	struct ring_fds again = dup_fds(&b->kept);

	must_write(b->w, 10, 1);
	must_write(b->w, 20, 2);
	must_read(b->r, 10, 1);
	ring_advance(b->r);
	must_read(b->r, 20, 2);
	ring_close(b->r);
	assert_int_equal(ring_open_reader(&again, &b->r), OK);
	must_read(b->r, 20, 2);
}

static void death_of_the_writer_loses_nothing(void **state)
{
	struct both *b = *state;
	struct ring_fds again = dup_fds(&b->kept);

	must_write(b->w, 10, 1);
	ring_close(b->w);
	assert_int_equal(ring_open_writer(&again, &b->w), OK);
	must_write(b->w, 11, 2);
	must_read(b->r, 10, 1);
	must_read(b->r, 11, 2);
}

static void what_is_kept_stays_for_a_successor_but_is_not_given_again_by_a_rewind(void **state)
{
	struct both *b = *state;
	struct ring_fds again = dup_fds(&b->kept);

	must_write(b->w, 10, 1);
	must_write(b->w, 20, 2);
	must_write(b->w, 30, 3);
	must_read(b->r, 10, 1);
	must_read(b->r, 20, 2);
	ring_keep(b->r, ring_position(b->r));
	must_read(b->r, 30, 3);
	ring_advance(b->r);
	ring_rewind(b->r);
	must_write(b->w, 40, 4);
	must_read(b->r, 40, 4);
	ring_close(b->r);
	assert_int_equal(ring_open_reader(&again, &b->r), OK);
	must_read(b->r, 20, 2);
	must_read(b->r, 30, 3);
	must_read(b->r, 40, 4);
}

static void a_refusing_ring_takes_nothing_until_it_takes_again(void **state)
{
	struct both *b = *state;

	ring_set_refusing(b->r, true);
	assert_true(ring_refuses(b->w));
	assert_int_equal(ring_write(b->w, STR("x")), ERR_DENIED);
	ring_set_refusing(b->r, false);
	assert_false(ring_refuses(b->w));
	assert_int_equal(ring_write(b->w, STR("x")), OK);
}

static void the_end_of_what_was_begun_is_taken_while_it_refuses(void **state)
{
	struct both *b = *state;
	char big[RING_RECORD_MAX];
	struct str s;

	memset(big, 'x', sizeof(big));
	assert_int_equal(ring_write(b->w, STR("begin")), OK);
	ring_set_refusing(b->r, true);
	assert_int_equal(ring_write_end(b->w, STR("end")), OK);
	assert_int_equal(ring_next(b->r, &s), OK);
	assert_int_equal(ring_next(b->r, &s), OK);
	assert_true(str_eq(s, STR("end")));
	/* Full, it is no use to wait for room. */
	while (ring_has_room(b->w, sizeof(big)))
		assert_int_equal(ring_write_end(b->w, str_n(big, sizeof(big))), OK);
	assert_int_equal(ring_write_end(b->w, str_n(big, sizeof(big))), ERR_DENIED);
	ring_set_refusing(b->r, false);
	assert_int_equal(ring_write_end(b->w, str_n(big, sizeof(big))), ERR_FULL);
}

static void must_be_broken(struct both *b)
{
	struct str s;

	assert_int_equal(ring_next(b->r, &s), ERR_SYNTAX);
	/* For good: a writer that puts it right again has still lied. */
	set_position(b, AT_HEAD, 0);
	assert_int_equal(ring_next(b->r, &s), ERR_SYNTAX);
}

static void a_head_beyond_the_ring_breaks_it(void **state)
{
	set_position(*state, AT_HEAD, RING_BYTES + 1);
	must_be_broken(*state);
}

static void a_head_that_goes_back_breaks_it(void **state)
{
	struct both *b = *state;

	must_write(b->w, 10, 1);
	must_read(b->r, 10, 1);
	set_position(b, AT_HEAD, 3);
	must_be_broken(b);
}

static void a_head_within_a_length_breaks_it(void **state)
{
	set_position(*state, AT_HEAD, 3);
	must_be_broken(*state);
}

static void a_head_at_the_end_of_numbers_breaks_it(void **state)
{
	set_position(*state, AT_HEAD, UINT64_MAX);
	must_be_broken(*state);
}

static void lengths_that_cannot_be_break_it(void **state)
{
	static const uint32_t lengths[] = { 0, 7, RING_RECORD_MAX + 1, 0x80000000u, UINT32_MAX };

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct both *b = *state;
		struct ring_fds again = dup_fds(&b->kept);
		struct ring *r;
		struct str s;

		memcpy(b->map + HEADER_BYTES, &lengths[i], 4);
		/* Six bytes are there behind the length. */
		set_position(b, AT_HEAD, 10);
		set_position(b, AT_TAIL, 0);
		assert_int_equal(ring_open_reader(&again, &r), OK);
		assert_int_equal(ring_next(r, &s), ERR_SYNTAX);
		ring_close(r);
	}
}

static void a_writer_that_moves_the_tail_fools_only_itself(void **state)
{
	struct both *b = *state;
	struct str s;

	must_write(b->w, 10, 1);
	set_position(b, AT_TAIL, UINT64_MAX / 2);
	must_read(b->r, 10, 1);
	assert_int_equal(ring_next(b->r, &s), ERR_AGAIN);
	/* To the writer itself such a tail leaves no room. */
	assert_int_equal(ring_write(b->w, STR("x")), ERR_FULL);
	ring_advance(b->r);
	assert_int_equal(ring_write(b->w, STR("x")), OK);
}

static void memory_that_could_be_cut_short_is_refused(void **state)
{
	struct ring_fds fds = { memfd_create("x", MFD_ALLOW_SEALING), eventfd(0, 0), eventfd(0, 0) };
	struct ring *r;

	(void)state;
	assert_int_equal(ftruncate(fds.memory, HEADER_BYTES + RING_BYTES), 0);
	assert_int_equal(ring_open_reader(&fds, &r), ERR_SYNTAX);
}

static void memory_of_another_size_is_refused(void **state)
{
	struct ring_fds fds = { memfd_create("x", MFD_ALLOW_SEALING), eventfd(0, 0), eventfd(0, 0) };
	struct ring *r;

	(void)state;
	assert_int_equal(ftruncate(fds.memory, HEADER_BYTES), 0);
	assert_int_equal(fcntl(fds.memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
	assert_int_equal(ring_open_writer(&fds, &r), ERR_SYNTAX);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, open_both, close_both)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(records_come_as_they_were_written),
		CASE(a_record_of_no_bytes_or_too_many_is_refused),
		CASE(records_wrap_at_every_position),
		CASE(a_full_ring_says_so_and_tells_when_there_is_room),
		CASE(room_is_told_once_the_tail_moves),
		CASE(an_exactly_full_ring_is_read_back),
		CASE(a_stamp_stays_with_its_record_for_the_next_reader),
		CASE(stamps_come_round_the_rings_end),
		CASE(who_waits_for_the_disk_is_woken_when_it_has_all),
		CASE(the_reader_is_woken_only_when_it_waits),
		CASE(a_reader_that_lingers_is_woken_only_when_there_is_much),
		CASE(the_successor_of_a_reader_that_lingered_looks_once),
		CASE(what_was_not_advanced_over_is_given_again_after_a_rewind),
		CASE(death_of_the_reader_between_write_and_advance_gives_the_record_again),
		CASE(death_of_the_writer_loses_nothing),
		CASE(what_is_kept_stays_for_a_successor_but_is_not_given_again_by_a_rewind),
		CASE(a_refusing_ring_takes_nothing_until_it_takes_again),
		CASE(the_end_of_what_was_begun_is_taken_while_it_refuses),
		CASE(a_head_beyond_the_ring_breaks_it),
		CASE(a_head_that_goes_back_breaks_it),
		CASE(a_head_within_a_length_breaks_it),
		CASE(a_head_at_the_end_of_numbers_breaks_it),
		CASE(lengths_that_cannot_be_break_it),
		CASE(a_writer_that_moves_the_tail_fools_only_itself),
		cmocka_unit_test(memory_that_could_be_cut_short_is_refused),
		cmocka_unit_test(memory_of_another_size_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
