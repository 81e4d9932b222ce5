/* Theory of operation
 *
 * The state HTTP2: the connection's part of it. What is in a stream is proxy/h2_box.h's; here is
 * how a connection with many of them begins, how long it may be idle, and how it ends: a client
 * that has gone or gone wrong takes all of its exchanges along, and where it still listens it has
 * been told by a GOAWAY, which drains like a last answer.
 */
#include <stdio.h>

#include "proxy/clock.h"
#include "proxy/connection.h"

static void pump(void *arg)
{
	connection_pump(arg);
}

static void ran(void *arg, const struct exchange *x)
{
	connection_note_upstream(arg, x);
}

void connection_serve_h2(struct connection *c)
{
	struct h2_boxes_setup set = { .env = &c->env, .stream = c->stream,
				      .max_headers = c->w->max_headers, .pump = pump, .ran = ran,
				      .arg = c };

	c->quiet_since = clock_ms();
	c->h2 = h2_boxes_new(&set);
	if (!c->h2)
		connection_close(c, "out of memory");
}

static const char *how_it_ended(const struct connection *c, const char *why)
{
	bool clean;

	if (stream_failed(c->stream))
		return "reset by the client";
	if (stream_ended(c->stream, &clean))
		return "closed by the client";
	return why[0] ? why : "the client goes";
}

void connection_look_http2(struct connection *c)
{
	const char *why;

	if (h2_boxes_pass(c->h2))
		c->quiet_since = clock_ms();
	c->waits_for_room |= h2_boxes_wait_for_room(c->h2);
	if (!h2_boxes_ended(c->h2, &why))
		return;
	if (!c->ended[0])
		snprintf(c->ended, sizeof(c->ended), "%.*s", (int)sizeof(c->ended) - 1,
			 how_it_ended(c, why));
	connection_step(c, stream_failed(c->stream) ? CE_FAIL : CE_LAST);
}

/* Between requests it may be idle; a head that has begun is to come to its end. */
uint64_t connection_deadline_h2(const struct connection *c)
{
	uint64_t head = h2_boxes_in_head_since(c->h2), at = h2_boxes_deadline(c->h2);
	uint64_t limit = head ? head + CONNECTION_REQUEST_MS
			 : h2_boxes_count(c->h2) == 0 ? c->quiet_since + c->w->idle_ms : 0;

	return limit && (at == 0 || limit < at) ? limit : at;
}

void connection_timeout_h2(struct connection *c)
{
	uint64_t head = h2_boxes_in_head_since(c->h2), now = clock_ms();

	if (head && head + CONNECTION_REQUEST_MS <= now) {
		connection_close(c, "timed out inside a request's head");
	} else if (h2_boxes_count(c->h2) == 0 && c->quiet_since + c->w->idle_ms <= now) {
		connection_end_h2(c, "idle");
	} else {
		h2_boxes_timeout(c->h2);
	}
}

void connection_end_h2(struct connection *c, const char *how)
{
	h2_boxes_goodbye(c->h2);
	snprintf(c->ended, sizeof(c->ended), "%s", how);
	connection_step(c, CE_LAST);
}
