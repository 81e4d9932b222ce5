/* proxy/worker.h - what the parts of one worker share, and the questions they ask other roles
 *
 * A worker serves one sandbox. Its parts (DNS service, refused packets, connections) know this
 * struct and each other only through it. Questions to other roles are asynchronous: the callback
 * comes once, from the event loop, unless it was cancelled; nothing ever waits.
 *
 * Ownership   the worker owns all of it for the life of the process.
 * Blocking    never.
 * Failure     ask_*() that cannot be sent call back with the failure from the event loop, too. What
 *             a dialer or broker was asked when it died, or is asked while it is away, waits for
 *             its successor, PEER_WAIT_MS at most, and then fails.
 * Limits      ASKS_MAX questions of each kind under way.
 * Tests       tests/unit/proxy/test_asks.c
 */
#ifndef PROXY_WORKER_H
#define PROXY_WORKER_H

#include "policy/policy.h"
#include "proxy/messages.h"
#include "proxy/record.h"
#include "sandbox/channel.h"
#include "sandbox/lease.h"
#include "sandbox/ring.h"

#define ASKS_MAX 4096
#define PEER_WAIT_MS 3000u	/* a dialer or broker that died is replaced within a second */

struct event_base;
struct dns_service;
struct connections;
struct repeats;
struct asks;
struct limits;
struct notice;
struct pool;
struct refusal_list;
struct tls_trust;

struct worker {
	struct event_base *base;
	struct channel *supervisor, *dialer, *broker;	/* the last two: NULL while away */
	unsigned dialers;		/* so many before this one: tickets are of one of them */
	struct policy *policy;		/* in force; who needs it longer holds it */
	unsigned policies;		/* so many before this one */
	struct lease_table *leases;
	struct addr_range pool;
	uint32_t refusal_address;
	uint32_t gateway, box;
	uint16_t proxy_port;		/* of the gateway's address: proxy/explicit.h; 0: none */
	uint32_t ifindex;
	struct ring *ring;
	struct asks *asks;
	struct dns_service *dns;
	struct connections *connections;
	struct repeats *repeats;	/* connections.c's */
	struct pool *upstreams;		/* connections.c's */
	struct limits *limits;		/* connections.c's */
	struct notice *notice;
	struct refusal_list *refusals;	/* proxy/refusal_list.h */
	uint32_t max_connections, max_headers, idle_ms;
	bool synced;			/* a request waits until its begin is on the disk */
};

static inline bool worker_is_gateway(const struct worker *w, const struct addr *a)
{
	return a->family == 4 && addr_to_v4(a) == w->gateway;
}

/* ---- questions (asks.c) ---- */
/* Names one question until it was answered. 0 is none: so many had failed and not been called back
 * yet, or no memory; then no callback comes. */
typedef uint32_t ask_id;

typedef void resolved_fn(void *arg, const struct msg_resolved *answer);
typedef void leased_fn(void *arg, const struct msg_leased *answer);
/* @fd: connected, or -1; the callback's to keep. */
typedef void dialed_fn(void *arg, const struct msg_dialed *answer, int fd);
typedef void leaf_fn(void *arg, const struct msg_leaf_is *answer);
typedef void granted_fn(void *arg, const struct msg_granted *answer);
typedef void access_fn(void *arg, const struct msg_access_taken *answer);

struct asks *asks_new(struct worker *w);
/* No callback comes for what was under way. */
void asks_free(struct asks *a);
ask_id ask_resolve(struct worker *w, struct str name, resolved_fn *fn, void *arg);
ask_id ask_lease(struct worker *w, struct str name, leased_fn *fn, void *arg);
ask_id ask_dial(struct worker *w, struct str name, bool literal, uint16_t port, dialed_fn *fn,
		void *arg);
ask_id ask_leaf(struct worker *w, struct str name, bool literal, leaf_fn *fn, void *arg);
ask_id ask_grant(struct worker *w, uint64_t ticket, enum proto proto, struct str method,
		 struct str path, granted_fn *fn, void *arg);
ask_id ask_access(struct worker *w, struct str method, struct str url, struct str reason,
		  access_fn *fn, void *arg);
/* The callback will not come; a descriptor that still comes is closed, its ticket given back. */
void ask_cancel(struct worker *w, ask_id id);
void hang_up(struct worker *w, uint64_t ticket);
/* The role's channel has ended; the other one has come in its place (w->dialer, w->broker). */
void asks_peer_gone(struct worker *w, enum role role);
void asks_peer_back(struct worker *w, enum role role);
/* From the channels' handlers: an answer came. False: no such question (a peer that lies). */
bool asks_answer(struct worker *w, uint16_t type, const void *msg, int *fds, size_t n_fds);

/* ---- the parts ---- */
/* Takes both descriptors over. */
struct dns_service *dns_service_new(struct worker *w, int udp, int tcp);
/* Leaves everybody unanswered; the refusals not yet on record are written. */
void dns_service_free(struct dns_service *s);
/* Packets that the kernel refused (nflog): records, at most one line a second for identical ones.
 * Takes the descriptor over. */
struct refused;
struct refused *refused_new(struct worker *w, int nflog);
void refused_free(struct refused *r);
/* Accepts from the transparent listener. Takes it and @trust, which has its key, over; NULL: out of
 * memory. */
struct connections *connections_new(struct worker *w, int listener, struct tls_trust *trust);

#endif
