#include "conf/sort.h"

static void swap(const void **v, size_t a, size_t b)
{
	const void *spare = v[a];

	v[a] = v[b];
	v[b] = spare;
}

static void sift_down(const void **v, size_t root, size_t n, sort_compare *compare)
{
	for (size_t child = 2 * root + 1; child < n; child = 2 * root + 1) {
		if (child + 1 < n && compare(v[child], v[child + 1]) < 0)
			child++;
		if (compare(v[root], v[child]) >= 0)
			return;
		swap(v, root, child);
		root = child;
	}
}

void sort_pointers(const void **v, size_t n, sort_compare *compare)
{
	for (size_t i = n / 2; i-- > 0;)
		sift_down(v, i, n, compare);
	for (size_t end = n; end-- > 1;) {
		swap(v, 0, end);
		sift_down(v, 0, end, compare);
	}
}

/* ---- items ---- */

struct items {
	unsigned char *v;
	size_t size;
	sort_compare *compare;
};

static void swap_items(const struct items *t, size_t a, size_t b)
{
	unsigned char *x = t->v + a * t->size, *y = t->v + b * t->size;

	for (size_t i = 0; i < t->size; i++) {
		unsigned char spare = x[i];

		x[i] = y[i];
		y[i] = spare;
	}
}

static int compare_items(const struct items *t, size_t a, size_t b)
{
	return t->compare(t->v + a * t->size, t->v + b * t->size);
}

static void sift_item_down(const struct items *t, size_t root, size_t n)
{
	for (size_t child = 2 * root + 1; child < n; child = 2 * root + 1) {
		if (child + 1 < n && compare_items(t, child, child + 1) < 0)
			child++;
		if (compare_items(t, root, child) >= 0)
			return;
		swap_items(t, root, child);
		root = child;
	}
}

void sort_items(void *v, size_t n, size_t size, sort_compare *compare)
{
	const struct items t = { .v = v, .size = size, .compare = compare };

	for (size_t i = n / 2; i-- > 0;)
		sift_item_down(&t, i, n);
	for (size_t end = n; end-- > 1;) {
		swap_items(&t, 0, end);
		sift_item_down(&t, 0, end);
	}
}
