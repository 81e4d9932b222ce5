/* proxy/log_rotate.h - puts an audit log's full file aside, and begins its successor
 *
 * The recorder has ended the file with a line of kind "rotated"; who does the rest needs the right
 * to make files. Whoever asks gets the file that is to be written from now on, also where another
 * has been faster.
 *
 * Ownership   the descriptor is the caller's.
 * Blocking    file system calls; for the file's lock at most ROTATE_LOCK_MS.
 * Failure     ERR_SYSTEM with errno (EEXIST: what the file would be called is there already, and is
 *             not touched); the log's name stands for what it did before, which may be written.
 * Tests       tests/unit/proxy/test_log_rotate.c
 */
#ifndef PROXY_LOG_ROTATE_H
#define PROXY_LOG_ROTATE_H

#include "conf/err.h"

#define ROTATE_LOCK_MS 2000

/* @keep: so many files stay that were put aside, the oldest go; 0: all stay. @fd: opened for
 * reading and appending. */
must_use enum err log_rotate(const char *path, unsigned keep, int *fd);

#endif
