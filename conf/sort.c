#include "conf/sort.h"

#include <stdbool.h>
#include <string.h>

struct items {
	char *v;
	size_t size;
	bool pointers;	/* what is compared is what they point to */
	sort_compare *compare;
};

static char *item(const struct items *s, size_t i)
{
	return s->v + i * s->size;
}

static int order(const struct items *s, size_t a, size_t b)
{
	const void *p = item(s, a), *q = item(s, b);

	if (s->pointers) {
		p = *(const void *const *)p;
		q = *(const void *const *)q;
	}
	return s->compare(p, q);
}

static void swap(const struct items *s, size_t a, size_t b)
{
	char spare[64], *p = item(s, a), *q = item(s, b);

	for (size_t left = s->size; left;) {
		size_t n = left < sizeof(spare) ? left : sizeof(spare);

		memcpy(spare, p, n);
		memcpy(p, q, n);
		memcpy(q, spare, n);
		p += n;
		q += n;
		left -= n;
	}
}

static void sift_down(const struct items *s, size_t root, size_t n)
{
	for (size_t child = 2 * root + 1; child < n; child = 2 * root + 1) {
		if (child + 1 < n && order(s, child, child + 1) < 0)
			child++;
		if (order(s, root, child) >= 0)
			return;
		swap(s, root, child);
		root = child;
	}
}

static void heap_sort(const struct items *s, size_t n)
{
	for (size_t i = n / 2; i-- > 0;)
		sift_down(s, i, n);
	for (size_t end = n; end-- > 1;) {
		swap(s, 0, end);
		sift_down(s, 0, end);
	}
}

void sort_items(void *v, size_t n, size_t size, sort_compare *compare)
{
	heap_sort(&(struct items){ v, size, false, compare }, n);
}

void sort_pointers(const void **v, size_t n, sort_compare *compare)
{
	heap_sort(&(struct items){ (char *)v, sizeof(*v), true, compare }, n);
}
