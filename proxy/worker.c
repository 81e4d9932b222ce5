/* Theory of operation
 *
 * One sandbox's worker, forked from the nursery (nursery.h), whose program this is, too. All that
 * it will ever hold is opened in on_start(): the sockets that were made for it in the gateway
 * namespace, the policy images, the lease table, its ring, the channels to its dialer and broker,
 * and its own key; the trust store is the nursery's. Then it is confined and tells the broker its
 * public key.
 *
 * A dialer or broker that dies is replaced (peers.c). The supervisor's end is the worker's; its
 * successor finds the leases where they were.
 */
#include "proxy/worker.h"

#include <event2/event.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "proxy/connections.h"
#include "proxy/notice.h"
#include "proxy/refusal_list.h"
#include "proxy/nursery.h"
#include "proxy/peers.h"
#include "proxy/role.h"

static const struct role_program program;

struct state {
	struct worker w;
	struct refused *refused;
};

/* ---- the start ---- */

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

static void open_parts(struct state *s, struct str contact, struct tls_trust *trust, int *fds)
{
	struct worker *w = &s->w;

	w->asks = asks_new(w);
	if (!w->asks)
		role_fatal(&program, "out of memory");
	w->refusals = refusal_list_new();
	w->notice = notice_new(w, contact);
	if (!w->refusals || !w->notice)
		role_fatal(&program, "out of memory");
	w->dns = dns_service_new(w, fds[FD_WORKER_DNS_UDP], fds[FD_WORKER_DNS_TCP]);
	s->refused = refused_new(w, fds[FD_WORKER_NFLOG]);
	if (!tls_trust_make_key(trust))
		role_fatal(&program, "no key");
	w->connections = connections_new(w, fds[FD_WORKER_TPROXY], trust);
	if (!w->dns || !s->refused || !w->connections ||
	    !peers_open(w, ROLE_DIALER, fds[FD_WORKER_DIALER]) ||
	    !peers_open(w, ROLE_BROKER, fds[FD_WORKER_BROKER]))
		role_fatal(&program, "out of memory");
}

/* What it maps for itself alone, libraries' data included: past it, memory is refused to it, and
 * what asked for it fails alone, or the worker dies alone. AddressSanitizer's shadow counts. */
#ifdef __SANITIZE_ADDRESS__
static bool limit_memory(uint64_t bytes)
{
	return bytes > 0;
}
#else
static bool limit_memory(uint64_t bytes)
{
	struct rlimit most = { bytes, bytes };

	return bytes > 0 && setrlimit(RLIMIT_DATA, &most) == 0;
}
#endif

static bool on_start(struct role_env *env, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	const struct msg_worker_start *m = msg;
	struct state *s = calloc(1, sizeof(*s));

	if (type != MSG_WORKER_START || !s)
		role_fatal(&program, "cannot start");
	if (!limit_memory(m->memory))
		role_fatal(&program, "its memory cannot be limited");
	env->state = s;
	s->w = (struct worker){ .base = env->base,
				.supervisor = env->supervisor,
				.gateway = m->gateway,
				.proxy_port = m->proxy_port,
				.box = m->box,
				.ifindex = m->ifindex,
				.max_connections = m->max_connections,
				.max_headers = m->max_headers,
				.idle_ms = m->idle_ms,
				.synced = m->synced };
	map_policy(&s->w, fds, n_fds);
	map_leases(&s->w, m, fds[FD_WORKER_LEASES]);
	open_ring(&s->w, fds + FD_WORKER_RING);
	open_parts(s, m->contact, env->inherited, fds);
	return true;
}

static void on_confined(struct role_env *env)
{
	struct state *s = env->state;

	peers_tell_key(&s->w);
}

/* ---- the run ---- */

static bool take_policy(struct worker *w, const int *fds, size_t n)
{
	struct policy *policy;

	if (policy_map(fds, n, &policy) != OK)
		return false;
	connections_new_policy(w->connections, policy);
	return true;
}

static void on_policy(struct worker *w, const struct msg_policy *m, const int *fds, size_t n)
{
	struct msg_policy_taken taken = { .sandbox = m->sandbox, .ok = take_policy(w, fds, n) };

	channel_close_fds(fds, n);
	if (channel_send(w->supervisor, MSG_POLICY_TAKEN, &taken, NULL, 0) != OK)
		event_base_loopbreak(w->base);	/* it is gone, and has said why */
}

static void on_message(struct role_env *env, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	struct state *s = env->state;

	if (type == MSG_PEER)
		peers_replace(&s->w, msg, fds[0]);
	else if (type == MSG_POLICY)
		on_policy(&s->w, msg, fds, n_fds);
	else if (!asks_answer(&s->w, type, msg, fds, n_fds))
		event_base_loopbreak(env->base);	/* that is no supervisor of ours */
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
	notice_free(s->w.notice);
	refusal_list_free(s->w.refusals);
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
