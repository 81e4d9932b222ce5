/* Theory of operation
 *
 * The keeper is single-threaded and waits for two things: its channel, and children that end.
 *
 *   director --START, SIGNAL--> keeper --fork/exec--> runc run --> exeat-init --> command
 *
 * Without a terminal the runtime leaves once the box runs, and exeat-init becomes the keeper's
 * child (which is a subreaper).
 *
 * Its mount namespace is its own, so that the box's mounts are nobody else's. The runtime's state
 * lies outside of it, in KEEPER_FOLDER/<id>/state, so that a later run of Exeat can kill and remove
 * a box whose keeper was killed. (The box itself is ended by then: exeat-init watches a pipe whose
 * other end only the keeper holds.) Sooner than that comes the heir: a child that the keeper makes
 * first, that waits for its end, and removes what a killed keeper has left. It holds the keeper's
 * end of the channel, too: the director sees the end when all is removed.
 *
 * Signals: the keeper ignores those that end a process, and forwards what its director says.
 * Without a terminal it stands in a process group of its own, so that Ctrl-C reaches the command
 * once, through the director. With one it must stay in the foreground group, since the runtime sets
 * the terminal to raw mode; there Ctrl-C is a byte that goes to the box's own terminal.
 *
 * The runtime joins the network namespace by /proc/<keeper>/fd/<n>: no name is left anywhere.
 */
#include "sandbox/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/box_root.h"
#include "sandbox/bundle.h"
#include "sandbox/cgroup.h"
#include "sandbox/tree.h"

#define PATH_BYTES 128
#define STATUS_NOT_STARTED 125
#define FIRST_KEPT_FD 64
#define BOX_END_MS 3000
#define HELD_RETRY_MS 5
#define MEMORY_SHARE_OF_4 3	/* of the machine's, for one box at most */

extern char **environ;

struct keeper {
	const struct box_spec *spec;
	const char *runtime;
	int channel, netns, children;
	int life[2];		/* its reading end is the box's */
	pid_t heir;
	pid_t running;		/* the runtime, then the box's init; or 0 */
	bool in_box;		/* it is the box's init */
	uint64_t cpu_ms;	/* of what has ended */
	uint64_t held;		/* signals that came before it was; bit n - 1 for signal n */
	char folder[PATH_BYTES], bundle[PATH_BYTES + 16], state[PATH_BYTES + 16];
	struct box_numbers numbers;
};

static const int ignored[] = { SIGINT, SIGQUIT, SIGHUP, SIGTERM, SIGUSR1, SIGUSR2, SIGTSTP,
			       SIGTTIN, SIGTTOU, SIGPIPE, SIGALRM };

static void tell(const struct keeper *k, enum keeper_kind kind, int value, const char *text)
{
	struct keeper_message m = { .kind = (int)kind, .value = value, .cpu_ms = k->cpu_ms };

	snprintf(m.text, sizeof(m.text), "%s", text);
	/* A director that is gone is told nothing; the channel's end says so. */
	(void)!send(k->channel, &m, sizeof(m), MSG_NOSIGNAL);
}

/* ---- running programs ---- */

static void usual_signals(void)
{
	sigset_t none;

	for (size_t i = 0; i < sizeof(ignored) / sizeof(*ignored); i++)
		signal(ignored[i], SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The runtime gets a path to find its helpers by, and nothing of our environment. */
static pid_t run(const struct keeper *k, char *const *arguments, bool quiet)
{
	static char *const environment[] = { "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:"
					     "/sbin:/bin", NULL };
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	usual_signals();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (quiet) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		for (int fd = 0; fd < 3; fd++)
			(void)!dup2(null, fd);
	} else if (dup2(k->life[0], BOX_LIFE_FD) < 0 || fcntl(BOX_LIFE_FD, F_SETFD, 0) < 0) {
		_exit(STATUS_NOT_STARTED);
	}
	execve(k->runtime, arguments, environment);
	_exit(STATUS_NOT_STARTED);
}

static void run_and_wait(const struct keeper *k, char *const *arguments)
{
	pid_t pid = run(k, arguments, true);

	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static void set_paths(struct keeper *k, const char *id)
{
	snprintf(k->folder, sizeof(k->folder), KEEPER_FOLDER "/%s", id);
	snprintf(k->bundle, sizeof(k->bundle), "%s/bundle", k->folder);
	snprintf(k->state, sizeof(k->state), "%s/state", k->folder);
}

static void delete_container(const struct keeper *k, const char *id)
{
	char path[2 * PATH_BYTES];

	snprintf(path, sizeof(path), "%s/%s", k->state, id);
	if (access(path, F_OK) < 0)
		return;
	run_and_wait(k, (char *const[]){ (char *)k->runtime, "--root", (char *)k->state, "delete",
					 "--force", (char *)id, NULL });
}

static void remove_all(const struct keeper *k, const char *id)
{
	int base = open(KEEPER_FOLDER, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char cgroup[PATH_BYTES];

	delete_container(k, id);
	snprintf(cgroup, sizeof(cgroup), BOX_CGROUP_PREFIX "%s", id);
	if (cgroup_remove(cgroup) != OK)
		perror("exeat: box's cgroup");
	if (umount2(k->bundle, MNT_DETACH) < 0 && errno != EINVAL && errno != ENOENT)
		perror("exeat: box's file system");
	/* A run that finds the folder later will try again. */
	if (base >= 0 && tree_remove(base, id) != OK)
		perror("exeat: " KEEPER_FOLDER);
	if (base >= 0)
		close(base);
}

void keeper_remove(const char *runtime, const char *id)
{
	struct keeper k = { .runtime = runtime };

	set_paths(&k, id);
	remove_all(&k, id);
}

/* ---- the heir ---- */

_Noreturn static void inherit(const struct keeper *k, int keeper)
{
	struct pollfd end = { .fd = keeper, .events = POLLIN };

	prctl(PR_SET_NAME, "exeat-heir");
	while (poll(&end, 1, -1) != 1)
		;
	if (access(k->folder, F_OK) == 0)
		remove_all(k, k->spec->id);
	_exit(0);
}

static enum err make_heir(struct keeper *k)
{
	int self = (int)syscall(SYS_pidfd_open, getpid(), 0);

	if (self < 0)
		return ERR_SYSTEM;
	k->heir = fork();
	if (k->heir == 0)
		inherit(k, self);
	close(self);
	return k->heir > 0 ? OK : ERR_SYSTEM;
}

/* The keeper has removed everything itself. */
static void dismiss_heir(const struct keeper *k)
{
	if (k->heir <= 0)
		return;
	(void)kill(k->heir, SIGKILL);
	while (waitpid(k->heir, NULL, 0) < 0 && errno == EINTR)
		;
}

/* ---- making ready ---- */

/* 0: this machine cannot limit it. */
static uint64_t memory_limit(const struct keeper *k)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

	if (!cgroup_has_controller("memory") || pages <= 0 || size <= 0)
		return 0;
	if (k->spec->memory)
		return k->spec->memory;
	return (uint64_t)pages * (uint64_t)size / 4 * MEMORY_SHARE_OF_4;
}

/* For the log. */
static void describe_limits(const struct keeper *k, char *text, size_t n)
{
	struct buf out;

	buf_init(&out, n - 1);
	if (memory_limit(k))
		buf_printf(&out, "memory %llu MiB, ", (unsigned long long)memory_limit(k) >> 20);
	if (cgroup_has_controller("cpu"))
		buf_printf(&out, "processor %d of 1024 shares, ", BOX_CPU_SHARES);
	if (cgroup_has_controller("pids"))
		buf_printf(&out, "processes %u, ", k->spec->processes);
	snprintf(text, n, "%.*s", STR_ARG(buf_str(&out)));
	buf_free(&out);
}

static enum err write_config(const struct keeper *k)
{
	char netns[64], root[PATH_BYTES + 32];
	struct bundle b = { .spec = k->spec, .root = root, .netns = netns,
			    .root_uid = k->numbers.root, .uid = k->numbers.uid,
			    .gid = k->numbers.gid,
			    .limit_processes = cgroup_has_controller("pids") ? k->spec->processes : 0,
			    .limit_cpu = cgroup_has_controller("cpu"),
			    .limit_memory = memory_limit(k) };
	struct buf out;
	int folder = open(k->bundle, O_PATH | O_DIRECTORY | O_CLOEXEC);
	enum err e;

	if (folder < 0)
		return ERR_SYSTEM;
	snprintf(netns, sizeof(netns), "/proc/%d/fd/%d", (int)getpid(), k->netns);
	snprintf(root, sizeof(root), "%s/root", k->bundle);
	buf_init(&out, BUNDLE_MAX);
	bundle_write(&b, &out);
	e = out.failed ? ERR_LIMIT : tree_file(folder, "config.json", buf_str(&out), 0600);
	buf_free(&out);
	close(folder);
	return e;
}

/* The bundle is seen by the keeper and the runtime alone; who runs a further command in the box
 * finds its environment here. */
static enum err write_environment(const struct keeper *k)
{
	int folder = open(k->state, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct buf out;
	enum err e;

	if (folder < 0)
		return ERR_SYSTEM;
	buf_init(&out, BUNDLE_MAX);
	bundle_write_environment(k->spec, &out);
	e = out.failed ? ERR_LIMIT : tree_file(folder, BOX_ENVIRONMENT, buf_str(&out), 0600);
	buf_free(&out);
	close(folder);
	return e;
}

static enum err make_ready(struct keeper *k, const char **what)
{
	enum err e;

	*what = "heir";
	if (make_heir(k) != OK)
		return ERR_SYSTEM;
	*what = "mount namespace";
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
		return ERR_SYSTEM;
	*what = k->folder;
	if (mkdir(k->bundle, 0711) < 0 || mkdir(k->state, 0700) < 0)
		return ERR_SYSTEM;
	*what = "cgroups";
	/* crun does not start where a v2 tree stands beside v1's. */
	if (strcmp(strrchr(k->runtime, '/'), "/crun") == 0 && cgroup_hide_second_tree() != OK)
		return ERR_SYSTEM;
	e = box_root_make(k->bundle, k->spec, &k->numbers, what);
	if (e != OK)
		return e;
	*what = "life line";
	if (pipe2(k->life, O_CLOEXEC) < 0)
		return ERR_SYSTEM;
	*what = "config.json";
	e = write_config(k);
	return e == OK ? write_environment(k) : e;
}

/* ---- running ---- */

/* A pipe belongs to who made it, and opening it once more (/dev/stdout) is its owner's right. */
static void give_pipes(const struct keeper *k)
{
	struct statfs fs;

	for (int fd = 0; fd < 3; fd++)
		if (fstatfs(fd, &fs) == 0 && fs.f_type == PIPEFS_MAGIC)
			(void)!fchown(fd, k->numbers.uid, k->numbers.gid);
}

/* With a terminal the runtime stays, between it and the box's own. Without one it goes, so that the
 * box has our very descriptors (it would copy through pipes otherwise: read ahead, and mix up the
 * order of output and errors). */
static void start_runtime(struct keeper *k)
{
	char pid_file[2 * PATH_BYTES];
	const char *arguments[14] = { k->runtime, "--root", k->state, "run", "--preserve-fds", "1",
				      "--bundle", k->bundle };
	size_t n = 8;

	if (k->running != 0)
		return;
	snprintf(pid_file, sizeof(pid_file), "%s/" BOX_FIRST_PROCESS, k->state);
	if (!k->spec->terminal) {
		arguments[n++] = "--detach";
		arguments[n++] = "--pid-file";
		arguments[n++] = pid_file;
	}
	arguments[n] = k->spec->id;
	give_pipes(k);
	k->running = run(k, (char *const *)arguments, false);
}

static pid_t box_pid(const struct keeper *k)
{
	char path[2 * PATH_BYTES];
	FILE *f;
	int pid = -1;

	snprintf(path, sizeof(path), "%s/" BOX_FIRST_PROCESS, k->state);
	f = fopen(path, "re");
	if (f && fscanf(f, "%d", &pid) != 1)
		pid = -1;
	if (f)
		fclose(f);
	return pid;
}

/* Does the box's init take @sig: has it blocked it, to read it from its signalfd? Until then the
 * kernel drops it: the first process of a namespace is sent nothing that would end it by default
 * (pid_namespaces(7)). */
static bool init_takes(pid_t init, int sig)
{
	char path[64], line[128], name[32] = "";
	unsigned long long blocked = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)init);
	f = fopen(path, "re");
	if (!f)
		return true;	/* gone: its end is on its way */
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "Name: %31s", name) != 1 && sscanf(line, "SigBlk: %llx", &blocked) == 1)
			break;
	fclose(f);
	if (sig == SIGKILL || sig == SIGSTOP)
		return true;
	/* The runtime that stood there before blocks signals, too, now and then. */
	return strcmp(name, strrchr(BOX_INIT, '/') + 1) == 0 && (blocked >> (sig - 1) & 1);
}

/* Runtime and init forward what they get to the command, all but what cannot be caught. A runtime
 * that is to leave forwards nothing: what comes meanwhile is held until the box runs. */
static void hand_on(struct keeper *k, int sig)
{
	if (k->running <= 0 || sig < 1 || sig > 64)
		return;
	if (!k->spec->terminal && (!k->in_box || !init_takes(k->running, sig)))
		k->held |= UINT64_C(1) << (sig - 1);
	else if (sig == SIGKILL && !k->in_box)
		delete_container(k, k->spec->id);
	else
		(void)kill(k->running, sig);
}

static void hand_on_held(struct keeper *k)
{
	uint64_t held = k->held;

	k->held = 0;
	for (int sig = 1; sig <= 64; sig++)
		if (held & UINT64_C(1) << (sig - 1))
			hand_on(k, sig);
}

static uint64_t milliseconds(const struct timeval *t)
{
	return (uint64_t)t->tv_sec * 1000 + (uint64_t)t->tv_usec / 1000;
}

/* As waitpid(). The first process of the box answers for those that it has waited for. The
 * runtime's own time is not the box's, but where it stays with it. */
static pid_t wait_for(struct keeper *k, int *status, int options)
{
	struct rusage used;
	pid_t pid = wait4(k->running, status, options, &used);

	if (pid > 0 && (k->in_box || k->spec->terminal))
		k->cpu_ms = milliseconds(&used.ru_utime) + milliseconds(&used.ru_stime);
	return pid;
}

/* The status of what runs once it has ended, else -1. A runtime that has started the box and left
 * is no end: the box's init is our child then. */
static int status_of_running(struct keeper *k)
{
	struct signalfd_siginfo info;
	int status;

	(void)!read(k->children, &info, sizeof(info));
	while (k->running > 0 && wait_for(k, &status, WNOHANG) == k->running) {
		bool was_in_box = k->in_box;
		bool started = !k->spec->terminal && !was_in_box && WIFEXITED(status) &&
			       WEXITSTATUS(status) == 0;

		k->running = started ? box_pid(k) : 0;
		k->in_box = started;
		hand_on_held(k);
		/* A runtime that fails before that says so by itself. */
		if (!started && !k->spec->terminal && !was_in_box && WIFEXITED(status))
			return STATUS_NOT_STARTED;
		if (!started)
			return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	}
	return -1;
}

/* False: the director is gone. */
static bool obey(struct keeper *k)
{
	struct keeper_message m;
	ssize_t n = recv(k->channel, &m, sizeof(m), 0);

	if (n < 0 && errno == EINTR)
		return true;
	if (n != sizeof(m))
		return false;
	if (m.kind == KEEPER_START)
		start_runtime(k);
	else if (m.kind == KEEPER_SIGNAL)
		hand_on(k, m.value);
	return true;
}

/* The cgroup has counted those, too, that were killed; but a runtime that stayed has removed it. */
static void count_cpu(struct keeper *k)
{
	char cgroup[PATH_BYTES];
	uint64_t ms;

	snprintf(cgroup, sizeof(cgroup), BOX_CGROUP_PREFIX "%s", k->spec->id);
	ms = cgroup_cpu_ms(cgroup);
	if (ms > k->cpu_ms)
		k->cpu_ms = ms;
}

/* Until the box or its director has ended. Returns the status, or -1 where that one is gone. */
static int keep(struct keeper *k)
{
	struct pollfd p[2] = { { .fd = k->channel, .events = POLLIN },
			       { .fd = k->children, .events = POLLIN } };

	for (;;) {
		int status;

		if (poll(p, 2, k->held && k->in_box ? HELD_RETRY_MS : -1) < 0 && errno != EINTR)
			return STATUS_NOT_STARTED;
		if (k->in_box)
			hand_on_held(k);
		if (p[1].revents) {
			status = status_of_running(k);
			if (status >= 0)
				return status;
		}
		if (p[0].revents && !obey(k))
			return -1;
		if (k->running < 0)
			return STATUS_NOT_STARTED;
	}
}

/* The runtime ends with its container, and puts the terminal back as it was; it gets the time for
 * that, and is killed after it. */
static void end_box(struct keeper *k)
{
	struct pollfd p = { .fd = k->children, .events = POLLIN };

	if (k->running <= 0)
		return;
	delete_container(k, k->spec->id);
	(void)status_of_running(k);
	if (k->running > 0 && poll(&p, 1, BOX_END_MS) == 1)
		(void)status_of_running(k);
	if (k->running <= 0)
		return;
	(void)kill(k->running, SIGKILL);
	while (wait_for(k, NULL, 0) < 0 && errno == EINTR)
		;
	k->running = 0;
}

/* Nothing of the parent's but the standard descriptors and @keep, which are moved out of the way: 3
 * is the box's life line. Each gets a higher number than the one before. */
static void close_others(int *keep, size_t n)
{
	unsigned from = 3;

	for (size_t i = 0; i < n; i++)
		keep[i] = fcntl(keep[i], F_DUPFD_CLOEXEC, i == 0 ? FIRST_KEPT_FD : keep[i - 1] + 1);
	for (size_t i = 0; i < n; i++) {
		if (keep[i] < 0)
			_exit(STATUS_NOT_STARTED);
		close_range(from, (unsigned)keep[i] - 1, 0);
		from = (unsigned)keep[i] + 1;
	}
	close_range(from, ~0u, 0);
}

static void set_signals(struct keeper *k)
{
	sigset_t children;

	for (size_t i = 0; i < sizeof(ignored) / sizeof(*ignored); i++)
		signal(ignored[i], SIG_IGN);
	sigemptyset(&children);
	sigaddset(&children, SIGCHLD);
	sigprocmask(SIG_SETMASK, &children, NULL);
	k->children = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (!k->spec->terminal)
		(void)setpgid(0, 0);
}

static int keeper_main(const struct keeper_job *job)
{
	int fds[3] = { job->channel, job->spec->netns, job->folder };
	struct keeper k = { .spec = job->spec, .runtime = job->runtime, .life = { -1, -1 } };
	const char *what = "";
	char text[KEEPER_TEXT_MAX];
	int status = -1;

	for (int fd = 0; fd < 3; fd++)
		if (job->spec->stdio[fd] != fd && dup2(job->spec->stdio[fd], fd) < 0)
			return STATUS_NOT_STARTED;
	close_others(fds, 3);
	k.channel = fds[0];
	k.netns = fds[1];	/* and fds[2] holds the lock */
	prctl(PR_SET_NAME, "exeat-keeper");
	set_signals(&k);
	set_paths(&k, job->spec->id);
	if (make_ready(&k, &what) != OK) {
		snprintf(text, sizeof(text), "%s: %s", what, strerror(errno));
		remove_all(&k, job->spec->id);
		dismiss_heir(&k);
		tell(&k, KEEPER_FAILED, 0, text);
		return 1;
	}
	describe_limits(&k, text, sizeof(text));
	tell(&k, KEEPER_READY, 0, text);
	status = keep(&k);
	count_cpu(&k);
	end_box(&k);
	remove_all(&k, job->spec->id);
	dismiss_heir(&k);
	tell(&k, KEEPER_ENDED, status, "");
	return 0;
}

enum err keeper_start(const struct keeper_job *job, pid_t *pid)
{
	*pid = fork();
	if (*pid == 0)
		_exit(keeper_main(job));
	return *pid > 0 ? OK : ERR_SYSTEM;
}
