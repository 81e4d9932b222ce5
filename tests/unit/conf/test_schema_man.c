#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "conf/schema_man.h"

static const struct schema_row inner[] = {
	{ .key = "size", .type = SCHEMA_SIZE, .min = 4096, .max = 1 << 20, .initial = "64KiB",
	  .help = ".how large" },
	{ .key = "gone", .type = SCHEMA_LATER },
	{ .type = SCHEMA_END },
};
static const struct schema_row each = { .key = "NAME", .type = SCHEMA_TEXTS, .max = 2, .help = "its \\ texts" };
static const struct schema_row rows[] = {
	{ .key = "version", .type = SCHEMA_NUMBER, .min = 1, .max = 1, .required = true, .initial = "1" },
	{ .key = "in", .type = SCHEMA_GROUP, .rows = inner, .help = "a group" },
	{ .key = "map", .type = SCHEMA_MAP, .each = &each, .without = "none" },
	{ .type = SCHEMA_END },
};

static void every_key_has_an_item(void **state)
{
	static const char want[] = ".Bl -tag -width Ds\n"
				   ".It Ic version : Ar number\n"
				   "From 1 to 1.\n"
				   "It must be there.\n"
				   ".It Ic in : Ar map\n"
				   "A group.\n"
				   ".It Ic in.size : Ar size\n"
				   "\\&.how large.\n"
				   "From 4KiB to 1MiB.\n"
				   "Default:\n"
				   ".Ql 64KiB .\n"
				   ".It Ic map : Ar map\n"
				   "Without it: none.\n"
				   ".It Ic map.NAME : Ar list\n"
				   "Its \\e texts.\n"
				   "At most 2.\n"
				   ".El\n";
	struct buf out;

	(void)state;
	buf_init(&out, 4096);
	schema_man(rows, &out);
	buf_put_c(&out, '\0');
	assert_false(out.failed);
	assert_string_equal(out.p, want);
	buf_free(&out);
}

static void a_page_that_has_no_room_fails(void **state)
{
	struct buf out;

	(void)state;
	buf_init(&out, 40);
	schema_man(rows, &out);
	assert_true(out.failed);
	buf_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_key_has_an_item),
		cmocka_unit_test(a_page_that_has_no_room_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
