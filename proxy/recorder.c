/* Theory of operation
 *
 * The one writer of the log file that this appliance has. A ring that wakes it, something that is
 * due (a held begin, a checkpoint), or an order of the supervisor starts pump(): one batch
 * (journal.h), and again soon where more is waiting. Where the log cannot be written the supervisor
 * is told once (LOG_STATE), the rings refuse, and a try a second is made until it can be again.
 *
 * What the supervisor has said is heard before each batch: a writer that was given a new policy
 * after the recorder was told of it may have records of it in its ring by then.
 *
 * While records come the recorder lingers: it looks again by itself every LINGER_MS, and no writer
 * has to wake it for each of them. A look that finds nothing ends that.
 *
 * Another appliance's recorder may write to the same file; the lock is held for the time of a
 * batch. It is asked for again after LOCK_RETRY_MS, and after LOCK_PATIENCE_MS the log counts as
 * one that cannot be written.
 *
 * A file that is over its size or age is ended, and the supervisor asked to put it aside
 * (LOG_FULL). Until its successor comes (LOG_FILE) nothing is written and nothing refused:
 * records stay in the rings, and when those are full, traffic waits. If there is none to be had
 * in FILE_PATIENCE_MS, lines go on in the old file, one of them says so, and it is tried again
 * after ROTATE_RETRY_MS. Where another writer has ended the file, its successor is asked for in
 * the same way.
 *
 * Confined it makes these calls: read and write (eventfds, the file), pread64, fstat, ftruncate,
 * flock, fdatasync, mmap and munmap (rings), fcntl F_GET_SEALS, epoll_*, recvmsg, sendmsg.
 */
#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "proxy/clock.h"
#include "proxy/journal.h"
#include "proxy/role.h"
#include "sandbox/channel.h"

#define RETRY_MS 1000
#define LINGER_MS 5
#define LOCK_RETRY_MS 2
#define LOCK_PATIENCE_MS 2000
#define FILE_PATIENCE_MS 10000
#define ROTATE_RETRY_MS 60000
#define DRAINS_MAX 16

struct recorder;

struct ring_state {
	struct recorder *r;
	uint32_t supervisors;	/* its number for it */
	size_t number;		/* the journal's */
	bool ending;
	struct event *wake;	/* NULL: not in use */
};

struct recorder {
	struct role_env *env;
	struct log_file *log;
	struct log_signer *signer;
	struct journal *journal;
	struct ring_state rings[JOURNAL_RINGS_MAX];	/* by the journal's number */
	struct event *pump;	/* a timer, or at once */
	bool unwritable, lingers;
	uint64_t locked_since;	/* 0: the lock was free */
	uint64_t rotate_bytes, rotate_us;	/* 0: never */
	uint64_t rotate_after;	/* not before that: the last try failed */
	bool wants_file;	/* LOG_FULL was sent */
	uint64_t file_by;	/* until then it is waited for */
	int no_file;		/* errno of the last try, until a line was written all the same */
	uint32_t drains[DRAINS_MAX];
	size_t n_drains;
};

static const struct role_program program;

static void pump_in(struct recorder *r, uint64_t ms)
{
	struct timeval tv = { (time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000) };

	event_add(r->pump, &tv);
}

/* Where the supervisor is gone, what is left is written, and that is the end. */
static void tell(struct recorder *r, uint16_t type, const void *msg)
{
	if (channel_send(r->env->supervisor, type, msg, NULL, 0) != OK)
		event_base_loopbreak(r->env->base);
}

static void tell_state(struct recorder *r, bool writable, int code)
{
	struct msg_log_state state = { .writable = writable, .code = (uint32_t)code };

	if (r->unwritable == !writable)
		return;
	r->unwritable = !writable;
	tell(r, MSG_LOG_STATE, &state);
}

static void cannot_write(struct recorder *r, int code)
{
	journal_refuse(r->journal);
	tell_state(r, false, code);
	pump_in(r, RETRY_MS);
}

static void lock_is_held(struct recorder *r, uint64_t now)
{
	if (r->locked_since == 0)
		r->locked_since = now;
	if (now - r->locked_since < LOCK_PATIENCE_MS)
		pump_in(r, LOCK_RETRY_MS);
	else
		cannot_write(r, EWOULDBLOCK);
}

/* ---- from file to file ---- */

static void ask_for_file(struct recorder *r, bool rotated)
{
	struct msg_log_full msg = { .rotated = rotated };

	r->wants_file = true;
	tell(r, MSG_LOG_FULL, &msg);
	r->file_by = clock_ms() + FILE_PATIENCE_MS;
	pump_in(r, FILE_PATIENCE_MS);
}

/* The file has ended. */
static void is_closed(struct recorder *r)
{
	int code = r->no_file;

	r->no_file = 0;
	if (code)	/* no successor a moment ago, and the old one may not be written */
		cannot_write(r, code);
	else
		ask_for_file(r, true);
}

static void go_on_without(struct recorder *r, int code)
{
	char text[200];

	snprintf(text, sizeof(text), "the log's file could not be put aside: %s; it goes on in this file",
		 strerror(code));
	journal_note(r->journal, text);
	log_file_stay(r->log);
	r->wants_file = false;
	r->no_file = code;
	r->rotate_after = clock_ms() + ROTATE_RETRY_MS;
}

static bool is_old_enough(const struct recorder *r)
{
	uint64_t first = log_first_time_us(r->log);

	if (r->rotate_us == 0 || first == 0)
		return false;
	return clock_wall_us() > first + r->rotate_us;
}

static bool is_to_rotate(const struct recorder *r, uint64_t now)
{
	return now >= r->rotate_after && journal_has_written(r->journal) &&
	       ((r->rotate_bytes && log_size(r->log) >= r->rotate_bytes) || is_old_enough(r));
}

/* ---- what the supervisor waits for ---- */

static void answer_drains(struct recorder *r)
{
	if (r->n_drains && log_sync(r->log) != OK) {
		cannot_write(r, errno);
		return;
	}
	for (size_t i = 0; i < r->n_drains; i++) {
		struct msg_drain done = { .id = r->drains[i] };

		tell(r, MSG_DRAINED, &done);
	}
	r->n_drains = 0;
}

static void close_ring(struct ring_state *ring)
{
	event_free(ring->wake);
	journal_remove(ring->r->journal, ring->number);
	*ring = (struct ring_state){ 0 };
}

static void close_ended(struct recorder *r)
{
	for (size_t i = 0; i < JOURNAL_RINGS_MAX; i++) {
		struct ring_state *ring = &r->rings[i];
		struct msg_ring_end msg = { .number = ring->supervisors };

		if (!ring->ending || !journal_ended(r->journal, ring->number))
			continue;
		close_ring(ring);
		tell(r, MSG_RING_ENDED, &msg);
	}
}

/* ---- the pump ---- */

static void linger(struct recorder *r, bool on)
{
	r->lingers = on;
	journal_linger(r->journal, on);
}

/* After a batch that has taken all there was. */
static void wait_for_more(struct recorder *r, uint64_t now)
{
	uint64_t due = is_to_rotate(r, now) ? now : journal_due(r->journal);
	uint64_t in = due > now ? due - now : 0;

	if (r->lingers && journal_idle(r->journal)) {
		linger(r, false);
		pump_in(r, 0);
	} else if (r->lingers) {
		pump_in(r, in < LINGER_MS ? in : LINGER_MS);
	} else if (due != JOURNAL_NEVER) {
		pump_in(r, in);
	}
}

static void written(struct recorder *r, uint64_t now, bool rotated)
{
	tell_state(r, true, 0);
	close_ended(r);
	/* Rings may have more for the next file. */
	if (rotated) {
		if (log_sync(r->log) != OK)
			cannot_write(r, errno);
		else
			ask_for_file(r, false);
		return;
	}
	answer_drains(r);
	wait_for_more(r, now);
}

static void pump(struct recorder *r)
{
	uint64_t now = clock_ms();
	bool rotate = is_to_rotate(r, now), more;
	enum err e = journal_batch(r->journal, now,
				   rotate	? JOURNAL_ROTATE
				   : r->n_drains ? JOURNAL_ALL
						 : JOURNAL_NORMAL, &more);

	if (e == ERR_AGAIN) {
		lock_is_held(r, now);
		return;
	}
	r->locked_since = 0;
	if (!e)
		r->no_file = 0;
	if (e == ERR_CLOSED)
		is_closed(r);
	else if (e)
		cannot_write(r, e == ERR_SYSTEM ? errno : e == ERR_NOMEM ? ENOMEM : EBADMSG);
	else if (more)
		pump_in(r, 0);
	else
		written(r, now, rotate);
}

/* Before a batch, since what lies in the rings may be of a policy that was announced before it. */
static void hear_orders(struct recorder *r)
{
	channel_drain(r->env->supervisor);
}

static void on_pump(evutil_socket_t fd, short what, void *arg)
{
	struct recorder *r = arg;
	uint64_t now = clock_ms();

	(void)fd;
	(void)what;
	hear_orders(r);
	if (r->wants_file && now < r->file_by) {
		pump_in(r, r->file_by - now);
		return;
	}
	if (r->wants_file)
		go_on_without(r, ETIMEDOUT);
	pump(r);
}

/* While the log cannot be written, or the lock is another's, only the timer tries. */
static bool may_pump(const struct recorder *r)
{
	return !r->unwritable && !r->wants_file && r->locked_since == 0;
}

/* An order never writes by itself: the next one may be of what lies in the rings. */
static void pump_soon(struct recorder *r)
{
	if (may_pump(r))
		pump_in(r, 0);
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct ring_state *ring = arg;
	struct recorder *r = ring->r;

	(void)fd;
	(void)what;
	journal_wake_seen(r->journal, ring->number);
	linger(r, true);
	hear_orders(r);
	if (may_pump(r))
		pump(r);
}

/* ---- orders ---- */

static void add_ring(struct recorder *r, const struct msg_ring *msg, const int *fds)
{
	struct ring_fds ring = { .memory = fds[0], .wake = fds[1], .room = fds[2] };
	struct journal_writer writer = { .role = (enum role)msg->role, .sandbox = msg->sandbox,
					 .policy = msg->policy };
	struct ring_state *state;
	size_t number;
	enum err e = journal_add(r->journal, &ring, &writer, &number);

	if (e)
		role_fatal(&program, "cannot read a ring: %s", err_text(e));
	state = &r->rings[number];
	*state = (struct ring_state){ .r = r, .supervisors = msg->number, .number = number };
	state->wake = event_new(r->env->base, journal_wake_fd(r->journal, number),
				EV_READ | EV_PERSIST, on_wake, state);
	if (!state->wake || event_add(state->wake, NULL) < 0)
		role_fatal(&program, "out of memory");
}

static struct ring_state *find_ring(struct recorder *r, uint32_t supervisors)
{
	for (size_t i = 0; i < JOURNAL_RINGS_MAX; i++)
		if (r->rings[i].wake && r->rings[i].supervisors == supervisors &&
		    !r->rings[i].ending)
			return &r->rings[i];
	role_fatal(&program, "ring %u is not there", supervisors);
}

static void end_ring(struct recorder *r, const struct msg_ring_end *msg)
{
	struct ring_state *ring = find_ring(r, msg->number);

	ring->ending = true;
	journal_end(r->journal, ring->number);
	pump_soon(r);
}

static void announce_policy(struct recorder *r, const struct msg_ring_policy *msg)
{
	struct ring_state *ring = find_ring(r, msg->number);
	enum err e = journal_policy(r->journal, ring->number, msg->policy);

	if (e)
		role_fatal(&program, "a policy's digest: %s", err_text(e));
}

static void drain(struct recorder *r, const struct msg_drain *msg)
{
	if (r->n_drains == DRAINS_MAX)
		role_fatal(&program, "more than %d orders to drain at once", DRAINS_MAX);
	r->drains[r->n_drains++] = msg->id;
	pump_soon(r);
}

/* It may come late: after the time for it, the old file was gone on with. */
static void take_file(struct recorder *r, const struct msg_log_file *msg, const int *fds,
		      size_t n_fds)
{
	bool waits = r->wants_file;

	if (msg->code == 0 && n_fds == 1) {
		log_file_switch(r->log, fds[0]);
		r->wants_file = false;
		r->rotate_after = 0;
	} else {
		channel_close_fds(fds, n_fds);
		if (!waits)
			return;
		go_on_without(r, msg->code ? (int)msg->code : EBADF);
	}
	pump_in(r, 0);
}

static void on_message(struct role_env *env, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	struct recorder *r = env->state;

	if (type == MSG_RING && n_fds == 3) {
		add_ring(r, msg, fds);
		return;
	}
	if (type == MSG_LOG_FILE) {
		take_file(r, msg, fds, n_fds);
		return;
	}
	channel_close_fds(fds, n_fds);
	if (type == MSG_RING_END)
		end_ring(r, msg);
	else if (type == MSG_RING_POLICY)
		announce_policy(r, msg);
	else if (type == MSG_DRAIN)
		drain(r, msg);
}

/* ---- start and end ---- */

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

static void open_signer(struct recorder *r, struct str path, int fd)
{
	enum err e = log_signer_open(fd, &r->signer);

	if (e)
		role_fatal(&program, "%.*s.key: %s", STR_ARG(path),
			   e == ERR_SYSTEM ? strerror(errno) : "it is no Ed25519 key");
}

static bool on_start(struct role_env *env, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	struct recorder *r = calloc(1, sizeof(*r));
	const struct msg_recorder_start *start = msg;
	struct journal_config config = { 0 };

	if (type != MSG_RECORDER_START || n_fds < 1 || !r)
		role_fatal(&program, "cannot start");
	/* A file at its limit is an error like a full disk. */
	signal(SIGXFSZ, SIG_IGN);
	r->env = env;
	r->rotate_bytes = start->rotate_bytes;
	r->rotate_us = (uint64_t)start->rotate_seconds * 1000000;
	if (n_fds == 2)
		open_signer(r, start->path, fds[1]);
	config.sandbox_bytes = start->sandbox_bytes;
	config.synced = start->synced;
	config.signer = r->signer;
	r->pump = evtimer_new(env->base, on_pump, r);
	if (!r->pump || log_file_open(fds[0], &r->log) != OK ||
	    journal_new(r->log, &config, &r->journal) != OK)
		role_fatal(&program, "out of memory");
	check_file(r, start->path);
	env->state = r;
	return true;
}

/* All that is in the rings, as far as it can be written: nobody is there to give a new file. */
static void write_rest(struct recorder *r)
{
	uint64_t until = clock_ms() + LOCK_PATIENCE_MS;
	bool more = true;

	log_file_stay(r->log);
	while (more) {
		enum err e = journal_batch(r->journal, clock_ms(), JOURNAL_END, &more);

		if (e == ERR_AGAIN && clock_ms() < until)
			more = poll(NULL, 0, LOCK_RETRY_MS) == 0;
		else if (e)
			break;
	}
}

static void on_end(struct role_env *env)
{
	struct recorder *r = env->state;

	if (!r)
		return;
	write_rest(r);
	if (log_sync(r->log) != OK)
		exit(1);
	for (size_t i = 0; i < JOURNAL_RINGS_MAX; i++)
		if (r->rings[i].wake)
			event_free(r->rings[i].wake);
	event_free(r->pump);
	journal_free(r->journal);
	log_signer_close(r->signer);
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
