/* Theory of operation
 *
 * The one writer of the log file that this appliance has. A ring that wakes it, a held begin that
 * is due, or an order of the supervisor starts pump(): one batch (journal.h), and again soon where
 * more is waiting. While records come it lingers: it looks again by itself every LINGER_MS, and no
 * writer has to wake it for each of them. A look that finds nothing ends that.
 *
 * Where the log cannot be written the supervisor is told once (LOG_STATE), the
 * rings refuse, and a try a second is made until it can be again.
 *
 * Another appliance's recorder may write to the same file; the lock is held for the time of a
 * batch. It is asked for again after LOCK_RETRY_MS, and after LOCK_PATIENCE_MS the log counts as
 * one that cannot be written.
 *
 * Confined it makes these calls: read and write (eventfds, the file), pread64, fstat, ftruncate,
 * flock, fdatasync, mmap and munmap (rings), fcntl F_GET_SEALS, epoll_*, recvmsg, sendmsg.
 */
#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>

#include "proxy/clock.h"
#include "proxy/journal.h"
#include "proxy/role.h"
#include "sandbox/channel.h"

#define RETRY_MS 1000
#define LINGER_MS 5
#define LOCK_RETRY_MS 2
#define LOCK_PATIENCE_MS 2000
#define DRAINS_MAX 16

struct recorder {
	struct role_env *env;
	struct log_file *log;
	struct journal *journal;
	struct event *wakes[JOURNAL_RINGS_MAX];
	size_t n_wakes;
	struct event *pump;	/* a timer, or at once */
	bool unwritable, lingers;
	uint64_t locked_since;	/* 0: the lock was free */
	uint32_t drains[DRAINS_MAX];
	size_t n_drains;
};

static const struct role_program program;

static void pump_in(struct recorder *r, uint64_t ms)
{
	struct timeval tv = { (time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000) };

	event_add(r->pump, &tv);
}

static void tell_state(struct recorder *r, bool writable, int code)
{
	struct msg_log_state state = { .writable = writable, .code = (uint32_t)code };

	if (r->unwritable == !writable)
		return;
	r->unwritable = !writable;
	if (channel_send(r->env->supervisor, MSG_LOG_STATE, &state, NULL, 0) != OK)
		role_fatal(&program, "the supervisor is gone");
}

static void cannot_write(struct recorder *r, int code)
{
	tell_state(r, false, code);
	pump_in(r, RETRY_MS);
}

static void lock_is_held(struct recorder *r, uint64_t now)
{
	if (r->locked_since == 0)
		r->locked_since = now;
	if (now - r->locked_since < LOCK_PATIENCE_MS) {
		pump_in(r, LOCK_RETRY_MS);
		return;
	}
	journal_refuse(r->journal);
	cannot_write(r, EWOULDBLOCK);
}

static void answer_drains(struct recorder *r)
{
	if (log_sync(r->log) != OK) {
		journal_refuse(r->journal);
		cannot_write(r, errno);
		return;
	}
	for (size_t i = 0; i < r->n_drains; i++) {
		struct msg_drain done = { .id = r->drains[i] };

		if (channel_send(r->env->supervisor, MSG_DRAINED, &done, NULL, 0) != OK)
			role_fatal(&program, "the supervisor is gone");
	}
	r->n_drains = 0;
}

static void linger(struct recorder *r, bool on)
{
	r->lingers = on;
	journal_linger(r->journal, on);
}

/* After a batch that has taken all there was. */
static void wait_for_more(struct recorder *r, uint64_t now)
{
	uint64_t due = journal_due(r->journal), in = due > now ? due - now : 0;

	if (r->lingers && journal_idle(r->journal)) {
		linger(r, false);
		pump_in(r, 0);
	} else if (r->lingers) {
		pump_in(r, in < LINGER_MS ? in : LINGER_MS);
	} else if (due != JOURNAL_NEVER) {
		pump_in(r, in);
	}
}

static void pump(struct recorder *r)
{
	uint64_t now = clock_ms();
	bool more;
	enum err e = journal_batch(r->journal, now, r->n_drains > 0, &more);

	if (e == ERR_AGAIN) {
		lock_is_held(r, now);
		return;
	}
	r->locked_since = 0;
	if (e) {
		cannot_write(r, e == ERR_SYSTEM ? errno : e == ERR_NOMEM ? ENOMEM : EBADMSG);
		return;
	}
	tell_state(r, true, 0);
	if (more) {
		pump_in(r, 0);
		return;
	}
	if (r->n_drains)
		answer_drains(r);
	wait_for_more(r, now);
}

static void on_pump(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	pump(arg);
}

/* While the log cannot be written, or the lock is another's, only the timer tries. */
static void on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct recorder *r = arg;

	(void)what;
	for (size_t i = 0; i < r->n_wakes; i++)
		if (journal_wake_fd(r->journal, i) == fd)
			journal_wake_seen(r->journal, i);
	linger(r, true);
	if (!r->unwritable && r->locked_since == 0)
		pump(r);
}

static void add_ring(struct recorder *r, const struct msg_ring *msg, const int *fds)
{
	struct ring_fds ring = { .memory = fds[0], .wake = fds[1], .room = fds[2] };
	struct journal_writer writer = { .role = (enum role)msg->role, .sandbox = msg->sandbox,
					 .policy = msg->policy };
	struct event *wake;
	size_t number;
	enum err e = journal_add(r->journal, &ring, &writer, &number);

	if (e)
		role_fatal(&program, "cannot read a ring: %s", err_text(e));
	wake = event_new(r->env->base, journal_wake_fd(r->journal, number), EV_READ | EV_PERSIST,
			 on_wake, r);
	if (!wake || event_add(wake, NULL) < 0)
		role_fatal(&program, "out of memory");
	r->wakes[r->n_wakes++] = wake;
}

static void on_message(struct role_env *env, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	struct recorder *r = env->state;
	const struct msg_drain *drain = msg;

	if (type == MSG_RING && n_fds == 3) {
		add_ring(r, msg, fds);
		return;
	}
	channel_close_fds(fds, n_fds);
	if (type != MSG_DRAIN)
		return;
	if (r->n_drains == DRAINS_MAX)
		role_fatal(&program, "more than %d orders to drain at once", DRAINS_MAX);
	r->drains[r->n_drains++] = drain->id;
	if (!r->unwritable && r->locked_since == 0)
		pump(r);
}

/* Looks at the file once, so that a file which is no audit log is said at the start. */
static void check_file(struct recorder *r, struct str path)
{
	enum err e = log_batch_begin(r->log);

	if (!e)
		log_batch_drop(r->log);
	if (e == ERR_SYNTAX)
		role_fatal(&program, "%.*s: its last line is no line of an audit log; nothing is appended",
			   STR_ARG(path));
}

static bool on_start(struct role_env *env, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	struct recorder *r = calloc(1, sizeof(*r));
	const struct msg_recorder_start *start = msg;

	if (type != MSG_RECORDER_START || n_fds != 1 || !r)
		role_fatal(&program, "cannot start");
	/* A file at its limit is an error like a full disk. */
	signal(SIGXFSZ, SIG_IGN);
	r->env = env;
	r->pump = evtimer_new(env->base, on_pump, r);
	if (!r->pump || log_file_open(fds[0], &r->log) != OK ||
	    journal_new(r->log, &r->journal) != OK)
		role_fatal(&program, "out of memory");
	check_file(r, start->path);
	env->state = r;
	return true;
}

/* The supervisor is gone: all that is in the rings is written, as far as it can be. */
static void on_end(struct role_env *env)
{
	struct recorder *r = env->state;
	uint64_t until = clock_ms() + LOCK_PATIENCE_MS;
	bool more = true;

	if (!r)
		return;
	while (more) {
		enum err e = journal_batch(r->journal, clock_ms(), true, &more);

		if (e == ERR_AGAIN && clock_ms() < until)
			more = poll(NULL, 0, LOCK_RETRY_MS) == 0;
		else if (e)
			break;
	}
	if (log_sync(r->log) != OK)
		exit(1);
	for (size_t i = 0; i < r->n_wakes; i++)
		event_free(r->wakes[i]);
	event_free(r->pump);
	journal_free(r->journal);
	log_file_close(r->log);
	free(r);
}

static const struct role_program program = {
	.self = ROLE_RECORDER,
	.on_start = on_start,
	.on_message = on_message,
	.on_end = on_end,
};

int main(void)
{
	return role_main(&program);
}
