#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "policy/load.h"
#include "proxy/messages.h"
#include "proxy/reader_client.h"
#include "said.h"
#include "sandbox/channel.h"
#include "sandbox/spawn.h"

/*
 * The reader that is asked here is this program itself, started in its place: it misbehaves in the
 * way that the file's name says. What the true reader says of files is tests/policy/run.sh.
 */

static char folder[] = "/tmp/test_reader_client.XXXXXX";
static char said[SAID_MAX];
static char told[64];	/* the diagnostics that came with the answer */

static bool compile_at(const char *path, int *memfd, unsigned *warnings)
{
	struct said s = said_begin();
	struct buf diagnostics;
	bool good;
	int source;

	buf_init(&diagnostics, MSG_DIAGNOSTICS_MAX);
	source = reader_source_told(path);
	good = source >= 0 && reader_compile(&(struct reader_job){ .file = path, .source = source },
					     memfd, warnings, &diagnostics);
	if (source >= 0)
		close(source);
	said_end(s, said);
	snprintf(told, sizeof(told), "%.*s", STR_ARG(buf_str(&diagnostics)));
	buf_free(&diagnostics);
	return good;
}

static void path_of(char *out, size_t n, const char *name)
{
	snprintf(out, n, "%s/%s", folder, name);
}

static bool compile(const char *name, int *memfd, unsigned *warnings)
{
	char path[128];
	FILE *f;
	bool good;

	path_of(path, sizeof(path), name);
	f = fopen(path, "w");
	assert_non_null(f);
	fclose(f);
	good = compile_at(path, memfd, warnings);
	unlink(path);
	return good;
}

static void refuse(const char *name, const char *why)
{
	int memfd = -7;

	assert_false(compile(name, &memfd, NULL));
	assert_int_equal(memfd, -7);
	if (!strstr(said, why))
		fail_msg("says %s", said);
}

static void what_is_no_policy_file_is_told_in_one_line(void **state)
{
	char path[128];
	int memfd = -7;

	(void)state;
	assert_false(compile_at(folder, &memfd, NULL));
	assert_non_null(strstr(said, ": is a folder, not a policy\n"));
	assert_false(compile_at("/nonexistent.yaml", &memfd, NULL));
	assert_string_equal(said, "exeat: the policy /nonexistent.yaml: No such file or directory\n");
	path_of(path, sizeof(path), "pipe");
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_false(compile_at(path, &memfd, NULL));
	assert_non_null(strstr(said, ": is no regular file\n"));
	unlink(path);
	assert_int_equal(memfd, -7);
}

static void a_file_over_the_limit_starts_no_reader(void **state)
{
	char path[128];
	int fd, memfd = -7;

	(void)state;
	path_of(path, sizeof(path), "large");
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, POLICY_FILE_MAX + 1), 0);
	close(fd);
	assert_false(compile_at(path, &memfd, NULL));
	assert_non_null(strstr(said, ": larger than 64 MiB\n"));
	unlink(path);
}

static void a_sealed_image_is_handed_out(void **state)
{
	int memfd = -1;
	unsigned warnings = 0;

	(void)state;
	assert_true(compile("good", &memfd, &warnings));
	assert_string_equal(said, "");
	assert_int_equal(warnings, 3);
	assert_true(fcntl(memfd, F_GET_SEALS) & F_SEAL_WRITE);
	close(memfd);
}

static void an_image_that_can_change_is_refused(void **state)
{
	(void)state;
	refuse("unsealed", "an image that can still be changed");
}

static void errors_are_counted_and_handed_on(void **state)
{
	(void)state;
	refuse("bad", "does not load: 2 errors\n");
	assert_string_equal(told, "what it has printed");
}

static void a_reader_that_dies_is_no_success(void **state)
{
	(void)state;
	refuse("killed", "the reader ended before it was done");
	refuse("status", "the reader ended before it was done");
}

static void a_reader_that_breaks_the_protocol_is_no_success(void **state)
{
	(void)state;
	refuse("garbage", "the reader ended before it was done");
}

/* ---- the reader's part ---- */

static void answer(int channel, bool ok, uint32_t errors, uint32_t warnings)
{
	struct msg_read_done done = { ok, errors, warnings, STR("what it has printed") };
	struct buf b;

	buf_init(&b, MESSAGE_MAX);
	if (message_encode(message_row(exeat_messages, MSG_READ_DONE), &done, &b) == OK &&
	    send(channel, b.p, b.n, 0) < 0)
		exit(2);
	buf_free(&b);
}

static int be_reader(void)
{
	char packet[MESSAGE_MAX], control[CMSG_SPACE(2 * sizeof(int))];
	struct iovec iov = { packet, sizeof(packet) - 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
			    .msg_controllen = sizeof(control) };
	int flags = fcntl(ROLE_CHANNEL_FD, F_GETFL), fds[2];
	ssize_t n;

	fcntl(ROLE_CHANNEL_FD, F_SETFL, flags & ~O_NONBLOCK);
	n = recvmsg(ROLE_CHANNEL_FD, &m, 0);
	if (n < 0 || !CMSG_FIRSTHDR(&m))
		return 2;
	memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fds));
	struct str text = str_n(packet, (size_t)n);
#define MEANS(word) (memmem(text.p, text.n, "/" word, sizeof(word)) != NULL)
	if (MEANS("killed"))
		raise(SIGKILL);
	if (MEANS("garbage") && send(ROLE_CHANNEL_FD, "\xff\xff\xff", 3, 0) < 0)
		return 2;
	if (MEANS("good") || MEANS("status"))
		fcntl(fds[1], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
	answer(ROLE_CHANNEL_FD, !MEANS("bad"), MEANS("bad") ? 2 : 0, 3);
	return MEANS("status") ? 9 : 0;
#undef MEANS
}

/* ---- this program in each role's place ---- */

static bool copy_program(const char *name)
{
	char path[128];
	struct stat st;
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to;
	ssize_t n = -1;

	path_of(path, sizeof(path), name);
	to = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0700);
	if (from >= 0 && to >= 0 && fstat(from, &st) == 0)
		for (off_t at = 0; at < st.st_size && n != 0; at += n) {
			n = sendfile(to, from, NULL, (size_t)(st.st_size - at));
			if (n < 0)
				break;
		}
	close(from);
	close(to);
	return n > 0;
}

static const char *const copies[] = { "exeat-worker", "exeat-reader", "client" };

/* Runs again from a folder where the roles' programs are found: all of them are this one. */
static int run_from_folder(void)
{
	char path[128];
	int status = -1;
	pid_t pid;

	if (!mkdtemp(folder))
		return 1;
	for (size_t i = 0; i < 3; i++)
		if (!copy_program(copies[i]))
			return 1;
	path_of(path, sizeof(path), "client");
	pid = fork();
	if (pid == 0) {
		execl(path, path, folder, NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	for (size_t i = 0; i < 3; i++) {
		path_of(path, sizeof(path), copies[i]);
		unlink(path);
	}
	rmdir(folder);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_no_policy_file_is_told_in_one_line),
		cmocka_unit_test(a_file_over_the_limit_starts_no_reader),
		cmocka_unit_test(a_sealed_image_is_handed_out),
		cmocka_unit_test(an_image_that_can_change_is_refused),
		cmocka_unit_test(errors_are_counted_and_handed_on),
		cmocka_unit_test(a_reader_that_dies_is_no_success),
		cmocka_unit_test(a_reader_that_breaks_the_protocol_is_no_success),
	};

	if (strcmp(argv[0], "exeat-reader") == 0)
		return be_reader();
	if (argc == 1)
		return run_from_folder();
	snprintf(folder, sizeof(folder), "%s", argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
