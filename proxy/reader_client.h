/* proxy/reader_client.h - has a policy file compiled by the reader, a process that can do nothing
 * else
 *
 * reader_compile() is for commands, which wait for it; the rest is what it is made of, for who has
 * an event loop of its own.
 *
 * Ownership   *memfd_out is the caller's to close: sealed, and to be validated by policy_map().
 * Blocking    until the reader is done, READER_WAIT_S at most.
 * Failure     false; one line on stderr says why, below the reader's own diagnostics of the file.
 * Limits      POLICY_FILE_MAX bytes.
 * Tests       tests/unit/proxy/test_reader_client.c, tests/policy/run.sh
 */
#ifndef PROXY_READER_CLIENT_H
#define PROXY_READER_CLIENT_H

#include <stdbool.h>

#include "conf/buf.h"
#include "proxy/settings.h"
#include "sandbox/channel.h"

#define READER_WAIT_S 60

/* @settings NULL: which secrets exist is not known, so bindings are not checked and a note says so.
 * @warnings: how many were printed; NULL: nothing is said of a policy that loads.
 * @diagnostics (or NULL): gets the beginning of what the reader has printed. */
bool reader_compile(const char *file, const struct settings *settings, int *memfd_out,
		    unsigned *warnings, struct buf *diagnostics);
/* The file, or -1 with a line in @why. */
int reader_open(const char *file, struct buf *why);
/* The question; @fds: the file, and a memfd that can be sealed, for the image. */
must_use enum err reader_ask(struct channel *c, const char *file, const struct settings *settings,
			     bool quiet, const int fds[2]);
/* Can the image not be changed any more? */
bool reader_image_sealed(int memfd);

#endif
