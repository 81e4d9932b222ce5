/* Theory of operation
 *
 * One sandbox's worker, forked from the nursery (nursery.h), whose program this is, too. All that
 * it will ever hold is opened in on_start(): the sockets that were made for it in the gateway
 * namespace, the policy images, the lease table, its ring, the channels to its dialer and broker,
 * and its own key; the trust store is the nursery's. Then it is confined and tells the broker its
 * public key. Without one of its channels it can serve nobody rightly: it ends, and its
 * successor finds the leases where they were.
 */
#include "proxy/worker.h"

#include <event2/event.h>
#include <stdlib.h>
#include <unistd.h>

#include "proxy/connections.h"
#include "proxy/nursery.h"
#include "proxy/role.h"

static const struct role_program program;

struct state {
	struct worker w;
	struct refused *refused;
};

static void on_answer(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	struct worker *w = arg;

	/* An answer that nobody asked for: its sender is not what it should be. */
	if (!asks_answer(w, type, msg, fds, n_fds))
		event_base_loopbreak(w->base);
}

static void on_peer_gone(void *arg, const char *why)
{
	struct worker *w = arg;

	(void)why;
	event_base_loopbreak(w->base);
}

static struct channel *open_channel(struct worker *w, int fd, enum role other)
{
	struct channel_peer peer = { .self = ROLE_WORKER, .other = other, .table = exeat_messages,
				     .on_message = on_answer, .on_closed = on_peer_gone, .arg = w };
	struct channel *c = channel_new(w->base, fd, &peer);

	if (!c)
		role_fatal(&program, "no channel to the %s", role_name(other));
	channel_set_phase(c, PHASE_RUN);
	channel_gather(c);
	return c;
}

static void map_policy(struct worker *w, int *fds, size_t n_fds)
{
	size_t n = n_fds - FD_WORKER_POLICY;

	if (policy_map(fds + FD_WORKER_POLICY, n, &w->policy) != OK)
		role_fatal(&program, "the policy image does not hold");
	for (size_t i = 0; i < n; i++)
		close(fds[FD_WORKER_POLICY + i]);
}

static void map_leases(struct worker *w, const struct msg_worker_start *m, int fd)
{
	if (!addr_range_parse(m->pool, &w->pool) || lease_table_map(fd, &w->pool, &w->leases) != OK)
		role_fatal(&program, "the lease table does not hold");
	close(fd);
	w->refusal_address = lease_refusal_address(&w->pool);
}

static void open_ring(struct worker *w, const int *fds)
{
	struct ring_fds ring = { .memory = fds[0], .wake = fds[1], .room = fds[2] };

	if (ring_open_writer(&ring, &w->ring) != OK)
		role_fatal(&program, "the audit ring does not hold");
}

static void open_parts(struct state *s, struct tls_trust *trust, int *fds)
{
	struct worker *w = &s->w;

	w->asks = asks_new(w);
	if (!w->asks)
		role_fatal(&program, "out of memory");
	w->dns = dns_service_new(w, fds[FD_WORKER_DNS_UDP], fds[FD_WORKER_DNS_TCP]);
	s->refused = refused_new(w, fds[FD_WORKER_NFLOG]);
	if (!tls_trust_make_key(trust))
		role_fatal(&program, "no key");
	w->connections = connections_new(w, fds[FD_WORKER_TPROXY], trust);
	if (!w->dns || !s->refused || !w->connections)
		role_fatal(&program, "out of memory");
}

static bool on_start(struct role_env *env, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	const struct msg_worker_start *m = msg;
	struct state *s = calloc(1, sizeof(*s));

	if (type != MSG_WORKER_START || !s)
		role_fatal(&program, "cannot start");
	env->state = s;
	s->w = (struct worker){ .base = env->base,
				.supervisor = env->supervisor,
				.gateway = m->gateway,
				.box = m->box,
				.ifindex = m->ifindex,
				.max_connections = m->max_connections,
				.max_headers = m->max_headers,
				.idle_ms = m->idle_ms };
	map_policy(&s->w, fds, n_fds);
	map_leases(&s->w, m, fds[FD_WORKER_LEASES]);
	open_ring(&s->w, fds + FD_WORKER_RING);
	s->w.dialer = open_channel(&s->w, fds[FD_WORKER_DIALER], ROLE_DIALER);
	s->w.broker = open_channel(&s->w, fds[FD_WORKER_BROKER], ROLE_BROKER);
	open_parts(s, env->inherited, fds);
	return true;
}

static void on_confined(struct role_env *env)
{
	struct state *s = env->state;
	struct msg_pubkey key = { .spki = connections_public_key(s->w.connections) };

	if (channel_send(s->w.broker, MSG_PUBKEY, &key, NULL, 0) != OK)
		event_base_loopbreak(env->base);	/* the supervisor tells it */
}

static void on_message(struct role_env *env, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	struct state *s = env->state;

	on_answer(&s->w, type, msg, fds, n_fds);
}

/* Each puts on record what it has only counted so far. */
static void on_end(struct role_env *env)
{
	struct state *s = env->state;

	if (!s)
		return;
	connections_free(s->w.connections);
	dns_service_free(s->w.dns);
	refused_free(s->refused);
}

static const struct role_program program = {
	.self = ROLE_WORKER,
	.on_start = on_start,
	.on_confined = on_confined,
	.on_message = on_message,
	.on_end = on_end,
};

static int life(int channel, struct tls_trust *trust)
{
	return role_live(&program, channel, trust);
}

int main(int argc, char **argv)
{
	return nursery_main(argc ? argv[0] : NULL, life);
}
