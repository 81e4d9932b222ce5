/* Theory of operation
 *
 * The shared memory: how many leases there are, a hash of each name, and the rows. The writer fills
 * row and hash and then moves the count (release); a reader takes the count first (acquire) and
 * looks at what lies below it only, which never changes again. No lock, and a successor of a dead
 * worker finds all there was.
 *
 * Rows are found by address with arithmetic, by name with a scan of the hashes (16 KiB when full,
 * in sequence: about a microsecond). The hashes save comparisons and prove nothing: the name
 * decides.
 *
 * Seals: after the writer's own mapping nobody can map the memory for writing, write to it or
 * resize it, whichever descriptor of it they hold.
 */
#include "sandbox/lease.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)
/* The pool's first address is left alone, its second is the refusals'. */
#define FIRST_LEASE 2

struct row {
	uint8_t n;
	char name[255];
};

struct shared {
	_Atomic uint32_t count;
	uint32_t hash[LEASES_MAX];
	struct row row[LEASES_MAX];
};

struct lease_table {
	struct shared *shared;
	uint32_t first;		/* address of row 0 */
	uint32_t capacity;
	bool writer;
};

_Static_assert(LEASE_NAME_MAX <= UINT8_MAX, "a name's length fits its byte");
_Static_assert(sizeof(struct row) == 256, "rows without holes");

static uint32_t hash_of(struct str name)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < name.n; i++)
		h = (h ^ (uint8_t)name.p[i]) * 16777619u;
	return h;
}

uint32_t lease_refusal_address(const struct addr_range *pool)
{
	return addr_to_v4(&pool->net) + 1;
}

uint32_t lease_address(const struct addr_range *pool, size_t i)
{
	return addr_to_v4(&pool->net) + FIRST_LEASE + (uint32_t)i;
}

/* How many leases fit: all of the pool but its first two addresses and its last. */
static uint32_t capacity_of(const struct addr_range *pool)
{
	uint64_t addresses = pool->net.family == 4 && pool->bits <= 32 ?
			     UINT64_C(1) << (32 - pool->bits) : 0;

	if (addresses < FIRST_LEASE + 2)
		return 0;
	addresses -= FIRST_LEASE + 1;
	return addresses < LEASES_MAX ? (uint32_t)addresses : LEASES_MAX;
}

static enum err table_new(const struct addr_range *pool, struct lease_table **out)
{
	uint32_t capacity = capacity_of(pool);
	struct lease_table *t;

	if (capacity == 0)
		return ERR_LIMIT;
	t = calloc(1, sizeof(*t));
	if (!t)
		return ERR_NOMEM;
	t->first = lease_address(pool, 0);
	t->capacity = capacity;
	*out = t;
	return OK;
}

static enum err table_mmap(struct lease_table *t, int fd, int protection)
{
	void *p = mmap(NULL, sizeof(struct shared), protection, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return ERR_SYSTEM;
	t->shared = p;
	return OK;
}

enum err lease_table_create(const struct addr_range *pool, struct lease_table **out, int *fd_ro)
{
	struct lease_table *t;
	enum err e = table_new(pool, &t);
	int fd;

	if (e != OK)
		return e;
	t->writer = true;
	fd = memfd_create("exeat-leases", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, sizeof(struct shared)) < 0)
		e = ERR_SYSTEM;
	if (e == OK)
		e = table_mmap(t, fd, PROT_READ | PROT_WRITE);
	if (e == OK && fcntl(fd, F_ADD_SEALS, SEALS) < 0)
		e = ERR_SYSTEM;
	if (e != OK) {
		if (fd >= 0)
			close(fd);
		lease_table_free(t);
		return e;
	}
	*out = t;
	*fd_ro = fd;
	return OK;
}

enum err lease_table_map(int fd_ro, const struct addr_range *pool, struct lease_table **out)
{
	struct lease_table *t;
	struct stat st;
	int seals = fcntl(fd_ro, F_GET_SEALS);
	enum err e;

	if (seals < 0 || fstat(fd_ro, &st) < 0)
		return ERR_SYSTEM;
	/* One that could be cut short would end its reader by SIGBUS. */
	if (st.st_size != sizeof(struct shared) || !(seals & F_SEAL_SHRINK))
		return ERR_SYNTAX;
	e = table_new(pool, &t);
	if (e != OK)
		return e;
	e = table_mmap(t, fd_ro, PROT_READ);
	if (e != OK) {
		lease_table_free(t);
		return e;
	}
	*out = t;
	return OK;
}

void lease_table_free(struct lease_table *t)
{
	if (!t)
		return;
	if (t->shared)
		munmap(t->shared, sizeof(*t->shared));
	free(t);
}

size_t lease_count(const struct lease_table *t)
{
	uint32_t n = atomic_load_explicit(&t->shared->count, memory_order_acquire);

	return n < t->capacity ? n : t->capacity;
}

static struct str row_name(const struct row *r)
{
	return str_n(r->name, r->n <= LEASE_NAME_MAX ? r->n : LEASE_NAME_MAX);
}

bool lease_find(const struct lease_table *t, struct str name, uint32_t *address)
{
	uint32_t hash = hash_of(name);
	size_t n = lease_count(t);

	for (size_t i = 0; i < n; i++) {
		if (t->shared->hash[i] != hash || !str_eq(row_name(&t->shared->row[i]), name))
			continue;
		*address = t->first + (uint32_t)i;
		return true;
	}
	return false;
}

bool lease_name(const struct lease_table *t, uint32_t address, struct str *name)
{
	if (address < t->first || address - t->first >= lease_count(t))
		return false;
	*name = row_name(&t->shared->row[address - t->first]);
	return true;
}

enum err lease_get(struct lease_table *t, struct str name, uint32_t *address, bool *made)
{
	size_t n = lease_count(t);
	struct row *r;

	if (!t->writer)
		return ERR_DENIED;
	if (name.n == 0 || name.n > LEASE_NAME_MAX)
		return ERR_LIMIT;
	*made = false;
	if (lease_find(t, name, address))
		return OK;
	if (n == t->capacity)
		return ERR_FULL;
	r = &t->shared->row[n];
	memcpy(r->name, name.p, name.n);
	r->n = (uint8_t)name.n;
	t->shared->hash[n] = hash_of(name);
	atomic_store_explicit(&t->shared->count, (uint32_t)n + 1, memory_order_release);
	*address = t->first + (uint32_t)n;
	*made = true;
	return OK;
}
