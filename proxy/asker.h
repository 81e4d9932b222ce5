/* proxy/asker.h - asks a file system that may never answer: a child does, and hangs in our place
 *
 * A disk that hangs (a network's, or one that a process serves) holds up whoever opens a path on
 * it, and perhaps does not even let him be killed. So a child of our own does what may hang, with
 * nothing in its hands but what it needs, and says what came of it: a code, a text, a descriptor.
 *
 * Ownership   asker_ask() copies the paths and duplicates the descriptor; @arg is borrowed until
 *             done() is called. A descriptor in struct asked is the callee's. askers_free() kills
 *             all and calls nobody.
 * Blocking    never.
 * Callbacks   done() once, from the event loop or from askers_reap(); it may ask.
 * Failure     an errno, from asker_ask() (done() is not called then) or in struct asked: ETIMEDOUT
 *             where there is no answer in time, EUSERS where there is no place for a child in time
 *             or past ASKERS_WAITING_MAX, EAGAIN where none can be made, EPROTO where it died,
 *             EMFILE where its descriptor found no room, ENOMEM.
 * Limits      ASKERS_MAX children at once, those included that were killed and are still there:
 *             who asks then waits for a place, for as long as for an answer.
 *             ASKERS_STUCK_MAX that were killed and are still there for one path: another that is
 *             to go there is told at once what they would be told, so that one disk cannot take
 *             all places.
 * Tests       tests/unit/proxy/test_asker.c, tests/e2e/test_hung.py
 */
#ifndef PROXY_ASKER_H
#define PROXY_ASKER_H

#include <stdbool.h>
#include <sys/types.h>

#include "conf/err.h"

#define ASKERS_MAX 64
#define ASKERS_STUCK_MAX 2
#define ASKERS_WAITING_MAX 1024
#define ASKED_TEXT_MAX 8192

struct event_base;
struct askers;

/* What came of it. */
struct asked {
	int code;			/* errno; 0: it was done */
	int fd;				/* or -1 */
	char text[ASKED_TEXT_MAX + 1];	/* the child's words */
};

struct asker_job {
	/* In the child: may take for ever. @fd: the one below, as it is there. It begins with
	 * @out->code 0 and no descriptor. */
	void (*ask)(void *arg, int fd, struct asked *out);
	/* In the parent. */
	void (*done)(void *arg, struct asked *asked);
	void *arg;
	int fd;		/* that it needs, or -1: it has no other but what it opens */
	unsigned patience_ms;
	const char *const *paths;	/* where it goes; NULL-ended */
};

struct askers *askers_new(struct event_base *base);
void askers_free(struct askers *a);
must_use int asker_ask(struct askers *a, const struct asker_job *job);
/* A child of this process has ended. */
void askers_reap(struct askers *a, pid_t pid);
/* Children that are there, stuck ones included, and questions that wait for a place. */
size_t askers_children(const struct askers *a);
size_t askers_waiting(const struct askers *a);
/* What a code of struct asked means, for who asked about a path. */
const char *asked_why(int code);

#endif
