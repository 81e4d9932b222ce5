#include "proxy/http1.h"

#include <stdlib.h>

#include "conf/hex.h"

/* Theory of operation
 *
 * The unit of reading is the line. take_line() looks for its LF with memchr() in the input only: a
 * line that lies whole in the input is parsed where it lies, and only the beginning of one that
 * does not is copied to @line and waited for. So no byte is looked for twice, however the input is
 * cut, and the text of fields is copied once, into the list that the caller gets.
 *
 * A line ends in CRLF. Since CR and LF have no class that a name, a value, a target or a chunk
 * extension may have, one that stands elsewhere is an error wherever it is.
 *
 * What decides where a message ends (RFC 9112 6) is noted as the fields go by (note_field()) and
 * judged once, at the head's empty line (frame_request(), frame_response()). All that two readers
 * could understand in two ways is an error, never a choice.
 *
 * What comes after an error or after H1_END is not looked at before http1_next().
 */

#define LINE_KEEP 4096u	/* what a quiet connection may keep of @line's room */

enum state {
	S_START,		/* start line */
	S_FIELDS,
	S_LENGTH,		/* @left bytes of body */
	S_UNTIL_CLOSE,
	S_CHUNK_SIZE,
	S_CHUNK_DATA,		/* @left bytes of this chunk */
	S_CHUNK_END,		/* its CRLF */
	S_TRAILERS,
	S_END,			/* H1_END is to be told */
	S_DONE,			/* it was */
	S_FAILED,
};

/* What stands in the framing fields. */
struct noted {
	unsigned hosts, lengths, codings;
	bool length_bad, chunked, coding_unknown, close, keep_alive, expect_other;
};

struct http1_parser {
	bool response, answers_head;
	enum state state;
	bool empty_line;		/* the one before a request was taken */
	bool begun;
	size_t max_headers, headers;	/* bytes of field lines: at most, so far */
	struct buf line;		/* the beginning of a line whose end has not come */
	struct buf start;		/* the start line, for the strs in @head */
	struct http1_head head;
	struct noted noted;
	struct fields fields, trailers;
	uint64_t left;
	struct str body;
	const char *error;
	unsigned status;
};

struct http1_parser *http1_new(bool response, size_t max_headers)
{
	struct http1_parser *p = calloc(1, sizeof(*p));
	size_t longest = max_headers > HTTP1_LINE_MAX ? max_headers : HTTP1_LINE_MAX;

	if (!p)
		return NULL;
	p->response = response;
	p->max_headers = max_headers;
	buf_init(&p->line, longest + 2);
	buf_init(&p->start, HTTP1_LINE_MAX);
	/* The caller may add as much again. */
	fields_init(&p->fields, 2 * max_headers);
	fields_init(&p->trailers, max_headers);
	http1_next(p, false);
	return p;
}

/* Any of it may have held a credential. */
void http1_free(struct http1_parser *p)
{
	if (!p)
		return;
	buf_wipe(&p->line);
	buf_wipe(&p->start);
	fields_wipe(&p->fields);
	fields_wipe(&p->trailers);
	free(p);
}

void http1_next(struct http1_parser *p, bool answers_head)
{
	if (p->state == S_FAILED)
		return;
	p->answers_head = answers_head;
	p->state = S_START;
	p->empty_line = p->begun = false;
	p->headers = 0;
	p->line.n = p->start.n = 0;
	if (p->line.cap > LINE_KEEP)
		buf_wipe(&p->line);
	p->head = (struct http1_head){ .fields = &p->fields };
	p->noted = (struct noted){ 0 };
	fields_clear(&p->fields);
	fields_clear(&p->trailers);
	p->left = 0;
	p->body = STR_NONE;
}

/* ---- errors ---- */

static enum http1_event fail(struct http1_parser *p, unsigned status, const char *error)
{
	p->state = S_FAILED;
	p->status = status;
	p->error = error;
	return H1_ERROR;
}

/* ---- lines ---- */

enum line_result { LINE_MORE, LINE_OK, LINE_LONG, LINE_BAD, LINE_NOMEM };

/* Takes one line of at most @max bytes; *line is without its CRLF and borrows from the input or
 * from
 * @line. The same bytes give the same result however they are cut: too long is said as soon as the
 * LF could no longer stand where it would have to. */
static enum line_result take_line(struct http1_parser *p, struct str *in, size_t max,
				  struct str *line)
{
	const char *lf;
	size_t take, total;

	if (in->n == 0)
		return LINE_MORE;
	lf = memchr(in->p, '\n', in->n);
	take = lf ? (size_t)(lf - in->p) + 1 : in->n;
	total = p->line.n + take;
	if (total > max + (lf ? 2 : 1))
		return LINE_LONG;
	*line = str_n(in->p, take);
	if (!lf || p->line.n)
		buf_put(&p->line, in->p, take);
	if (p->line.failed)
		return LINE_NOMEM;
	*in = str_from(*in, take);
	if (!lf)
		return LINE_MORE;
	if (p->line.n)
		*line = buf_str(&p->line);
	p->line.n = 0;
	if (line->n < 2 || line->p[line->n - 2] != '\r')
		return LINE_BAD;
	line->n -= 2;
	return LINE_OK;
}

static enum http1_event line_failed(struct http1_parser *p, enum line_result r, unsigned status,
				    const char *too_long)
{
	if (r == LINE_MORE)
		return H1_MORE;
	if (r == LINE_NOMEM)
		return fail(p, 503, "out of memory");
	if (r == LINE_LONG)
		return fail(p, status, too_long);
	return fail(p, 400, "a line ends in a bare LF");
}

/* ---- start lines (RFC 9112 3, 4) ---- */

/* "HTTP/1.0" or "HTTP/1.1"; 0, or the status to fail with. */
static unsigned read_version(struct str s, uint8_t *minor)
{
	if (s.n != 8 || memcmp(s.p, "HTTP/", 5) != 0 || s.p[6] != '.' || s.p[5] < '0' || s.p[5] > '9' ||
	    s.p[7] < '0' || s.p[7] > '9')
		return 400;
	if (s.p[5] != '1' || s.p[7] > '1')
		return 505;
	*minor = (uint8_t)(s.p[7] - '0');
	return 0;
}

static enum http1_event bad_version(struct http1_parser *p, unsigned status)
{
	return fail(p, status, status == 505 ? "a version of HTTP that is not spoken here"
					     : "malformed HTTP version");
}

static enum http1_event read_request_line(struct http1_parser *p, struct str line)
{
	struct http1_head *h = &p->head;
	size_t first = str_find(line, ' ');
	struct str rest = first < line.n ? str_from(line, first + 1) : STR_NONE;
	size_t second = str_find(rest, ' ');
	unsigned bad;

	h->method = str_n(line.p, first);
	h->target = str_n(rest.p, second);
	if (!http_is_token(h->method))
		return fail(p, 400, "the method is no token");
	if (second == rest.n)
		return fail(p, 400, "the request line has no version");
	if (h->target.n == 0 || !http_all(h->target, HTTP_TARGET))
		return fail(p, 400, "a byte in the request target that must be percent-encoded");
	bad = read_version(str_from(rest, second + 1), &h->minor);
	return bad ? bad_version(p, bad) : H1_MORE;
}

/* The SP after the status code may be missing where the reason is (many servers leave it out). */
static enum http1_event read_status_line(struct http1_parser *p, struct str line)
{
	struct http1_head *h = &p->head;
	uint64_t status;
	unsigned bad;

	bad = read_version(str_n(line.p, line.n < 8 ? line.n : 8), &h->minor);
	if (bad)
		return bad_version(p, bad);
	if (line.n < 12 || line.p[8] != ' ' || !str_to_u64(str_n(line.p + 9, 3), 999, &status) ||
	    status < 100 || (line.n > 12 && line.p[12] != ' '))
		return fail(p, 400, "malformed status code");
	h->status = (unsigned)status;
	h->reason = line.n > 13 ? str_from(line, 13) : STR("");
	if (!http_is_value(h->reason))
		return fail(p, 400, "a control byte in the reason phrase");
	return H1_MORE;
}

static enum http1_event read_start(struct http1_parser *p, struct str *in)
{
	struct str line;
	enum line_result r = take_line(p, in, HTTP1_LINE_MAX, &line);
	enum http1_event e;

	if (r != LINE_OK)
		return line_failed(p, r, 414, "the start line is over the limit");
	if (line.n == 0) {
		/* One is let pass before a request (RFC 9112 2.2). */
		if (p->response || p->empty_line)
			return fail(p, 400, "an empty line in place of a start line");
		p->empty_line = true;
		return H1_MORE;
	}
	p->begun = true;
	/* The strs in @head must outlive the input. */
	buf_put_str(&p->start, line);
	if (p->start.failed)
		return fail(p, 503, "out of memory");
	line = buf_str(&p->start);
	e = p->response ? read_status_line(p, line) : read_request_line(p, line);
	if (e == H1_MORE)
		p->state = S_FIELDS;
	return e;
}

/* ---- fields (RFC 9112 5) ---- */

/* Transfer-Encoding's value: "chunked" and nothing else is understood (RFC 9112 6.1). Known codings
 * before it are no malformed message, but one that cannot be served. */
static void note_coding(struct noted *n, struct str value)
{
	static const struct str known[] = { STR_INIT("gzip"), STR_INIT("x-gzip"), STR_INIT("deflate"),
					    STR_INIT("compress"), STR_INIT("x-compress") };
	struct str rest = value, last = str_trim(str_cut(&rest, ','));
	bool all_known = true;

	n->codings++;
	n->chunked = str_eq_nocase(value, STR("chunked"));
	for (; rest.p; last = str_trim(str_cut(&rest, ',')))
		all_known &= http_one_of(last, known, sizeof(known) / sizeof(known[0]));
	n->coding_unknown = !n->chunked && all_known && str_eq_nocase(last, STR("chunked"));
}

static void note_connection(struct noted *n, struct str value)
{
	while (value.n) {
		struct str option = str_trim(str_cut(&value, ','));

		n->close |= str_eq_nocase(option, STR("close"));
		n->keep_alive |= str_eq_nocase(option, STR("keep-alive"));
	}
}

/* Notes what decides about framing and the connection. By length first: most fields are none. */
static void note_field(struct http1_parser *p, struct str name, struct str value)
{
	struct noted *n = &p->noted;

	switch (name.n) {
	case 4:
		n->hosts += str_eq_nocase(name, STR("host"));
		break;
	case 6:
		if (p->response || p->head.minor == 0 || !str_eq_nocase(name, STR("expect")))
			break;
		if (str_eq_nocase(value, STR("100-continue")))
			p->head.expect_continue = true;
		else
			n->expect_other = true;
		break;
	case 10:
		if (str_eq_nocase(name, STR("connection")))
			note_connection(n, value);
		break;
	case 14:
		if (!str_eq_nocase(name, STR("content-length")))
			break;
		n->lengths++;
		n->length_bad |= !str_to_u64(value, INT64_MAX, &p->head.length);
		break;
	case 17:
		if (str_eq_nocase(name, STR("transfer-encoding")))
			note_coding(n, value);
		break;
	default:
		break;
	}
}

/* One field line into @to. A line that begins with SP or HTAB (obs-fold) has no token for a name,
 * and so has one with a space before its colon. */
static enum http1_event read_field(struct http1_parser *p, struct str line, struct fields *to)
{
	size_t colon = 0;
	struct str name, value;

	while (colon < line.n && http_class[(unsigned char)line.p[colon]] & HTTP_TOKEN)
		colon++;
	if (colon == line.n || line.p[colon] != ':' || colon == 0)
		return fail(p, 400, "malformed field name");
	name = str_n(line.p, colon);
	value = str_trim(str_from(line, colon + 1));
	if (!http_is_value(value))
		return fail(p, 400, "a control byte in a field value");
	fields_add(to, name, value);
	if (fields_failed(to))
		return fail(p, 431, "too many fields");
	if (to == &p->fields)
		note_field(p, name, value);
	return H1_MORE;
}

/* Reads one line of the section: *over is set at the empty line that ends it. */
static enum http1_event read_section_line(struct http1_parser *p, struct str *in, struct fields *to,
					  bool *over)
{
	struct str line;
	enum line_result r = take_line(p, in, p->max_headers - p->headers, &line);

	*over = false;
	if (r != LINE_OK)
		return line_failed(p, r, 431, "the field section is over the limit");
	if (line.n == 0) {
		*over = true;
		return H1_MORE;
	}
	p->headers += line.n;
	return read_field(p, line, to);
}

/* ---- framing (RFC 9112 6) ---- */

static enum http1_event frame_common(struct http1_parser *p)
{
	const struct noted *n = &p->noted;

	if (n->codings && n->lengths)
		return fail(p, 400, "both Content-Length and Transfer-Encoding");
	if (n->lengths > 1)
		return fail(p, 400, "several Content-Lengths");
	if (n->length_bad)
		return fail(p, 400, "malformed Content-Length");
	if (n->codings && p->head.minor == 0)
		return fail(p, 400, "Transfer-Encoding in HTTP/1.0");
	if (n->codings == 1 && n->coding_unknown)
		return fail(p, 501, "a transfer coding that is not understood here");
	if (n->codings > 1 || (n->codings && !n->chunked))
		return fail(p, 400, "malformed Transfer-Encoding");
	p->head.keep_alive = !n->close && (p->head.minor == 1 || n->keep_alive);
	return H1_MORE;
}

static void set_framing(struct http1_parser *p, enum http1_framing framing)
{
	static const enum state states[] = {
		[H1_NO_BODY] = S_END, [H1_LENGTH] = S_LENGTH, [H1_CHUNKED] = S_CHUNK_SIZE,
		[H1_UNTIL_CLOSE] = S_UNTIL_CLOSE,
	};

	p->head.framing = framing;
	p->left = framing == H1_LENGTH ? p->head.length : 0;
	p->state = states[framing];
}

static enum http1_event frame_request(struct http1_parser *p)
{
	const struct noted *n = &p->noted;

	if (n->hosts > 1)
		return fail(p, 400, "several Hosts");
	if (n->hosts == 0 && p->head.minor == 1)
		return fail(p, 400, "no Host");
	if (n->expect_other)
		return fail(p, 417, "an expectation that is not met here");
	set_framing(p, n->codings ? H1_CHUNKED : n->lengths ? H1_LENGTH : H1_NO_BODY);
	return H1_HEAD;
}

/* RFC 9112 6.3: answers to HEAD, 304 and 204 end with their head whatever they say. A 204 that
 * announces a body (RFC 9110 8.6 forbids it) may well send it: its connection is not used again. */
static enum http1_event frame_response(struct http1_parser *p)
{
	const struct noted *n = &p->noted;
	bool announces = n->codings || p->head.length > 0;
	unsigned status = p->head.status;

	if (status < 200 && announces)
		return fail(p, 400, "an interim answer that announces a body");
	if (status < 200 || status == 204 || status == 304 || p->answers_head) {
		set_framing(p, H1_NO_BODY);
		if (status == 101 || (status == 204 && announces))
			p->head.keep_alive = false;
		return H1_HEAD;
	}
	set_framing(p, n->codings ? H1_CHUNKED : n->lengths ? H1_LENGTH : H1_UNTIL_CLOSE);
	if (p->head.framing == H1_UNTIL_CLOSE)
		p->head.keep_alive = false;
	return H1_HEAD;
}

static enum http1_event read_fields(struct http1_parser *p, struct str *in)
{
	bool over;
	enum http1_event e = read_section_line(p, in, &p->fields, &over);

	if (!over)
		return e;
	e = frame_common(p);
	if (e != H1_MORE)
		return e;
	return p->response ? frame_response(p) : frame_request(p);
}

/* ---- bodies ---- */

static enum http1_event read_body(struct http1_parser *p, struct str *in)
{
	size_t n = in->n;

	if (p->state != S_UNTIL_CLOSE && p->left < n)
		n = (size_t)p->left;
	if (n == 0)
		return H1_MORE;
	p->body = str_n(in->p, n);
	*in = str_from(*in, n);
	if (p->state != S_UNTIL_CLOSE)
		p->left -= n;
	return H1_BODY;
}

static enum http1_event read_length(struct http1_parser *p, struct str *in)
{
	if (p->left == 0) {
		p->state = S_END;
		return H1_MORE;
	}
	return read_body(p, in);
}

static enum http1_event read_chunk_data(struct http1_parser *p, struct str *in)
{
	if (p->left == 0) {
		p->state = S_CHUNK_END;
		return H1_MORE;
	}
	return read_body(p, in);
}

/* ---- chunks (RFC 9112 7.1) ---- */

static void skip_ows(struct str *s)
{
	while (s->n && (s->p[0] == ' ' || s->p[0] == '\t'))
		*s = str_from(*s, 1);
}

static bool skip_token(struct str *s)
{
	size_t n = 0;

	while (n < s->n && http_class[(unsigned char)s->p[n]] & HTTP_TOKEN)
		n++;
	*s = str_from(*s, n);
	return n > 0;
}

/* quoted-string (RFC 9110 5.6.4), from its opening quote. */
static bool skip_quoted(struct str *s)
{
	for (size_t i = 1; i < s->n; i++) {
		if (s->p[i] == '"') {
			*s = str_from(*s, i + 1);
			return true;
		}
		if (s->p[i] == '\\')
			i++;
		if (i == s->n || !(http_class[(unsigned char)s->p[i]] & HTTP_VALUE))
			return false;
	}
	return false;
}

/* *( BWS ";" BWS name [ BWS "=" BWS value ] ) up to the end of the line, nothing after it. */
static bool extensions_valid(struct str s)
{
	while (s.n) {
		skip_ows(&s);
		if (s.n == 0 || s.p[0] != ';')
			return false;
		s = str_from(s, 1);
		skip_ows(&s);
		if (!skip_token(&s))
			return false;
		struct str after = s;

		skip_ows(&after);
		if (after.n == 0 || after.p[0] != '=')
			continue;
		s = str_from(after, 1);
		skip_ows(&s);
		if (!(s.n && s.p[0] == '"' ? skip_quoted(&s) : skip_token(&s)))
			return false;
	}
	return true;
}

#define CHUNK_DIGITS_MAX 16

static bool chunk_line_valid(struct str line, uint64_t *size)
{
	size_t n = 0;

	*size = 0;
	while (n < line.n && hex_value(line.p[n]) >= 0) {
		if (n == CHUNK_DIGITS_MAX)
			return false;
		*size = *size << 4 | (uint64_t)hex_value(line.p[n++]);
	}
	return n > 0 && *size <= INT64_MAX && extensions_valid(str_from(line, n));
}

static enum http1_event read_chunk_size(struct http1_parser *p, struct str *in)
{
	struct str line;
	enum line_result r = take_line(p, in, HTTP1_CHUNK_LINE_MAX, &line);

	if (r != LINE_OK)
		return line_failed(p, r, 400, "a chunk's line is over the limit");
	if (!chunk_line_valid(line, &p->left))
		return fail(p, 400, "malformed chunk size or extension");
	p->headers = 0;
	p->state = p->left ? S_CHUNK_DATA : S_TRAILERS;
	return H1_MORE;
}

static enum http1_event read_chunk_end(struct http1_parser *p, struct str *in)
{
	struct str line;
	enum line_result r = take_line(p, in, 0, &line);

	/* A first byte that is no CR need not wait for a second. */
	if (r == LINE_MORE && p->line.n && p->line.p[0] != '\r')
		r = LINE_LONG;
	if (r != LINE_OK)
		return line_failed(p, r, 400, "a chunk is longer than it said");
	p->state = S_CHUNK_SIZE;
	return H1_MORE;
}

static enum http1_event read_trailers(struct http1_parser *p, struct str *in)
{
	size_t before = p->trailers.n;
	bool over;
	enum http1_event e = read_section_line(p, in, &p->trailers, &over);

	if (over) {
		p->state = S_END;
		return p->trailers.n ? H1_TRAILERS : H1_MORE;
	}
	if (e == H1_MORE && p->trailers.n > before &&
	    http_forbidden_in_trailer(fields_name(&p->trailers, before)))
		return fail(p, 400, "a field that must not be a trailer");
	return e;
}

/* ---- the reader ---- */

static enum http1_event step(struct http1_parser *p, struct str *in)
{
	switch (p->state) {
	case S_START:
		return read_start(p, in);
	case S_FIELDS:
		return read_fields(p, in);
	case S_LENGTH:
		return read_length(p, in);
	case S_UNTIL_CLOSE:
		return read_body(p, in);
	case S_CHUNK_SIZE:
		return read_chunk_size(p, in);
	case S_CHUNK_DATA:
		return read_chunk_data(p, in);
	case S_CHUNK_END:
		return read_chunk_end(p, in);
	case S_TRAILERS:
		return read_trailers(p, in);
	case S_END:
		p->state = S_DONE;
		return H1_END;
	case S_DONE:
		return H1_END;
	case S_FAILED:
		break;
	}
	return H1_ERROR;
}

/* States that a step can leave without input. */
static bool goes_on(const struct http1_parser *p)
{
	return p->state == S_END ||
	       ((p->state == S_LENGTH || p->state == S_CHUNK_DATA) && p->left == 0);
}

enum http1_event http1_read(struct http1_parser *p, struct str *in)
{
	enum http1_event e;

	do {
		e = step(p, in);
	} while (e == H1_MORE && (in->n || goes_on(p)));
	return e;
}

enum http1_event http1_eof(struct http1_parser *p)
{
	switch (p->state) {
	case S_START:
		return http1_begun(p) ? fail(p, 400, "the head broke off") : H1_MORE;
	case S_UNTIL_CLOSE:
	case S_END:
		p->state = S_DONE;
		return H1_END;
	case S_DONE:
		return H1_MORE;
	case S_FAILED:
		return H1_ERROR;
	case S_FIELDS:
		return fail(p, 400, "the head broke off");
	case S_LENGTH:
		if (p->left == 0) {
			p->state = S_DONE;
			return H1_END;
		}
		break;
	case S_CHUNK_SIZE:
	case S_CHUNK_DATA:
	case S_CHUNK_END:
	case S_TRAILERS:
		break;
	}
	return fail(p, 400, "the body broke off");
}

const struct http1_head *http1_head(const struct http1_parser *p)
{
	return &p->head;
}

struct str http1_body(const struct http1_parser *p)
{
	return p->body;
}

const struct fields *http1_trailers(const struct http1_parser *p)
{
	return &p->trailers;
}

const char *http1_error(const struct http1_parser *p)
{
	return p->error ? p->error : "";
}

unsigned http1_status(const struct http1_parser *p)
{
	return p->status;
}

bool http1_begun(const struct http1_parser *p)
{
	if (p->begun || p->state != S_START || p->line.n == 0)
		return p->begun || p->state != S_START;
	return p->response || p->line.n > 1 || p->line.p[0] != '\r';
}
