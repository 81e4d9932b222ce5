#include "sandbox/message.h"

#include <string.h>

const struct message_row *message_row(const struct message_row *table, uint16_t type)
{
	for (; table->type; table++)
		if (table->type == type)
			return table;
	return NULL;
}

/* ---- writing ---- */

static void put_le(struct buf *out, uint64_t v, size_t n)
{
	char bytes[sizeof(v)];

	for (size_t i = 0; i < n; i++)
		bytes[i] = (char)(v >> (8 * i));
	buf_put(out, bytes, n);
}

static size_t int_width(enum field_kind kind)
{
	return kind == FIELD_U8 ? 1 : kind == FIELD_U16 ? 2 : kind == FIELD_U32 ? 4 : 8;
}

static uint64_t load_int(const char *at, enum field_kind kind)
{
	uint8_t v8;
	uint16_t v16;
	uint32_t v32;
	uint64_t v64;

	switch (int_width(kind)) {
	case 1:
		memcpy(&v8, at, 1);
		return v8;
	case 2:
		memcpy(&v16, at, 2);
		return v16;
	case 4:
		memcpy(&v32, at, 4);
		return v32;
	default:
		memcpy(&v64, at, 8);
		return v64;
	}
}

static void put_text(struct buf *out, struct str s)
{
	put_le(out, s.n, 4);
	buf_put_str(out, s);
}

static enum err put_field(const struct field *f, const char *msg, struct buf *out)
{
	struct str s;
	struct str_list list;

	if (f->kind == FIELD_STR) {
		memcpy(&s, msg + f->offset, sizeof(s));
		if (s.n > f->max)
			return ERR_LIMIT;
		put_text(out, s);
	} else if (f->kind == FIELD_LIST) {
		memcpy(&list, msg + f->offset, sizeof(list));
		if (list.n > f->max)
			return ERR_LIMIT;
		put_le(out, list.n, 4);
		for (size_t i = 0; i < list.n; i++)
			put_text(out, list.v[i]);
	} else {
		put_le(out, load_int(msg + f->offset, f->kind), int_width(f->kind));
	}
	return OK;
}

enum err message_encode(const struct message_row *row, const void *msg, struct buf *out)
{
	size_t start = out->n;

	put_le(out, row->type, 2);
	for (const struct field *f = row->fields; f->kind != FIELD_END; f++) {
		enum err e = put_field(f, msg, out);

		if (e)
			return e;
	}
	if (out->failed)
		return ERR_NOMEM;
	return out->n - start > MESSAGE_MAX ? ERR_LIMIT : OK;
}

/* ---- reading: a cursor that stays failed once it has failed ---- */

struct cursor {
	struct str rest;
	bool failed;
	struct str *scratch;
	size_t scratch_n;
};

static struct str take(struct cursor *c, size_t n)
{
	struct str s = str_n(c->rest.p, n);

	if (c->failed || n > c->rest.n) {
		c->failed = true;
		return STR_NONE;
	}
	c->rest = str_from(c->rest, n);
	return s;
}

static uint64_t take_le(struct cursor *c, size_t n)
{
	struct str s = take(c, n);
	uint64_t v = 0;

	for (size_t i = 0; i < s.n; i++)
		v |= (uint64_t)(unsigned char)s.p[i] << (8 * i);
	return v;
}

static void store_int(char *at, enum field_kind kind, uint64_t v)
{
	uint8_t v8 = (uint8_t)v;
	uint16_t v16 = (uint16_t)v;
	uint32_t v32 = (uint32_t)v;

	switch (int_width(kind)) {
	case 1:
		memcpy(at, &v8, 1);
		break;
	case 2:
		memcpy(at, &v16, 2);
		break;
	case 4:
		memcpy(at, &v32, 4);
		break;
	default:
		memcpy(at, &v, 8);
	}
}

static enum err take_list(const struct field *f, struct cursor *c, struct str_list *list)
{
	uint64_t n = take_le(c, 4);

	if (n > f->max)
		return ERR_LIMIT;
	if (n > c->scratch_n)
		return ERR_LIMIT;
	list->v = c->scratch;
	list->n = (size_t)n;
	for (size_t i = 0; i < n; i++)
		c->scratch[i] = take(c, (size_t)take_le(c, 4));
	c->scratch += n;
	c->scratch_n -= n;
	return OK;
}

static enum err take_field(const struct field *f, struct cursor *c, char *msg)
{
	if (f->kind == FIELD_STR) {
		uint64_t n = take_le(c, 4);
		struct str s;

		if (n > f->max)
			return ERR_LIMIT;
		s = take(c, (size_t)n);
		memcpy(msg + f->offset, &s, sizeof(s));
	} else if (f->kind == FIELD_LIST) {
		struct str_list list = { 0 };
		enum err e = take_list(f, c, &list);

		if (e)
			return e;
		memcpy(msg + f->offset, &list, sizeof(list));
	} else {
		store_int(msg + f->offset, f->kind, take_le(c, int_width(f->kind)));
	}
	return c->failed ? ERR_SYNTAX : OK;
}

enum err message_decode(const struct message_row *row, struct str *packet, void *msg,
			struct str *scratch, size_t scratch_n)
{
	struct cursor c = { .rest = *packet, .scratch = scratch, .scratch_n = scratch_n };

	memset(msg, 0, row->size);
	for (const struct field *f = row->fields; f->kind != FIELD_END; f++) {
		enum err e = take_field(f, &c, msg);

		if (e)
			return e;
	}
	*packet = c.rest;
	return OK;
}
