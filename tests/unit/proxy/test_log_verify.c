#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "conf/json.h"
#include "proxy/log_write.h"
#include "tests/unit/proxy/log_checks.h"

#define LINES 5

/* A good log, and copies of it to spoil. */
static struct buf good;
static size_t starts[LINES + 1];
static char last_hash[LOG_HASH_HEX + 1];

static void name_field(void *arg, struct json *json)
{
	json_put_str(json, "name", str_n(arg, 6));
}

static uint64_t bad_line;

static enum err verify_bytes(struct str bytes, const char *must_have, struct log_verdict *v)
{
	int fd = memfd_create("log", MFD_CLOEXEC);
	struct log_checked c;
	char path[32];

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes.p, bytes.n), bytes.n);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	c = check_file(path, must_have);
	close(fd);
	*v = c.v;
	bad_line = c.bad_line;
	return c.e;
}

static int make_log(void **state)
{
	char path[] = "/tmp/exeat-verify-XXXXXX";
	struct log_file *l;
	struct log_verdict v;
	int fd = mkstemp(path), rd = open(path, O_RDONLY);
	char bytes[4096];
	ssize_t n;

	(void)state;
	fcntl(fd, F_SETFL, O_APPEND);
	assert_int_equal(log_file_open(fd, &l), OK);
	assert_int_equal(log_batch_begin(l), OK);
	for (unsigned i = 0; i < LINES; i++) {
		/* A NUL in a text is a legal thing to have been asked for. */
		struct log_line line = { .time_us = 1790000000000000 + i, .kind = "dns", .sandbox = STR("box"),
					 .fields = name_field, .arg = (void *)(uintptr_t)"a\0test" };

		assert_int_equal(log_batch_line(l, &line), OK);
	}
	assert_int_equal(log_batch_end(l), OK);
	log_file_close(l);
	n = read(rd, bytes, sizeof(bytes));
	close(rd);
	unlink(path);
	assert_true(n > 0);
	buf_init(&good, 65536);
	buf_put(&good, bytes, (size_t)n);
	for (size_t i = 0, k = 1; i < good.n; i++)
		if (good.p[i] == '\n')
			starts[k++] = i + 1;
	assert_int_equal(verify_bytes(buf_str(&good), NULL, &v), OK);
	memcpy(last_hash, v.last_hash, sizeof(last_hash));
	return 0;
}

static int free_log(void **state)
{
	(void)state;
	buf_free(&good);
	return 0;
}

static void a_good_log_is_good_and_says_how_long_it_is(void **state)
{
	struct log_verdict v;

	(void)state;
	assert_int_equal(verify_bytes(buf_str(&good), NULL, &v), OK);
	assert_int_equal(v.lines, LINES);
	assert_int_equal(strlen(v.last_hash), LOG_HASH_HEX);
	assert_int_equal(verify_bytes(STR_NONE, NULL, &v), OK);
	assert_int_equal(v.lines, 0);
}

/* The last line is held by its hash alone, which was noted elsewhere. */
static void a_change_of_any_byte_of_any_line_is_found(void **state)
{
	static const unsigned char flips[] = { 0x01, 0x20, 0x80 };

	(void)state;
	for (size_t at = 0; at < good.n; at++)
		for (size_t k = 0; k < sizeof(flips); k++) {
			struct log_verdict v;
			enum err e;

			good.p[at] = (char)((unsigned char)good.p[at] ^ flips[k]);
			e = verify_bytes(buf_str(&good), last_hash, &v);
			good.p[at] = (char)((unsigned char)good.p[at] ^ flips[k]);
			assert_int_not_equal(e, OK);
			if (at < starts[LINES - 1])
				assert_int_equal(e, ERR_SYNTAX);
			/* It is the line itself or, where only the hash tells, the one after it. */
			if (e == ERR_SYNTAX) {
				size_t line = 0;

				while (starts[line + 1] <= at)
					line++;
				assert_in_range(bad_line, line + 1, line + 2);
				assert_true(v.why[0] != '\0');
			}
		}
}

static void a_removed_line_is_found(void **state)
{
	(void)state;
	for (unsigned gone = 0; gone < LINES; gone++) {
		struct buf b;
		struct log_verdict v;

		buf_init(&b, 65536);
		buf_put(&b, good.p, starts[gone]);
		buf_put(&b, good.p + starts[gone + 1], good.n - starts[gone + 1]);
		assert_int_equal(verify_bytes(buf_str(&b), last_hash, &v), gone == LINES - 1 ? ERR_NOTFOUND
											      : ERR_SYNTAX);
		if (gone < LINES - 1)
			assert_int_equal(bad_line, gone + 1);
		buf_free(&b);
	}
}

static void swapped_lines_are_found(void **state)
{
	(void)state;
	for (unsigned i = 0; i + 1 < LINES; i++) {
		struct buf b;
		struct log_verdict v;

		buf_init(&b, 65536);
		buf_put(&b, good.p, starts[i]);
		buf_put(&b, good.p + starts[i + 1], starts[i + 2] - starts[i + 1]);
		buf_put(&b, good.p + starts[i], starts[i + 1] - starts[i]);
		buf_put(&b, good.p + starts[i + 2], good.n - starts[i + 2]);
		assert_int_equal(verify_bytes(buf_str(&b), NULL, &v), ERR_SYNTAX);
		assert_int_equal(bad_line, i + 1);
		buf_free(&b);
	}
}

static void an_added_line_is_found(void **state)
{
	(void)state;
	for (unsigned i = 0; i <= LINES; i++) {
		struct buf b;
		struct log_verdict v;

		buf_init(&b, 65536);
		buf_put(&b, good.p, starts[i]);
		buf_printf(&b, "{\"seq\":%u,\"prev\":\"%s\",\"time\":\"2026-01-01T00:00:00.000000Z\",\"kind\":"
			   "\"dns\"}\n", i + 1, last_hash);
		buf_put(&b, good.p + starts[i], good.n - starts[i]);
		/* At the very end it is a line like any other: who has the hash can add. */
		assert_int_equal(verify_bytes(buf_str(&b), NULL, &v), i == LINES ? OK : ERR_SYNTAX);
		buf_free(&b);
	}
}

static void a_line_without_an_end_is_found(void **state)
{
	struct log_verdict v;

	(void)state;
	assert_int_equal(verify_bytes(str_n(good.p, good.n - 1), NULL, &v), ERR_SYNTAX);
	assert_int_equal(bad_line, LINES);
	assert_non_null(strstr(v.why, "no end"));
}

static void a_line_beyond_the_limit_is_found(void **state)
{
	char *big = malloc(LOG_LINE_MAX + 2);
	struct log_verdict v;

	(void)state;
	memset(big, ' ', LOG_LINE_MAX + 2);
	assert_int_equal(verify_bytes(str_n(big, LOG_LINE_MAX + 2), NULL, &v), ERR_SYNTAX);
	assert_non_null(strstr(v.why, "longer"));
	free(big);
}

static void what_is_no_line_of_ours_says_why(void **state)
{
#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"
#define HEAD "{\"seq\":1,\"prev\":\"" ZEROS "\""
#define TIME ",\"time\":\"2026-01-01T00:00:00.000000Z\""
	static const struct {
		const char *line, *why;
	} cases[] = {
		{ "\n", "not JSON" },
		{ "[]\n", "not a JSON object" },
		{ "{\"a\":1}\n", "seq" },
		{ "{\"seq\":\"1\"}\n", "seq" },
		{ "{\"seq\":2}\n", "its number is 2, not 1" },
		{ "{\"seq\":1,\"prev\":\"00\"}\n", "chain" },
		{ HEAD ",\"time\":\"yesterday\",\"kind\":\"dns\"}\n", "RFC 3339" },
		{ HEAD TIME "}\n", "no kind" },
		{ HEAD TIME ",\"kind\":\"dns\",\"kind\":\"dns\"}\n", "not JSON" },
		{ HEAD TIME ",\"x\":1,\"kind\":\"dns\"}\n", "first members" },
		{ " " HEAD TIME ",\"kind\":\"dns\"}\n", "first members" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct log_verdict v;

		assert_int_equal(verify_bytes(str_of(cases[i].line), NULL, &v), ERR_SYNTAX);
		assert_int_equal(bad_line, 1);
		assert_non_null(strstr(v.why, cases[i].why));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_good_log_is_good_and_says_how_long_it_is),
		cmocka_unit_test(a_change_of_any_byte_of_any_line_is_found),
		cmocka_unit_test(a_removed_line_is_found),
		cmocka_unit_test(swapped_lines_are_found),
		cmocka_unit_test(an_added_line_is_found),
		cmocka_unit_test(a_line_without_an_end_is_found),
		cmocka_unit_test(a_line_beyond_the_limit_is_found),
		cmocka_unit_test(what_is_no_line_of_ours_says_why),
	};

	return cmocka_run_group_tests(tests, make_log, free_log);
}
