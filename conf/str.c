#include "conf/str.h"

bool str_eq_nocase(struct str a, struct str b)
{
	if (a.n != b.n)
		return false;
	for (size_t i = 0; i < a.n; i++)
		if (ascii_lower(a.p[i]) != ascii_lower(b.p[i]))
			return false;
	return true;
}

static bool is_lower_or_digit(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool str_is_token(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!is_lower_or_digit(ascii_lower(s.p[i])) &&
		    !(s.p[i] && strchr("!#$%&'*+-.^_`|~", s.p[i])))
			return false;
	return s.n > 0;
}

bool str_is_id(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (!is_lower_or_digit(c) && (i == 0 || (c != '_' && c != '.' && c != '-')))
			return false;
	}
	return s.n > 0;
}

size_t str_copy_plain(struct str s, size_t max, char *out)
{
	size_t n = s.n < max ? s.n : max;

	for (size_t i = 0; i < n; i++) {
		char c = s.p[i];
		bool plain = is_lower_or_digit(ascii_lower(c)) || c == '-' || c == '.';

		out[i] = plain ? c : '_';
	}
	return n;
}

size_t str_find(struct str s, char c)
{
	const char *hit = s.n ? memchr(s.p, c, s.n) : NULL;

	return hit ? (size_t)(hit - s.p) : s.n;
}

static bool is_ows(char c)
{
	return c == ' ' || c == '\t';
}

struct str str_trim(struct str s)
{
	while (s.n && is_ows(s.p[0]))
		s = str_from(s, 1);
	while (s.n && is_ows(s.p[s.n - 1]))
		s.n--;
	return s;
}

bool str_to_u64(struct str s, uint64_t max, uint64_t *out)
{
	uint64_t v = 0;

	if (s.n == 0)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		uint64_t digit = (uint64_t)(unsigned char)s.p[i] - '0';

		if (digit > 9 || digit > max || v > (max - digit) / 10)
			return false;
		v = v * 10 + digit;
	}
	*out = v;
	return true;
}

struct str str_decimal(uint64_t v, char room[STR_DECIMAL_MAX])
{
	char *at = room + STR_DECIMAL_MAX;

	do {
		*--at = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	return str_n(at, (size_t)(room + STR_DECIMAL_MAX - at));
}

void str_to_z(struct str s, char *out, size_t room)
{
	size_t n = s.n < room ? s.n : room - 1;

	if (n)
		memcpy(out, s.p, n);
	out[n] = '\0';
}

struct str str_cut(struct str *rest, char c)
{
	size_t at = str_find(*rest, c);
	struct str head = str_n(rest->p, at);

	*rest = at < rest->n ? str_from(*rest, at + 1) : STR_NONE;
	return head;
}
