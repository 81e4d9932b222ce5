/* proxy/peers.h - a worker's channels to its dialer and its broker, and to their successors
 *
 * Ownership   w->dialer and w->broker; descriptors are taken over.
 * Blocking    never.
 * Failure     a peer that ends is waited for (asks.c); one that breaks the rules of its channel
 *             ends the worker's loop.
 * Tests       tests/unit/proxy/test_peers.c
 */
#ifndef PROXY_PEERS_H
#define PROXY_PEERS_H

#include "proxy/worker.h"

/* @role: dialer or broker. False: out of memory. */
must_use bool peers_open(struct worker *w, enum role role, int fd);
/* What a broker has to know before it is asked for anything. */
void peers_tell_key(struct worker *w);
/* MSG_PEER. */
void peers_replace(struct worker *w, const struct msg_peer *m, int fd);

#endif
