/* Theory of operation
 *
 * The first process of a box: static, since the libraries there may be anyone's. It runs the
 * command as its one child (its arguments are in a file, each with its NUL: so every byte of them
 * arrives), hands on the signals it gets, collects whoever dies in the box, and ends as the child
 * ended: its exit status, or 128 and the number of the signal. When it ends, the kernel ends
 * everything else in the box.
 *
 * Descriptor 3 is a pipe that nobody writes to. Its end means that the keeper outside is gone, by
 * whatever way: the box ends with it.
 *
 * With a terminal the child is made its foreground process group, so that Ctrl-C is the child's and
 * not init's. There is no shell above the child that could wake it once stopped: a stop is undone
 * at once.
 *
 * A signal that a terminal would give to the whole foreground group goes to the child's group;
 * others to the child alone. The child runs as the same user: init is made not dumpable, so that it
 * cannot be traced.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/bundle.h"

#define STATUS_NOT_FOUND 127
#define STATUS_NOT_RUNNABLE 126
#define STATUS_BROKEN 125
#define STATUS_KILLED (128 + SIGKILL)

static int broken(const char *what)
{
	fprintf(stderr, "exeat-init: %s: %s\n", what, strerror(errno));
	return STATUS_BROKEN;
}

/* Fails where there is no terminal, which is no failure. */
static void take_terminal(void)
{
	signal(SIGTTOU, SIG_IGN);
	if (isatty(STDIN_FILENO))
		(void)tcsetpgrp(STDIN_FILENO, getpgrp());
	signal(SIGTTOU, SIG_DFL);
}

static void become(char **command, const sigset_t *mask)
{
	(void)setpgid(0, 0);
	take_terminal();
	sigprocmask(SIG_SETMASK, mask, NULL);
	execvp(command[0], command);
	fprintf(stderr, "exeat: %s: %s\n", command[0], strerror(errno));
	_exit(errno == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_RUNNABLE);
}

static void hand_on(pid_t child, int sig)
{
	switch (sig) {
	case SIGINT:
	case SIGQUIT:
	case SIGHUP:
	case SIGWINCH:
		(void)kill(-child, sig);
		break;
	case SIGTSTP:
	case SIGTTIN:
	case SIGTTOU:
	case SIGCHLD:
		break;
	default:
		(void)kill(child, sig);
	}
}

/* Collects all that can be collected. -1: the child is among the living. */
static int collect(pid_t child)
{
	int result = -1, status;

	for (;;) {
		pid_t pid = waitpid(-1, &status, WNOHANG | WUNTRACED);

		if (pid <= 0)
			return result;
		if (pid != child)
			continue;
		if (WIFSTOPPED(status))
			(void)kill(-child, SIGCONT);
		else if (WIFSIGNALED(status))
			result = 128 + WTERMSIG(status);
		else
			result = WEXITSTATUS(status);
	}
}

static int watch(pid_t child, int signals)
{
	struct pollfd p[2] = { { .fd = signals, .events = POLLIN }, { .fd = BOX_LIFE_FD } };

	for (;;) {
		struct signalfd_siginfo info;
		int status;

		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return broken("poll");
		if (p[1].revents & (POLLHUP | POLLERR | POLLNVAL))
			return STATUS_KILLED;
		if (!(p[0].revents & POLLIN) || read(signals, &info, sizeof(info)) != sizeof(info))
			continue;
		hand_on(child, (int)info.ssi_signo);
		status = collect(child);
		if (status >= 0)
			return status;
	}
}

/* The file stays mapped: it holds what the result points to. NULL with errno. */
static char **read_command(void)
{
	int fd = open(BOX_COMMAND, O_RDONLY | O_CLOEXEC);
	size_t size, n = 0, i = 0;
	char **command, *text;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return NULL;
	size = (size_t)st.st_size;
	text = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (text == MAP_FAILED)
		return NULL;
	close(fd);
	for (size_t at = 0; at < size; at++)
		n += text[at] == '\0';
	command = calloc(n + 1, sizeof(*command));
	for (size_t at = 0; command && i < n; at += strlen(text + at) + 1)
		command[i++] = text + at;
	return command;
}

int main(void)
{
	sigset_t all, before;
	char **command;
	int signals;
	pid_t child;

	prctl(PR_SET_DUMPABLE, 0);
	fcntl(BOX_LIFE_FD, F_SETFD, FD_CLOEXEC);
	sigfillset(&all);
	/* Our own faults are not the child's. */
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGILL);
	sigdelset(&all, SIGFPE);
	sigdelset(&all, SIGABRT);
	sigprocmask(SIG_BLOCK, &all, &before);
	signals = signalfd(-1, &all, SFD_CLOEXEC);
	if (signals < 0)
		return broken("signalfd");
	command = read_command();
	if (!command)
		return broken(BOX_COMMAND);
	child = fork();
	if (child < 0)
		return broken("fork");
	if (child == 0)
		become(command, &before);
	/* Both do it: a signal for the group may come before the child has had its turn. */
	(void)setpgid(child, child);
	return watch(child, signals);
}
