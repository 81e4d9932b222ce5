/* Theory of operation
 *
 * Not confined, since who forks a process that confines itself must have what it gives up; but it
 * hears the supervisor alone, and reads nothing but the operator's files of certificates. It holds
 * no secret: a worker makes its key itself, and OpenSSL takes new entropy after a fork
 * (tls_trust.c).
 *
 * The fork is clone() with CLONE_PARENT: the supervisor, which is confined and can make no process,
 * gets a child all the same, to wait for and to be died with. The child never returns into the
 * nursery's event loop, whose descriptor it closes: it begins a loop of its own.
 *
 * The price: workers share one another's address layout, as they share pages.
 */
#include "proxy/nursery.h"

#include <errno.h>
#include <event2/event.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proxy/role.h"
#include "proxy/tls_trust.h"
#include "sandbox/spawn.h"

#define WORKER_TITLE "exeat-worker"

static const struct role_program program;

struct nursery {
	char *title;
	worker_life_fn *life;
	pid_t parent;
	struct tls_trust *trust;
};

static bool on_start(struct role_env *env, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	struct nursery *n = env->inherited;
	const struct msg_nursery_start *m = msg;
	const char *why = "";

	channel_close_fds(fds, n_fds);
	if (type != MSG_NURSERY_START)
		role_fatal(&program, "cannot start");
	n->trust = tls_trust_new(m->trust_system != 0, &m->trust_files, &why);
	if (!n->trust)
		role_fatal(&program, "%s", why);
	tls_trust_serve_h2(n->trust, true);
	return true;
}

/* ---- the child ---- */

/* What ps shows: the name, and the program's first argument. */
static void take_name(char *title)
{
	size_t n = title ? strlen(title) : 0;

	prctl(PR_SET_NAME, WORKER_TITLE);
	if (n < sizeof(WORKER_TITLE) - 1)
		return;
	memset(title, 0, n);
	memcpy(title, WORKER_TITLE, sizeof(WORKER_TITLE) - 1);
}

static _Noreturn void be_worker(const struct nursery *n, int channel)
{
	/* A parent gone before the death signal was asked for has left us to somebody else. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != n->parent || setpgid(0, 0) < 0 ||
	    dup2(channel, ROLE_CHANNEL_FD) != ROLE_CHANNEL_FD ||
	    close_range(ROLE_CHANNEL_FD + 1, UINT_MAX, 0) < 0)
		_exit(126);
	take_name(n->title);
	exit(n->life(ROLE_CHANNEL_FD, n->trust));
}

/* ---- the fork ---- */

/* The child's number, or -1. */
static pid_t fork_worker(const struct nursery *n, int channel, int *pidfd)
{
	pid_t pid = (pid_t)syscall(SYS_clone, CLONE_PARENT | CLONE_PIDFD | SIGCHLD, NULL, pidfd,
				   NULL, NULL);

	if (pid == 0)
		be_worker(n, channel);
	return pid;
}

static void launch(struct role_env *env, const struct msg_launch *m)
{
	struct msg_launched answer = { .id = m->id };
	int fds[2] = { -1, -1 }, ends[2] = { -1, -1 };	/* LAUNCHED: channel, pidfd */
	pid_t pid = -1;

	errno = EINVAL;
	if (m->role == ROLE_WORKER && channel_pair(ends) == OK)
		pid = fork_worker(env->inherited, ends[1], &fds[1]);
	fds[0] = ends[0];
	answer.pid = pid > 0 ? (uint32_t)pid : 0;
	answer.code = pid > 0 ? 0 : (uint32_t)errno;
	/* Where the supervisor does not take it, the child's channel closes, and it ends. */
	if (channel_send(env->supervisor, MSG_LAUNCHED, &answer, fds, answer.pid ? 2 : 0) != OK)
		event_base_loopbreak(env->base);
	channel_close_fds(fds, 2);
	channel_close_fds(&ends[1], 1);
}

static void on_message(struct role_env *env, uint16_t type, const void *msg, int *fds,
		       size_t n_fds)
{
	channel_close_fds(fds, n_fds);
	if (type == MSG_LAUNCH)
		launch(env, msg);
}

static void on_end(struct role_env *env)
{
	struct nursery *n = env->inherited;

	tls_trust_free(n->trust);
}

static const struct role_program program = {
	.self = ROLE_NURSERY,
	.on_start = on_start,
	.on_message = on_message,
	.on_end = on_end,
};

int nursery_main(char *title, worker_life_fn *life)
{
	struct nursery n = { .title = title, .life = life, .parent = getppid() };

	prctl(PR_SET_NAME, "exeat-nursery");
	return role_live(&program, ROLE_CHANNEL_FD, &n);
}
