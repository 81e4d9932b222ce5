#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "conf/sort.h"

static int by_number(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return x < y ? -1 : x > y;
}

static int by_high_half(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

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

/* Larger than what is swapped at once. */
struct wide {
	int number;
	char bytes[100];
};

static void items_of_any_size_are_sorted_whole(void **state)
{
	struct wide v[100];
	uint64_t numbers[100];

	(void)state;
	for (int i = 0; i < 100; i++) {
		v[i].number = (i * 37) % 100;
		memset(v[i].bytes, v[i].number, sizeof(v[i].bytes));
		numbers[i] = (uint64_t)(i * 61 % 100) << 32;
	}
	sort_items(v, 100, sizeof(v[0]), by_number);
	sort_items(numbers, 100, sizeof(numbers[0]), by_high_half);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(v[i].number, i);
		assert_int_equal(v[i].bytes[0], i);
		assert_int_equal(v[i].bytes[99], i);
		assert_true(numbers[i] == (uint64_t)i << 32);
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
		cmocka_unit_test(items_of_any_size_are_sorted_whole),
		cmocka_unit_test(nothing_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
