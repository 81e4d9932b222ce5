#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "sandbox/tree.h"

/* scratch/root is the root, scratch/outside what nobody may reach from it. */
static char scratch[] = "/tmp/exeat-test-tree-XXXXXX";
static int outer = -1, root = -1;

static int open_scratch(void **state)
{
	(void)state;
	if (!mkdtemp(scratch))
		return -1;
	outer = open(scratch, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (mkdirat(outer, "root", 0755) < 0 || mkdirat(outer, "outside", 0755) < 0)
		return -1;
	root = openat(outer, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return root < 0 ? -1 : 0;
}

static int close_scratch(void **state)
{
	int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	enum err e = tree_remove(tmp, scratch + strlen("/tmp/"));

	(void)state;
	close(tmp);
	close(root);
	close(outer);
	return e == OK ? 0 : -1;
}

static bool exists(const char *path)
{
	struct stat st;

	return fstatat(outer, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void expect_content(const char *path, const char *want)
{
	struct buf b;

	buf_init(&b, 8192);
	assert_int_equal(tree_read(root, path, &b), OK);
	assert_int_equal(b.n, strlen(want));
	assert_memory_equal(b.p, want, b.n);
	buf_free(&b);
}

static void folders_are_made_down_to_the_last(void **state)
{
	(void)state;
	assert_int_equal(tree_folder(root, "a/b/c", NULL), OK);
	assert_int_equal(tree_folder(root, "a/b/c", NULL), OK);
	assert_true(exists("root/a/b/c"));
}

static void links_lead_where_they_lead_inside_the_root(void **state)
{
	(void)state;
	assert_int_equal(symlinkat("/", root, "absolute"), 0);
	assert_int_equal(symlinkat("../../../../outside", root, "climbing"), 0);
	assert_int_equal(tree_file(root, "absolute/in", STR("x"), 0644), OK);
	assert_true(exists("root/in"));
	/* Climbing ends at the root, where there is no such folder. */
	assert_int_not_equal(tree_file(root, "climbing/out", STR("x"), 0644), OK);
	assert_false(exists("outside/out"));
}

static void file_takes_the_place_of_a_link_and_not_of_what_it_names(void **state)
{
	char target[128];

	(void)state;
	snprintf(target, sizeof(target), "%s/outside/file", scratch);
	assert_int_equal(symlinkat(target, root, "resolv.conf"), 0);
	assert_int_equal(tree_file(root, "resolv.conf", STR("ours\n"), 0444), OK);
	expect_content("resolv.conf", "ours\n");
	assert_false(exists("outside/file"));
}

static void file_does_not_take_the_place_of_a_folder(void **state)
{
	(void)state;
	assert_int_equal(tree_folder(root, "folder/in", NULL), OK);
	assert_int_equal(tree_file(root, "folder", STR("x"), 0644), ERR_SYSTEM);
	assert_true(exists("root/folder/in"));
}

static void only_files_are_read(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 4096);
	assert_int_equal(mkfifoat(root, "fifo", 0644), 0);
	assert_int_equal(tree_read(root, "fifo", &b), ERR_SYNTAX);
	assert_int_equal(tree_read(root, ".", &b), ERR_SYNTAX);
	assert_int_equal(tree_read(root, "not-there", &b), ERR_SYSTEM);
	buf_free(&b);
}

static void file_over_the_limit_is_not_read(void **state)
{
	static char large[9000];
	struct buf b;

	(void)state;
	memset(large, 'x', sizeof(large));
	assert_int_equal(tree_file(root, "large", str_n(large, sizeof(large)), 0644), OK);
	buf_init(&b, 4096);
	assert_int_equal(tree_read(root, "large", &b), ERR_LIMIT);
	buf_free(&b);
}

static void path_over_the_limit_is_refused(void **state)
{
	static char path[TREE_PATH_MAX + 1];

	(void)state;
	memset(path, 'a', TREE_PATH_MAX);
	assert_int_equal(tree_folder(root, path, NULL), ERR_SYSTEM);
	assert_int_equal(errno, ENAMETOOLONG);
}

static void removal_does_not_follow_links(void **state)
{
	char target[128];

	(void)state;
	assert_int_equal(tree_folder(root, "gone/deep", NULL), OK);
	assert_int_equal(tree_folder(outer, "outside/kept", NULL), OK);
	snprintf(target, sizeof(target), "%s/outside", scratch);
	assert_int_equal(tree_link(root, "gone/deep/link", target), OK);
	assert_int_equal(tree_remove(root, "gone"), OK);
	assert_false(exists("root/gone"));
	assert_true(exists("outside/kept"));
	assert_int_equal(tree_remove(root, "gone"), OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(folders_are_made_down_to_the_last),
		cmocka_unit_test(links_lead_where_they_lead_inside_the_root),
		cmocka_unit_test(file_takes_the_place_of_a_link_and_not_of_what_it_names),
		cmocka_unit_test(file_does_not_take_the_place_of_a_folder),
		cmocka_unit_test(only_files_are_read),
		cmocka_unit_test(file_over_the_limit_is_not_read),
		cmocka_unit_test(path_over_the_limit_is_refused),
		cmocka_unit_test(removal_does_not_follow_links),
	};

	return cmocka_run_group_tests(tests, open_scratch, close_scratch);
}
