#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/policy_store.h"

static char dir[32], path[64], folder[80];

static int setup(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/exeat-store-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/audit.jsonl", dir);
	snprintf(folder, sizeof(folder), "%s.policies", path);
	return 0;
}

static size_t entries(bool remove)
{
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	size_t n = 0;

	if (!d)
		return 0;
	while ((e = readdir(d)) != NULL) {
		if (e->d_name[0] == '.' && (!e->d_name[1] || e->d_name[1] == '.'))
			continue;
		n++;
		if (remove)
			unlinkat(dirfd(d), e->d_name, 0);
	}
	closedir(d);
	return n;
}

static int teardown(void **state)
{
	(void)state;
	entries(true);
	rmdir(folder);
	unlink(folder);
	return rmdir(dir);
}

static int source(const char *text)
{
	int fd = memfd_create("policy", MFD_CLOEXEC);

	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	return fd;
}

static char *digest(unsigned n)
{
	static char out[POLICY_DIGEST_HEX + 1];

	snprintf(out, sizeof(out), "%08x%056x", n, 7);
	return out;
}

static enum err put(unsigned n, const char *text)
{
	int fd = source(text);
	enum err e = policy_store_put(path, str_of(digest(n)), fd);

	close(fd);
	return e;
}

static void must_find(const char *what, const char *text)
{
	char got[64] = "";
	int fd;

	assert_int_equal(policy_store_find(path, str_of(what), &fd), OK);
	assert_int_equal(read(fd, got, sizeof(got) - 1), strlen(text));
	assert_string_equal(got, text);
	close(fd);
}

static void what_was_put_in_is_found_by_its_digest_and_its_beginning(void **state)
{
	struct stat st;
	int fd;

	(void)state;
	assert_int_equal(policy_store_find(path, STR("abcd"), &fd), ERR_NOTFOUND);
	assert_int_equal(put(0x12345678, "exeat: 1\n"), OK);
	assert_int_equal(put(0x12345679, "exeat: 2\n"), OK);
	must_find(digest(0x12345678), "exeat: 1\n");
	must_find("12345679", "exeat: 2\n");
	assert_int_equal(policy_store_find(path, STR("1234567"), &fd), ERR_FULL);
	assert_int_equal(policy_store_find(path, STR("123f"), &fd), ERR_NOTFOUND);
	assert_int_equal(stat(folder, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
}

static void one_that_is_there_is_renewed_and_one_that_is_not_is_told(void **state)
{
	char file[160];
	struct stat st;

	(void)state;
	assert_int_equal(policy_store_renew(path, str_of(digest(1))), ERR_NOTFOUND);
	assert_int_equal(access(folder, F_OK), -1);	/* to ask makes nothing */
	assert_int_equal(put(1, "x"), OK);
	assert_int_equal(policy_store_renew(path, str_of(digest(2))), ERR_NOTFOUND);
	assert_int_equal(policy_store_renew(path, STR("abcd")), ERR_SYNTAX);
	snprintf(file, sizeof(file), "%s/%s", folder, digest(1));
	assert_int_equal(utimensat(AT_FDCWD, file, (struct timespec[]){ { 1, 0 }, { 1, 0 } }, 0), 0);
	assert_int_equal(policy_store_renew(path, str_of(digest(1))), OK);
	assert_int_equal(stat(file, &st), 0);
	assert_true(st.st_mtim.tv_sec > 1);
}

static void what_is_no_digest_is_refused(void **state)
{
	static const char *const bad[] = { "", "abc", "../../etc/passwd", "ABCD", "abcg",
					   "00000000000000000000000000000000000000000000000000000000000000000" };
	int fd;

	(void)state;
	assert_int_equal(put(1, "x"), OK);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(policy_store_find(path, str_of(bad[i]), &fd), ERR_SYNTAX);
		assert_int_equal(policy_store_put(path, str_of(bad[i]), 0), ERR_SYNTAX);
	}
	assert_int_equal(policy_store_put(path, STR("abcd"), 0), ERR_SYNTAX);
	assert_int_equal(entries(false), 1);
}

static void the_one_that_was_not_used_for_longest_goes_first(void **state)
{
	(void)state;
	for (unsigned i = 0; i < POLICY_STORE_MAX; i++) {
		struct timespec when[2] = { { 1000 + i, 0 }, { 1000 + i, 0 } };
		char name[160];

		assert_int_equal(put(i, "old"), OK);
		snprintf(name, sizeof(name), "%s/%s", folder, digest(i));
		assert_int_equal(utimensat(AT_FDCWD, name, when, 0), 0);
	}
	assert_int_equal(put(0, "not written again"), OK);
	assert_int_equal(put(POLICY_STORE_MAX, "new"), OK);
	assert_int_equal(entries(false), POLICY_STORE_MAX);
	must_find(digest(0), "old");
	must_find(digest(POLICY_STORE_MAX), "new");
	assert_int_equal(policy_store_find(path, str_of(digest(1)), &(int){ 0 }), ERR_NOTFOUND);
}

static void one_that_is_too_large_leaves_nothing(void **state)
{
	int fd = memfd_create("policy", MFD_CLOEXEC);

	(void)state;
	assert_int_equal(ftruncate(fd, (off_t)POLICY_STORE_BYTES + 1), 0);
	assert_int_equal(policy_store_put(path, str_of(digest(1)), fd), ERR_LIMIT);
	close(fd);
	assert_int_equal(entries(false), 0);
}

static void a_link_instead_of_the_folder_is_not_followed(void **state)
{
	char elsewhere[48];

	(void)state;
	snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", dir);
	assert_int_equal(mkdir(elsewhere, 0700), 0);
	assert_int_equal(symlink(elsewhere, folder), 0);
	assert_int_equal(put(1, "x"), ERR_SYSTEM);
	assert_int_equal(rmdir(elsewhere), 0);	/* it is still empty */
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(what_was_put_in_is_found_by_its_digest_and_its_beginning),
		CASE(one_that_is_there_is_renewed_and_one_that_is_not_is_told),
		CASE(what_is_no_digest_is_refused),
		CASE(the_one_that_was_not_used_for_longest_goes_first),
		CASE(one_that_is_too_large_leaves_nothing),
		CASE(a_link_instead_of_the_folder_is_not_followed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
