#include "proxy/log_read.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proxy/log_line.h"

#define ROOM (LOG_LINE_MAX + 1)	/* a line and its newline */
#define BACK 65536u

struct log_reader {
	int fd;
	uint64_t at;		/* of the next byte to read from the file */
	uint64_t end;
	size_t start, n;	/* what of @bytes is not given yet */
	char *bytes;
};

enum err log_reader_open(int fd, struct log_reader **out)
{
	struct log_reader *r = calloc(1, sizeof(*r));

	if (!r)
		return ERR_NOMEM;
	r->fd = fd;
	r->end = UINT64_MAX;
	r->bytes = malloc(ROOM);
	if (!r->bytes) {
		free(r);
		return ERR_NOMEM;
	}
	*out = r;
	return OK;
}

void log_reader_close(struct log_reader *r)
{
	if (!r)
		return;
	free(r->bytes);
	free(r);
}

void log_reader_stop_at(struct log_reader *r, uint64_t end)
{
	r->end = end;
}

void log_reader_unread(struct log_reader *r)
{
	r->at -= r->n;
	r->start = r->n = 0;
}

void log_reader_seek_start(struct log_reader *r)
{
	r->at = 0;
	r->start = r->n = 0;
}

uint64_t log_reader_position(const struct log_reader *r)
{
	return r->at;
}

static enum err read_at(int fd, uint64_t at, char *p, size_t n, size_t *got)
{
	ssize_t k;

	do {
		k = pread(fd, p, n, (off_t)at);
	} while (k < 0 && errno == EINTR);
	*got = k > 0 ? (size_t)k : 0;
	return k < 0 ? ERR_SYSTEM : OK;
}

/* More bytes behind those that are there. ERR_AGAIN at the end of the file. */
static enum err read_more(struct log_reader *r)
{
	size_t want, got;
	enum err e;

	if (r->start) {
		memmove(r->bytes, r->bytes + r->start, r->n);
		r->start = 0;
	}
	want = ROOM - r->n;
	if (want == 0)
		return ERR_LIMIT;
	if (r->end <= r->at)
		return ERR_AGAIN;
	if (want > r->end - r->at)
		want = (size_t)(r->end - r->at);
	e = read_at(r->fd, r->at, r->bytes + r->n, want, &got);
	if (e)
		return e;
	r->at += got;
	r->n += got;
	return got ? OK : ERR_AGAIN;
}

enum err log_reader_next(struct log_reader *r, struct str *line)
{
	size_t looked = 0;

	for (;;) {
		struct str have = str_n(r->bytes + r->start, r->n);
		size_t end = looked + str_find(str_from(have, looked), '\n');
		enum err e;

		if (end < have.n) {
			*line = str_n(have.p, end);
			r->start += end + 1;
			r->n -= end + 1;
			return OK;
		}
		looked = have.n;
		e = read_more(r);
		if (e)
			return e == ERR_AGAIN && r->n ? ERR_TRUNCATED : e;
	}
}

/* Backwards, block by block, to the newline before the last @n lines. */
enum err log_reader_seek_last(struct log_reader *r, uint64_t n)
{
	char block[BACK];
	struct stat st;
	uint64_t at, newlines = 0;

	if (fstat(r->fd, &st) < 0)
		return ERR_SYSTEM;
	at = (uint64_t)st.st_size;
	r->start = r->n = 0;
	r->at = 0;
	while (at > 0) {
		size_t want = at < BACK ? (size_t)at : BACK, got;
		enum err e = read_at(r->fd, at - want, block, want, &got);

		if (e || got != want)
			return e ? e : ERR_AGAIN;
		for (size_t i = want; i > 0; i--) {
			if (block[i - 1] != '\n' || newlines++ < n)
				continue;
			r->at = at - want + i;
			return OK;
		}
		at -= want;
	}
	return OK;
}
