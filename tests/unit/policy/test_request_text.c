#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "policy/request_text.h"

static struct request_text parts;
static struct explain_request request;

static const char *ask(const char *text)
{
	buf_free(&parts.path);
	buf_init(&parts.path, 4096);
	return request_text_read(str_of(text), &parts, &request);
}

static int teardown(void **state)
{
	(void)state;
	buf_free(&parts.path);
	return 0;
}

static void a_request_is_method_and_url(void **state)
{
	(void)state;
	assert_null(ask("GET https://API.Test/repos/./acme?x=/y#z"));
	assert_int_equal(request.kind, EXPLAIN_REQUEST);
	assert_true(str_eq(request.facts.host, STR("api.test")));
	assert_int_equal(request.facts.port, 443);
	assert_int_equal(request.facts.proto, PROTO_HTTPS);
	assert_true(str_eq(request.facts.method, STR("GET")));
	assert_true(str_eq(request.facts.path, STR("/repos/acme")));
	assert_null(ask("POST http://x.test:8080?q"));
	assert_int_equal(request.facts.port, 8080);
	assert_int_equal(request.facts.proto, PROTO_HTTP);
	assert_true(str_eq(request.facts.path, STR("/")));
	assert_null(ask("GET https://203.0.113.7/x"));
	assert_true(request.facts.literal);
	assert_int_equal(request.facts.addr.family, 4);
}

static void an_ambiguous_path_is_left_to_explain(void **state)
{
	(void)state;
	assert_null(ask("GET https://x.test/a%2fb"));
	assert_int_equal(request.facts.path.n, 0);
	assert_true(str_eq(request.url, STR("https://x.test/a%2fb")));
}

static void a_connection_is_host_and_port(void **state)
{
	(void)state;
	assert_null(ask("connect db.test:5432"));
	assert_int_equal(request.kind, EXPLAIN_CONNECT);
	assert_int_equal(request.facts.port, 5432);
	assert_null(ask("connect 1.2.3.4:443"));
	assert_true(request.facts.literal);
	assert_null(ask("connect [2001:db8::1]:443"));
	assert_int_equal(request.facts.addr.family, 6);
	assert_string_equal(ask("connect db.test"), "a port is missing: HOST:PORT");
}

static void a_lookup_is_a_name(void **state)
{
	(void)state;
	assert_null(ask("resolve Evil.Example."));
	assert_int_equal(request.kind, EXPLAIN_RESOLVE);
	assert_true(str_eq(request.facts.host, STR("evil.example")));
	assert_non_null(ask("resolve 1.2.3.4"));
}

static void what_cannot_be_read_is_refused(void **state)
{
	static const char *const texts[] = {
		"", "GET", "resolve", "resolve a b", "GET ftp://x.test/", "GET x.test/", "GET https:///x",
		"G(T https://x.test/", "GET https://user@x.test/", "GET https://x.test:0/",
		"GET https://x.test:99999/", "GET https://127.1/", "GET https://x..test/", "connect :443",
		"connect x.test:", "connect b\xc3\xbc" "cher.test:443", "GET https://x.test/a b",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		if (!ask(texts[i]))
			fail_msg("is read: %s", texts[i]);
}

static void a_url_has_a_method_of_its_own(void **state)
{
	(void)state;
	buf_free(&parts.path);
	buf_init(&parts.path, 4096);
	assert_null(request_text_url(STR("PUT"), STR("https://x.test/a?b c"), &parts, &request));
	assert_int_equal(request.kind, EXPLAIN_REQUEST);
	assert_true(str_eq(request.facts.method, STR("PUT")));
	assert_true(str_eq(request.facts.path, STR("/a")));
	assert_non_null(request_text_url(STR("P T"), STR("https://x.test/"), &parts, &request));
	assert_non_null(request_text_url(STR("GET"), STR("x.test:443"), &parts, &request));
}

static void raw_tcp_is_one_word_or_a_url(void **state)
{
	static const char *const bad[] = { "tcp://db.test", "tcp://", "tcp://db.test:0", "tcp://u@db.test:1",
					   "tcp://db.test:1/", "tcp://db.test:1?q", "tcp://db.test:1#f",
					   "tcp://:1", "tcp://db..test:1", "tcp://db.test:65536" };

	(void)state;
	assert_null(ask("tcp://DB.test:5432"));
	assert_int_equal(request.kind, EXPLAIN_CONNECT);
	assert_int_equal(request.facts.proto, PROTO_TCP);
	assert_int_equal(request.facts.port, 5432);
	assert_true(str_eq(request.facts.host, STR("db.test")));
	assert_null(ask("tcp://203.0.113.7:27000"));
	assert_true(request.facts.literal);
	assert_null(request_text_url(STR("GET"), STR("tcp://db.test:5432"), &parts, &request));
	assert_int_equal(request.kind, EXPLAIN_CONNECT);
	assert_int_equal(request.facts.proto, PROTO_TCP);
	assert_int_equal(request.facts.method.n, 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (!ask(bad[i]) || !request_text_url(STR("GET"), str_of(bad[i]), &parts, &request))
			fail_msg("is read: %s", bad[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_is_method_and_url),
		cmocka_unit_test(an_ambiguous_path_is_left_to_explain),
		cmocka_unit_test(a_connection_is_host_and_port),
		cmocka_unit_test(a_lookup_is_a_name),
		cmocka_unit_test(what_cannot_be_read_is_refused),
		cmocka_unit_test(a_url_has_a_method_of_its_own),
		cmocka_unit_test(raw_tcp_is_one_word_or_a_url),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}
