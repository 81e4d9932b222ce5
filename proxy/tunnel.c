/* Theory of operation
 *
 * Raw TCP that a rule allows (protocol: tcp): dialled as soon as it is accepted, since the origin may
 * speak first, then relayed as it is, either side held back by the other's queue. The policy is asked
 * twice, the second time with the address; there is no later step, so undecided is a deny. A refused
 * tunnel is a reset. An end of file goes through each way by itself.
 */
#include <stdio.h>

#include "proxy/clock.h"
#include "proxy/connection.h"

void tunnel_start(struct connection *c)
{
	stream_want(c->stream, false);
	c->kept = upstream_new(c->w, c->env.trust, &c->env.site, c->env.wake, c->env.wake_arg);
	c->env.refusal_address = false;
}

static bool confirmed(struct connection *c)
{
	struct facts f = { .literal = c->env.site.literal, .port = c->env.site.port, .proto = PROTO_TCP,
			   .addr = c->kept->addr };

	if (!f.literal)
		f.host = c->env.site.name;
	c->decision = policy_decide(c->w->policy, &f);
	return c->decision.verdict == VERDICT_ALLOW;
}

/* Everything from @from that @to has room for. */
static bool relay(struct stream *from, struct stream *to)
{
	struct str in = stream_in(from);
	bool clean;

	if (in.n && !stream_full(to)) {
		buf_put_str(stream_out(to), in);
		stream_take(from, in.n);
		return true;
	}
	if (in.n == 0 && stream_ended(from, &clean))
		stream_finish(to);
	return false;
}

static bool both_ended(const struct connection *c)
{
	bool clean;

	return stream_ended(c->stream, &clean) && stream_ended(c->kept->stream, &clean) &&
	       stream_in(c->stream).n == 0 && stream_in(c->kept->stream).n == 0 &&
	       stream_queued(c->kept->stream) == 0;
}

static bool begin(struct connection *c)
{
	bool denied = false;

	if (c->open_recorded)
		return true;
	if (!confirmed(c)) {
		connection_refuse(c, REFUSAL_policy, "");
		return false;
	}
	if (!connection_record_open(c, &denied)) {
		c->waits_for_room = true;
		return false;
	}
	if (denied)
		connection_refuse(c, REFUSAL_log_unavailable, "");
	stream_want(c->stream, !denied);
	c->dialled = c->kept->addr;
	return !denied;
}

void tunnel_pump(struct connection *c)
{
	if (!c->kept) {
		connection_close(c, "out of memory");
		return;
	}
	if (stream_failed(c->stream)) {
		connection_close(c, "reset by the client");
		return;
	}
	if (upstream_failed(c->kept)) {
		connection_refuse(c, c->kept->trouble, c->kept->why);
		return;
	}
	if (!upstream_ready(c->kept) || !begin(c))
		return;
	if (relay(c->stream, c->kept->stream) | relay(c->kept->stream, c->stream))
		c->quiet_since = clock_ms();
	if (both_ended(c)) {
		snprintf(c->ended, sizeof(c->ended), "closed by both");
		connection_step(c, CE_LAST);
	}
}
