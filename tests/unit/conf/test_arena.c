#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "conf/arena.h"

static void pieces_are_zeroed_aligned_and_apart(void **state)
{
	struct arena a = { 0 };
	uint64_t *first = arena_take(&a, 3, sizeof(*first));
	uint64_t *second = arena_take(&a, 1, sizeof(*second));

	(void)state;
	assert_int_equal((uintptr_t)first % _Alignof(uint64_t), 0);
	assert_true(second >= first + 3);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(first[i], 0);
	arena_free(&a);
}

static void a_piece_larger_than_a_block_is_had(void **state)
{
	struct arena a = { 0 };
	char *p = arena_take(&a, 1 << 20, 1);

	(void)state;
	assert_non_null(p);
	p[(1 << 20) - 1] = 'x';
	assert_false(a.failed);
	arena_free(&a);
}

static void a_size_that_overflows_fails_and_stays_failed(void **state)
{
	struct arena a = { 0 };

	(void)state;
	assert_null(arena_take(&a, SIZE_MAX / 4, 16));
	assert_true(a.failed);
	assert_non_null(arena_take(&a, 1, 1));
	assert_true(a.failed);
	arena_free(&a);
}

static void copies_end_in_a_nul(void **state)
{
	struct arena a = { 0 };
	struct str s = arena_copy(&a, str_n("abcdef", 3)), empty = arena_copy(&a, STR_NONE);

	(void)state;
	assert_string_equal(s.p, "abc");
	assert_int_equal(s.n, 3);
	assert_non_null(empty.p);
	assert_int_equal(empty.n, 0);
	arena_free(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_are_zeroed_aligned_and_apart),
		cmocka_unit_test(a_piece_larger_than_a_block_is_had),
		cmocka_unit_test(a_size_that_overflows_fails_and_stays_failed),
		cmocka_unit_test(copies_end_in_a_nul),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
