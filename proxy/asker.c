/* Theory of operation
 *
 *   WAITING --a place is free--> ASKING --answer, end of file--> OVER --reaped--> freed
 *      |                           |                              ^
 *      +--patience--> freed        +--patience: killed----------> STUCK --reaped--> freed
 *
 * The answer is one packet on a socket that the child has an end of: a code, a text, perhaps a
 * descriptor. Its end of file without one is the child's death. Whoever was killed for his silence
 * is counted until he is gone: in a call to a disk that hangs even SIGKILL may have to wait.
 */
#include "proxy/asker.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum ask_state { ASK_WAITING, ASK_ASKING, ASK_OVER, ASK_STUCK };

struct asking {
	struct asking *next;		/* in the order in which they were asked */
	struct askers *of;
	struct asker_job job;		/* its paths are our own */
	char **paths;
	enum ask_state state;
	pid_t pid;
	int answer;
	struct event *answered, *patience;
};

struct askers {
	struct event_base *base;
	struct asking *first;
	size_t n[ASK_STUCK + 1];
};

/* ---- in the child ---- */

/* One packet: the code, the text, the descriptor. */
static void say(int to, const struct asked *out)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec parts[] = { { (void *)(uintptr_t)&out->code, sizeof(out->code) },
				 { (void *)(uintptr_t)out->text, strlen(out->text) } };
	struct msghdr m = { .msg_iov = parts, .msg_iovlen = 2 };

	if (out->fd >= 0) {
		m.msg_control = control.room;
		m.msg_controllen = sizeof(control.room);
		control.head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
						 .cmsg_level = SOL_SOCKET,
						 .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(&control.head), &out->fd, sizeof(int));
	}
	if (sendmsg(to, &m, MSG_NOSIGNAL) < 0)
		_exit(1);	/* end of file says that there is no answer */
}

/* Whatever hangs with it must be nobody else's: no channel, no terminal, no operator's pipe. */
static bool shed(int *answer, int *fd)
{
	enum { HIGH = 8, ANSWER = 3, GIVEN = 4 };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int from[] = { fcntl(null, F_DUPFD_CLOEXEC, HIGH), fcntl(*answer, F_DUPFD_CLOEXEC, HIGH),
		       *fd >= 0 ? fcntl(*fd, F_DUPFD_CLOEXEC, HIGH) : -1 };

	if (from[0] < 0 || from[1] < 0 || (*fd >= 0 && from[2] < 0))
		return false;
	for (int i = 0; i < ANSWER; i++)
		if (dup2(from[0], i) < 0)
			return false;
	if (dup3(from[1], ANSWER, O_CLOEXEC) < 0 ||
	    (*fd >= 0 && dup3(from[2], GIVEN, O_CLOEXEC) < 0))
		return false;
	*answer = ANSWER;
	if (*fd >= 0)
		*fd = GIVEN;
	return close_range(*fd >= 0 ? GIVEN + 1 : GIVEN, UINT_MAX, 0) == 0;
}

static _Noreturn void child(const struct asking *k, int answer, pid_t parent)
{
	static struct asked out = { .fd = -1 };
	int fd = k->job.fd;

	prctl(PR_SET_NAME, "exeat-asker");
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent || !shed(&answer, &fd))
		_exit(1);
	k->job.ask(k->job.arg, fd, &out);
	say(answer, &out);
	_exit(0);
}

/* ---- one question ---- */

static void set_state(struct asking *k, enum ask_state state)
{
	k->of->n[k->state]--;
	k->state = state;
	k->of->n[state]++;
}

static void free_paths(char **paths)
{
	for (size_t i = 0; paths && paths[i]; i++)
		free(paths[i]);
	free(paths);
}

static char **copy_paths(const char *const *paths)
{
	char **out;
	size_t n = 0;

	while (paths[n])
		n++;
	out = calloc(n + 1, sizeof(*out));
	for (size_t i = 0; out && i < n; i++) {
		out[i] = strdup(paths[i]);
		if (!out[i]) {
			free_paths(out);
			return NULL;
		}
	}
	return out;
}

static void close_answer(struct asking *k)
{
	if (k->answered)
		event_free(k->answered);
	k->answered = NULL;
	if (k->answer >= 0)
		close(k->answer);
	k->answer = -1;
	if (k->patience)
		event_free(k->patience);
	k->patience = NULL;
}

static void drop(struct asking *k)
{
	struct asking **at = &k->of->first;

	while (*at != k)
		at = &(*at)->next;
	*at = k->next;
	k->of->n[k->state]--;
	close_answer(k);
	if (k->job.fd >= 0)
		close(k->job.fd);
	free_paths(k->paths);
	free(k);
}

/* @k may be gone when it returns, and others have come. */
static void tell(struct asking *k, struct asked *asked)
{
	const struct asker_job job = k->job;

	if (k->state == ASK_WAITING)
		drop(k);
	job.done(job.arg, asked);
}

static void fail(struct asking *k, int code)
{
	struct asked asked = { .code = code, .fd = -1 };

	tell(k, &asked);
}

/* ---- the answer ---- */

static int descriptor_of(struct msghdr *m)
{
	struct cmsghdr *head = CMSG_FIRSTHDR(m);
	int fd = -1;

	if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
	    head->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(head), sizeof(fd));
	return fd;
}

static void hear(int from, struct asked *asked)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec parts[] = { { &asked->code, sizeof(asked->code) },
				 { asked->text, ASKED_TEXT_MAX } };
	struct msghdr m = { .msg_iov = parts, .msg_iovlen = 2, .msg_control = control.room,
			    .msg_controllen = sizeof(control.room) };
	ssize_t n = recvmsg(from, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	asked->fd = -1;
	if (n < (ssize_t)sizeof(asked->code)) {
		asked->code = EPROTO;
		return;
	}
	asked->text[(size_t)n - sizeof(asked->code)] = '\0';
	asked->fd = descriptor_of(&m);
	if (m.msg_flags & MSG_CTRUNC && asked->code == 0)
		asked->code = EMFILE;
}

static void on_answer(evutil_socket_t fd, short what, void *arg)
{
	struct asking *k = arg;
	struct asked asked;

	(void)what;
	hear(fd, &asked);
	close_answer(k);
	set_state(k, ASK_OVER);
	tell(k, &asked);
}

static void on_no_patience(evutil_socket_t fd, short what, void *arg)
{
	struct asking *k = arg;
	bool asking = k->state == ASK_ASKING;

	(void)fd;
	(void)what;
	if (asking) {
		(void)kill(k->pid, SIGKILL);
		close_answer(k);
		set_state(k, ASK_STUCK);
	}
	fail(k, asking ? ETIMEDOUT : EUSERS);
}

/* ---- asking ---- */

static bool start(struct asking *k)
{
	pid_t parent = getpid();
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return false;
	k->answer = ends[0];
	k->answered = event_new(k->of->base, ends[0], EV_READ, on_answer, k);
	k->pid = k->answered && event_add(k->answered, NULL) == 0 ? fork() : -1;
	if (k->pid == 0)
		child(k, ends[1], parent);
	close(ends[1]);
	if (k->pid < 0)
		return false;
	set_state(k, ASK_ASKING);
	return true;
}

/* Those that have waited longest first. */
static void start_waiting(struct askers *a)
{
	struct asking *k = a->first;

	while (k && askers_children(a) < ASKERS_MAX) {
		if (k->state != ASK_WAITING || start(k)) {
			k = k->next;
		} else {
			fail(k, EAGAIN);
			k = a->first;
		}
	}
}

static bool goes_to(const struct asking *k, const char *path)
{
	for (size_t i = 0; k->paths[i]; i++)
		if (strcmp(k->paths[i], path) == 0)
			return true;
	return false;
}

/* So many as went to one of these paths, were killed, and are still there. */
static size_t stuck_at(const struct askers *a, const char *const *paths)
{
	size_t most = 0;

	for (size_t i = 0; paths[i]; i++) {
		size_t n = 0;

		for (const struct asking *k = a->first; k; k = k->next)
			n += k->state == ASK_STUCK && goes_to(k, paths[i]);
		most = n > most ? n : most;
	}
	return most;
}

/* The place is at the end. */
static void join(struct askers *a, struct asking *k)
{
	struct asking **at = &a->first;

	while (*at)
		at = &(*at)->next;
	*at = k;
	a->n[k->state]++;
}

static struct asking *asking_new(struct askers *a, const struct asker_job *job)
{
	struct asking *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	k->of = a;
	k->job = *job;
	k->answer = -1;
	k->job.fd = job->fd >= 0 ? fcntl(job->fd, F_DUPFD_CLOEXEC, 0) : -1;
	k->paths = copy_paths(job->paths);
	k->patience = evtimer_new(a->base, on_no_patience, k);
	join(a, k);
	if (k->paths && k->patience && (job->fd < 0 || k->job.fd >= 0))
		return k;
	drop(k);
	return NULL;
}

int asker_ask(struct askers *a, const struct asker_job *job)
{
	const struct timeval patience = { .tv_sec = job->patience_ms / 1000,
					  .tv_usec = job->patience_ms % 1000 * 1000 };
	struct asking *k;

	if (stuck_at(a, job->paths) >= ASKERS_STUCK_MAX)
		return ETIMEDOUT;
	if (askers_waiting(a) >= ASKERS_WAITING_MAX)
		return EUSERS;
	k = asking_new(a, job);
	if (!k)
		return ENOMEM;
	if (event_add(k->patience, &patience) == 0 &&
	    (askers_children(a) >= ASKERS_MAX || start(k)))
		return 0;
	drop(k);
	return EAGAIN;
}

void askers_reap(struct askers *a, pid_t pid)
{
	struct asking *k = a->first;
	struct asked asked;

	while (k && !(k->state != ASK_WAITING && k->pid == pid))
		k = k->next;
	if (!k)
		return;
	if (k->state == ASK_ASKING) {	/* its answer may lie there */
		const struct asker_job job = k->job;

		hear(k->answer, &asked);
		drop(k);
		job.done(job.arg, &asked);
	} else {
		drop(k);
	}
	start_waiting(a);
}

/* ---- all ---- */

struct askers *askers_new(struct event_base *base)
{
	struct askers *a = calloc(1, sizeof(*a));

	if (a)
		a->base = base;
	return a;
}

void askers_free(struct askers *a)
{
	if (!a)
		return;
	while (a->first) {
		if (a->first->state == ASK_ASKING)
			(void)kill(a->first->pid, SIGKILL);
		drop(a->first);
	}
	free(a);
}

size_t askers_children(const struct askers *a)
{
	return a->n[ASK_ASKING] + a->n[ASK_OVER] + a->n[ASK_STUCK];
}

size_t askers_waiting(const struct askers *a)
{
	return a->n[ASK_WAITING];
}

const char *asked_why(int code)
{
	switch (code) {
	case ETIMEDOUT:
		return "the file system that it lies on does not answer";
	case EUSERS:
		return "too many others wait for file systems that do not answer";
	case EAGAIN:
		return "no process can be made to look at it";
	case EPROTO:
		return "who was to look at it has died";
	default:
		return strerror(code);
	}
}
