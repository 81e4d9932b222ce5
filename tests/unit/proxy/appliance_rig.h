/* tests/unit/proxy/appliance_rig.h - an appliance whose roles are children that do nothing: the test speaks for them */
#ifndef TESTS_APPLIANCE_RIG_H
#define TESTS_APPLIANCE_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/appliance.h"
#include "proxy/clock.h"

#define RIG_LIMIT_S 10
#define RIG_LOG 64

/* A role's own end. */
struct fake {
	struct channel *c;
	pid_t pid;
	bool closed;
	uint16_t heard[RIG_LOG];	/* types, in order */
	unsigned n;
	struct msg_launch launch;	/* the last one */
	struct msg_ring ring;
	char text[128];			/* of the last message that has one */
	uint32_t sources[RIG_LOG];	/* what it was asked to read, by number */
	unsigned n_sources;
	uint32_t join;			/* of the last SANDBOX */
	int image;			/* of READ, to be filled; 0: there was none */
};

static struct appliance rig;

static void on_late(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	*(bool *)arg = true;
}

/* Turns the loop until @cond holds. */
#define rig_until(cond)                                                                           \
	do {                                                                                      \
		struct timeval limit_ = { .tv_sec = RIG_LIMIT_S };                                \
		bool late_ = false;                                                               \
		struct event *timer_ = evtimer_new(rig.base, on_late, &late_);                    \
		event_add(timer_, &limit_);                                                       \
		while (!(cond) && !late_)                                                         \
			event_base_loop(rig.base, EVLOOP_ONCE);                                   \
		event_free(timer_);                                                               \
		assert_true(cond);                                                                \
	} while (0)

/* All that is there to be handled. */
static inline void rig_turn(void)
{
	for (unsigned i = 0; i < 3; i++)
		event_base_loop(rig.base, EVLOOP_NONBLOCK);
}

static inline pid_t rig_child(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	assert_true(pid > 0);
	return pid;
}

/* Waits until a child has changed, and has the appliance look, where it has not yet. */
static inline void rig_reap(pid_t pid, int what)
{
	siginfo_t info;

	if (waitid(P_PID, (id_t)pid, &info, what | WNOWAIT) == 0)
		parts_reap(&rig);
	else
		assert_int_equal(errno, ECHILD);
}

static void fake_hears(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	struct fake *f = arg;

	assert_true(f->n < RIG_LOG);
	f->heard[f->n++] = type;
	if (type == MSG_LAUNCH)
		f->launch = *(const struct msg_launch *)msg;
	if (type == MSG_RING) {
		f->ring = *(const struct msg_ring *)msg;
		snprintf(f->text, sizeof(f->text), "%.*s", STR_ARG(f->ring.policy));
	}
	if (type == MSG_RING_POLICY)
		snprintf(f->text, sizeof(f->text), "%.*s",
			 STR_ARG(((const struct msg_ring_policy *)msg)->policy));
	if (type == MSG_SOURCE)
		f->sources[f->n_sources++] = ((const struct msg_source *)msg)->id;
	if (type == MSG_SANDBOX)
		f->join = ((const struct msg_sandbox *)msg)->join;
	if (type == MSG_READ) {
		f->image = fds[1];
		fds[1] = -1;
	}
	channel_close_fds(fds, n_fds);
}

static void fake_closed(void *arg, const char *why)
{
	struct fake *f = arg;

	(void)why;
	f->closed = true;
}

static inline void fake_take(struct fake *f, enum role role, int fd, pid_t pid)
{
	struct channel_peer peer = { .self = role, .other = ROLE_SUPERVISOR, .table = exeat_messages,
				     .on_message = fake_hears, .on_closed = fake_closed, .arg = f };

	*f = (struct fake){ .pid = pid };
	f->c = channel_new(rig.base, fd, &peer);
	assert_non_null(f->c);
}

/* The part has a process now, which says nothing yet. */
static inline void fake_adopt(struct fake *f, struct part *p)
{
	pid_t pid = rig_child();
	int ends[2];

	assert_int_equal(channel_pair(ends), OK);
	fake_take(f, p->role, ends[1], pid);
	part_adopt(p, ends[0], pid);
}

static inline void fake_ready(struct fake *f, struct part *p)
{
	struct msg_ready m = { 0 };

	assert_int_equal(channel_send(f->c, MSG_READY, &m, NULL, 0), OK);
	channel_set_phase(f->c, PHASE_RUN);
	rig_until(p->state == PART_READY);
}

static inline void fake_free(struct fake *f)
{
	channel_free(f->c);
	f->c = NULL;
	if (f->pid)
		kill(f->pid, SIGKILL);
}

static inline void rig_open(void)
{
	memset(&rig, 0, sizeof(rig));
	rig.base = event_base_new();
	assert_non_null(rig.base);
}

static inline void rig_close(void)
{
	for (struct part *p = rig.parts; p; p = p->next) {
		channel_free(p->channel);
		if (p->pid > 0) {
			kill(p->pid, SIGKILL);
			waitpid(p->pid, NULL, 0);
		}
	}
	rings_free(&rig);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	event_base_free(rig.base);
}

#endif
