#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/locked.h"

/* The address sanitizer makes mlock() do nothing. */
#ifdef __SANITIZE_ADDRESS__
static const bool locks = false;
#else
static const bool locks = true;
#endif

/* The line "VmFlags: ..." of the mapping that holds @p. */
static void vm_flags(const void *p, char *out, size_t n)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	char line[512];
	bool inside = false;

	assert_non_null(f);
	out[0] = '\0';
	while (fgets(line, sizeof(line), f)) {
		unsigned long from, to;

		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = (uintptr_t)p >= from && (uintptr_t)p < to;
		else if (inside && strncmp(line, "VmFlags:", 8) == 0)
			snprintf(out, n, "%s", line);
	}
	fclose(f);
}

static void memory_is_zeroed_and_writable_to_its_last_byte(void **state)
{
	size_t n = 3 * 4096 + 5;
	char *p = locked_new(n);

	(void)state;
	assert_non_null(p);
	assert_int_equal((uintptr_t)p % 16, 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(p[i], 0);
	memset(p, 0x5a, n);
	locked_free(p);
}

static void pages_are_locked_and_in_no_core_file_and_not_inherited(void **state)
{
	char *p = locked_new(10);
	char flags[512];

	(void)state;
	vm_flags(p, flags, sizeof(flags));
	if (locks)
		assert_non_null(strstr(flags, " lo"));
	assert_non_null(strstr(flags, " dd"));
	assert_non_null(strstr(flags, " wf"));
	locked_free(p);
}

static void a_forked_child_finds_zeros(void **state)
{
	char *p = locked_new(16);
	int status;
	pid_t pid;

	(void)state;
	memcpy(p, "a secret value!", 16);
	pid = fork();
	if (pid == 0) {
		int dirty = 0;

		for (size_t i = 0; i < 16; i++)
			dirty |= p[i];
		locked_free(p);
		_exit(dirty ? 1 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_string_equal(p, "a secret value!");
	locked_free(p);
}

static void memory_that_cannot_be_locked_is_not_given(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	if (!locks)
		skip();
	pid = fork();
	if (pid == 0) {
		struct rlimit none = { 0, 0 };

		if (setrlimit(RLIMIT_MEMLOCK, &none) < 0 || (geteuid() == 0 && setuid(65534) < 0))
			_exit(2);
		_exit(locked_new(16) ? 1 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_size_beyond_memory_is_not_given(void **state)
{
	(void)state;
	assert_null(locked_new(SIZE_MAX));
	assert_null(locked_new(SIZE_MAX - 100));
	locked_free(NULL);
}

static bool is_mapped(const void *p)
{
	unsigned char there;

	return mincore((void *)((uintptr_t)p & ~(uintptr_t)4095), 4096, &there) == 0;
}

static void what_was_freed_and_is_large_is_unmapped(void **state)
{
	char *p = locked_new(LOCKED_SPARE_BYTES + 1);

	(void)state;
	assert_non_null(p);
	locked_free(p);
	assert_false(is_mapped(p));
}

static void a_small_piece_comes_again_as_zeros_and_no_more_are_kept_than_said(void **state)
{
	char *p[LOCKED_SPARE_MAX + 1], *again;
	size_t kept = 0;

	(void)state;
	for (size_t i = 0; i < LOCKED_SPARE_MAX + 1; i++) {
		p[i] = locked_new(16);
		assert_non_null(p[i]);
		memset(p[i], 0x5a, 16);
	}
	for (size_t i = 0; i < LOCKED_SPARE_MAX + 1; i++)
		locked_free(p[i]);
	for (size_t i = 0; i < LOCKED_SPARE_MAX + 1; i++)
		kept += is_mapped(p[i]);
	assert_in_range(kept, 1, LOCKED_SPARE_MAX);
	again = locked_new(16);
	for (size_t i = 0; i < 16; i++)
		assert_int_equal(again[i], 0);
	locked_free(again);
}

static void a_forked_child_gets_none_that_is_not_locked(void **state)
{
	char *p = locked_new(16);
	char flags[512];
	int status;
	pid_t pid;

	(void)state;
	if (!locks)
		skip();
	locked_free(p);
	pid = fork();
	if (pid == 0) {
		p = locked_new(16);
		vm_flags(p, flags, sizeof(flags));
		_exit(strstr(flags, " lo") ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_is_zeroed_and_writable_to_its_last_byte),
		cmocka_unit_test(pages_are_locked_and_in_no_core_file_and_not_inherited),
		cmocka_unit_test(a_forked_child_finds_zeros),
		cmocka_unit_test(memory_that_cannot_be_locked_is_not_given),
		cmocka_unit_test(a_size_beyond_memory_is_not_given),
		cmocka_unit_test(what_was_freed_and_is_large_is_unmapped),
		cmocka_unit_test(a_small_piece_comes_again_as_zeros_and_no_more_are_kept_than_said),
		cmocka_unit_test(a_forked_child_gets_none_that_is_not_locked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
