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
