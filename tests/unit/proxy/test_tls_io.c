#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/tls_io.h"

static void pair(int fds[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
}

static void first_bytes_come_before_the_sockets_own_which_wait_for_its_event(void **state)
{
	char got[16];
	int fds[2];
	BIO *bio;

	(void)state;
	pair(fds);
	assert_int_equal(write(fds[1], "socket", 6), 6);
	bio = tls_io_new(fds[0], STR("first"));
	assert_int_equal(BIO_read(bio, got, 3), 3);
	assert_memory_equal(got, "fir", 3);
	assert_int_equal(BIO_read(bio, got, sizeof(got)), 2);
	assert_memory_equal(got, "st", 2);
	assert_true(BIO_read(bio, got, sizeof(got)) < 0);
	assert_true(BIO_should_read(bio));
	tls_io_woken(bio);
	assert_int_equal(BIO_read(bio, got, sizeof(got)), 6);
	assert_memory_equal(got, "socket", 6);
	BIO_free(bio);
	close(fds[0]);
	close(fds[1]);
}

static void empty_socket_asks_for_a_retry(void **state)
{
	char got[4];
	int fds[2];
	BIO *bio;

	(void)state;
	pair(fds);
	bio = tls_io_new(fds[0], STR_NONE);
	assert_true(BIO_read(bio, got, 4) < 0);
	assert_true(BIO_should_read(bio));
	assert_false(BIO_eof(bio));
	BIO_free(bio);
	close(fds[0]);
	close(fds[1]);
}

static void a_short_read_has_emptied_the_socket_until_it_is_woken(void **state)
{
	char got[8];
	int fds[2];
	BIO *bio;

	(void)state;
	pair(fds);
	bio = tls_io_new(fds[0], STR_NONE);
	assert_int_equal(write(fds[1], "abc", 3), 3);
	assert_int_equal(BIO_read(bio, got, 3), 3);
	assert_false(tls_io_drained(bio));
	assert_int_equal(write(fds[1], "def", 3), 3);
	assert_int_equal(BIO_read(bio, got, sizeof(got)), 3);
	assert_true(tls_io_drained(bio));
	assert_int_equal(write(fds[1], "ghi", 3), 3);
	assert_true(BIO_read(bio, got, sizeof(got)) < 0);
	assert_true(BIO_should_read(bio));
	tls_io_woken(bio);
	assert_int_equal(BIO_read(bio, got, sizeof(got)), 3);
	assert_memory_equal(got, "ghi", 3);
	BIO_free(bio);
	close(fds[0]);
	close(fds[1]);
}

static void end_of_file_is_no_retry(void **state)
{
	char got[4];
	int fds[2];
	BIO *bio;

	(void)state;
	pair(fds);
	close(fds[1]);
	bio = tls_io_new(fds[0], STR_NONE);
	assert_int_equal(BIO_read(bio, got, 4), 0);
	assert_false(BIO_should_retry(bio));
	assert_true(BIO_eof(bio));
	BIO_free(bio);
	close(fds[0]);
}

static void full_socket_asks_for_a_retry(void **state)
{
	static char piece[65536];
	int fds[2];
	BIO *bio;

	(void)state;
	pair(fds);
	bio = tls_io_new(fds[0], STR_NONE);
	while (BIO_write(bio, piece, sizeof(piece)) > 0)
		;
	assert_true(BIO_should_write(bio));
	BIO_free(bio);
	close(fds[0]);
	close(fds[1]);
}

static void writing_to_a_closed_peer_is_an_error_and_no_signal(void **state)
{
	int fds[2];
	BIO *bio;

	(void)state;
	signal(SIGPIPE, SIG_DFL);
	pair(fds);
	close(fds[1]);
	bio = tls_io_new(fds[0], STR_NONE);
	assert_true(BIO_write(bio, "x", 1) < 0);
	assert_false(BIO_should_retry(bio));
	BIO_free(bio);
	assert_true(fcntl(fds[0], F_GETFD) >= 0);
	close(fds[0]);
}

static void tcp_pair(int fds[2])
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t n = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	assert_int_equal(bind(listener, (struct sockaddr *)&at, n), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &n), 0);
	fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fds[0], (struct sockaddr *)&at, n), 0);
	fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(fds[1] >= 0);
	setsockopt(fds[0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	close(listener);
}

static unsigned segments_sent(int fd)
{
	struct tcp_info info;
	socklen_t n = sizeof(info);

	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n), 0);
	return info.tcpi_data_segs_out;
}

static void last_writes_go_out_with_the_end_of_the_socket(void **state)
{
	char got[8];
	int fds[2];
	BIO *bio;

	(void)state;
	tcp_pair(fds);
	bio = tls_io_new(fds[0], STR_NONE);
	tls_io_last(bio);
	assert_int_equal(BIO_write(bio, "abc", 3), 3);
	assert_int_equal(BIO_write(bio, "def", 3), 3);
	assert_int_equal(shutdown(fds[0], SHUT_WR), 0);
	assert_int_equal(recv(fds[1], got, sizeof(got), MSG_WAITALL), 6);
	assert_memory_equal(got, "abcdef", 6);
	assert_int_equal(segments_sent(fds[0]), 1);
	BIO_free(bio);
	close(fds[0]);
	close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_bytes_come_before_the_sockets_own_which_wait_for_its_event),
		cmocka_unit_test(empty_socket_asks_for_a_retry),
		cmocka_unit_test(a_short_read_has_emptied_the_socket_until_it_is_woken),
		cmocka_unit_test(end_of_file_is_no_retry),
		cmocka_unit_test(full_socket_asks_for_a_retry),
		cmocka_unit_test(last_writes_go_out_with_the_end_of_the_socket),
		cmocka_unit_test(writing_to_a_closed_peer_is_an_error_and_no_signal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
