/* proxy/fields.h - HTTP fields of one message: an ordered list of names and values
 *
 * Version-neutral: names are kept as they were spelled and looked up without regard to case.
 *
 * Ownership   the list owns one buffer for all text; strs handed out live until the next change.
 *             fields_free(); fields_wipe() where a credential was put on.
 * Blocking    never.
 * Failure     sticky in the buffer (fields_failed()).
 * Limits      FIELDS_MAX fields; bytes as given at fields_init() (what was removed still counts).
 * Tests       tests/unit/proxy/test_fields.c
 */
#ifndef PROXY_FIELDS_H
#define PROXY_FIELDS_H

#include "conf/buf.h"

#define FIELDS_MAX 256

/* Which bytes may stand where. */
#define HTTP_TOKEN 1	/* tchar (RFC 9110 5.6.2): methods, field names */
#define HTTP_VALUE 2	/* field-vchar, SP, HTAB (RFC 9110 5.5), obs-text with them: field values */
#define HTTP_TARGET 4	/* VCHAR: a request target; what is not ASCII must come percent-encoded */
extern const uint8_t http_class[256];

static inline bool http_all(struct str s, uint8_t class)
{
	for (size_t i = 0; i < s.n; i++)
		if (!(http_class[(unsigned char)s.p[i]] & class))
			return false;
	return true;
}

/* http_all(s, HTTP_VALUE), eight bytes at a step: values are most of what is read. */
static inline bool http_is_value(struct str s)
{
	const uint64_t ones = UINT64_MAX / 255, highs = ones * 0x80;

	for (; s.n >= sizeof(uint64_t); s = str_from(s, sizeof(uint64_t))) {
		uint64_t v, del;

		memcpy(&v, s.p, sizeof(v));
		del = v ^ ones * 0x7f;
		/* A byte under 0x20 or DEL; a HTAB is one of them that may stand. */
		if ((((v - ones * 0x20) & ~v) | ((del - ones) & ~del)) & highs &&
		    !http_all(str_n(s.p, sizeof(v)), HTTP_VALUE))
			return false;
	}
	return http_all(s, HTTP_VALUE);
}

static inline bool http_is_token(struct str s)
{
	return s.n > 0 && http_all(s, HTTP_TOKEN);
}

/* A row of such a list. */
#define STR_INIT(lit) { "" lit, sizeof(lit) - 1 }
/* Is @name one of these, without regard to case? */
bool http_one_of(struct str name, const struct str *names, size_t n);

/* What must not be read from a trailer (RFC 9110 6.5.1): framing, routing, request modifiers,
 * authentication, how the content is to be read. Who sends it wants somebody to. */
bool http_forbidden_in_trailer(struct str name);

struct field_at {
	uint32_t name, name_n, value, value_n;	/* offsets into the buffer */
};

struct fields {
	struct buf text;
	struct field_at *at;
	size_t n, room;
	bool overflow;
};

void fields_init(struct fields *f, size_t max_bytes);
void fields_free(struct fields *f);
void fields_wipe(struct fields *f);
void fields_clear(struct fields *f);
bool fields_failed(const struct fields *f);
/* Neither @name nor @value may lie in the list itself. An empty name fails the list. */
void fields_add(struct fields *f, struct str name, struct str value);
struct str fields_name(const struct fields *f, size_t i);
struct str fields_value(const struct fields *f, size_t i);
/* For changing a value in place (same length). */
char *fields_value_mut(struct fields *f, size_t i);
/* The first with that name (case-insensitive), starting at @from; f->n where there is none. */
size_t fields_find(const struct fields *f, struct str name, size_t from);
bool fields_get(const struct fields *f, struct str name, struct str *value);
/* Removes all with that name; says how many there were. */
size_t fields_remove(struct fields *f, struct str name);
void fields_remove_at(struct fields *f, size_t i);
/* Does a comma-separated list field (all its lines) hold this token, case-insensitively? */
bool fields_has_token(const struct fields *f, struct str name, struct str token);
/* Removes what must not be forwarded: Connection and what it names (but not what is meant for the
 * far end: Host, Content-Length, Authorization, ...), Keep-Alive, Proxy-* but Proxy-Status (RFC
 * 9209 2), TE (but "trailers"), Transfer-Encoding, Upgrade, HTTP2-Settings (RFC 9110 7.6.1, RFC
 * 9113 8.2.2). */
void fields_drop_hop_by_hop(struct fields *f);

#endif
