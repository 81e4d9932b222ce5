#include "broker/credential.h"

#include <openssl/evp.h>

static void add_pattern(struct credential_edit *e, struct str text)
{
	buf_put_str(&e->patterns[e->n_patterns++], text);
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
static enum err put_basic(const struct credential_info *c, struct str value, struct credential_edit *e)
{
	struct buf pair;
	struct str text;
	size_t room;
	char *to;

	if (str_find(c->user, ':') < c->user.n)
		return ERR_SYNTAX;
	buf_init(&pair, CREDENTIAL_VALUE_MAX);
	buf_put_str(&pair, c->user);
	buf_put_c(&pair, ':');
	buf_put_str(&pair, value);
	buf_put_str(&e->value, STR("Basic "));
	room = (pair.n + 2) / 3 * 4;
	to = pair.failed ? NULL : buf_room(&e->value, room + 1);	/* EVP_EncodeBlock() ends in NUL */
	if (!to) {
		e->value.failed = true;
		goto out;
	}
	EVP_EncodeBlock((unsigned char *)to, (const unsigned char *)pair.p, (int)pair.n);
	buf_grown(&e->value, room);
	text = str_n(to, room);
	while (text.n && text.p[text.n - 1] == '=')
		text.n--;
	add_pattern(e, text);
out:
	buf_wipe(&pair);
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
