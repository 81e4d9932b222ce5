/* Theory of operation
 *
 * Every event of a connection's parts (its stream, its upstream's, an answer from another role, the
 * timer, room in the ring) ends in connection_pump(): it looks at what has happened in the present
 * state, steps through the table as far as that goes, and then settles the streams: that is the
 * only place where bytes are sent and interest is changed. A part's callback only notes and pumps;
 * a pump never runs inside another.
 *
 * connection_step() is the only writer of @state. An edge that is not in the table is a bug of
 * ours: the connection is closed and says so.
 *
 * Nothing is freed in a callback: CLOSED takes the sockets away and hands the connection to the
 * list's burial, after the pass.
 *
 * The timer is armed for the nearest limit and looks again when it fires, so that most moves of a
 * limit cost nothing.
 */
#include "proxy/connection.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "proxy/clock.h"
#include "proxy/connections.h"
#include "proxy/pool.h"

static void wake(void *arg)
{
	connection_pump(arg);
}

/* ---- actions ---- */

/* @leaf: empty for the one that is known. */
static void speak_as(struct connection *c, struct str leaf)
{
	c->ssl = tls_trust_accept(connections_trust(c->all), c->env.site.name, leaf,
				  stream_fd(c->stream), stream_in(c->stream));
}

static void on_leaf(void *arg, const struct msg_leaf_is *answer)
{
	struct connection *c = arg;

	c->leaf = 0;
	if (answer->ok && answer->leaf.n)
		speak_as(c, answer->leaf);
	c->no_leaf = !c->ssl;
	connection_pump(c);
}

/* The bytes of the hello stay in the stream until the SSL gives them back. */
static void act_ask_leaf(struct connection *c)
{
	speak_as(c, STR_NONE);
	if (c->ssl)
		return;
	stream_want(c->stream, false);
	c->leaf = ask_leaf(c->w, c->env.site.name, c->env.site.literal, on_leaf, c);
}

static void act_shake(struct connection *c)
{
	stream_start_tls(c->stream, c->ssl);
	c->ssl = NULL;
	stream_want(c->stream, true);
}

static void note_tls(struct connection *c)
{
	SSL *ssl = stream_ssl(c->stream);
	struct str alpn;

	if (!ssl)
		return;
	alpn = tls_trust_alpn(ssl);
	snprintf(c->tls, sizeof(c->tls), "%s", SSL_get_version(ssl));
	snprintf(c->alpn, sizeof(c->alpn), "%.*s", STR_ARG(alpn));
	c->ms_tls = clock_ms() - c->opened;
}

static void act_serve_h2(struct connection *c)
{
	note_tls(c);
	connection_serve_h2(c);
}

static void act_serve(struct connection *c)
{
	note_tls(c);
	c->env.box_port = &c->box;
	c->quiet_since = clock_ms();
	if (h1_box_init(&c->box, c->stream, c->w->max_headers) != OK)
		connection_close(c, "out of memory");
}

static void act_drain(struct connection *c)
{
	c->quiet_since = clock_ms();
	stream_want(c->stream, true);
	stream_finish(c->stream);
}

static void act_close(struct connection *c)
{
	if (c->leaf) {
		ask_cancel(c->w, c->leaf);
		c->leaf = 0;
	}
	event_del(c->timer);
	SSL_free(c->ssl);
	c->ssl = NULL;
	if (c->x)
		exchange_abandon(c->x, c->ended);
	if (c->h2)
		h2_boxes_close(c->h2, c->ended);
	if (c->stream) {
		c->bytes_up = stream_bytes_in(c->stream);
		c->bytes_down = stream_bytes_out(c->stream);
	}
	connection_end_passage(c);
	h1_box_free(&c->box);
	http1_free(c->head);
	c->head = NULL;
	stream_free(c->stream);
	c->stream = NULL;
	connections_bury(c->all, c);
}

static void act_none(struct connection *c)
{
	(void)c;
}

static void (*const acts[CA_COUNT])(struct connection *) = {
	[CA_NONE] = act_none,	[CA_ASK_LEAF] = act_ask_leaf, [CA_SHAKE] = act_shake,
	[CA_SERVE_H2] = act_serve_h2,
	[CA_SERVE] = act_serve, [CA_DIAL] = connection_dial,  [CA_TUNNEL] = connection_open_tunnel,
	[CA_DRAIN] = act_drain, [CA_CLOSE] = act_close,
};

void connection_step(struct connection *c, enum connection_event event)
{
	const struct connection_edge *edge = connection_edge(c->state, event);

	if (!edge) {
		snprintf(c->ended, sizeof(c->ended), "bug: %s in %s", connection_event_name(event),
			 connection_state_name(c->state));
		edge = connection_edge(c->state, CE_FAIL);
	}
	c->state = edge->next;
	c->since = clock_ms();
	acts[edge->act](c);
}

static void end_with(struct connection *c, enum connection_event event, const char *how)
{
	if (!c->ended[0])
		snprintf(c->ended, sizeof(c->ended), "%.*s", (int)sizeof(c->ended) - 1, how);
	connection_step(c, event);
}

void connection_close(struct connection *c, const char *how)
{
	end_with(c, CE_FAIL, how);
}

/* ---- what has happened, state by state ---- */

static void look_nothing(struct connection *c)
{
	(void)c;
}

static void look_leaf(struct connection *c)
{
	if (c->ssl)
		connection_step(c, CE_SIGNED);
	else if (c->no_leaf)
		connection_refuse(c, REFUSAL_no_leaf, "");
}

static void look_handshake(struct connection *c)
{
	char why[STREAM_WHY_MAX + 32];

	if (stream_failed(c->stream)) {
		snprintf(why, sizeof(why), "TLS handshake failed: %s", stream_why(c->stream));
		connection_close(c, why);
	} else if (!stream_handshaking(c->stream)) {
		connection_step(c, str_eq(tls_trust_alpn(stream_ssl(c->stream)), STR("h2")) ? CE_H2
											   : CE_SECURE);
	}
}

void connection_note_upstream(struct connection *c, const struct exchange *x)
{
	const struct upstream *up = exchange_upstream(x);

	if (!up || !up->addr.family)
		return;
	c->dialled = up->addr;
	memcpy(c->cert, up->cert, sizeof(c->cert));
}

static void end_exchange(struct connection *c, bool clean)
{
	exchange_free(c->x);
	c->x = NULL;
	c->quiet_since = clock_ms();
	if (c->box.aborted)
		end_with(c, CE_FAIL, "answer broken off");
	else if (clean && c->box.keep)
		h1_box_next(&c->box);
	else
		end_with(c, CE_LAST, "last answer sent");
}

/* Between exchanges: a next request, or the end. */
static void look_for_request(struct connection *c)
{
	bool clean;
	bool idle = !h1_box_begun(&c->box);

	if (idle && explicit_is_notice(c))
		return;
	c->x = h1_box_request(&c->box, &c->env);
	if (c->x)
		return;
	if (idle && h1_box_begun(&c->box))
		c->quiet_since = clock_ms();
	if (c->box.aborted || stream_failed(c->stream))
		end_with(c, CE_FAIL, "reset by the client");
	else if (stream_ended(c->stream, &clean))
		end_with(c, CE_LAST, "closed by the client");
}

static void look_http(struct connection *c)
{
	bool moved = true, clean = false;

	if (!c->x)
		look_for_request(c);
	while (c->x && moved) {
		moved = h1_box_body(&c->box, c->x);
		moved |= exchange_step(c->x);
		connection_note_upstream(c, c->x);
		if (exchange_over(c->x, &clean)) {
			end_exchange(c, clean);
			if (c->state == CS_HTTP)
				look_for_request(c);
			moved = true;
		}
	}
	if (c->x)
		c->waits_for_room |= exchange_waits_for_room(c->x);
}

/* A client that still sends may look for its answer only when it has sent all: a close now would
 * reset it, and take the answer away (RFC 9112 9.6). So what comes is read for a while. */
static void look_drain(struct connection *c)
{
	bool clean;
	size_t n = stream_in(c->stream).n;

	stream_take(c->stream, n);
	if (n)
		c->quiet_since = clock_ms();
	if (stream_failed(c->stream) ||
	    (stream_finished(c->stream) && stream_ended(c->stream, &clean)))
		connection_step(c, CE_GONE);
}

static void (*const looks[CS_COUNT])(struct connection *) = {
	[CS_ACCEPTED] = look_nothing,         [CS_EXPLICIT] = explicit_look,
	[CS_HELLO] = connection_look_hello,   [CS_LEAF] = look_leaf,
	[CS_HANDSHAKE] = look_handshake,      [CS_HTTP] = look_http,
	[CS_HTTP2] = connection_look_http2,
	[CS_DIAL] = connection_look_dial,     [CS_TUNNEL] = connection_look_tunnel,
	[CS_DRAIN] = look_drain,              [CS_CLOSED] = look_nothing,
};

/* ---- the timer ---- */

static uint64_t drain_deadline(const struct connection *c)
{
	uint64_t longest = c->since + CONNECTION_DRAIN_LONGEST_MS,
		 quiet = c->quiet_since + CONNECTION_DRAIN_MS;

	if (!stream_finished(c->stream))
		return c->since + c->w->idle_ms;
	return quiet < longest ? quiet : longest;
}

static uint64_t deadline(const struct connection *c)
{
	uint64_t x;

	switch (c->state) {
	case CS_EXPLICIT:
	case CS_HELLO:
		return c->since + CONNECTION_HELLO_MS;
	case CS_HANDSHAKE:
		return c->since + CONNECTION_HANDSHAKE_MS;
	case CS_HTTP:
		x = c->x ? exchange_deadline(c->x) : 0;
		if (c->x)
			return x;
		return c->quiet_since +
		       (h1_box_begun(&c->box) ? CONNECTION_REQUEST_MS : c->w->idle_ms);
	case CS_HTTP2:
		return connection_deadline_h2(c);
	case CS_DRAIN:
		return drain_deadline(c);
	case CS_TUNNEL:
		return connection_tunnel_deadline(c);
	case CS_ACCEPTED:
	case CS_LEAF:
	case CS_DIAL:		/* timed by the dialer */
	case CS_CLOSED:
	case CS_COUNT:
		break;
	}
	return 0;
}

static void arm(struct connection *c)
{
	uint64_t at = deadline(c), now, in;
	struct timeval tv;

	if (at == 0 || (c->armed && c->armed <= at))
		return;
	now = clock_ms();
	in = at > now ? at - now : 0;
	tv = (struct timeval){ .tv_sec = (time_t)(in / 1000),
			       .tv_usec = (suseconds_t)(in % 1000) * 1000 };
	c->armed = at;
	event_add(c->timer, &tv);
}

static void time_is_over(struct connection *c)
{
	if (c->state == CS_HELLO) {
		connection_refuse(c, REFUSAL_hello_timeout, "");
	} else if (c->state == CS_HTTP2) {
		connection_timeout_h2(c);
	} else if (c->state == CS_EXPLICIT) {
		connection_refuse(c, REFUSAL_request_timeout, "");
	} else if (c->state == CS_TUNNEL) {
		connection_tunnel_timeout(c);
	} else if (c->state == CS_HTTP && c->x) {
		exchange_timeout(c->x);
	} else if (c->state == CS_HTTP && h1_box_begun(&c->box)) {
		c->x = h1_box_late(&c->box, &c->env);
		if (!c->x)
			end_with(c, CE_TIMEOUT, "timed out");
	} else {
		end_with(c, CE_TIMEOUT, c->state == CS_HTTP ? "idle" : "timed out");
	}
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct connection *c = arg;
	uint64_t at = deadline(c);

	(void)fd;
	(void)what;
	c->armed = 0;
	if (at == 0 || at > clock_ms()) {
		arm(c);
		return;
	}
	time_is_over(c);
	connection_pump(c);
}

/* ---- the pass ---- */

static void settle(struct connection *c)
{
	struct upstream *up = c->x ? exchange_upstream(c->x) : NULL;

	if (up)
		pool_touch(up);
	pool_settle(c->w->upstreams);
	if (c->stream)
		stream_settle(c->stream);
	arm(c);
}

void connection_pump(struct connection *c)
{
	enum connection_state before;

	c->waits_for_room = false;
	do {
		before = c->state;
		looks[c->state](c);
	} while (c->state != before && c->state != CS_CLOSED);
	if (c->state != CS_CLOSED)
		settle(c);
}

/* ---- life ---- */

static void fill_env(struct connection *c)
{
	c->env = (struct exchange_env){
		.w = c->w, .connection = c->id, .next_exchange = connections_exchanges(c->all),
		.wake = wake, .wake_arg = c, .box = &h1_box_ops,
	};
}

struct connection *connection_new(struct connections *all, int fd, uint64_t id,
				  const struct addr *to, uint16_t port)
{
	struct connection *c = calloc(1, sizeof(*c));

	if (!c) {
		close(fd);
		return NULL;
	}
	c->all = all;
	c->w = connections_worker(all);
	c->id = id;
	c->policy = policy_hold(c->w->policy);
	c->opened = c->since = c->quiet_since = clock_ms();
	fill_env(c);
	c->destination = *to;
	c->env.site.port = port;
	c->stream = stream_new(c->w->base, fd, wake, c);
	c->timer = event_new(c->w->base, -1, EV_TIMEOUT, on_timer, c);
	if (!c->stream || !c->timer) {
		stream_free(c->stream);
		if (c->timer)
			event_free(c->timer);
		policy_free(c->policy);
		free(c);
		return NULL;
	}
	/* One that has asked and gone is not worth its origin's answer. */
	stream_watch(c->stream);
	return c;
}

void connection_forget(struct connection *c)
{
	exchange_free(c->x);
	h2_boxes_free(c->h2);
	free(c->passage);
	event_free(c->timer);
	policy_free(c->policy);
	free(c);
}

bool connection_bury(struct connection *c)
{
	bool clean;

	if (c->x) {
		(void)exchange_step(c->x);
		if (!exchange_over(c->x, &clean))
			return false;
	}
	if (c->h2 && !h2_boxes_bury(c->h2))
		return false;
	if (!c->close_recorded && !connection_record_close(c))
		return false;
	connection_forget(c);
	return true;
}
