/* Theory of operation
 *
 * fork, then in the child: die with the parent, become a process group of its own (so that a
 * terminal's Ctrl-C goes to the box's command, not to the roles), signals as they are at birth, the
 * channel as descriptor 3, everything above closed, exec with an environment that says nothing but
 * how memory is kept.
 *
 * A pipe that exec closes tells how it went: end of file is success, an int is the child's errno.
 */
#include "sandbox/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/channel.h"

#define REPORT_FD (ROLE_CHANNEL_FD + 1)

/* The C library keeps that many freed pieces of a size at hand (mallopt(3) cannot say it). With its
 * own 7, a TLS handshake, which takes and frees hundreds of small pieces, is a twelfth slower. */
static char allocator[] = "GLIBC_TUNABLES=glibc.malloc.tcache_count=32";

static bool has_programs(const char *dir)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s/exeat-worker", dir);

	return n > 0 && (size_t)n < sizeof(path) && access(path, X_OK) == 0;
}

enum err spawn_find_programs(char *dir, size_t n)
{
	static const char *const places[] = { "", "/../libexec/exeat" };
	char self[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (len < 0)
		return ERR_SYSTEM;
	self[len] = '\0';
	slash = strrchr(self, '/');
	if (!slash)
		return ERR_NOTFOUND;
	*slash = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		int out = snprintf(dir, n, "%s%s", self, places[i]);

		if (out < 0 || (size_t)out >= n)
			return ERR_LIMIT;
		if (has_programs(dir))
			return OK;
	}
	return ERR_NOTFOUND;
}

static void signals_as_at_birth(void)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };
	sigset_t none;

	for (int sig = 1; sig < NSIG; sig++)
		if (sig != SIGKILL && sig != SIGSTOP)
			sigaction(sig, &dfl, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Descriptors 0 and 1 lead nowhere, 2 is ours, 3 is the channel, 4 reports until exec closes it. */
static bool arrange_descriptors(int channel, int report)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int high_channel = fcntl(channel, F_DUPFD_CLOEXEC, REPORT_FD + 1);
	int high_report = fcntl(report, F_DUPFD_CLOEXEC, REPORT_FD + 1);
	int high_null = fcntl(null, F_DUPFD_CLOEXEC, REPORT_FD + 1);

	return high_channel >= 0 && high_report >= 0 && high_null >= 0 &&
	       dup2(high_null, 0) == 0 && dup2(high_null, 1) == 1 &&
	       dup2(high_channel, ROLE_CHANNEL_FD) == ROLE_CHANNEL_FD &&
	       dup3(high_report, REPORT_FD, O_CLOEXEC) == REPORT_FD &&
	       close_range(REPORT_FD + 1, UINT_MAX, 0) == 0;
}

static _Noreturn void child(const char *path, char *name, int channel, int report, pid_t parent)
{
	char *argv[] = { name, NULL };
	char *environment[] = { allocator, NULL };
	int code;

	/* A parent gone before the death signal was asked for has left us to somebody else. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent && setpgid(0, 0) == 0) {
		signals_as_at_birth();
		if (arrange_descriptors(channel, report)) {
			report = REPORT_FD;
			execve(path, argv, environment);
		}
	}
	code = errno;
	if (write(report, &code, sizeof(code)) < 0)
		_exit(126);
	_exit(127);
}

/* What the child says: 0 after a successful exec, else its errno. */
static int await_exec(int report)
{
	int code = 0;
	ssize_t n;

	do {
		n = read(report, &code, sizeof(code));
	} while (n < 0 && errno == EINTR);
	if (n == 0)
		return 0;
	return n == sizeof(code) && code ? code : EPROTO;
}

/* The C library has no function for CLONE_PARENT. */
pid_t spawn_fork_sibling(void)
{
	return (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, 0);
}

/* Whose program a role runs, where it is not its own. */
static const enum role program_of[ROLE_COUNT] = { [ROLE_NURSERY] = ROLE_WORKER };

enum err spawn_role(const char *dir, enum role role, enum spawn_as as, int *channel_fd, pid_t *pid)
{
	char path[PATH_MAX], name[32];
	enum role program = program_of[role] ? program_of[role] : role;
	int n = snprintf(path, sizeof(path), "%s/exeat-%s", dir, role_name(program));
	int channel[2] = { -1, -1 }, report[2] = { -1, -1 };
	pid_t parent = as == SPAWN_SIBLING ? getppid() : getpid(), born = -1;
	enum err e = ERR_SYSTEM;
	int code = 0;

	*pid = 0;
	if (n < 0 || (size_t)n >= sizeof(path))
		return ERR_LIMIT;
	snprintf(name, sizeof(name), "exeat-%s", role_name(role));
	if (channel_pair(channel) != OK || pipe2(report, O_CLOEXEC) < 0)
		goto out;
	born = as == SPAWN_SIBLING ? spawn_fork_sibling() : fork();
	if (born < 0)
		goto out;
	if (born == 0)
		child(path, name, channel[1], report[1], parent);
	close(report[1]);
	report[1] = -1;
	*pid = born;
	code = await_exec(report[0]);
	if (code) {
		if (as == SPAWN_CHILD)
			waitpid(born, NULL, 0);
		errno = code;
		goto out;
	}
	*channel_fd = channel[0];
	channel[0] = -1;
	e = OK;
out:
	code = errno;
	for (int i = 0; i < 2; i++) {
		if (channel[i] >= 0)
			close(channel[i]);
		if (report[i] >= 0)
			close(report[i]);
	}
	errno = code;
	return e;
}
