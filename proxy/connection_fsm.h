/* proxy/connection_fsm.h - the life of one connection from the box, as a table
 *
 * Ownership   static.       Blocking  never.
 * Failure     connection_edge() is NULL for a pair that cannot be.
 * Tests       tests/unit/proxy/test_connection_fsm.c: every state reaches CLOSED, every state
 *             answers TIMEOUT and FAIL.
 */
#ifndef PROXY_CONNECTION_FSM_H
#define PROXY_CONNECTION_FSM_H

#define CONNECTION_STATES(X)                                                                      \
	X(ACCEPTED,  "descriptor accepted, destination not looked up")                            \
	X(EXPLICIT,  "a client of the explicit proxy has not said where to yet")                   \
	X(HELLO,     "first bytes: TLS hello, HTTP, or neither")                                  \
	X(LEAF,      "the broker signs a certificate for the name")                               \
	X(HANDSHAKE, "TLS towards the box")                                                       \
	X(HTTP,      "exchanges, one after the other")                                            \
	X(HTTP2,     "exchanges, many at a time")                                                 \
	X(DIAL,      "not to be opened: the dialer makes the connection to the origin")           \
	X(TUNNEL,    "bytes both ways, as they come")                                             \
	X(DRAIN,     "nothing new; the last bytes go out, the peer's end is waited for")          \
	X(CLOSED,    "sockets gone; freed after the pass, when all is on record")

#define CONNECTION_EVENTS(X)                                                                      \
	X(PROXY)	/* the box went to the explicit proxy */                                  \
	X(KNOWN)	/* the destination stands for a name or an address */                     \
	X(TLS)		/* a hello that may go on */                                              \
	X(PLAIN)	/* plain HTTP */                                                          \
	X(UNOPENED)	/* what may go on, and is not to be opened */                             \
	X(DIALLED)	/* the origin is there, may be spoken to, and it is on record */          \
	X(SIGNED)	/* the leaf is there */                                                   \
	X(SECURE)	/* handshake done */                                                      \
	X(H2)		/* it has agreed on HTTP/2, or plain HTTP begins with its preface */      \
	X(REFUSED)	/* last words (an alert) are queued */                                    \
	X(LAST)		/* no exchange will follow */                                             \
	X(GONE)		/* the peer has closed, all is done */                                    \
	X(TIMEOUT)                                                                                \
	X(FAIL)

#define CONNECTION_ACTIONS(X)                                                                     \
	X(NONE)                                                                                   \
	X(ASK_LEAF)                                                                               \
	X(SHAKE)                                                                                  \
	X(SERVE)                                                                                  \
	X(SERVE_H2)                                                                               \
	X(DIAL)                                                                                   \
	X(TUNNEL)                                                                                 \
	X(DRAIN)                                                                                  \
	X(CLOSE)

enum connection_state {
#define X(name, text) CS_##name,
	CONNECTION_STATES(X)
#undef X
	CS_COUNT
};

enum connection_event {
#define X(name) CE_##name,
	CONNECTION_EVENTS(X)
#undef X
	CE_COUNT
};

enum connection_action {
#define X(name) CA_##name,
	CONNECTION_ACTIONS(X)
#undef X
	CA_COUNT
};

struct connection_edge {
	_Bool legal;
	enum connection_state next;
	enum connection_action act;
};

const struct connection_edge *connection_edge(enum connection_state state,
					      enum connection_event event);
const char *connection_state_name(enum connection_state state);
const char *connection_event_name(enum connection_event event);

#endif
