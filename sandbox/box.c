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
#define VERSION_MAX 40
#define LOCK_NAME ".lock"	/* no box's folder: those begin otherwise */

struct box {
	int channel;
	bool ended;
	int status;
	uint64_t cpu_ms;
	char text[KEEPER_TEXT_MAX];
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

const char *box_runtime_path(void)
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
	const char *path = box_runtime_path();

	return path ? strrchr(path, '/') + 1 : NULL;
}

void box_state(const char *id, char out[BOX_STATE_MAX])
{
	snprintf(out, BOX_STATE_MAX, KEEPER_FOLDER "/%s/state", id);
}

/* ---- its version ---- */

static struct {
	pid_t pid;
	int answer;
	char text[BOX_ISOLATION_MAX];
} version = { .answer = -1 };

void box_ask_version(void)
{
	const char *runtime = box_runtime_path();
	int p[2];

	if (!runtime || version.pid > 0 || pipe2(p, O_CLOEXEC) < 0)
		return;
	version.pid = fork();
	if (version.pid == 0) {
		(void)dup2(p[1], STDOUT_FILENO);
		execl(runtime, runtime, "--version", (char *)NULL);
		_exit(127);
	}
	close(p[1]);
	version.answer = p[0];
}

/* The first line is "runc version 1.1.5". */
static const char *isolation_text(const char *runtime)
{
	char line[128] = "";
	const char *name = strrchr(runtime, '/') + 1, *number;
	ssize_t got;

	if (version.text[0])
		return version.text;
	box_ask_version();
	got = version.answer >= 0 ? read(version.answer, line, sizeof(line) - 1) : -1;
	if (version.answer >= 0)
		close(version.answer);
	if (version.pid > 0)
		(void)waitpid(version.pid, NULL, 0);
	line[got > 0 ? got : 0] = '\0';
	line[strcspn(line, "\n")] = '\0';
	number = strstr(line, "version ");
	if (number)
		snprintf(version.text, sizeof(version.text), "container/%s %.*s", name, VERSION_MAX,
			 number + strlen("version "));
	else
		snprintf(version.text, sizeof(version.text), "container/%s", name);
	return version.text;
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

static unsigned remove_dead(const char *runtime, int base)
{
	unsigned n = 0;
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
		n++;
	}
	if (d)
		closedir(d);
	return n;
}

/* All boxes' folder, locked: nobody takes a new one for a dead one meanwhile. */
struct base {
	int folder, lock;
};

static void close_base(const struct base *b)
{
	if (b->lock >= 0)
		close(b->lock);
	if (b->folder >= 0)
		close(b->folder);
}

/* The folder itself may be one that others can open, and what they can open they can lock. */
static bool open_base(struct base *b)
{
	*b = (struct base){ .folder = -1, .lock = -1 };
	(void)mkdir(KEEPER_FOLDER, 0711);
	b->folder = open(KEEPER_FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (b->folder >= 0)
		b->lock = openat(b->folder, LOCK_NAME,
				 O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (b->lock >= 0 && flock(b->lock, LOCK_EX) == 0)
		return true;
	(void)say(ERR_SYSTEM, KEEPER_FOLDER ": %s", strerror(errno));
	close_base(b);
	return false;
}

unsigned box_remove_dead(void)
{
	const char *runtime = box_runtime_path();
	struct base base;
	unsigned n;

	if (!runtime || !open_base(&base))
		return 0;
	n = remove_dead(runtime, base.folder);
	close_base(&base);
	return n;
}

static enum err make_folder(const char *runtime, const char *id, int *folder)
{
	enum err e = OK;
	struct base base;

	if (!open_base(&base))
		return ERR_SYSTEM;
	(void)remove_dead(runtime, base.folder);
	*folder = -1;
	if (mkdirat(base.folder, id, 0711) == 0)
		*folder = openat(base.folder, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*folder < 0 || flock(*folder, LOCK_EX | LOCK_NB) < 0)
		e = say(ERR_SYSTEM, KEEPER_FOLDER "/%s: %s", id, strerror(errno));
	close_base(&base);
	return e;
}

/* ---- a box ---- */

static bool good_id(const char *id)
{
	size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_");

	return n > 0 && n <= ID_MAX && id[n] == '\0';
}

static enum err check(const struct box_spec *spec, const char **runtime)
{
	*runtime = box_runtime_path();
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

static enum err start_keeper(struct keeper_job *job, int *channel)
{
	int ends[2];
	pid_t keeper;
	enum err e;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return say(ERR_SYSTEM, "keeper's channel: %s", strerror(errno));
	job->channel = ends[1];
	e = keeper_start(job, &keeper);
	close(ends[1]);
	if (e == OK)
		*channel = ends[0];
	else
		close(ends[0]);
	return e == OK ? OK : say(e, "keeper: %s", strerror(errno));
}

/* A keeper that was killed before it had an heir leaves its folder. */
static void remove_rest(const char *runtime, const char *id)
{
	char path[sizeof(KEEPER_FOLDER "/") + ID_MAX];

	snprintf(path, sizeof(path), KEEPER_FOLDER "/%s", id);
	if (access(path, F_OK) == 0)
		keeper_remove(runtime, id);
}

enum err box_make(const struct box_spec *spec, int *channel, char isolation[BOX_ISOLATION_MAX])
{
	struct keeper_job job = { .spec = spec, .folder = -1 };
	enum err e = check(spec, &job.runtime);

	if (e == OK)
		e = make_folder(job.runtime, spec->id, &job.folder);
	if (e == OK)
		e = start_keeper(&job, channel);
	if (e == OK)
		snprintf(isolation, BOX_ISOLATION_MAX, "%s", isolation_text(job.runtime));
	if (job.folder >= 0) {	/* its lock is ours: nobody else has this name */
		if (e != OK)
			remove_rest(job.runtime, spec->id);
		close(job.folder);
	}
	return e;
}

/* ---- who directs it ---- */

struct box *box_take(int channel)
{
	struct box *b = calloc(1, sizeof(*b));

	if (b)
		b->channel = channel;
	else
		close(channel);
	return b;
}

static enum err tell(struct box *b, enum keeper_kind kind, int value)
{
	struct keeper_message m = { .kind = (int)kind, .value = value };

	return send(b->channel, &m, sizeof(m), MSG_NOSIGNAL) == sizeof(m) ? OK : ERR_CLOSED;
}

enum err box_start(struct box *b)
{
	return tell(b, KEEPER_START, 0);
}

int box_fd(const struct box *b)
{
	return b->channel;
}

/* A keeper that goes without a word was killed, and the box with it. */
enum box_news box_hear(struct box *b)
{
	struct keeper_message m = { 0 };
	ssize_t n = b->ended ? -1 : recv(b->channel, &m, sizeof(m), MSG_DONTWAIT);

	if (b->ended || (n < 0 && (errno == EAGAIN || errno == EINTR)))
		return BOX_NOTHING;
	m.text[sizeof(m.text) - 1] = '\0';
	snprintf(b->text, sizeof(b->text), "%s", m.text);
	if (n == sizeof(m) && m.kind == KEEPER_READY)
		return BOX_READY;
	b->ended = true;
	/* It has none where it was ended by us, or where the keeper was. */
	b->status = n == sizeof(m) && m.kind == KEEPER_ENDED && m.value >= 0 ? m.value
									     : 128 + SIGKILL;
	b->cpu_ms = m.cpu_ms;
	return n == sizeof(m) && m.kind == KEEPER_FAILED ? BOX_FAILED : BOX_ENDED;
}

const char *box_text(const struct box *b)
{
	return b->text;
}

int box_status(const struct box *b)
{
	return b->status;
}

uint64_t box_cpu_ms(const struct box *b)
{
	return b->cpu_ms;
}

void box_signal(struct box *b, int sig)
{
	if (!b->ended)
		(void)!tell(b, KEEPER_SIGNAL, sig);
}

/* The end of what we say is what the keeper waits for. */
void box_end(struct box *b)
{
	shutdown(b->channel, SHUT_WR);
}

void box_free(struct box *b)
{
	if (!b)
		return;
	close(b->channel);
	free(b);
}
