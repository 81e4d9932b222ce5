#include "proxy/fields.h"

#include <stdlib.h>

#define FIELDS_FIRST 16

/* Generated once from RFC 9110 5.5 and 5.6.2: the sum of HTTP_TOKEN, HTTP_VALUE and HTTP_TARGET. */
const uint8_t http_class[256] = {
	0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0,
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	2, 7, 6, 7, 7, 7, 7, 7, 6, 6, 7, 7, 6, 7, 7, 6,
	7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 6, 6, 6, 6, 6, 6,
	6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
	7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 6, 6, 6, 7, 7,
	7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
	7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 6, 7, 6, 7, 0,
	2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,
	2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,
	2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,
	2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,
	2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,
	2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,
	2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,
	2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,
};

void fields_init(struct fields *f, size_t max_bytes)
{
	*f = (struct fields){ 0 };
	buf_init(&f->text, max_bytes);
}

static void forget_all(struct fields *f)
{
	free(f->at);
	f->at = NULL;
	f->room = 0;
	fields_clear(f);
}

void fields_free(struct fields *f)
{
	buf_free(&f->text);
	forget_all(f);
}

void fields_wipe(struct fields *f)
{
	buf_wipe(&f->text);
	forget_all(f);
}

void fields_clear(struct fields *f)
{
	f->n = 0;
	f->overflow = false;
	f->text.n = 0;
	f->text.failed = false;
}

bool fields_failed(const struct fields *f)
{
	return f->overflow || f->text.failed;
}

/* One more entry. False: too many, or no memory. */
static bool more_room(struct fields *f)
{
	size_t room = f->room ? 2 * f->room : FIELDS_FIRST;
	struct field_at *at;

	if (f->n < f->room)
		return true;
	if (f->n == FIELDS_MAX)
		return false;
	at = realloc(f->at, room * sizeof(*at));
	if (!at)
		return false;
	f->at = at;
	f->room = room;
	return true;
}

void fields_add(struct fields *f, struct str name, struct str value)
{
	struct field_at *at;
	char *to;

	if (name.n == 0 || !more_room(f)) {
		f->overflow = true;
		return;
	}
	to = buf_room(&f->text, name.n + value.n);
	if (!to)
		return;
	at = &f->at[f->n++];
	*at = (struct field_at){ .name = (uint32_t)f->text.n,
				 .name_n = (uint32_t)name.n,
				 .value = (uint32_t)(f->text.n + name.n),
				 .value_n = (uint32_t)value.n };
	memcpy(to, name.p, name.n);
	if (value.n)
		memcpy(to + name.n, value.p, value.n);
	buf_grown(&f->text, name.n + value.n);
}

struct str fields_name(const struct fields *f, size_t i)
{
	return str_n(f->text.p + f->at[i].name, f->at[i].name_n);
}

struct str fields_value(const struct fields *f, size_t i)
{
	return str_n(f->text.p + f->at[i].value, f->at[i].value_n);
}

char *fields_value_mut(struct fields *f, size_t i)
{
	return f->text.p + f->at[i].value;
}

size_t fields_find(const struct fields *f, struct str name, size_t from)
{
	for (size_t i = from; i < f->n; i++)
		if (f->at[i].name_n == name.n && str_eq_nocase(fields_name(f, i), name))
			return i;
	return f->n;
}

bool fields_get(const struct fields *f, struct str name, struct str *value)
{
	size_t i = fields_find(f, name, 0);

	if (i == f->n)
		return false;
	*value = fields_value(f, i);
	return true;
}

void fields_remove_at(struct fields *f, size_t i)
{
	f->n--;
	memmove(&f->at[i], &f->at[i + 1], (f->n - i) * sizeof(f->at[0]));
}

size_t fields_remove(struct fields *f, struct str name)
{
	size_t removed = 0;

	for (size_t i = fields_find(f, name, 0); i < f->n; i = fields_find(f, name, i)) {
		fields_remove_at(f, i);
		removed++;
	}
	return removed;
}

bool fields_has_token(const struct fields *f, struct str name, struct str token)
{
	for (size_t i = fields_find(f, name, 0); i < f->n; i = fields_find(f, name, i + 1)) {
		struct str rest = fields_value(f, i);

		while (rest.n)
			if (str_eq_nocase(str_trim(str_cut(&rest, ',')), token))
				return true;
	}
	return false;
}

bool http_one_of(struct str name, const struct str *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (name.n == names[i].n && str_eq_nocase(name, names[i]))
			return true;
	return false;
}

bool http_forbidden_in_trailer(struct str name)
{
	static const struct str names[] = {
		STR_INIT("content-length"), STR_INIT("transfer-encoding"), STR_INIT("host"),
		STR_INIT("connection"), STR_INIT("keep-alive"), STR_INIT("upgrade"), STR_INIT("te"),
		STR_INIT("trailer"), STR_INIT("expect"), STR_INIT("range"), STR_INIT("max-forwards"),
		STR_INIT("cache-control"), STR_INIT("authorization"), STR_INIT("proxy-authorization"),
		STR_INIT("proxy-authenticate"), STR_INIT("proxy-connection"), STR_INIT("proxy-status"),
		STR_INIT("www-authenticate"), STR_INIT("cookie"), STR_INIT("set-cookie"),
		STR_INIT("content-encoding"), STR_INIT("content-type"), STR_INIT("content-range"),
		STR_INIT("location"), STR_INIT("http2-settings"),
	};

	return http_one_of(name, names, sizeof(names) / sizeof(names[0]));
}

/* What Connection may not name, since it is meant for the far end (RFC 9110 7.6.1). Were it obeyed,
 * a box could have us take the framing, the name or the credential off its own request. */
static bool is_end_to_end(struct str name)
{
	static const struct str names[] = {
		STR_INIT("host"), STR_INIT("content-length"), STR_INIT("content-type"),
		STR_INIT("content-encoding"), STR_INIT("content-range"), STR_INIT("range"),
		STR_INIT("authorization"), STR_INIT("cookie"), STR_INIT("set-cookie"),
		STR_INIT("cache-control"), STR_INIT("expect"), STR_INIT("date"), STR_INIT("location"),
		STR_INIT("www-authenticate"),
	};

	return http_one_of(name, names, sizeof(names) / sizeof(names[0]));
}

/* Removes what the Connection fields name. The names are looked up in the list they stand in:
 * removing moves entries of @at only, no text. */
static void drop_named(struct fields *f)
{
	const struct str connection = STR("connection");
	size_t i;

	while ((i = fields_find(f, connection, 0)) < f->n) {
		struct str rest = fields_value(f, i);

		fields_remove_at(f, i);
		while (rest.n) {
			struct str option = str_trim(str_cut(&rest, ','));

			if (option.n && !str_eq_nocase(option, connection) &&
			    !is_end_to_end(option) && !str_eq_nocase(option, STR("te")))
				fields_remove(f, option);
		}
	}
}

/* By the first letter first: it is asked of every field. */
static bool is_hop_by_hop(struct str name)
{
	const struct str proxy = STR("proxy-");

	switch (ascii_lower(name.p[0])) {
	case 'h':
		return str_eq_nocase(name, STR("http2-settings"));
	case 'k':
		return str_eq_nocase(name, STR("keep-alive"));
	case 'p':
		return name.n > proxy.n && str_eq_nocase(str_n(name.p, proxy.n), proxy) &&
		       !str_eq_nocase(name, STR("proxy-status"));
	case 't':
		return str_eq_nocase(name, STR("te")) || str_eq_nocase(name, STR("transfer-encoding"));
	case 'u':
		return str_eq_nocase(name, STR("upgrade"));
	default:
		return false;
	}
}

void fields_drop_hop_by_hop(struct fields *f)
{
	bool trailers = fields_has_token(f, STR("te"), STR("trailers"));
	size_t kept = 0;

	drop_named(f);
	for (size_t i = 0; i < f->n; i++)
		if (!is_hop_by_hop(fields_name(f, i)))
			f->at[kept++] = f->at[i];
	f->n = kept;
	if (trailers)
		fields_add(f, STR("te"), STR("trailers"));
}
