#include "proxy/http1.h"

/* ---- statuses ---- */

const char *http1_reason(unsigned status)
{
	static const struct {
		unsigned status;
		const char *reason;
	} rows[] = {
		{ 200, "OK" }, { 201, "Created" }, { 202, "Accepted" }, { 400, "Bad Request" },
		{ 403, "Forbidden" }, { 404, "Not Found" }, { 405, "Method Not Allowed" },
		{ 408, "Request Timeout" }, { 409, "Conflict" }, { 411, "Length Required" },
		{ 413, "Content Too Large" }, { 414, "URI Too Long" },
		{ 415, "Unsupported Media Type" }, { 417, "Expectation Failed" },
		{ 421, "Misdirected Request" }, { 422, "Unprocessable Content" },
		{ 429, "Too Many Requests" }, { 431, "Request Header Fields Too Large" },
		{ 500, "Internal Server Error" }, { 501, "Not Implemented" },
		{ 503, "Service Unavailable" }, { 504, "Gateway Timeout" },
		{ 505, "HTTP Version Not Supported" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].status == status)
			return rows[i].reason;
	return "Other";
}

/* ---- heads ---- */

/* What is no token, holds a control byte or could end its line early must not go out: it was let in
 * by a bug, and would be another message to who reads it. */
static bool fields_clean(const struct fields *f)
{
	if (fields_failed(f))
		return false;
	for (size_t i = 0; i < f->n; i++)
		if (!http_is_token(fields_name(f, i)) || !http_is_value(fields_value(f, i)))
			return false;
	return true;
}

static size_t fields_size(const struct fields *f)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++)
		n += f->at[i].name_n + f->at[i].value_n + sizeof(": \r\n") - 1;
	return n;
}

static char *put(char *to, struct str s)
{
	if (s.n)
		memcpy(to, s.p, s.n);
	return to + s.n;
}

/* The field lines and the empty line after them. */
static char *put_fields(char *to, const struct fields *f)
{
	for (size_t i = 0; i < f->n; i++) {
		to = put(to, fields_name(f, i));
		to = put(to, STR(": "));
		to = put(to, fields_value(f, i));
		to = put(to, STR("\r\n"));
	}
	return put(to, STR("\r\n"));
}

/* A start line of the @n parts, then the fields: room is asked for once. */
static void write_head(struct buf *out, const struct str *parts, size_t n, const struct fields *f)
{
	size_t size = fields_size(f) + sizeof("\r\n") - 1;
	char *room, *to;

	for (size_t i = 0; i < n; i++)
		size += parts[i].n;
	room = to = buf_room(out, size);
	if (!room)
		return;
	for (size_t i = 0; i < n; i++)
		to = put(to, parts[i]);
	to = put_fields(to, f);
	buf_grown(out, (size_t)(to - room));
}

void http1_write_request(struct buf *out, struct str method, struct str target,
			 const struct fields *fields)
{
	const struct str parts[] = { method, STR(" "), target, STR(" HTTP/1.1\r\n") };

	if (!http_is_token(method) || target.n == 0 || !http_all(target, HTTP_TARGET) ||
	    !fields_clean(fields)) {
		out->failed = true;
		return;
	}
	write_head(out, parts, sizeof(parts) / sizeof(parts[0]), fields);
}

void http1_write_response(struct buf *out, unsigned status, struct str reason,
			  const struct fields *fields)
{
	const char digits[] = { (char)('0' + status / 100 % 10), (char)('0' + status / 10 % 10),
				(char)('0' + status % 10) };
	const struct str parts[] = { STR("HTTP/1.1 "), str_n(digits, sizeof(digits)), STR(" "), reason,
				     STR("\r\n") };

	if (status < 100 || status > 999 || !http_is_value(reason) || !fields_clean(fields)) {
		out->failed = true;
		return;
	}
	write_head(out, parts, sizeof(parts) / sizeof(parts[0]), fields);
}

/* ---- chunks ---- */

void http1_write_chunk(struct buf *out, struct str data)
{
	if (data.n == 0)
		return;
	buf_printf(out, "%zx\r\n", data.n);
	buf_put_str(out, data);
	buf_put_str(out, STR("\r\n"));
}

void http1_write_last_chunk(struct buf *out, const struct fields *trailers)
{
	const struct str size = STR("0\r\n");

	if (!trailers) {
		buf_put_str(out, STR("0\r\n\r\n"));
		return;
	}
	if (!fields_clean(trailers)) {
		out->failed = true;
		return;
	}
	write_head(out, &size, 1, trailers);
}

/* ---- targets (RFC 9112 3.2) ---- */

/* Path and query of @s, which begins with a '/' or a '?' or is empty. */
static void split_query(struct str s, struct http1_target *t)
{
	size_t q = str_find(s, '?');

	t->path = str_n(s.p, q);
	t->query = str_from(s, q);
}

static bool is_scheme(struct str s)
{
	if (s.n == 0 || ascii_lower(s.p[0]) < 'a' || ascii_lower(s.p[0]) > 'z')
		return false;
	for (size_t i = 1; i < s.n; i++) {
		char c = ascii_lower(s.p[i]);

		if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '-' ||
		      c == '.'))
			return false;
	}
	return true;
}

/* Userinfo is deprecated in http URIs and used to deceive (RFC 9110 4.2.4), and readers disagree on
 * where a backslash ends an authority. */
static bool is_authority(struct str s)
{
	return s.n > 0 && str_find(s, '@') == s.n && str_find(s, '\\') == s.n;
}

static size_t authority_end(struct str s)
{
	size_t slash = str_find(s, '/'), query = str_find(s, '?');

	return slash < query ? slash : query;
}

static struct http1_target split_absolute(struct str method, struct str target)
{
	struct http1_target t = { .form = TARGET_BAD };
	size_t colon = str_find(target, ':');
	struct str rest;

	if (!is_scheme(str_n(target.p, colon)) || !str_starts(str_from(target, colon), STR("://")))
		return t;
	rest = str_from(target, colon + 3);
	t.scheme = str_n(target.p, colon);
	t.authority = str_n(rest.p, authority_end(rest));
	if (!is_authority(t.authority))
		return t;
	split_query(str_from(rest, t.authority.n), &t);
	if (t.path.n == 0)
		t.path = t.query.n == 0 && str_eq(method, STR("OPTIONS")) ? STR("*") : STR("/");
	t.form = TARGET_ABSOLUTE;
	return t;
}

struct http1_target http1_split_target(struct str method, struct str target)
{
	struct http1_target t = { .form = TARGET_BAD };

	if (target.n == 0 || !http_all(target, HTTP_TARGET) || str_find(target, '#') < target.n)
		return t;
	if (str_eq(method, STR("CONNECT"))) {
		if (authority_end(target) < target.n || !is_authority(target))
			return t;
		t.form = TARGET_AUTHORITY;
		t.authority = target;
		return t;
	}
	if (target.p[0] == '/') {
		split_query(target, &t);
		t.form = TARGET_ORIGIN;
		return t;
	}
	if (str_eq(target, STR("*"))) {
		if (!str_eq(method, STR("OPTIONS")))
			return t;
		t.form = TARGET_ASTERISK;
		t.path = target;
		return t;
	}
	return split_absolute(method, target);
}
