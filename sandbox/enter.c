/* Theory of operation
 *
 * A go-between does what is to be done, in the order in which each step is still possible: cgroups
 * and the score for when memory runs out, whose files are the host's, then all namespaces at once
 * by the first process's pidfd (with the host's powers over each), then a child, since a process
 * namespace holds only who is born there. The child is the caller's, and gives up its user last but
 * the filter: from exec on it is one of the box's. The caller itself stays outside.
 *
 * Nothing in the box may reach into the child before that: it cannot be traced or looked into
 * (PR_SET_DUMPABLE), as our memory is the host's. Its descriptors are the three that are meant for
 * the command. A terminal among them is the operator's own; the profile refuses to put characters
 * into its input.
 */
#include "sandbox/enter.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/bundle.h"
#include "sandbox/cgroup.h"
#include "sandbox/spawn.h"

#define EXIT_NOT_EXECUTABLE 126
#define EXIT_NOT_FOUND 127
#define NAMESPACES \
	(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | \
	 CLONE_NEWCGROUP)

static pid_t child;

/* ---- is it the box's? ---- */

/* The number may be another's by now: only a process of the box's cgroup is meant. */
static bool in_cgroup(pid_t pid, const char *cgroup)
{
	char path[64], line[512];
	size_t n = strlen(cgroup);
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	f = fopen(path, "re");
	while (f && !found && fgets(line, sizeof(line), f)) {
		const char *last = strrchr(line, '/');

		found = last && strncmp(last + 1, cgroup, n) == 0 && last[1 + n] == '\n';
	}
	if (f)
		fclose(f);
	return found;
}

static enum err open_first(const struct enter_spec *spec, const char *cgroup, int *pidfd)
{
	*pidfd = (int)syscall(SYS_pidfd_open, spec->first, 0);
	if (*pidfd < 0)
		return ERR_SYSTEM;
	if (in_cgroup(spec->first, cgroup))
		return OK;
	close(*pidfd);
	errno = ESRCH;
	return ERR_SYSTEM;
}

/* ---- the child ---- */

static void give_up_capabilities(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct none[2] = { { 0 } };

	for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap) >= 0; cap++)
		if (prctl(PR_CAPBSET_DROP, cap) < 0)
			_exit(EXIT_NOT_EXECUTABLE);
	if (setgroups(0, NULL) < 0 || setresgid(BOX_GID, BOX_GID, BOX_GID) < 0 ||
	    setresuid(BOX_UID, BOX_UID, BOX_UID) < 0 || syscall(SYS_capset, &head, none) < 0)
		_exit(EXIT_NOT_EXECUTABLE);
}

static void as_if_just_born(void)
{
	sigset_t none;

	for (int sig = 1; sig < NSIG; sig++)
		(void)signal(sig, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	umask(022);
}

static _Noreturn void run(const struct enter_spec *spec)
{
	const struct rlimit no_core = { 0, 0 };
	int code;

	if (syscall(SYS_close_range, 3, ~0U, 0) < 0 || setrlimit(RLIMIT_CORE, &no_core) < 0)
		_exit(EXIT_NOT_EXECUTABLE);
	as_if_just_born();
	give_up_capabilities();
	/* Not before: the kernel forgets it when the user changes. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		_exit(EXIT_NOT_EXECUTABLE);
	if (chdir(BOX_WORKSPACE) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    seccomp_profile_load() != OK)
		_exit(EXIT_NOT_EXECUTABLE);
	environ = (char **)spec->environment;	/* where PATH is looked for, too */
	execvp(spec->command[0], spec->command);
	code = errno;
	fprintf(stderr, "exeat: %s: %s\n", spec->command[0], strerror(code));
	_exit(code == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE);
}

/* ---- the go-between ---- */

/* From the go-between to the caller, of which it is a fork: @what is the same text there. */
struct report {
	enum err e;
	int code;
	const char *what;
	pid_t child;
};

/* As what the runtime starts there: who fills the memory goes before those who watch over it. */
static enum err goes_first(void)
{
	FILE *f = fopen("/proc/self/oom_score_adj", "we");
	bool written = f && fprintf(f, "%d", BOX_OOM_SCORE) > 0;

	return f && fclose(f) == 0 && written ? OK : ERR_SYSTEM;
}

static enum err join(const struct enter_spec *spec, const char **what)
{
	char cgroup[128];
	enum err e;
	int pidfd;

	snprintf(cgroup, sizeof(cgroup), BOX_CGROUP_PREFIX "%s", spec->id);
	*what = "its first process";
	e = open_first(spec, cgroup, &pidfd);
	if (e)
		return e;
	*what = "its cgroups";
	e = cgroup_join(cgroup);
	if (e == OK) {
		*what = "its place where memory runs out";
		e = goes_first();
	}
	if (e == OK) {
		*what = "its namespaces";
		e = prctl(PR_SET_DUMPABLE, 0) == 0 && setns(pidfd, NAMESPACES) == 0
			? OK : ERR_SYSTEM;
	}
	close(pidfd);
	return e;
}

/* The child is the caller's, not this one's: nobody stays half inside. */
static _Noreturn void go_between(const struct enter_spec *spec, int to)
{
	struct report r = { .e = join(spec, &r.what) };

	if (r.e == OK) {
		r.what = "a process";
		r.child = spawn_fork_sibling();
		if (r.child == 0)
			run(spec);
		r.e = r.child > 0 ? OK : ERR_SYSTEM;
	}
	r.code = errno;
	_exit(write(to, &r, sizeof(r)) == sizeof(r) ? 0 : 1);
}

/* ---- the caller ---- */

static void pass_on(int sig)
{
	(void)kill(child, sig);
}

static void pass_signals_on(void)
{
	static const int passed[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT };
	const struct sigaction action = { .sa_handler = pass_on, .sa_flags = SA_RESTART };

	for (size_t i = 0; i < sizeof(passed) / sizeof(*passed); i++)
		(void)sigaction(passed[i], &action, NULL);
}

static int wait_for(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

enum err enter_box(const struct enter_spec *spec, int *status, const char **what)
{
	struct report r = { .e = ERR_SYSTEM, .what = "a process", .code = EPIPE };
	pid_t between;
	int p[2];

	*what = r.what;
	fflush(NULL);
	if (pipe2(p, O_CLOEXEC) < 0)
		return ERR_SYSTEM;
	between = fork();
	if (between == 0)
		go_between(spec, p[1]);
	close(p[1]);
	if (between > 0 && read(p[0], &r, sizeof(r)) != sizeof(r))
		r.e = ERR_SYSTEM;
	close(p[0]);
	if (between > 0)
		(void)wait_for(between);
	*what = r.what;
	errno = r.code;
	if (r.e)
		return r.e;
	child = r.child;
	pass_signals_on();
	*status = wait_for(child);
	return OK;
}
