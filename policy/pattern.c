#include "policy/pattern.h"

#include <stdio.h>

enum name_result pattern_canon(struct str text, struct host_pattern *out)
{
	struct str base;
	enum pattern_kind kind = pattern_kind(text, &base);
	struct name name = { 0 };
	enum name_result r = kind == PATTERN_ANY ? NAME_OK : name_canon(base, &name);

	if (r == NAME_OK)
		out->n = (uint16_t)snprintf(out->s, sizeof(out->s), "%.*s%s",
					    (int)(text.n - base.n), text.p, name.s);
	return r;
}

enum pattern_kind pattern_kind(struct str pattern, struct str *base)
{
	if (str_eq(pattern, STR("**"))) {
		*base = str_from(pattern, 2);
		return PATTERN_ANY;
	}
	if (str_starts(pattern, STR("**."))) {
		*base = str_from(pattern, 3);
		return PATTERN_DEEP;
	}
	if (str_starts(pattern, STR("*."))) {
		*base = str_from(pattern, 2);
		return PATTERN_ONE;
	}
	*base = pattern;
	return PATTERN_EXACT;
}

/* Strictly below: at a label's boundary. */
static bool is_below(struct str name, struct str base)
{
	return name.n > base.n + 1 && str_ends(name, base) && name.p[name.n - base.n - 1] == '.';
}

bool pattern_covers(struct str outer, struct str inner)
{
	struct str out, in;
	enum pattern_kind out_kind = pattern_kind(outer, &out), in_kind = pattern_kind(inner, &in);

	if (out_kind == PATTERN_ANY)
		return true;
	if (out_kind == PATTERN_EXACT)
		return in_kind == PATTERN_EXACT && str_eq(out, in);
	if (out_kind == PATTERN_ONE)
		return in_kind == PATTERN_ONE ? str_eq(out, in)
		     : in_kind == PATTERN_EXACT && is_below(in, out) && str_eq(name_parent(in),
									       out);
	if (in_kind == PATTERN_EXACT)
		return is_below(in, out);
	return in_kind != PATTERN_ANY && (str_eq(in, out) || is_below(in, out));
}
