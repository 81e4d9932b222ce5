/* proxy/supervisor_state.h - what the parts of the supervisor share during one run
 *
 * Ownership   one struct supervisor, on the stack of supervisor_run(), which releases all of it.
 * Blocking    supervisor_wait() runs the loop, bounded; part_end() waits for a process, bounded.
 * Failure     bool: false has told why on stderr.
 * Tests       tests/e2e
 */
#ifndef PROXY_SUPERVISOR_STATE_H
#define PROXY_SUPERVISOR_STATE_H

#include <sys/types.h>
#include <time.h>

#include "policy/policy.h"
#include "proxy/supervisor.h"
#include "sandbox/box.h"
#include "sandbox/channel.h"
#include "sandbox/lease.h"
#include "sandbox/ring.h"
#include "sandbox/wire.h"

struct event;
struct access_table;

#define ROLE_READY_MS 10000	/* from exec to confined */
#define ROLE_END_MS 5000	/* from "stop" to gone, and for the recorder to write down all */
#define SANDBOX_NUMBER 1

/* The processes of a run. The standby is a recorder, too. */
enum part { PART_RECORDER, PART_STANDBY, PART_BROKER, PART_DIALER, PART_WORKER, PART_COUNT };

enum ring_of { RING_SUPERVISOR, RING_BROKER, RING_DIALER, RING_WORKER, RING_COUNT };

struct part_state {
	struct supervisor *sup;
	enum part which;
	pid_t pid;
	struct channel *channel;
	bool ready, ending, lost;
	bool has_rings;			/* a recorder: it was given all */
	const char *why;		/* its channel closed */
	int status;			/* as waitpid() gave it, once it is gone */
};

struct supervisor {
	const struct run_spec *spec;
	struct event_base *base;
	struct policy *policy;
	char programs[4096];
	struct part_state part[PART_COUNT];
	struct ring_fds ring_fds[RING_COUNT];
	struct ring *ring;		/* the supervisor's own, for writing */
	struct wire_gateway *gateway;
	struct wire_box wire;
	struct lease_table *leases;
	struct access_table *access;	/* what the box has asked for */
	int leases_fd;
	struct buf ca_pem;
	bool have_ca;
	struct box *box;
	struct event *box_event, *signal_event;
	int signals;
	unsigned bad_secrets;
	char worker_lost[128];		/* why, as the dialer or the broker says */
	bool failed;			/* a role died, or the log failed: the run ends closed */
	bool drained, box_over;
	int box_status;
	uint64_t box_cpu_ms;
	time_t started;
};

/* ---- supervisor.c ---- */
/* Runs the loop until *done, or a part was lost, or the time is over. */
bool supervisor_wait(struct supervisor *s, const bool *done, int ms);
/* A part's channel speaks. @arg is its struct part_state. */
void supervisor_message(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds);

/* ---- supervisor_parts.c ---- */
bool part_spawn(struct supervisor *s, enum part which);
bool part_wait_ready(struct supervisor *s, enum part which);
/* It is gone, or is to be since it broke the rules: the run ends closed. @why is static. */
void part_lose(struct part_state *part, const char *why);
/* Gives a recorder every ring. */
bool give_rings(struct supervisor *s, enum part to);
/* Ends a part and waits for it; its wait status. */
int part_end(struct supervisor *s, enum part which);
/* Puts each lost part on record. */
void record_lost(struct supervisor *s);
/* Has all records written down. */
bool drain(struct supervisor *s);

/* ---- supervisor_stages.c ---- */
/* All stages but the last two: everything is there but the box, and the worker is getting ready. */
bool stages_before_box(struct supervisor *s);
bool stage_box(struct supervisor *s);
/* The policy does not load: that goes on record. Always false, since nothing is to run. */
bool stages_of_rejection(struct supervisor *s);

#endif
