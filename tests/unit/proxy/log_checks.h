/* A log's file, held against its chain. */
#ifndef TESTS_LOG_CHECKS_H
#define TESTS_LOG_CHECKS_H

#include "proxy/log_verify.h"

struct log_checked {
	enum err e;
	uint64_t bad_line;
	struct log_verdict v;
};

/* @path alone. */
static inline struct log_checked check_file(const char *path, const char *must_have)
{
	char *paths[1] = { (char *)(uintptr_t)path };
	struct log_question q = { .must_have = must_have };
	struct log_checked c;

	assert_int_equal(log_files_open_list(paths, 1, &q.files), OK);
	c.e = log_verify(&q, &c.v);
	c.bad_line = log_files_line(q.files);
	log_files_close(q.files);
	return c;
}

#endif
