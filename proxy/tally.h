/* proxy/tally.h - identical refusals: the first is told at once, the others as one number a second
 *
 * A box that repeats itself must not drown the log. The first refusal of a kind is a line of its
 * own; what repeats it within TALLY_WINDOW_MS shares its id and is counted, and the owner is
 * called once with the count when the window ends. A kind that stays quiet for a whole window is
 * forgotten.
 *
 * Ownership   the caller owns the tally; keys are copied. tally_free() calls nobody.
 * Blocking    never.
 * Failure     a callback that says false (the log took no line) is called again a window later,
 *             with the count grown meanwhile: nothing is forgotten.
 * Limits      TALLY_MAX kinds; those beyond it are counted together ("suppressed").
 * Tests       tests/unit/proxy/test_tally.c
 */
#ifndef PROXY_TALLY_H
#define PROXY_TALLY_H

#include "policy/policy.h"

#define TALLY_MAX 256
#define TALLY_KEY_MAX 320
#define TALLY_WINDOW_MS 1000

struct event_base;
struct tally;

struct tally_line {
	struct str key;
	struct decision decision;	/* the owner's, as put in with the first */
	struct policy *policy;		/* whose decision it is */
	char id[17];			/* the refusal's */
	uint64_t count;			/* since the last line */
};

/* @line NULL: @suppressed refusals found no room here. */
typedef bool tally_fn(void *arg, const struct tally_line *line, uint64_t suppressed);

/* *@policy: the one in force, whenever something is noted. A line holds it; under another one it is
 * a line of another kind. */
struct tally *tally_new(struct event_base *base, struct policy *const *policy, tally_fn *fn,
			void *arg);
void tally_free(struct tally *t);
/* Tells all that was counted, now. */
void tally_flush(struct tally *t);

enum tally_result {
	TALLY_FIRST,		/* write a line; if that fails, tally_drop() or tally_retry() */
	TALLY_COUNTED,		/* no line: *line is the first one's */
	TALLY_NO_ROOM,		/* no line: counted as suppressed */
};

/* *line lives until control goes back to the event loop. @id is taken for a new line. */
enum tally_result tally_note(struct tally *t, struct str key, struct decision decision,
			     const char id[17], const struct tally_line **line);
/* The line of a TALLY_FIRST could not be written: it is as if it had not been, or it is told when
 * the window ends. */
void tally_drop(struct tally *t, struct str key);
void tally_retry(struct tally *t, struct str key);
/* Refusals that were lost before they could be told apart. */
void tally_suppress(struct tally *t, uint64_t n);

#endif
