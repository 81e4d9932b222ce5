/* sandbox/channel.h - one end of a channel between two roles
 *
 * A SOCK_SEQPACKET pair on libevent. A packet is one message, or, where both ends gather
 * (channel_gather()), several without descriptors. The channel knows which roles stand at its ends
 * and which table of messages they share. What comes is checked against its row (direction, phase,
 * size, descriptors, once); the first thing that does not fit ends the channel: the closed callback
 * says why, and nothing more is read.
 *
 * Ownership   channel_new() takes the descriptor over. Received descriptors belong to the handler:
 *             it must close or keep each. Sent descriptors stay the caller's (they are duplicated
 *             into the packet); channel_send() has copied all it needs when it returns.
 * Blocking    never: a packet that the socket does not take is queued; past CHANNEL_QUEUE_MAX bytes
 *             of memory (or what channel_set_limit() says) or CHANNEL_QUEUE_FDS_MAX descriptors
 *             ERR_FULL.
 * Callbacks   on_message from the event loop or from channel_drain(); it may send, and may free the
 *             channel. on_closed once, never after channel_free().
 * Failure     by return value; a dead peer is ERR_CLOSED and comes as on_closed, too.
 * Tests       tests/unit/sandbox/test_channel.c
 */
#ifndef SANDBOX_CHANNEL_H
#define SANDBOX_CHANNEL_H

#include "sandbox/message.h"

#define CHANNEL_QUEUE_MAX (8u << 20)
#define CHANNEL_QUEUE_FDS_MAX 1024

struct event_base;
struct channel;

struct channel_peer {
	enum role self, other;
	const struct message_row *table;
	void (*on_message)(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds);
	/* @why: static text ("end of file", "unknown message", ...); see channel_ended() */
	void (*on_closed)(void *arg, const char *why);
	void *arg;
};

/* Does this reason of on_closed say only that the peer is gone, not that it broke the rules? */
bool channel_ended(const char *why);

/* Two connected ends, close-on-exec, non-blocking. */
must_use enum err channel_pair(int fds[2]);
struct channel *channel_new(struct event_base *base, int fd, const struct channel_peer *peer);
void channel_free(struct channel *c);
void channel_set_phase(struct channel *c, enum phase phase);
/* Bytes of memory, and messages, that the queue may take from now on. */
void channel_set_limit(struct channel *c, size_t bytes, size_t messages);
must_use enum err channel_send(struct channel *c, uint16_t type, const void *msg, const int *fds,
			       size_t n_fds);
/* From now on what is sent waits until what the event loop has at hand is done, and goes together;
 * what comes may have come so. For a channel with many small messages each way. */
void channel_gather(struct channel *c);
/* For a handler that keeps none of a message's descriptors, or not those that are -1 by now. */
void channel_close_fds(const int *fds, size_t n);
/* Handles all that has arrived, now, without waiting. */
void channel_drain(struct channel *c);
/* Paused: nothing is read, an end neither, until it goes on. What comes meanwhile waits in the
 * socket, whose room bounds it. */
void channel_pause(struct channel *c, bool paused);
/* Bytes of memory that the queue takes: what the socket has not taken yet. */
size_t channel_queued(const struct channel *c);

#endif
