#include "tests/unit/policy/make_policy.h"
#include "tests/unit/proxy/names_world.h"

#include "proxy/tally.h"

static struct world world;
static struct tally *tally;
static struct policy *policy;
static struct {
	unsigned calls;
	uint64_t count, suppressed;
	char id[17];
	bool refuse;
} told;

static const struct decision by_default = { VERDICT_DENY, { 0, UINT32_MAX } };

static bool on_line(void *arg, const struct tally_line *line, uint64_t suppressed)
{
	(void)arg;
	told.calls++;
	if (told.refuse)
		return false;
	told.suppressed += suppressed;
	if (line) {
		told.count += line->count;
		memcpy(told.id, line->id, sizeof(told.id));
	}
	return true;
}

static int setup(void **state)
{
	(void)state;
	memset(&told, 0, sizeof(told));
	world_open(&world);
	tally = tally_new(world.base, &policy, on_line, NULL);
	return tally ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	tally_free(tally);
	world_close(&world);
	return 0;
}

static enum tally_result note(const char *key, const char *id)
{
	const struct tally_line *line = NULL;
	char copy[17];

	snprintf(copy, sizeof(copy), "%s", id);
	return tally_note(tally, str_of(key), by_default, copy, &line);
}

static void the_first_is_a_line_and_what_repeats_it_is_a_number(void **state)
{
	(void)state;
	assert_int_equal(note("a", "first"), TALLY_FIRST);
	assert_int_equal(note("a", "second"), TALLY_COUNTED);
	assert_int_equal(note("a", "third"), TALLY_COUNTED);
	assert_int_equal(note("b", "other"), TALLY_FIRST);
	WAIT_UNTIL(&world, told.calls > 0);
	assert_int_equal(told.calls, 1);
	assert_int_equal(told.count, 2);
	assert_string_equal(told.id, "first");
}

static void a_kind_that_stays_quiet_is_forgotten(void **state)
{
	(void)state;
	assert_int_equal(note("a", "first"), TALLY_FIRST);
	assert_int_equal(note("b", "x"), TALLY_FIRST);
	assert_int_equal(note("b", "y"), TALLY_COUNTED);
	WAIT_UNTIL(&world, told.calls == 1);
	assert_int_equal(note("a", "later"), TALLY_FIRST);
	assert_int_equal(note("b", "z"), TALLY_COUNTED);
}

static void what_the_log_does_not_take_is_told_later(void **state)
{
	(void)state;
	note("a", "first");
	note("a", "second");
	told.refuse = true;
	WAIT_UNTIL(&world, told.calls == 1);
	told.refuse = false;
	note("a", "third");
	WAIT_UNTIL(&world, told.calls == 2);
	assert_int_equal(told.count, 2);
}

static void past_the_limit_refusals_are_counted_together(void **state)
{
	char key[32];

	(void)state;
	for (unsigned i = 0; i < TALLY_MAX; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		assert_int_equal(note(key, "x"), TALLY_FIRST);
	}
	assert_int_equal(note("one-more", "x"), TALLY_NO_ROOM);
	assert_int_equal(note("k0", "x"), TALLY_COUNTED);
	tally_flush(tally);
	assert_int_equal(told.suppressed, 1);
	assert_int_equal(told.count, 1);
}

static void a_line_that_could_not_be_written_is_dropped_or_told_later(void **state)
{
	(void)state;
	assert_int_equal(note("a", "x"), TALLY_FIRST);
	tally_drop(tally, STR("a"));
	assert_int_equal(note("a", "y"), TALLY_FIRST);
	tally_retry(tally, STR("a"));
	tally_flush(tally);
	assert_int_equal(told.count, 1);
	assert_string_equal(told.id, "y");
}

static const struct test_rule rules[] = { { .id = "api", .hosts = { LIST("api.test") } } };

static void what_repeats_under_another_policy_is_of_another_kind(void **state)
{
	(void)state;
	policy = MAKE_POLICY(rules);
	assert_int_equal(note("a", "first"), TALLY_FIRST);
	assert_int_equal(note("a", "second"), TALLY_COUNTED);
	policy_free(policy);	/* the line still holds it */
	policy = MAKE_POLICY(rules);
	assert_int_equal(note("a", "third"), TALLY_FIRST);
	tally_flush(tally);
	assert_int_equal(told.count, 1);
	assert_string_equal(told.id, "first");
	policy_free(policy);
	policy = NULL;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(the_first_is_a_line_and_what_repeats_it_is_a_number),
		CASE(a_kind_that_stays_quiet_is_forgotten),
		CASE(what_the_log_does_not_take_is_told_later),
		CASE(past_the_limit_refusals_are_counted_together),
		CASE(a_line_that_could_not_be_written_is_dropped_or_told_later),
		CASE(what_repeats_under_another_policy_is_of_another_kind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
