/* Theory of operation
 *
 *   NONE --want--> WANTED --LAUNCHED--> STARTING --READY--> READY
 *                    ^                     |                  |
 *                    |                     +-------lose-------+----end----> ENDING --reaped--> NONE
 *                    +--- lost() wants a successor <--- reaped ---+
 *
 * Whoever is lost is killed first, also where its channel has only ended: it is dying then, and to
 * kill it changes nothing about how. When it has been reaped, how it ended is put on record, and
 * the hook says what follows.
 *
 * SIGCHLD says that somebody has ended or was stopped, not who: each process is asked. A process
 * that somebody has stopped is killed like one that hangs; the difference is that it need not be
 * waited for.
 *
 * Who dies between starting a process and saying so leaves us a child that we do not know. It
 * ends, since its channel has, and is reaped like all; not while an answer may be on its way that
 * names it. A process may also have died before the answer that names it is heard: it is looked
 * after once when it is adopted, since no signal will tell of it any more.
 */
#include "proxy/appliance.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/clock.h"

static void set_state(struct part *p, enum part_state state)
{
	p->state = state;
	p->since_ms = clock_ms();
	p->pinged_ms = 0;
}

void part_init(struct appliance *a, struct part *p, enum role role, const struct part_hooks *hooks,
	       void *owner)
{
	*p = (struct part){
		.next = a->parts, .a = a, .role = role, .hooks = hooks, .owner = owner
	};
	a->parts = p;
}

void part_remove(struct part *p)
{
	struct part **at = &p->a->parts;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
}

/* ---- orders ---- */

struct part *part_launcher(struct appliance *a)
{
	for (size_t i = 0; i < 2; i++)
		if (a->launcher[i].state == PART_READY)
			return &a->launcher[i];
	return NULL;
}

/* Who starts processes of this role. */
static struct part *orderer(struct appliance *a, enum role role)
{
	if (role == ROLE_WORKER)
		return a->nursery.state == PART_READY ? &a->nursery : NULL;
	return part_launcher(a);
}

static void order(struct part *p)
{
	struct part *by = orderer(p->a, p->role);
	struct msg_launch m = { .id = ++p->a->last_order, .role = (uint8_t)p->role };

	if (!by)
		return;		/* parts_order_wanted() comes when there is one */
	if (part_send(by, MSG_LAUNCH, &m, NULL, 0) != OK)
		return;		/* likewise: it is being lost */
	p->orderer = by;
	p->order = m.id;
	by->promised++;
}

void part_want(struct part *p)
{
	p->status = 0;
	p->why = NULL;
	p->asked_to_end = false;
	p->orderer = NULL;
	set_state(p, PART_WANTED);
	order(p);
}

void parts_order_wanted(struct appliance *a)
{
	for (struct part *p = a->parts; p; p = p->next)
		if (p->state == PART_WANTED && !p->orderer)
			order(p);
}

/* Whom it had promised processes is to ask somebody else. */
static void forget_orders(struct part *gone)
{
	gone->promised = 0;
	for (struct part *p = gone->a->parts; p; p = p->next)
		if (p->orderer == gone)
			p->orderer = NULL;
}

/* ---- its channel ---- */

static void on_message(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	struct part *p = arg;

	if (type == MSG_PONG) {
		p->pinged_ms = 0;
	} else if (type == MSG_READY && p->state == PART_STARTING) {
		set_state(p, PART_READY);
		channel_set_phase(p->channel, PHASE_RUN);
		if (p->hooks->ready)
			p->hooks->ready(p);
	} else if (p->hooks->message) {
		p->hooks->message(p, type, msg, fds, n_fds);
		return;
	}
	channel_close_fds(fds, n_fds);
}

static void on_closed(void *arg, const char *why)
{
	part_lose(arg, why);
}

static void look_after(struct part *p);

void part_adopt(struct part *p, int channel, pid_t pid)
{
	struct channel_peer peer = { .self = ROLE_SUPERVISOR, .other = p->role,
				     .table = exeat_messages, .on_message = on_message,
				     .on_closed = on_closed, .arg = p };

	p->pid = pid;
	p->orderer = NULL;
	p->waiting = false;
	p->channel = channel_new(p->a->base, channel, &peer);
	set_state(p, PART_STARTING);
	if (!p->channel)
		part_lose(p, "no memory for its channel");
	else if (p->hooks->started && !p->hooks->started(p))
		part_lose(p, "could not be told its start");
	look_after(p);
}

void part_told(struct part *p)
{
	p->waiting = false;
	p->since_ms = clock_ms();
}

enum err part_send(struct part *p, uint16_t type, const void *msg, const int *fds, size_t n)
{
	enum err e = p->channel ? channel_send(p->channel, type, msg, fds, n) : ERR_CLOSED;

	if (e && p->channel)
		part_lose(p, e == ERR_CLOSED ? "end of file" : "does not take what it is told");
	return e;
}

void parts_launched(struct part *from, const struct msg_launched *m, int *fds, size_t n_fds)
{
	struct part *p = from->a->parts;

	if (from->promised == 0) {
		channel_close_fds(fds, n_fds);
		part_lose(from, "a process that was not ordered");
		return;
	}
	from->promised--;
	while (p && !(p->orderer == from && p->order == m->id))
		p = p->next;
	if (p && p->state == PART_WANTED && m->code == 0 && n_fds >= 1) {
		part_adopt(p, fds[0], (pid_t)m->pid);
		fds[0] = -1;
	} else if (p && p->state == PART_WANTED) {
		snprintf(p->why_text, sizeof(p->why_text), "cannot be started: %s",
			 strerror((int)m->code));
		p->why = p->why_text;
		p->orderer = NULL;
		p->gone = 0;
		if (m->pid)	/* the child that could not become it */
			(void)waitpid((pid_t)m->pid, NULL, 0);
		set_state(p, PART_NONE);
		if (p->hooks->lost)
			p->hooks->lost(p);
	} else if (n_fds >= 1) {
		/* Nobody wants it any more. */
		kill((pid_t)m->pid, SIGKILL);
		(void)waitpid((pid_t)m->pid, NULL, 0);
	}
	channel_close_fds(fds, n_fds);
}

/* ---- its end ---- */

static void close_channel(struct part *p)
{
	channel_free(p->channel);
	p->channel = NULL;
}

void part_lose(struct part *p, const char *why)
{
	if (p->state != PART_STARTING && p->state != PART_READY)
		return;
	snprintf(p->why_text, sizeof(p->why_text), "%s", why);
	/* That its channel ended says nothing which its status does not say better. */
	p->why = channel_ended(why) ? NULL : p->why_text;
	close_channel(p);
	forget_orders(p);
	kill(p->pid, SIGKILL);
	set_state(p, PART_ENDING);
}

void part_end(struct part *p)
{
	p->asked_to_end = true;
	if (p->state == PART_NONE || p->state == PART_WANTED) {
		set_state(p, PART_NONE);
		p->orderer = NULL;
		if (p->hooks->ended)
			p->hooks->ended(p);
		return;
	}
	close_channel(p);
	forget_orders(p);
	if (p->state != PART_ENDING)
		set_state(p, PART_ENDING);
}

static void gone(struct part *p, int status)
{
	bool asked = p->asked_to_end;

	p->status = status;
	p->gone = p->pid;
	p->pid = 0;
	set_state(p, PART_NONE);
	/* Either may free it. */
	if (asked && p->hooks->ended)
		p->hooks->ended(p);
	else if (!asked && p->hooks->lost)
		p->hooks->lost(p);
}

/* As waitpid() would have said it. */
static int wait_status(const siginfo_t *info)
{
	return info->si_code == CLD_EXITED ? info->si_status << 8 : info->si_status & 0x7f;
}

static void look_after(struct part *p)
{
	siginfo_t info = { .si_pid = 0 };

	if (waitid(P_PID, (id_t)p->pid, &info, WEXITED | WSTOPPED | WNOHANG) < 0 ||
	    info.si_pid == 0)
		return;
	if (info.si_code == CLD_STOPPED || info.si_code == CLD_TRAPPED) {
		part_lose(p, "was stopped by a signal");
		return;
	}
	close_channel(p);	/* it may not have said so yet */
	forget_orders(p);
	gone(p, wait_status(&info));
}

static bool is_known(const struct appliance *a, pid_t pid)
{
	const struct part *p = a->parts;

	while (p && p->pid != pid)
		p = p->next;
	return p != NULL;
}

static void reap_unknown(const struct appliance *a)
{
	siginfo_t info;

	for (const struct part *p = a->parts; p; p = p->next)
		if (p->promised)
			return;
	for (;;) {
		info.si_pid = 0;
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0 ||
		    is_known(a, info.si_pid))
			return;
		(void)waitpid(info.si_pid, NULL, WNOHANG);
	}
}

/* A hook may add a part, at the list's head. */
void parts_reap(struct appliance *a)
{
	for (struct part *p = a->parts, *next; p; p = next) {
		next = p->next;
		if (p->pid > 0 && p->state != PART_WANTED && p->state != PART_NONE)
			look_after(p);
	}
	reap_unknown(a);
}

bool part_crashed(struct part *p, unsigned max)
{
	uint64_t now = clock_ms();
	unsigned n = 1;

	for (size_t i = SHARED_CRASHES_MAX - 1; i > 0; i--)
		p->crashes[i] = p->crashes[i - 1];
	p->crashes[0] = now;
	for (size_t i = 1; i < SHARED_CRASHES_MAX; i++)
		n += p->crashes[i] && now - p->crashes[i] < CRASH_WINDOW_MS;
	return n >= max;
}

/* ---- ages ---- */

static void ping(struct part *p, uint64_t now)
{
	struct msg_ping m = { .id = 0 };

	if (p->pinged_ms == 0 && now - p->since_ms >= PING_MS) {
		p->pinged_ms = p->since_ms = now;
		(void)!part_send(p, MSG_PING, &m, NULL, 0);
	} else if (p->pinged_ms && now - p->pinged_ms >= PING_PATIENCE_MS) {
		part_lose(p, "does not answer");
	}
}

void parts_tick(struct appliance *a)
{
	uint64_t now = clock_ms();

	for (struct part *p = a->parts; p; p = p->next) {
		uint64_t age = now - p->since_ms;

		if (p->state == PART_READY)
			ping(p, now);
		else if (p->state == PART_STARTING && !p->waiting && age >= ROLE_READY_MS)
			part_lose(p, "did not get ready");
		else if (p->state == PART_ENDING && age >= ROLE_END_MS && p->pid > 0)
			kill(p->pid, SIGKILL);
	}
}
