/* policy/request_text.h - reads a request as people write it, for policy/explain.h
 *
 *     "GET https://HOST[:PORT]/PATH", "tcp://HOST:PORT", "connect HOST:PORT" or "resolve NAME"
 *
 * "connect" is as a connection is before its first byte, "tcp" one that is to be raw TCP.
 *
 * Ownership   @out borrows from the text and from @parts, whose path the caller inits and frees.
 * Blocking    never.
 * Failure     what is wrong, as static text; NULL where it was read.
 * Limits      the path's buffer.
 * Tests       tests/unit/policy/test_request_text.c, fuzz/fuzz_params.c
 */
#ifndef POLICY_REQUEST_TEXT_H
#define POLICY_REQUEST_TEXT_H

#include "conf/buf.h"
#include "policy/explain.h"
#include "policy/name.h"

/* Where a request's parts lie while it is asked about. */
struct request_text {
	struct buf path;
	struct name host;
};

const char *request_text_read(struct str text, struct request_text *parts,
			      struct explain_request *out);
/* The same of a method and a URL; beside tcp:// the method means nothing. */
const char *request_text_url(struct str method, struct str url, struct request_text *parts,
			     struct explain_request *out);

#endif
