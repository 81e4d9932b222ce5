#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "sandbox/lease.h"

struct pair {
	struct addr_range pool;
	struct lease_table *writer, *reader;
	int fd;
};

static void open_pair(struct pair *p, const char *pool)
{
	assert_true(addr_range_parse(str_of(pool), &p->pool));
	assert_int_equal(lease_table_create(&p->pool, &p->writer, &p->fd), OK);
	assert_int_equal(lease_table_map(p->fd, &p->pool, &p->reader), OK);
}

static void close_pair(struct pair *p)
{
	lease_table_free(p->writer);
	lease_table_free(p->reader);
	close(p->fd);
}

static struct str numbered(char out[32], unsigned i)
{
	int n = snprintf(out, 32, "host-%u.test", i);

	return str_n(out, (size_t)n);
}

static void one_name_has_one_address(void **state)
{
	uint32_t first, second, again;
	struct pair p;
	bool made;

	(void)state;
	open_pair(&p, "198.18.0.0/15");
	assert_int_equal(lease_get(p.writer, STR("api.test"), &first, &made), OK);
	assert_true(made);
	assert_int_equal(lease_get(p.writer, STR("b.test"), &second, &made), OK);
	assert_int_not_equal(first, second);
	assert_int_equal(lease_get(p.writer, STR("api.test"), &again, &made), OK);
	assert_false(made);
	assert_int_equal(first, again);
	assert_int_equal(lease_count(p.writer), 2);
	close_pair(&p);
}

static void reader_sees_what_was_made_after_it_mapped(void **state)
{
	uint32_t made_address, address;
	struct str name;
	struct pair p;
	bool made;

	(void)state;
	open_pair(&p, "198.18.0.0/15");
	assert_false(lease_find(p.reader, STR("api.test"), &address));
	assert_int_equal(lease_get(p.writer, STR("api.test"), &made_address, &made), OK);
	assert_true(lease_find(p.reader, STR("api.test"), &address));
	assert_int_equal(address, made_address);
	assert_true(lease_name(p.reader, address, &name));
	assert_true(str_eq(name, STR("api.test")));
	assert_false(lease_name(p.reader, address + 1, &name));
	assert_false(lease_name(p.reader, address - 1, &name));
	close_pair(&p);
}

static void refusal_address_is_in_the_pool_and_nobodys(void **state)
{
	uint32_t address;
	struct addr a;
	struct str name;
	struct pair p;
	bool made;

	(void)state;
	open_pair(&p, "198.18.0.0/29");
	a = addr_v4(lease_refusal_address(&p.pool));
	assert_true(addr_in_range(&a, &p.pool));
	for (unsigned i = 0;; i++) {
		char text[32];

		if (lease_get(p.writer, numbered(text, i), &address, &made) != OK)
			break;
		assert_int_not_equal(address, lease_refusal_address(&p.pool));
	}
	assert_false(lease_name(p.reader, lease_refusal_address(&p.pool), &name));
	close_pair(&p);
}

static void small_pool_ends_inside_itself(void **state)
{
	uint32_t address;
	struct addr a;
	struct pair p;
	bool made;
	char text[32];
	unsigned n = 0;

	(void)state;
	open_pair(&p, "10.9.0.0/28");
	while (lease_get(p.writer, numbered(text, n), &address, &made) == OK) {
		a = addr_v4(address);
		assert_true(addr_in_range(&a, &p.pool));
		n++;
	}
	assert_int_equal(n, 13);
	assert_int_equal(lease_get(p.writer, STR("one.more"), &address, &made), ERR_FULL);
	close_pair(&p);
}

static void full_table_refuses_new_names_and_keeps_the_old(void **state)
{
	uint32_t address;
	char text[32];
	struct pair p;
	bool made;

	(void)state;
	open_pair(&p, "198.18.0.0/15");
	for (unsigned i = 0; i < LEASES_MAX; i++)
		assert_int_equal(lease_get(p.writer, numbered(text, i), &address, &made), OK);
	assert_int_equal(lease_get(p.writer, STR("one.more"), &address, &made), ERR_FULL);
	assert_int_equal(lease_get(p.writer, numbered(text, 17), &address, &made), OK);
	assert_false(made);
	for (unsigned i = 0; i < LEASES_MAX; i += 63) {
		struct str name;

		assert_true(lease_find(p.reader, numbered(text, i), &address));
		assert_true(lease_name(p.reader, address, &name));
		assert_true(str_eq(name, numbered(text, i)));
	}
	close_pair(&p);
}

static void empty_and_overlong_names_have_no_lease(void **state)
{
	char text[LEASE_NAME_MAX + 1];
	uint32_t address;
	struct pair p;
	bool made;

	(void)state;
	memset(text, 'a', sizeof(text));
	open_pair(&p, "198.18.0.0/15");
	assert_int_equal(lease_get(p.writer, STR_NONE, &address, &made), ERR_LIMIT);
	assert_int_equal(lease_get(p.writer, str_n(text, LEASE_NAME_MAX + 1), &address, &made),
			 ERR_LIMIT);
	assert_int_equal(lease_get(p.writer, str_n(text, LEASE_NAME_MAX), &address, &made), OK);
	close_pair(&p);
}

static void reader_cannot_make_a_lease_or_map_for_writing(void **state)
{
	uint32_t address;
	struct pair p;
	bool made;

	(void)state;
	open_pair(&p, "198.18.0.0/15");
	assert_int_equal(lease_get(p.reader, STR("x.test"), &address, &made), ERR_DENIED);
	assert_true(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, p.fd, 0) == MAP_FAILED);
	assert_true(write(p.fd, "x", 1) < 0);
	assert_true(ftruncate(p.fd, 0) < 0);
	close_pair(&p);
}

static void memory_that_is_no_lease_table_is_refused(void **state)
{
	struct lease_table *t;
	struct addr_range pool;
	int fd = memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	(void)state;
	assert_true(addr_range_parse(STR("198.18.0.0/15"), &pool));
	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_int_equal(lease_table_map(fd, &pool, &t), ERR_SYNTAX);
	close(fd);
}

static void pool_without_room_makes_no_table(void **state)
{
	struct addr_range pool;
	struct lease_table *t;
	int fd;

	(void)state;
	assert_true(addr_range_parse(STR("198.18.0.0/31"), &pool));
	assert_int_equal(lease_table_create(&pool, &t, &fd), ERR_LIMIT);
	assert_true(addr_range_parse(STR("2001:db8::/64"), &pool));
	assert_int_equal(lease_table_create(&pool, &t, &fd), ERR_LIMIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_name_has_one_address),
		cmocka_unit_test(reader_sees_what_was_made_after_it_mapped),
		cmocka_unit_test(refusal_address_is_in_the_pool_and_nobodys),
		cmocka_unit_test(small_pool_ends_inside_itself),
		cmocka_unit_test(full_table_refuses_new_names_and_keeps_the_old),
		cmocka_unit_test(empty_and_overlong_names_have_no_lease),
		cmocka_unit_test(reader_cannot_make_a_lease_or_map_for_writing),
		cmocka_unit_test(memory_that_is_no_lease_table_is_refused),
		cmocka_unit_test(pool_without_room_makes_no_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
