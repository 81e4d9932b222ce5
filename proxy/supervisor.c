/* Theory of operation
 *
 * A run goes through stages, each a function that says what it needs from those before it:
 *
 *   rings     one for each role that records, in shared memory
 *   recorder  first of all, so that everything after it is on record; and a second one that stands
 *             by without a ring: should the first die, it takes the rings over and writes down what
 *             is left in them
 *   broker    gets the secrets' sources; a bad one ends the run before anything else is started
 *   dialer
 *   wire      gateway namespace, the box's veth, its listeners, the lease table
 *   worker    gets the listeners and its channels to dialer and broker
 *   box       bundle and keeper
 *   confine   this process gives up what it does not need, then the command is started
 *
 * From then on there is one loop: leases for the worker, the box's end, signals for the box, and the
 * death of a role. Any role's death ends the run: the box is killed, what happened is recorded, and
 * with this process the namespaces go, since they are held by descriptors only. Nothing leaves the
 * box meanwhile: the gateway has no route out, whoever lives.
 *
 * The end in order: box, worker (it records how its connections ended), dialer, broker, and the
 * recorder last, when it has said that all is in the file.
 */
#include "proxy/supervisor.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proxy/messages.h"
#include "proxy/role_start.h"
#include "proxy/run_records.h"
#include "sandbox/box.h"
#include "sandbox/confine.h"
#include "sandbox/lease.h"
#include "sandbox/spawn.h"

#define ROLE_READY_MS 10000	/* from exec to confined */
#define ROLE_END_MS 5000	/* from "stop" to gone, and for the recorder to write down all */
#define SANDBOX_NUMBER 1

/* The processes of a run. The standby is a recorder, too. */
enum part { PART_RECORDER, PART_STANDBY, PART_BROKER, PART_DIALER, PART_WORKER, PART_COUNT };

static const enum role part_role[PART_COUNT] = {
	[PART_RECORDER] = ROLE_RECORDER, [PART_STANDBY] = ROLE_RECORDER,
	[PART_BROKER] = ROLE_BROKER, [PART_DIALER] = ROLE_DIALER, [PART_WORKER] = ROLE_WORKER,
};

enum ring_of { RING_SUPERVISOR, RING_BROKER, RING_DIALER, RING_WORKER, RING_COUNT };

static const enum role ring_role[RING_COUNT] = {
	[RING_SUPERVISOR] = ROLE_SUPERVISOR, [RING_BROKER] = ROLE_BROKER,
	[RING_DIALER] = ROLE_DIALER, [RING_WORKER] = ROLE_WORKER,
};

struct part_state {
	struct supervisor *sup;
	enum part which;
	pid_t pid;
	struct channel *channel;
	bool ready, ending, lost;
	const char *why;
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
	int leases_fd;
	struct buf ca_pem;
	struct box *box;
	struct event *box_event, *signal_event;
	int signals;
	unsigned bad_secrets;
	bool failed;			/* a role died, or the log failed: the run ends closed */
	bool drained, box_over;
	int box_status;
	time_t started;
};

/* ---- waiting, bounded ---- */

static void on_timeout(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	*(bool *)arg = true;
}

/* Runs the loop until *done, or a part was lost, or the time is over. */
static bool wait_for(struct supervisor *s, const bool *done, int ms)
{
	bool late = false;
	struct timeval tv = { ms / 1000, (ms % 1000) * 1000 };
	struct event *timer = evtimer_new(s->base, on_timeout, &late);

	if (!timer || evtimer_add(timer, &tv) < 0)
		late = true;
	while (!*done && !late && !s->failed)
		event_base_loop(s->base, EVLOOP_ONCE);
	if (timer)
		event_free(timer);
	return *done;
}

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

/* The kernel must have taken the ports before the worker answers: wire_admit() waits for its word. */
static void on_lease(struct supervisor *s, const struct msg_lease *m)
{
	struct msg_leased answer = { .id = m->id };
	uint16_t ports[POLICY_PORTS_MAX];
	size_t n = read_ports(m->ports, ports);
	struct wire_error why;
	bool made;

	if (lease_name_ok(m->name) &&
	    (lease_count(s->leases) < s->spec->settings->max_leases ||
	     lease_find(s->leases, m->name, &answer.address)) &&
	    lease_get(s->leases, m->name, &answer.address, &made) == OK &&
	    wire_admit(s->gateway, &s->wire, answer.address, ports, n, &why) == OK)
		answer.ok = 1;
	if (channel_send(s->part[PART_WORKER].channel, MSG_LEASED, &answer, NULL, 0) != OK)
		s->part[PART_WORKER].why = "does not take answers";
}

/* ---- what roles say ---- */

static void on_secret_bad(struct supervisor *s, const struct msg_secret_bad *m)
{
	fprintf(stderr, "exeat: secret \"%.*s\": %.*s\n", STR_ARG(m->name), STR_ARG(m->why));
	s->bad_secrets++;
}

static void on_log_state(const struct msg_log_state *m)
{
	if (m->writable)
		fprintf(stderr, "exeat: the audit log can be written again\n");
	else
		fprintf(stderr, "exeat: the audit log cannot be written (%s); traffic is refused\n",
			strerror((int)m->code));
}

static void on_message(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	struct part_state *part = arg;
	struct supervisor *s = part->sup;
	const struct msg_sandbox_ca *ca = msg;

	(void)fds;
	(void)n_fds;
	switch (type) {
	case MSG_READY:
		part->ready = true;
		channel_set_phase(part->channel, PHASE_RUN);
		break;
	case MSG_SECRET_BAD:
		on_secret_bad(s, msg);
		break;
	case MSG_SANDBOX_CA:
		buf_put_str(&s->ca_pem, ca->pem);
		break;
	case MSG_LEASE:
		on_lease(s, msg);
		break;
	case MSG_LOG_STATE:
		on_log_state(msg);
		break;
	case MSG_DRAINED:
		s->drained = true;
		break;
	}
}

static void on_closed(void *arg, const char *why)
{
	struct part_state *part = arg;

	part->lost = true;
	part->why = why;
	if (!part->ending)
		part->sup->failed = true;
}

/* ---- starting parts ---- */

static bool part_spawn(struct supervisor *s, enum part which)
{
	struct part_state *p = &s->part[which];
	struct channel_peer peer = { .self = ROLE_SUPERVISOR, .other = part_role[which],
				     .table = exeat_messages, .on_message = on_message,
				     .on_closed = on_closed, .arg = p };
	int fd;

	p->sup = s;
	p->which = which;
	if (spawn_role(s->programs, part_role[which], &fd, &p->pid) != OK) {
		fprintf(stderr, "exeat: cannot start exeat-%s in %s: %s\n", role_name(part_role[which]),
			s->programs, strerror(errno));
		return false;
	}
	p->channel = channel_new(s->base, fd, &peer);
	return p->channel != NULL;
}

static bool part_wait_ready(struct supervisor *s, enum part which)
{
	struct part_state *p = &s->part[which];

	if (wait_for(s, &p->ready, ROLE_READY_MS))
		return true;
	fprintf(stderr, "exeat: the %s did not get ready%s%s\n", role_name(part_role[which]),
		p->why ? ": " : "", p->why ? p->why : "");
	return false;
}

static bool give_rings(struct supervisor *s, enum part to)
{
	for (size_t i = 0; i < RING_COUNT; i++) {
		struct msg_ring msg = { .role = (uint8_t)ring_role[i], .policy = policy_digest(s->policy) };
		int fds[3] = { s->ring_fds[i].memory, s->ring_fds[i].wake, s->ring_fds[i].room };

		if (i == RING_WORKER)
			msg.sandbox = str_of(s->spec->name);
		if (channel_send(s->part[to].channel, MSG_RING, &msg, fds, 3) != OK)
			return false;
	}
	return true;
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
		if (ring_create(&s->ring_fds[i]) != OK)
			return false;
	return dup_ring(&s->ring_fds[RING_SUPERVISOR], &own) && ring_open_writer(&own, &s->ring) == OK;
}

static bool stage_recorders(struct supervisor *s)
{
	for (enum part p = PART_RECORDER; p <= PART_STANDBY; p++)
		if (!part_spawn(s, p) ||
		    start_recorder(s->part[p].channel, s->spec->log_path, s->spec->log) != OK ||
		    !part_wait_ready(s, p))
			return false;
	return give_rings(s, PART_RECORDER) && put_start(s->ring, s->spec) == OK &&
	       put_policy_load(s->ring, s->spec, policy_digest(s->policy)) == OK;
}

static bool stage_broker(struct supervisor *s)
{
	return part_spawn(s, PART_BROKER) &&
	       start_broker(s->part[PART_BROKER].channel, s->spec->settings,
			    &s->ring_fds[RING_BROKER]) == OK &&
	       part_wait_ready(s, PART_BROKER) && s->bad_secrets == 0;
}

static bool stage_dialer(struct supervisor *s)
{
	return part_spawn(s, PART_DIALER) &&
	       start_dialer(s->part[PART_DIALER].channel, s->spec->settings,
			    &s->ring_fds[RING_DIALER]) == OK &&
	       part_wait_ready(s, PART_DIALER);
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

	if (l->n && wire_admit(l->s->gateway, &l->s->wire, addr_to_v4(&l->addr), l->ports, l->n, &why) != OK)
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
	    wire_box_open(s->gateway, SANDBOX_NUMBER, &s->spec->settings->link_pool, &s->wire, &why) != OK) {
		fprintf(stderr, "exeat: network: %s: %s%s\n", why.what, strerror(why.code),
			why.code == EPERM ? " (needs root and CAP_NET_ADMIN)" :
			why.code == ENOENT || why.code == EOPNOTSUPP || why.code == EPROTONOSUPPORT ?
			" (the kernel lacks it: nf_tables with tproxy, socket, fib and log, and veth are needed)" : "");
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
	struct worker_start start = { .settings = s->spec->settings, .sandbox = s->spec->name,
				      .wire = &s->wire, .ring = &s->ring_fds[RING_WORKER],
				      .leases = s->leases_fd, .dialer = dialer[0], .broker = broker[0],
				      .policy = s->spec->policy };

	return tell_sandbox(s, PART_DIALER, dialer[1], between[0]) &&
	       tell_sandbox(s, PART_BROKER, broker[1], between[1]) &&
	       start_worker(s->part[PART_WORKER].channel, &start) == OK;
}

static bool stage_worker(struct supervisor *s)
{
	int dialer[2] = { -1, -1 }, broker[2] = { -1, -1 }, between[2] = { -1, -1 };
	bool ok;

	ok = channel_pair(dialer) == OK && channel_pair(broker) == OK && channel_pair(between) == OK &&
	     part_spawn(s, PART_WORKER) && join_worker(s, dialer, broker, between);
	close_pair(dialer);
	close_pair(broker);
	close_pair(between);
	return ok && part_wait_ready(s, PART_WORKER);
}

/* ---- the box ---- */

static bool stage_box(struct supervisor *s)
{
	char id[32], init[4096 + 16];
	struct box_spec spec = { .id = id, .rootfs = s->spec->rootfs, .workspace = s->spec->workspace,
				 .init = init, .command = s->spec->command, .netns = s->wire.netns,
				 .nameserver = s->wire.gateway,
				 .terminal = isatty(0) && isatty(1) };
	bool have_ca = s->ca_pem.n != 0;

	/* The broker answers in its own time; the worker's start has usually covered it. */
	while (!have_ca && !s->failed) {
		event_base_loop(s->base, EVLOOP_ONCE);
		have_ca = s->ca_pem.n != 0;
	}
	if (!have_ca)
		return false;
	snprintf(id, sizeof(id), "run-%d", (int)getpid());
	snprintf(init, sizeof(init), "%s/exeat-init", s->programs);
	spec.ca_pem = buf_str(&s->ca_pem);
	if (box_prepare(&spec, &s->box) != OK) {
		fprintf(stderr, "exeat: %s\n", box_error());
		return false;
	}
	return put_sandbox_start(s->ring, s->spec, policy_digest(s->policy), box_isolation(s->box)) == OK;
}

static void on_box_end(evutil_socket_t fd, short what, void *arg)
{
	struct supervisor *s = arg;

	(void)fd;
	(void)what;
	if (box_ended(s->box, &s->box_status) == ERR_AGAIN)
		return;
	s->box_over = true;
	event_del(s->box_event);
}

/* What a terminal sends goes to every process in its foreground group, the runtime too; only what
 * was sent to this process is passed on. */
static void on_signal(evutil_socket_t fd, short what, void *arg)
{
	struct supervisor *s = arg;
	struct signalfd_siginfo info;

	(void)what;
	while (read(fd, &info, sizeof(info)) == sizeof(info))
		if (info.ssi_code != SI_KERNEL)
			box_signal(s->box, (int)info.ssi_signo);
}

static bool watch(struct supervisor *s)
{
	static const int passed_on[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(passed_on) / sizeof(*passed_on); i++)
		sigaddset(&set, passed_on[i]);
	s->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (s->signals < 0 || sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return false;
	s->signal_event = event_new(s->base, s->signals, EV_READ | EV_PERSIST, on_signal, s);
	s->box_event = event_new(s->base, box_fd(s->box), EV_READ | EV_PERSIST, on_box_end, s);
	return s->signal_event && s->box_event && event_add(s->signal_event, NULL) == 0 &&
	       event_add(s->box_event, NULL) == 0;
}

static bool stage_confined_start(struct supervisor *s)
{
	const char *what = "";

	if (!watch(s))
		return false;
	if (confine_enter(ROLE_SUPERVISOR, &what) != OK) {
		fprintf(stderr, "exeat: the supervisor cannot confine itself (%s); nothing is run\n", what);
		return false;
	}
	if (box_start(s->box) != OK) {
		fprintf(stderr, "exeat: %s\n", box_error());
		return false;
	}
	return true;
}

/* ---- the end ---- */

/* Waits for a process that has been told to end, and makes it end where it does not. */
static int reap(pid_t pid)
{
	struct timespec tick = { 0, 10 * 1000 * 1000 };
	int status = 0;

	for (int waited = 0; waited < ROLE_END_MS; waited += 10) {
		if (waitpid(pid, &status, WNOHANG) != 0)
			return status;
		nanosleep(&tick, NULL);
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return status;
}

static int part_end(struct supervisor *s, enum part which)
{
	struct part_state *p = &s->part[which];
	int status = 0;

	if (p->pid == 0)
		return 0;
	p->ending = true;
	channel_free(p->channel);
	p->channel = NULL;
	status = reap(p->pid);
	p->pid = 0;
	return status;
}

/* A role that is lost is dead already, or broke the rules of its channel and is to be. */
static void record_lost(struct supervisor *s)
{
	for (enum part i = 0; i < PART_COUNT; i++) {
		struct part_state *p = &s->part[i];
		pid_t pid = p->pid;
		int status;

		if (!p->lost || pid == 0)
			continue;
		if (p->why && strcmp(p->why, "end of file") != 0)
			kill(pid, SIGKILL);
		status = part_end(s, i);
		fprintf(stderr, "exeat: the %s is gone (%s %d); the run ends here\n",
			role_name(part_role[i]), WIFSIGNALED(status) ? "signal" : "exit",
			WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
		if (put_role_lost(s->ring, s->spec, part_role[i], pid, status, p->why) != OK)
			fprintf(stderr, "exeat: that cannot be recorded\n");
	}
}

/* All records into the file: by the recorder, or by the standby where that one is gone. */
static bool drain(struct supervisor *s)
{
	struct msg_drain msg = { .id = 1 };
	enum part by = s->part[PART_RECORDER].pid ? PART_RECORDER : PART_STANDBY;
	bool ok;

	if (!s->part[by].pid || !s->part[by].ready)
		return false;
	if (by == PART_STANDBY && !give_rings(s, by))
		return false;
	s->failed = false;
	ok = channel_send(s->part[by].channel, MSG_DRAIN, &msg, NULL, 0) == OK &&
	     wait_for(s, &s->drained, ROLE_END_MS);
	if (!ok)
		fprintf(stderr, "exeat: the end of the audit log could not be written\n");
	return ok;
}

static bool finish(struct supervisor *s, bool started)
{
	bool ok = !s->failed;

	box_free(s->box);
	s->box = NULL;
	record_lost(s);
	part_end(s, PART_WORKER);
	part_end(s, PART_DIALER);
	part_end(s, PART_BROKER);
	if (s->ring) {
		if (started && put_sandbox_stop(s->ring, s->spec, s->box_status,
						(uint64_t)(time(NULL) - s->started)) != OK)
			ok = false;
		if (put_stop(s->ring, ok && started ? "the command has ended" :
			     started ? "ended because a role died" : "not started") != OK)
			ok = false;
		ok = drain(s) && ok;
	}
	part_end(s, PART_RECORDER);
	part_end(s, PART_STANDBY);
	return ok;
}

static void release(struct supervisor *s)
{
	if (s->box_event)
		event_free(s->box_event);
	if (s->signal_event)
		event_free(s->signal_event);
	if (s->signals >= 0)
		close(s->signals);
	if (s->gateway) {
		wire_box_close(s->gateway, &s->wire);
		wire_gateway_close(s->gateway);
	}
	lease_table_free(s->leases);
	if (s->leases_fd >= 0)
		close(s->leases_fd);
	ring_close(s->ring);
	for (size_t i = 0; i < RING_COUNT; i++) {
		int fds[2] = { s->ring_fds[i].memory, s->ring_fds[i].wake };

		close_pair(fds);
		if (s->ring_fds[i].room >= 0)
			close(s->ring_fds[i].room);
	}
	policy_free(s->policy);
	buf_free(&s->ca_pem);
	if (s->base)
		event_base_free(s->base);
}

static bool start_all(struct supervisor *s)
{
	if (spawn_find_programs(s->programs, sizeof(s->programs)) != OK) {
		fprintf(stderr, "exeat: its programs (exeat-worker and others) are not beside it\n");
		return false;
	}
	if (policy_map(&s->spec->policy, 1, &s->policy) != OK) {
		fprintf(stderr, "exeat: %s: the compiled policy is not valid\n", s->spec->policy_file);
		return false;
	}
	return stage_rings(s) && stage_recorders(s) && stage_broker(s) && stage_dialer(s) &&
	       stage_wire(s) && stage_worker(s) && stage_box(s) && stage_confined_start(s);
}

int supervisor_run(const struct run_spec *spec)
{
	struct supervisor s = { .spec = spec, .signals = -1, .leases_fd = -1, .started = time(NULL),
				.box_status = RUN_FAILED };
	bool started;

	s.wire = (struct wire_box){ .netns = -1, .tproxy = -1, .dns_udp = -1, .dns_tcp = -1, .nflog = -1 };
	for (size_t i = 0; i < RING_COUNT; i++)
		s.ring_fds[i] = (struct ring_fds){ -1, -1, -1 };
	buf_init(&s.ca_pem, 65536);
	s.base = event_base_new();
	started = s.base && start_all(&s);
	while (started && !s.box_over && !s.failed)
		event_base_loop(s.base, EVLOOP_ONCE);
	if (!finish(&s, started))
		s.box_status = RUN_FAILED;
	release(&s);
	return started ? s.box_status : RUN_FAILED;
}
