/* sandbox/lease.h - which name stands behind which synthetic address
 *
 * A table in a memfd, written by the supervisor alone, mapped read-only by the sandbox's worker
 * (and by its successor). Row i is the address lease_address(pool, i). A row is published by a
 * release store after it is complete, and never changes afterwards.
 *
 * Ownership   lease_table_create()/_map() own their mapping; lease_table_free().
 * Blocking    never.
 * Failure     ERR_FULL past LEASES_MAX.
 * Limits      LEASES_MAX names a sandbox, NAME_MAX_LEN bytes each.
 * Tests       tests/unit/sandbox/test_lease.c
 */
#ifndef SANDBOX_LEASE_H
#define SANDBOX_LEASE_H

#include "conf/addr.h"
#include "conf/err.h"

#define LEASES_MAX 4096
#define LEASE_NAME_MAX 253

struct lease_table;

/* The writer's side; *fd_ro is a descriptor that can only be mapped for reading. */
must_use enum err lease_table_create(const struct addr_range *pool, struct lease_table **out,
				     int *fd_ro);
must_use enum err lease_table_map(int fd_ro, const struct addr_range *pool,
				  struct lease_table **out);
void lease_table_free(struct lease_table *t);

/* Of row @i. */
uint32_t lease_address(const struct addr_range *pool, size_t i);
/* The address of the pool that belongs to nobody: what refused names are answered with. */
uint32_t lease_refusal_address(const struct addr_range *pool);
/* Finds or makes the lease of a name. Writer only. */
must_use enum err lease_get(struct lease_table *t, struct str name, uint32_t *address, bool *made);
/* The name behind an address; false where there is none. */
bool lease_name(const struct lease_table *t, uint32_t address, struct str *name);
/* The address of a name that has one; false where it has none. */
bool lease_find(const struct lease_table *t, struct str name, uint32_t *address);
size_t lease_count(const struct lease_table *t);

#endif
