/* proxy/connection.h - one connection from the box
 *
 * From accept() to its last record: looks up what its destination stands for, reads the hello, gets
 * the leaf, speaks TLS, serves one exchange after the other. Its life is the table in
 * proxy/connection_fsm.h.
 *
 * Ownership   made by connections.c, which frees it after the pass in which it closed. Takes the
 *             descriptor over.
 * Blocking    never.
 * Callbacks   connection_pump() is what every event of its parts calls, from the event loop only.
 * Failure     closes itself; how it ended is on record.
 * Limits      times as named here; w->idle_ms between requests, and between the bytes of a tunnel.
 * Tests       tests/unit/proxy/test_engine.c, tests/unit/proxy/test_connection_tunnel.c,
 *             test_connection_tunnel_limits.c, test_connection_fsm.c
 */
#ifndef PROXY_CONNECTION_H
#define PROXY_CONNECTION_H

#include "proxy/connection_fsm.h"
#include "proxy/explicit.h"
#include "proxy/h1_box.h"
#include "proxy/h2_box.h"
#include "proxy/hello.h"

#define CONNECTION_HELLO_MS 10000u
#define CONNECTION_HANDSHAKE_MS 10000u
#define CONNECTION_REQUEST_MS 30000u
#define CONNECTION_DRAIN_MS 2000u	/* of silence, after the last byte went out */
#define CONNECTION_DRAIN_LONGEST_MS 30000u

struct connections;
struct passage;

struct connection {
	struct connections *all;
	struct worker *w;
	struct connection *next, **link;	/* connections.c's lists */
	enum connection_state state;
	uint64_t id;
	bool waits_for_room;			/* in the audit ring */

	/* where the box went */
	struct addr destination;
	bool refusal_address;
	struct name name;			/* what it stands for */
	char literal[ADDR_TEXT_MAX];
	struct exchange_env env;		/* env.site: name, port, protocol */

	/* of the explicit proxy alone (explicit.c) */
	enum explicit_via via;
	struct http1_parser *head;		/* of a CONNECT */
	bool greeted, bad_address_type;		/* SOCKS5 */

	struct stream *stream;
	struct hello hello;
	ask_id leaf;
	bool no_leaf;
	SSL *ssl;				/* between SIGNED and the handshake */
	struct h1_box box;
	struct exchange *x;			/* HTTP/1: one at a time */
	struct h2_boxes *h2;			/* HTTP/2: many; NULL else */
	struct passage *passage;		/* of what is not opened */

	struct event *timer;
	uint64_t armed, opened, since, quiet_since, ms_tls;

	/* for the record */
	bool open_recorded, close_recorded, refused, decided;
	bool outlawed;				/* allowed, until a new policy came */
	struct policy *policy;			/* that decided, or will */
	struct decision decision;
	struct refusal refusal;
	struct addr dialled;
	char cert[TLS_FINGERPRINT_HEX + 1];
	char tls[16], alpn[16], ended[128];
	uint64_t bytes_up, bytes_down;
};

/* @to, @port: where the box went. */
struct connection *connection_new(struct connections *all, int fd, uint64_t id,
				  const struct addr *to, uint16_t port);
void connection_pump(struct connection *c);
void connection_step(struct connection *c, enum connection_event event);
void connection_close(struct connection *c, const char *how);
/* Where @x goes is where the connection went, for its record. */
void connection_note_upstream(struct connection *c, const struct exchange *x);
/* Frees a closed one, unless a record must wait for room: then false. */
bool connection_bury(struct connection *c);
/* Frees a closed one, on record or not. */
void connection_forget(struct connection *c);

/* ---- connection_hello.c: from the first byte to the protocol ---- */
/* The destination's meaning. False: it has none. */
bool connection_look_up(struct connection *c);
void connection_look_hello(struct connection *c);
/* With what is known of it by now. */
void connection_decide(struct connection *c);
struct facts connection_facts(const struct connection *c);
/* Ends a connection that has no HTTP to answer with: a record, an alert (or RST where there is
 * none). */
void connection_refuse(struct connection *c, enum refusal_reason reason, const char *why);

/* ---- connection_h2.c ---- */
void connection_serve_h2(struct connection *c);
void connection_look_http2(struct connection *c);
uint64_t connection_deadline_h2(const struct connection *c);
void connection_timeout_h2(struct connection *c);
/* One without requests is to end: the client is told. */
void connection_end_h2(struct connection *c, const char *how);

/* ---- connection_tunnel.c: what is not opened ---- */
/* Does its destination say that it is raw TCP, whose first byte may be the server's? */
bool connection_is_raw(const struct connection *c);
void connection_judge_raw(struct connection *c);
/* Of a TLS hello that was decided about: does the rule not open it? */
bool connection_passes_through(const struct connection *c);
void connection_dial(struct connection *c);
void connection_look_dial(struct connection *c);
void connection_open_tunnel(struct connection *c);
void connection_look_tunnel(struct connection *c);
uint64_t connection_tunnel_deadline(const struct connection *c);
void connection_tunnel_timeout(struct connection *c);
void connection_tunnel_new_policy(struct connection *c);
/* Closes both sides; what was counted is in @c. */
void connection_end_passage(struct connection *c);
void connection_record_passage(const struct connection *c, struct record *r);

/* ---- connection_policy.c ---- */
/* w->policy is another. A connection that is not closed is to be pumped afterwards. */
void connection_new_policy(struct connection *c);

/* ---- connection_record.c ---- */
/* False: wait for room. A log that cannot be written is told at the first request. */
bool connection_record_open(struct connection *c);
bool connection_record_close(struct connection *c);

#endif
