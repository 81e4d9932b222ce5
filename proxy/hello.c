#include "proxy/hello.h"

/* Theory of operation
 *
 * The handshake message lies in pieces, one a record, with a record header before each (RFC 8446
 * 5.1). A cursor reads the message over these joints, so that nothing is put together in memory and
 * nothing is kept between calls. First the records are walked: is the message whole? Only then is
 * it read, once. A record more than HELLO_RECORDS_MAX is refused, so that a hello sent a byte a
 * record and a byte a segment does not cost the square of its length.
 *
 * Each length inside the message bounds what is read inside it (enter(), leave()); every structure
 * must be filled exactly.
 */

#define RECORD_HEADER 5
#define RECORD_HANDSHAKE 22
#define RECORD_ALERT 21
#define RECORD_MAX 16384u	/* plaintext of one record (RFC 8446 5.1) */
#define MESSAGE_HEADER 4
#define CLIENT_HELLO 1

enum { EXT_SERVER_NAME = 0, EXT_ALPN = 16, EXT_ECH = 0xfe0d };

struct cursor {
	struct str rest;	/* records not read yet, from inside one */
	size_t in_record;	/* bytes left of the one that @rest begins in */
	size_t left;		/* bytes of the structure being read */
	bool bad;
};

/* ---- records ---- */

static unsigned u8_at(struct str s, size_t i)
{
	return (unsigned char)s.p[i];
}

static size_t u16_at(struct str s, size_t i)
{
	return (size_t)u8_at(s, i) << 8 | u8_at(s, i + 1);
}

/* Checks as much of a record's header as there is. */
static bool record_header_ok(struct str s)
{
	if (s.n > 0 && u8_at(s, 0) != RECORD_HANDSHAKE)
		return false;
	if (s.n > 1 && u8_at(s, 1) != 3)
		return false;
	if (s.n > 2 && (u8_at(s, 2) < 1 || u8_at(s, 2) > 3))
		return false;
	return s.n < RECORD_HEADER || (u16_at(s, 3) > 0 && u16_at(s, 3) <= RECORD_MAX);
}

/* Copies the next @n bytes of the message, over record headers, or skips them where @to is NULL.
 * The records were walked before: they are whole and their headers right. */
static void copy(struct cursor *c, uint8_t *to, size_t n)
{
	while (n) {
		size_t run;

		if (c->in_record == 0) {
			c->in_record = u16_at(c->rest, 3);
			c->rest = str_from(c->rest, RECORD_HEADER);
		}
		run = n < c->in_record ? n : c->in_record;
		if (to) {
			memcpy(to, c->rest.p, run);
			to += run;
		}
		c->rest = str_from(c->rest, run);
		c->in_record -= run;
		n -= run;
	}
}

/* The message's first bytes, collected over the records' joints. */
struct message_head {
	uint8_t b[MESSAGE_HEADER];
	size_t n;
};

static size_t message_size(const struct message_head *m)
{
	return MESSAGE_HEADER + ((size_t)m->b[1] << 16 | (size_t)m->b[2] << 8 | m->b[3]);
}

static enum hello_result judge_head(const struct message_head *m)
{
	if (m->n > 0 && m->b[0] != CLIENT_HELLO)
		return HELLO_BAD;
	if (m->n == MESSAGE_HEADER && message_size(m) > HELLO_MAX)
		return HELLO_TOO_LONG;
	return HELLO_MORE;
}

/* Are the records of a ClientHello there, whole? *size: the message's, with its header. */
static enum hello_result walk(struct str s, size_t *size)
{
	struct message_head head = { .n = 0 };
	size_t have = 0;

	for (unsigned records = 0; s.n > 0; records++) {
		enum hello_result r;
		size_t len, there;

		if (records == HELLO_RECORDS_MAX || !record_header_ok(s))
			return HELLO_BAD;
		if (s.n < RECORD_HEADER)
			return HELLO_MORE;
		len = u16_at(s, 3);
		s = str_from(s, RECORD_HEADER);
		there = len < s.n ? len : s.n;
		for (size_t i = 0; i < there && head.n < MESSAGE_HEADER; i++)
			head.b[head.n++] = (uint8_t)u8_at(s, i);
		r = judge_head(&head);
		if (r != HELLO_MORE)
			return r;
		have += len;
		if (head.n == MESSAGE_HEADER && have > message_size(&head))
			return HELLO_BAD;	/* another message in the hello's record */
		if (there < len)
			return HELLO_MORE;
		if (head.n == MESSAGE_HEADER && have == message_size(&head)) {
			*size = have;
			return HELLO_DONE;
		}
		s = str_from(s, len);
	}
	return HELLO_MORE;
}

/* ---- the message ---- */

static void take(struct cursor *c, uint8_t *to, size_t n)
{
	if (c->bad || n > c->left) {
		c->bad = true;
		return;
	}
	c->left -= n;
	copy(c, to, n);
}

/* A big-endian number of @n bytes; 0 where there is none. */
static size_t take_uint(struct cursor *c, size_t n)
{
	uint8_t b[2] = { 0, 0 };

	take(c, b + sizeof(b) - n, n);
	return c->bad ? 0 : (size_t)b[0] << 8 | b[1];
}

/* Into a structure whose length comes first, in @n bytes. Returns what is left outside of it. */
static size_t enter(struct cursor *c, size_t n)
{
	size_t len = take_uint(c, n), outside;

	if (c->bad || len > c->left) {
		c->bad = true;
		return 0;
	}
	outside = c->left - len;
	c->left = len;
	return outside;
}

/* Out of it again: it must have been read to its end. */
static void leave(struct cursor *c, size_t outside)
{
	if (c->left != 0)
		c->bad = true;
	c->left = outside;
}

/* A vector of @min to @max bytes, skipped. */
static void skip_vector(struct cursor *c, size_t length_bytes, size_t min, size_t max)
{
	size_t outside = enter(c, length_bytes);

	if (c->left < min || c->left > max)
		c->bad = true;
	take(c, NULL, c->left);
	leave(c, outside);
}

/* ServerNameList (RFC 6066 3) */
static void read_server_name(struct cursor *c, struct hello *out)
{
	size_t outside = enter(c, 2), hosts = 0;

	out->has_sni = true;
	if (c->left == 0)
		c->bad = true;
	while (!c->bad && c->left) {
		size_t type = take_uint(c, 1), after = enter(c, 2);

		if (type == 0 && hosts++ == 0 && c->left > 0 && c->left < sizeof(out->sni)) {
			out->sni_n = c->left;
			take(c, (uint8_t *)out->sni, c->left);
		} else {
			out->sni_bad |= type == 0;
			take(c, NULL, c->left);
		}
		leave(c, after);
	}
	out->sni_bad |= hosts == 0;
	out->sni[out->sni_n] = '\0';
	leave(c, outside);
}

/* ProtocolNameList (RFC 7301 3.1). Names for which there is no room are left out. */
static void read_alpn(struct cursor *c, struct hello *out)
{
	size_t outside = enter(c, 2);

	if (c->left == 0)
		c->bad = true;
	while (!c->bad && c->left) {
		size_t after = enter(c, 1), n = c->left;

		if (n == 0)
			c->bad = true;
		if (n + 1 <= sizeof(out->alpn) - out->alpn_n) {
			out->alpn[out->alpn_n] = (uint8_t)n;
			take(c, out->alpn + out->alpn_n + 1, n);
			out->alpn_n += n + 1;
		} else {
			take(c, NULL, n);
		}
		leave(c, after);
	}
	leave(c, outside);
}

static void read_extension(struct cursor *c, size_t type, struct hello *out)
{
	switch (type) {
	case EXT_SERVER_NAME:
		read_server_name(c, out);
		break;
	case EXT_ALPN:
		read_alpn(c, out);
		break;
	case EXT_ECH:
		out->ech = true;
		take(c, NULL, c->left);
		break;
	default:
		take(c, NULL, c->left);
		break;
	}
}

/* No type may come twice (RFC 8446 4.2): two readers could take a different one of the two. */
static void read_extensions(struct cursor *c, struct hello *out)
{
	uint8_t seen[65536 / 8] = { 0 };
	size_t outside = enter(c, 2);

	while (!c->bad && c->left) {
		size_t type = take_uint(c, 2), after = enter(c, 2);
		uint8_t bit = (uint8_t)(1u << (type & 7));

		if (seen[type >> 3] & bit)
			c->bad = true;
		seen[type >> 3] |= bit;
		read_extension(c, type, out);
		leave(c, after);
	}
	leave(c, outside);
}

/* ClientHello (RFC 8446 4.1.2, RFC 5246 7.4.1.2) */
static bool read_hello(struct cursor *c, struct hello *out)
{
	take(c, NULL, MESSAGE_HEADER);
	if (take_uint(c, 2) >> 8 != 3)
		c->bad = true;
	take(c, NULL, 32);			/* random */
	skip_vector(c, 1, 0, 32);		/* session id */
	skip_vector(c, 2, 2, 65534);		/* cipher suites */
	skip_vector(c, 1, 1, 255);		/* compression methods */
	if (!c->bad && c->left)
		read_extensions(c, out);
	return !c->bad && c->left == 0;
}

enum hello_result hello_parse(struct str bytes, struct hello *out)
{
	struct str bounded = str_n(bytes.p, bytes.n < HELLO_MAX ? bytes.n : HELLO_MAX);
	struct cursor c = { .rest = bounded };
	enum hello_result r;

	memset(out, 0, sizeof(*out));
	if (bytes.n > 0 && u8_at(bytes, 0) != RECORD_HANDSHAKE)
		return HELLO_NOT_TLS;
	r = walk(bounded, &c.left);
	if (r == HELLO_MORE && bytes.n >= HELLO_MAX)
		return HELLO_TOO_LONG;
	if (r != HELLO_DONE)
		return r;
	return read_hello(&c, out) ? HELLO_DONE : HELLO_BAD;
}

void hello_alert(uint8_t description, uint8_t out[HELLO_ALERT_LEN])
{
	const uint8_t alert[HELLO_ALERT_LEN] = { RECORD_ALERT,  3,          3, 0, 2,
						 2 /* fatal */, description };

	memcpy(out, alert, sizeof(alert));
}
