/* proxy/connections.h - all connections of the box: accepting, counting, burying
 *
 * connections_new() is in proxy/worker.h.
 *
 * Ownership   the list owns its connections; connections_free() ends them all.
 * Blocking    never.
 * Failure     past w->max_connections a connection is accepted and reset at once, counted into one
 *             record a second. Where the machine has no descriptors or memory left, accepting stops
 *             until a connection has closed or a second is over, and a record says so.
 * Limits      CONNECTIONS_ACCEPTS a wake-up; w->max_connections.
 * Tests       tests/unit/proxy/test_engine.c
 */
#ifndef PROXY_CONNECTIONS_H
#define PROXY_CONNECTIONS_H

#include "proxy/connection.h"
#include "proxy/worker.h"

#define CONNECTIONS_ACCEPTS 64
#define CONNECTIONS_REFUSED_MS 1000

void connections_free(struct connections *all);
/* The worker's public key (DER), for the broker. */
struct str connections_public_key(const struct connections *all);
/* A new dialer: connections to origins that its predecessor made, and nobody uses, are closed. */
void connections_drop_idle(struct connections *all);
/* Takes @p over: it is the worker's policy from now on, and all that is under way is judged again.
 * Who still has to do with the old one holds it. */
void connections_new_policy(struct connections *all, struct policy *p);
size_t connections_count(const struct connections *all);

/* ---- for proxy/connection.c ---- */
/* Those that are not closed, by @next. */
const struct connection *connections_first(const struct connections *all);
const struct tls_trust *connections_trust(const struct connections *all);
struct worker *connections_worker(const struct connections *all);
uint64_t *connections_exchanges(struct connections *all);
/* The connection is closed: it will be freed after this pass, once all is on record. */
void connections_bury(struct connections *all, struct connection *c);

#endif
