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
 * From then on there is one loop: leases for the worker, the box's end, signals for the box, and
 * the death of a role. Any role's death ends the run: the box is killed, what happened is recorded,
 * and with this process the namespaces go, since they are held by descriptors only. Nothing leaves
 * the box meanwhile: the gateway has no route out, whoever lives.
 *
 * The end in order: box, worker (it records how its connections ended), dialer, broker, and the
 * recorder last, when it has said that all is in the file.
 */
#include "proxy/supervisor_state.h"

#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "proxy/access_table.h"
#include "proxy/messages.h"
#include "proxy/run_records.h"
#include "sandbox/confine.h"
#include "sandbox/spawn.h"

/* ---- waiting, bounded ---- */

static void on_timeout(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	*(bool *)arg = true;
}

/* Runs the loop until *done, or a part was lost, or the time is over. */
bool supervisor_wait(struct supervisor *s, const bool *done, int ms)
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

/* The kernel must have taken the ports before the worker answers: wire_admit() waits for its word.
 */
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
		part_lose(&s->part[PART_WORKER], "does not take answers");
}

/* ---- requests for access ---- */

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void on_access(struct supervisor *s, const struct msg_access *m)
{
	struct msg_access_taken answer = { .id = m->id };

	access_table_ask(s->access, s->ring, str_of(s->spec->name), m, now_us(), &answer);
	if (channel_send(s->part[PART_WORKER].channel, MSG_ACCESS_TAKEN, &answer, NULL, 0) != OK)
		part_lose(&s->part[PART_WORKER], "does not take answers");
}

/* ---- what roles say ---- */

static void on_secret_bad(struct supervisor *s, const struct msg_secret_bad *m)
{
	const struct settings *settings = s->spec->settings;
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
	s->bad_secrets++;
}

/* An empty one is an answer, too: stage_box() says what it means. */
static void on_sandbox_ca(struct part_state *part, const struct msg_sandbox_ca *ca)
{
	struct supervisor *s = part->sup;

	if (ca->sandbox != SANDBOX_NUMBER || s->have_ca) {
		part_lose(part, "a certificate that was not asked for");
		return;
	}
	buf_put_str(&s->ca_pem, ca->pem);
	s->have_ca = true;
}

/* The dialer or the broker has given the worker up, which may well live. */
static void on_sandbox_lost(struct part_state *part, const struct msg_sandbox_lost *m)
{
	struct supervisor *s = part->sup;

	if ((part->which != PART_DIALER && part->which != PART_BROKER) ||
	    m->sandbox != SANDBOX_NUMBER) {
		part_lose(part, "message in the wrong direction");
		return;
	}
	snprintf(s->worker_lost, sizeof(s->worker_lost), "%.*s", STR_ARG(m->why));
	part_lose(&s->part[PART_WORKER], s->worker_lost);
}

static void on_log_state(const struct msg_log_state *m)
{
	if (m->writable)
		fprintf(stderr, "exeat: the audit log can be written again\n");
	else
		fprintf(stderr, "exeat: the audit log cannot be written (%s); traffic is refused\n",
			strerror((int)m->code));
}

void supervisor_message(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	struct part_state *part = arg;
	struct supervisor *s = part->sup;

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
		on_sandbox_ca(part, msg);
		break;
	case MSG_SANDBOX_LOST:
		on_sandbox_lost(part, msg);
		break;
	case MSG_LEASE:
		on_lease(s, msg);
		break;
	case MSG_ACCESS:
		on_access(s, msg);
		break;
	case MSG_LOG_STATE:
		on_log_state(msg);
		break;
	case MSG_DRAINED:
		s->drained = true;
		break;
	}
}

/* ---- the box runs ---- */

static void on_box_end(evutil_socket_t fd, short what, void *arg)
{
	struct supervisor *s = arg;

	(void)fd;
	(void)what;
	if (box_ended(s->box, &s->box_status) == ERR_AGAIN)
		return;
	s->box_cpu_ms = box_cpu_ms(s->box);
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
	static const int passed_on[] = { SIGTERM, SIGINT,  SIGHUP,  SIGQUIT,
					 SIGUSR1, SIGUSR2, SIGWINCH };
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
	event_base_loop(s->base, EVLOOP_NONBLOCK);	/* what is there by now counts */
	if (s->failed)
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

static enum err put_end_of_box(struct supervisor *s)
{
	struct run_cost cost = { .seconds = (uint64_t)(time(NULL) - s->started),
				 .cpu_ms = s->box_cpu_ms };
	struct wire_error why;

	if (wire_box_bytes(s->gateway, &s->wire, &cost.bytes_up, &cost.bytes_down, &why) != OK)
		fprintf(stderr, "exeat: network: %s: %s\n", why.what, strerror(why.code));
	return put_sandbox_stop(s->ring, s->spec, s->box_status, &cost);
}

static bool finish(struct supervisor *s, bool started)
{
	bool ok;

	if (s->base)	/* a role that has died may be seen only now */
		event_base_loop(s->base, EVLOOP_NONBLOCK);
	ok = !s->failed;
	box_free(s->box);
	s->box = NULL;
	if (s->failed)
		record_lost(s);
	part_end(s, PART_WORKER);
	part_end(s, PART_DIALER);
	part_end(s, PART_BROKER);
	if (s->ring) {
		if (started && put_end_of_box(s) != OK)
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

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

static void release(struct supervisor *s)
{
	if (s->box_event)
		event_free(s->box_event);
	if (s->signal_event)
		event_free(s->signal_event);
	close_fd(s->signals);
	if (s->gateway) {
		/* The namespace takes the link along, sooner than one can wait for it. */
		wire_box_release(&s->wire);
		wire_gateway_close(s->gateway);
	}
	lease_table_free(s->leases);
	access_table_free(s->access);
	close_fd(s->leases_fd);
	ring_close(s->ring);
	for (size_t i = 0; i < RING_COUNT; i++) {
		close_fd(s->ring_fds[i].memory);
		close_fd(s->ring_fds[i].wake);
		close_fd(s->ring_fds[i].room);
	}
	policy_free(s->policy);
	buf_free(&s->ca_pem);
	if (s->base)
		event_base_free(s->base);
}

static bool start_all(struct supervisor *s)
{
	if (spawn_find_programs(s->programs, sizeof(s->programs)) != OK) {
		fprintf(stderr, "exeat: its other programs are neither beside it nor in ../libexec/exeat of it\n");
		return false;
	}
	if (s->spec->policy < 0)
		return stages_of_rejection(s);
	if (policy_map(&s->spec->policy, 1, &s->policy) != OK) {
		fprintf(stderr, "exeat: %s: the compiled policy is not valid\n", s->spec->policy_file);
		return false;
	}
	return stages_before_box(s) && stage_box(s) && stage_confined_start(s);
}

int supervisor_run(const struct run_spec *spec)
{
	struct supervisor s = { .spec = spec, .signals = -1, .leases_fd = -1, .started = time(NULL),
				.box_status = RUN_FAILED };
	bool started;

	s.wire = (struct wire_box){
		.netns = -1, .tproxy = -1, .dns_udp = -1, .dns_tcp = -1, .nflog = -1
	};
	for (size_t i = 0; i < RING_COUNT; i++)
		s.ring_fds[i] = (struct ring_fds){ -1, -1, -1 };
	buf_init(&s.ca_pem, 65536);
	s.base = event_base_new();
	s.access = access_table_new();
	started = s.base && s.access && start_all(&s);
	while (started && !s.box_over && !s.failed)
		event_base_loop(s.base, EVLOOP_ONCE);
	if (!finish(&s, started))
		s.box_status = RUN_FAILED;
	release(&s);
	return started ? s.box_status : RUN_FAILED;
}
