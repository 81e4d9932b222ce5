/* policy/path.h - request paths: one reading, or a refusal
 *
 * path_normalise() does RFC 3986 6.2.2: escapes of unreserved characters decoded, the case of the
 * others' hex digits raised, dot segments removed; printable ASCII that RFC 3986 3.3 has no place
 * for is escaped. What servers read in different ways (an escaped slash, backslash, control or dot
 * segment, an escape inside an escape, a broken one, overlong UTF-8, raw controls and bytes over
 * 0x7f, an empty segment inside, ';' in a dot segment, raw backslash) is PATH_AMBIGUOUS: on a host
 * with a path rule that is a refusal.
 *
 * path_match() is the policy's glob: '*' any run inside one segment, '**' as a whole segment any
 * number of segments, also none. A character and its escape are one character to it (servers
 * decode ':' and "%3A" alike, and a deny must hold for both); "%2A" in a pattern is a plain star.
 *
 * Ownership   output goes into the caller's buffer.       Blocking  never.
 * Failure     by result; a buffer over its limit is PATH_BAD.
 * Cost        path_match() is at most the product of both lengths; no exponential case.
 * Tests       tests/unit/policy/test_path.c, fuzz/fuzz_path.c
 */
#ifndef POLICY_PATH_H
#define POLICY_PATH_H

#include "conf/buf.h"

enum path_result {
	PATH_OK,
	PATH_AMBIGUOUS, /* servers disagree on what it names */
	PATH_BAD, /* no path at all: no '/' first, or SP, '?', '#' in it; over the limit */
};

/* @raw: path without query and fragment. @out is appended to, where OK. @why: static text where
 * not OK. */
enum path_result path_normalise(struct str raw, struct buf *out, const char **why);
bool path_match(struct str pattern, struct str path);
/* Is this a pattern that path_match() knows, in normal form? *why is static text. */
bool path_pattern_valid(struct str pattern, const char **why);

#endif
