#include "proxy/connection_fsm.h"

#include <stddef.h>

#define GO(to, act_) { .legal = 1, .next = CS_##to, .act = CA_##act_ }
#define CLOSES [CE_TIMEOUT] = GO(CLOSED, CLOSE), [CE_FAIL] = GO(CLOSED, CLOSE)

static const struct connection_edge edges[CS_COUNT][CE_COUNT] = {
	[CS_ACCEPTED] = { CLOSES, [CE_KNOWN] = GO(HELLO, NONE), [CE_PROXY] = GO(EXPLICIT, NONE) },
	[CS_EXPLICIT] = { CLOSES, [CE_KNOWN] = GO(HELLO, NONE), [CE_PLAIN] = GO(HTTP, SERVE),
			  [CE_REFUSED] = GO(DRAIN, DRAIN) },
	[CS_HELLO] = { CLOSES, [CE_TLS] = GO(LEAF, ASK_LEAF), [CE_PLAIN] = GO(HTTP, SERVE),
		       [CE_H2] = GO(HTTP2, SERVE_H2),
		       [CE_UNOPENED] = GO(DIAL, DIAL), [CE_REFUSED] = GO(DRAIN, DRAIN) },
	[CS_LEAF] = { CLOSES, [CE_SIGNED] = GO(HANDSHAKE, SHAKE), [CE_REFUSED] = GO(DRAIN, DRAIN) },
	[CS_HANDSHAKE] = { CLOSES, [CE_SECURE] = GO(HTTP, SERVE), [CE_H2] = GO(HTTP2, SERVE_H2) },
	[CS_HTTP] = { CLOSES, [CE_LAST] = GO(DRAIN, DRAIN) },
	[CS_HTTP2] = { CLOSES, [CE_LAST] = GO(DRAIN, DRAIN) },
	[CS_DIAL] = { CLOSES, [CE_DIALLED] = GO(TUNNEL, TUNNEL),
		      [CE_REFUSED] = GO(DRAIN, DRAIN) },
	[CS_TUNNEL] = { CLOSES, [CE_GONE] = GO(CLOSED, CLOSE) },
	[CS_DRAIN] = { CLOSES, [CE_GONE] = GO(CLOSED, CLOSE) },
	[CS_CLOSED] = { [CE_TIMEOUT] = GO(CLOSED, NONE), [CE_FAIL] = GO(CLOSED, NONE) },
};

static const char *const state_names[] = {
#define X(name, text) #name,
	CONNECTION_STATES(X)
#undef X
};

static const char *const event_names[] = {
#define X(name) #name,
	CONNECTION_EVENTS(X)
#undef X
};

_Static_assert(sizeof(state_names) / sizeof(state_names[0]) == CS_COUNT, "a name for each state");
_Static_assert(sizeof(event_names) / sizeof(event_names[0]) == CE_COUNT, "a name for each event");

const struct connection_edge *connection_edge(enum connection_state state,
					      enum connection_event event)
{
	return edges[state][event].legal ? &edges[state][event] : NULL;
}

const char *connection_state_name(enum connection_state state)
{
	return state_names[state];
}

const char *connection_event_name(enum connection_event event)
{
	return event_names[event];
}
