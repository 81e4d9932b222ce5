#include "sandbox/box.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/keeper.h"

#define ID_MAX 40
#define READY_MS 20000
#define VERSION_MAX 48

struct box {
	int channel;
	pid_t keeper;
	bool ended;
	int status;
	uint64_t cpu_ms;
	char isolation[sizeof("container/") + VERSION_MAX];
	char limits[KEEPER_TEXT_MAX];
};

static char error_text[KEEPER_TEXT_MAX + 64];

const char *box_error(void)
{
	return error_text;
}

__attribute__((format(printf, 2, 3)))
static enum err say(enum err e, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(error_text, sizeof(error_text), fmt, ap);
	va_end(ap);
	return e;
}

/* ---- the runtime ---- */

static const char *runtime_path(void)
{
	static const char *const names[] = { "runc", "crun" };
	static const char *const folders[] = { "/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
					       "/usr/bin", "/sbin", "/bin" };
	static char path[64];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		for (size_t k = 0; k < sizeof(folders) / sizeof(*folders); k++) {
			snprintf(path, sizeof(path), "%s/%s", folders[k], names[i]);
			if (access(path, X_OK) == 0)
				return path;
		}
	return NULL;
}

const char *box_runtime(void)
{
	const char *path = runtime_path();

	return path ? strrchr(path, '/') + 1 : NULL;
}

/* The runtime is asked for its version while the keeper works: it takes as long as a start. */
struct question {
	pid_t pid;
	int answer;
};

static struct question ask_version(const char *runtime)
{
	struct question q = { .answer = -1 };
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return q;
	q.pid = fork();
	if (q.pid == 0) {
		(void)dup2(p[1], STDOUT_FILENO);
		execl(runtime, runtime, "--version", (char *)NULL);
		_exit(127);
	}
	close(p[1]);
	q.answer = p[0];
	return q;
}

/* The first line is "runc version 1.1.5". */
static void read_version(struct question q, const char *runtime, char *out, size_t n)
{
	char line[128] = "";
	const char *name = strrchr(runtime, '/') + 1, *version;
	ssize_t got = q.pid > 0 ? read(q.answer, line, sizeof(line) - 1) : -1;

	if (q.answer >= 0)
		close(q.answer);
	if (q.pid > 0)
		(void)waitpid(q.pid, NULL, 0);
	line[got > 0 ? got : 0] = '\0';
	line[strcspn(line, "\n")] = '\0';
	version = strstr(line, "version ");
	if (version)
		snprintf(out, n, "container/%s %.*s", name, VERSION_MAX - 8,
			 version + strlen("version "));
	else
		snprintf(out, n, "container/%s", name);
}

/* ---- the folder of all boxes ---- */

/* A box whose keeper lives holds the lock on its folder. */
static int lock_if_dead(int base, const char *name)
{
	int fd = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static void remove_dead(const char *runtime, int base)
{
	int copy = openat(base, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy >= 0 ? fdopendir(copy) : NULL;

	for (struct dirent *entry = d ? readdir(d) : NULL; entry; entry = readdir(d)) {
		int lock;

		if (entry->d_name[0] == '.')
			continue;
		lock = lock_if_dead(base, entry->d_name);
		if (lock < 0)
			continue;
		keeper_remove(runtime, entry->d_name);
		close(lock);
	}
	if (d)
		closedir(d);
}

/* The base's own lock is held meanwhile: nobody takes a new folder for a dead one. */
static enum err make_folder(const char *runtime, const char *id, int *folder)
{
	int base;

	(void)mkdir(KEEPER_FOLDER, 0711);
	base = open(KEEPER_FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (base < 0 || flock(base, LOCK_EX) < 0)
		return say(ERR_SYSTEM, KEEPER_FOLDER ": %s", strerror(errno));
	remove_dead(runtime, base);
	*folder = -1;
	if (mkdirat(base, id, 0711) == 0)
		*folder = openat(base, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*folder < 0 || flock(*folder, LOCK_EX | LOCK_NB) < 0) {
		(void)say(ERR_SYSTEM, KEEPER_FOLDER "/%s: %s", id, strerror(errno));
		close(base);
		return ERR_SYSTEM;
	}
	close(base);
	return OK;
}

/* ---- a box ---- */

static bool good_id(const char *id)
{
	size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_");

	return n > 0 && n <= ID_MAX && id[n] == '\0';
}

static enum err check(const struct box_spec *spec, const char **runtime)
{
	*runtime = runtime_path();
	if (geteuid() != 0)
		return say(ERR_DENIED, "a box needs root, for network and mount namespaces: "
			   "run it with sudo");
	if (!*runtime)
		return say(ERR_NOTFOUND, "no container runtime is installed (apt-get install runc)");
	if (access(spec->init, X_OK) < 0)
		return say(ERR_NOTFOUND, "%s: %s (is Exeat installed completely?)", spec->init,
			   strerror(errno));
	if (!good_id(spec->id) || !spec->command[0])
		return say(ERR_SYNTAX, "a box needs a name of letters, digits, - and _, and a command");
	return OK;
}

/* What the keeper says next; false where it is gone or says nothing for too long. */
static bool hear(struct box *b, struct keeper_message *m, int timeout_ms)
{
	struct pollfd p = { .fd = b->channel, .events = POLLIN };
	int ready;

	do
		ready = poll(&p, 1, timeout_ms);
	while (ready < 0 && errno == EINTR);
	return ready == 1 && recv(b->channel, m, sizeof(*m), 0) == sizeof(*m);
}

static enum err await_ready(struct box *b)
{
	struct keeper_message m = { 0 };

	if (!hear(b, &m, READY_MS))
		return say(ERR_CLOSED, "the box's keeper does not answer");
	m.text[sizeof(m.text) - 1] = '\0';
	if (m.kind != KEEPER_READY)
		return say(ERR_SYSTEM, "%s", m.text);
	snprintf(b->limits, sizeof(b->limits), "%s", m.text);
	return OK;
}

static enum err start_keeper(struct box *b, struct keeper_job *job)
{
	int ends[2];
	enum err e;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return say(ERR_SYSTEM, "keeper's channel: %s", strerror(errno));
	b->channel = ends[0];
	job->channel = ends[1];
	e = keeper_start(job, &b->keeper);
	close(ends[1]);
	return e == OK ? await_ready(b) : say(e, "keeper: %s", strerror(errno));
}

/* A keeper that was killed before it had an heir leaves its folder. */
static void remove_rest(const char *runtime, const char *id)
{
	char path[sizeof(KEEPER_FOLDER "/") + ID_MAX];

	snprintf(path, sizeof(path), KEEPER_FOLDER "/%s", id);
	if (access(path, F_OK) == 0)
		keeper_remove(runtime, id);
}

enum err box_prepare(const struct box_spec *spec, struct box **out)
{
	struct keeper_job job = { .spec = spec, .folder = -1 };
	struct question version;
	struct box *b;
	enum err e = check(spec, &job.runtime);

	if (e != OK)
		return e;
	b = calloc(1, sizeof(*b));
	if (!b)
		return say(ERR_NOMEM, "out of memory");
	b->channel = -1;
	version = ask_version(job.runtime);
	e = make_folder(job.runtime, spec->id, &job.folder);
	if (e == OK)
		e = start_keeper(b, &job);
	read_version(version, job.runtime, b->isolation, sizeof(b->isolation));
	if (e == OK)
		*out = b;
	else
		box_free(b);
	if (job.folder >= 0) {	/* its lock is ours: nobody else has this name */
		if (e != OK)
			remove_rest(job.runtime, spec->id);
		close(job.folder);
	}
	return e;
}

static enum err tell(struct box *b, enum keeper_kind kind, int value)
{
	struct keeper_message m = { .kind = (int)kind, .value = value };

	return send(b->channel, &m, sizeof(m), MSG_NOSIGNAL) == sizeof(m) ? OK : ERR_CLOSED;
}

enum err box_start(struct box *b)
{
	return tell(b, KEEPER_START, 0) == OK ? OK : say(ERR_CLOSED, "the box's keeper is gone");
}

int box_fd(const struct box *b)
{
	return b->channel;
}

/* A keeper that goes without a word was killed, and the box with it. */
enum err box_ended(struct box *b, int *status)
{
	struct keeper_message m = { 0 };
	ssize_t n;

	if (!b->ended) {
		n = recv(b->channel, &m, sizeof(m), MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return ERR_AGAIN;
		b->ended = true;
		b->status = n == sizeof(m) && m.kind == KEEPER_ENDED ? m.value : 128 + SIGKILL;
		b->cpu_ms = m.cpu_ms;
	}
	*status = b->status;
	return OK;
}

void box_signal(struct box *b, int sig)
{
	if (!b->ended)
		(void)!tell(b, KEEPER_SIGNAL, sig);
}

const char *box_isolation(const struct box *b)
{
	return b->isolation;
}

const char *box_limits(const struct box *b)
{
	return b->limits;
}

uint64_t box_cpu_ms(const struct box *b)
{
	return b->cpu_ms;
}

void box_free(struct box *b)
{
	if (!b)
		return;
	/* The end of the channel is what the keeper waits for. */
	if (b->channel >= 0)
		close(b->channel);
	while (b->keeper > 0 && waitpid(b->keeper, NULL, 0) < 0 && errno == EINTR)
		;
	free(b);
}
