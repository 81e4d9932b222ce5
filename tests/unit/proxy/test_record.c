#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "conf/json.h"
#include "proxy/record.h"

static struct str bytes_of(const struct record *r)
{
	return str_n((const char *)r->bytes, r->n);
}

static const char *written(struct str bytes)
{
	static char text[8 * RING_RECORD_MAX];
	struct buf out;
	struct json json;

	buf_init(&out, sizeof(text) - 1);
	json_init(&json, &out);
	json_object(&json);
	record_write_fields(bytes, &json);
	json_object_end(&json);
	assert_false(out.failed);
	memcpy(text, out.p, out.n);
	text[out.n] = '\0';
	buf_free(&out);
	return text;
}

static void fields_come_out_in_the_order_they_went_in(void **state)
{
	struct record r;
	struct record_head head;

	(void)state;
	record_begin(&r, RECORD_request);
	record_str(&r, REC_verdict, STR("allow"));
	record_u64(&r, REC_status, 200);
	record_bool(&r, REC_cached, true);
	record_str(&r, REC_path, STR("/a\"b"));
	assert_int_equal(r.error, OK);
	assert_int_equal(record_check(bytes_of(&r), ROLE_WORKER, &head), OK);
	assert_int_equal(head.kind, RECORD_request);
	assert_string_equal(written(bytes_of(&r)),
			    "{\"verdict\":\"allow\",\"status\":200,\"cached\":true,\"path\":\"/a\\\"b\"}");
}

static void the_time_is_now_in_microseconds(void **state)
{
	struct record r;
	struct record_head head;
	uint64_t before = (uint64_t)time(NULL) * 1000000;

	(void)state;
	record_begin(&r, RECORD_dns);
	assert_int_equal(record_check(bytes_of(&r), ROLE_WORKER, &head), OK);
	assert_true(head.time_us >= before && head.time_us < before + 60 * 1000000);
}

static void each_kind_is_for_its_roles_only(void **state)
{
	static const unsigned by[] = {
#define X(name, by) by,
		RECORD_KINDS(X)
#undef X
	};

	(void)state;
	for (enum record_kind k = 0; k < RECORD_KIND_COUNT; k++)
		for (enum role role = 0; role < ROLE_COUNT; role++) {
			struct record r;
			struct record_head head;

			record_begin(&r, k);
			assert_int_equal(record_check(bytes_of(&r), role, &head),
					 by[k] & (1u << role) ? OK : ERR_DENIED);
		}
}

static void a_worker_cannot_say_which_sandbox_it_is(void **state)
{
	struct record r;
	struct record_head head;

	(void)state;
	record_begin(&r, RECORD_credential);
	record_str(&r, REC_sandbox, STR("other"));
	assert_int_equal(record_check(bytes_of(&r), ROLE_WORKER, &head), ERR_DENIED);
	assert_int_equal(record_check(bytes_of(&r), ROLE_BROKER, &head), OK);
	assert_true(str_eq(head.sandbox, STR("other")));
	assert_string_equal(written(bytes_of(&r)), "{}");
}

static void an_empty_text_is_left_out(void **state)
{
	struct record r;

	(void)state;
	record_begin(&r, RECORD_dns);
	record_str(&r, REC_rule, STR_NONE);
	assert_string_equal(written(bytes_of(&r)), "{}");
}

static void a_long_text_is_cut_and_says_so(void **state)
{
	struct record r;
	struct record_head head;
	char z[64 * 3];

	(void)state;
	memset(z, 'a', sizeof(z));
	record_begin(&r, RECORD_dns);
	record_str(&r, REC_upstream, str_n(z, 65));
	assert_int_equal(record_check(bytes_of(&r), ROLE_WORKER, &head), OK);
	assert_int_equal(strlen(written(bytes_of(&r))), strlen("{\"upstream\":\"\"}") + 64);
	assert_non_null(strstr(written(bytes_of(&r)), "aaa...\""));
	record_begin(&r, RECORD_dns);
	record_str(&r, REC_upstream, str_n(z, 64));
	assert_null(strstr(written(bytes_of(&r)), "..."));
}

static void a_text_is_not_cut_within_a_character(void **state)
{
	struct record r;
	char z[80];

	(void)state;
	for (size_t i = 0; i < sizeof(z); i += 2)
		memcpy(z + i, "\xc3\xa9", 2);
	record_begin(&r, RECORD_dns);
	record_str(&r, REC_upstream, str_n(z, sizeof(z)));
	/* 61 bytes would be 30 characters and a half. */
	assert_int_equal(strlen(written(bytes_of(&r))), strlen("{\"upstream\":\"\"}") + 60 + 3);
	assert_null(strstr(written(bytes_of(&r)), "\xef\xbf\xbd"));
}

static void every_text_field_takes_its_cap_and_is_cut_above_it(void **state)
{
	static const size_t caps[] = {
#define X(name, type, cap) cap,
		RECORD_FIELDS(X)
#undef X
	};
	static char z[RING_RECORD_MAX];

	(void)state;
	memset(z, 'x', sizeof(z));
	for (enum record_field f = 0; f < RECORD_FIELD_COUNT; f++) {
		struct record r;
		struct record_head head;

		if (caps[f] == 0)
			continue;
		record_begin(&r, RECORD_start);
		record_str(&r, f, str_n(z, caps[f] + 1));
		assert_int_equal(record_check(bytes_of(&r), ROLE_SUPERVISOR, &head), OK);
	}
}

static void a_field_twice_or_of_another_type_is_a_bug(void **state)
{
	struct record r;

	(void)state;
	record_begin(&r, RECORD_dns);
	record_u64(&r, REC_ms, 1);
	record_u64(&r, REC_ms, 2);
	assert_int_equal(record_commit(&r, NULL), ERR_BUG);
	record_begin(&r, RECORD_dns);
	record_str(&r, REC_ms, STR("1"));
	assert_int_equal(record_commit(&r, NULL), ERR_BUG);
	record_begin(&r, RECORD_dns);
	record_u64(&r, RECORD_FIELD_COUNT, 2);
	assert_int_equal(record_commit(&r, NULL), ERR_BUG);
}

static void numbers_that_json_readers_do_not_know_are_written_as_the_largest(void **state)
{
	struct record r;
	struct record_head head;

	(void)state;
	record_begin(&r, RECORD_dns);
	record_u64(&r, REC_ms, UINT64_MAX);
	assert_int_equal(record_check(bytes_of(&r), ROLE_WORKER, &head), OK);
	assert_string_equal(written(bytes_of(&r)), "{\"ms\":9223372036854775807}");
}

static void begin_and_end_of_a_request_are_told_by_exchange(void **state)
{
	struct record r;
	struct record_head head;

	(void)state;
	record_begin(&r, RECORD_request);
	record_u64(&r, REC_exchange, 7);
	record_str(&r, REC_phase, STR("begin"));
	assert_int_equal(record_check(bytes_of(&r), ROLE_WORKER, &head), OK);
	assert_true(head.begins && !head.ends && head.has_exchange && head.exchange == 7);
	record_begin(&r, RECORD_request);
	record_str(&r, REC_phase, STR("end"));
	assert_int_equal(record_check(bytes_of(&r), ROLE_WORKER, &head), OK);
	assert_true(head.ends && !head.begins && !head.has_exchange);
	/* A connection has other phases. */
	record_begin(&r, RECORD_connection);
	record_str(&r, REC_phase, STR("begin"));
	assert_int_equal(record_check(bytes_of(&r), ROLE_WORKER, &head), OK);
	assert_false(head.begins);
}

static struct str field(unsigned char *b, size_t n)
{
	memset(b, 0, 9);
	b[0] = RECORD_dns;
	return str_n((const char *)b, 9 + n);
}

static void what_a_writer_of_ours_cannot_make_is_refused(void **state)
{
	struct record_head head;
	unsigned char b[64] = { 0 };

	(void)state;
	assert_int_equal(record_check(STR_NONE, ROLE_WORKER, &head), ERR_SYNTAX);
	assert_int_equal(record_check(str_n("\0\0\0", 3), ROLE_WORKER, &head), ERR_SYNTAX);
	/* a kind that is none */
	field(b, 0);
	b[0] = RECORD_KIND_COUNT;
	assert_int_equal(record_check(str_n((char *)b, 9), ROLE_WORKER, &head), ERR_SYNTAX);
	/* a time with a year of five digits */
	field(b, 0);
	memset(b + 1, 0xff, 8);
	assert_int_equal(record_check(str_n((char *)b, 9), ROLE_WORKER, &head), ERR_LIMIT);
	/* a field that is none */
	b[9] = RECORD_FIELD_COUNT;
	assert_int_equal(record_check(field(b, 1), ROLE_WORKER, &head), ERR_SYNTAX);
	/* a number that ends too early */
	b[9] = REC_ms;
	assert_int_equal(record_check(field(b, 8), ROLE_WORKER, &head), ERR_SYNTAX);
	/* a number over INT64_MAX */
	memset(b + 10, 0xff, 8);
	assert_int_equal(record_check(field(b, 9), ROLE_WORKER, &head), ERR_LIMIT);
	/* a truth value of two */
	b[9] = REC_cached;
	b[10] = 2;
	assert_int_equal(record_check(field(b, 2), ROLE_WORKER, &head), ERR_SYNTAX);
	/* a text longer than the record */
	b[9] = REC_rcode;
	b[10] = 5;
	b[11] = 0;
	assert_int_equal(record_check(field(b, 7), ROLE_WORKER, &head), ERR_SYNTAX);
	/* a text over its cap */
	b[10] = 17;
	assert_int_equal(record_check(field(b, 20), ROLE_WORKER, &head), ERR_LIMIT);
	/* a field twice */
	memcpy(b + 9, (unsigned char[]){ REC_cached, 1, REC_cached, 1 }, 4);
	assert_int_equal(record_check(field(b, 4), ROLE_WORKER, &head), ERR_SYNTAX);
}

static void a_record_over_the_rings_limit_is_refused(void **state)
{
	static char z[5000];
	struct record r;

	(void)state;
	memset(z, 'x', sizeof(z));
	record_begin(&r, RECORD_start);
	for (enum record_field f = 0; f < RECORD_FIELD_COUNT; f++)
		if (f == REC_diagnostics || f == REC_path || f == REC_answers || f == REC_reason || f == REC_file)
			record_str(&r, f, str_n(z, sizeof(z)));
	assert_int_equal(r.error, OK);
	r.n = sizeof(r.bytes) - 3;
	record_str(&r, REC_rule, STR("x"));
	assert_int_equal(record_commit(&r, NULL), ERR_LIMIT);
}

static void a_record_goes_through_a_ring(void **state)
{
	struct ring_fds fds, copy;
	struct ring *w, *rd;
	struct record r;
	struct record_head head;
	struct str s;

	(void)state;
	assert_int_equal(ring_create(&fds), OK);
	copy = (struct ring_fds){ dup(fds.memory), dup(fds.wake), dup(fds.room) };
	assert_int_equal(ring_open_writer(&fds, &w), OK);
	assert_int_equal(ring_open_reader(&copy, &rd), OK);
	record_begin(&r, RECORD_dial);
	record_u64(&r, REC_port, 443);
	assert_int_equal(record_commit(&r, w), OK);
	assert_int_equal(ring_next(rd, &s), OK);
	assert_int_equal(record_check(s, ROLE_DIALER, &head), OK);
	assert_string_equal(written(s), "{\"port\":443}");
	ring_set_refusing(rd, true);
	assert_int_equal(record_commit(&r, w), ERR_DENIED);
	ring_close(w);
	ring_close(rd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_come_out_in_the_order_they_went_in),
		cmocka_unit_test(the_time_is_now_in_microseconds),
		cmocka_unit_test(each_kind_is_for_its_roles_only),
		cmocka_unit_test(a_worker_cannot_say_which_sandbox_it_is),
		cmocka_unit_test(an_empty_text_is_left_out),
		cmocka_unit_test(a_long_text_is_cut_and_says_so),
		cmocka_unit_test(a_text_is_not_cut_within_a_character),
		cmocka_unit_test(every_text_field_takes_its_cap_and_is_cut_above_it),
		cmocka_unit_test(a_field_twice_or_of_another_type_is_a_bug),
		cmocka_unit_test(numbers_that_json_readers_do_not_know_are_written_as_the_largest),
		cmocka_unit_test(begin_and_end_of_a_request_are_told_by_exchange),
		cmocka_unit_test(what_a_writer_of_ours_cannot_make_is_refused),
		cmocka_unit_test(a_record_over_the_rings_limit_is_refused),
		cmocka_unit_test(a_record_goes_through_a_ring),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
