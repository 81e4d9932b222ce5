#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "conf/buf.h"
#include <stdio.h>

#include "proxy/hello.h"

/* ---- hellos made here ---- */

static void put_u16(struct buf *b, size_t v)
{
	buf_put_c(b, (char)(v >> 8));
	buf_put_c(b, (char)v);
}

/* The message, with its header; @extensions as they are, or none at all where p is NULL. */
static void put_message(struct buf *b, struct str extensions)
{
	size_t body = 2 + 32 + 1 + 2 + 2 + 1 + 1 + (extensions.p ? 2 + extensions.n : 0);

	buf_put_c(b, 1);
	buf_put_c(b, 0);
	put_u16(b, body);
	put_u16(b, 0x0303);
	for (int i = 0; i < 32; i++)
		buf_put_c(b, (char)i);
	buf_put(b, "\0\0\x02\x13\x01\x01\0", 7);
	if (extensions.p) {
		put_u16(b, extensions.n);
		buf_put_str(b, extensions);
	}
}

/* @message in records of at most @step bytes. */
static void put_records(struct buf *b, struct str message, size_t step)
{
	while (message.n) {
		size_t n = message.n < step ? message.n : step;

		buf_put(b, "\x16\x03\x01", 3);
		put_u16(b, n);
		buf_put(b, message.p, n);
		message = str_from(message, n);
	}
}

static void make(struct buf *out, struct str extensions, size_t step)
{
	struct buf message;

	buf_init(&message, 1u << 18);
	put_message(&message, extensions);
	put_records(out, buf_str(&message), step);
	assert_false(out->failed || message.failed);
	buf_free(&message);
}

static enum hello_result parse(struct str extensions, struct hello *h)
{
	enum hello_result r;
	struct buf b;

	buf_init(&b, 1u << 18);
	make(&b, extensions, 16384);
	r = hello_parse(buf_str(&b), h);
	buf_free(&b);
	return r;
}

/* server_name a.test, ALPN h2 and http/1.1 */
#define BYTES(lit) { "" lit, sizeof(lit) - 1 }
#define GOOD "\0\0\0\x0b\0\x09\0\0\x06" "a.test" "\0\x10\0\x0e\0\x0c\x02h2\x08http/1.1"

static void check_good(const struct hello *h)
{
	assert_true(h->has_sni);
	assert_false(h->sni_bad);
	assert_string_equal(h->sni, "a.test");
	assert_int_equal(h->sni_n, 6);
	assert_int_equal(h->alpn_n, 12);
	assert_memory_equal(h->alpn, "\x02h2\x08http/1.1", 12);
	assert_false(h->ech);
}

/* F49: post-quantum hellos come in several segments, and in several records. */
static void a_hello_is_read_however_records_and_segments_cut_it(void **state)
{
	static const size_t steps[] = { 16384, 600, 100, 7, 1 };
	struct hello h;
	struct buf b;

	(void)state;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		buf_init(&b, 1u << 18);
		make(&b, STR(GOOD), steps[i]);
		for (size_t n = 0; n < b.n; n++)
			assert_int_equal(hello_parse(str_n(b.p, n), &h), HELLO_MORE);
		assert_int_equal(hello_parse(buf_str(&b), &h), HELLO_DONE);
		check_good(&h);
		buf_put(&b, "\x14\x03\x03\0\x01\x01", 6);
		assert_int_equal(hello_parse(buf_str(&b), &h), HELLO_DONE);
		check_good(&h);
		buf_free(&b);
	}
}

/* As OpenSSL 3.5 sends it, with a share for X25519MLKEM768. */
static void a_real_post_quantum_hello_is_read_wherever_it_is_cut(void **state)
{
	static char bytes[4096];
	FILE *f = fopen("fuzz/fuzz_hello.in/post-quantum", "r");
	struct hello h;
	size_t size;

	(void)state;
	assert_non_null(f);
	size = fread(bytes, 1, sizeof(bytes), f);
	fclose(f);
	assert_in_range(size, 1500, 2000);
	for (size_t n = 0; n < size; n++)
		assert_int_equal(hello_parse(str_n(bytes, n), &h), HELLO_MORE);
	assert_int_equal(hello_parse(str_n(bytes, size), &h), HELLO_DONE);
	assert_string_equal(h.sni, "api.test");
	assert_int_equal(h.alpn_n, 12);
	assert_memory_equal(h.alpn, "\x02h2\x08http/1.1", 12);
}

static void padding_of_16_kilobytes_is_no_trouble(void **state)
{
	struct buf extensions, b;
	struct hello h;
	char *pad;

	(void)state;
	buf_init(&extensions, 1u << 18);
	buf_init(&b, 1u << 18);
	buf_put(&extensions, GOOD, sizeof(GOOD) - 1);
	put_u16(&extensions, 21);
	put_u16(&extensions, 16384);
	pad = buf_room(&extensions, 16384);
	assert_non_null(pad);
	memset(pad, 0, 16384);
	buf_grown(&extensions, 16384);
	make(&b, buf_str(&extensions), 16384);
	assert_int_equal(hello_parse(str_n(b.p, b.n - 1), &h), HELLO_MORE);
	assert_int_equal(hello_parse(buf_str(&b), &h), HELLO_DONE);
	check_good(&h);
	buf_free(&extensions);
	buf_free(&b);
}

/* F53 */
static void a_hello_without_a_name_says_so(void **state)
{
	struct hello h;

	(void)state;
	assert_int_equal(parse(STR_NONE, &h), HELLO_DONE);
	assert_false(h.has_sni || h.sni_bad);
	assert_int_equal(parse(STR(""), &h), HELLO_DONE);
	assert_false(h.has_sni || h.sni_bad);
	assert_int_equal(h.alpn_n, 0);
}

/* F11: the name is given as it came, with its length. */
static void a_nul_in_the_name_does_not_end_it(void **state)
{
	struct hello h;

	(void)state;
	assert_int_equal(parse(STR("\0\0\0\x0c\0\x0a\0\0\x07" "a\0.test"), &h), HELLO_DONE);
	assert_true(h.has_sni);
	assert_int_equal(h.sni_n, 7);
	assert_memory_equal(h.sni, "a\0.test", 8);
}

static void names_that_are_none_are_told(void **state)
{
	struct hello h;

	(void)state;
	/* two host names */
	assert_int_equal(parse(STR("\0\0\0\x0a\0\x08\0\0\x01" "a\0\0\x01" "b"), &h), HELLO_DONE);
	assert_true(h.has_sni && h.sni_bad);
	/* an empty one */
	assert_int_equal(parse(STR("\0\0\0\x05\0\x03\0\0\0"), &h), HELLO_DONE);
	assert_true(h.has_sni && h.sni_bad);
	/* only another type */
	assert_int_equal(parse(STR("\0\0\0\x06\0\x04\x01\0\x01" "a"), &h), HELLO_DONE);
	assert_true(h.has_sni && h.sni_bad);
}

static void put_long_name(struct buf *b, size_t n)
{
	put_u16(b, 0);
	put_u16(b, n + 5);
	put_u16(b, n + 3);
	buf_put_c(b, 0);
	put_u16(b, n);
	for (size_t i = 0; i < n; i++)
		buf_put_c(b, 'a');
}

static void a_name_over_255_bytes_is_bad(void **state)
{
	struct hello h;
	struct buf b;

	(void)state;
	buf_init(&b, 4096);
	put_long_name(&b, 255);
	assert_int_equal(parse(buf_str(&b), &h), HELLO_DONE);
	assert_false(h.sni_bad);
	assert_int_equal(h.sni_n, 255);
	b.n = 0;
	put_long_name(&b, 256);
	assert_int_equal(parse(buf_str(&b), &h), HELLO_DONE);
	assert_true(h.sni_bad);
	assert_int_equal(h.sni_n, 0);
	buf_free(&b);
}

static void structures_must_be_filled_exactly(void **state)
{
	static const struct str bad[] = {
		BYTES("\0\0\0\x01\0"),				/* no list length */
		BYTES("\0\0\0\x02\0\0"),				/* an empty name list */
		BYTES("\0\0\0\x0b\0\x08\0\0\x06" "a.test"),		/* list shorter than the extension */
		BYTES("\0\0\0\x0b\0\x0a\0\0\x06" "a.test"),		/* list longer */
		BYTES("\0\0\0\x0b\0\x09\0\0\x07" "a.test"),		/* name longer */
		BYTES("\0\0\0\x0c\0\x09\0\0\x06" "a.test"),		/* extension longer than what is there */
		BYTES("\0\x10\0\x02\0\0"),				/* no protocol */
		BYTES("\0\x10\0\x03\0\x01\0"),			/* an empty protocol */
		BYTES("\0\x10\0\x04\0\x02\x02h"),			/* protocol longer than its list */
		BYTES("\0\x17\0\0\0\x17\0\0"),			/* an extension twice */
		BYTES("\0\x17\0"),					/* half an extension */
		BYTES("\0\x17\0\x01"),
	};
	struct hello h;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(parse(bad[i], &h), HELLO_BAD);
}

static void every_byte_cut_off_the_message_is_bad(void **state)
{
	struct buf message, b;
	struct hello h;

	(void)state;
	buf_init(&message, 4096);
	buf_init(&b, 4096);
	put_message(&message, STR(GOOD));
	for (size_t n = 4; n < message.n; n++) {
		size_t body = n - 4;

		/* Where the extensions end is a whole hello (without any). */
		if (body == 2 + 32 + 1 + 2 + 2 + 1 + 1)
			continue;
		message.p[2] = (char)(body >> 8);
		message.p[3] = (char)body;
		b.n = 0;
		put_records(&b, str_n(message.p, n), 16384);
		assert_int_equal(hello_parse(buf_str(&b), &h), HELLO_BAD);
	}
	buf_free(&message);
	buf_free(&b);
}

static void what_is_no_tls_is_told_by_its_first_byte(void **state)
{
	struct hello h;

	(void)state;
	assert_int_equal(hello_parse(STR(""), &h), HELLO_MORE);
	assert_int_equal(hello_parse(STR("G"), &h), HELLO_NOT_TLS);
	assert_int_equal(hello_parse(STR("\x80\x2e\x01"), &h), HELLO_NOT_TLS);
	assert_int_equal(hello_parse(STR("\x15\x03\x01\0\x02"), &h), HELLO_NOT_TLS);
	assert_int_equal(hello_parse(STR("\x16"), &h), HELLO_MORE);
}

static void record_headers_are_checked_as_they_come(void **state)
{
	struct hello h;

	(void)state;
	assert_int_equal(hello_parse(STR("\x16\x02"), &h), HELLO_BAD);
	assert_int_equal(hello_parse(STR("\x16\x03\0"), &h), HELLO_BAD);
	assert_int_equal(hello_parse(STR("\x16\x03\x04"), &h), HELLO_BAD);
	assert_int_equal(hello_parse(STR("\x16\x03\x03"), &h), HELLO_MORE);
	/* empty, and over 2^14 */
	assert_int_equal(hello_parse(STR("\x16\x03\x01\0\0"), &h), HELLO_BAD);
	assert_int_equal(hello_parse(STR("\x16\x03\x01\x40\x01"), &h), HELLO_BAD);
	assert_int_equal(hello_parse(STR("\x16\x03\x01\x40\0"), &h), HELLO_MORE);
	/* a message that is no ClientHello, then a record that is none of a handshake */
	assert_int_equal(hello_parse(STR("\x16\x03\x01\0\x05\x02"), &h), HELLO_BAD);
	assert_int_equal(hello_parse(STR("\x16\x03\x01\0\x01\x01\x17"), &h), HELLO_BAD);
}

static void another_message_in_the_hellos_record_is_bad(void **state)
{
	struct buf message, b;
	struct hello h;

	(void)state;
	buf_init(&message, 4096);
	buf_init(&b, 4096);
	put_message(&message, STR(GOOD));
	buf_put_c(&message, 1);
	put_records(&b, buf_str(&message), 16384);
	assert_int_equal(hello_parse(buf_str(&b), &h), HELLO_BAD);
	buf_free(&message);
	buf_free(&b);
}

static void a_hello_over_the_limit_is_too_long(void **state)
{
	struct hello h;
	struct buf b;

	(void)state;
	/* said at once by its length */
	assert_int_equal(hello_parse(STR("\x16\x03\x01\x40\0\x01\x01\0\0"), &h), HELLO_TOO_LONG);
	/* within its length, but not with its record headers */
	buf_init(&b, 1u << 18);
	buf_put(&b, "\x16\x03\x01\x40\0\x01\0\xff\xf0", 9);
	for (size_t i = 0; i < HELLO_MAX; i++)
		buf_put_c(&b, 0);
	for (size_t i = 1; i < 4; i++)
		memcpy(b.p + i * (5 + 16384), i < 3 ? "\x16\x03\x01\x40\0" : "\x16\x03\x01\x3f\xf4", 5);
	assert_int_equal(hello_parse(str_n(b.p, HELLO_MAX - 1), &h), HELLO_MORE);
	assert_int_equal(hello_parse(str_n(b.p, HELLO_MAX), &h), HELLO_TOO_LONG);
	assert_int_equal(hello_parse(buf_str(&b), &h), HELLO_TOO_LONG);
	buf_free(&b);
}

static void more_records_than_the_limit_are_bad(void **state)
{
	struct hello h;
	struct buf b;

	(void)state;
	buf_init(&b, 1u << 18);
	put_records(&b, STR("\x01\0\x10\0"), 1);
	for (size_t i = 4; i < HELLO_RECORDS_MAX; i++)
		put_records(&b, STR("x"), 1);
	assert_int_equal(hello_parse(buf_str(&b), &h), HELLO_MORE);
	put_records(&b, STR("x"), 1);
	assert_int_equal(hello_parse(buf_str(&b), &h), HELLO_BAD);
	buf_free(&b);
}

static void protocols_for_which_there_is_no_room_are_left_out(void **state)
{
	struct hello h;
	struct buf b;

	(void)state;
	buf_init(&b, 4096);
	put_u16(&b, 16);
	put_u16(&b, 2 + 256 + 3);
	put_u16(&b, 256 + 3);
	buf_put_c(&b, (char)255);
	for (size_t i = 0; i < 255; i++)
		buf_put_c(&b, 'x');
	buf_put(&b, "\x02h2", 3);
	assert_int_equal(parse(buf_str(&b), &h), HELLO_DONE);
	assert_int_equal(h.alpn_n, HELLO_ALPN_MAX);
	assert_int_equal(h.alpn[0], 255);
	buf_free(&b);
}

static void encrypted_client_hello_is_seen(void **state)
{
	struct hello h;

	(void)state;
	assert_int_equal(parse(STR("\xfe\x0d\0\x01x"), &h), HELLO_DONE);
	assert_true(h.ech);
}

static void an_alert_is_a_fatal_record(void **state)
{
	uint8_t alert[HELLO_ALERT_LEN];

	(void)state;
	hello_alert(112, alert);
	assert_memory_equal(alert, "\x15\x03\x03\0\x02\x02\x70", HELLO_ALERT_LEN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hello_is_read_however_records_and_segments_cut_it),
		cmocka_unit_test(a_real_post_quantum_hello_is_read_wherever_it_is_cut),
		cmocka_unit_test(padding_of_16_kilobytes_is_no_trouble),
		cmocka_unit_test(a_hello_without_a_name_says_so),
		cmocka_unit_test(a_nul_in_the_name_does_not_end_it),
		cmocka_unit_test(names_that_are_none_are_told),
		cmocka_unit_test(a_name_over_255_bytes_is_bad),
		cmocka_unit_test(structures_must_be_filled_exactly),
		cmocka_unit_test(every_byte_cut_off_the_message_is_bad),
		cmocka_unit_test(what_is_no_tls_is_told_by_its_first_byte),
		cmocka_unit_test(record_headers_are_checked_as_they_come),
		cmocka_unit_test(another_message_in_the_hellos_record_is_bad),
		cmocka_unit_test(a_hello_over_the_limit_is_too_long),
		cmocka_unit_test(more_records_than_the_limit_are_bad),
		cmocka_unit_test(protocols_for_which_there_is_no_room_are_left_out),
		cmocka_unit_test(encrypted_client_hello_is_seen),
		cmocka_unit_test(an_alert_is_a_fatal_record),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
