#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/run_folders.h"

static char base[] = "/tmp/exeat-test-folders-XXXXXX";
static char work[64], log_inside[80], log_outside[80];

static bool ok(const char *rootfs, const char *workspace, const char *log,
	       const struct settings *settings)
{
	struct buf why;
	bool good, told;

	buf_init(&why, 8192);
	good = run_folders_ok(rootfs, workspace, log, settings, &why);
	told = why.n > 0;
	buf_free(&why);
	assert_int_equal(told, !good);
	return good;
}

static void touch(const char *path)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_int_equal(fclose(f), 0);
}

static int set_up(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(base));
	snprintf(work, sizeof(work), "%s/shared", base);
	snprintf(log_inside, sizeof(log_inside), "%s/shared/log", base);
	snprintf(log_outside, sizeof(log_outside), "%s/shared-log", base);
	assert_int_equal(mkdir(work, 0700), 0);
	touch(log_inside);
	touch(log_outside);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	(void)unlink(log_inside);
	(void)unlink(log_outside);
	(void)rmdir(work);
	return rmdir(base);
}

static void folder_of_ones_own_is_a_workspace(void **state)
{
	const struct settings none = { 0 };

	(void)state;
	assert_true(ok(NULL, work, log_outside, &none));
	assert_true(ok(work, NULL, log_inside, &none));
	assert_true(ok(NULL, NULL, log_outside, &none));
}

static void systems_folders_are_none_however_they_are_written(void **state)
{
	static const char *const refused[] = { "/", "//", "/etc", "/etc/ssl", "/usr/bin", "/proc/self",
					       "/home", "/tmp/..", "/tmp/../etc/", "/var", "/dev" };
	const struct settings none = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++)
		assert_false(ok(NULL, refused[i], log_outside, &none));
	assert_false(ok("/", NULL, log_outside, &none));
	assert_true(ok("/usr", NULL, log_outside, &none));
}

static void workspace_does_not_hold_the_log(void **state)
{
	const struct settings none = { 0 };

	(void)state;
	assert_false(ok(NULL, work, log_inside, &none));
	/* A name that begins alike is no part of it. */
	assert_true(ok(NULL, work, log_outside, &none));
}

static bool output_ok(const char *output)
{
	struct buf why;
	bool good, told;

	buf_init(&why, 8192);
	good = run_output_ok(output, log_outside, &why);
	told = why.n > 0;
	buf_free(&why);
	assert_int_equal(told, !good);
	return good;
}

static void output_goes_into_no_file_of_the_systems_or_the_logs(void **state)
{
	char path[128], link[80];

	(void)state;
	assert_false(output_ok("/etc/passwd"));
	assert_false(output_ok("/etc/is-not-there-yet"));
	assert_false(output_ok("/tmp/../etc/is-not-there-yet"));
	assert_false(output_ok(log_outside));
	snprintf(path, sizeof(path), "%s/shared/../shared-log", base);
	assert_false(output_ok(path));
	snprintf(path, sizeof(path), "%s.20260131T120000Z-1", log_outside);
	assert_false(output_ok(path));
	snprintf(path, sizeof(path), "%s/shared-log.policies/0a", base);
	assert_true(output_ok(path));	/* there is no such folder: it will not be opened */
	snprintf(link, sizeof(link), "%s/link", base);
	assert_int_equal(symlink(log_outside, link), 0);
	assert_false(output_ok(link));
	assert_int_equal(unlink(link), 0);
	/* A name that begins alike is another file. */
	snprintf(path, sizeof(path), "%s-of-dev", log_outside);
	assert_true(output_ok(path));
	assert_true(output_ok(log_inside));
	snprintf(path, sizeof(path), "%s/shared/new", base);
	assert_true(output_ok(path));
}

static void neither_folder_holds_a_secret(void **state)
{
	struct settings_secret secret = { .file = str_of(log_inside) };
	const struct settings one = { .secrets = &secret, .n_secrets = 1 };

	(void)state;
	assert_false(ok(NULL, work, log_outside, &one));
	assert_false(ok(work, NULL, log_outside, &one));
	secret.file = str_of(log_outside);
	assert_true(ok(work, work, log_outside, &one));
	secret.file = STR_NONE;
	assert_true(ok(work, work, log_outside, &one));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(folder_of_ones_own_is_a_workspace),
		cmocka_unit_test(systems_folders_are_none_however_they_are_written),
		cmocka_unit_test(workspace_does_not_hold_the_log),
		cmocka_unit_test(output_goes_into_no_file_of_the_systems_or_the_logs),
		cmocka_unit_test(neither_folder_holds_a_secret),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
