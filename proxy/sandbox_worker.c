#include "proxy/appliance.h"

#include <stdio.h>
#include <string.h>

#include "proxy/access_table.h"
#include "proxy/clock.h"

/* ---- leases ---- */

/* Two bytes a port, little endian. */
static size_t read_ports(struct str packed, uint16_t out[POLICY_PORTS_MAX])
{
	size_t n = packed.n / 2;

	if (n > POLICY_PORTS_MAX)
		n = POLICY_PORTS_MAX;
	for (size_t i = 0; i < n; i++)
		out[i] = (uint16_t)((unsigned char)packed.p[2 * i] |
				    (unsigned char)packed.p[2 * i + 1] << 8);
	return n;
}

static bool lease_name_ok(struct str name)
{
	for (size_t i = 0; i < name.n; i++)
		if (name.p[i] <= ' ' || name.p[i] > '~')
			return false;
	return name.n != 0;
}

/* The kernel must have taken the ports before the worker answers: wire_admit() waits for its word.
 */
static void on_lease(struct sandbox *s, const struct msg_lease *m)
{
	struct msg_leased answer = { .id = m->id };
	uint16_t ports[POLICY_PORTS_MAX];
	size_t n = read_ports(m->ports, ports);
	struct wire_error why;
	bool made;

	if (lease_name_ok(m->name) &&
	    (lease_count(s->leases) < s->a->settings->max_leases ||
	     lease_find(s->leases, m->name, &answer.address)) &&
	    lease_get(s->leases, m->name, &answer.address, &made) == OK &&
	    wire_admit(s->a->gateway, &s->wire, answer.address, ports, n, &why) == OK)
		answer.ok = 1;
	(void)!part_send(&s->worker, MSG_LEASED, &answer, NULL, 0);
}

/* ---- requests for access ---- */

static void on_access(struct sandbox *s, const struct msg_access *m)
{
	struct msg_access_taken answer = { .id = m->id };

	access_table_ask(s->a->access, s->a->ring, str_of(s->name), m, clock_wall_us(), &answer);
	(void)!part_send(&s->worker, MSG_ACCESS_TAKEN, &answer, NULL, 0);
}

/* ---- its life ---- */

/* It may have to wait: for its wire, for dialer and broker. */
static bool worker_started(struct part *p)
{
	p->waiting = true;
	sandbox_step(p->owner);
	return true;
}

static void worker_ready(struct part *p)
{
	policies_worker_ready(p->owner);
	sandbox_step(p->owner);
}

static void worker_message(struct part *p, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	channel_close_fds(fds, n_fds);
	if (type == MSG_LEASE)
		on_lease(p->owner, msg);
	else if (type == MSG_ACCESS)
		on_access(p->owner, msg);
	else if (type == MSG_POLICY_TAKEN)
		policies_taken(p, msg);
	else
		part_lose(p, "message in the wrong direction");
}

/* Leases, listeners and policy are here; its successor is given them. */
static void worker_lost(struct part *p)
{
	struct sandbox *s = p->owner;

	sandbox_forget(s);
	policies_lost(p);
	rings_end(s->a, s->ring);
	s->ring = rings_add(s->a, ROLE_WORKER, s->name, str_of(s->policy->digest));
	if (s->a->closing || s->state == SANDBOX_STOPPING) {
		tell_lost(p, "its sandbox is being ended");
		sandbox_step(s);
	} else if (!s->ring) {
		tell_lost(p, "there is no memory for a successor's records");
		sandbox_fail(s, "its worker died, and none can take over");
	} else if (part_crashed(p, WORKER_CRASHES_MAX)) {
		tell_lost(p, "that was too often: its sandbox is ended");
		sandbox_fail(s, "its worker died %d times in a minute", WORKER_CRASHES_MAX);
	} else {
		tell_lost(p, "a new one takes over");
		nursery_renew(s->a);
		part_want(p);
	}
}

static void worker_ended(struct part *p)
{
	sandbox_step(p->owner);
}

const struct part_hooks worker_hooks = { .started = worker_started, .ready = worker_ready,
					 .message = worker_message, .lost = worker_lost,
					 .ended = worker_ended };
