#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http1_trace.h"

static void check(struct buf *out, const char *want)
{
	assert_false(out->failed);
	buf_put_c(out, '\0');
	assert_string_equal(out->p, want);
	out->n = 0;
}

/* Read by the parser, all that is in it. */
static void check_read(bool response, struct buf *written, const char *want)
{
	struct http1_parser *p = http1_new(response, HTTP1_HEADERS_MAX);
	struct buf out;
	struct trace t = { .response = response, .whole = true, .out = &out };

	buf_init(&out, 65536);
	trace_run(&t, p, buf_str(written), written->n, written->n);
	check(&out, want);
	buf_free(&out);
	http1_free(p);
}

static void what_is_written_is_read_as_the_same_message(void **state)
{
	struct fields f, trailers;
	struct buf out;

	(void)state;
	buf_init(&out, 65536);
	fields_init(&f, 1024);
	fields_init(&trailers, 1024);
	fields_add(&f, STR("Host"), STR("a.test"));
	fields_add(&f, STR("Transfer-Encoding"), STR("chunked"));
	fields_add(&f, STR("X"), STR(""));
	fields_add(&trailers, STR("Sum"), STR("1 2"));
	http1_write_request(&out, STR("POST"), STR("/x?y"), &f);
	http1_write_chunk(&out, STR("0123456789abcdef!"));
	http1_write_chunk(&out, STR(""));
	http1_write_chunk(&out, STR("z"));
	http1_write_last_chunk(&out, &trailers);
	check_read(false, &out, "POST /x?y 1\nHost=a.test\nTransfer-Encoding=chunked\nX=\nHEAD chunked;"
				"BODY 0123456789abcdef!z;Sum=1 2\nTRAILERS;END;");
	check(&out, "POST /x?y HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nX: \r\n\r\n"
		    "11\r\n0123456789abcdef!\r\n1\r\nz\r\n0\r\nSum: 1 2\r\n\r\n");
	http1_write_response(&out, 200, STR("All right"), &f);
	http1_write_last_chunk(&out, NULL);
	check_read(true, &out, "200 All right 1\nHost=a.test\nTransfer-Encoding=chunked\nX=\nHEAD chunked;END;");
	fields_free(&f);
	fields_free(&trailers);
	buf_free(&out);
}

static bool request_fails(struct str method, struct str target, struct str name, struct str value)
{
	struct fields f;
	struct buf out;
	bool failed;

	buf_init(&out, 65536);
	fields_init(&f, 1024);
	fields_add(&f, name, value);
	http1_write_request(&out, method, target, &f);
	failed = out.failed && out.n == 0;
	buf_free(&out);
	fields_free(&f);
	return failed;
}

static void nothing_can_be_smuggled_into_a_request(void **state)
{
	const struct str get = STR("GET"), root = STR("/"), name = STR("X"), value = STR("y");

	(void)state;
	assert_false(request_fails(get, root, name, value));
	assert_false(request_fails(get, root, name, STR("\t\xc3\xa9")));
	assert_true(request_fails(STR("GE T"), root, name, value));
	assert_true(request_fails(STR(""), root, name, value));
	assert_true(request_fails(get, STR(""), name, value));
	assert_true(request_fails(get, STR("/ HTTP/1.1"), name, value));
	assert_true(request_fails(get, STR("/\r\nX:"), name, value));
	assert_true(request_fails(get, STR("/\0"), name, value));
	assert_true(request_fails(get, STR("/\xc3\xa9"), name, value));
	assert_true(request_fails(get, root, STR("X:"), value));
	assert_true(request_fails(get, root, STR("X "), value));
	assert_true(request_fails(get, root, STR("X\r\nY"), value));
	assert_true(request_fails(get, root, STR(""), value));
	assert_true(request_fails(get, root, name, STR("a\r\nb: c")));
	assert_true(request_fails(get, root, name, STR("a\nb")));
	assert_true(request_fails(get, root, name, STR("a\rb")));
	assert_true(request_fails(get, root, name, STR("a\0b")));
	assert_true(request_fails(get, root, name, STR("\x7f")));
}

static void an_answer_with_a_bad_status_or_reason_fails(void **state)
{
	struct fields f;
	struct buf out;

	(void)state;
	fields_init(&f, 1024);
	buf_init(&out, 1024);
	http1_write_response(&out, 99, STR(""), &f);
	assert_true(out.failed);
	buf_init(&out, 1024);
	http1_write_response(&out, 1000, STR(""), &f);
	assert_true(out.failed);
	buf_init(&out, 1024);
	http1_write_response(&out, 200, STR("OK\r\nX: y"), &f);
	assert_true(out.failed);
	buf_init(&out, 1024);
	fields_add(&f, STR("X"), STR("\n"));
	http1_write_last_chunk(&out, &f);
	assert_true(out.failed);
	buf_free(&out);
	fields_free(&f);
}

static void statuses_of_our_own_have_their_registered_reason(void **state)
{
	(void)state;
	assert_string_equal(http1_reason(200), "OK");
	assert_string_equal(http1_reason(421), "Misdirected Request");
	assert_string_equal(http1_reason(505), "HTTP Version Not Supported");
	assert_string_equal(http1_reason(299), "Other");
}

static void a_head_over_the_buffers_limit_fails_whole(void **state)
{
	struct fields f;
	struct buf out;

	(void)state;
	fields_init(&f, 1024);
	buf_init(&out, sizeof("GET / HTTP/1.1\r\n\r\n") - 1);
	http1_write_request(&out, STR("GET"), STR("/"), &f);
	check_read(false, &out, "ERROR 400;");	/* no Host: whole, but for that */
	buf_free(&out);
	buf_init(&out, sizeof("GET / HTTP/1.1\r\n\r\n") - 2);
	http1_write_request(&out, STR("GET"), STR("/"), &f);
	assert_true(out.failed);
	assert_int_equal(out.n, 0);
	buf_free(&out);
	fields_free(&f);
}

struct target_case {
	const char *method, *target;
	enum http1_target_form form;
	const char *authority, *path, *query;
};

static void targets_have_the_form_that_their_method_allows(void **state)
{
	static const struct target_case cases[] = {
		{ "GET", "/", TARGET_ORIGIN, "", "/", "" },
		{ "GET", "/a/b?c=d?e", TARGET_ORIGIN, "", "/a/b", "?c=d?e" },
		{ "GET", "/?", TARGET_ORIGIN, "", "/", "?" },
		{ "GET", "//a.test/x", TARGET_ORIGIN, "", "//a.test/x", "" },
		{ "GET", "http://a.test/x?y", TARGET_ABSOLUTE, "a.test", "/x", "?y" },
		{ "GET", "HTTPS://a.test:443", TARGET_ABSOLUTE, "a.test:443", "/", "" },
		{ "GET", "http://a.test?y", TARGET_ABSOLUTE, "a.test", "/", "?y" },
		{ "GET", "http://[::1]:80/", TARGET_ABSOLUTE, "[::1]:80", "/", "" },
		{ "OPTIONS", "http://a.test", TARGET_ABSOLUTE, "a.test", "*", "" },
		{ "OPTIONS", "*", TARGET_ASTERISK, "", "*", "" },
		{ "CONNECT", "a.test:443", TARGET_AUTHORITY, "a.test:443", "", "" },
		{ "GET", "*", TARGET_BAD, NULL, NULL, NULL },
		{ "GET", "a.test:443", TARGET_BAD, NULL, NULL, NULL },
		{ "GET", "a.test", TARGET_BAD, NULL, NULL, NULL },
		{ "GET", "?x", TARGET_BAD, NULL, NULL, NULL },
		{ "GET", "", TARGET_BAD, NULL, NULL, NULL },
		{ "GET", "/a#b", TARGET_BAD, NULL, NULL, NULL },
		{ "GET", "/a b", TARGET_BAD, NULL, NULL, NULL },
		{ "GET", "/a\r", TARGET_BAD, NULL, NULL, NULL },
		{ "GET", "/\xff", TARGET_BAD, NULL, NULL, NULL },
		{ "GET", "http:///x", TARGET_BAD, NULL, NULL, NULL },
		{ "GET", "http:/x", TARGET_BAD, NULL, NULL, NULL },
		{ "GET", "://a.test/", TARGET_BAD, NULL, NULL, NULL },
		{ "GET", "1http://a.test/", TARGET_BAD, NULL, NULL, NULL },
		{ "GET", "http://user@a.test/", TARGET_BAD, NULL, NULL, NULL },
		{ "GET", "http://a.test\\@b.test/", TARGET_BAD, NULL, NULL, NULL },
		{ "GET", "http://a.test#@b.test/", TARGET_BAD, NULL, NULL, NULL },
		{ "CONNECT", "/", TARGET_BAD, NULL, NULL, NULL },
		{ "CONNECT", "http://a.test/", TARGET_BAD, NULL, NULL, NULL },
		{ "CONNECT", "u@a.test:443", TARGET_BAD, NULL, NULL, NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct target_case *c = &cases[i];
		struct http1_target t = http1_split_target(str_of(c->method), str_of(c->target));

		if (t.form != c->form)
			print_error("%s %s\n", c->method, c->target);
		assert_int_equal(t.form, c->form);
		if (c->form == TARGET_BAD)
			continue;
		assert_true(str_eq(t.authority, str_of(c->authority)));
		assert_true(str_eq(t.path, str_of(c->path)));
		assert_true(str_eq(t.query, str_of(c->query)));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read_as_the_same_message),
		cmocka_unit_test(nothing_can_be_smuggled_into_a_request),
		cmocka_unit_test(an_answer_with_a_bad_status_or_reason_fails),
		cmocka_unit_test(statuses_of_our_own_have_their_registered_reason),
		cmocka_unit_test(a_head_over_the_buffers_limit_fails_whole),
		cmocka_unit_test(targets_have_the_form_that_their_method_allows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
