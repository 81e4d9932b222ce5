/* tests/unit/proxy/said.h - what the code under test writes to stderr, as text
 *
 * Ownership   said_begin() takes stderr over, said_end() gives it back and fills @out.
 * Blocking    no.       Failure     fails the test.
 * Limits      SAID_MAX bytes are kept.
 * Tests       used by the tests beside it
 */
#ifndef TESTS_UNIT_PROXY_SAID_H
#define TESTS_UNIT_PROXY_SAID_H

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define SAID_MAX 8192

struct said {
	int memory, stderr_was;
};

static inline struct said said_begin(void)
{
	struct said s = { memfd_create("said", MFD_CLOEXEC), dup(STDERR_FILENO) };

	assert_true(s.memory >= 0 && s.stderr_was >= 0);
	fflush(stderr);
	assert_int_equal(dup2(s.memory, STDERR_FILENO), STDERR_FILENO);
	return s;
}

static inline void said_end(struct said s, char out[SAID_MAX])
{
	ssize_t n;

	fflush(stderr);
	n = pread(s.memory, out, SAID_MAX - 1, 0);
	out[n > 0 ? n : 0] = '\0';
	dup2(s.stderr_was, STDERR_FILENO);
	close(s.stderr_was);
	close(s.memory);
}

#endif
