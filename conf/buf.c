#include "conf/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUF_FIRST 256

void buf_init(struct buf *b, size_t max)
{
	*b = (struct buf){ .max = max };
}

void buf_free(struct buf *b)
{
	free(b->p);
	buf_init(b, b->max);
}

void buf_wipe(struct buf *b)
{
	if (b->p)
		explicit_bzero(b->p, b->cap);
	buf_free(b);
}

/* Grows by a new block and a wiped old one, never realloc(): what is left behind by a move could
 * be a secret. */
static bool grow(struct buf *b, size_t need)
{
	size_t cap = b->cap ? b->cap : BUF_FIRST;
	char *p;

	while (cap < need)
		cap *= 2;
	if (cap > b->max)
		cap = b->max;
	p = malloc(cap);
	if (!p)
		return false;
	if (b->p) {
		memcpy(p, b->p, b->n);
		explicit_bzero(b->p, b->n);
		free(b->p);
	}
	b->p = p;
	b->cap = cap;
	return true;
}

char *buf_room(struct buf *b, size_t n)
{
	if (b->failed || n > b->max || b->n > b->max - n) {
		b->failed = true;
		return NULL;
	}
	if (b->n + n > b->cap && !grow(b, b->n + n)) {
		b->failed = true;
		return NULL;
	}
	return b->p + b->n;
}

void buf_grown(struct buf *b, size_t n)
{
	b->n += n;
}

void buf_put_grow(struct buf *b, const void *p, size_t n)
{
	char *to = n ? buf_room(b, n) : NULL;

	if (!to)
		return;
	memcpy(to, p, n);
	b->n += n;
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap, again;
	int n;
	char *to;

	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	to = n >= 0 ? buf_room(b, (size_t)n + 1) : NULL;
	if (to) {
		vsnprintf(to, (size_t)n + 1, fmt, again);
		b->n += (size_t)n;
	}
	va_end(again);
}

void buf_drop(struct buf *b, size_t n)
{
	if (n == 0)
		return;
	memmove(b->p, b->p + n, b->n - n);
	b->n -= n;
}
