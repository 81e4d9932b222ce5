#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/log_query.h"
#include "proxy/log_summary.h"

#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"

static void add(struct log_summary *s, const char *kind, const char *members)
{
	struct log_query all = { 0 };
	char line[1024];
	json_t *object;

	snprintf(line, sizeof(line), "{\"seq\":1,\"prev\":\"" ZEROS "\",\"time\":\"2026-01-31T12:00:00.000000Z\","
		 "\"kind\":\"%s\",%s}", kind, members);
	object = log_query_match(&all, str_of(line));
	assert_non_null(object);
	assert_int_equal(log_summary_add(s, str_of(line), object), OK);
	json_decref(object);
}

static char *print(struct log_summary *s, size_t top, bool json)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);

	assert_int_equal(log_summary_print(s, top, json, f), OK);
	fclose(f);
	log_summary_free(s);
	return text;
}

static json_int_t number(const json_t *o, const char *subject, const char *name, const char *key)
{
	size_t i;
	json_t *row;

	json_array_foreach(json_object_get(o, subject), i, row)
		if (strcmp(json_string_value(json_object_get(row, "name")), name) == 0)
			return json_integer_value(json_object_get(row, key));
	return -1;
}

static void requests_refusals_and_credentials_are_counted(void **state)
{
	struct log_summary *s = log_summary_new();
	json_t *o;
	char *text;

	(void)state;
	add(s, "request", "\"phase\":\"begin\",\"sandbox\":\"a\",\"verdict\":\"allow\",\"host\":\"x.test\"");
	add(s, "request", "\"phase\":\"end\",\"sandbox\":\"a\",\"verdict\":\"allow\",\"host\":\"x.test\","
			  "\"credential\":\"gh\",\"bytes_up\":3,\"bytes_down\":5");
	add(s, "request", "\"phase\":\"end\",\"sandbox\":\"a\",\"verdict\":\"deny\",\"rule\":\"no\",\"host\":\"x.test\"");
	add(s, "connect", "\"sandbox\":\"b\",\"verdict\":\"deny\",\"destination\":\"10.0.0.1\",\"count\":40");
	add(s, "dns", "\"sandbox\":\"b\",\"verdict\":\"allow\",\"name\":\"x.test\"");
	add(s, "credential", "\"event\":\"granted\",\"credential\":\"gh\"");
	add(s, "credential", "\"event\":\"failed\",\"credential\":\"gh\"");
	text = print(s, 10, true);
	o = json_loads(text, 0, NULL);
	assert_non_null(o);
	assert_int_equal(json_integer_value(json_object_get(o, "lines")), 7);
	assert_int_equal(number(o, "hosts", "x.test", "requests"), 1);
	assert_int_equal(number(o, "hosts", "x.test", "refused"), 1);
	assert_int_equal(number(o, "hosts", "x.test", "bytes_up"), 3);
	assert_int_equal(number(o, "hosts", "10.0.0.1", "refused"), 40);
	assert_int_equal(number(o, "refusals", "no", "refused"), 1);
	assert_int_equal(number(o, "refusals", "(no rule)", "refused"), 40);
	assert_int_equal(number(o, "credentials", "gh", "used"), 1);
	assert_int_equal(number(o, "credentials", "gh", "refused"), 1);
	assert_int_equal(number(o, "sandboxes", "b", "refused"), 40);
	json_decref(o);
	free(text);
}

static void connections_that_were_not_opened_count_as_requests(void **state)
{
	struct log_summary *s = log_summary_new();
	json_t *o;
	char *text;

	(void)state;
	add(s, "connection", "\"phase\":\"open\",\"verdict\":\"allow\",\"destination\":\"x.test\",\"protocol\":\"tcp\"");
	add(s, "connection", "\"phase\":\"close\",\"verdict\":\"allow\",\"destination\":\"x.test\",\"protocol\":\"tcp\","
			     "\"bytes_up\":3,\"bytes_down\":5");
	add(s, "connection", "\"phase\":\"close\",\"verdict\":\"allow\",\"destination\":\"x.test\",\"protocol\":\"https\","
			     "\"tls\":\"passthrough\",\"bytes_up\":10");
	add(s, "connection", "\"phase\":\"close\",\"verdict\":\"deny\",\"destination\":\"x.test\",\"protocol\":\"tcp\","
			     "\"rule\":\"db\",\"reason\":\"limit-reached: upload of 100 bytes\",\"bytes_up\":100");
	add(s, "connection", "\"phase\":\"close\",\"verdict\":\"allow\",\"destination\":\"x.test\",\"protocol\":\"https\","
			     "\"tls\":\"TLSv1.3\",\"bytes_up\":1000");
	text = print(s, 10, true);
	o = json_loads(text, 0, NULL);
	assert_non_null(o);
	assert_int_equal(number(o, "hosts", "x.test", "requests"), 2);
	assert_int_equal(number(o, "hosts", "x.test", "refused"), 1);
	assert_int_equal(number(o, "hosts", "x.test", "bytes_up"), 113);
	assert_int_equal(number(o, "hosts", "x.test", "bytes_down"), 5);
	json_decref(o);
	free(text);
}

static void what_a_box_has_said_cannot_drive_a_terminal(void **state)
{
	struct log_summary *s = log_summary_new();
	char *text;

	(void)state;
	add(s, "request", "\"verdict\":\"deny\",\"host\":\"\\u001b]0;x\\u0007\\u202e\",\"rule\":\"\\u009b31m\"");
	text = print(s, 10, false);
	for (const char *p = text; *p; p++)
		assert_true(*p == '\n' || ((unsigned char)*p >= 0x20 && (unsigned char)*p < 0x7f));
	assert_non_null(strstr(text, "\\u001b"));
	free(text);
	s = log_summary_new();
	add(s, "request", "\"verdict\":\"deny\",\"host\":\"\\u001b\\u0007\\u202e\"");
	text = print(s, 10, true);
	for (const char *p = text; *p; p++)
		assert_true(*p == '\n' || ((unsigned char)*p >= 0x20 && (unsigned char)*p < 0x7f));
	free(text);
}

static void the_largest_come_first_and_so_many_as_are_asked_for(void **state)
{
	struct log_summary *s = log_summary_new();
	json_t *o, *hosts;
	char *text, members[128];

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		snprintf(members, sizeof(members), "\"verdict\":\"deny\",\"name\":\"%u.test\",\"count\":%u", i, i + 1);
		add(s, "dns", members);
	}
	text = print(s, 3, true);
	o = json_loads(text, 0, NULL);
	hosts = json_object_get(o, "hosts");
	assert_int_equal(json_array_size(hosts), 3);
	assert_string_equal(json_string_value(json_object_get(json_array_get(hosts, 0), "name")), "19.test");
	assert_string_equal(json_string_value(json_object_get(json_array_get(hosts, 2), "name")), "17.test");
	json_decref(o);
	free(text);
}

static void names_beyond_the_limit_are_counted_together(void **state)
{
	struct log_summary *s = log_summary_new();
	json_t *o;
	char *text, members[128];

	(void)state;
	for (unsigned i = 0; i < SUMMARY_ROWS_MAX + 5; i++) {
		snprintf(members, sizeof(members), "\"verdict\":\"deny\",\"name\":\"%u.test\"", i);
		add(s, "dns", members);
	}
	add(s, "dns", "\"verdict\":\"deny\",\"name\":\"0.test\",\"count\":9223372036854775807");
	add(s, "dns", "\"verdict\":\"deny\",\"name\":\"0.test\",\"count\":9223372036854775807");
	add(s, "dns", "\"verdict\":\"deny\",\"name\":\"0.test\",\"count\":-5");
	text = print(s, 1, true);
	o = json_loads(text, 0, NULL);
	assert_int_equal(number(o, "hosts", "0.test", "refused"), INT64_MAX);
	assert_non_null(strstr(text, "\"name\":\"(others)\",\"requests\":0,\"refused\":5"));
	json_decref(o);
	free(text);
}

static void an_empty_log_has_a_summary(void **state)
{
	char *text = print(log_summary_new(), 10, false);

	(void)state;
	assert_string_equal(text, "0 lines\n0 requests, 0 refusals, 0 bytes up, 0 down\n");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_refusals_and_credentials_are_counted),
		cmocka_unit_test(connections_that_were_not_opened_count_as_requests),
		cmocka_unit_test(what_a_box_has_said_cannot_drive_a_terminal),
		cmocka_unit_test(the_largest_come_first_and_so_many_as_are_asked_for),
		cmocka_unit_test(names_beyond_the_limit_are_counted_together),
		cmocka_unit_test(an_empty_log_has_a_summary),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
