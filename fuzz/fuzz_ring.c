/* A ring as a hostile writer leaves it: positions and bytes are the input's. The reader gives records
 * within their limit, or says that the ring is broken, and ends in either case. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sandbox/ring.h"

#define HEADER_BYTES 4096u
#define AT_HEAD 0
#define AT_TAIL 64
#define POSITIONS 16

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

/* The bytes stand where the tail points to, also round the end. */
static void spoil(unsigned char *map, const unsigned char *data, size_t size)
{
	uint64_t tail;

	memcpy(map + AT_HEAD, data, 8);
	memcpy(map + AT_TAIL, data + 8, 8);
	memcpy(&tail, data + 8, 8);
	for (size_t i = POSITIONS; i < size; i++)
		map[HEADER_BYTES + ((tail + i - POSITIONS) & (RING_BYTES - 1))] = data[i];
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	struct ring_fds fds;
	struct ring *r;
	struct str record;
	unsigned char *map;

	if (size < POSITIONS || ring_create(&fds) != OK)
		return 0;
	map = mmap(NULL, HEADER_BYTES + RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fds.memory, 0);
	if (map == MAP_FAILED)
		abort();
	spoil(map, data, size);
	munmap(map, HEADER_BYTES + RING_BYTES);
	if (ring_open_reader(&fds, &r) != OK)
		abort();
	while (ring_next(r, &record) == OK) {
		volatile char last = record.p[record.n - 1];

		(void)last;
		if (record.n > RING_RECORD_MAX)
			abort();
		ring_advance(r);
	}
	ring_close(r);
	return 0;
}
