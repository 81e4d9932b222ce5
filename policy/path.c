/* Theory of operation
 *
 * A path is read segment by segment, and each segment is judged after its escapes of unreserved
 * characters are gone: what an escape hides ("%2e", "%25%32%66") is seen as what it stands for.
 * So the text that comes out is a fixed point: normalising it again gives it back.
 *
 * Matching walks pattern and path in parallel, first by segments, then by characters inside one.
 * Both walks remember only the last star: a later one makes the choices of all earlier ones moot,
 * so there is nothing to go back to beyond it.
 */
#include "policy/path.h"

#include "conf/hex.h"

/* The byte that the escape at @at stands for, or -1 where there is no whole escape. */
static int escape_value(struct str s, size_t at)
{
	int hi, lo;

	if (s.n - at < 3 || s.p[at] != '%')
		return -1;
	hi = hex_value(s.p[at + 1]);
	lo = hex_value(s.p[at + 2]);
	return hi < 0 || lo < 0 ? -1 : hi * 16 + lo;
}

/* ---- normalising ---- */

static bool is_unreserved(int c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '.' || c == '_' || c == '~';
}

/* pchar without escapes (RFC 3986 3.3) */
static bool is_path_char(int c)
{
	return is_unreserved(c) || (c && c < 0x80 && strchr("!$&'()*+,;=:@", c));
}

static bool is_control(int c)
{
	return c < 0x20 || c == 0x7f;
}

static void put_escape(struct buf *out, int c)
{
	static const char hex[] = "0123456789ABCDEF";
	char text[3] = { '%', hex[c >> 4], hex[c & 15] };

	buf_put(out, text, sizeof(text));
}

static const char *put_escaped(struct buf *out, struct str seg, size_t at)
{
	int c = escape_value(seg, at);

	if (c < 0)
		return "a '%' that starts no escape";
	if (c == '/' || c == '\\')
		return "an escaped slash or backslash";
	if (is_control(c))
		return "an escaped control character";
	if (is_unreserved(c))
		buf_put_c(out, (char)c);
	else
		put_escape(out, c);
	return NULL;
}

static const char *put_raw(struct buf *out, char raw)
{
	int c = (unsigned char)raw;

	if (is_control(c))
		return "a raw control character";
	if (c > 0x7f)
		return "a raw byte over 0x7f";
	if (c == '\\')
		return "a raw backslash";
	if (is_path_char(c))
		buf_put_c(out, raw);
	else
		put_escape(out, c);
	return NULL;
}

/* '/', 0x2f, in more bytes than UTF-8 has for it (RFC 3629 3), and its like. */
static bool is_overlong(struct str seg, size_t at)
{
	int lead = escape_value(seg, at), next;

	if (lead == 0xc0 || lead == 0xc1)
		return true;
	if (lead != 0xe0 && lead != 0xf0)
		return false;
	next = escape_value(seg, at + 3);
	return next >= 0x80 && next < (lead == 0xe0 ? 0xa0 : 0x90);
}

/* Is @seg a dot segment, up to a ';' in it (which some servers cut off)? */
static bool is_dots(struct str seg, bool *parameters)
{
	size_t n = 0;

	while (n < seg.n && seg.p[n] == '.')
		n++;
	if (n != 1 && n != 2)
		return false;
	*parameters = n < seg.n;
	return n == seg.n || seg.p[n] == ';' || escape_value(seg, n) == ';';
}

/* @seg is decoded: what would a server that decodes once more, or in another way, make of it? */
static const char *judge_segment(struct str seg)
{
	bool parameters;

	if (is_dots(seg, &parameters))
		return parameters ? "';' in a dot segment" : "an escaped dot segment";
	for (size_t i = 0; i < seg.n; i++) {
		if (seg.p[i] != '%')
			continue;
		if (escape_value(seg, i) == '%' && seg.n - i >= 5 && hex_value(seg.p[i + 3]) >= 0 &&
		    hex_value(seg.p[i + 4]) >= 0)
			return "an escape inside an escape";
		if (is_overlong(seg, i))
			return "an overlong UTF-8 sequence";
	}
	return NULL;
}

static const char *put_segment(struct buf *out, struct str seg)
{
	size_t start;
	const char *why = NULL;

	buf_put_c(out, '/');
	start = out->n;
	for (size_t i = 0; i < seg.n && !why; i++) {
		if (seg.p[i] == '%') {
			why = put_escaped(out, seg, i);
			i += 2;
		} else {
			why = put_raw(out, seg.p[i]);
		}
	}
	if (why || out->failed)
		return why;
	return judge_segment(str_n(out->p + start, out->n - start));
}

static void drop_segment(struct buf *out, size_t base)
{
	while (out->n > base && out->p[out->n - 1] != '/')
		out->n--;
	if (out->n > base)
		out->n--;
}

static const char *put_segments(struct buf *out, struct str raw)
{
	size_t base = out->n;
	struct str rest = str_from(raw, 1);
	const char *why = NULL;

	while (rest.p && !why) {
		struct str seg = str_cut(&rest, '/');
		bool last = !rest.p, up = str_eq(seg, STR(".."));

		if (up)
			drop_segment(out, base);
		if (up || str_eq(seg, STR("."))) {
			if (last)
				buf_put_c(out, '/');
			continue;
		}
		if (seg.n == 0 && !last)
			return "an empty segment";
		why = put_segment(out, seg);
	}
	return why;
}

static const char *find_bad(struct str raw)
{
	if (raw.n == 0 || raw.p[0] != '/')
		return "does not start with '/'";
	for (size_t i = 0; i < raw.n; i++)
		if (raw.p[i] == ' ' || raw.p[i] == '?' || raw.p[i] == '#')
			return "a byte that may not stand in a path";
	return NULL;
}

enum path_result path_normalise(struct str raw, struct buf *out, const char **why)
{
	size_t base = out->n;

	*why = find_bad(raw);
	if (*why)
		return PATH_BAD;
	*why = put_segments(out, raw);
	if (*why) {
		out->n = base;
		return PATH_AMBIGUOUS;
	}
	if (out->failed) {
		*why = "longer than the limit";
		out->n = base;
		return PATH_BAD;
	}
	return PATH_OK;
}

/* ---- matching ---- */

/* One character: a byte or a whole escape. Returns its value, moves *at behind it. */
static int next_char(struct str s, size_t *at)
{
	int c = escape_value(s, *at);

	if (c < 0)
		return (unsigned char)s.p[(*at)++];
	*at += 3;
	return c;
}

static bool match_segment(struct str pattern, struct str seg)
{
	size_t p = 0, s = 0, after_star = 0, from = 0;
	bool star = false;

	while (s < seg.n) {
		size_t p_next = p, s_next = s;

		if (p < pattern.n && pattern.p[p] == '*') {
			star = true;
			after_star = ++p;
			from = s;
			continue;
		}
		if (p < pattern.n && next_char(pattern, &p_next) == next_char(seg, &s_next)) {
			p = p_next;
			s = s_next;
			continue;
		}
		if (!star)
			return false;
		/* The star takes one character more. */
		next_char(seg, &from);
		s = from;
		p = after_star;
	}
	while (p < pattern.n && pattern.p[p] == '*')
		p++;
	return p == pattern.n;
}

/* A pattern or path as segments still to come; p == NULL: none are left. */
static struct str first_segment(struct str s)
{
	return s.n && s.p[0] == '/' ? str_from(s, 1) : s;
}

bool path_match(struct str pattern, struct str path)
{
	struct str pat = first_segment(pattern), rest = first_segment(path);
	struct str after_star = STR_NONE, from = STR_NONE;
	bool star = false;

	while (rest.p) {
		struct str pat_next = pat, rest_next = rest;
		struct str want = pat.p ? str_cut(&pat_next, '/') : STR_NONE;
		struct str seg = str_cut(&rest_next, '/');

		if (pat.p && str_eq(want, STR("**"))) {
			star = true;
			pat = after_star = pat_next;
			from = rest;
		} else if (pat.p && match_segment(want, seg)) {
			pat = pat_next;
			rest = rest_next;
		} else if (star) {
			str_cut(&from, '/');
			rest = from;
			pat = after_star;
		} else {
			return false;
		}
	}
	while (pat.p)
		if (!str_eq(str_cut(&pat, '/'), STR("**")))
			return false;
	return true;
}

static const char *judge_stars(struct str pattern)
{
	struct str rest = str_from(pattern, 1);

	while (rest.p) {
		struct str seg = str_cut(&rest, '/');

		if (str_eq(seg, STR("**")))
			continue;
		for (size_t i = 0; i + 1 < seg.n; i++)
			if (seg.p[i] == '*' && seg.p[i + 1] == '*')
				return "'**' stands only as a whole segment";
	}
	return NULL;
}

bool path_pattern_valid(struct str pattern, const char **why)
{
	struct buf normal;
	bool ok;

	buf_init(&normal, 3 * pattern.n + 1);
	ok = path_normalise(pattern, &normal, why) == PATH_OK;
	if (ok && !str_eq(buf_str(&normal), pattern)) {
		*why = "not in its normal form (RFC 3986 6.2.2)";
		ok = false;
	}
	buf_free(&normal);
	if (ok)
		*why = judge_stars(pattern);
	return ok && !*why;
}
