/* Theory of operation
 *
 * A dialer or broker that dies is started again by the supervisor, which then sends its successor's
 * channel (PEER). Until it comes, questions wait, and when it has come they are asked again
 * (asks.c). What is under way on connections that are there needs neither and goes on.
 *
 * A successor knows nothing. A broker is told the public key before it is asked for a leaf. A
 * dialer does not know its predecessor's tickets: connections to origins that they were for carry
 * what they carry to its end, and nothing else (upstream_has_ticket()).
 *
 * An end is no fault. What breaks the rules of a channel is: its sender may have been taken over,
 * and the worker ends with it.
 */
#include "proxy/peers.h"

#include <event2/event.h>
#include <unistd.h>

#include "proxy/connections.h"

static struct channel **channel_of(struct worker *w, enum role role)
{
	return role == ROLE_DIALER ? &w->dialer : &w->broker;
}

static void on_answer(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	struct worker *w = arg;

	/* An answer that nobody asked for: its sender is not what it should be. */
	if (!asks_answer(w, type, msg, fds, n_fds))
		event_base_loopbreak(w->base);
}

static void lose(struct worker *w, enum role role)
{
	struct channel **c = channel_of(w, role);

	channel_free(*c);
	*c = NULL;
	asks_peer_gone(w, role);
}

static void closed(struct worker *w, enum role role, const char *why)
{
	if (channel_ended(why))
		lose(w, role);
	else
		event_base_loopbreak(w->base);
}

static void on_dialer_closed(void *arg, const char *why)
{
	closed(arg, ROLE_DIALER, why);
}

static void on_broker_closed(void *arg, const char *why)
{
	closed(arg, ROLE_BROKER, why);
}

bool peers_open(struct worker *w, enum role role, int fd)
{
	struct channel_peer peer = { .self = ROLE_WORKER, .other = role, .table = exeat_messages,
				     .on_message = on_answer,
				     .on_closed = role == ROLE_DIALER ? on_dialer_closed
								      : on_broker_closed,
				     .arg = w };
	struct channel *c = channel_new(w->base, fd, &peer);

	if (c) {
		channel_set_phase(c, PHASE_RUN);
		channel_gather(c);
	}
	*channel_of(w, role) = c;
	return c != NULL;
}

void peers_tell_key(struct worker *w)
{
	struct msg_pubkey key = { .spki = connections_public_key(w->connections) };
	enum err e = channel_send(w->broker, MSG_PUBKEY, &key, NULL, 0);

	/* One that is gone already will be replaced. */
	if (e != OK && e != ERR_CLOSED)
		event_base_loopbreak(w->base);
}

void peers_replace(struct worker *w, const struct msg_peer *m, int fd)
{
	enum role role = (enum role)m->role;
	struct channel **c = channel_of(w, role);

	if (role != ROLE_DIALER && role != ROLE_BROKER) {
		close(fd);
		return;
	}
	/* What the old one has said until its end still counts. */
	if (*c)
		channel_drain(*c);
	if (*c)
		lose(w, role);
	if (!peers_open(w, role, fd)) {
		event_base_loopbreak(w->base);
		return;
	}
	if (role == ROLE_BROKER) {
		peers_tell_key(w);
	} else {
		w->dialers++;
		connections_drop_idle(w->connections);
	}
	asks_peer_back(w, role);
}
