#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sandbox/message.h"

#define TEXT_CAP 8
#define LIST_CAP 3
#define SCRATCH 8

struct msg_all {
	uint8_t u8;
	uint16_t u16;
	uint32_t u32;
	uint64_t u64;
	struct str text;
	struct str_list list, more;
};

static const struct message_row table[] = {
	{ .type = 7, .name = "ALL", .size = sizeof(struct msg_all), .fields = {
		F(struct msg_all, U8, u8, 0),
		F(struct msg_all, U16, u16, 0),
		F(struct msg_all, U32, u32, 0),
		F(struct msg_all, U64, u64, 0),
		F(struct msg_all, STR, text, TEXT_CAP),
		F(struct msg_all, LIST, list, LIST_CAP),
		F(struct msg_all, LIST, more, MESSAGE_LIST_MAX) } },
	{ 0 },
};

static const struct str items[] = { { "one", 3 }, { "", 0 }, { "three", 5 }, { "4", 1 } };

static const struct msg_all sample = { .u8 = 0xfe, .u16 = 0xfedc, .u32 = 0xfedcba98, .u64 = 0xfedcba9876543210,
				       .text = { "a\0b", 3 }, .list = { items, 3 } };

static enum err decode(struct str packet, struct msg_all *out)
{
	static struct str scratch[SCRATCH];

	enum err e = message_decode(&table[0], &packet, out, scratch, SCRATCH);

	/* Nothing follows it here. */
	return e ? e : packet.n ? ERR_SYNTAX : OK;
}

static void encode(const struct msg_all *m, struct buf *out)
{
	buf_init(out, MESSAGE_MAX + 64);
	assert_int_equal(message_encode(&table[0], m, out), OK);
}

static void rows_are_found_by_type(void **state)
{
	(void)state;
	assert_ptr_equal(message_row(table, 7), &table[0]);
	assert_null(message_row(table, 8));
	assert_null(message_row(table, 0));
}

static void every_kind_of_field_comes_back_as_it_was(void **state)
{
	struct msg_all m;
	struct buf b;

	(void)state;
	encode(&sample, &b);
	assert_memory_equal(b.p, "\x07\x00\xfe\xdc\xfe\x98\xba\xdc\xfe\x10\x32\x54\x76\x98\xba\xdc\xfe\x03\0\0\0a\0b", 24);
	assert_int_equal(decode(str_from(buf_str(&b), 2), &m), OK);
	assert_int_equal(m.u8, sample.u8);
	assert_int_equal(m.u16, sample.u16);
	assert_int_equal(m.u32, sample.u32);
	assert_true(m.u64 == sample.u64);
	assert_true(str_eq(m.text, sample.text));
	assert_int_equal(m.list.n, 3);
	for (size_t i = 0; i < 3; i++)
		assert_true(str_eq(m.list.v[i], items[i]));
	assert_int_equal(m.more.n, 0);
	buf_free(&b);
}

static void two_lists_share_the_scratch_without_meeting(void **state)
{
	struct msg_all m = { .list = { items, 3 }, .more = { items, 4 } }, back;
	struct buf b;

	(void)state;
	encode(&m, &b);
	assert_int_equal(decode(str_from(buf_str(&b), 2), &back), OK);
	assert_true(str_eq(back.list.v[2], items[2]));
	assert_true(str_eq(back.more.v[0], items[0]));
	buf_free(&b);
}

static void a_list_beyond_the_scratch_is_refused(void **state)
{
	struct str many[SCRATCH + 1] = { { 0 } };
	struct msg_all m = { .more = { many, SCRATCH + 1 } }, back;
	struct buf b;

	(void)state;
	encode(&m, &b);
	assert_int_equal(decode(str_from(buf_str(&b), 2), &back), ERR_LIMIT);
	buf_free(&b);
}

static void a_message_that_ends_anywhere_too_early_is_refused(void **state)
{
	struct buf b;

	(void)state;
	encode(&sample, &b);
	for (size_t n = 2; n < b.n; n++) {
		/* In memory of its own: reading past its end would be seen. */
		char *cut = malloc(n - 2 ? n - 2 : 1);
		struct msg_all m;

		memcpy(cut, b.p + 2, n - 2);
		assert_int_equal(decode(str_n(cut, n - 2), &m), ERR_SYNTAX);
		free(cut);
	}
	buf_free(&b);
}

static void a_message_with_a_byte_too_many_is_refused(void **state)
{
	struct msg_all m;
	struct buf b;

	(void)state;
	encode(&sample, &b);
	buf_put_c(&b, 0);
	assert_int_equal(decode(str_from(buf_str(&b), 2), &m), ERR_SYNTAX);
	buf_free(&b);
}

static void caps_hold_in_both_directions(void **state)
{
	struct msg_all text = { .text = { "123456789", TEXT_CAP + 1 } };
	struct msg_all list = { .list = { items, LIST_CAP + 1 } };
	struct msg_all m;
	struct buf b;

	(void)state;
	buf_init(&b, MESSAGE_MAX);
	assert_int_equal(message_encode(&table[0], &text, &b), ERR_LIMIT);
	b.n = 0;
	assert_int_equal(message_encode(&table[0], &list, &b), ERR_LIMIT);
	buf_free(&b);
	text.text.n = TEXT_CAP;
	encode(&text, &b);
	assert_int_equal(decode(str_from(buf_str(&b), 2), &m), OK);
	b.p[17]++;	/* the text's length */
	assert_int_equal(decode(str_from(buf_str(&b), 2), &m), ERR_LIMIT);
	buf_free(&b);
}

static void lengths_and_counts_of_four_gigabytes_are_refused(void **state)
{
	struct msg_all m;
	struct buf b;

	(void)state;
	encode(&sample, &b);
	memset(b.p + 17, 0xff, 4);
	assert_int_equal(decode(str_from(buf_str(&b), 2), &m), ERR_LIMIT);
	buf_free(&b);
	encode(&sample, &b);
	memset(b.p + 24, 0xff, 4);	/* the list's count */
	assert_int_equal(decode(str_from(buf_str(&b), 2), &m), ERR_LIMIT);
	buf_free(&b);
	encode(&sample, &b);
	memset(b.p + 28, 0xff, 4);	/* an item's length */
	assert_int_equal(decode(str_from(buf_str(&b), 2), &m), ERR_SYNTAX);
	buf_free(&b);
}

static void a_packet_over_the_limit_is_not_made(void **state)
{
	static char big[MESSAGE_MAX];
	struct str many[2] = { { big, MESSAGE_MAX / 2 }, { big, MESSAGE_MAX / 2 } };
	struct msg_all m = { .more = { many, 2 } };
	struct buf b;

	(void)state;
	buf_init(&b, 4 * MESSAGE_MAX);
	assert_int_equal(message_encode(&table[0], &m, &b), ERR_LIMIT);
	buf_free(&b);
	buf_init(&b, 100);
	assert_int_equal(message_encode(&table[0], &m, &b), ERR_NOMEM);
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_found_by_type),
		cmocka_unit_test(every_kind_of_field_comes_back_as_it_was),
		cmocka_unit_test(two_lists_share_the_scratch_without_meeting),
		cmocka_unit_test(a_list_beyond_the_scratch_is_refused),
		cmocka_unit_test(a_message_that_ends_anywhere_too_early_is_refused),
		cmocka_unit_test(a_message_with_a_byte_too_many_is_refused),
		cmocka_unit_test(caps_hold_in_both_directions),
		cmocka_unit_test(lengths_and_counts_of_four_gigabytes_are_refused),
		cmocka_unit_test(a_packet_over_the_limit_is_not_made),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
