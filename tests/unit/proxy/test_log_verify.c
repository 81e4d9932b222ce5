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
#include "tests/unit/proxy/log_made.h"

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

/* ---- several files, keys, checkpoints ---- */

#define PRIVATE "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n" \
		"-----END PRIVATE KEY-----\n"
#define PUBLIC "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n" \
	       "-----END PUBLIC KEY-----\n"

static struct log_signer *open_signer(void)
{
	int fd = memfd_create("key", MFD_CLOEXEC);
	struct log_signer *s;

	assert_int_equal(write(fd, PRIVATE, sizeof(PRIVATE) - 1), sizeof(PRIVATE) - 1);
	assert_int_equal(log_signer_open(fd, &s), OK);
	return s;
}

static void write_file(const char *path, const char *text, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_int_equal(write(fd, text, n), n);
	close(fd);
}

struct signed_line {
	struct log_signer *signer;
	struct log_file *l;
};

static void checkpoint_fields(void *arg, struct json *json)
{
	struct signed_line *s = arg;
	struct log_place place = log_next_place(s->l);
	char signature[LOG_SIGNATURE_HEX + 1];

	assert_int_equal(log_sign(s->signer, place.seq, place.prev, signature), OK);
	json_put_str(json, "key", str_of(log_signer_id(s->signer)));
	json_put_str(json, "signature", str_of(signature));
}

static void put_checkpoint(struct made_log *m, struct log_file *l, struct log_signer *signer)
{
	struct signed_line arg = { signer, l };
	struct log_line line = { .time_us = m->time_us, .kind = "checkpoint", .fields = checkpoint_fields,
				 .arg = &arg };

	assert_int_equal(log_batch_begin(l), OK);
	assert_int_equal(log_batch_line(l, &line), OK);
	assert_int_equal(log_batch_end(l), OK);
}

struct world {
	struct made_log m;
	struct log_signer *signer;
	struct log_keys *keys;
	char kept[80];
};

/* dns, checkpoint, dns, checkpoint, rotated | continued, dns, checkpoint. The second checkpoint is
 * kept elsewhere, and the last one. */
static void make_world(struct world *w)
{
	char pub[80], line[4096];
	struct log_file *l;
	struct log_files *files;
	struct str text;
	int fd, kept;

	made_open(&w->m);
	w->signer = open_signer();
	snprintf(pub, sizeof(pub), "%s.pub", w->m.path);
	snprintf(w->kept, sizeof(w->kept), "%s.kept", w->m.path);
	write_file(pub, PUBLIC, sizeof(PUBLIC) - 1);
	assert_int_equal(log_keys_open(pub, &w->keys), OK);
	l = made_file(&w->m);
	for (unsigned i = 0; i < 2; i++) {
		made_put(&w->m, l, "dns");
		put_checkpoint(&w->m, l, w->signer);
	}
	made_put(&w->m, l, LOG_KIND_ROTATED);
	assert_int_equal(log_rotate(w->m.path, 0, &fd), OK);
	log_file_switch(l, fd);
	made_put(&w->m, l, "dns");
	put_checkpoint(&w->m, l, w->signer);
	log_file_close(l);
	kept = open(w->kept, O_WRONLY | O_CREAT, 0600);
	assert_int_equal(log_files_open(w->m.path, &files), OK);
	for (unsigned seq = 1; log_files_next(files, &text) == OK; seq++)
		if (seq == 4 || seq == 8) {
			int n = snprintf(line, sizeof(line), "%.*s\n", STR_ARG(text));

			assert_int_equal(write(kept, line, (size_t)n), n);
		}
	log_files_close(files);
	close(kept);
}

static void free_world(struct world *w)
{
	log_keys_close(w->keys);
	log_signer_close(w->signer);
	made_close(&w->m);
}

static enum err ask(struct world *w, bool keys, bool kept, struct log_verdict *v, uint64_t *at)
{
	struct log_question q = { .keys = keys ? w->keys : NULL };
	struct log_kept *k = NULL;
	uint64_t bad;
	enum err e;

	if (kept)
		assert_int_equal(log_kept_open(w->kept, q.keys, &k, &bad), OK);
	q.kept = k;
	assert_int_equal(log_files_open(w->m.path, &q.files), OK);
	e = log_verify(&q, v);
	*at = log_files_line(q.files);
	log_files_close(q.files);
	log_kept_close(k);
	return e;
}

static void signatures_and_kept_checkpoints_hold_over_files(void **state)
{
	struct log_verdict v;
	struct world w;
	uint64_t at;

	(void)state;
	make_world(&w);
	assert_int_equal(ask(&w, true, true, &v, &at), OK);
	assert_int_equal(v.lines, 8);
	assert_int_equal(v.checkpoints, 3);
	assert_int_equal(v.signatures, 3);
	assert_int_equal(ask(&w, false, false, &v, &at), OK);
	assert_int_equal(v.signatures, 0);
	free_world(&w);
}

static void a_log_whose_end_was_cut_off_is_found_by_a_checkpoint_that_was_kept(void **state)
{
	struct log_verdict v;
	struct log_kept *none;
	struct world w;
	uint64_t at;

	(void)state;
	make_world(&w);
	assert_int_equal(unlink(w.m.path), 0);
	log_file_close(made_file(&w.m));
	assert_int_equal(ask(&w, true, true, &v, &at), ERR_NOTFOUND);
	assert_non_null(strstr(v.why, "checkpoint 8"));
	write_file(w.kept, "{}\n", 3);
	assert_int_equal(log_kept_open(w.kept, NULL, &none, &at), ERR_SYNTAX);
	assert_int_equal(at, 1);
	free_world(&w);
}

static void a_checkpoint_with_another_signature_is_wrong(void **state)
{
	struct log_verdict v;
	struct log_file *l;
	struct world w;
	uint64_t at;

	(void)state;
	make_world(&w);
	made_close(&w.m);
	made_open(&w.m);
	snprintf(w.kept, sizeof(w.kept), "%s.kept", w.m.path);
	l = made_file(&w.m);
	made_put(&w.m, l, "checkpoint");	/* without any */
	made_put(&w.m, l, "dns");
	log_file_close(l);
	assert_int_equal(ask(&w, true, false, &v, &at), ERR_SYNTAX);
	assert_int_equal(at, 1);
	assert_int_equal(ask(&w, false, false, &v, &at), OK);
	free_world(&w);
}

static void a_kept_checkpoint_that_has_another_line_is_found(void **state)
{
	struct log_verdict v;
	struct log_file *l;
	struct world w;
	char text[4096];
	uint64_t at;
	ssize_t n;
	int fd;

	(void)state;
	make_world(&w);
	fd = open(w.kept, O_RDONLY);
	n = read(fd, text, sizeof(text));
	close(fd);
	made_close(&w.m);
	made_open(&w.m);
	snprintf(w.kept, sizeof(w.kept), "%s.kept", w.m.path);
	write_file(w.kept, text, (size_t)n);
	l = made_file(&w.m);
	for (unsigned i = 0; i < 8; i++)
		put_checkpoint(&w.m, l, w.signer);
	log_file_close(l);
	/* Signed by the key itself, but not what was kept. */
	assert_int_equal(ask(&w, true, false, &v, &at), OK);
	assert_int_equal(ask(&w, true, true, &v, &at), ERR_SYNTAX);
	assert_int_equal(at, 4);
	assert_non_null(strstr(v.why, "kept"));
	free_world(&w);
}

static void a_file_that_is_missing_in_the_middle_is_found(void **state)
{
	struct log_verdict v;
	struct log_files *files;
	struct made_log m;
	size_t n;
	int fd;

	(void)state;
	made_open(&m);
	for (unsigned i = 0; i < 3; i++) {
		made_full(&m, 2);
		assert_int_equal(log_rotate(m.path, 0, &fd), OK);
		close(fd);
	}
	assert_int_equal(made_verify(&m, &v, &n), OK);
	assert_int_equal(log_files_open(m.path, &files), OK);
	assert_int_equal(unlink(log_files_path(files, 1)), 0);
	log_files_close(files);
	assert_int_equal(made_verify(&m, &v, &n), ERR_SYNTAX);
	assert_non_null(strstr(v.why, "removed"));
	assert_int_equal(v.lines, 3);
	made_close(&m);
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
		cmocka_unit_test(signatures_and_kept_checkpoints_hold_over_files),
		cmocka_unit_test(a_log_whose_end_was_cut_off_is_found_by_a_checkpoint_that_was_kept),
		cmocka_unit_test(a_checkpoint_with_another_signature_is_wrong),
		cmocka_unit_test(a_kept_checkpoint_that_has_another_line_is_found),
		cmocka_unit_test(a_file_that_is_missing_in_the_middle_is_found),
	};

	return cmocka_run_group_tests(tests, make_log, free_log);
}
