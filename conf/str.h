/* conf/str.h - borrowed text: a pointer and a length, never a NUL to look for
 *
 * Ownership   a struct str borrows; who hands it out says how long it lives.
 * Blocking    never.
 * Failure     none of these can fail.
 * Tests       tests/unit/conf/test_str.c
 */
#ifndef CONF_STR_H
#define CONF_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct str {
	const char *p;
	size_t n;
};

#define STR(lit) ((struct str){ "" lit, sizeof(lit) - 1 })
#define STR_NONE ((struct str){ NULL, 0 })
/* For printf("%.*s", STR_ARG(s)) */
#define STR_ARG(s) ((int)(s).n), ((s).p ? (s).p : "")

static inline struct str str_of(const char *z)
{
	return (struct str){ z, z ? strlen(z) : 0 };
}

static inline struct str str_n(const char *p, size_t n)
{
	return (struct str){ p, n };
}

static inline struct str str_from(struct str s, size_t at)
{
	return (struct str){ s.p + at, s.n - at };
}

static inline bool str_eq(struct str a, struct str b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline bool str_starts(struct str s, struct str prefix)
{
	return s.n >= prefix.n && (prefix.n == 0 || memcmp(s.p, prefix.p, prefix.n) == 0);
}

static inline bool str_ends(struct str s, struct str suffix)
{
	return s.n >= suffix.n &&
	       (suffix.n == 0 || memcmp(s.p + s.n - suffix.n, suffix.p, suffix.n) == 0);
}

/* ASCII only: names, methods and field names of HTTP are (RFC 9110 5.1). */
static inline char ascii_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

bool str_eq_nocase(struct str a, struct str b);
/* A token (RFC 9110 5.6.2): methods, field names. Not empty. */
bool str_is_token(struct str s);
/* Lower-case letters, digits, '_', '.' and '-', a letter or digit first: how rules, credentials and
 * secrets are called. Not empty. */
bool str_is_id(struct str s);
/* Copies @s, at most @max bytes of it, to where only a plain word may stand: what is no ASCII
 * letter, digit or "-._" becomes '_'. Returns how many bytes. */
size_t str_copy_plain(struct str s, size_t max, char *out);
/* The index of @c in @s, or s.n where it is not there. */
size_t str_find(struct str s, char c);
/* @s without leading and trailing SP and HTAB (OWS, RFC 9110 5.6.3). */
struct str str_trim(struct str s);
/* Decimal digits only, the whole of @s, at most @max. False: *out untouched. */
bool str_to_u64(struct str s, uint64_t max, uint64_t *out);
/* In decimal, into @room. */
#define STR_DECIMAL_MAX 20
struct str str_decimal(uint64_t v, char room[STR_DECIMAL_MAX]);
/* Copies @s, cut to what fits, with a NUL behind it. */
void str_to_z(struct str s, char *out, size_t room);
/* Cuts @rest at the first @c: the part before is returned, *rest is what follows it
 * (empty with p == NULL where no @c was left). */
struct str str_cut(struct str *rest, char c);

#endif
