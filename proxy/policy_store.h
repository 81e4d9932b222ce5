/* proxy/policy_store.h - the sources of the policies that a log's records name, kept beside it
 *
 * A record names the policy in force by its digest. LOG.policies/ has, under that name, the file
 * that was compiled to it.
 *
 * Ownership   borrows all; *fd of policy_store_find() is the caller's.
 * Blocking    file system calls.
 * Failure     ERR_SYSTEM with errno; ERR_SYNTAX: no digest (lower-case hex); ERR_LIMIT: over
 *             POLICY_STORE_BYTES, or a path over PATH_MAX. ERR_NOTFOUND: no such policy was kept;
 *             ERR_FULL: the beginning of a digest is that of several.
 * Limits      POLICY_STORE_MAX files: those that were put in longest ago go first.
 * Tests       tests/unit/proxy/test_policy_store.c
 */
#ifndef PROXY_POLICY_STORE_H
#define PROXY_POLICY_STORE_H

#include "conf/err.h"
#include "conf/str.h"

#define POLICY_STORE_SUFFIX ".policies"
#define POLICY_STORE_MAX 256
#define POLICY_STORE_BYTES (64u << 20)
#define POLICY_DIGEST_HEX 64
#define POLICY_PREFIX_MIN 4

/* One that is there already is as good as put in now. ERR_NOTFOUND: it is not. */
must_use enum err policy_store_renew(const char *log_path, struct str digest);
/* @source: a file, read from its beginning. One that is there already is as good as put in now. */
must_use enum err policy_store_put(const char *log_path, struct str digest, int source);
/* @digest: or its beginning, POLICY_PREFIX_MIN digits at least. */
must_use enum err policy_store_find(const char *log_path, struct str digest, int *fd);

#endif
