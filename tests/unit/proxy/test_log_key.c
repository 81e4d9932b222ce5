#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/log_key.h"
#include "proxy/log_sign.h"

#define PREV "00000000000000000000000000000000000000000000000000000000000000ff"

static char dir[] = "/tmp/exeat-key-XXXXXX";
static char path[64], private[80], public[80];

static int setup(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/exeat-key-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/audit.jsonl", dir);
	snprintf(private, sizeof(private), "%s.key", path);
	snprintf(public, sizeof(public), "%s.pub", path);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(private);
	unlink(public);
	/* Nothing else is there. */
	return rmdir(dir);
}

static struct log_signer *signer(void)
{
	struct log_signer *s;
	int fd;

	assert_int_equal(log_key_open(path, &fd), OK);
	assert_int_equal(log_signer_open(fd, &s), OK);
	return s;
}

static mode_t mode_of(const char *p)
{
	struct stat st;

	assert_int_equal(stat(p, &st), 0);
	return st.st_mode & 07777;
}

static void a_key_is_made_once_and_its_public_half_verifies(void **state)
{
	struct log_signer *s = signer(), *again = signer();
	char signature[LOG_SIGNATURE_HEX + 1];
	struct log_keys *keys;

	(void)state;
	assert_int_equal(mode_of(private), 0600);
	assert_int_equal(mode_of(public), 0644);
	assert_string_equal(log_signer_id(s), log_signer_id(again));
	assert_int_equal(log_sign(again, 7, PREV, signature), OK);
	assert_int_equal(log_keys_open(public, &keys), OK);
	assert_int_equal(log_signature_check(keys, str_of(log_signer_id(s)), str_of(signature), 7, STR(PREV)),
			 LOG_SIGNATURE_GOOD);
	log_keys_close(keys);
	log_signer_close(s);
	log_signer_close(again);
}

static void a_public_half_that_is_gone_is_made_again(void **state)
{
	struct log_keys *keys;

	(void)state;
	log_signer_close(signer());
	unlink(public);
	log_signer_close(signer());
	assert_int_equal(log_keys_open(public, &keys), OK);
	log_keys_close(keys);
}

static void a_key_that_others_may_read_is_not_used(void **state)
{
	int fd;

	(void)state;
	log_signer_close(signer());
	assert_int_equal(chmod(private, 0640), 0);
	assert_int_equal(log_key_open(path, &fd), ERR_DENIED);
	assert_int_equal(fd, -1);
}

static void a_link_is_not_followed(void **state)
{
	int fd;

	(void)state;
	assert_int_equal(symlink("/etc/hostname", private), 0);
	assert_int_equal(log_key_open(path, &fd), ERR_SYSTEM);
}

static void what_is_no_key_is_said(void **state)
{
	int fd = open(private, O_WRONLY | O_CREAT, 0600);

	(void)state;
	assert_int_equal(write(fd, "key\n", 4), 4);
	close(fd);
	assert_int_equal(log_key_open(path, &fd), ERR_SYNTAX);
}

static void of_many_that_make_one_at_once_all_have_the_same(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 8; i++)
		if (fork() == 0) {
			int fd;

			_exit(log_key_open(path, &fd) != OK);
		}
	for (unsigned i = 0; i < 8; i++) {
		int status;

		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	log_signer_close(signer());
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_key_is_made_once_and_its_public_half_verifies),
		CASE(a_public_half_that_is_gone_is_made_again),
		CASE(a_key_that_others_may_read_is_not_used),
		CASE(a_link_is_not_followed),
		CASE(what_is_no_key_is_said),
		CASE(of_many_that_make_one_at_once_all_have_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
