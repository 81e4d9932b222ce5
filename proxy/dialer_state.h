/* proxy/dialer_state.h - what the parts of the dialer share: boxes, their channels, their jobs
 *
 * Ownership   the dialer owns its boxes, a box its channels, its policy, its tickets and its jobs.
 * Blocking    never.
 * Failure     dialer_tell_...(): false says that the box, or its worker, is gone: no job of it is
 *             left.
 * Tests       tests/unit/proxy/test_dialer_service.c, test_dialer_successors.c
 */
#ifndef PROXY_DIALER_STATE_H
#define PROXY_DIALER_STATE_H

#include "policy/policy.h"
#include "proxy/dialer_ranges.h"
#include "proxy/dialer_service.h"
#include "proxy/dialer_tickets.h"
#include "proxy/resolver.h"
#include "sandbox/channel.h"

struct dial;

/* One RESOLVE or DIAL of a worker that is not answered yet. */
struct job {
	struct box *box;
	struct job *next, **prev;
	bool dials;
	uint32_t id;
	struct name name;	/* also of a literal, as text */
	bool literal;
	struct addr addr;	/* the literal */
	uint16_t port;
	struct resolver_wait *wait;
	struct dial *dial;
	uint32_t resolve_ms;
};

struct box {
	struct dialer *dialer;
	struct box *next, **prev;
	uint32_t number, join;
	char name[MSG_SANDBOX_NAME_MAX];
	size_t name_n;
	struct channel *worker;	/* NULL: it is gone, and the box is to be taken away */
	struct channel *broker;	/* NULL: it is gone, and its successor to come */
	struct policy *policy;
	struct job *jobs;
	unsigned resolves, dials;
	struct dialer_tickets tickets;
};

struct dialer {
	struct event_base *base;
	struct ring *ring;
	struct resolver *resolver;
	struct dialer_ranges ranges;
	struct box *boxes;
	size_t n_boxes;
	uint32_t max_dials, max_queued;
	size_t dials;		/* under way, of all boxes */
	dialer_lost_fn *on_lost;
	void *on_lost_arg;
};

/* ---- dialer_service.c ---- */
bool dialer_tell_worker(struct box *b, uint16_t type, const void *msg, const int *fds,
			size_t n_fds);
/* Without a broker there is nobody to tell: its successor is told all. */
bool dialer_tell_broker(struct box *b, uint16_t type, const void *msg);

/* ---- dialer_job.c ---- */
struct job *dialer_job_new(struct box *b, bool dials, uint32_t id);
void dialer_job_free(struct job *j);
/* A name as Exeat writes it, and nothing else. */
bool dialer_job_take_name(struct str text, struct name *out);
#define JOB_WHY_MAX 256
/* Leaves in @out the addresses without objection, at most @max; @why gets the first objection. */
size_t dialer_job_vet(const struct box *b, const struct facts *f, const struct resolver_answer *a,
		       struct addr *out, size_t max, struct buf *why);
void dialer_on_resolve(struct box *b, const struct msg_resolve *m);

/* ---- dialer_dial.c ---- */
void dialer_on_dial(struct box *b, const struct msg_dial *m);
void dialer_on_hangup(struct box *b, const struct msg_hangup *m);

#endif
