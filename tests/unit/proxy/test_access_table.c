#include "tests/unit/proxy/access_rig.h"

#define MINUTE UINT64_C(60000000)

static uint32_t ask(const char *sandbox, const char *url)
{
	return ask_at(sandbox, "GET", url, NOW);
}

static void a_request_is_taken_with_a_number_and_is_on_record(void **state)
{
	const struct access *a;

	(void)state;
	assert_int_equal(ask("dev", "https://api.test/x?y=1"), 1);
	assert_int_equal(ask("dev", "https://api.test/z"), 2);
	a = access_table_find(table, 1);
	assert_non_null(a);
	assert_true(a->open);
	assert_true(str_eq(a->sandbox, STR("dev")));
	assert_true(str_eq(a->method, STR("GET")));
	assert_true(str_eq(a->url, STR("https://api.test/x?y=1")));
	assert_true(str_eq(a->reason, STR("to build it")));
	world_read_log(&world, ROLE_SUPERVISOR);
	assert_int_equal(world.n_lines, 2);
	assert_logged(&world, "\"kind\":\"access_request\"");
	assert_logged(&world, "\"event\":\"asked\"");
	assert_logged(&world, "\"number\":2,\"method\":\"GET\",\"url\":\"https://api.test/z\",\"reason\":\"to build it\"");
}

static void the_same_asked_again_is_the_same_request(void **state)
{
	(void)state;
	assert_int_equal(ask("dev", "https://api.test/x"), 1);
	assert_int_equal(ask("dev", "https://api.test/x"), 1);
	assert_int_equal(ask("other", "https://api.test/x"), 2);
	assert_int_equal(ask_at("dev", "POST", "https://api.test/x", NOW), 3);
	world_read_log(&world, ROLE_SUPERVISOR);
	assert_int_equal(world.n_lines, 3);
}

static void what_no_rule_could_allow_is_not_taken(void **state)
{
	static const struct {
		const char *method, *url;
	} cases[] = {
		{ "", "https://api.test/" }, { "get", "https://api.test/" }, { "G T", "https://api.test/" },
		{ "CONNECT", "https://api.test/" }, { "TRACE", "https://api.test/" },
		{ "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG", "https://api.test/" }, { "GET", "" },
		{ "GET", "api.test" }, { "GET", "ftp://api.test/" }, { "GET", "https://api.test/a b" },
		{ "GET", "https://api.test/\x1b" }, { "GET", "https://u@api.test/" }, { "GET", "https:///x" },
		{ "GET", "https://api.test/\n- id: x" }, { "GET", "https://b\xc3\xbc" "cher.test/" },
	};
	struct msg_access m = { .method = STR("GET"), .url = STR("https://api.test/"), .reason = STR("a\nb") };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (ask_at("dev", cases[i].method, cases[i].url, NOW))
			fail_msg("is taken: %s %s", cases[i].method, cases[i].url);
	access_table_ask(table, world.ring, STR("dev"), &m, NOW, &answer);
	assert_int_equal(answer.number, 0);
	world_read_log(&world, ROLE_SUPERVISOR);
	assert_int_equal(world.n_lines, 0);
	assert_null(access_table_next(table, NULL));
}

static uint32_t ask_number(const char *sandbox, unsigned i, uint64_t now)
{
	char url[64];

	snprintf(url, sizeof(url), "https://api.test/%u", i);
	return ask_at(sandbox, "GET", url, now);
}

static void a_sandbox_asks_so_often_a_minute_and_its_neighbour_does_not_feel_it(void **state)
{
	(void)state;
	for (unsigned i = 0; i < ACCESS_PER_MINUTE; i++)
		assert_true(ask_number("dev", i, NOW) != 0);
	assert_int_equal(ask_number("dev", ACCESS_PER_MINUTE, NOW + MINUTE - 1), 0);
	assert_true(str_eq(answer.why, STR("too many requests in a minute")));
	assert_true(ask_number("other", 0, NOW) != 0);
	assert_true(ask_number("dev", ACCESS_PER_MINUTE, NOW + MINUTE) != 0);
}

static void a_sandbox_has_so_many_open(void **state)
{
	uint64_t now = NOW;

	(void)state;
	for (unsigned i = 0; i < ACCESS_SANDBOX_MAX; i++, now += MINUTE)
		assert_true(ask_number("dev", i, now) != 0);
	assert_int_equal(ask_number("dev", ACCESS_SANDBOX_MAX, now), 0);
	assert_int_equal(access_table_close(table, world.ring, 1, STR_NONE, now), OK);
	assert_true(ask_number("dev", ACCESS_SANDBOX_MAX, now) != 0);
}

/* Full of open ones, each of another sandbox. */
static void fill(uint64_t now)
{
	char name[32];

	for (unsigned i = 0; i < ACCESS_MAX; i++) {
		snprintf(name, sizeof(name), "s%u", i);
		assert_int_equal(ask_number(name, 0, now), i + 1);
		world.n_lines = 0;
		world_read_log(&world, ROLE_SUPERVISOR);
	}
}

static void a_full_table_gives_up_the_oldest_closed_one_first(void **state)
{
	(void)state;
	fill(NOW);
	assert_int_equal(ask("late", "https://api.test/"), 0);
	assert_true(str_eq(answer.why, STR("too many requests wait for an answer")));
	assert_int_equal(access_table_close(table, world.ring, 7, STR_NONE, NOW), OK);
	assert_int_equal(access_table_close(table, world.ring, ACCESS_MAX, STR_NONE, NOW), OK);
	assert_int_equal(ask("late", "https://api.test/"), ACCESS_MAX + 1);
	assert_null(access_table_find(table, 7));
	assert_non_null(access_table_find(table, 1));
	assert_int_equal(ask("later", "https://api.test/"), ACCESS_MAX + 2);
	assert_null(access_table_find(table, ACCESS_MAX));
	assert_int_equal(ask("latest", "https://api.test/"), 0);
}

static void one_that_nobody_has_looked_at_for_long_gives_way(void **state)
{
	uint64_t stale = NOW + ACCESS_STALE_DAYS * 24 * 60 * MINUTE;

	(void)state;
	fill(NOW);
	assert_int_equal(ask_number("late", 0, stale - 1), 0);
	assert_int_equal(ask_number("late", 0, stale), ACCESS_MAX + 1);
	assert_null(access_table_find(table, 1));
	assert_non_null(access_table_find(table, 2));
}

static void one_is_closed_once_with_a_note_and_on_record(void **state)
{
	char note[2 * ACCESS_NOTE_MAX];

	(void)state;
	memset(note, 'n', sizeof(note));
	assert_int_equal(ask("dev", "https://api.test/x"), 1);
	assert_int_equal(access_table_close(table, world.ring, 2, STR_NONE, NOW), ERR_NOTFOUND);
	assert_int_equal(access_table_close(table, world.ring, 1, STR("see github-read"), NOW + 1), OK);
	assert_false(access_table_find(table, 1)->open);
	assert_true(str_eq(access_table_find(table, 1)->note, STR("see github-read")));
	assert_int_equal(access_table_close(table, world.ring, 1, STR_NONE, NOW), ERR_NOTFOUND);
	world_read_log(&world, ROLE_SUPERVISOR);
	assert_logged(&world, "\"event\":\"closed\"");
	assert_logged(&world, "\"note\":\"see github-read\"");
	assert_int_equal(ask("dev", "https://api.test/x"), 2);
	assert_int_equal(access_table_close(table, world.ring, 2, str_n(note, sizeof(note)), NOW), OK);
	assert_int_equal(access_table_find(table, 2)->note.n, ACCESS_NOTE_MAX);
}

static void what_cannot_be_recorded_is_neither_taken_nor_closed(void **state)
{
	struct record r;

	(void)state;
	assert_int_equal(ask("dev", "https://api.test/x"), 1);
	do {
		record_begin(&r, RECORD_stop);
		record_str(&r, REC_ended, STR("full"));
	} while (record_commit(&r, world.ring) == OK);
	assert_int_equal(ask("dev", "https://api.test/y"), 0);
	assert_true(str_eq(answer.why, STR("the audit log cannot be written")));
	assert_int_not_equal(access_table_close(table, world.ring, 1, STR_NONE, NOW), OK);
	assert_true(access_table_find(table, 1)->open);
}

static void all_are_walked_in_order(void **state)
{
	const struct access *a = NULL;

	(void)state;
	assert_null(access_table_next(table, NULL));
	ask("a", "https://api.test/");
	ask("b", "https://api.test/");
	for (uint32_t i = 1; i <= 2; i++) {
		a = access_table_next(table, a);
		assert_non_null(a);
		assert_int_equal(a->number, i);
	}
	assert_null(access_table_next(table, a));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, access_setup, access_teardown)
	const struct CMUnitTest tests[] = {
		CASE(a_request_is_taken_with_a_number_and_is_on_record),
		CASE(the_same_asked_again_is_the_same_request),
		CASE(what_no_rule_could_allow_is_not_taken),
		CASE(a_sandbox_asks_so_often_a_minute_and_its_neighbour_does_not_feel_it),
		CASE(a_sandbox_has_so_many_open),
		CASE(a_full_table_gives_up_the_oldest_closed_one_first),
		CASE(one_that_nobody_has_looked_at_for_long_gives_way),
		CASE(one_is_closed_once_with_a_note_and_on_record),
		CASE(what_cannot_be_recorded_is_neither_taken_nor_closed),
		CASE(all_are_walked_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
