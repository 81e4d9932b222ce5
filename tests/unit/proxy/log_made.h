/* A log in a folder of its own, to put lines into, to rotate and to verify. */
#ifndef TESTS_LOG_MADE_H
#define TESTS_LOG_MADE_H

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/json.h"
#include "proxy/log_rotate.h"
#include "proxy/log_verify.h"
#include "proxy/log_write.h"

struct made_log {
	char dir[32], path[64];
	uint64_t time_us;
};

static inline void made_open(struct made_log *m)
{
	snprintf(m->dir, sizeof(m->dir), "/tmp/exeat-made-XXXXXX");
	assert_non_null(mkdtemp(m->dir));
	snprintf(m->path, sizeof(m->path), "%s/audit.jsonl", m->dir);
	m->time_us = 1790000000000000;
}

static inline void made_close(struct made_log *m)
{
	DIR *d = opendir(m->dir);
	struct dirent *entry;

	while ((entry = readdir(d)) != NULL)
		unlinkat(dirfd(d), entry->d_name, 0);
	closedir(d);
	assert_int_equal(rmdir(m->dir), 0);
}

static inline struct log_file *made_file(struct made_log *m)
{
	int fd = open(m->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	struct log_file *l;

	assert_true(fd >= 0);
	assert_int_equal(log_file_open(fd, &l), OK);
	return l;
}

static inline void made_put(struct made_log *m, struct log_file *l, const char *kind)
{
	struct log_line line = { .time_us = m->time_us, .kind = kind };

	m->time_us += 1000000;
	assert_int_equal(log_batch_begin(l), OK);
	assert_int_equal(log_batch_line(l, &line), OK);
	assert_int_equal(log_batch_end(l), OK);
}

/* @n lines, and that the file has ended. */
static inline void made_full(struct made_log *m, unsigned n)
{
	struct log_file *l = made_file(m);

	while (n--)
		made_put(m, l, "dns");
	made_put(m, l, LOG_KIND_ROTATED);
	log_file_close(l);
}

static inline enum err made_verify(struct made_log *m, struct log_verdict *v, size_t *files)
{
	struct log_question q = { 0 };
	enum err e;

	assert_int_equal(log_files_open(m->path, &q.files), OK);
	e = log_verify(&q, v);
	*files = log_files_count(q.files);
	log_files_close(q.files);
	return e;
}

static inline size_t made_entries(struct made_log *m)
{
	DIR *d = opendir(m->dir);
	size_t n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

#endif
