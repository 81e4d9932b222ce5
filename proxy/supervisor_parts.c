#include "proxy/supervisor_state.h"

#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/messages.h"
#include "proxy/run_records.h"
#include "sandbox/spawn.h"

static const enum role part_role[PART_COUNT] = {
	[PART_RECORDER] = ROLE_RECORDER, [PART_STANDBY] = ROLE_RECORDER,
	[PART_BROKER] = ROLE_BROKER, [PART_DIALER] = ROLE_DIALER, [PART_NURSERY] = ROLE_NURSERY,
	[PART_WORKER] = ROLE_WORKER,
};

static const enum role ring_role[RING_COUNT] = {
	[RING_SUPERVISOR] = ROLE_SUPERVISOR, [RING_BROKER] = ROLE_BROKER,
	[RING_DIALER] = ROLE_DIALER, [RING_WORKER] = ROLE_WORKER,
};

void part_lose(struct part_state *part, const char *why)
{
	part->lost = true;
	part->why = why;
	if (!part->ending)
		part->sup->failed = true;
}

static void on_closed(void *arg, const char *why)
{
	part_lose(arg, why);
}

/* ---- starting parts ---- */

static bool open_channel(struct supervisor *s, enum part which, int fd)
{
	struct part_state *p = &s->part[which];
	struct channel_peer peer = { .self = ROLE_SUPERVISOR, .other = part_role[which],
				     .table = exeat_messages, .on_message = supervisor_message,
				     .on_closed = on_closed, .arg = p };

	p->sup = s;
	p->which = which;
	p->channel = channel_new(s->base, fd, &peer);
	return p->channel != NULL;
}

bool part_spawn(struct supervisor *s, enum part which)
{
	struct part_state *p = &s->part[which];
	int fd;

	if (spawn_role(s->programs, part_role[which], &fd, &p->pid) != OK) {
		fprintf(stderr, "exeat: cannot start exeat-%s in %s: %s\n", role_name(part_role[which]),
			s->programs, strerror(errno));
		return false;
	}
	return open_channel(s, which, fd);
}

bool part_launch_worker(struct supervisor *s)
{
	struct msg_launch m = { .id = 1, .role = ROLE_WORKER };

	return part_wait_ready(s, PART_NURSERY) &&
	       channel_send(s->part[PART_NURSERY].channel, MSG_LAUNCH, &m, NULL, 0) == OK &&
	       supervisor_wait(s, &s->launched, ROLE_READY_MS) && s->part[PART_WORKER].channel;
}

void part_launched(struct supervisor *s, const struct msg_launched *m, int *fds, size_t n_fds)
{
	if (s->launched || !m->pid || n_fds != 2) {
		channel_close_fds(fds, n_fds);
		part_lose(&s->part[PART_NURSERY], "no worker, or one that was not asked for");
		return;
	}
	s->part[PART_WORKER].pid = (pid_t)m->pid;
	close(fds[1]);
	s->launched = open_channel(s, PART_WORKER, fds[0]);
}

bool part_wait_ready(struct supervisor *s, enum part which)
{
	struct part_state *p = &s->part[which];

	if (supervisor_wait(s, &p->ready, ROLE_READY_MS))
		return true;
	/* Where one was lost, that is the reason, and told as such at the end. */
	if (!s->failed && !p->lost)
		fprintf(stderr, "exeat: the %s did not get ready\n", role_name(part_role[which]));
	return false;
}

bool give_rings(struct supervisor *s, enum part to)
{
	for (size_t i = 0; i < RING_COUNT; i++) {
		struct msg_ring msg = { .role = (uint8_t)ring_role[i],
					.policy = s->policy ? policy_digest(s->policy) : STR_NONE };
		int fds[3] = { s->ring_fds[i].memory, s->ring_fds[i].wake, s->ring_fds[i].room };

		if (i == RING_WORKER)
			msg.sandbox = str_of(s->spec->name);
		if (channel_send(s->part[to].channel, MSG_RING, &msg, fds, 3) != OK)
			return false;
	}
	s->part[to].has_rings = true;
	return true;
}

/* ---- the end ---- */

/* Waits for a process that has been told to end, and makes it end where it does not. */
static int reap(pid_t pid)
{
	struct pollfd gone = { .fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN };
	int status = 0;

	if (gone.fd < 0 || poll(&gone, 1, ROLE_END_MS) != 1)
		kill(pid, SIGKILL);
	if (gone.fd >= 0)
		close(gone.fd);
	waitpid(pid, &status, 0);
	return status;
}

int part_end(struct supervisor *s, enum part which)
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

static void record_one(struct supervisor *s, const struct part_state *p, pid_t pid)
{
	enum role role = part_role[p->which];
	int status = p->status;
	bool broke_rules = p->why && !channel_ended(p->why);

	fprintf(stderr, "exeat: the %s is gone (%s %d%s%s); the run ends here\n", role_name(role),
		WIFSIGNALED(status) ? "signal" : "exit",
		WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
		broke_rules ? ": " : "", broke_rules ? p->why : "");
	if (put_role_lost(s->ring, s->spec, role, pid, status, p->why) != OK)
		fprintf(stderr, "exeat: that cannot be recorded\n");
}

/* A role that is lost is dead already, or broke the rules of its channel and is to be. Who ended
 * well has followed another, whose channel to it had closed: it is recorded only where no other is.
 */
void record_lost(struct supervisor *s)
{
	pid_t pids[PART_COUNT] = { 0 };
	bool any = false;

	event_base_loop(s->base, EVLOOP_NONBLOCK);	/* all that has closed by now */
	for (enum part i = 0; i < PART_COUNT; i++) {
		struct part_state *p = &s->part[i];

		if (!p->lost || p->pid == 0)
			continue;
		pids[i] = p->pid;
		if (p->why && !channel_ended(p->why))
			kill(p->pid, SIGKILL);
		p->status = part_end(s, i);
		any = any || p->status != 0;
	}
	for (enum part i = 0; i < PART_COUNT; i++)
		if (pids[i] && (s->part[i].status != 0 || !any))
			record_one(s, &s->part[i], pids[i]);
}

/* All records into the file: by the recorder, or by the standby where that one is gone. */
bool drain(struct supervisor *s)
{
	struct msg_drain msg = { .id = 1 };
	enum part by = s->part[PART_RECORDER].pid ? PART_RECORDER : PART_STANDBY;
	bool ok;

	if (!s->part[by].pid)
		return false;
	s->failed = false;
	if (!s->part[by].ready && !part_wait_ready(s, by))
		return false;	/* it was still starting when another was lost */
	if (!s->part[by].has_rings && !give_rings(s, by))
		return false;
	ok = channel_send(s->part[by].channel, MSG_DRAIN, &msg, NULL, 0) == OK &&
	     supervisor_wait(s, &s->drained, ROLE_END_MS);
	if (!ok)
		fprintf(stderr, "exeat: the end of the audit log could not be written\n");
	return ok;
}

