/* proxy/log_key.h - the key that a log's checkpoints are signed with, in files beside it
 *
 * PATH.key has the private key, for root alone; PATH.pub the public one, for whoever verifies. Both
 * are made where they are not there.
 *
 * Ownership   the descriptor is the caller's.
 * Blocking    file system calls.
 * Failure     ERR_DENIED: PATH.key is not its owner's alone, or not ours; ERR_SYNTAX: it is no key;
 *             ERR_LIMIT: a path over PATH_MAX; ERR_SYSTEM with errno; ERR_CRYPTO.
 * Tests       tests/unit/proxy/test_log_key.c
 */
#ifndef PROXY_LOG_KEY_H
#define PROXY_LOG_KEY_H

#include "conf/err.h"

#define LOG_KEY_SUFFIX ".key"
#define LOG_PUB_SUFFIX ".pub"

/* @fd: the private key's file, opened for reading. */
must_use enum err log_key_open(const char *log_path, int *fd);

#endif
