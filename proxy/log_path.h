/* proxy/log_path.h - where the audit log lies when nobody says where
 *
 * Ownership   texts are written to the caller's room; descriptors are the caller's.
 * Blocking    file system calls.
 * Failure     ERR_NOTFOUND: neither XDG_STATE_HOME nor HOME is an absolute path. ERR_LIMIT: a path
 *             over PATH_MAX. ERR_SYSTEM with errno.
 * Tests       tests/unit/proxy/test_log_path.c
 */
#ifndef PROXY_LOG_PATH_H
#define PROXY_LOG_PATH_H

#include <stddef.h>

#include "conf/err.h"

/* $XDG_STATE_HOME/exeat/audit.jsonl, else ~/.local/state/exeat/audit.jsonl. */
must_use enum err log_default_path(char *out, size_t n);
/* For appending by the recorder: made where it is not there, with its folders, for the owner only.
 */
must_use enum err log_path_open(const char *path, int *fd);

#endif
