/* proxy/log_files.h - the files of one audit log, in the order in which they were written
 *
 * A log is the file that its name stands for and those that were put aside beside it. Their lines
 * are read as one sequence. Files that are put aside or removed meanwhile do not disturb that: what
 * was the last file when it was opened is the last.
 *
 * Ownership   log_files_open() makes a struct for log_files_close(). Lines are valid until the next
 *             call.
 * Blocking    reads files; waits for the lock that a writer holds while it writes.
 * Failure     ERR_SYSTEM with errno, the file is log_files_name(). log_files_next(): ERR_AGAIN
 *             at the end of the last file; ERR_TRUNCATED: the file ends inside a line;
 *             ERR_LIMIT: a line that is too long.
 * Limits      LOG_FILES_MAX files that were put aside.
 * Tests       tests/unit/proxy/test_log_files.c
 */
#ifndef PROXY_LOG_FILES_H
#define PROXY_LOG_FILES_H

#include "conf/err.h"
#include "proxy/log_line.h"

#define LOG_FILES_MAX 4096

struct log_files;

/* @path, and what was put aside of it. */
must_use enum err log_files_open(const char *path, struct log_files **out);
/* @paths as they are given, in that order. */
must_use enum err log_files_open_list(char **paths, size_t n, struct log_files **out);
void log_files_close(struct log_files *f);
size_t log_files_count(const struct log_files *f);
/* Its path, of @number 0 up to the count. */
const char *log_files_path(const struct log_files *f, size_t number);
must_use enum err log_files_next(struct log_files *f, struct str *line);
/* Of the line that came last, or of the one that could not be read. */
const char *log_files_name(const struct log_files *f);
uint64_t log_files_line(const struct log_files *f);

/* The names in @dir of what was put aside of @name, in order; for log_names_free(). */
struct log_names {
	char **name;
	size_t n;
};
must_use enum err log_names_aside(int dir, struct str name, struct log_names *out);
void log_names_free(struct log_names *names);

#endif
