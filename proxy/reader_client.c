#include "proxy/reader_client.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conf/arena.h"
#include "policy/load.h"
#include "policy/policy.h"
#include "proxy/messages.h"
#include "sandbox/channel.h"
#include "sandbox/spawn.h"

#define EXIT_WAIT_MS 2000

struct work {
	const char *file, *programs;
	struct event_base *base;
	struct channel *channel;
	int channel_fd;
	pid_t pid;
	struct msg_read_done done;
	struct buf *diagnostics;	/* or NULL */
	bool answered, timed_out, quiet;
};

static bool fail(const char *file, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static bool fail(const char *file, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "exeat: %s: ", file);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return false;
}

/* ---- the file ---- */

static int open_file(const char *file, struct buf *why)
{
	/* Not blocking: a named pipe in place of the file would hold us up here. */
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		buf_printf(why, "the policy %s: %s", file, strerror(errno));
	else if (S_ISDIR(st.st_mode))
		buf_printf(why, "%s: is a folder, not a policy", file);
	else if (!S_ISREG(st.st_mode))
		buf_printf(why, "%s: is no regular file", file);
	else if (st.st_size > POLICY_FILE_MAX)
		buf_printf(why, "%s: larger than %u MiB", file, POLICY_FILE_MAX >> 20);
	else
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* It may grow meanwhile. False: errno. */
static bool copy(int from, int to)
{
	size_t left = POLICY_FILE_MAX + 1;
	ssize_t n = 1;

	while (left && n) {
		n = sendfile(to, from, NULL, left);
		if (n < 0 && errno != EINTR)
			return false;
		left -= n > 0 ? (size_t)n : 0;
	}
	errno = EFBIG;
	return left != 0;
}

int reader_source(const char *file, struct buf *why)
{
	int fd = open_file(file, why), memfd = -1;

	if (fd < 0)
		return -1;
	memfd = memfd_create("source", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (memfd < 0 || !copy(fd, memfd) || fcntl(memfd, F_ADD_SEALS, POLICY_SEALS) < 0) {
		buf_printf(why, "the policy %s: cannot be read: %s", file, strerror(errno));
		if (memfd >= 0)
			close(memfd);
		memfd = -1;
	}
	close(fd);
	return memfd;
}

int reader_source_told(const char *file)
{
	struct buf why;
	int fd;

	buf_init(&why, 2 * PATH_MAX);
	fd = reader_source(file, &why);
	if (fd < 0)
		fprintf(stderr, "exeat: %.*s\n", STR_ARG(buf_str(&why)));
	buf_free(&why);
	return fd;
}

/* ---- the question ---- */

static struct str join_hosts(struct arena *a, const struct settings_secret *s)
{
	size_t n = 0, at = 0;
	char *text;

	for (size_t i = 0; i < s->n_hosts; i++)
		n += s->hosts[i].n + 1;
	text = arena_take(a, n + 1, 1);
	for (size_t i = 0; text && i < s->n_hosts; i++) {
		memcpy(text + at, s->hosts[i].p, s->hosts[i].n);
		at += s->hosts[i].n;
		text[at++] = ' ';
	}
	return str_n(text, at ? at - 1 : 0);
}

enum err reader_ask(struct channel *c, const char *file, const struct settings *settings,
		    bool quiet, const int fds[2])
{
	size_t n = settings ? settings->n_secrets : 0;
	struct arena arena = { 0 };
	struct str *names = arena_take(&arena, n, sizeof(*names));
	struct str *hosts = arena_take(&arena, n, sizeof(*hosts));
	struct msg_read m = { .file = str_of(file), .secrets_known = settings != NULL,
			      .quiet = quiet };
	enum err e = ERR_NOMEM;

	for (size_t i = 0; names && hosts && i < n; i++) {
		names[i] = settings->secrets[i].name;
		hosts[i] = join_hosts(&arena, &settings->secrets[i]);
	}
	m.secrets = (struct str_list){ names, n };
	m.secret_hosts = (struct str_list){ hosts, n };
	if (!arena.failed)
		e = channel_send(c, MSG_READ, &m, fds, 2);
	arena_free(&arena);
	return e;
}

/* ---- the answer ---- */

static void on_message(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	struct work *w = arg;

	channel_close_fds(fds, n_fds);
	if (type != MSG_READ_DONE)
		return;
	w->done = *(const struct msg_read_done *)msg;
	if (w->diagnostics)
		buf_put_str(w->diagnostics, w->done.diagnostics);
	w->done.diagnostics = STR_NONE;	/* the message's own */
	w->answered = true;
	event_base_loopbreak(w->base);
}

static void on_closed(void *arg, const char *why)
{
	struct work *w = arg;

	(void)why;
	event_base_loopbreak(w->base);
}

static void on_timeout(evutil_socket_t fd, short what, void *arg)
{
	struct work *w = arg;

	(void)fd;
	(void)what;
	w->timed_out = true;
	event_base_loopbreak(w->base);
}

static bool run_loop(struct work *w, const struct settings *settings, const int fds[2])
{
	struct channel_peer peer = { .self = ROLE_SUPERVISOR, .other = ROLE_READER,
				     .table = exeat_messages, .on_message = on_message,
				     .on_closed = on_closed, .arg = w };
	struct timeval limit = { .tv_sec = READER_WAIT_S };
	bool ran = false;

	w->base = event_base_new();
	w->channel = w->base ? channel_new(w->base, w->channel_fd, &peer) : NULL;
	if (!w->channel) {
		close(w->channel_fd);
		goto out;
	}
	if (reader_ask(w->channel, w->file, settings, w->quiet, fds) != OK ||
	    event_base_once(w->base, -1, EV_TIMEOUT, on_timeout, w, &limit) < 0)
		goto out;
	event_base_dispatch(w->base);
	ran = true;
out:
	channel_free(w->channel);
	if (w->base)
		event_base_free(w->base);
	return ran;
}

/* It ends by itself now that its channel is closed, or is ended. True: it did, with status 0. */
static bool reap(struct work *w)
{
	int fd = pidfd_open(w->pid, 0), status = 0;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	bool ended = !w->timed_out && fd >= 0 && poll(&p, 1, EXIT_WAIT_MS) == 1;

	if (!ended)
		kill(w->pid, SIGKILL);
	if (fd >= 0)
		close(fd);
	while (waitpid(w->pid, &status, 0) < 0)
		if (errno != EINTR)
			return false;
	return ended && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool reader_sealed(int memfd)
{
	int seals = fcntl(memfd, F_GET_SEALS);

	return seals >= 0 && (seals & POLICY_SEALS) == POLICY_SEALS;
}

static bool judge(const struct work *w, bool ran, bool clean, int memfd)
{
	if (w->timed_out)
		return fail(w->file, "the reader was not done after %d seconds", READER_WAIT_S);
	if (!ran || !w->answered || !clean)
		return fail(w->file, "the reader ended before it was done");
	if (!w->done.ok)
		return fail(w->file, "does not load: %u error%s", w->done.errors,
			    w->done.errors == 1 ? "" : "s");
	if (!reader_sealed(memfd))
		return fail(w->file, "the reader left an image that can still be changed");
	return true;
}

static bool start_reader(struct work *w)
{
	char found[PATH_MAX];
	enum err e = w->programs ? OK : spawn_find_programs(found, sizeof(found));

	if (e == OK)
		e = spawn_role(w->programs ? w->programs : found, ROLE_READER, SPAWN_CHILD,
			       &w->channel_fd, &w->pid);
	if (e == OK)
		return true;
	if (e == ERR_NOTFOUND)
		return fail(w->file, "cannot be read without exeat's other programs, which are neither beside it "
			    "nor in ../libexec/exeat of it: make install puts all in place");
	return fail(w->file, "cannot be read: exeat-reader cannot be started: %s",
		    e == ERR_SYSTEM ? strerror(errno) : err_text(e));
}

bool reader_compile(const struct reader_job *job, int *memfd_out, unsigned *warnings,
		    struct buf *diagnostics)
{
	struct work w = { .file = job->file, .programs = job->programs, .quiet = !warnings,
			  .diagnostics = diagnostics };
	int fds[2] = { job->source, memfd_create("policy", MFD_CLOEXEC | MFD_ALLOW_SEALING) };
	bool good = false, ran, clean;

	if (fds[1] < 0 || lseek(job->source, 0, SEEK_SET) < 0)
		(void)fail(job->file, "no memory for its image: %s", strerror(errno));
	else if (start_reader(&w)) {
		ran = run_loop(&w, job->settings, fds);
		clean = reap(&w);
		good = judge(&w, ran, clean, fds[1]);
	}
	if (good) {
		*memfd_out = fds[1];
		if (warnings)
			*warnings = w.done.warnings;
	} else if (fds[1] >= 0) {
		close(fds[1]);
	}
	return good;
}
