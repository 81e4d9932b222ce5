#include "proxy/params.h"

#include "conf/hex.h"
#include "conf/utf8.h"

/* ---- values ---- */

void params_add(struct params *p, const char *name, size_t max)
{
	struct param *v = &p->v[p->n++];

	v->name = name;
	v->given = false;
	buf_init(&v->value, max);
}

void params_free(struct params *p)
{
	for (size_t i = 0; i < p->n; i++)
		buf_free(&p->v[i].value);
	p->n = 0;
}

struct str params_get(const struct params *p, const char *name)
{
	for (size_t i = 0; i < p->n; i++)
		if (str_eq(str_of(p->v[i].name), str_of(name)))
			return buf_str(&p->v[i].value);
	return STR_NONE;
}

static const char *begin(struct params *p, struct str name, struct param **out)
{
	for (size_t i = 0; i < p->n; i++) {
		if (!str_eq(str_of(p->v[i].name), name))
			continue;
		*out = &p->v[i];
		p->wrong = p->v[i].name;
		if (p->v[i].given)
			return "is given twice";
		p->v[i].given = true;
		return NULL;
	}
	return "a name that is not known here; if it is part of a value, percent-encode that";
}

static const char *check_text(struct str s)
{
	while (s.n) {
		uint32_t c = 0;
		size_t n = utf8_next(s, &c);

		if (n == 0)
			return "is no UTF-8";
		if (c < 0x20 || (c >= 0x7f && c < 0xa0))
			return "holds a control character";
		s = str_from(s, n);
	}
	return NULL;
}

static const char *end(struct params *p, const struct param *v)
{
	const char *why = v->value.failed ? "is too long" : check_text(buf_str(&v->value));

	if (!why)
		p->wrong = NULL;
	return why;
}

/* ---- forms ---- */

/* False: a '%' that no two hex digits follow (RFC 3986 2.1). */
static bool decode(struct str s, struct buf *out)
{
	for (size_t i = 0; i < s.n; i++) {
		int high, low;

		if (s.p[i] != '%') {
			buf_put_c(out, s.p[i] == '+' ? ' ' : s.p[i]);
			continue;
		}
		if (s.n - i < 3)
			return false;
		high = hex_value(s.p[i + 1]);
		low = hex_value(s.p[i + 2]);
		if (high < 0 || low < 0)
			return false;
		buf_put_c(out, (char)(high << 4 | low));
		i += 2;
	}
	return true;
}

static const char *read_pair(struct params *p, struct str pair)
{
	struct str value = pair, name = str_cut(&value, '=');
	struct param *v;
	struct buf decoded;
	const char *why;

	if (!value.p)
		return "NAME=VALUE is wanted, with & between them";
	buf_init(&decoded, PARAMS_NAME_MAX);
	why = decode(name, &decoded) ? begin(p, buf_str(&decoded), &v) : "a broken escape in a name";
	buf_free(&decoded);
	if (why)
		return why;
	if (!decode(value, &v->value))
		return "has a % that no two hex digits follow";
	return end(p, v);
}

const char *params_read_form(struct params *p, struct str form)
{
	const char *why = NULL;

	p->wrong = NULL;
	while (form.n && !why) {
		struct str pair = str_cut(&form, '&');

		why = read_pair(p, pair);
		if (!why && form.p && form.n == 0)
			why = "nothing follows the last &";
	}
	return why;
}

/* ---- JSON ---- */

#define BROKEN "no flat JSON object of texts, such as {\"method\":\"GET\",\"url\":\"https://...\"}"

static void skip_space(struct str *s)
{
	while (s->n && str_find(STR(" \t\r\n"), s->p[0]) < 4)
		*s = str_from(*s, 1);
}

static bool take(struct str *s, char c)
{
	skip_space(s);
	if (s->n == 0 || s->p[0] != c)
		return false;
	*s = str_from(*s, 1);
	return true;
}

static void put_utf8(struct buf *out, uint32_t c)
{
	if (c < 0x80) {
		buf_put_c(out, (char)c);
		return;
	}
	if (c < 0x800) {
		buf_put_c(out, (char)(0xc0 | c >> 6));
	} else {
		if (c < 0x10000) {
			buf_put_c(out, (char)(0xe0 | c >> 12));
		} else {
			buf_put_c(out, (char)(0xf0 | c >> 18));
			buf_put_c(out, (char)(0x80 | (c >> 12 & 0x3f)));
		}
		buf_put_c(out, (char)(0x80 | (c >> 6 & 0x3f)));
	}
	buf_put_c(out, (char)(0x80 | (c & 0x3f)));
}

/* After "\u". */
static bool take_unit(struct str *s, uint32_t *unit)
{
	*unit = 0;
	if (s->n < 4)
		return false;
	for (size_t i = 0; i < 4; i++) {
		int digit = hex_value(s->p[i]);

		if (digit < 0)
			return false;
		*unit = *unit << 4 | (uint32_t)digit;
	}
	*s = str_from(*s, 4);
	return true;
}

/* A surrogate stands for a character only with its other half (RFC 8259 7). */
static bool take_unicode(struct str *s, struct buf *out)
{
	uint32_t c, low;

	if (!take_unit(s, &c) || (c >= 0xdc00 && c < 0xe000))
		return false;
	if (c >= 0xd800 && c < 0xdc00) {
		if (!str_starts(*s, STR("\\u")))
			return false;
		*s = str_from(*s, 2);
		if (!take_unit(s, &low) || low < 0xdc00 || low >= 0xe000)
			return false;
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	}
	put_utf8(out, c);
	return true;
}

static bool take_escape(struct str *s, struct buf *out)
{
	static const char to[] = "\"\\/\b\f\n\r\t";
	size_t at;
	char c;

	if (s->n == 0)
		return false;
	c = s->p[0];
	*s = str_from(*s, 1);
	if (c == 'u')
		return take_unicode(s, out);
	at = str_find(STR("\"\\/bfnrt"), c);
	if (at >= sizeof(to) - 1)
		return false;
	buf_put_c(out, to[at]);
	return true;
}

static bool take_text(struct str *s, struct buf *out)
{
	if (!take(s, '"'))
		return false;
	while (s->n) {
		char c = s->p[0];

		*s = str_from(*s, 1);
		if (c == '"')
			return true;
		if ((unsigned char)c < 0x20)
			return false;
		if (c != '\\')
			buf_put_c(out, c);
		else if (!take_escape(s, out))
			return false;
	}
	return false;
}

static const char *read_member(struct params *p, struct str *s)
{
	struct param *v;
	struct buf name;
	const char *why;

	buf_init(&name, PARAMS_NAME_MAX);
	why = take_text(s, &name) && take(s, ':') ? begin(p, buf_str(&name), &v) : BROKEN;
	buf_free(&name);
	if (why)
		return why;
	if (!take_text(s, &v->value))
		return "is no JSON text";
	return end(p, v);
}

const char *params_read_json(struct params *p, struct str json)
{
	const char *why = NULL;

	p->wrong = NULL;
	if (!take(&json, '{'))
		return BROKEN;
	if (!take(&json, '}')) {
		do
			why = read_member(p, &json);
		while (!why && take(&json, ','));
		if (!why && !take(&json, '}'))
			why = BROKEN;
	}
	skip_space(&json);
	return why ? why : json.n ? BROKEN : NULL;
}
