#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

#include "proxy/refusal.h"

static struct refusal example(void)
{
	return (struct refusal){
		.reason = REFUSAL_policy, .id = "0123456789abcdef", .rule = STR("no-\"deletes\""),
		.why = STR("ask \\ the owner\r\nX: \xc3\xa9"), .host = STR("api.github.com"),
		.method = STR("DELETE"), .path = STR("/repos/x"),
	};
}

static void answer(const struct refusal *r, struct fields *f, struct buf *body)
{
	fields_init(f, 8192);
	buf_init(body, 8192);
	refusal_answer(r, f, body);
	assert_false(fields_failed(f) || body->failed);
}

static void check_field(const struct fields *f, const char *name, const char *want)
{
	struct str value = STR("");

	assert_true(fields_get(f, str_of(name), &value) == (want != NULL));
	assert_true(str_eq(value, want ? str_of(want) : STR("")));
}

static void check_member(const json_t *doc, const char *key, const char *want)
{
	assert_string_equal(json_string_value(json_object_get(doc, key)), want);
}

static void the_body_says_what_was_refused_by_which_rule(void **state)
{
	struct refusal r = example();
	struct fields f;
	struct buf body;
	json_t *doc;

	(void)state;
	answer(&r, &f, &body);
	doc = json_loadb(body.p, body.n, 0, NULL);
	assert_non_null(doc);
	check_member(doc, "type", "urn:exeat:refusal:policy");
	check_member(doc, "title", "Refused by policy");
	assert_int_equal(json_integer_value(json_object_get(doc, "status")), 403);
	check_member(doc, "detail", "ask \\ the owner\r\nX: \xc3\xa9");
	check_member(doc, "reason", "policy");
	check_member(doc, "rule", "no-\"deletes\"");
	check_member(doc, "host", "api.github.com");
	check_member(doc, "method", "DELETE");
	check_member(doc, "path", "/repos/x");
	check_member(doc, "refusal", "0123456789abcdef");
	check_member(doc, "retry", "ask");
	assert_null(json_object_get(doc, "retry_after"));
	json_decref(doc);
	fields_free(&f);
	buf_free(&body);
}

static void the_fields_say_that_it_was_exeat(void **state)
{
	struct refusal r = example();
	struct fields f;
	struct buf body;
	struct str length;
	uint64_t n;

	(void)state;
	answer(&r, &f, &body);
	check_field(&f, "content-type", "application/problem+json");
	check_field(&f, "cache-control", "no-store");
	check_field(&f, "retry-after", NULL);
	check_field(&f, "proxy-status",
		    "exeat; error=http_request_denied; details=\"Refused by policy: rule no-\\\"deletes\\\": "
		    "ask \\\\ the owner??X: ?? (refusal 0123456789abcdef)\"");
	assert_true(fields_get(&f, STR("content-length"), &length));
	assert_true(str_to_u64(length, 8192, &n));
	assert_int_equal(n, body.n);
	fields_free(&f);
	buf_free(&body);
}

static void trying_later_comes_with_a_time_and_what_is_unknown_is_left_out(void **state)
{
	struct refusal r = { .reason = REFUSAL_connection_timeout, .id = "0123456789abcdef" };
	struct fields f;
	struct buf body;
	json_t *doc;

	(void)state;
	answer(&r, &f, &body);
	check_field(&f, "retry-after", "5");
	doc = json_loadb(body.p, body.n, 0, NULL);
	check_member(doc, "retry", "later");
	assert_int_equal(json_integer_value(json_object_get(doc, "retry_after")), REFUSAL_RETRY_S);
	assert_null(json_object_get(doc, "rule"));
	assert_null(json_object_get(doc, "detail"));
	assert_null(json_object_get(doc, "host"));
	json_decref(doc);
	fields_free(&f);
	buf_free(&body);
}

static void details_are_cut_at_their_limit(void **state)
{
	static char quotes[65536];
	struct refusal r = example();
	struct fields f;
	struct buf body;

	(void)state;
	memset(quotes, '"', sizeof(quotes));
	r.why = str_n(quotes, sizeof(quotes));
	r.rule = r.why;
	fields_init(&f, 8192);
	buf_init(&body, 1u << 20);
	refusal_answer(&r, &f, &body);
	assert_false(fields_failed(&f) || body.failed);
	fields_free(&f);
	buf_free(&body);
}

static void every_reason_has_a_name_and_a_status(void **state)
{
	(void)state;
	for (enum refusal_reason i = 0; i < REFUSAL_COUNT; i++) {
		assert_true(refusal_status(i) >= 400 && refusal_status(i) <= 599);
		assert_null(strchr(refusal_name(i), '_'));
		assert_true(strlen(refusal_name(i)) > 2 && strlen(refusal_name(i)) < 31);
		assert_true(strlen(refusal_error(i)) > 5);
		assert_true(strlen(refusal_retry(i)) > 2);
	}
	assert_string_equal(refusal_name(REFUSAL_connection_refused), "connection-refused");
	assert_string_equal(refusal_error(REFUSAL_destination_prohibited), "destination_ip_prohibited");
	assert_int_equal(refusal_alert(REFUSAL_sni_mismatch), 112);
	assert_int_equal(refusal_status(REFUSAL_sni_mismatch), 421);
	assert_int_equal(refusal_status(REFUSAL_expectation_failed), 417);
}

static void ids_are_16_hex_digits_and_differ(void **state)
{
	struct refusal a = { .reason = REFUSAL_policy }, b = a;

	(void)state;
	refusal_id(&a);
	refusal_id(&b);
	assert_int_equal(strspn(a.id, "0123456789abcdef"), 16);
	assert_int_equal(strlen(a.id), 16);
	assert_string_not_equal(a.id, b.id);
}

struct strip_case {
	const char *value, *want;	/* NULL: the field is gone */
};

/* F133: an origin cannot pass for Exeat. */
static void an_origin_cannot_name_exeat(void **state)
{
	static const struct strip_case cases[] = {
		{ "exeat; error=http_request_denied", NULL },
		{ "exeat", NULL },
		{ " EXEAT ; error=x", NULL },
		{ "\"exeat\"; error=x", NULL },
		{ "cdn; error=x", "cdn; error=x" },
		{ "cdn; details=\"exeat, or not\"", "cdn; details=\"exeat, or not\"" },
		{ "cdn, exeat; details=\"a, b\", other;x=1", "cdn,other;x=1" },
		{ "exeat,cdn", "cdn" },
		{ "a;d=\"\\\"\", exeat", "a;d=\"\\\"\"" },
		{ "a; d=\"open, exeat", NULL },
		{ "a; d=\"open\\", NULL },
		{ "exeatly", "exeatly" },
		{ "exeat junk; error=x, cdn", "cdn" },
		{ "exeat/1.0", NULL },
		{ "\" exeat \"junk", NULL },
		{ ",,", NULL },
		{ "", NULL },
	};
	struct fields f;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fields_init(&f, 8192);
		fields_add(&f, STR("Content-Type"), STR("application/problem+json"));
		fields_add(&f, STR("Proxy-Status"), str_of(cases[i].value));
		fields_add(&f, STR("proxy-status"), STR("exeat"));
		fields_add(&f, STR("X"), STR("exeat"));
		refusal_strip_marks(&f);
		check_field(&f, "proxy-status", cases[i].want);
		assert_int_equal(f.n, cases[i].want ? 3 : 2);
		fields_free(&f);
	}
}

static void our_own_answer_loses_its_mark_when_an_origin_sends_it(void **state)
{
	struct refusal r = example();
	struct fields f;
	struct buf body;

	(void)state;
	answer(&r, &f, &body);
	refusal_strip_marks(&f);
	check_field(&f, "proxy-status", NULL);
	fields_free(&f);
	buf_free(&body);
}

static void check_phrase(const struct refusal *r, const char *want)
{
	struct buf phrase;

	buf_init(&phrase, REFUSAL_PHRASE_MAX);
	refusal_phrase(r, &phrase);
	assert_false(phrase.failed);
	assert_true(str_eq(buf_str(&phrase), str_of(want)));
	buf_free(&phrase);
}

static void the_phrase_says_the_same_in_one_line_of_ascii(void **state)
{
	struct refusal r = example();

	(void)state;
	check_phrase(&r, "Refused by policy: rule no-\"deletes\": ask \\ the owner??X: ?? (refusal "
			 "0123456789abcdef)");
	r.rule = r.why = STR("");
	check_phrase(&r, "Refused by policy (refusal 0123456789abcdef)");
}

static void a_phrase_is_of_bounded_length_for_every_reason(void **state)
{
	char text[4096] = "";
	struct refusal r = { .id = "0123456789abcdef", .rule = str_n(text, sizeof(text)),
			     .why = str_n(text, sizeof(text)) };

	(void)state;
	memset(text, 'x', sizeof(text));
	for (r.reason = 0; r.reason < REFUSAL_COUNT; r.reason++) {
		struct buf phrase;

		buf_init(&phrase, REFUSAL_PHRASE_MAX);
		refusal_phrase(&r, &phrase);
		assert_false(phrase.failed);
		assert_true(str_ends(buf_str(&phrase), STR(" (refusal 0123456789abcdef)")));
		buf_free(&phrase);
	}
}

static void grpc_is_told_a_no_apart_from_what_is_not_to_be_had(void **state)
{
	static const struct {
		enum refusal_reason reason;
		const char *status;
	} rows[] = {
		{ REFUSAL_policy, "7" }, { REFUSAL_ambiguous_path, "7" }, { REFUSAL_credential_denied, "7" },
		{ REFUSAL_limit_reached, "14" }, { REFUSAL_log_unavailable, "14" },
		{ REFUSAL_connection_refused, "14" }, { REFUSAL_tls_certificate, "14" },
	};
	struct fields fields;
	struct str value;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct refusal r = { .reason = rows[i].reason, .rule = STR("r"), .why = STR("50% \xc3\xa9") };

		fields_init(&fields, 4096);
		refusal_grpc(&r, &fields);
		assert_true(fields_get(&fields, STR("grpc-status"), &value));
		assert_true(str_eq(value, str_of(rows[i].status)));
		assert_true(fields_get(&fields, STR("grpc-message"), &value));
		assert_non_null(memmem(value.p, value.n, "rule r: 50%25 %C3%A9 (", 22));
		assert_false(fields_failed(&fields));
		fields_free(&fields);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_body_says_what_was_refused_by_which_rule),
		cmocka_unit_test(the_fields_say_that_it_was_exeat),
		cmocka_unit_test(trying_later_comes_with_a_time_and_what_is_unknown_is_left_out),
		cmocka_unit_test(details_are_cut_at_their_limit),
		cmocka_unit_test(the_phrase_says_the_same_in_one_line_of_ascii),
		cmocka_unit_test(a_phrase_is_of_bounded_length_for_every_reason),
		cmocka_unit_test(every_reason_has_a_name_and_a_status),
		cmocka_unit_test(ids_are_16_hex_digits_and_differ),
		cmocka_unit_test(an_origin_cannot_name_exeat),
		cmocka_unit_test(our_own_answer_loses_its_mark_when_an_origin_sends_it),
		cmocka_unit_test(grpc_is_told_a_no_apart_from_what_is_not_to_be_had),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
