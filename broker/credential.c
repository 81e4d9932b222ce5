#include "broker/credential.h"

#include <openssl/evp.h>

static void add_pattern(struct credential_edit *e, struct str text)
{
	buf_put_str(&e->patterns[e->n_patterns++], text);
}

/* Appends the base64 of @bytes. */
static void put_base64(struct str bytes, struct buf *out)
{
	size_t n = (bytes.n + 2) / 3 * 4;
	char *to = buf_room(out, n + 1);	/* EVP_EncodeBlock() ends in NUL */

	if (!to)
		return;
	EVP_EncodeBlock((unsigned char *)to, (const unsigned char *)bytes.p, (int)bytes.n);
	buf_grown(out, n);
}

/* The value behind @before other bytes, in base64: those characters that all their bits have from
 * it (RFC 4648 4: 6 bits each). */
static void add_aligned(struct credential_edit *e, struct str value, size_t before)
{
	size_t first = (8 * before + 5) / 6, end = 8 * (before + value.n) / 6;
	struct buf bytes, text;

	buf_init(&bytes, CREDENTIAL_VALUE_MAX);
	buf_init(&text, CREDENTIAL_VALUE_MAX);
	buf_put(&bytes, "\0\0", before);
	buf_put_str(&bytes, value);
	put_base64(buf_str(&bytes), &text);
	if (bytes.failed || text.failed)
		e->patterns[e->n_patterns++].failed = true;
	else
		add_pattern(e, str_n(text.p + first, end - first));
	buf_wipe(&bytes);
	buf_wipe(&text);
}

static enum err put_header(const struct credential_info *c, struct str value, struct buf *out)
{
	size_t hole = str_find(c->format, '{');

	if (c->format.n == 0) {
		buf_put_str(out, value);
		return OK;
	}
	while (hole + 1 < c->format.n && c->format.p[hole + 1] != '}')
		hole += 1 + str_find(str_from(c->format, hole + 1), '{');
	if (hole + 1 >= c->format.n)
		return ERR_SYNTAX;
	buf_put(out, c->format.p, hole);
	buf_put_str(out, value);
	buf_put_str(out, str_from(c->format, hole + 2));
	return OK;
}

/* RFC 7617 2: base64 of user, colon, password. */
static enum err put_basic(const struct credential_info *c, struct str value,
			  struct credential_edit *e)
{
	static const struct str scheme = { "Basic ", 6 };
	struct buf pair;
	struct str text;

	if (str_find(c->user, ':') < c->user.n)
		return ERR_SYNTAX;
	buf_init(&pair, CREDENTIAL_VALUE_MAX);
	buf_put_str(&pair, c->user);
	buf_put_c(&pair, ':');
	buf_put_str(&pair, value);
	buf_put_str(&e->value, scheme);
	put_base64(buf_str(&pair), &e->value);
	e->value.failed |= pair.failed;
	buf_wipe(&pair);
	if (e->value.failed)
		return ERR_LIMIT;
	text = str_from(buf_str(&e->value), scheme.n);
	while (text.n && text.p[text.n - 1] == '=')
		text.n--;
	add_pattern(e, text);
	return OK;
}

static enum err put(const struct credential_info *c, struct str value, struct credential_edit *e)
{
	switch (c->kind) {
	case CREDENTIAL_BEARER:
		buf_put_str(&e->value, STR("Bearer "));
		buf_put_str(&e->value, value);
		return OK;
	case CREDENTIAL_HEADER:
		return put_header(c, value, &e->value);
	case CREDENTIAL_BASIC:
		return put_basic(c, value, e);
	}
	return ERR_BUG;
}

enum err credential_edit(const struct credential_info *c, const struct secret *s,
			 struct credential_edit *out)
{
	struct str value = secret_value(s);
	enum err e;

	*out = (struct credential_edit){ .field = c->header };
	buf_init(&out->value, CREDENTIAL_VALUE_MAX);
	for (size_t i = 0; i < CREDENTIAL_PATTERNS_MAX; i++)
		buf_init(&out->patterns[i], CREDENTIAL_VALUE_MAX);
	add_pattern(out, value);
	e = put(c, value, out);
	for (size_t before = 0; !e && before < 3 && value.n <= CREDENTIAL_ENCODED_MAX; before++)
		add_aligned(out, value, before);
	for (size_t i = 0; !e && i < out->n_patterns; i++)
		if (out->patterns[i].failed)
			e = ERR_NOMEM;
	if (!e && out->value.failed)
		e = ERR_LIMIT;
	if (e)
		credential_edit_wipe(out);
	return e;
}

void credential_edit_wipe(struct credential_edit *e)
{
	buf_wipe(&e->value);
	for (size_t i = 0; i < CREDENTIAL_PATTERNS_MAX; i++)
		buf_wipe(&e->patterns[i]);
	e->n_patterns = 0;
}
