#include "broker/locked.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What stands before the caller's bytes, keeping them aligned for anything. */
struct head {
	_Alignas(16) size_t mapped;
};

static struct spare {
	struct head *head;
	size_t size;
} spares[LOCKED_SPARE_MAX];
static size_t n_spares;

/* In a forked child a spare one is neither locked nor says how large it is. */
static struct head *take_spare(size_t size)
{
	for (size_t i = n_spares; i-- > 0;) {
		struct spare s = spares[i];

		if (s.size != size)
			continue;
		spares[i] = spares[--n_spares];
		if (s.head->mapped == size)
			return s.head;
		munmap(s.head, size);
	}
	return NULL;
}

static bool keep_spare(struct head *h, size_t size)
{
	if (size > LOCKED_SPARE_BYTES || n_spares == LOCKED_SPARE_MAX)
		return false;
	h->mapped = size;
	spares[n_spares++] = (struct spare){ h, size };
	return true;
}

void *locked_new(size_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), size;
	struct head *h;

	if (n > SIZE_MAX - sizeof(*h) - page)
		return NULL;
	size = (n + sizeof(*h) + page - 1) / page * page;
	h = take_spare(size);
	if (h)
		return h + 1;
	h = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (h == MAP_FAILED)
		return NULL;
	if (mlock(h, size) < 0 || madvise(h, size, MADV_DONTDUMP) < 0 ||
	    madvise(h, size, MADV_WIPEONFORK) < 0) {
		munmap(h, size);
		return NULL;
	}
	h->mapped = size;
	return h + 1;
}

void locked_free(void *p)
{
	struct head *h = p;
	size_t size;

	if (!p)
		return;
	h--;
	size = h->mapped;
	/* A forked child finds zeros here: nothing to wipe, and no size to unmap by. */
	if (size == 0)
		return;
	explicit_bzero(h, size);
	if (!keep_spare(h, size))
		munmap(h, size);
}
