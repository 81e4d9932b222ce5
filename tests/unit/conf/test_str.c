#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "conf/str.h"

static void equality_is_by_bytes_and_length(void **state)
{
	(void)state;
	assert_true(str_eq(STR("a\0b"), STR("a\0b")));
	assert_false(str_eq(STR("a\0b"), STR("a\0c")));
	assert_false(str_eq(STR("ab"), STR("abc")));
	assert_true(str_eq(STR_NONE, STR("")));
	assert_true(str_eq(str_of(NULL), STR_NONE));
}

static void case_is_folded_for_ascii_only(void **state)
{
	(void)state;
	assert_true(str_eq_nocase(STR("Host"), STR("hOST")));
	assert_false(str_eq_nocase(STR("host"), STR("hosts")));
	/* Neither neighbours of the letters nor bytes of UTF-8 are letters. */
	assert_false(str_eq_nocase(STR("@"), STR("`")));
	assert_false(str_eq_nocase(STR("["), STR("{")));
	assert_false(str_eq_nocase(STR("\xc3\x84"), STR("\xc3\xa4")));
}

static void beginnings_and_ends_are_found(void **state)
{
	(void)state;
	assert_true(str_starts(STR("abc"), STR("ab")));
	assert_true(str_starts(STR("abc"), STR_NONE));
	assert_true(str_starts(STR_NONE, STR_NONE));
	assert_false(str_starts(STR("a"), STR("ab")));
	assert_true(str_ends(STR("abc"), STR("bc")));
	assert_true(str_ends(STR("abc"), STR_NONE));
	assert_false(str_ends(STR("c"), STR("bc")));
}

static void a_byte_is_found_or_the_length_is_given(void **state)
{
	(void)state;
	assert_int_equal(str_find(STR("abca"), 'a'), 0);
	assert_int_equal(str_find(STR("abc"), 'c'), 2);
	assert_int_equal(str_find(STR("abc"), 'x'), 3);
	assert_int_equal(str_find(STR("a\0b"), 'b'), 2);
	assert_int_equal(str_find(STR_NONE, 'x'), 0);
}

static void spaces_and_tabs_are_trimmed_and_nothing_else(void **state)
{
	(void)state;
	assert_true(str_eq(str_trim(STR(" \t a b\t ")), STR("a b")));
	assert_true(str_eq(str_trim(STR("\r\n a")), STR("\r\n a")));
	assert_true(str_eq(str_trim(STR(" \t ")), STR_NONE));
	assert_true(str_eq(str_trim(STR_NONE), STR_NONE));
}

static void numbers_are_digits_up_to_the_most_allowed(void **state)
{
	uint64_t v = 7;

	(void)state;
	assert_true(str_to_u64(STR("0"), 0, &v) && v == 0);
	assert_true(str_to_u64(STR("65535"), 65535, &v) && v == 65535);
	assert_true(str_to_u64(STR("00012"), 12, &v) && v == 12);
	assert_true(str_to_u64(STR("18446744073709551615"), UINT64_MAX, &v) && v == UINT64_MAX);
	v = 7;
	assert_false(str_to_u64(STR("65536"), 65535, &v));
	assert_false(str_to_u64(STR("18446744073709551616"), UINT64_MAX, &v));
	assert_false(str_to_u64(STR("99999999999999999999999999"), UINT64_MAX, &v));
	assert_int_equal(v, 7);
}

/* A digit above the most allowed must not slip through the difference. */
static void a_most_of_less_than_nine_holds(void **state)
{
	uint64_t v = 7;

	(void)state;
	for (uint64_t max = 0; max < 9; max++) {
		char digit = (char)('0' + max + 1);

		assert_false(str_to_u64(str_n(&digit, 1), max, &v));
	}
	assert_false(str_to_u64(STR("10"), 5, &v));
	assert_false(str_to_u64(STR("05"), 4, &v));
	assert_int_equal(v, 7);
}

static void what_is_no_number_is_refused(void **state)
{
	static const char *const bad[] = { "", " 1", "1 ", "+1", "-1", "0x1", "1e3", "1.0", "\xef\xbc\x91" };
	uint64_t v = 7;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(str_to_u64(str_of(bad[i]), UINT64_MAX, &v));
	assert_false(str_to_u64(STR("1\0"), UINT64_MAX, &v));
	assert_false(str_to_u64(STR_NONE, UINT64_MAX, &v));
	assert_int_equal(v, 7);
}

static void a_text_is_cut_piece_by_piece(void **state)
{
	struct str rest = STR("a,,b");

	(void)state;
	assert_true(str_eq(str_cut(&rest, ','), STR("a")));
	assert_true(str_eq(str_cut(&rest, ','), STR_NONE));
	assert_non_null(rest.p);
	assert_true(str_eq(str_cut(&rest, ','), STR("b")));
	assert_null(rest.p);
	/* A separator at the end leaves an empty last piece. */
	rest = STR("a,");
	str_cut(&rest, ',');
	assert_non_null(rest.p);
	assert_int_equal(rest.n, 0);
}

static void a_plain_copy_holds_only_what_a_word_may(void **state)
{
	char out[9] = "--------";

	(void)state;
	assert_int_equal(str_copy_plain(STR("aZ9-._"), 8, out), 6);
	assert_memory_equal(out, "aZ9-._--", 8);
	assert_int_equal(str_copy_plain(STR(" \r\n\x80/:@["), 8, out), 8);
	assert_string_equal(out, "________");
	assert_int_equal(str_copy_plain(STR("abcdef"), 3, out), 3);
	assert_string_equal(out, "abc_____");
	assert_int_equal(str_copy_plain(STR_NONE, 3, out), 0);
}

static void tokens_are_those_of_http(void **state)
{
	int bytes = 0;

	(void)state;
	assert_true(str_is_token(STR("GET")));
	assert_true(str_is_token(STR("x-api_key.1!#$%&'*+^`|~")));
	assert_false(str_is_token(STR("")));
	assert_false(str_is_token(STR("a b")));
	assert_false(str_is_token(STR("a\0")));
	for (int c = 0; c < 256; c++)
		bytes += str_is_token(str_n(&(char){ (char)c }, 1));
	assert_int_equal(bytes, 26 + 26 + 10 + 15);
}

static void ids_are_lower_case_and_start_with_a_letter_or_digit(void **state)
{
	(void)state;
	assert_true(str_is_id(STR("a")));
	assert_true(str_is_id(STR("0-a_b.c")));
	assert_false(str_is_id(STR("")));
	assert_false(str_is_id(STR("-a")));
	assert_false(str_is_id(STR(".a")));
	assert_false(str_is_id(STR("A")));
	assert_false(str_is_id(STR("a b")));
	assert_false(str_is_id(STR("a\0")));
}

static void numbers_are_written_in_decimal(void **state)
{
	char room[STR_DECIMAL_MAX];

	(void)state;
	assert_true(str_eq(str_decimal(0, room), STR("0")));
	assert_true(str_eq(str_decimal(1090, room), STR("1090")));
	assert_true(str_eq(str_decimal(UINT64_MAX, room), STR("18446744073709551615")));
}

static void a_copy_with_a_nul_is_cut_to_its_room(void **state)
{
	char room[4] = "xxx";

	(void)state;
	str_to_z(STR("ab"), room, sizeof(room));
	assert_string_equal(room, "ab");
	str_to_z(STR("abcd"), room, sizeof(room));
	assert_string_equal(room, "abc");
	str_to_z(STR_NONE, room, sizeof(room));
	assert_string_equal(room, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equality_is_by_bytes_and_length),
		cmocka_unit_test(case_is_folded_for_ascii_only),
		cmocka_unit_test(beginnings_and_ends_are_found),
		cmocka_unit_test(a_byte_is_found_or_the_length_is_given),
		cmocka_unit_test(spaces_and_tabs_are_trimmed_and_nothing_else),
		cmocka_unit_test(numbers_are_digits_up_to_the_most_allowed),
		cmocka_unit_test(a_most_of_less_than_nine_holds),
		cmocka_unit_test(what_is_no_number_is_refused),
		cmocka_unit_test(a_text_is_cut_piece_by_piece),
		cmocka_unit_test(a_plain_copy_holds_only_what_a_word_may),
		cmocka_unit_test(tokens_are_those_of_http),
		cmocka_unit_test(numbers_are_written_in_decimal),
		cmocka_unit_test(a_copy_with_a_nul_is_cut_to_its_room),
		cmocka_unit_test(ids_are_lower_case_and_start_with_a_letter_or_digit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
