/* proxy/http1.h - HTTP/1.1 messages, read strictly and written plainly (RFC 9112)
 *
 * The reader is fed bytes as they come and produces events; it never forwards what it did not
 * understand. Not accepted, in requests and answers: bare CR or LF as a line end, obs-fold, space
 * before the colon, control bytes, a field name that is no token, both Content-Length and
 * Transfer-Encoding, several or malformed Content-Lengths, any coding but one final "chunked",
 * Transfer-Encoding in HTTP/1.0, malformed chunk sizes, several Hosts, none in HTTP/1.1, a target
 * that is not visible ASCII, HTTP/0.9, versions other than 1.0 and 1.1, an Expect other than
 * 100-continue (417), interim answers that announce a body. One empty line before a request is let
 * pass. Which methods and target forms are served is the caller's to say (http1_split_target()).
 *
 * Chunk extensions are checked, read past and never passed on. Trailers are delivered as fields;
 * one that RFC 9110 6.5.1 forbids there (framing, routing, authentication, content) is an error.
 *
 * Answers with 1xx, 204, 304 and those to HEAD are a head and H1_END, whatever their fields say;
 * the fields stay for forwarding. After a 1xx other than 101, http1_next() and read on.
 *
 * Ownership   the parser owns its line buffer; http1_free(). Event data borrow from the input or
 *             the parser until the next call.
 * Blocking    never.
 * Failure     H1_ERROR, with http1_error() for the log and http1_status() for the answer (400, 414,
 *             417, 431, 501, 503, 505; of an answer read, 414 and 431 mean that it was over a
 *             limit). A parser that failed stays failed. After H1_END nothing is read before
 *             http1_next().
 * Cost        linear in the bytes, however they are cut.
 * Limits      HTTP1_LINE_MAX start line, the header limit given, FIELDS_MAX fields,
 *             HTTP1_CHUNK_LINE_MAX.
 * Tests       tests/unit/proxy/test_http1.c, fuzz/fuzz_http1_request.c, fuzz/fuzz_http1_response.c
 */
#ifndef PROXY_HTTP1_H
#define PROXY_HTTP1_H

#include "proxy/fields.h"

#define HTTP1_LINE_MAX 32768u
#define HTTP1_HEADERS_MAX 65536u
#define HTTP1_CHUNK_LINE_MAX 4096u

enum http1_event {
	H1_MORE, /* all input consumed, nothing to tell */
	H1_HEAD, /* head is whole: http1_head() */
	H1_BODY, /* a piece of the body: http1_body() */
	H1_TRAILERS, /* trailer fields are in http1_trailers(); only where there were any */
	H1_END, /* the message is over; what follows in the input is the next one's */
	H1_ERROR,
};

enum http1_framing { H1_NO_BODY, H1_LENGTH, H1_CHUNKED, H1_UNTIL_CLOSE };

struct http1_head {
	uint8_t minor;			/* HTTP/1.minor */
	/* request */
	struct str method, target;
	/* response */
	unsigned status;
	struct str reason;
	struct fields *fields;		/* the parser's; the caller may change it after H1_HEAD */
	enum http1_framing framing;
	uint64_t length;		/* H1_LENGTH */
	bool keep_alive;		/* RFC 9112 9.3 */
	bool expect_continue;		/* RFC 9110 10.1.1; never in HTTP/1.0 */
};

struct http1_parser;

struct http1_parser *http1_new(bool response, size_t max_headers);
void http1_free(struct http1_parser *p);
/* For the next message on the connection. For a response: what was asked, since HEAD has no body
 * (RFC 9112 6.3). */
void http1_next(struct http1_parser *p, bool answers_head);
/* Reads from *in, which is shortened by what was taken, until there is something to tell. */
enum http1_event http1_read(struct http1_parser *p, struct str *in);
/* The other side closed: H1_END where that ends the message, H1_ERROR where it cuts one off,
 * H1_MORE where none had begun. */
enum http1_event http1_eof(struct http1_parser *p);
const struct http1_head *http1_head(const struct http1_parser *p);
struct str http1_body(const struct http1_parser *p);
const struct fields *http1_trailers(const struct http1_parser *p);
const char *http1_error(const struct http1_parser *p);
unsigned http1_status(const struct http1_parser *p);
/* Has any byte of the current message come? (empty lines before a request do not count) */
bool http1_begun(const struct http1_parser *p);

/* ---- writing ---- */
/* Each appends to @out. Framing fields are the caller's to set. An empty chunk writes nothing: it
 * would end the body. @trailers may be NULL. Field names and values must be clean (they come from
 * fields that were read, or from us); one that is not makes the buffer failed, so that nothing can
 * be smuggled. */
void http1_write_request(struct buf *out, struct str method, struct str target,
			 const struct fields *fields);
/* What our own answers say beside their status (RFC 9110 15); "Other" for one that none has. */
const char *http1_reason(unsigned status);
void http1_write_response(struct buf *out, unsigned status, struct str reason,
			  const struct fields *fields);
void http1_write_chunk(struct buf *out, struct str data);
void http1_write_last_chunk(struct buf *out, const struct fields *trailers);

/* ---- targets (RFC 9112 3.2) ---- */
enum http1_target_form {
	TARGET_ORIGIN,
	TARGET_ABSOLUTE,
	TARGET_ASTERISK,
	TARGET_AUTHORITY,
	TARGET_BAD
};
struct http1_target {
	enum http1_target_form form;
	struct str scheme, authority;	/* absolute form; authority form: authority */
	struct str path, query;		/* query with its '?', or empty */
};
/* A fragment, userinfo, a byte that is not visible ASCII and a form that the method has not are
 * TARGET_BAD. An absolute form without a path has "/" for one, with OPTIONS "*" (RFC 9112 3.2.4). */
struct http1_target http1_split_target(struct str method, struct str target);

#endif
