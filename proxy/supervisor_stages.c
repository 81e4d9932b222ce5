#include "proxy/supervisor_state.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy/messages.h"
#include "proxy/role_start.h"
#include "proxy/run_records.h"

/* Tells what failed; who is gone is told of at the end. */
static bool told(const char *what, enum err e)
{
	if (e && e != ERR_CLOSED)
		fprintf(stderr, "exeat: %s: %s\n", what, err_text(e));
	return e == OK;
}

static bool dup_ring(const struct ring_fds *from, struct ring_fds *to)
{
	to->memory = fcntl(from->memory, F_DUPFD_CLOEXEC, 0);
	to->wake = fcntl(from->wake, F_DUPFD_CLOEXEC, 0);
	to->room = fcntl(from->room, F_DUPFD_CLOEXEC, 0);
	return to->memory >= 0 && to->wake >= 0 && to->room >= 0;
}

static bool stage_rings(struct supervisor *s)
{
	struct ring_fds own;

	for (size_t i = 0; i < RING_COUNT; i++)
		if (!told("the audit log's rings", ring_create(&s->ring_fds[i])))
			return false;
	if (!dup_ring(&s->ring_fds[RING_SUPERVISOR], &own))
		return told("the audit log's rings", ERR_SYSTEM);
	/* The first records wait there for the recorder: whatever ends the run, they are in the
	 * log. */
	return told("the audit log's rings", ring_open_writer(&own, &s->ring)) &&
	       told("the first records", put_start(s->ring, s->spec)) &&
	       told("the first records",
		    s->policy ? put_policy_load(s->ring, s->spec, policy_digest(s->policy))
			      : put_policy_reject(s->ring, s->spec));
}

/* Roles take their time to load and to confine themselves: all that need nothing from each other
 * are started before the first is waited for. */
static bool spawn_recorders(struct supervisor *s)
{
	for (enum part p = PART_RECORDER; p <= PART_STANDBY; p++)
		if (!part_spawn(s, p) ||
		    !told("the recorder's start", start_recorder(s->part[p].channel,
								 s->spec->log_path, s->spec->log)))
			return false;
	return true;
}

static bool stage_recorders(struct supervisor *s)
{
	return part_wait_ready(s, PART_RECORDER) && part_wait_ready(s, PART_STANDBY) &&
	       give_rings(s, PART_RECORDER);
}

static bool spawn_broker(struct supervisor *s)
{
	enum err e;

	if (!told("the broker's start", broker_start_open(&s->broker_start, s->spec->settings)) ||
	    !part_spawn(s, PART_BROKER))
		return false;
	e = start_broker(s->part[PART_BROKER].channel, &s->broker_start, s->policy,
			 &s->ring_fds[RING_BROKER]);
	/* ERR_NOTFOUND: a secret, which has been named. */
	return e != ERR_NOTFOUND && told("the broker's start", e);
}

static bool stage_broker(struct supervisor *s)
{
	return part_wait_ready(s, PART_BROKER) && s->bad_secrets == 0;
}

static bool spawn_dialer(struct supervisor *s)
{
	return part_spawn(s, PART_DIALER) &&
	       told("the dialer's start", start_dialer(s->part[PART_DIALER].channel, s->spec->settings,
						       &s->ring_fds[RING_DIALER]));
}

static bool stage_dialer(struct supervisor *s)
{
	return part_wait_ready(s, PART_DIALER);
}

/* ---- the wire ---- */

struct literal_run {
	struct supervisor *s;
	struct addr addr;
	uint16_t ports[POLICY_PORTS_MAX];
	size_t n;
	bool failed;
};

static void admit_literal(struct literal_run *l)
{
	struct wire_error why;

	if (l->n && wire_admit(l->s->gateway, &l->s->wire, addr_to_v4(&l->addr), l->ports, l->n,
			       &why) != OK)
		l->failed = true;
	l->n = 0;
}

/* Pairs come grouped by address. */
static bool on_literal(void *arg, struct addr addr, uint16_t port)
{
	struct literal_run *l = arg;

	if (addr.family != 4)
		return true;	/* the box speaks IPv4 only */
	if (l->n == POLICY_PORTS_MAX || (l->n && !addr_eq(&addr, &l->addr)))
		admit_literal(l);
	l->addr = addr;
	l->ports[l->n++] = port;
	return !l->failed;
}

/* What the box may reach before it has resolved a name: addresses that rules name, and with
 * "refusal: explain" the refusal address, so that it can be told why. */
static bool admit_fixed(struct supervisor *s)
{
	static const uint16_t web[] = { 80, 443 };
	struct literal_run *l = calloc(1, sizeof(*l));
	struct wire_error why;
	bool ok;

	if (!l)
		return false;
	l->s = s;
	policy_literals(s->policy, on_literal, l);
	admit_literal(l);
	ok = !l->failed;
	free(l);
	if (ok && policy_explains(s->policy))
		ok = wire_admit(s->gateway, &s->wire,
				lease_refusal_address(&s->spec->settings->synthetic_pool), web, 2,
				&why) == OK;
	return ok;
}

static bool stage_wire(struct supervisor *s)
{
	struct wire_error why = { "", 0 };

	if (wire_gateway_open(&s->gateway, &why) != OK ||
	    wire_box_open(s->gateway, SANDBOX_NUMBER, &s->spec->settings->link_pool, &s->wire,
			  &why) != OK) {
		fprintf(stderr, "exeat: network: %s: %s%s\n", why.what, strerror(why.code),
			why.code == EPERM ? " (needs root and CAP_NET_ADMIN)"
			: why.code == ENOENT || why.code == EOPNOTSUPP ||
					why.code == EPROTONOSUPPORT
				? " (the kernel lacks it: nf_tables with tproxy, socket, fib and log, and veth are needed)"
				: "");
		return false;
	}
	if (lease_table_create(&s->spec->settings->synthetic_pool, &s->leases, &s->leases_fd) != OK)
		return false;
	return admit_fixed(s);
}

/* ---- the worker, and who it talks to ---- */

static bool tell_sandbox(struct supervisor *s, enum part to, int worker, int other)
{
	struct msg_sandbox msg = { .sandbox = SANDBOX_NUMBER, .name = str_of(s->spec->name) };
	int fds[3] = { [FD_SANDBOX_WORKER] = worker, [FD_SANDBOX_OTHER] = other,
		       [FD_SANDBOX_POLICY] = s->spec->policy };

	return channel_send(s->part[to].channel, MSG_SANDBOX, &msg, fds, 3) == OK;
}

static void close_pair(int fds[2])
{
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static bool join_worker(struct supervisor *s, int dialer[2], int broker[2], int between[2])
{
	struct worker_start start = { .settings = s->spec->settings,
				      .sandbox = s->spec->name,
				      .wire = &s->wire,
				      .ring = &s->ring_fds[RING_WORKER],
				      .leases = s->leases_fd,
				      .dialer = dialer[0],
				      .broker = broker[0],
				      .policy = s->spec->policy };

	return tell_sandbox(s, PART_DIALER, dialer[1], between[0]) &&
	       tell_sandbox(s, PART_BROKER, broker[1], between[1]) &&
	       start_worker(s->part[PART_WORKER].channel, &start) == OK;
}

static bool stage_worker(struct supervisor *s)
{
	int dialer[2] = { -1, -1 }, broker[2] = { -1, -1 }, between[2] = { -1, -1 };
	bool ok;

	ok = channel_pair(dialer) == OK && channel_pair(broker) == OK &&
	     channel_pair(between) == OK && part_spawn(s, PART_WORKER) &&
	     join_worker(s, dialer, broker, between);
	close_pair(dialer);
	close_pair(broker);
	close_pair(between);
	return ok;
}

bool stages_before_box(struct supervisor *s)
{
	return stage_rings(s) && spawn_recorders(s) && spawn_broker(s) && spawn_dialer(s) &&
	       stage_recorders(s) && stage_dialer(s) && stage_broker(s) && stage_wire(s) &&
	       stage_worker(s);
}

bool stages_of_rejection(struct supervisor *s)
{
	(void)(stage_rings(s) && spawn_recorders(s) && stage_recorders(s));
	return false;
}

/* ---- the box ---- */

bool stage_box(struct supervisor *s)
{
	char id[32], init[4096 + 16], settings[PATH_MAX];
	/* Where the box could write to these, it would say what the next one may do. */
	const char *const kept[] = { s->spec->policy_file, settings, NULL };
	struct box_spec spec = { .kept = kept,
				 .id = id,
				 .rootfs = s->spec->rootfs,
				 .workspace = s->spec->workspace,
				 .init = init,
				 .command = s->spec->command,
				 .netns = s->wire.netns,
				 .nameserver = s->wire.gateway,
				 .terminal = isatty(0) && isatty(1) };
	bool prepared;

	/* The box is prepared while the worker starts, as soon as the broker has made the
	 * certificate. */
	if (!supervisor_wait(s, &s->have_ca, ROLE_READY_MS) || s->ca_pem.n == 0) {
		if (!s->failed)	/* where a role was lost, that is told at the end */
			fprintf(stderr, "exeat: the broker made no certificate\n");
		return false;
	}
	snprintf(settings, sizeof(settings), "%.*s", STR_ARG(s->spec->settings->path));
	snprintf(id, sizeof(id), "run-%d", (int)getpid());
	snprintf(init, sizeof(init), "%s/exeat-init", s->programs);
	spec.ca_pem = buf_str(&s->ca_pem);
	prepared = box_prepare(&spec, &s->box) == OK;
	if (!prepared)
		fprintf(stderr, "exeat: %s\n", box_error());
	return part_wait_ready(s, PART_WORKER) && prepared &&
	       put_sandbox_start(s->ring, s->spec, policy_digest(s->policy), s->box) == OK;
}

