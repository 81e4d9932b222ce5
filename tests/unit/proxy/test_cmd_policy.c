#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sysexits.h>

#include "proxy/cmd_policy.h"
#include "said.h"

static struct request_text parts;
static struct explain_request request;

static const char *ask(const char *text)
{
	buf_free(&parts.path);
	buf_init(&parts.path, 4096);
	return cmd_policy_request(str_of(text), &parts, &request);
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

static int run(char *a, char *b, char *c, char *d)
{
	char *argv[] = { (char[]){ "policy" }, a, b, c, d, NULL }, said[SAID_MAX];
	struct said s = said_begin();
	int argc = 1, status;

	while (argv[argc])
		argc++;
	status = cmd_policy(argc, argv);
	said_end(s, said);
	if (status == EX_USAGE)
		assert_true(said[0] != '\0');
	return status;
}

static void a_wrong_command_line_is_a_usage_error(void **state)
{
	char check[] = "check", explain[] = "explain", what[] = "what", file[] = "/nonexistent.yaml";
	char settings[] = "--settings", other[] = "--other", request_text[] = "resolve";

	(void)state;
	assert_int_equal(run(NULL, NULL, NULL, NULL), EX_USAGE);
	assert_int_equal(run(check, NULL, NULL, NULL), EX_USAGE);
	assert_int_equal(run(what, file, NULL, NULL), EX_USAGE);
	assert_int_equal(run(check, file, file, NULL), EX_USAGE);
	assert_int_equal(run(check, file, settings, NULL), EX_USAGE);
	assert_int_equal(run(check, file, other, NULL), EX_USAGE);
	assert_int_equal(run(explain, file, NULL, NULL), EX_USAGE);
	assert_int_equal(run(explain, file, request_text, NULL), EX_USAGE);
}

static void help_is_no_error(void **state)
{
	char check[] = "check", explain[] = "explain", help[] = "--help", h[] = "-h";

	(void)state;
	assert_int_equal(run(help, NULL, NULL, NULL), 0);
	assert_int_equal(run(check, help, NULL, NULL), 0);
	assert_int_equal(run(explain, h, NULL, NULL), 0);
}

static void a_file_that_is_not_there_is_a_failure(void **state)
{
	char check[] = "check", file[] = "/nonexistent.yaml", settings[] = "--settings";

	(void)state;
	assert_int_equal(run(check, file, NULL, NULL), 1);
	assert_int_equal(run(check, file, settings, file), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_is_method_and_url),
		cmocka_unit_test(an_ambiguous_path_is_left_to_explain),
		cmocka_unit_test(a_connection_is_host_and_port),
		cmocka_unit_test(a_lookup_is_a_name),
		cmocka_unit_test(what_cannot_be_read_is_refused),
		cmocka_unit_test(a_wrong_command_line_is_a_usage_error),
		cmocka_unit_test(help_is_no_error),
		cmocka_unit_test(a_file_that_is_not_there_is_a_failure),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}
