#include "sandbox/held_secret.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The reading end, where all @n bytes are in the pipe. */
static int keep(const int ends[2], ssize_t done, size_t n)
{
	int error = done < 0 ? errno : EIO;

	close(ends[1]);
	if (done == (ssize_t)n)
		return ends[0];
	close(ends[0]);
	errno = error;
	return -1;
}

int held_secret_new(const void *bytes, size_t n)
{
	int ends[2];

	if (n > HELD_SECRET_MAX) {
		errno = E2BIG;
		return -1;
	}
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return -1;
	return keep(ends, n ? write(ends[1], bytes, n) : 0, n);
}

int held_secret_copy(int held)
{
	int ends[2], n = 0;

	if (ioctl(held, FIONREAD, &n) < 0 || pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return -1;
	return keep(ends, n ? tee(held, ends[1], (size_t)n, SPLICE_F_NONBLOCK) : 0, (size_t)n);
}
