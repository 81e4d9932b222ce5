/* conf/sort.h - sorts in place
 *
 * The qsort of this C library takes memory and asks the kernel how much there is, which a confined
 * role may not; this one does neither, and has no worst case.
 *
 * Ownership   none.       Blocking  never.       Failure  none.
 * Cost        n log n comparisons, whatever the order (heap sort). Not stable: @compare decides
 *             ties.
 * Tests       tests/unit/conf/test_sort.c
 */
#ifndef CONF_SORT_H
#define CONF_SORT_H

#include <stddef.h>

typedef int sort_compare(const void *a, const void *b);

void sort_pointers(const void **v, size_t n, sort_compare *compare);
/* @n items of @size bytes each; as the C library's qsort. */
void sort_items(void *v, size_t n, size_t size, sort_compare *compare);

#endif
