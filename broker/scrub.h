/* broker/scrub.h - finds a secret value in what comes back, and fills it over
 *
 * A stream goes in in pieces of any size and comes out with every occurrence of each pattern
 * replaced by as many bytes ("[exeat:NAME]" cut or filled up with '*'), so that lengths and framing
 * hold. Held back is at most the length of the longest pattern less one, and only while what was
 * seen last could be the beginning of one. Found is the pattern as it is, byte for byte: another
 * spelling of it (an encoding, a compression) is another pattern, or is not found.
 *
 * Ownership   scrub_new() copies patterns and names into locked, wiped memory; scrub_free().
 * Blocking    never.       Cost: linear in the stream, whatever it holds.
 * Failure     ERR_NOMEM, also where the memory cannot be locked; ERR_LIMIT past a limit; ERR_SYNTAX
 *             for an empty pattern. A full @out: see conf/buf.h; it never holds a part of a
 *             pattern.
 * Limits      SCRUB_PATTERNS_MAX, SCRUB_PATTERN_MAX bytes each, SCRUB_NAME_MAX of a name are shown.
 *             Patterns of some hundred bytes in all take one page of locked memory a scrub.
 * Tests       tests/unit/broker/test_scrub.c (every split of every case), fuzz/fuzz_scrub.c
 */
#ifndef BROKER_SCRUB_H
#define BROKER_SCRUB_H

#include "conf/buf.h"
#include "conf/err.h"

#define SCRUB_PATTERNS_MAX 16
#define SCRUB_PATTERN_MAX 32768		/* a value of SECRET_MAX, in base64 and with a user */
#define SCRUB_NAME_MAX 64

struct scrub;

/* @names: one for each pattern. */
must_use enum err scrub_new(const struct str *patterns, const struct str *names, size_t n,
			    struct scrub **out);
void scrub_free(struct scrub *s);
/* Appends to @out what is safe to pass on. */
void scrub_feed(struct scrub *s, struct str in, struct buf *out);
/* The end of the stream: appends what was held back. The scrub can be used for a next stream. */
void scrub_finish(struct scrub *s, struct buf *out);
/* One whole text, in place (a header value); a stream under way is not disturbed. Returns how many
 * were filled over. */
size_t scrub_text(struct scrub *s, char *p, size_t n);
/* Occurrences so far, all streams and texts. Those that overlap count as one. */
size_t scrub_count(const struct scrub *s);

#endif
