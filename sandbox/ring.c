/* Theory of operation
 *
 * One page of positions, then RING_BYTES of data. A position counts bytes since the beginning and
 * never wraps; its place is the position modulo RING_BYTES. A record is a u32 length, a u64 stamp,
 * which is the reader's to set, and its bytes.
 *
 * Each side keeps the position that it moves in memory of its own and only publishes it: the writer
 * its head, the reader its tail. What the other published is copied once and must lie within
 * RING_BYTES of one's own; a record's length must lie within what is published. The bytes are
 * copied out before they are looked at, since a hostile writer may change them meanwhile.
 *
 * The reader has three positions: read (what ring_next() gave), done (what is in the log) and tail
 * (what the writer may overwrite); tail is done, or earlier where something is kept.
 *
 * Waking costs a system call, so it is done only when asked for. Who is about to wait sets its flag
 * and then looks once more; who moves a position looks at the flag afterwards. Both are
 * sequentially consistent, so that one of the two sees the other. A reader finds the wake
 * descriptor readable: it looks once before it ever waits, whatever one before it has said. One
 * that lingers wants to be woken at LINGER_BYTES, or not at all.
 */
#include "sandbox/ring.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER_BYTES 4096u
#define MAP_BYTES (HEADER_BYTES + RING_BYTES)
#define LENGTH_BYTES 4u
#define STAMP_BYTES 8u
#define HEAD_BYTES (LENGTH_BYTES + STAMP_BYTES)
#define LINGER_BYTES (RING_BYTES / 4)
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

enum reader_waits { READER_LOOKS, READER_LINGERS, READER_WAITS };

/* Who writes what: head the writer; tail, synced and refusing the reader; the flags both. */
struct shared {
	_Alignas(64) _Atomic uint64_t head;
	_Alignas(64) _Atomic uint64_t tail;
	_Atomic uint64_t synced;
	_Atomic uint32_t refusing;
	_Alignas(64) _Atomic uint32_t reader_waits;
	_Atomic uint32_t writer_waits;
};

static_assert(sizeof(struct shared) <= HEADER_BYTES, "the positions fit into their page");
static_assert((RING_BYTES & (RING_BYTES - 1)) == 0, "a place is a position's low bits");

struct ring {
	struct shared *shared;
	char *data;
	struct ring_fds fds;
	uint64_t head;			/* the writer's own */
	uint64_t read, done, tail;	/* the reader's own */
	uint64_t position, keep, stamp;
	uint64_t old;			/* what lies before it was there at the beginning */
	bool lingers;
	bool broken;			/* at @broken_at: nothing beyond is ever given */
	uint64_t broken_at;
	char *scratch;
};

static void close_fds(const struct ring_fds *fds)
{
	if (fds->memory >= 0)
		close(fds->memory);
	if (fds->wake >= 0)
		close(fds->wake);
	if (fds->room >= 0)
		close(fds->room);
}

enum err ring_create(struct ring_fds *out)
{
	struct ring_fds fds = { .memory = memfd_create("exeat-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING),
				.wake = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK),
				.room = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };

	if (fds.memory < 0 || fds.wake < 0 || fds.room < 0 ||
	    ftruncate(fds.memory, MAP_BYTES) < 0 || fcntl(fds.memory, F_ADD_SEALS, SEALS) < 0) {
		close_fds(&fds);
		return ERR_SYSTEM;
	}
	*out = fds;
	return OK;
}

/* A map that the other side cannot make shorter under us. */
static bool is_ring_memory(int fd)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & SEALS) == SEALS && fstat(fd, &st) == 0 &&
	       st.st_size == MAP_BYTES;
}

static enum err open_ring(const struct ring_fds *fds, struct ring **out)
{
	struct ring *r = calloc(1, sizeof(*r));
	void *map = MAP_FAILED;
	enum err e = ERR_NOMEM;

	if (!r)
		goto out;
	r->scratch = malloc(RING_RECORD_MAX);
	if (!r->scratch)
		goto out;
	e = ERR_SYNTAX;
	if (!is_ring_memory(fds->memory))
		goto out;
	e = ERR_SYSTEM;
	map = mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fds->memory, 0);
	if (map == MAP_FAILED)
		goto out;
	r->shared = map;
	r->data = (char *)map + HEADER_BYTES;
	r->fds = *fds;
	r->keep = RING_KEEP_NOTHING;
	r->head = r->old = atomic_load(&r->shared->head);
	r->tail = r->done = r->read = r->position = atomic_load(&r->shared->tail);
	*out = r;
	return OK;
out:
	if (r)
		free(r->scratch);
	free(r);
	close_fds(fds);
	return e;
}

enum err ring_open_writer(const struct ring_fds *fds, struct ring **out)
{
	return open_ring(fds, out);
}


void ring_close(struct ring *r)
{
	if (!r)
		return;
	munmap(r->shared, MAP_BYTES);
	close_fds(&r->fds);
	free(r->scratch);
	free(r);
}

static void signal_fd(int fd)
{
	/* A counter that is full is readable already. */
	if (eventfd_write(fd, 1) < 0 && errno != EAGAIN)
		abort();
}

static void clear_fd(int fd)
{
	eventfd_t n;

	if (eventfd_read(fd, &n) < 0 && errno != EAGAIN)
		abort();
}

static void copy_in(struct ring *r, uint64_t at, const char *p, size_t n)
{
	size_t place = at & (RING_BYTES - 1);
	size_t first = n < RING_BYTES - place ? n : RING_BYTES - place;

	memcpy(r->data + place, p, first);
	memcpy(r->data, p + first, n - first);
}

static void copy_out(const struct ring *r, uint64_t at, char *p, size_t n)
{
	size_t place = at & (RING_BYTES - 1);
	size_t first = n < RING_BYTES - place ? n : RING_BYTES - place;

	memcpy(p, r->data + place, first);
	memcpy(p + first, r->data, n - first);
}

/* ---- the writer ---- */

/* Bytes free, 0 where the reader's tail cannot be. */
static size_t space(const struct ring *r)
{
	uint64_t used = r->head - atomic_load(&r->shared->tail);

	return used <= RING_BYTES ? (size_t)(RING_BYTES - used) : 0;
}

bool ring_has_room(const struct ring *r, size_t n)
{
	if (n > RING_RECORD_MAX)
		return false;
	if (space(r) >= n + HEAD_BYTES)
		return true;
	atomic_store(&r->shared->writer_waits, 1);
	return space(r) >= n + HEAD_BYTES;
}

uint64_t ring_written(const struct ring *r)
{
	return r->head;
}

static bool is_synced(const struct ring *r, uint64_t position)
{
	return atomic_load(&r->shared->synced) >= position;
}

bool ring_synced(const struct ring *r, uint64_t position)
{
	if (is_synced(r, position))
		return true;
	atomic_store(&r->shared->writer_waits, 1);
	return is_synced(r, position);
}

bool ring_refuses(const struct ring *r)
{
	return atomic_load(&r->shared->refusing) != 0;
}

static void wake_reader(struct ring *r)
{
	uint32_t waits = atomic_load(&r->shared->reader_waits);

	if (waits == READER_LOOKS ||
	    (waits == READER_LINGERS && RING_BYTES - space(r) < LINGER_BYTES))
		return;
	if (atomic_exchange(&r->shared->reader_waits, READER_LOOKS))
		signal_fd(r->fds.wake);
}

static enum err take(struct ring *r, struct str record)
{
	static const char no_stamp[STAMP_BYTES];
	uint32_t n = (uint32_t)record.n;

	if (record.n == 0 || record.n > RING_RECORD_MAX)
		return ERR_LIMIT;
	if (!ring_has_room(r, n))
		return ERR_FULL;
	copy_in(r, r->head, (const char *)&n, LENGTH_BYTES);
	copy_in(r, r->head + LENGTH_BYTES, no_stamp, STAMP_BYTES);
	copy_in(r, r->head + HEAD_BYTES, record.p, n);
	r->head += HEAD_BYTES + n;
	atomic_store(&r->shared->head, r->head);
	wake_reader(r);
	return OK;
}

enum err ring_write(struct ring *r, struct str record)
{
	return ring_refuses(r) ? ERR_DENIED : take(r, record);
}

/* Room that a log which cannot be written does not make is not waited for. */
enum err ring_write_end(struct ring *r, struct str record)
{
	enum err e = take(r, record);

	return e == ERR_FULL && ring_refuses(r) ? ERR_DENIED : e;
}

int ring_room_fd(const struct ring *r)
{
	return r->fds.room;
}

void ring_room_seen(struct ring *r)
{
	clear_fd(r->fds.room);
}

/* ---- the reader ---- */

enum err ring_open_reader(const struct ring_fds *fds, struct ring **out)
{
	enum err e = open_ring(fds, out);

	if (!e)
		signal_fd((*out)->fds.wake);
	return e;
}

/* Bytes published and not given yet. */
static uint64_t waiting(const struct ring *r)
{
	return atomic_load(&r->shared->head) - r->read;
}

static enum err broken(struct ring *r)
{
	r->broken = true;
	r->broken_at = r->read;
	return ERR_SYNTAX;
}

enum err ring_next(struct ring *r, struct str *record)
{
	uint64_t there;
	uint32_t n;

	if (r->broken && r->read == r->broken_at)
		return ERR_SYNTAX;
	there = waiting(r);
	if (there == 0) {
		atomic_store(&r->shared->reader_waits, r->lingers ? READER_LINGERS : READER_WAITS);
		there = waiting(r);
	}
	if (there == 0)
		return ERR_AGAIN;
	/* Never more than lies between the tail and where it comes round again. */
	if (there < HEAD_BYTES || there > RING_BYTES - (r->read - r->tail))
		return broken(r);
	copy_out(r, r->read, (char *)&n, LENGTH_BYTES);
	if (n == 0 || n > RING_RECORD_MAX || n > there - HEAD_BYTES)
		return broken(r);
	copy_out(r, r->read + LENGTH_BYTES, (char *)&r->stamp, STAMP_BYTES);
	copy_out(r, r->read + HEAD_BYTES, r->scratch, n);
	r->position = r->read;
	r->read += HEAD_BYTES + n;
	*record = str_n(r->scratch, n);
	return OK;
}

uint64_t ring_position(const struct ring *r)
{
	return r->position;
}

bool ring_is_old(const struct ring *r)
{
	return r->position < r->old;
}

uint64_t ring_stamp(const struct ring *r)
{
	return r->stamp;
}

void ring_set_stamp(struct ring *r, uint64_t position, uint64_t stamp)
{
	copy_in(r, position + LENGTH_BYTES, (const char *)&stamp, STAMP_BYTES);
}

static void tell_writer(struct ring *r)
{
	if (atomic_exchange(&r->shared->writer_waits, 0))
		signal_fd(r->fds.room);
}

void ring_advance(struct ring *r)
{
	r->done = r->read;
	r->tail = r->keep < r->done ? r->keep : r->done;
	atomic_store(&r->shared->tail, r->tail);
	tell_writer(r);
}

void ring_keep(struct ring *r, uint64_t position)
{
	r->keep = position < r->tail ? r->tail : position;
}

bool ring_pressed(const struct ring *r)
{
	return r->read - r->tail + waiting(r) > RING_BYTES / 2;
}

void ring_rewind(struct ring *r)
{
	r->read = r->position = r->done;
}

void ring_set_refusing(struct ring *r, bool refuse)
{
	/* Who waits is to hear of either. */
	if (atomic_exchange(&r->shared->refusing, refuse ? 1 : 0) != (refuse ? 1u : 0u) || !refuse)
		tell_writer(r);
}

void ring_set_synced(struct ring *r)
{
	atomic_store(&r->shared->synced, r->done);
	tell_writer(r);
}

void ring_linger(struct ring *r, bool linger)
{
	r->lingers = linger;
}

int ring_wake_fd(const struct ring *r)
{
	return r->fds.wake;
}

void ring_wake_seen(struct ring *r)
{
	clear_fd(r->fds.wake);
}
