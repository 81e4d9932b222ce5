#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "conf/sort.h"

static int by_number(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return x < y ? -1 : x > y;
}

static void check(size_t n, unsigned seed)
{
	int numbers[200];
	const void *v[200];

	for (size_t i = 0; i < n; i++) {
		seed = seed * 1103515245u + 12345u;
		numbers[i] = (int)(seed >> 16) % 50;
		v[i] = &numbers[i];
	}
	sort_pointers(v, n, by_number);
	for (size_t i = 1; i < n; i++)
		assert_true(*(const int *)v[i - 1] <= *(const int *)v[i]);
}

static void every_length_is_sorted(void **state)
{
	(void)state;
	for (size_t n = 0; n <= 200; n++)
		check(n, (unsigned)n);
}

/* As qsort() does it. */
static void items_are_sorted_as_the_c_library_does_it(void **state)
{
	(void)state;
	for (unsigned n = 0; n <= 200; n++) {
		int got[200], wanted[200];

		for (unsigned i = 0; i < n; i++)
			got[i] = wanted[i] = (int)((i * 7919 + n * 104729) % 61) - 30;
		sort_items(got, n, sizeof(*got), by_number);
		qsort(wanted, n, sizeof(*wanted), by_number);
		assert_memory_equal(got, wanted, n * sizeof(*got));
	}
}

static void nothing_is_lost(void **state)
{
	int numbers[] = { 3, 1, 2, 3, 1 };
	const void *v[5];
	int sum = 0;

	(void)state;
	for (size_t i = 0; i < 5; i++)
		v[i] = &numbers[i];
	sort_pointers(v, 5, by_number);
	for (size_t i = 0; i < 5; i++) {
		sum += *(const int *)v[i];
		for (size_t j = 0; j < i; j++)
			assert_ptr_not_equal(v[i], v[j]);
	}
	assert_int_equal(sum, 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_length_is_sorted),
		cmocka_unit_test(items_are_sorted_as_the_c_library_does_it),
		cmocka_unit_test(nothing_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
