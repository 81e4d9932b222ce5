/* proxy/notice.h - http://exeat.internal/: what this network is, told to the box that is on it
 *
 * A connection to the gateway's own address is served by the worker itself: no rule is asked, and
 * nothing of it goes anywhere. GET /, /refusals, /policy, /check, /ca.pem; POST /request. What is
 * told is this sandbox's alone, and nothing of it is secret: no credential's name, no place of a
 * file.
 *
 * Ownership   notice_new() copies @contact; notice_free() ends all its connections. notice_take()
 *             takes the descriptor over where it says true.
 * Blocking    never.
 * Failure     an answer with its status and an application/problem+json body, or the connection's
 *             end.
 * Limits      NOTICE_CONNECTIONS_MAX at once; NOTICE_PER_SECOND requests, NOTICE_BURST in a row,
 *             then 429; NOTICE_BODY_MAX of a request, NOTICE_ANSWER_MAX of an answer; requests for
 *             access as proxy/access_table.h says. Records of what repeats are counted
 *             (proxy/tally.h).
 * Tests       tests/unit/proxy/test_notice.c, tests/e2e/test_notice.py
 */
#ifndef PROXY_NOTICE_H
#define PROXY_NOTICE_H

#include "proxy/worker.h"

struct stream;

#define NOTICE_NAME "exeat.internal"
#define NOTICE_URL "http://" NOTICE_NAME
#define NOTICE_CONNECTIONS_MAX 32
#define NOTICE_PER_SECOND 50
#define NOTICE_BURST 100
#define NOTICE_BODY_MAX 32768u
#define NOTICE_ANSWER_MAX (960u << 10)
#define NOTICE_REQUEST_MS 10000u	/* for a request that has begun */
#define NOTICE_IDLE_MS 15000u		/* without one */

struct notice *notice_new(struct worker *w, struct str contact);
void notice_free(struct notice *n);
/* False: there are too many; the descriptor is the caller's still. */
bool notice_take(struct notice *n, int fd);
bool notice_has_room(const struct notice *n);
/* One that came by the explicit proxy, with what it has not read yet: it ends with the first
 * answer. Takes the stream over; there is room. */
void notice_take_stream(struct notice *n, struct stream *stream);

#endif
