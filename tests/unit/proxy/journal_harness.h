/* tests/unit/proxy/journal_harness.h - a journal, one worker's ring, and the file that it writes
 *
 * setup() and teardown() make and free all of it for each case; teardown() holds the file against
 * its chain, whatever the case did.
 */
#ifndef JOURNAL_HARNESS_H
#define JOURNAL_HARNESS_H

#include <fcntl.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/journal.h"
#include "proxy/log_read.h"
#include "tests/unit/proxy/log_checks.h"

struct fixture {
	char path[64];
	int fd;
	struct log_file *log;
	struct journal *j;
	struct ring *worker;
	struct ring_fds kept;
	struct log_reader *reader;
};

static const struct journal_config plain;

static inline struct ring_fds dup_fds(const struct ring_fds *f)
{
	return (struct ring_fds){ dup(f->memory), dup(f->wake), dup(f->room) };
}

static inline void add_worker(struct fixture *f, struct ring_fds fds)
{
	struct journal_writer w = { .role = ROLE_WORKER, .sandbox = STR("box"), .policy = STR("digest") };
	size_t number;

	assert_int_equal(journal_add(f->j, &fds, &w, &number), OK);
}

static inline int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct ring_fds w;
	int fd;

	snprintf(f->path, sizeof(f->path), "/tmp/exeat-journal-XXXXXX");
	fd = mkstemp(f->path);
	fcntl(fd, F_SETFL, O_APPEND);
	f->fd = open(f->path, O_RDONLY);
	assert_int_equal(log_file_open(fd, &f->log), OK);
	assert_int_equal(journal_new(f->log, &plain, &f->j), OK);
	assert_int_equal(ring_create(&f->kept), OK);
	w = dup_fds(&f->kept);
	assert_int_equal(ring_open_writer(&w, &f->worker), OK);
	add_worker(f, dup_fds(&f->kept));
	assert_int_equal(log_reader_open(f->fd, &f->reader), OK);
	*state = f;
	return 0;
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;

	/* Whatever a test did: the file is a chain. */
	assert_int_equal(check_file(f->path, NULL).e, OK);
	log_reader_close(f->reader);
	journal_free(f->j);
	log_file_close(f->log);
	ring_close(f->worker);
	close(f->kept.memory);
	close(f->kept.wake);
	close(f->kept.room);
	close(f->fd);
	unlink(f->path);
	free(f);
	return 0;
}

static inline void request(struct fixture *f, const char *phase, uint64_t exchange)
{
	struct record r;

	record_begin(&r, RECORD_request);
	record_str(&r, REC_phase, str_of(phase));
	record_u64(&r, REC_exchange, exchange);
	assert_int_equal(record_commit(&r, f->worker), OK);
}

static inline void dns(struct fixture *f, const char *name)
{
	struct record r;

	record_begin(&r, RECORD_dns);
	record_str(&r, REC_name, str_of(name));
	assert_int_equal(record_commit(&r, f->worker), OK);
}

static inline void batch(struct fixture *f, uint64_t now, enum journal_want all)
{
	bool more = true;

	while (more)
		assert_int_equal(journal_batch(f->j, now, all, &more), OK);
}

/* What has been counted into an eventfd. */
static inline uint64_t read_count(int fd)
{
	uint64_t n = 0;

	return read(fd, &n, sizeof(n)) == sizeof(n) ? n : 0;
}

/* The next line's member, as text; "" where there is none, NULL where there is no line. */
static inline const char *next(struct fixture *f, const char *key)
{
	static char out[256];
	struct str line;
	json_t *o, *m;

	if (log_reader_next(f->reader, &line) != OK)
		return NULL;
	o = json_loadb(line.p, line.n, JSON_ALLOW_NUL, NULL);
	assert_non_null(o);
	m = json_object_get(o, key);
	if (json_is_integer(m))
		snprintf(out, sizeof(out), "%lld", (long long)json_integer_value(m));
	else
		snprintf(out, sizeof(out), "%s", m ? json_string_value(m) : "");
	json_decref(o);
	return out;
}

#endif
