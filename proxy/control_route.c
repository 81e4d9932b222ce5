#include "proxy/control_route.h"

#include "conf/hex.h"
#include "conf/utf8.h"

/* ---- percent-encoding (RFC 3986 2.1) ---- */

static bool is_plain(struct str s)
{
	while (s.n) {
		uint32_t code = 0;
		size_t n = utf8_next(s, &code);

		if (n == 0 || code < 0x20 || code == 0x7f)
			return false;
		s = str_from(s, n);
	}
	return true;
}

/* False: broken, or nothing that may stand in a text. */
static bool decode(struct str s, struct arena *arena, struct str *out)
{
	char *to = arena_take(arena, s.n + 1, 1);
	size_t n = 0;

	if (!to)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] != '%') {
			to[n++] = s.p[i];
			continue;
		}
		if (s.n - i < 3 || hex_value(s.p[i + 1]) < 0 || hex_value(s.p[i + 2]) < 0)
			return false;
		to[n++] = (char)(hex_value(s.p[i + 1]) << 4 | hex_value(s.p[i + 2]));
		i += 2;
	}
	*out = str_n(to, n);
	return is_plain(*out);
}

static bool put_value(struct control_values *v, struct str name, struct str value)
{
	if (v->n == CONTROL_VALUES_MAX)
		return false;
	v->items[v->n].name = name;
	v->items[v->n++].value = value;
	return true;
}

/* ---- paths ---- */

static bool is_variable(struct str segment)
{
	return segment.n > 2 && segment.p[0] == '{' && segment.p[segment.n - 1] == '}';
}

/* Where segments agree is all that is asked here: nothing is decoded. */
static bool matches(struct str pattern, struct str path)
{
	while (pattern.p && path.p) {
		struct str want = str_cut(&pattern, '/'), got = str_cut(&path, '/');

		if (is_variable(want) ? got.n == 0 : !str_eq(want, got))
			return false;
	}
	return !pattern.p && !path.p;
}

static bool take_values(struct str pattern, struct str path, struct arena *arena,
			struct control_values *out)
{
	while (pattern.p) {
		struct str want = str_cut(&pattern, '/'), got = str_cut(&path, '/'), value;

		if (!is_variable(want))
			continue;
		if (!decode(got, arena, &value) ||
		    !put_value(out, str_n(want.p + 1, want.n - 2), value))
			return false;
	}
	return true;
}

enum control_found control_route_find(const struct control_route *routes, struct str method,
				      struct str path, struct arena *arena,
				      const struct control_route **out,
				      struct control_values *values, struct buf *allow)
{
	enum control_found found = CONTROL_NO_PATH;

	for (const struct control_route *r = routes; r->method; r++) {
		if (!matches(str_of(r->pattern), path))
			continue;
		if (str_eq(method, str_of(r->method))) {
			*out = r;
			return take_values(str_of(r->pattern), path, arena, values) ? CONTROL_FOUND
										    : CONTROL_BAD_TARGET;
		}
		buf_printf(allow, "%s%s", allow->n ? ", " : "", r->method);
		found = CONTROL_NO_METHOD;
	}
	return found;
}

/* ---- queries ---- */

bool control_query_split(struct str query, struct arena *arena, struct control_values *out,
			 const char **why)
{
	*why = "the query cannot be read: write NAME=VALUE&NAME=VALUE, percent-encoded UTF-8";
	while (query.n) {
		struct str value = str_cut(&query, '&'), name = str_cut(&value, '=');

		if (name.n == 0 || !decode(name, arena, &name) || !decode(value, arena, &value))
			return false;
		for (size_t i = 0; i < out->n; i++) {
			if (!str_eq(out->items[i].name, name))
				continue;
			*why = "a parameter stands twice in the query: write it once";
			return false;
		}
		if (!put_value(out, name, value)) {
			*why = "there are too many parameters in the query";
			return false;
		}
	}
	return true;
}
