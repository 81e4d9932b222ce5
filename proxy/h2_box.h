/* proxy/h2_box.h - the exchanges of a box's connection that speaks HTTP/2, one for each stream
 *
 * A stream's head makes an exchange; from then on the two go together until either is over. Those
 * that have something to do stand in a line: a pass goes through it, and through nothing else. What
 * wakes an exchange between passes only puts it there, and asks once for a pass.
 *
 * Ownership   h2_boxes_free() when h2_boxes_bury() was true, or where records may be lost. The
 *             stream of bytes, the template of the environment and what is in @setup are borrowed;
 *             the stream until h2_boxes_close().
 * Blocking    never.
 * Callbacks   pump: from the event loop, not from within a pass. ran: within it.
 * Failure     of a request: its own stream. Of the session: h2_boxes_ended().
 * Limits      proxy/h2.h; H2_STREAMS_MAX exchanges and those whose record waits for room.
 * Tests       tests/unit/proxy/test_h2_box.c
 */
#ifndef PROXY_H2_BOX_H
#define PROXY_H2_BOX_H

#include "proxy/exchange.h"
#include "proxy/h2.h"

struct h2_boxes;

struct h2_boxes_setup {
	const struct exchange_env *env;	/* for each exchange; box, port and wake are set here */
	struct stream *stream;
	size_t max_headers;
	void (*pump)(void *arg);	/* make a pass */
	void (*ran)(void *arg, const struct exchange *x);
	void *arg;
};

struct h2_boxes *h2_boxes_new(const struct h2_boxes_setup *setup);
void h2_boxes_free(struct h2_boxes *all);
/* Reads, lets those go on that can, and queues what is to go out. True when anything was read or
 * queued. */
bool h2_boxes_pass(struct h2_boxes *all);
/* Some wait for room in the audit ring. */
bool h2_boxes_wait_for_room(const struct h2_boxes *all);
/* Nothing more comes of the session; *why for the log, empty where it was meant. */
bool h2_boxes_ended(const struct h2_boxes *all, const char **why);
size_t h2_boxes_count(const struct h2_boxes *all);
/* Since when a head has been coming in; 0: none is. */
uint64_t h2_boxes_in_head_since(const struct h2_boxes *all);
/* The earliest that h2_boxes_timeout() may be due; 0: nothing has a limit. */
uint64_t h2_boxes_deadline(const struct h2_boxes *all);
void h2_boxes_timeout(struct h2_boxes *all);
/* w->policy is another. To be followed by a pass. */
void h2_boxes_new_policy(struct h2_boxes *all);
/* No new requests: the box is told. */
void h2_boxes_goodbye(struct h2_boxes *all);
/* The connection is gone: all is abandoned. */
void h2_boxes_close(struct h2_boxes *all, const char *how);
/* After that: true when all that they had to say is on record. */
bool h2_boxes_bury(struct h2_boxes *all);

#endif
