/* Theory of operation
 *
 * Who talks to whom, and so who must be told of a successor:
 *
 *	worker  --- dialer	a pair for each sandbox
 *	worker  --- broker	a pair for each sandbox
 *	dialer  --- broker	a pair for each sandbox: which tickets live
 *
 * A sandbox is joined when all three know each other. A new worker joins from the beginning
 * (SANDBOX_GONE and SANDBOX to both), under a number of its own: what is still said of the worker
 * before it (SANDBOX_LOST) does not hit this one. A new dialer or broker is told every sandbox, and
 * the two that live get their ends of new pairs (PEER). What it held that must not be lost comes
 * back: the broker's certificate authorities as it has sealed them, its secrets from their sources,
 * the dialer's live tickets from itself to a new broker. A new recorder is given all rings.
 */
#include "proxy/appliance.h"

#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/supervisor_records.h"

/* ---- losing ---- */

void tell_lost(const struct part *p, const char *what_now)
{
	const struct sandbox *s = p->role == ROLE_WORKER ? p->owner : NULL;
	int status = p->status;

	if (p->gone == 0)
		fprintf(stderr, "exeat: the %s%s%s %s (exeat-%s in %s); %s\n", role_name(p->role),
			s ? " of " : "", s ? s->name : "", p->why ? p->why : "is gone",
			role_name(p->role), p->a->programs, what_now);
	else
		fprintf(stderr, "exeat: the %s%s%s is gone (%s %d%s%s); %s\n",
			role_name(p->role), s ? " of " : "", s ? s->name : "", WIFSIGNALED(status) ? "signal" : "exit",
			WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
			p->why ? ": " : "", p->why ? p->why : "", what_now);
	if (put_role_lost(p, s ? s->name : "") != OK)
		fprintf(stderr, "exeat: that cannot be recorded\n");
}

/* What it has written lies in its ring; a successor writes to one of its own. */
static void replace_ring(struct part *p)
{
	struct appliance *a = p->a;
	struct ring_slot **slot = p->role == ROLE_BROKER ? &a->broker_ring :
				  p->role == ROLE_DIALER ? &a->dialer_ring : NULL;

	if (!slot)
		return;
	rings_end(a, *slot);
	*slot = rings_add(a, p->role, "", STR_NONE);
	if (!*slot)
		appliance_fail(a, "no memory for a ring");
}

/* Every shared role's: a successor, unless it died while all was being started, or too often. */
static void replace(struct part *p)
{
	struct appliance *a = p->a;

	policies_lost(p);
	for (struct sandbox *s = a->sandboxes; s && p->role == ROLE_BROKER; s = s->next)
		s->ca_awaited = 0;	/* what it owed */
	if (a->closing) {
		tell_lost(p, "all is being ended");
	} else if (!a->confined) {
		tell_lost(p, "nothing is run");
		appliance_fail(a, "a role did not start");
	} else if (part_crashed(p, SHARED_CRASHES_MAX)) {
		tell_lost(p, "that was too often: all is ended");
		appliance_fail(a, "a role died too often");
	} else {
		tell_lost(p, "a new one takes over");
		replace_ring(p);
		part_want(p);
	}
}

/* ---- pairs ---- */

static void close_pair(const int fds[2])
{
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static void tell_peer(struct part *to, const struct sandbox *s, enum role role, int fd)
{
	struct msg_peer msg = { .sandbox = to == &s->worker ? 0 : s->number, .join = s->join,
				.role = (uint8_t)role };

	(void)!part_send(to, MSG_PEER, &msg, &fd, 1);
}

static bool tell_sandbox(struct sandbox *s, struct part *to, int worker, int other)
{
	struct msg_sandbox msg = { .sandbox = s->number, .join = s->join, .name = str_of(s->name) };
	int fds[3] = { [FD_SANDBOX_WORKER] = worker, [FD_SANDBOX_OTHER] = other,
		       [FD_SANDBOX_POLICY] = s->policy->image };

	if (to->role == ROLE_BROKER)
		msg.ca = buf_str(&s->ca_sealed);
	if (part_send(to, MSG_SANDBOX, &msg, fds, 3) != OK)
		return false;
	s->ca_awaited += to->role == ROLE_BROKER;
	return true;
}

static bool start_it(struct sandbox *s, int dialer, int broker)
{
	struct worker_start start = { .settings = s->a->settings,
				      .sandbox = s->name,
				      .wire = &s->wire,
				      .ring = &s->ring->fds,
				      .leases = s->leases_fd,
				      .dialer = dialer,
				      .broker = broker,
				      .policy = s->policy->image };

	return start_worker(s->worker.channel, &start) == OK;
}

bool sandbox_join(struct sandbox *s)
{
	int dialer[2] = { -1, -1 }, broker[2] = { -1, -1 }, between[2] = { -1, -1 };
	bool ok;

	if (++s->a->last_join == 0)	/* 0: not joined */
		s->a->last_join = 1;
	s->join = s->a->last_join;
	ok = channel_pair(dialer) == OK && channel_pair(broker) == OK &&
	     channel_pair(between) == OK && tell_sandbox(s, &s->a->dialer, dialer[1], between[0]) &&
	     tell_sandbox(s, &s->a->broker, broker[1], between[1]) &&
	     start_it(s, dialer[0], broker[0]);
	close_pair(dialer);
	close_pair(broker);
	close_pair(between);
	if (ok)
		part_told(&s->worker);
	else
		s->join = 0;
	return ok;
}

void sandbox_forget(struct sandbox *s)
{
	struct msg_sandbox_gone msg = { .sandbox = s->number };

	if (!s->join)
		return;
	s->join = 0;
	if (s->a->dialer.state == PART_READY)
		(void)!part_send(&s->a->dialer, MSG_SANDBOX_GONE, &msg, NULL, 0);
	if (s->a->broker.state == PART_READY)
		(void)!part_send(&s->a->broker, MSG_SANDBOX_GONE, &msg, NULL, 0);
}

/* A new dialer or broker takes the dead one's place in a sandbox. */
static void introduce(struct sandbox *s, struct part *p)
{
	struct part *other = p->role == ROLE_DIALER ? &s->a->broker : &s->a->dialer;
	int worker[2] = { -1, -1 }, between[2] = { -1, -1 };

	/* Where both are gone, the second of the two to be ready introduces both. */
	if (channel_pair(worker) != OK || channel_pair(between) != OK)
		sandbox_fail(s, "no descriptors for the %s's successor", role_name(p->role));
	else if (tell_sandbox(s, p, worker[1], between[0])) {
		if (other->state == PART_READY)
			tell_peer(other, s, p->role, between[1]);
		tell_peer(&s->worker, s, p->role, worker[0]);
	}
	close_pair(worker);
	close_pair(between);
}

static void introduce_to_all(struct part *p)
{
	for (struct sandbox *s = p->a->sandboxes; s; s = s->next) {
		if (s->join && s->worker.channel)
			introduce(s, p);
		else
			sandbox_step(s);
	}
}

/* ---- what comes from more than one role ---- */

/* The dialer or the broker has given a worker up, which may well live. */
static void on_sandbox_lost(struct part *p, const struct msg_sandbox_lost *m)
{
	struct sandbox *s = sandbox_by_number(p->a, m->sandbox);
	char why[128];

	if (p->role != ROLE_DIALER && p->role != ROLE_BROKER) {
		part_lose(p, "message in the wrong direction");
		return;
	}
	if (!s || m->join != s->join)
		return;		/* ended meanwhile, or that worker is */
	snprintf(why, sizeof(why), "%.*s", STR_ARG(m->why));
	part_lose(&s->worker, why);
}

static void on_shared(struct part *p, uint16_t type, const void *msg)
{
	if (type == MSG_SANDBOX_LOST)
		on_sandbox_lost(p, msg);
	else if (type == MSG_POLICY_TAKEN)
		policies_taken(p, msg);
	else
		part_lose(p, "message in the wrong direction");
}

/* ---- the log's file ---- */

static void no_log_file(struct appliance *a, int code)
{
	struct msg_log_file msg = { .code = (uint32_t)code };

	(void)!part_send(&a->recorder, MSG_LOG_FILE, &msg, NULL, 0);
}

/* The recorder has ended it: a launcher puts it aside. */
static void rotate_log(struct appliance *a)
{
	struct msg_rotate msg = { .id = ++a->last_order };

	a->rotator = part_launcher(a);
	if (a->rotator && part_send(a->rotator, MSG_ROTATE, &msg, NULL, 0) == OK)
		return;
	a->rotator = NULL;
	no_log_file(a, ECHILD);
}

static void log_rotated(struct appliance *a, const struct msg_log_file *m, int *fds, size_t n_fds)
{
	a->rotator = NULL;
	(void)!part_send(&a->recorder, MSG_LOG_FILE, m, fds, n_fds);
	if (m->code || n_fds != 1)
		return;
	if (a->log_next >= 0)
		close(a->log_next);
	a->log_next = fds[0];
	fds[0] = -1;
}

/* ---- launcher ---- */

/* The second is started by the first, and either starts a successor of the other. */
static void launcher_ready(struct part *p)
{
	for (size_t i = 0; i < 2; i++)
		if (p->a->launcher[i].state == PART_NONE)
			part_want(&p->a->launcher[i]);
	parts_order_wanted(p->a);
	policies_ask_sources(p->a, NULL);
	for (struct sandbox *s = p->a->sandboxes; s; s = s->next)
		sandbox_step(s);
}

static void launcher_message(struct part *p, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	switch (type) {
	case MSG_LAUNCHED:
		parts_launched(p, msg, fds, n_fds);
		return;
	case MSG_WIRED:
		sandbox_wired(p, msg, fds, n_fds);
		return;
	case MSG_BOXED:
		sandbox_boxed(p, msg, fds, n_fds);
		return;
	case MSG_SOURCE_IS:
		policies_source(p, msg, fds, n_fds);
		return;
	case MSG_ROTATED:
		log_rotated(p->a, msg, fds, n_fds);
		channel_close_fds(fds, n_fds);
		return;
	}
	channel_close_fds(fds, n_fds);
	part_lose(p, "message in the wrong direction");
}

static void launcher_lost(struct part *p)
{
	struct part *other = &p->a->launcher[p == &p->a->launcher[0]];

	sandboxes_maker_lost(p->a, p);
	policies_ask_sources(p->a, p);
	if (p->a->rotator == p) {
		p->a->rotator = NULL;
		no_log_file(p->a, ECHILD);
	}
	replace(p);
	if (!p->a->closing && other->state != PART_READY && other->state != PART_STARTING)
		appliance_fail(p->a, "nothing can be started any more");
	parts_order_wanted(p->a);
}

const struct part_hooks launcher_hooks = { .ready = launcher_ready, .message = launcher_message,
					   .lost = launcher_lost };

/* ---- nursery ---- */

static bool nursery_started(struct part *p)
{
	return start_nursery(p->channel, p->a->settings) == OK;
}

static void nursery_ready(struct part *p)
{
	parts_order_wanted(p->a);
}

static void nursery_message(struct part *p, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	if (type == MSG_LAUNCHED) {
		parts_launched(p, msg, fds, n_fds);
		return;
	}
	channel_close_fds(fds, n_fds);
	part_lose(p, "message in the wrong direction");
}

/* It may have died while it was asked to go. */
static void nursery_ended(struct part *p)
{
	if (p->a->closing)
		return;
	if (WIFSIGNALED(p->status))
		tell_lost(p, "a new one takes over");
	part_want(p);
}

void nursery_renew(struct appliance *a)
{
	if (a->nursery.state == PART_READY)
		part_end(&a->nursery);
}

const struct part_hooks nursery_hooks = { .started = nursery_started, .ready = nursery_ready,
					  .message = nursery_message, .lost = replace,
					  .ended = nursery_ended };

/* ---- recorder ---- */

static bool recorder_started(struct part *p)
{
	struct appliance *a = p->a;
	struct recorder_start start = { .settings = a->settings, .log_path = a->log_path,
					.log = a->log_next >= 0 ? a->log_next : a->log,
					.key = a->log_key };

	return start_recorder(p->channel, &start) == OK;
}

static void recorder_ready(struct part *p)
{
	rings_give_all(p->a);
}

static void on_log_state(struct appliance *a, const struct msg_log_state *m)
{
	a->log_unwritable = !m->writable;
	if (m->writable)
		fprintf(stderr, "exeat: the audit log can be written again\n");
	else
		fprintf(stderr, "exeat: the audit log cannot be written (%s); traffic is refused\n",
			strerror((int)m->code));
}

static void recorder_message(struct part *p, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	const struct msg_ring_end *end = msg;

	channel_close_fds(fds, n_fds);
	switch (type) {
	case MSG_LOG_STATE:
		on_log_state(p->a, msg);
		break;
	case MSG_LOG_FULL:
		rotate_log(p->a);
		break;
	case MSG_RING_ENDED:
		rings_ended(p->a, end->number);
		break;
	case MSG_DRAINED:
		p->a->drained = true;
		break;
	default:
		on_shared(p, type, msg);
	}
}

const struct part_hooks recorder_hooks = { .started = recorder_started, .ready = recorder_ready,
					   .message = recorder_message, .lost = replace };

/* ---- broker ---- */

/* A secret that is not there is told, and what needs it is refused. */
static bool broker_started(struct part *p)
{
	struct appliance *a = p->a;
	enum err e = start_broker(p->channel, &a->broker_start, a->secrets_of,
				  &a->broker_ring->fds);

	if (e == ERR_NOTFOUND)
		a->bad_secrets++;
	return e == OK || e == ERR_NOTFOUND;
}

static void on_secret_bad(struct appliance *a, const struct msg_secret_bad *m)
{
	const struct settings *settings = a->settings;
	struct str where = STR_NONE;
	bool from_env = false;

	for (size_t i = 0; i < settings->n_secrets; i++) {
		if (!str_eq(settings->secrets[i].name, m->name))
			continue;
		from_env = settings->secrets[i].env.n != 0;
		where = from_env ? settings->secrets[i].env : settings->secrets[i].file;
	}
	fprintf(stderr, "exeat: secret \"%.*s\": %s %.*s: %.*s\n", STR_ARG(m->name),
		from_env ? "environment variable" : "file", STR_ARG(where), STR_ARG(m->why));
	a->bad_secrets++;
}

static void broker_message(struct part *p, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	channel_close_fds(fds, n_fds);
	switch (type) {
	case MSG_SECRET_BAD:
		on_secret_bad(p->a, msg);
		break;
	case MSG_SANDBOX_CA:
		sandbox_ca(p, msg);
		break;
	default:
		on_shared(p, type, msg);
	}
}

const struct part_hooks broker_hooks = { .started = broker_started, .ready = introduce_to_all,
					 .message = broker_message, .lost = replace };

/* ---- dialer ---- */

static bool dialer_started(struct part *p)
{
	return start_dialer(p->channel, p->a->settings, &p->a->dialer_ring->fds) == OK;
}

static void dialer_message(struct part *p, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	channel_close_fds(fds, n_fds);
	on_shared(p, type, msg);
}

const struct part_hooks dialer_hooks = { .started = dialer_started, .ready = introduce_to_all,
					 .message = dialer_message, .lost = replace };
