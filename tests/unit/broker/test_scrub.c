#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "broker/scrub.h"

#define TEXT_MAX (1u << 20)

struct sample {
	const char *what;
	const char *patterns[4];
	const char *in, *out;
	size_t count;
};

static const struct sample samples[] = {
	{ "nothing to find", { "s3cret-token" }, "an ordinary answer", "an ordinary answer", 0 },
	{ "alone", { "s3cret-token" }, "s3cret-token", "[exeat:p0]**", 1 },
	{ "amid text", { "s3cret-token" }, "{\"a\":\"s3cret-token\"}", "{\"a\":\"[exeat:p0]**\"}", 1 },
	{ "twice in a row", { "s3cret-token" }, "s3cret-tokens3cret-token",
	  "[exeat:p0]**[exeat:p0]**", 2 },
	{ "label is cut", { "12345678" }, "=12345678=", "=[exeat:p=", 1 },
	{ "beginning again inside a beginning", { "aabaabaac" }, "aabaabaabaac", "aab[exeat:p0", 1 },
	{ "false start", { "s3cret-token" }, "s3cret-s3cret-tokes3cret-token!",
	  "s3cret-s3cret-toke[exeat:p0]**!", 1 },
	{ "ends in a beginning", { "s3cret-token" }, "tail s3cret-toke", "tail s3cret-toke", 0 },
	{ "a pattern overlaps itself", { "abababab" }, "xababababababx", "x[exeat:p****x", 1 },
	{ "two patterns overlap", { "12345678", "5678abcd" }, "<12345678abcd>", "<[exeat:p****>", 1 },
	{ "one is a prefix of the other", { "12345678", "1234567890" }, "(1234567890)(12345678)",
	  "([exeat:p**)([exeat:p)", 2 },
	{ "one is a suffix of the other", { "12345678", "ab12345678" }, "(ab12345678)(12345678)",
	  "([exeat:p1])([exeat:p)", 2 },
	{ "one is inside the other", { "12345678", "ab12345678cd" }, "ab12345678cd", "[exeat:p1]**", 1 },
	{ "inside, and the outer one does not come", { "12345678", "ab12345678cd" }, "ab12345678ce",
	  "ab[exeat:pce", 1 },
	{ "three chained", { "abcd1234", "1234efgh", "efgh5678" }, "abcd1234efgh5678",
	  "[exeat:p********", 1 },
	{ "the same pattern twice", { "12345678", "12345678" }, "x12345678", "x[exeat:p", 1 },
	{ "all one byte", { "aaaaaaab", "aaaa" }, "aaaaaaaaab", "[exe******", 1 },
	{ "longest of many that end together", { "5678", "345678", "12345678" }, "12345678", "[exeat:p", 1 },
};

#define N_SAMPLES (sizeof(samples) / sizeof(samples[0]))

static struct scrub *scrub_for(const struct sample *c)
{
	static const struct str names[4] = { { "p0", 2 }, { "p1", 2 }, { "p2", 2 }, { "p3", 2 } };
	struct str patterns[4];
	struct scrub *s = NULL;
	size_t n = 0;

	for (; n < 4 && c->patterns[n]; n++)
		patterns[n] = str_of(c->patterns[n]);
	assert_int_equal(scrub_new(patterns, names, n, &s), OK);
	return s;
}

static void assert_out(const struct sample *c, const struct scrub *s, struct buf *out, size_t before)
{
	if (!str_eq(buf_str(out), str_of(c->out)))
		fail_msg("%s: got \"%.*s\", want \"%s\"", c->what, (int)out->n, out->p, c->out);
	if (scrub_count(s) - before != c->count)
		fail_msg("%s: counted %zu", c->what, scrub_count(s) - before);
	buf_drop(out, out->n);
}

static void every_case_comes_out_right_at_every_split_in_three(void **state)
{
	(void)state;
	for (size_t k = 0; k < N_SAMPLES; k++) {
		const struct sample *c = &samples[k];
		struct str in = str_of(c->in);
		struct scrub *s = scrub_for(c);
		struct buf out;

		buf_init(&out, TEXT_MAX);
		for (size_t i = 0; i <= in.n; i++) {
			for (size_t j = i; j <= in.n; j++) {
				size_t before = scrub_count(s);

				scrub_feed(s, str_n(in.p, i), &out);
				scrub_feed(s, str_n(in.p + i, j - i), &out);
				scrub_feed(s, str_from(in, j), &out);
				scrub_finish(s, &out);
				assert_out(c, s, &out, before);
			}
		}
		buf_free(&out);
		scrub_free(s);
	}
}

static void every_case_comes_out_right_byte_by_byte_and_in_place(void **state)
{
	(void)state;
	for (size_t k = 0; k < N_SAMPLES; k++) {
		const struct sample *c = &samples[k];
		struct str in = str_of(c->in);
		struct scrub *s = scrub_for(c);
		char *copy = strdup(c->in);
		struct buf out;

		buf_init(&out, TEXT_MAX);
		for (size_t i = 0; i < in.n; i++)
			scrub_feed(s, str_n(in.p + i, 1), &out);
		scrub_finish(s, &out);
		assert_out(c, s, &out, 0);
		assert_int_equal(scrub_text(s, copy, in.n), c->count);
		assert_string_equal(copy, c->out);
		assert_int_equal(scrub_count(s), 2 * c->count);
		buf_free(&out);
		scrub_free(s);
		free(copy);
	}
}

static void no_more_is_held_back_than_what_may_be_a_beginning(void **state)
{
	const struct sample c = { "", { "s3cret-token" }, "", "", 0 };
	struct scrub *s = scrub_for(&c);
	struct buf out;

	(void)state;
	buf_init(&out, TEXT_MAX);
	scrub_feed(s, STR("data: one\n\n"), &out);
	assert_int_equal(out.n, 11);
	scrub_feed(s, STR("s3cret-toke"), &out);
	assert_int_equal(out.n, 11);
	scrub_feed(s, STR("r"), &out);
	assert_true(str_eq(buf_str(&out), STR("data: one\n\ns3cret-toker")));
	scrub_feed(s, STR("s3"), &out);
	scrub_feed(s, STR("s3cret"), &out);
	assert_true(str_eq(buf_str(&out), STR("data: one\n\ns3cret-tokers3")));
	scrub_finish(s, &out);
	assert_true(str_eq(buf_str(&out), STR("data: one\n\ns3cret-tokers3s3cret")));
	buf_free(&out);
	scrub_free(s);
}

static void a_header_in_the_middle_of_a_stream_does_not_disturb_it(void **state)
{
	const struct sample c = { "", { "s3cret-token" }, "", "", 0 };
	struct scrub *s = scrub_for(&c);
	char header[] = "x s3cret-token";
	struct buf out;

	(void)state;
	buf_init(&out, TEXT_MAX);
	scrub_feed(s, STR("s3cret-"), &out);
	assert_int_equal(scrub_text(s, header, sizeof(header) - 1), 1);
	assert_string_equal(header, "x [exeat:p0]**");
	scrub_feed(s, STR("token"), &out);
	scrub_finish(s, &out);
	assert_true(str_eq(buf_str(&out), STR("[exeat:p0]**")));
	assert_int_equal(scrub_count(s), 2);
	buf_free(&out);
	scrub_free(s);
}

static void the_end_of_a_stream_is_not_joined_to_the_next(void **state)
{
	const struct sample c = { "", { "s3cret-token" }, "", "", 0 };
	struct scrub *s = scrub_for(&c);
	struct buf out;

	(void)state;
	buf_init(&out, TEXT_MAX);
	scrub_feed(s, STR("s3cret-"), &out);
	scrub_finish(s, &out);
	scrub_feed(s, STR("token"), &out);
	scrub_finish(s, &out);
	assert_true(str_eq(buf_str(&out), STR("s3cret-token")));
	assert_int_equal(scrub_count(s), 0);
	buf_free(&out);
	scrub_free(s);
}

static void the_longest_pattern_is_found_over_a_long_stream(void **state)
{
	char *long_one = malloc(SCRUB_PATTERN_MAX), *stream = malloc(3 * SCRUB_PATTERN_MAX);
	struct str pattern = { long_one, SCRUB_PATTERN_MAX }, name = STR("long");
	struct scrub *s;
	struct buf out;

	(void)state;
	memset(long_one, 'a', SCRUB_PATTERN_MAX);
	long_one[SCRUB_PATTERN_MAX - 1] = 'b';
	memset(stream, 'a', 3 * SCRUB_PATTERN_MAX);
	stream[3 * SCRUB_PATTERN_MAX - 1] = 'b';
	assert_int_equal(scrub_new(&pattern, &name, 1, &s), OK);
	buf_init(&out, 3 * SCRUB_PATTERN_MAX);
	for (size_t at = 0; at < 3 * SCRUB_PATTERN_MAX; at += 1024)
		scrub_feed(s, str_n(stream + at, 1024), &out);
	scrub_finish(s, &out);
	assert_int_equal(out.n, 3 * SCRUB_PATTERN_MAX);
	assert_memory_equal(out.p, stream, 2 * SCRUB_PATTERN_MAX);
	assert_memory_equal(out.p + 2 * SCRUB_PATTERN_MAX, "[exeat:long]***", 15);
	assert_int_equal(out.p[out.n - 1], '*');
	assert_int_equal(scrub_count(s), 1);
	buf_free(&out);
	scrub_free(s);
	free(long_one);
	free(stream);
}

static void bytes_are_bytes(void **state)
{
	struct str pattern = str_n("\0\xff\n\0\x80\r\0\1", 8), name = STR("n");
	char text[] = "..\0\xff\n\0\x80\r\0\1..";
	struct scrub *s;

	(void)state;
	assert_int_equal(scrub_new(&pattern, &name, 1, &s), OK);
	assert_int_equal(scrub_text(s, text, sizeof(text) - 1), 1);
	assert_memory_equal(text, "..[exeat:n..", 12);
	scrub_free(s);
}

static void a_name_cannot_break_the_field_it_is_shown_in(void **state)
{
	struct str pattern = STR("0123456789abcdef"), name = STR("a\r\n\"b");
	char text[] = "0123456789abcdef";
	struct scrub *s;

	(void)state;
	assert_int_equal(scrub_new(&pattern, &name, 1, &s), OK);
	scrub_text(s, text, sizeof(text) - 1);
	assert_string_equal(text, "[exeat:a___b]***");
	scrub_free(s);
}

static void limits_hold(void **state)
{
	struct str patterns[SCRUB_PATTERNS_MAX + 1], names[SCRUB_PATTERNS_MAX + 1];
	char *big = calloc(1, SCRUB_PATTERN_MAX + 1);
	struct scrub *s = NULL;
	char text[] = "x12345678";

	(void)state;
	for (size_t i = 0; i <= SCRUB_PATTERNS_MAX; i++) {
		patterns[i] = STR("12345678");
		names[i] = STR("name");
	}
	assert_int_equal(scrub_new(patterns, names, SCRUB_PATTERNS_MAX + 1, &s), ERR_LIMIT);
	assert_int_equal(scrub_new(patterns, names, SCRUB_PATTERNS_MAX, &s), OK);
	assert_int_equal(scrub_text(s, text, sizeof(text) - 1), 1);
	scrub_free(s);
	patterns[1] = STR("");
	assert_int_equal(scrub_new(patterns, names, 2, &s), ERR_SYNTAX);
	patterns[1] = str_n(big, SCRUB_PATTERN_MAX + 1);
	assert_int_equal(scrub_new(patterns, names, 2, &s), ERR_LIMIT);
	assert_int_equal(scrub_new(NULL, NULL, 0, &s), OK);
	assert_int_equal(scrub_text(s, text, sizeof(text) - 1), 0);
	scrub_free(s);
	free(big);
}

static void a_full_output_holds_no_part_of_a_pattern(void **state)
{
	const struct sample c = { "", { "s3cret-token" }, "", "", 0 };
	struct scrub *s = scrub_for(&c);
	struct buf out;

	(void)state;
	buf_init(&out, 14);
	scrub_feed(s, STR("12345678s3cret-token"), &out);
	scrub_finish(s, &out);
	assert_true(out.failed);
	assert_int_equal(out.n, 8);
	buf_free(&out);
	scrub_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_case_comes_out_right_at_every_split_in_three),
		cmocka_unit_test(every_case_comes_out_right_byte_by_byte_and_in_place),
		cmocka_unit_test(no_more_is_held_back_than_what_may_be_a_beginning),
		cmocka_unit_test(a_header_in_the_middle_of_a_stream_does_not_disturb_it),
		cmocka_unit_test(the_end_of_a_stream_is_not_joined_to_the_next),
		cmocka_unit_test(the_longest_pattern_is_found_over_a_long_stream),
		cmocka_unit_test(bytes_are_bytes),
		cmocka_unit_test(a_name_cannot_break_the_field_it_is_shown_in),
		cmocka_unit_test(limits_hold),
		cmocka_unit_test(a_full_output_holds_no_part_of_a_pattern),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
