/* Proxy-Status as an origin sends it, lines cut at LF: what is left after the marks were taken off has no
 * member that names exeat, and taking them off again changes nothing. */
#include <stdlib.h>

#include "proxy/refusal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Does a member outside of quotes begin with the mark? A second reading, by the mark itself. */
static bool bears_mark(struct str value)
{
	const struct str mark = STR("exeat");
	bool quoted = false, begins = true;

	for (size_t i = 0; i < value.n; i++) {
		struct str rest = str_from(value, i);

		if (!quoted && begins && rest.n >= mark.n && str_eq_nocase(str_n(rest.p, mark.n), mark) &&
		    (rest.n == mark.n || str_find(STR(" \t,;\""), rest.p[mark.n]) < 5))
			return true;
		if (quoted && rest.p[0] == '\\')
			i++;
		else if (rest.p[0] == '"')
			quoted = !quoted;
		begins = !quoted && (rest.p[0] == ',' || (begins && (rest.p[0] == ' ' || rest.p[0] == '\t')));
	}
	return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str rest = str_n((const char *)data, size);
	struct fields f;
	size_t n, bytes = 0;

	fields_init(&f, 1u << 20);
	while (rest.n && f.n < FIELDS_MAX)
		fields_add(&f, STR("Proxy-Status"), str_cut(&rest, '\n'));
	refusal_strip_marks(&f);
	n = f.n;
	for (size_t i = 0; i < n; i++) {
		if (bears_mark(fields_value(&f, i)))
			abort();
		bytes += fields_value(&f, i).n;
	}
	refusal_strip_marks(&f);
	if (f.n != n)
		abort();
	for (size_t i = 0; i < n; i++)
		bytes -= fields_value(&f, i).n;
	if (bytes)
		abort();
	fields_free(&f);
	return 0;
}
