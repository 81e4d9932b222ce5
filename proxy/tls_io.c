#include "proxy/tls_io.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

struct tls_io {
	int fd;
	char *first;
	size_t n, taken;
	bool drained, last;
};

static bool would_block(void)
{
	return errno == EAGAIN || errno == EINTR;
}

static void forget_first(struct tls_io *io)
{
	free(io->first);
	io->first = NULL;
	io->n = io->taken = 0;
}

static int io_read(BIO *bio, char *out, int n)
{
	struct tls_io *io = BIO_get_data(bio);
	ssize_t got;

	BIO_clear_retry_flags(bio);
	if (io->taken < io->n) {
		size_t some = io->n - io->taken < (size_t)n ? io->n - io->taken : (size_t)n;

		memcpy(out, io->first + io->taken, some);
		io->taken += some;
		if (io->taken == io->n)
			forget_first(io);
		return (int)some;
	}
	if (io->drained) {
		BIO_set_retry_read(bio);
		errno = EAGAIN;
		return -1;
	}
	got = recv(io->fd, out, (size_t)n, 0);
	if (got < 0 && would_block())
		BIO_set_retry_read(bio);
	io->drained = got > 0 ? got < n : got < 0 && errno == EAGAIN;
	if (got == 0)
		BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
	return (int)got;
}

static int io_write(BIO *bio, const char *in, int n)
{
	struct tls_io *io = BIO_get_data(bio);
	ssize_t put;

	BIO_clear_retry_flags(bio);
	put = send(io->fd, in, (size_t)n, MSG_NOSIGNAL | (io->last ? MSG_MORE : 0));
	if (put < 0 && would_block())
		BIO_set_retry_write(bio);
	return (int)put;
}

/* OpenSSL tells an end of file from an error by BIO_CTRL_EOF. */
static long io_ctrl(BIO *bio, int command, long num, void *ptr)
{
	(void)num;
	(void)ptr;
	if (command == BIO_CTRL_EOF)
		return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
	return command == BIO_CTRL_FLUSH;
}

static int io_destroy(BIO *bio)
{
	struct tls_io *io = BIO_get_data(bio);

	if (io)
		free(io->first);
	free(io);
	BIO_set_data(bio, NULL);
	return 1;
}

void tls_io_woken(BIO *bio)
{
	struct tls_io *io = BIO_get_data(bio);

	io->drained = false;
}

void tls_io_last(BIO *bio)
{
	struct tls_io *io = BIO_get_data(bio);

	io->last = true;
}

bool tls_io_drained(BIO *bio)
{
	const struct tls_io *io = BIO_get_data(bio);

	return io->drained;
}

/* Made once a process, kept to its end. */
static const BIO_METHOD *method(void)
{
	static BIO_METHOD *m;

	if (m)
		return m;
	m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK | BIO_TYPE_DESCRIPTOR, "exeat");
	if (m && BIO_meth_set_read(m, io_read) && BIO_meth_set_write(m, io_write) &&
	    BIO_meth_set_ctrl(m, io_ctrl) && BIO_meth_set_destroy(m, io_destroy))
		return m;
	BIO_meth_free(m);
	m = NULL;
	return NULL;
}

BIO *tls_io_new(int fd, struct str first)
{
	const BIO_METHOD *m = method();
	struct tls_io *io = calloc(1, sizeof(*io));
	BIO *bio = m ? BIO_new(m) : NULL;

	if (!io || !bio)
		goto fail;
	io->fd = fd;
	if (first.n) {
		io->first = malloc(first.n);
		if (!io->first)
			goto fail;
		memcpy(io->first, first.p, first.n);
		io->n = first.n;
		io->drained = true;
	}
	BIO_set_data(bio, io);
	BIO_set_init(bio, 1);
	return bio;
fail:
	free(io);
	BIO_free(bio);
	return NULL;
}
