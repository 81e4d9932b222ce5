#include "conf/json.h"

#include <stdlib.h>

#include "conf/utf8.h"

void json_init(struct json *j, struct buf *out)
{
	*j = (struct json){ .out = out, .first = { true } };
}

/* Before each item: a comma, unless it is the first of its level or follows its key. */
static void item(struct json *j)
{
	if (!j->first[j->depth])
		buf_put_c(j->out, ',');
	j->first[j->depth] = false;
}

static void open_level(struct json *j, char c)
{
	item(j);
	buf_put_c(j->out, c);
	if (++j->depth == JSON_DEPTH_MAX)
		abort();
	j->first[j->depth] = true;
}

static void close_level(struct json *j, char c)
{
	if (j->depth == 0)
		abort();
	j->depth--;
	buf_put_c(j->out, c);
}

void json_object(struct json *j)
{
	open_level(j, '{');
}

void json_object_end(struct json *j)
{
	close_level(j, '}');
}

void json_array(struct json *j)
{
	open_level(j, '[');
}

void json_array_end(struct json *j)
{
	close_level(j, ']');
}

#define ONES (UINT64_MAX / 255)

/* The high bit of each byte that is zero, and perhaps of others behind one. */
static uint64_t zeros(uint64_t v)
{
	return (v - ONES) & ~v & ONES * 0x80;
}

/* How many bytes at the front of @s stand for themselves: eight at a step, then one. */
static size_t plain(struct str s)
{
	size_t n = 0;
	uint64_t v;

	for (; s.n - n >= sizeof(v); n += sizeof(v)) {
		memcpy(&v, s.p + n, sizeof(v));
		if (((v - ONES * 0x20) & ONES * 0x80) | (v & ONES * 0x80) | zeros(v ^ ONES * '"') |
		    zeros(v ^ ONES * '\\') | zeros(v ^ ONES * 0x7f))
			break;
	}
	while (n < s.n && (unsigned char)s.p[n] >= 0x20 && (unsigned char)s.p[n] < 0x7f &&
	       s.p[n] != '"' && s.p[n] != '\\')
		n++;
	return n;
}

static void quoted(struct json *j, struct str s)
{
	buf_put_c(j->out, '"');
	while (s.n) {
		uint32_t c = 0;
		size_t n = plain(s);

		buf_put(j->out, s.p, n);
		s = str_from(s, n);
		if (s.n == 0)
			break;
		n = utf8_next(s, &c);
		if (n == 0)
			buf_put(j->out, "\xef\xbf\xbd", 3);
		else if (c == '"' || c == '\\')
			buf_printf(j->out, "\\%c", (char)c);
		else if (c < 0x20 || (c >= 0x7f && c < 0xa0))
			buf_printf(j->out, "\\u%04x", c);
		else
			buf_put(j->out, s.p, n);
		s = str_from(s, n ? n : 1);
	}
	buf_put_c(j->out, '"');
}

void json_key(struct json *j, const char *key)
{
	item(j);
	quoted(j, str_of(key));
	buf_put_c(j->out, ':');
	j->first[j->depth] = true;
}

void json_key_written(struct json *j, struct str key)
{
	item(j);
	buf_put_str(j->out, key);
	j->first[j->depth] = true;
}

void json_str(struct json *j, struct str s)
{
	item(j);
	quoted(j, s);
}

void json_u64(struct json *j, uint64_t v)
{
	char room[STR_DECIMAL_MAX];

	item(j);
	buf_put_str(j->out, str_decimal(v, room));
}

void json_null(struct json *j)
{
	item(j);
	buf_put_str(j->out, STR("null"));
}

void json_bool(struct json *j, bool v)
{
	item(j);
	buf_put_str(j->out, v ? STR("true") : STR("false"));
}

void json_put_str(struct json *j, const char *key, struct str s)
{
	json_key(j, key);
	json_str(j, s);
}

void json_put_u64(struct json *j, const char *key, uint64_t v)
{
	json_key(j, key);
	json_u64(j, v);
}

void json_put_bool(struct json *j, const char *key, bool v)
{
	json_key(j, key);
	json_bool(j, v);
}
