/* proxy/explicit.h - the explicit proxy: a connection whose client says where it wants to go
 *
 * The gateway's own address, port w->proxy_port, for clients that only know a proxy's. Three ways,
 * told apart by the first byte: CONNECT (RFC 9110 9.3.6), requests whose target is a whole URL (RFC
 * 9112 3.2.2), SOCKS5 (RFC 1928: CONNECT, no authentication). Host and port are judged as those of
 * a connection that was intercepted. What CONNECT and SOCKS5 ask for is such a connection from then
 * on, in CS_HELLO; with whole URLs each request is judged for itself, in CS_HTTP. Names are never
 * resolved here: the dialer does that, when a request may pass. An address is judged as one, but
 * for those that stand for a name in this box.
 *
 * Ownership   works on its connection; connection.c frees what it keeps there.
 * Blocking    never.
 * Callbacks   explicit_aim() by the exchange, as its environment's aim.
 * Failure     connection_refuse(), whose last words explicit_put_refusal() knows: a refused CONNECT
 *             gets its 403, SOCKS5 its reply, before anything is tunnelled.
 * Limits      CONNECTION_HELLO_MS to say where to; w->max_headers, HTTP1_LINE_MAX of a head. It is
 *             one of w->max_connections.
 * Tests       tests/unit/proxy/test_explicit.c, tests/e2e/test_explicit.py
 */
#ifndef PROXY_EXPLICIT_H
#define PROXY_EXPLICIT_H

#include "proxy/exchange.h"

struct connection;

enum explicit_via { VIA_NOTHING, VIA_CONNECT, VIA_ABSOLUTE, VIA_SOCKS5 };

/* As logged; empty for VIA_NOTHING. */
const char *explicit_via_name(enum explicit_via via);
/* In CS_EXPLICIT: goes as far as the bytes that are there allow. */
void explicit_look(struct connection *c);
/* Before a request is read: is the next one a whole URL of the gateway's own page? Then that has
 * taken the stream over, and @c is closed. */
bool explicit_is_notice(struct connection *c);
/* A refusal in the words of the protocol that was spoken. False: there are none. */
bool explicit_put_refusal(struct connection *c);
/* struct exchange_env's aim. */
enum refusal_reason explicit_aim(void *connection, const struct request *r, const char **why);

#endif
