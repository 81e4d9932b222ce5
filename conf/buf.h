/* conf/buf.h - an owned, growing run of bytes with a named limit
 *
 * Ownership   the caller owns the struct; buf_free() releases what it holds. buf_str() borrows
 *             until the next change.
 * Blocking    never.
 * Failure     sticky: once an append would pass the limit or memory ran out, @failed is set and
 *             further appends do nothing, so that a writer asks once, at its end.
 * Limits      @max, given at buf_init().
 * Tests       tests/unit/conf/test_buf.c
 */
#ifndef CONF_BUF_H
#define CONF_BUF_H

#include "conf/str.h"

struct buf {
	char *p;
	size_t n, cap, max;
	bool failed;
};

void buf_init(struct buf *b, size_t max);
void buf_free(struct buf *b);
/* Overwrites before it frees: for bytes that may hold a secret. */
void buf_wipe(struct buf *b);
void buf_put_grow(struct buf *b, const void *p, size_t n);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Removes the first @n bytes. */
void buf_drop(struct buf *b, size_t n);
/* Room for @n more bytes at the end, or NULL (then failed); buf_grown() says how many were used. */
char *buf_room(struct buf *b, size_t n);
void buf_grown(struct buf *b, size_t n);

/* What fits is put without a call: most appends are a few bytes. */
static inline void buf_put(struct buf *b, const void *p, size_t n)
{
	if (n == 0 || b->failed || n > b->cap - b->n) {
		buf_put_grow(b, p, n);
		return;
	}
	memcpy(b->p + b->n, p, n);
	b->n += n;
}

static inline void buf_put_str(struct buf *b, struct str s)
{
	buf_put(b, s.p, s.n);
}

static inline void buf_put_c(struct buf *b, char c)
{
	buf_put(b, &c, 1);
}

static inline struct str buf_str(const struct buf *b)
{
	return (struct str){ b->p ? b->p : "", b->n };
}

#endif
