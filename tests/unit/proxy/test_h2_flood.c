#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proxy/h2_flood.h"

static void idle_frames_run_out_and_come_back_with_time(void **state)
{
	struct h2_flood f;

	(void)state;
	h2_flood_init(&f, 1000);
	for (unsigned i = 0; i < H2_IDLE_FRAMES_MAX; i++)
		assert_true(h2_flood_frame(&f, 1000));
	assert_false(h2_flood_frame(&f, 1000));
	for (unsigned i = 0; i < H2_IDLE_FRAMES_A_SECOND; i++)
		assert_true(h2_flood_frame(&f, 2000));
	assert_false(h2_flood_frame(&f, 2000));
	/* Never more than at first, however long it was. */
	for (unsigned i = 0; i < H2_IDLE_FRAMES_MAX; i++)
		assert_true(h2_flood_frame(&f, 1000000));
	assert_false(h2_flood_frame(&f, 1000000));
}

static void what_moves_bytes_may_go_on_for_ever(void **state)
{
	struct h2_flood f;

	(void)state;
	h2_flood_init(&f, 0);
	for (unsigned i = 0; i < 10 * H2_IDLE_FRAMES_MAX; i++) {
		assert_true(h2_flood_frame(&f, 0));
		assert_true(h2_flood_frame(&f, 0));
		h2_flood_moved(&f, 2);
	}
}

static void streams_may_be_broken_off_as_often_as_they_are_answered(void **state)
{
	struct h2_flood f;

	(void)state;
	h2_flood_init(&f, 0);
	for (unsigned i = 0; i < 10 * H2_BREAKS_MAX; i++) {
		assert_true(h2_flood_break(&f, 0));
		h2_flood_answered(&f);
	}
	for (unsigned i = 0; i < H2_BREAKS_MAX; i++)
		assert_true(h2_flood_break(&f, 0));
	assert_false(h2_flood_break(&f, 0));
	assert_true(h2_flood_break(&f, 1000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(idle_frames_run_out_and_come_back_with_time),
		cmocka_unit_test(what_moves_bytes_may_go_on_for_ever),
		cmocka_unit_test(streams_may_be_broken_off_as_often_as_they_are_answered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
