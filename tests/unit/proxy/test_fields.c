#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proxy/fields.h"

static void add(struct fields *f, const char *name, const char *value)
{
	fields_add(f, str_of(name), str_of(value));
}

/* "name=value;" of each, in order */
static void check(const struct fields *f, const char *want)
{
	struct buf out;

	buf_init(&out, 4096);
	for (size_t i = 0; i < f->n; i++) {
		buf_put_str(&out, fields_name(f, i));
		buf_put_c(&out, '=');
		buf_put_str(&out, fields_value(f, i));
		buf_put_c(&out, ';');
	}
	buf_put_c(&out, '\0');
	assert_string_equal(out.p, want);
	buf_free(&out);
}

static void fields_keep_order_and_spelling_and_are_found_in_any_case(void **state)
{
	struct fields f;
	struct str value;

	(void)state;
	fields_init(&f, 1024);
	add(&f, "Host", "a");
	add(&f, "X-Two", "1");
	add(&f, "x-two", "2");
	add(&f, "Empty", "");
	check(&f, "Host=a;X-Two=1;x-two=2;Empty=;");
	assert_true(fields_get(&f, STR("HOST"), &value));
	assert_true(str_eq(value, STR("a")));
	assert_int_equal(fields_find(&f, STR("X-TWO"), 0), 1);
	assert_int_equal(fields_find(&f, STR("X-TWO"), 2), 2);
	assert_int_equal(fields_find(&f, STR("X-TWO"), 3), f.n);
	assert_false(fields_get(&f, STR("none"), &value));
	assert_int_equal(fields_remove(&f, STR("x-TWO")), 2);
	assert_int_equal(fields_remove(&f, STR("x-TWO")), 0);
	check(&f, "Host=a;Empty=;");
	fields_value_mut(&f, 0)[0] = 'b';
	check(&f, "Host=b;Empty=;");
	fields_clear(&f);
	check(&f, "");
	fields_wipe(&f);
}

static void a_field_too_many_or_over_the_bytes_or_without_a_name_fails_the_list(void **state)
{
	struct fields f;

	(void)state;
	fields_init(&f, 4096);
	for (size_t i = 0; i < FIELDS_MAX; i++)
		add(&f, "a", "b");
	assert_false(fields_failed(&f));
	add(&f, "a", "b");
	assert_true(fields_failed(&f));
	assert_int_equal(f.n, FIELDS_MAX);
	fields_clear(&f);
	assert_false(fields_failed(&f));
	add(&f, "", "b");
	assert_true(fields_failed(&f));
	fields_free(&f);

	fields_init(&f, 4);
	add(&f, "ab", "cd");
	assert_false(fields_failed(&f));
	add(&f, "a", "");
	assert_true(fields_failed(&f));
	check(&f, "ab=cd;");
	fields_free(&f);
}

static void tokens_are_found_in_all_lines_of_a_list(void **state)
{
	const struct str name = STR("connection");
	struct fields f;

	(void)state;
	fields_init(&f, 1024);
	add(&f, "Connection", "foo,\tClose ");
	add(&f, "connection", ", bar");
	assert_true(fields_has_token(&f, name, STR("close")));
	assert_true(fields_has_token(&f, name, STR("BAR")));
	assert_true(fields_has_token(&f, name, STR("foo")));
	assert_false(fields_has_token(&f, name, STR("fo")));
	assert_false(fields_has_token(&f, STR("te"), STR("foo")));
	fields_free(&f);
}

static void hop_by_hop_fields_and_what_connection_names_are_dropped(void **state)
{
	struct fields f;

	(void)state;
	fields_init(&f, 4096);
	add(&f, "Host", "a");
	add(&f, "X-Secret-Hop", "1");
	add(&f, "Connection", "keep-alive, X-Secret-Hop");
	add(&f, "connection", "Other");
	add(&f, "Keep-Alive", "timeout=5");
	add(&f, "Proxy-Authorization", "Basic x");
	add(&f, "Proxy-Connection", "close");
	add(&f, "Proxy-Status", "cdn");
	add(&f, "Transfer-Encoding", "chunked");
	add(&f, "Upgrade", "h2c");
	add(&f, "HTTP2-Settings", "AAA");
	add(&f, "Other", "1");
	add(&f, "TE", "gzip");
	add(&f, "Trailer", "X");
	fields_drop_hop_by_hop(&f);
	check(&f, "Host=a;Proxy-Status=cdn;Trailer=X;");
	fields_free(&f);
}

static void connection_cannot_take_off_what_is_meant_for_the_far_end(void **state)
{
	struct fields f;

	(void)state;
	fields_init(&f, 4096);
	add(&f, "Host", "a");
	add(&f, "Content-Length", "5");
	add(&f, "Authorization", "x");
	add(&f, "Connection", "host, content-length, authorization, connection, close,, ");
	fields_drop_hop_by_hop(&f);
	check(&f, "Host=a;Content-Length=5;Authorization=x;");
	fields_free(&f);
}

static void te_trailers_stays(void **state)
{
	struct fields f;

	(void)state;
	fields_init(&f, 4096);
	add(&f, "TE", "gzip;q=0.5, Trailers");
	add(&f, "Connection", "TE");
	fields_drop_hop_by_hop(&f);
	check(&f, "te=trailers;");
	fields_free(&f);
}

static void classes_are_those_of_the_grammar(void **state)
{
	(void)state;
	for (unsigned c = 0; c < 256; c++) {
		bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
		bool token = alnum || (c && c < 128 && strchr("!#$%&'*+-.^_`|~", (int)c));
		bool value = c == '\t' || (c >= 0x20 && c != 0x7f);
		bool target = c > 0x20 && c < 0x7f;

		assert_int_equal(http_class[c], (token ? HTTP_TOKEN : 0) | (value ? HTTP_VALUE : 0) |
						(target ? HTTP_TARGET : 0));
	}
	assert_false(http_is_token(STR("")));
}

/* Each byte at each place of a run that is read in steps of eight. */
static void a_value_is_checked_at_every_place(void **state)
{
	char run[19];

	(void)state;
	for (size_t at = 0; at < sizeof(run); at++)
		for (unsigned c = 0; c < 256; c++) {
			memset(run, at % 2 ? '\xff' : ' ', sizeof(run));
			run[at] = (char)c;
			assert_int_equal(http_is_value(str_n(run, sizeof(run))),
					 (http_class[c] & HTTP_VALUE) != 0);
		}
	memcpy(run, "\t\t\t\t\0\t\t\t", 8);
	assert_false(http_is_value(str_n(run, sizeof(run))));
	assert_true(http_is_value(STR("")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_keep_order_and_spelling_and_are_found_in_any_case),
		cmocka_unit_test(a_field_too_many_or_over_the_bytes_or_without_a_name_fails_the_list),
		cmocka_unit_test(tokens_are_found_in_all_lines_of_a_list),
		cmocka_unit_test(hop_by_hop_fields_and_what_connection_names_are_dropped),
		cmocka_unit_test(connection_cannot_take_off_what_is_meant_for_the_far_end),
		cmocka_unit_test(te_trailers_stays),
		cmocka_unit_test(a_value_is_checked_at_every_place),
		cmocka_unit_test(classes_are_those_of_the_grammar),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
