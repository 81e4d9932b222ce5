/* proxy/reader_client.h - has a policy file compiled by the reader, a process that can do nothing
 * else
 *
 * A policy file is read once, into memory that cannot be changed any more: what is compiled of it
 * is what is kept of it, and nobody after that waits for the file's disk.
 *
 * reader_compile() is for who can wait for it; the rest is what it is made of, for who has an event
 * loop of its own.
 *
 * Ownership   *memfd_out is the caller's to close: sealed, and to be validated by policy_map(). So
 *             is a source.
 * Blocking    reader_source() for as long as the file's disk does; the rest until the reader is
 *             done, READER_WAIT_S at most.
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

struct reader_job {
	const char *file;		/* its name, which is told, and compiled in */
	int source;
	/* NULL: which secrets exist is not known: bindings are not checked, and a note says so. */
	const struct settings *settings;
	const char *programs;		/* the roles' folder; NULL: that of the running program */
};

/* The file's bytes, sealed; -1: a line in @why, or on stderr. */
int reader_source(const char *file, struct buf *why);
int reader_source_told(const char *file);
/* @warnings: how many were printed; NULL: nothing is said of a policy that loads.
 * @diagnostics (or NULL): gets the beginning of what the reader has printed. */
bool reader_compile(const struct reader_job *job, int *memfd_out, unsigned *warnings,
		    struct buf *diagnostics);
/* The question; @fds: the file, and a memfd that can be sealed, for the image. */
must_use enum err reader_ask(struct channel *c, const char *file, const struct settings *settings,
			     bool quiet, const int fds[2]);
/* Can an image, or a source, not be changed any more? */
bool reader_sealed(int memfd);

#endif
