/* Theory of operation
 *
 * The start: rings (the first records wait there: whatever follows, they are in the log), the
 * gateway, the first launcher (a fork, from before anything else is there), and then orders to it:
 * recorder, broker, dialer, a second launcher, all side by side. When they are ready this process
 * gives up what it does not need any more; what needs more than it has left, the launcher does.
 *
 * From then on there is one loop. A role's death costs what succession.c says; the deaths of both
 * launchers at once, or of one role again and again, end the appliance closed: the boxes are
 * killed, what happened is recorded, and with this process the namespaces go, since they are held
 * by descriptors only. Nothing leaves a box meanwhile: the gateway has no route out, whoever lives.
 *
 * The end in order: sandboxes (their workers record how their connections ended), dialer, broker,
 * and the recorder last, when it has said that all is in the file.
 */
#include "proxy/appliance.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "proxy/access_table.h"
#include "proxy/clock.h"
#include "proxy/log_key.h"
#include "proxy/supervisor_records.h"
#include "sandbox/confine.h"
#include "sandbox/spawn.h"

void appliance_fail(struct appliance *a, const char *why)
{
	if (!a->failed)
		a->fatal = why;
	a->failed = true;
	event_base_loopbreak(a->base);
}

/* ---- the loop ---- */

/* Those whose last record is written and whom nobody looks at any more. */
static void sweep(struct appliance *a)
{
	for (struct sandbox *s = a->sandboxes, *next; s; s = next) {
		next = s->next;
		if (s->state == SANDBOX_ENDED)
			sandbox_free(s);
	}
}

static void turn(struct appliance *a)
{
	event_base_loop(a->base, EVLOOP_ONCE);
	sweep(a);
}

/* Runs the loop until @done says so, or the time is over, or the appliance fails. */
static bool run_until(struct appliance *a, bool (*done)(const struct appliance *), int ms)
{
	uint64_t until = clock_ms() + (uint64_t)ms;

	while (!done(a) && !a->failed && clock_ms() < until)
		turn(a);
	return done(a);
}

void appliance_run(struct appliance *a, const bool *done)
{
	while (!*done && !a->failed)
		turn(a);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct appliance *a = arg;
	uint64_t now = clock_ms();

	(void)fd;
	(void)what;
	parts_tick(a);
	policies_step(a);
	for (struct sandbox *s = a->sandboxes; s; s = s->next)
		sandbox_tick(s, now);
	if (a->on_tick)
		a->on_tick(a);
}

static void on_signals(evutil_socket_t fd, short what, void *arg)
{
	struct appliance *a = arg;
	struct signalfd_siginfo info;

	(void)what;
	while (read(fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			parts_reap(a);
		else
			a->on_signal(a, (int)info.ssi_signo, info.ssi_code == SI_KERNEL);
	}
}

static bool watch(struct appliance *a)
{
	static const int heard[] = { SIGCHLD, SIGTERM, SIGINT,	SIGHUP,
				     SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH };
	struct timeval tick = { 0, TICK_MS * 1000 };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(heard) / sizeof(*heard); i++)
		sigaddset(&set, heard[i]);
	a->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (a->signals < 0 || sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return false;
	a->signal_event = event_new(a->base, a->signals, EV_READ | EV_PERSIST, on_signals, a);
	a->tick = event_new(a->base, -1, EV_PERSIST, on_tick, a);
	return a->signal_event && a->tick && event_add(a->signal_event, NULL) == 0 &&
	       event_add(a->tick, &tick) == 0;
}

/* ---- the start ---- */

static bool open_rings(struct appliance *a)
{
	struct ring_fds own;

	a->own_ring = rings_add(a, ROLE_SUPERVISOR, "", STR_NONE);
	a->broker_ring = rings_add(a, ROLE_BROKER, "", STR_NONE);
	a->dialer_ring = rings_add(a, ROLE_DIALER, "", STR_NONE);
	if (!a->own_ring || !a->broker_ring || !a->dialer_ring)
		return false;
	own = (struct ring_fds){ dup(a->own_ring->fds.memory), dup(a->own_ring->fds.wake),
				 dup(a->own_ring->fds.room) };
	return ring_open_writer(&own, &a->ring) == OK &&
	       put_start(a->ring, a->settings, a->found) == OK;
}

static bool open_log_key(struct appliance *a)
{
	enum err e = log_key_open(a->log_path, &a->log_key);

	if (!e)
		return true;
	fprintf(stderr, "exeat: the audit log's key %s" LOG_KEY_SUFFIX ": %s\n", a->log_path,
		e == ERR_SYSTEM	  ? strerror(errno)
		: e == ERR_DENIED ? "it is not for its owner, who runs exeat, alone (chmod 600)"
		: e == ERR_SYNTAX ? "it is no Ed25519 key"
				  : err_text(e));
	return false;
}

/* Before there is any other process whose environment they would be in. */
static bool hold_secrets(struct appliance *a)
{
	enum err e = broker_start_open(&a->broker_start, a->settings);

	if (e)
		fprintf(stderr, "exeat: the secrets' environment variables: %s\n", err_text(e));
	return e == OK;
}

static bool open_gateway(struct appliance *a)
{
	struct wire_error why = { "", 0 };

	if (wire_gateway_open(&a->gateway, &why) == OK)
		return true;
	fprintf(stderr, "exeat: network: %s: %s%s\n", why.what, strerror(why.code),
		wire_advice(why.code));
	return false;
}

static void prepare_parts(struct appliance *a)
{
	part_init(a, &a->launcher[0], ROLE_LAUNCHER, &launcher_hooks, NULL);
	part_init(a, &a->launcher[1], ROLE_LAUNCHER, &launcher_hooks, NULL);
	part_init(a, &a->nursery, ROLE_NURSERY, &nursery_hooks, NULL);
	part_init(a, &a->recorder, ROLE_RECORDER, &recorder_hooks, NULL);
	part_init(a, &a->broker, ROLE_BROKER, &broker_hooks, NULL);
	part_init(a, &a->dialer, ROLE_DIALER, &dialer_hooks, NULL);
}

/* Before the loop's own descriptors are there, which two processes must not share. */
static bool start_launcher(struct appliance *a, int *channel, pid_t *pid)
{
	a->job = (struct launcher_job){ .programs = a->programs, .settings = a->settings,
					.gateway = a->gateway, .log_path = a->log_path,
					.not_its_own = &a->broker_start };
	if (launcher_start(&a->job, channel, pid) == OK)
		return true;
	fprintf(stderr, "exeat: cannot start a process: %s\n", strerror(errno));
	return false;
}

static bool all_ready(const struct appliance *a)
{
	return a->launcher[0].state == PART_READY && a->launcher[1].state == PART_READY &&
	       a->recorder.state == PART_READY &&
	       (a->log_only ||
		(a->broker.state == PART_READY && a->dialer.state == PART_READY &&
		 a->nursery.state == PART_READY));
}

static bool no_room(void)
{
	fprintf(stderr, "exeat: no memory or no descriptors to start with (%s); nothing is run\n",
		strerror(errno));
	return false;
}

bool appliance_open(struct appliance *a, void (*early)(struct appliance *a))
{
	int channel;
	pid_t pid;

	a->signals = a->log_key = a->log_next = -1;
	prepare_parts(a);
	if (spawn_find_programs(a->programs, sizeof(a->programs)) != OK) {
		fprintf(stderr, "exeat: its other programs are neither beside it nor in ../libexec/exeat of it\n");
		return false;
	}
	if (!open_log_key(a) || !hold_secrets(a))
		return false;
	if (!open_rings(a))
		return no_room();
	if (!open_gateway(a) || !start_launcher(a, &channel, &pid))
		return false;
	a->base = event_base_new();
	a->access = access_table_new();
	if (!a->base || !a->access || !watch(a))
		return no_room();
	part_adopt(&a->launcher[0], channel, pid);
	a->started = true;
	part_want(&a->recorder);
	if (!a->log_only) {
		part_want(&a->nursery);
		part_want(&a->broker);
		part_want(&a->dialer);
	}
	if (early)
		early(a);
	/* Each has a time of its own, and who exceeds it is told. */
	if (run_until(a, all_ready, 2 * ROLE_READY_MS))
		return true;
	if (!a->failed)
		fprintf(stderr, "exeat: not all is ready after %d s; nothing is run\n",
			2 * ROLE_READY_MS / 1000);
	return false;
}

bool appliance_confine(struct appliance *a)
{
	const char *what = "";

	if (confine_enter(ROLE_SUPERVISOR, &what) != OK) {
		fprintf(stderr, "exeat: the supervisor cannot confine itself (%s); nothing is run\n", what);
		return false;
	}
	a->confined = true;
	for (struct sandbox *s = a->sandboxes; s; s = s->next)
		sandbox_step(s);
	return true;
}

/* ---- the end ---- */

static bool no_sandboxes(const struct appliance *a)
{
	return a->n_sandboxes == 0;
}

static bool no_peers(const struct appliance *a)
{
	return a->broker.state == PART_NONE && a->dialer.state == PART_NONE;
}

static bool recorder_settled(const struct appliance *a)
{
	return a->recorder.state == PART_READY || a->recorder.state == PART_NONE;
}

static bool has_drained(const struct appliance *a)
{
	return a->drained;
}

static bool all_gone(const struct appliance *a)
{
	for (const struct part *p = a->parts; p; p = p->next)
		if (p->state != PART_NONE)
			return false;
	return true;
}

/* All records into the file: by a new recorder, where the last one is gone. Where none came to be,
 * nothing was run, and that has been told. */
static bool drain(struct appliance *a)
{
	struct msg_drain msg = { .id = 1 };
	bool ok;

	if (a->recorder.state == PART_NONE && !a->confined)
		return false;
	if (a->recorder.state == PART_NONE)
		part_want(&a->recorder);
	ok = run_until(a, recorder_settled, ROLE_READY_MS) &&
	     part_send(&a->recorder, MSG_DRAIN, &msg, NULL, 0) == OK &&
	     run_until(a, has_drained, ROLE_END_MS);
	if (!ok)
		fprintf(stderr, "exeat: the end of the audit log could not be written\n");
	return ok;
}

static void end_all(struct appliance *a)
{
	part_end(&a->nursery);
	part_end(&a->recorder);
	part_end(&a->launcher[0]);
	part_end(&a->launcher[1]);
	(void)run_until(a, all_gone, ROLE_END_MS);
}

static void release(struct appliance *a)
{
	if (a->on_end)
		a->on_end(a);
	sweep(a);
	if (a->tick)
		event_free(a->tick);
	if (a->signal_event)
		event_free(a->signal_event);
	if (a->signals >= 0)
		close(a->signals);
	if (a->log_key >= 0)
		close(a->log_key);
	if (a->log_next >= 0)
		close(a->log_next);
	for (struct part *p = a->parts; p; p = p->next)
		channel_free(p->channel);
	wire_gateway_close(a->gateway);
	ring_close(a->ring);
	rings_free(a);
	broker_start_close(&a->broker_start);
	access_table_free(a->access);
	if (a->base)
		event_base_free(a->base);
}

bool appliance_close(struct appliance *a, const char *how)
{
	bool ok = !a->failed;

	if (a->failed)
		how = a->fatal;
	a->closing = true;
	a->failed = false;
	policies_stop_asking(a);
	if (a->started) {
		for (struct sandbox *s = a->sandboxes; s; s = s->next)
			sandbox_stop(s, true, how);
		ok = run_until(a, no_sandboxes, STOP_GRACE_MS) && ok;
		part_end(&a->dialer);
		part_end(&a->broker);
		ok = run_until(a, no_peers, 2 * ROLE_END_MS) && ok;
		ok = put_stop(a->ring, how) == OK && ok;
		ok = drain(a) && ok;
		end_all(a);
	}
	policies_abandon(a);
	release(a);
	return ok;
}
