#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proxy/refusal_list.h"

static struct refusal_list *list;
static char told[1u << 20];

static int setup(void **state)
{
	(void)state;
	list = refusal_list_new();
	return list ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	refusal_list_free(list);
	return 0;
}

static const char *json(void)
{
	struct buf out;
	struct json j;

	buf_init(&out, sizeof(told) - 1);
	json_init(&j, &out);
	refusal_list_json(list, &j);
	assert_false(out.failed);
	snprintf(told, sizeof(told), "%.*s", STR_ARG(buf_str(&out)));
	buf_free(&out);
	return told;
}

static const char *text(void)
{
	struct buf out;

	buf_init(&out, sizeof(told) - 1);
	refusal_list_text(list, &out);
	assert_false(out.failed);
	snprintf(told, sizeof(told), "%.*s", STR_ARG(buf_str(&out)));
	buf_free(&out);
	return told;
}

static size_t times(const char *all, const char *part)
{
	size_t n = 0;

	for (; (all = strstr(all, part)); all++)
		n++;
	return n;
}

static void note(const char *id, const char *host, const char *path)
{
	struct refusal_note n = { .step = REFUSED_HTTP, .id = id, .host = str_of(host), .port = 443,
				  .method = STR("GET"), .path = str_of(path), .rule = STR("no-gists"),
				  .reason = STR("Ask first."), .retry = "ask" };

	refusal_list_note(list, &n);
}

static void an_empty_list_says_so(void **state)
{
	(void)state;
	assert_string_equal(json(), "[]");
	assert_string_equal(text(), "Nothing was refused so far.\n");
}

static void the_newest_stands_first_with_all_that_is_known(void **state)
{
	const char *a, *b;

	(void)state;
	note("0000000000000001", "a.test", "/1");
	note("0000000000000002", "b.test", "/2");
	a = strstr(json(), "\"host\":\"a.test\"");
	b = strstr(told, "\"host\":\"b.test\"");
	assert_true(a && b && b < a);
	assert_non_null(strstr(told, "\"count\":1,\"step\":\"http\",\"host\":\"b.test\",\"port\":443,\"method\":\"GET\","
			       "\"path\":\"/2\",\"rule\":\"no-gists\",\"reason\":\"Ask first.\",\"retry\":\"ask\"}"));
	assert_non_null(strstr(told, "{\"id\":\"0000000000000002\",\"time\":\"2"));
	assert_non_null(strstr(text(), "http  GET b.test port 443 /2\n    rule no-gists: Ask first.\n"
			       "    refusal 0000000000000002, 1 time, retry: ask\n"));
}

static void what_is_like_another_is_counted_and_comes_first(void **state)
{
	(void)state;
	note("0000000000000001", "a.test", "/1");
	note("0000000000000002", "b.test", "/2");
	note("0000000000000003", "a.test", "/1");
	assert_int_equal(times(json(), "\"id\":"), 2);
	assert_non_null(strstr(told, "[{\"id\":\"0000000000000003\""));
	assert_non_null(strstr(told, "\"count\":2,\"step\":\"http\",\"host\":\"a.test\""));
	assert_null(strstr(told, "0000000000000001"));
}

static void no_text_runs_into_the_next(void **state)
{
	(void)state;
	note("0000000000000001", "a.test", "/1");
	note("0000000000000002", "a.tes", "t/1");
	assert_int_equal(times(json(), "\"id\":"), 2);
}

static void names_that_nobody_means_are_one_entry_with_the_newest_name(void **state)
{
	struct refusal_note n = { .step = REFUSED_DNS, .id = "0000000000000001", .host = STR("x.local"),
				  .reason = STR("a search list's"), .retry = "never", .any_host = true };

	(void)state;
	refusal_list_note(list, &n);
	n.host = STR("a.much.longer.name.local");
	n.id = "0000000000000002";
	refusal_list_note(list, &n);
	assert_int_equal(times(json(), "\"id\":"), 1);
	assert_non_null(strstr(told, "\"count\":2,\"step\":\"dns\",\"host\":\"a.much.longer.name.local\""));
}

static void past_the_limit_the_oldest_is_dropped(void **state)
{
	char host[32];

	(void)state;
	for (unsigned i = 0; i < REFUSAL_LIST_MAX + 5; i++) {
		snprintf(host, sizeof(host), "h%u.test", i);
		note("0000000000000001", host, "/");
	}
	assert_int_equal(times(json(), "\"id\":"), REFUSAL_LIST_MAX);
	assert_null(strstr(told, "\"h4.test\""));
	assert_non_null(strstr(told, "\"h5.test\""));
}

static void long_texts_are_cut_and_hostile_bytes_escaped(void **state)
{
	char path[2 * REFUSAL_LIST_TEXT_MAX];

	(void)state;
	memset(path, '\x1b', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	note("0000000000000001", "a\nb\x9b", path);
	assert_int_equal(times(json(), "\\u001b"), REFUSAL_LIST_TEXT_MAX);
	assert_null(strchr(told, '\x1b'));
	assert_int_equal(times(text(), "\\u001b"), REFUSAL_LIST_TEXT_MAX);
	assert_null(strchr(told, '\x1b'));
	assert_null(strchr(told, '\x9b'));
	assert_int_equal(times(told, "\n"), 3);
}

static void no_list_takes_nothing(void **state)
{
	struct refusal_list *kept = list;

	(void)state;
	list = NULL;
	note("0000000000000001", "a.test", "/");
	assert_string_equal(json(), "[]");
	list = kept;
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(an_empty_list_says_so),
		CASE(the_newest_stands_first_with_all_that_is_known),
		CASE(what_is_like_another_is_counted_and_comes_first),
		CASE(no_text_runs_into_the_next),
		CASE(names_that_nobody_means_are_one_entry_with_the_newest_name),
		CASE(past_the_limit_the_oldest_is_dropped),
		CASE(long_texts_are_cut_and_hostile_bytes_escaped),
		CASE(no_list_takes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
