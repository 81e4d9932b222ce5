#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http1_trace.h"

struct vector {
	const char *name;
	struct str bytes;
	const char *want;
};

#define V(name, bytes, want) { name, STR_INIT(bytes), want }
#define GET "GET / HTTP/1.1\r\nHost: a\r\n"
#define POST "POST / HTTP/1.1\r\nHost: a\r\n"
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"
#define OK "HTTP/1.1 200 OK\r\n"
#define OK_CHUNKED OK "Transfer-Encoding: chunked\r\n\r\n"
#define SMUGGLED "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"

static const struct vector requests[] = {
	V("a plain request", GET "\r\n", "HEAD;END;"),
	V("two in one piece", GET "\r\n" GET "\r\n", "HEAD;END;HEAD;END;"),
	V("a body by length", POST "Content-Length: 5\r\n\r\nhello" GET "\r\n",
	  "HEAD length;BODY hello;END;HEAD;END;"),
	V("a length of nothing", POST "Content-Length: 0\r\n\r\n", "HEAD length;END;"),
	V("a chunked body", CHUNKED "5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", "HEAD chunked;BODY hello!;END;"),
	V("trailers", CHUNKED "1\r\nx\r\n0\r\nA: b\r\n\r\n", "HEAD chunked;BODY x;TRAILERS;END;"),
	V("Chunked in capitals", POST "Transfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n", "HEAD chunked;END;"),
	V("one empty line before a request", "\r\n" GET "\r\n", "HEAD;END;"),
	V("two empty lines before a request", "\r\n\r\n" GET "\r\n", "ERROR 400;"),
	V("HTTP/1.0 without Host", "GET / HTTP/1.0\r\n\r\n", "HEAD close;END;"),
	V("HTTP/1.0 with keep-alive", "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "HEAD;END;"),
	V("close among other options", GET "Connection: foo , Close\r\n\r\n", "HEAD close;END;"),
	V("100-continue", POST "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\nx",
	  "HEAD length expect;BODY x;END;"),
	V("100-continue in HTTP/1.0 is ignored",
	  "POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
	  "HEAD length close;BODY x;END;"),
	V("another expectation", POST "Expect: tea\r\n\r\n", "ERROR 417;"),
	V("obs-text in a value", GET "X: \xc3\xa9\x80\xff\r\n\r\n", "HEAD;END;"),
	V("a tab in a value", GET "X: a\tb\r\n\r\n", "HEAD;END;"),
	V("an empty value", GET "X:\r\nY: \t \r\n\r\n", "HEAD;END;"),

	/* start lines */
	V("no version (HTTP/0.9)", "GET /\r\n\r\n", "ERROR 400;"),
	V("HTTP/2.0", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "ERROR 505;"),
	V("HTTP/1.2", "GET / HTTP/1.2\r\nHost: a\r\n\r\n", "ERROR 505;"),
	V("HTTP/0.9", "GET / HTTP/0.9\r\n\r\n", "ERROR 505;"),
	V("http/1.1", "GET / http/1.1\r\nHost: a\r\n\r\n", "ERROR 400;"),
	V("HTTP/01.1", "GET / HTTP/01.1\r\nHost: a\r\n\r\n", "ERROR 400;"),
	V("two spaces", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", "ERROR 400;"),
	V("a space in the target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", "ERROR 400;"),
	V("a space after the version", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n", "ERROR 400;"),
	V("a tab for a space", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", "ERROR 400;"),
	V("a space first", " GET / HTTP/1.1\r\nHost: a\r\n\r\n", "ERROR 400;"),
	V("NUL in the method", "GE\0T / HTTP/1.1\r\nHost: a\r\n\r\n", "ERROR 400;"),
	V("NUL in the target", "GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", "ERROR 400;"),
	V("raw Latin-1 space in the target", "GET /\xa0 HTTP/1.1\r\nHost: a\r\n\r\n", "ERROR 400;"),
	V("a bare CR in the target", "GET /\r HTTP/1.1\r\nHost: a\r\n\r\n", "ERROR 400;"),
	V("a TLS hello", "\x16\x03\x01\x02\0\n", "ERROR 400;"),

	/* Host */
	V("no Host", "GET / HTTP/1.1\r\n\r\n", "ERROR 400;"),
	V("two Hosts", GET "Host: a\r\n\r\n", "ERROR 400;"),
	V("two Hosts, differently spelled", GET "hOST: b\r\n\r\n", "ERROR 400;"),
	V("two Hosts in HTTP/1.0", "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", "ERROR 400;"),

	/* fields */
	V("a bare LF after the start line", "GET / HTTP/1.1\nHost: a\r\n\r\n", "ERROR 400;"),
	V("a bare LF after a field", "GET / HTTP/1.1\r\nHost: a\n\r\n", "ERROR 400;"),
	V("a bare LF for the empty line", GET "\n", "ERROR 400;"),
	V("a bare CR in a value", GET "X: a\rb\r\n\r\n", "ERROR 400;"),
	V("CR CR LF", GET "X: a\r\r\n\r\n", "ERROR 400;"),
	V("NUL in a value", GET "X: a\0b\r\n\r\n", "ERROR 400;"),
	V("NUL in a name", GET "X\0: a\r\n\r\n", "ERROR 400;"),
	V("DEL in a value", GET "X: \x7f\r\n\r\n", "ERROR 400;"),
	V("a vertical tab in a value", GET "X: \v\r\n\r\n", "ERROR 400;"),
	V("a space before the colon", GET "Content-Length : 5\r\n\r\nhello", "ERROR 400;"),
	V("a tab before the colon", GET "Transfer-Encoding\t: chunked\r\n\r\n", "ERROR 400;"),
	V("obs-fold", GET "X: a\r\n b\r\n\r\n", "ERROR 400;"),
	V("obs-fold with a tab", GET "Transfer-Encoding:\r\n\tchunked\r\n\r\n", "ERROR 400;"),
	V("a space before the first field", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", "ERROR 400;"),
	V("no colon", GET "X\r\n\r\n", "ERROR 400;"),
	V("no name", GET ": x\r\n\r\n", "ERROR 400;"),
	V("a name that is no token", GET "X(y): x\r\n\r\n", "ERROR 400;"),
	V("obs-text in a name", GET "X\xff: x\r\n\r\n", "ERROR 400;"),

	/* CL.CL */
	V("two lengths", POST "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", "ERROR 400;"),
	V("two equal lengths", POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", "ERROR 400;"),
	V("a list of lengths", POST "Content-Length: 5, 5\r\n\r\nhello", "ERROR 400;"),
	V("+5", POST "Content-Length: +5\r\n\r\nhello", "ERROR 400;"),
	V("-5", POST "Content-Length: -5\r\n\r\nhello", "ERROR 400;"),
	V("0x5", POST "Content-Length: 0x5\r\n\r\nhello", "ERROR 400;"),
	V("5 with more", POST "Content-Length: 5 5\r\n\r\nhello", "ERROR 400;"),
	V("5.0", POST "Content-Length: 5.0\r\n\r\nhello", "ERROR 400;"),
	V("an empty length", POST "Content-Length:\r\n\r\n", "ERROR 400;"),
	V("1_0", POST "Content-Length: 1_0\r\n\r\nhellohello", "ERROR 400;"),
	V("a length of 2^63", POST "Content-Length: 9223372036854775808\r\n\r\n", "ERROR 400;"),
	V("a length of 2^64 + 5", POST "Content-Length: 18446744073709551621\r\n\r\nhello", "ERROR 400;"),

	/* CL.TE, TE.CL */
	V("length, then coding", POST "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG",
	  "ERROR 400;"),
	V("coding, then length", POST "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n5c\r\n" SMUGGLED,
	  "ERROR 400;"),
	V("length and a coding not understood",
	  POST "Content-Length: 4\r\nTransfer-Encoding: xchunked\r\n\r\n5c\r\n" SMUGGLED, "ERROR 400;"),

	/* TE.TE */
	V("two codings", POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
	  "ERROR 400;"),
	V("chunked twice", POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	  "ERROR 400;"),
	V("chunked, chunked", POST "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", "ERROR 400;"),
	V("chunked, identity", POST "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", "ERROR 400;"),
	V("identity, chunked", POST "Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n", "ERROR 400;"),
	V("identity", POST "Transfer-Encoding: identity\r\n\r\n", "ERROR 400;"),
	V("xchunked", POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "ERROR 400;"),
	V("chunked in quotes", POST "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", "ERROR 400;"),
	V("chunked with a parameter", POST "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n", "ERROR 400;"),
	V("an empty coding", POST "Transfer-Encoding:\r\n\r\n", "ERROR 400;"),
	V("an empty member", POST "Transfer-Encoding: , chunked\r\n\r\n0\r\n\r\n", "ERROR 400;"),
	V("a vertical tab before chunked", POST "Transfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n", "ERROR 400;"),
	V("gzip, chunked cannot be served", POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
	  "ERROR 501;"),
	V("a coding in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	  "ERROR 400;"),

	/* chunks */
	V("an extension", CHUNKED "5;a=b\r\nhello\r\n0\r\n\r\n", "HEAD chunked;BODY hello;END;"),
	V("extensions with bad whitespace and a quoted value",
	  CHUNKED "5 ; x\t;\ty = \"a\\\"b;\" \r\n", "HEAD chunked;ERROR 400;"),
	V("extensions with a quoted value", CHUNKED "1 ; x\t;\ty = \"a\\\"b;\"\r\nz\r\n0;e\r\n\r\n",
	  "HEAD chunked;BODY z;END;"),
	V("an extension without a name", CHUNKED "5;\r\nhello\r\n0\r\n\r\n", "HEAD chunked;ERROR 400;"),
	V("an extension without its value", CHUNKED "5;a=\r\nhello\r\n0\r\n\r\n", "HEAD chunked;ERROR 400;"),
	V("an open quote", CHUNKED "5;a=\"b\r\nhello\r\n0\r\n\r\n", "HEAD chunked;ERROR 400;"),
	V("a space after the size", CHUNKED "5 \r\nhello\r\n0\r\n\r\n", "HEAD chunked;ERROR 400;"),
	V("a tab after the size", CHUNKED "5\t\r\nhello\r\n0\r\n\r\n", "HEAD chunked;ERROR 400;"),
	V("a space before the size", CHUNKED " 5\r\nhello\r\n0\r\n\r\n", "HEAD chunked;ERROR 400;"),
	V("chunk size -5", CHUNKED "-5\r\nhello\r\n0\r\n\r\n", "HEAD chunked;ERROR 400;"),
	V("chunk size +5", CHUNKED "+5\r\nhello\r\n0\r\n\r\n", "HEAD chunked;ERROR 400;"),
	V("chunk size 0x5", CHUNKED "0x5\r\nhello\r\n0\r\n\r\n", "HEAD chunked;ERROR 400;"),
	V("no chunk size", CHUNKED "\r\nhello\r\n0\r\n\r\n", "HEAD chunked;ERROR 400;"),
	V("chunk size with 16 hex digits", CHUNKED "0000000000000005\r\nhello\r\n0\r\n\r\n",
	  "HEAD chunked;BODY hello;END;"),
	V("chunk size with 17 hex digits", CHUNKED "00000000000000005\r\nhello\r\n0\r\n\r\n",
	  "HEAD chunked;ERROR 400;"),
	V("chunk size over 2^63", CHUNKED "ffffffffffffffff\r\nhello\r\n0\r\n\r\n", "HEAD chunked;ERROR 400;"),
	V("a size line ended by a bare LF", CHUNKED "5\nhello\r\n0\r\n\r\n", "HEAD chunked;ERROR 400;"),
	V("TERM.EXT: LF in an extension", CHUNKED "5;\nxx\r\nhello\r\n0\r\n\r\n", "HEAD chunked;ERROR 400;"),
	V("TERM.EXT: LF in an extension with a name", CHUNKED "2;a\nxx\r\n4c\r\n0\r\n\r\n" SMUGGLED,
	  "HEAD chunked;ERROR 400;"),
	V("EXT.TERM: CR in an extension", CHUNKED "5;a\rb\r\nhello\r\n0\r\n\r\n", "HEAD chunked;ERROR 400;"),
	V("TERM.SPILL: data ended by nothing", CHUNKED "2\r\nxx0\r\n\r\n" SMUGGLED,
	  "HEAD chunked;BODY xx;ERROR 400;"),
	V("SPILL.TERM: data ended by LF", CHUNKED "2\r\nxx\n0\r\n\r\n" SMUGGLED,
	  "HEAD chunked;BODY xx;ERROR 400;"),
	V("SPILL.TERM: data ended by two other bytes", CHUNKED "2\r\nxxyy0\r\n\r\n" SMUGGLED,
	  "HEAD chunked;BODY xx;ERROR 400;"),
	V("data ended by CR and another byte", CHUNKED "2\r\nxx\ry0\r\n\r\n", "HEAD chunked;BODY xx;ERROR 400;"),
	V("a bare LF at the end of trailers", CHUNKED "0\r\n\n", "HEAD chunked;ERROR 400;"),
	V("Content-Length in a trailer", CHUNKED "0\r\nContent-Length: 5\r\n\r\n", "HEAD chunked;ERROR 400;"),
	V("Host in a trailer", CHUNKED "0\r\nhost: b\r\n\r\n", "HEAD chunked;ERROR 400;"),
	V("Authorization in a trailer", CHUNKED "0\r\nAuthorization: b\r\n\r\n", "HEAD chunked;ERROR 400;"),
	V("obs-fold in a trailer", CHUNKED "0\r\nA: b\r\n c\r\n\r\n", "HEAD chunked;ERROR 400;"),

	/* cut off */
	V("nothing", "", ""),
	V("an empty line and nothing", "\r\n", ""),
	V("half an empty line", "\r", ""),
	V("a start line cut off", "GET / HT", "EOF-ERROR;"),
	V("a head cut off", GET, "EOF-ERROR;"),
	V("300 bytes of 1007", POST "Content-Length: 1007\r\n\r\nhello", "HEAD length;BODY hello;EOF-ERROR;"),
	V("no last chunk", CHUNKED "5\r\nhello\r\n", "HEAD chunked;BODY hello;EOF-ERROR;"),
	V("the last CRLF missing", CHUNKED "5\r\nhello\r\n0\r\n", "HEAD chunked;BODY hello;EOF-ERROR;"),
};

static const struct vector responses[] = {
	V("a body by length", OK "Content-Length: 5\r\n\r\nhello" OK "Content-Length: 0\r\n\r\n",
	  "HEAD length;BODY hello;END;HEAD length;END;"),
	V("a body until the end", OK "\r\nhello", "HEAD until-close close;BODY hello;EOF-END;"),
	V("a chunked body", OK_CHUNKED "5\r\nhello\r\n0\r\n\r\n", "HEAD chunked;BODY hello;END;"),
	V("no reason", "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", "HEAD length;END;"),
	V("no reason and no space", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", "HEAD length;END;"),
	V("a reason in UTF-8", "HTTP/1.1 200 d\xc3\xa9j\xc3\xa0\r\nContent-Length: 0\r\n\r\n", "HEAD length;END;"),
	V("102, 103, 103, 100, then 200",
	  "HTTP/1.1 102 P\r\n\r\nHTTP/1.1 103 E\r\nLink: x\r\n\r\nHTTP/1.1 103 E\r\n\r\nHTTP/1.1 100 C\r\n\r\n"
	  OK "Content-Length: 2\r\n\r\nok",
	  "HEAD;END;HEAD;END;HEAD;END;HEAD;END;HEAD length;BODY ok;END;"),
	V("304 with a length", "HTTP/1.1 304 N\r\nContent-Length: 1488324\r\n\r\n" OK "Content-Length: 0\r\n\r\n",
	  "HEAD;END;HEAD length;END;"),
	V("304 with a coding", "HTTP/1.1 304 N\r\nTransfer-Encoding: chunked\r\n\r\n", "HEAD;END;"),
	V("204 with a length", "HTTP/1.1 204 N\r\nContent-Length: 5\r\n\r\n", "HEAD close;END;"),
	V("204", "HTTP/1.1 204 N\r\n\r\n", "HEAD;END;"),
	V("205 with a length", "HTTP/1.1 205 R\r\nContent-Length: 0\r\n\r\n", "HEAD length;END;"),
	V("101", "HTTP/1.1 101 S\r\nUpgrade: x\r\n\r\n", "HEAD close;END;"),
	V("an interim answer with a body", "HTTP/1.1 103 E\r\nContent-Length: 5\r\n\r\nhello", "ERROR 400;"),
	V("an interim answer with a coding", "HTTP/1.1 103 E\r\nTransfer-Encoding: chunked\r\n\r\n", "ERROR 400;"),
	V("status 999", "HTTP/1.1 999 X\r\nContent-Length: 0\r\n\r\n", "HEAD length;END;"),
	V("HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", "HEAD length close;END;"),
	V("two answers to one request", OK "Content-Length: 2\r\n\r\nokHTTP/1.1 garbage", "HEAD length;BODY ok;END;EOF-ERROR;"),

	V("HTTP/0.9", "hello\r\n", "ERROR 400;"),
	V("an empty line first", "\r\n" OK "\r\n", "ERROR 400;"),
	V("status 99", "HTTP/1.1 099 X\r\n\r\n", "ERROR 400;"),
	V("status of two digits", "HTTP/1.1 20 OK\r\n\r\n", "ERROR 400;"),
	V("status of four digits", "HTTP/1.1 2000 OK\r\n\r\n", "ERROR 400;"),
	V("status +20", "HTTP/1.1 +20 OK\r\n\r\n", "ERROR 400;"),
	V("HTTP/2", "HTTP/2.0 200 OK\r\n\r\n", "ERROR 505;"),
	V("a tab for a space", "HTTP/1.1\t200 OK\r\n\r\n", "ERROR 400;"),
	V("a control byte in the reason", "HTTP/1.1 200 O\x01K\r\n\r\n", "ERROR 400;"),
	V("both length and coding", OK "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	  "ERROR 400;"),
	V("both, in a 304", "HTTP/1.1 304 N\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
	  "ERROR 400;"),
	V("two equal lengths", OK "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", "ERROR 400;"),
	V("a list of lengths", OK "Content-Length: 5, 5\r\n\r\nhello", "ERROR 400;"),
	V("a coding that is not chunked", OK "Transfer-Encoding: identity\r\n\r\nhello", "ERROR 400;"),
	V("gzip, chunked", OK "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "ERROR 501;"),
	V("a coding in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "ERROR 400;"),
	V("TERM.EXT", OK_CHUNKED "5;\nxx\r\nhello\r\n0\r\n\r\n", "HEAD chunked;ERROR 400;"),
	V("EXT.TERM", OK_CHUNKED "5;a\rb\r\nhello\r\n0\r\n\r\n", "HEAD chunked;ERROR 400;"),
	V("TERM.SPILL", OK_CHUNKED "2\r\nxx0\r\n\r\n", "HEAD chunked;BODY xx;ERROR 400;"),
	V("SPILL.TERM", OK_CHUNKED "2\r\nxx\n0\r\n\r\n", "HEAD chunked;BODY xx;ERROR 400;"),
	V("Set-Cookie in a trailer", OK_CHUNKED "0\r\nSet-Cookie: a=b\r\n\r\n", "HEAD chunked;ERROR 400;"),
	V("cut off", OK "Content-Length: 5\r\n\r\nhel", "HEAD length;BODY hel;EOF-ERROR;"),
};

static void run(bool response, bool answers_head, struct str bytes, size_t first, size_t step,
		struct buf *out)
{
	struct http1_parser *p = http1_new(response, HTTP1_HEADERS_MAX);
	struct trace t = { .response = response, .answers_head = answers_head, .out = out };

	assert_non_null(p);
	out->n = 0;
	trace_run(&t, p, bytes, first, step);
	buf_put_c(out, '\0');
	assert_false(out->failed);
	http1_free(p);
}

/* In one piece, a byte at a time, and cut in two at every byte. */
static void check_vector(bool response, const struct vector *v)
{
	struct buf out;

	buf_init(&out, 1u << 20);
	for (size_t first = 0; first <= v->bytes.n; first++) {
		run(response, false, v->bytes, first ? first : 1, first ? v->bytes.n : 1, &out);
		if (strcmp(out.p, v->want) != 0)
			print_error("\"%s\" cut at %zu\n", v->name, first);
		assert_string_equal(out.p, v->want);
	}
	buf_free(&out);
}

static void requests_give_their_events_however_they_are_cut(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
		check_vector(false, &requests[i]);
}

static void answers_give_their_events_however_they_are_cut(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(responses) / sizeof(responses[0]); i++)
		check_vector(true, &responses[i]);
}

static void answers_to_head_have_no_body_and_keep_their_length(void **state)
{
	struct http1_parser *p = http1_new(true, HTTP1_HEADERS_MAX);
	struct str in = STR(OK "Content-Length: 1488324\r\n\r\n"), value;

	(void)state;
	http1_next(p, true);
	assert_int_equal(http1_read(p, &in), H1_HEAD);
	assert_true(fields_get(http1_head(p)->fields, STR("content-length"), &value));
	assert_true(str_eq(value, STR("1488324")));
	assert_int_equal(http1_head(p)->framing, H1_NO_BODY);
	assert_true(http1_head(p)->keep_alive);
	assert_int_equal(http1_read(p, &in), H1_END);
	http1_free(p);
}

static void nothing_is_read_after_the_end_before_the_next_is_asked_for(void **state)
{
	struct http1_parser *p = http1_new(false, HTTP1_HEADERS_MAX);
	struct str in = STR(GET "\r\n" GET "\r\n");

	(void)state;
	assert_int_equal(http1_read(p, &in), H1_HEAD);
	assert_int_equal(http1_read(p, &in), H1_END);
	assert_int_equal(in.n, sizeof(GET "\r\n") - 1);
	assert_int_equal(http1_read(p, &in), H1_END);
	assert_int_equal(in.n, sizeof(GET "\r\n") - 1);
	assert_int_equal(http1_eof(p), H1_MORE);
	http1_free(p);
}

static void a_parser_that_failed_stays_failed(void **state)
{
	struct http1_parser *p = http1_new(false, HTTP1_HEADERS_MAX);
	struct str in = STR("\n"), more = STR(GET "\r\n");

	(void)state;
	assert_int_equal(http1_read(p, &in), H1_ERROR);
	http1_next(p, false);
	assert_int_equal(http1_read(p, &more), H1_ERROR);
	assert_int_equal(http1_eof(p), H1_ERROR);
	assert_int_equal(http1_status(p), 400);
	assert_true(strlen(http1_error(p)) > 0);
	http1_free(p);
}

static void empty_lines_before_a_request_do_not_begin_it(void **state)
{
	struct http1_parser *p = http1_new(false, HTTP1_HEADERS_MAX);
	struct str cr = STR("\r"), lf = STR("\n"), g = STR("G");

	(void)state;
	assert_int_equal(http1_read(p, &cr), H1_MORE);
	assert_false(http1_begun(p));
	assert_int_equal(http1_read(p, &lf), H1_MORE);
	assert_false(http1_begun(p));
	assert_int_equal(http1_read(p, &g), H1_MORE);
	assert_true(http1_begun(p));
	http1_free(p);
}

/* ---- limits ---- */

static void put_run(struct buf *b, char c, size_t n)
{
	char *to = buf_room(b, n);

	assert_non_null(to);
	memset(to, c, n);
	buf_grown(b, n);
}

/* @before, @n times 'a', @after: whole and in pieces. Returns the status, 0 where it was taken. */
static unsigned status_of(size_t max_headers, const char *before, size_t n, const char *after)
{
	unsigned status = 0;
	struct buf b;

	buf_init(&b, 1u << 20);
	buf_put_str(&b, str_of(before));
	put_run(&b, 'a', n);
	buf_put_str(&b, str_of(after));
	for (size_t step = b.n; step > 0; step = step > 7 ? 7 : 0) {
		struct http1_parser *p = http1_new(false, max_headers);
		struct trace t = { .out = &(struct buf){ .max = 1u << 20 } };

		trace_run(&t, p, buf_str(&b), step, step);
		if (step < b.n)
			assert_int_equal(http1_status(p), status);
		status = http1_status(p);
		buf_free(t.out);
		http1_free(p);
	}
	buf_free(&b);
	return status;
}

static void a_start_line_over_the_limit_is_414(void **state)
{
	size_t rest = sizeof("GET / HTTP/1.1") - 1;

	(void)state;
	assert_int_equal(status_of(8192, "GET /", HTTP1_LINE_MAX - rest, " HTTP/1.1\r\nHost: a\r\n\r\n"), 0);
	assert_int_equal(status_of(8192, "GET /", HTTP1_LINE_MAX - rest + 1, " HTTP/1.1\r\nHost: a\r\n\r\n"), 414);
	assert_int_equal(status_of(8192, "GET /", HTTP1_LINE_MAX, ""), 414);
}

static void fields_over_the_limit_are_431(void **state)
{
	size_t rest = sizeof("Host: aX: ") - 1;

	(void)state;
	assert_int_equal(status_of(8192, GET "X: ", 8192 - rest, "\r\n\r\n"), 0);
	assert_int_equal(status_of(8192, GET "X: ", 8192 - rest + 1, "\r\n\r\n"), 431);
	assert_int_equal(status_of(8192, GET "X: ", 9000, ""), 431);
}

static void a_chunk_line_over_the_limit_is_refused(void **state)
{
	(void)state;
	assert_int_equal(status_of(8192, CHUNKED "0;", HTTP1_CHUNK_LINE_MAX - 2, "\r\n\r\n"), 0);
	assert_int_equal(status_of(8192, CHUNKED "0;", HTTP1_CHUNK_LINE_MAX - 1, "\r\n\r\n"), 400);
	assert_int_equal(status_of(8192, CHUNKED "0;", 65536, ""), 400);
}

static unsigned status_with_fields(size_t n)
{
	struct http1_parser *p = http1_new(false, HTTP1_HEADERS_MAX);
	struct str in;
	unsigned status;
	struct buf b;

	buf_init(&b, 1u << 20);
	buf_put_str(&b, STR(GET));
	for (size_t i = 1; i < n; i++)
		buf_printf(&b, "x%zu: y\r\n", i);
	buf_put_str(&b, STR("\r\n"));
	in = buf_str(&b);
	http1_read(p, &in);
	status = http1_status(p);
	buf_free(&b);
	http1_free(p);
	return status;
}

static void more_fields_than_the_list_has_are_431(void **state)
{
	(void)state;
	assert_int_equal(status_with_fields(FIELDS_MAX), 0);
	assert_int_equal(status_with_fields(FIELDS_MAX + 1), 431);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_give_their_events_however_they_are_cut),
		cmocka_unit_test(answers_give_their_events_however_they_are_cut),
		cmocka_unit_test(answers_to_head_have_no_body_and_keep_their_length),
		cmocka_unit_test(nothing_is_read_after_the_end_before_the_next_is_asked_for),
		cmocka_unit_test(a_parser_that_failed_stays_failed),
		cmocka_unit_test(empty_lines_before_a_request_do_not_begin_it),
		cmocka_unit_test(a_start_line_over_the_limit_is_414),
		cmocka_unit_test(fields_over_the_limit_are_431),
		cmocka_unit_test(a_chunk_line_over_the_limit_is_refused),
		cmocka_unit_test(more_fields_than_the_list_has_are_431),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
