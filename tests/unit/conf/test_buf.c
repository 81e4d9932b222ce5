#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "conf/buf.h"

static void bytes_are_appended_and_dropped(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 1000);
	assert_true(str_eq(buf_str(&b), STR("")));
	buf_put_str(&b, STR("hello "));
	buf_put(&b, "wor\0ld", 6);
	buf_put_c(&b, '!');
	buf_printf(&b, "%d-%s", 42, "x");
	assert_true(str_eq(buf_str(&b), STR("hello wor\0ld!42-x")));
	buf_drop(&b, 6);
	assert_true(str_eq(buf_str(&b), STR("wor\0ld!42-x")));
	buf_drop(&b, b.n);
	assert_int_equal(b.n, 0);
	buf_free(&b);
}

static void nothing_appended_to_nothing_is_nothing(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 10);
	buf_put_str(&b, STR_NONE);
	buf_put(&b, NULL, 0);
	buf_drop(&b, 0);
	assert_false(b.failed);
	assert_int_equal(b.n, 0);
	buf_free(&b);
}

static void it_grows_up_to_its_limit_and_no_further(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 1000);
	for (unsigned i = 0; i < 1000; i++)
		buf_put_c(&b, (char)i);
	assert_false(b.failed);
	assert_int_equal(b.n, 1000);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal((unsigned char)b.p[i], i & 0xff);
	buf_put_c(&b, 'x');
	assert_true(b.failed);
	assert_int_equal(b.n, 1000);
	buf_free(&b);
}

static void failure_is_sticky(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 4);
	buf_put_str(&b, STR("abc"));
	buf_put_str(&b, STR("de"));
	assert_true(b.failed);
	buf_put_c(&b, 'd');
	assert_true(str_eq(buf_str(&b), STR("abc")));
	assert_null(buf_room(&b, 1));
	buf_free(&b);
}

static void sizes_near_the_end_of_numbers_do_not_wrap(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 100);
	buf_put_c(&b, 'a');
	assert_null(buf_room(&b, SIZE_MAX));
	assert_true(b.failed);
	buf_free(&b);
	buf_init(&b, 100);
	buf_put_c(&b, 'a');
	assert_null(buf_room(&b, SIZE_MAX - 1));
	buf_free(&b);
}

static void a_printed_text_needs_room_for_its_end(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 4);
	buf_printf(&b, "%s", "abc");
	assert_false(b.failed);
	assert_true(str_eq(buf_str(&b), STR("abc")));
	buf_free(&b);
	buf_init(&b, 4);
	buf_printf(&b, "%s", "abcd");
	assert_true(b.failed);
	assert_int_equal(b.n, 0);
	buf_free(&b);
}

static void room_that_was_asked_for_is_counted_when_it_is_used(void **state)
{
	struct buf b;
	char *p;

	(void)state;
	buf_init(&b, 100);
	p = buf_room(&b, 10);
	assert_non_null(p);
	memcpy(p, "abc", 3);
	assert_int_equal(b.n, 0);
	buf_grown(&b, 3);
	assert_true(str_eq(buf_str(&b), STR("abc")));
	buf_free(&b);
}

static void a_buffer_can_be_used_again_after_it_was_freed(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 3);
	buf_put_str(&b, STR("abcd"));
	buf_wipe(&b);
	assert_false(b.failed);
	buf_put_str(&b, STR("abc"));
	assert_true(str_eq(buf_str(&b), STR("abc")));
	buf_free(&b);
	buf_wipe(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_are_appended_and_dropped),
		cmocka_unit_test(nothing_appended_to_nothing_is_nothing),
		cmocka_unit_test(it_grows_up_to_its_limit_and_no_further),
		cmocka_unit_test(failure_is_sticky),
		cmocka_unit_test(sizes_near_the_end_of_numbers_do_not_wrap),
		cmocka_unit_test(a_printed_text_needs_room_for_its_end),
		cmocka_unit_test(room_that_was_asked_for_is_counted_when_it_is_used),
		cmocka_unit_test(a_buffer_can_be_used_again_after_it_was_freed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
