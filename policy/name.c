#include "policy/name.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'f');
}

static bool is_name_byte(char c)
{
	return (c >= 'a' && c <= 'z') || is_digit(c) || c == '-' || c == '_';
}

static bool is_literal(struct str text)
{
	struct addr a;

	/* Nearly all names end here, before a parser of addresses is asked. */
	if (str_find(text, ':') == text.n && !is_digit(text.p[text.n - 1]))
		return false;
	if (text.n > 2 && text.p[0] == '[' && text.p[text.n - 1] == ']')
		return addr_parse(str_n(text.p + 1, text.n - 2), &a) && a.family == 6;
	return addr_parse(text, &a);
}

/* What resolvers of the inet_aton() kind would read as a number. */
static bool is_number(struct str label)
{
	bool hex = label.n >= 2 && label.p[0] == '0' && label.p[1] == 'x';

	for (size_t i = hex ? 2 : 0; i < label.n; i++)
		if (hex ? !is_hex(label.p[i]) : !is_digit(label.p[i]))
			return false;
	return true;
}

static enum name_result check_label(struct str label)
{
	if (label.n == 0)
		return NAME_LABEL;
	for (size_t i = 0; i < label.n; i++)
		if (!is_name_byte(label.p[i]))
			return (unsigned char)label.p[i] > 0x7f ? NAME_UNICODE : NAME_BYTE;
	if (label.p[0] == '-' || label.p[label.n - 1] == '-')
		return NAME_LABEL;
	return label.n > NAME_LABEL_MAX ? NAME_LONG : NAME_OK;
}

static enum name_result check_labels(struct str name)
{
	struct str rest = name, label;
	enum name_result r;

	do {
		label = str_cut(&rest, '.');
		r = check_label(label);
		if (r != NAME_OK)
			return r;
	} while (rest.p);
	return is_number(label) ? NAME_NUMERIC : NAME_OK;
}

enum name_result name_canon(struct str text, struct name *out)
{
	struct name name = { 0 };
	enum name_result r;

	if (text.n == 0)
		return NAME_EMPTY;
	if (is_literal(text))
		return NAME_LITERAL;
	if (text.n > 1 && text.p[text.n - 1] == '.')
		text.n--;
	if (text.n > NAME_MAX_LEN)
		return NAME_LONG;
	for (size_t i = 0; i < text.n; i++)
		name.s[i] = ascii_lower(text.p[i]);
	name.n = (uint8_t)text.n;
	r = check_labels(name_str(&name));
	if (r == NAME_OK)
		*out = name;
	return r;
}

const char *name_result_text(enum name_result r)
{
	switch (r) {
	case NAME_OK:
		return "a host name";
	case NAME_EMPTY:
		return "an empty host name";
	case NAME_LONG:
		return "a host name over 253 bytes, or a label over 63";
	case NAME_LABEL:
		return "an empty label, or one that starts or ends with '-'";
	case NAME_BYTE:
		return "a byte that no host name has";
	case NAME_NUMERIC:
		return "a number form of an address";
	case NAME_LITERAL:
		return "an IP address";
	case NAME_UNICODE:
		return "not ASCII: write the name as an A-label (xn--...)";
	case NAME_PORT:
		return "a port that is no number from 1 to 65535";
	}
	return "an unknown result";
}

struct str name_parent(struct str name)
{
	size_t dot = str_find(name, '.');

	return dot < name.n ? str_from(name, dot + 1) : str_from(name, name.n);
}

/* "test" and "example" (RFC 6761 6.2, 6.5) are not here: they are for experiments and documents,
 * and who runs such a zone wants it resolved. */
static const char *const special_use[] = {
	"localhost",		/* RFC 6761 6.3 */
	"invalid",		/* RFC 6761 6.4 */
	"local",		/* RFC 6762 */
	"onion",		/* RFC 7686 */
	"home.arpa",		/* RFC 8375 */
	"alt",			/* RFC 9476 */
	"internal",		/* reserved by ICANN for private use */
};

bool name_is_special_use(struct str name)
{
	for (size_t i = 0; i < sizeof(special_use) / sizeof(special_use[0]); i++) {
		struct str s = str_of(special_use[i]);

		if (str_ends(name, s) && (name.n == s.n || name.p[name.n - s.n - 1] == '.'))
			return true;
	}
	return false;
}

static enum name_result parse_port(struct str text, uint16_t *port)
{
	uint64_t v;

	if (text.n > 5 || !str_to_u64(text, 65535, &v) || v == 0)
		return NAME_PORT;
	*port = (uint16_t)v;
	return NAME_OK;
}

static enum name_result split_bracketed(struct str authority, struct str *host, struct str *rest)
{
	size_t end = str_find(authority, ']');
	struct addr a;

	if (end == authority.n)
		return NAME_BYTE;
	*host = str_n(authority.p + 1, end - 1);
	*rest = str_from(authority, end + 1);
	return addr_parse(*host, &a) && a.family == 6 ? NAME_OK : NAME_BYTE;
}

enum name_result name_split_authority(struct str authority, struct str *host, uint16_t *port)
{
	struct str head, rest;
	uint16_t number = 0;
	enum name_result r = NAME_OK;

	if (authority.n == 0)
		return NAME_EMPTY;
	if (str_find(authority, '@') < authority.n)
		return NAME_BYTE;
	if (authority.p[0] == '[') {
		r = split_bracketed(authority, &head, &rest);
	} else {
		size_t colon = str_find(authority, ':');

		head = str_n(authority.p, colon);
		rest = str_from(authority, colon);
	}
	if (r == NAME_OK && rest.n)
		r = rest.p[0] == ':' ? parse_port(str_from(rest, 1), &number) : NAME_BYTE;
	if (r == NAME_OK && head.n == 0)
		r = NAME_EMPTY;
	if (r != NAME_OK)
		return r;
	*host = head;
	*port = number;
	return NAME_OK;
}
