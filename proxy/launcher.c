/* Theory of operation
 *
 * Orders are carried out one after the other, each with one answer that repeats its number. What
 * lies on a disk that may not answer, an asker looks at (asker.h), and its order waits: a policy's
 * file, a namespace by its path, a box's folders. So does a policy's source until a reader has made
 * of it what it is to be kept as. Roles
 * are started as the supervisor's children, not the launcher's: they die with it and it waits for
 * them. So is a second launcher, which takes over when the first has died. Keepers are the
 * launcher's own children: all that the supervisor needs of one is its channel.
 *
 * What may be asked for is little: a role by its number, a wire by its index, a box by its
 * description. The supervisor cannot name a program of the host's. It does name what an operator
 * has named to it: a box's root, workspace and output, a namespace to attach to. What the system or
 * Exeat depends on is refused here (run_folders.h), whatever was ordered; beyond that an operator's
 * word and that of a supervisor which was taken over cannot be told apart.
 */
#include "proxy/launcher.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "policy/policy.h"
#include "proxy/asker.h"
#include "proxy/log_rotate.h"
#include "proxy/messages.h"
#include "proxy/policy_store.h"
#include "proxy/reader_client.h"
#include "proxy/run_folders.h"
#include "sandbox/box.h"
#include "sandbox/channel.h"
#include "sandbox/spawn.h"

#define BOX_TEXTS_MAX (4u << 20)	/* arguments and environment together */
#define KEPT_MAX 8
#define BOXED_TEXT_MAX 1024u	/* of msg_boxed.text */
#define KEEP_PATIENCE_MS ((READER_WAIT_S + 10) * 1000)

struct launcher {
	const struct launcher_job *job;
	struct event_base *base;
	struct channel *channel;
	int children;
	struct askers *askers;
};

static void answer(struct launcher *l, uint16_t type, const void *msg, const int *fds, size_t n)
{
	if (channel_send(l->channel, type, msg, fds, n) != OK)
		event_base_loopbreak(l->base);	/* the supervisor is gone */
}

/* ---- roles ---- */

static _Noreturn void run(const struct launcher_job *job, int fd, pid_t parent);

static enum err start_launcher(const struct launcher_job *job, bool sibling, int *fd, pid_t *pid)
{
	pid_t parent = sibling ? getppid() : getpid();
	int ends[2];

	if (channel_pair(ends) != OK)
		return ERR_SYSTEM;
	*pid = sibling ? spawn_fork_sibling() : fork();
	if (*pid == 0) {
		close(ends[0]);		/* with it, the channel's end would not be heard of */
		run(job, ends[1], parent);
	}
	close(ends[1]);
	if (*pid > 0)
		*fd = ends[0];
	else
		close(ends[0]);
	return *pid > 0 ? OK : ERR_SYSTEM;
}

static void launch(struct launcher *l, const struct msg_launch *m)
{
	struct msg_launched done = { .id = m->id };
	pid_t pid = 0;
	int fd = -1;
	enum err e = ERR_DENIED;

	errno = EINVAL;
	if (m->role == ROLE_LAUNCHER)
		e = start_launcher(l->job, true, &fd, &pid);
	else if (m->role != ROLE_SUPERVISOR && m->role != ROLE_WORKER && m->role < ROLE_COUNT)
		e = spawn_role(l->job->programs, (enum role)m->role, SPAWN_SIBLING, &fd, &pid);
	done.code = e == OK ? 0 : e == ERR_LIMIT ? ENAMETOOLONG : (uint32_t)errno;
	done.pid = pid > 0 ? (uint32_t)pid : 0;
	answer(l, MSG_LAUNCHED, &done, &fd, e == OK);
	if (fd >= 0)
		close(fd);
}

/* ---- wires ---- */

static void refuse_wire(struct launcher *l, uint32_t id, const char *what, int code)
{
	const struct msg_wired done = { .id = id, .code = code ? (uint32_t)code : EIO,
					.what = str_of(what) };

	answer(l, MSG_WIRED, &done, NULL, 0);
}

static void make_wire(struct launcher *l, uint32_t id, uint32_t index, int netns)
{
	struct msg_wired done = { .id = id };
	struct wire_error why = { "out of memory", ENOMEM };
	struct wire_box b;

	if (wire_box_open(l->job->gateway, index, &l->job->settings->link_pool, netns, &b,
			  &why) != OK) {
		refuse_wire(l, id, why.what, why.code);
		return;
	}
	done.link = str_of(b.ifname);
	done.ifindex = b.ifindex;
	done.gateway = b.gateway;
	done.box = b.address;
	answer(l, MSG_WIRED, &done,
	       (int[FD_WIRED_N]){ [FD_WIRED_NETNS] = b.netns, [FD_WIRED_TPROXY] = b.tproxy,
				  [FD_WIRED_DNS_UDP] = b.dns_udp, [FD_WIRED_DNS_TCP] = b.dns_tcp,
				  [FD_WIRED_NFLOG] = b.nflog }, FD_WIRED_N);
	wire_box_release(&b);
}

/* ---- what lies on somebody's disk ---- */

/* An order that waits for one file. */
struct file_order {
	struct launcher *l;
	uint32_t id, index;		/* @index: of a wire */
	char file[MSG_PATH_MAX + 1];
	char digest[POLICY_DIGEST_HEX + 1];	/* to be kept as */
};

/* 0, or an errno. Takes @o over where it is 0. */
static int ask_file(struct file_order *o, const struct asker_job *how)
{
	const char *const paths[] = { o->file, NULL };
	struct asker_job job = *how;

	job.arg = o;
	job.paths = paths;
	return asker_ask(o->l->askers, &job);
}

static struct file_order *file_order_new(struct launcher *l, uint32_t id, struct str file)
{
	struct file_order *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->l = l;
	o->id = id;
	snprintf(o->file, sizeof(o->file), "%.*s", STR_ARG(file));
	return o;
}

/* The supervisor may not look into other processes' folders, where most of these are. */
static void open_netns(void *arg, int fd, struct asked *out)
{
	const struct file_order *o = arg;

	(void)fd;
	out->fd = open(o->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	out->code = out->fd < 0 ? errno : 0;
}

static void netns_opened(void *arg, struct asked *asked)
{
	struct file_order *o = arg;

	if (asked->code)
		refuse_wire(o->l, o->id, WIRE_GIVEN, asked->code);
	else
		make_wire(o->l, o->id, o->index, asked->fd);
	channel_close_fds(&asked->fd, 1);
	free(o);
}

static void wire(struct launcher *l, const struct msg_wire *m, int netns)
{
	static const struct asker_job job = { .ask = open_netns, .done = netns_opened, .fd = -1,
					      .patience_ms = DISK_PATIENCE_MS };
	struct file_order *o;
	int code = ENOMEM;

	if (!m->netns.n) {
		make_wire(l, m->id, m->index, netns);
		return;
	}
	o = file_order_new(l, m->id, m->netns);
	if (o) {
		o->index = m->index;
		code = ask_file(o, &job);
	}
	if (code) {
		refuse_wire(l, m->id, WIRE_GIVEN, code);
		free(o);
	}
}

/* A policy's file, read whole. */
static void read_source(void *arg, int fd, struct asked *out)
{
	const struct file_order *o = arg;
	struct buf why;

	(void)fd;
	buf_init(&why, ASKED_TEXT_MAX);
	out->fd = reader_source(o->file, &why);
	if (out->fd < 0)
		out->code = EIO;
	snprintf(out->text, sizeof(out->text), "%.*s", STR_ARG(buf_str(&why)));
	buf_free(&why);
}

static void tell_source(struct launcher *l, uint32_t id, struct str file, struct asked *asked)
{
	struct msg_source_is done = { .id = id };

	if (asked->code && !asked->text[0])
		snprintf(asked->text, sizeof(asked->text), "the policy %.*s: %s", STR_ARG(file),
			 asked_why(asked->code));
	done.why = str_of(asked->text);
	answer(l, MSG_SOURCE_IS, &done, &asked->fd, asked->code == 0);
}

static void source_read(void *arg, struct asked *asked)
{
	struct file_order *o = arg;

	tell_source(o->l, o->id, str_of(o->file), asked);
	channel_close_fds(&asked->fd, 1);
	free(o);
}

static void source(struct launcher *l, const struct msg_source *m)
{
	static const struct asker_job job = { .ask = read_source, .done = source_read, .fd = -1,
					      .patience_ms = DISK_PATIENCE_MS };
	struct file_order *o = file_order_new(l, m->id, m->file);
	struct asked none = { .fd = -1 };

	none.code = o ? ask_file(o, &job) : ENOMEM;
	if (none.code) {
		tell_source(l, m->id, m->file, &none);
		free(o);
	}
}

/* ---- boxes ---- */

/* The command and the environment as they lie in memory: @n texts each, every one ended by a 0. */
struct texts {
	char *map;
	size_t size;
	char **arguments, **environment;
};

static char **split(char **at, const char *end, uint32_t n)
{
	char **out;

	if (n > BOX_TEXTS_MAX / 2)
		return NULL;
	out = calloc((size_t)n + 1, sizeof(*out));
	for (uint32_t i = 0; out && i < n; i++) {
		char *zero = memchr(*at, '\0', (size_t)(end - *at));

		if (!zero) {
			free(out);
			return NULL;
		}
		out[i] = *at;
		*at = zero + 1;
	}
	return out;
}

static bool map_texts(struct texts *t, int fd, const struct msg_box *m)
{
	struct stat st;
	char *at;

	if (fstat(fd, &st) < 0 || st.st_size <= 0 || (uint64_t)st.st_size > BOX_TEXTS_MAX)
		return false;
	t->size = (size_t)st.st_size;
	t->map = mmap(NULL, t->size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (t->map == MAP_FAILED) {
		t->map = NULL;
		return false;
	}
	at = t->map;
	t->arguments = split(&at, t->map + t->size, m->arguments);
	t->environment = split(&at, t->map + t->size, m->environment);
	return t->arguments && t->environment && t->arguments[0];
}

static void free_texts(struct texts *t)
{
	free(t->arguments);
	free(t->environment);
	if (t->map)
		munmap(t->map, t->size);
}

/* The message's texts end where they end: the box's description wants them 0-ended. */
struct box_words {
	char name[MSG_SANDBOX_NAME_MAX + 1], rootfs[PATH_MAX], workspace[PATH_MAX], init[PATH_MAX];
	char output[PATH_MAX];
	char kept_text[KEPT_MAX][PATH_MAX];
	const char *kept[KEPT_MAX + 1];
};

static void put_word(char *to, size_t size, struct str from)
{
	snprintf(to, size, "%.*s", STR_ARG(from));
}

static void put_words(struct box_words *w, const struct launcher *l, const struct msg_box *m)
{
	put_word(w->name, sizeof(w->name), m->name);
	put_word(w->rootfs, sizeof(w->rootfs), m->rootfs);
	put_word(w->workspace, sizeof(w->workspace), m->workspace);
	put_word(w->output, sizeof(w->output), m->output);
	snprintf(w->init, sizeof(w->init), "%s/exeat-init", l->job->programs);
	for (size_t i = 0; i < m->kept.n && i < KEPT_MAX; i++) {
		put_word(w->kept_text[i], sizeof(w->kept_text[i]), m->kept.v[i]);
		w->kept[i] = w->kept_text[i];
	}
}

/* What its command writes goes there. False: @why. A box that may write to a folder on the way
 * could leave a link there, and have root write where it leads to: no link is followed. */
static bool open_output(const struct box_words *w, const char *log, int stdio[3], struct buf *why)
{
	struct open_how how = { .flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK |
					 O_NOCTTY,
				.mode = 0600,
				.resolve = RESOLVE_NO_SYMLINKS };
	const char *wrong = "is no file";
	struct stat st;
	int fd;

	stdio[1] = stdio[2] = -1;
	if (!run_output_ok(w->output, log, why))
		return false;
	fd = (int)syscall(SYS_openat2, AT_FDCWD, w->output, &how, sizeof(how));
	stdio[1] = stdio[2] = fd;
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		return true;
	if (fd < 0)
		wrong = errno == ELOOP ? "a part of it is a symbolic link: write where it leads to"
				       : strerror(errno);
	buf_printf(why, "output %s: %s", w->output, wrong);
	return false;
}

/* From here on it is that folder or none: what is judged is what is mounted (sandbox/box.h follows
 * no link). One that is not there is told by its name. */
static void resolve(char path[PATH_MAX])
{
	char real[PATH_MAX];

	if (path[0] && realpath(path, real))
		snprintf(path, PATH_MAX, "%s", real);
}

static bool make(const struct launcher *l, const struct box_spec *spec, int *channel,
		 struct buf *text)
{
	char isolation[BOX_ISOLATION_MAX];

	if (!run_folders_ok(spec->rootfs, spec->workspace, l->job->log_path, l->job->settings,
			    text))
		return false;
	if (box_make(spec, channel, isolation) != OK) {
		buf_put_str(text, str_of(box_error()));
		return false;
	}
	buf_put_str(text, str_of(isolation));
	return true;
}

/* A box that waits until its folders have answered. */
struct order {
	struct launcher *l;
	struct msg_box m;		/* of its texts only the certificate is used */
	struct box_words words;
	struct buf ca_pem;
	int fds[FD_BOX_N];
	const char *asked[3 + KEPT_MAX + 1];	/* of the words */
};

static void start_box(struct launcher *l, struct order *o, const struct texts *t,
		      struct msg_boxed *done)
{
	const struct msg_box *m = &o->m;
	struct box_words *w = &o->words;
	const int *fds = o->fds;
	struct box_spec spec = { .command = t->arguments, .netns = fds[FD_BOX_NETNS],
				 .nameserver = m->nameserver, .ca_pem = buf_str(&o->ca_pem),
				 .environment = (const char *const *)t->environment,
				 .stdio = { fds[FD_BOX_IN], fds[FD_BOX_OUT], fds[FD_BOX_ERR] },
				 .terminal = m->terminal, .memory = m->memory,
				 .processes = m->processes };
	int channel = -1;
	struct buf text;

	resolve(w->rootfs);
	resolve(w->workspace);
	spec.id = w->name;
	spec.rootfs = w->rootfs[0] ? w->rootfs : NULL;
	spec.workspace = w->workspace[0] ? w->workspace : NULL;
	spec.kept = w->kept;
	spec.init = w->init;
	buf_init(&text, 4 * PATH_MAX);
	done->ok = (!w->output[0] || open_output(w, l->job->log_path, spec.stdio, &text)) &&
		   make(l, &spec, &channel, &text);
	done->text = str_n(buf_str(&text).p, text.n < BOXED_TEXT_MAX ? text.n : BOXED_TEXT_MAX);
	answer(l, MSG_BOXED, done, &channel, done->ok);
	if (channel >= 0)
		close(channel);
	if (w->output[0] && spec.stdio[1] >= 0)
		close(spec.stdio[1]);
	buf_free(&text);
}

static void refuse_box(struct launcher *l, uint32_t id, const char *why)
{
	const struct msg_boxed done = { .id = id, .text = str_of(why) };

	answer(l, MSG_BOXED, &done, NULL, 0);
}

static void carry_out(struct order *o)
{
	struct msg_boxed done = { .id = o->m.id };
	struct texts t = { 0 };

	if (map_texts(&t, o->fds[FD_BOX_TEXTS], &o->m))
		start_box(o->l, o, &t, &done);
	else
		refuse_box(o->l, o->m.id, "a box needs a command");
	free_texts(&t);
}

static void order_free(struct order *o)
{
	channel_close_fds(o->fds, FD_BOX_N);
	buf_free(&o->ca_pem);
	free(o);
}

static struct order *order_new(struct launcher *l, const struct msg_box *m, const int *fds)
{
	struct order *o = calloc(1, sizeof(*o));
	bool ok = o != NULL;

	if (!o)
		return NULL;
	o->l = l;
	o->m = *m;
	put_words(&o->words, l, m);
	buf_init(&o->ca_pem, MSG_PEM_MAX);
	buf_put_str(&o->ca_pem, m->ca_pem);
	for (size_t i = 0; i < FD_BOX_N; i++) {
		o->fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 0);
		ok = ok && o->fds[i] >= 0;
	}
	if (ok && !o->ca_pem.failed)
		return o;
	order_free(o);
	return NULL;
}

/* ---- do its folders answer? ---- */

/* Here only the paths count: what is there is looked at again when it is used. */
static void ask_folders(void *arg, int fd, struct asked *out)
{
	const struct order *o = arg;
	char real[PATH_MAX];

	(void)fd;
	(void)out;
	for (size_t i = 0; o->asked[i]; i++)
		(void)!realpath(o->asked[i], real);
}

static void folders_answered(void *arg, struct asked *asked)
{
	struct order *o = arg;
	char why[PATH_MAX];

	snprintf(why, sizeof(why), "its root, workspace, output or policy: %s",
		 asked_why(asked->code));
	if (asked->code)
		refuse_box(o->l, o->m.id, why);
	else
		carry_out(o);
	order_free(o);
}

/* Those of the host's that it is made of, and that it must not change. */
static void list_folders(struct order *o)
{
	const struct box_words *w = &o->words;
	const char *const own[] = { w->rootfs, w->workspace, w->output };
	size_t n = 0;

	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
		if (own[i][0])
			o->asked[n++] = own[i];
	for (size_t i = 0; w->workspace[0] && w->kept[i]; i++)
		o->asked[n++] = w->kept[i];
}

static void make_box(struct launcher *l, const struct msg_box *m, const int *fds)
{
	struct order *o = order_new(l, m, fds);
	struct asker_job job = { .ask = ask_folders, .done = folders_answered, .arg = o, .fd = -1,
				 .patience_ms = DISK_PATIENCE_MS };
	struct asked none = { .fd = -1 };

	if (!o) {
		refuse_box(l, m->id, "out of memory or descriptors");
		return;
	}
	list_folders(o);
	job.paths = o->asked;
	if (o->asked[0])
		none.code = asker_ask(l->askers, &job);
	if (!o->asked[0] || none.code)
		folders_answered(o, &none);
}

/* ---- the log ---- */

static void rotate(struct launcher *l)
{
	struct msg_log_file done = { 0 };
	int fd = -1;
	enum err e = log_rotate(l->job->log_path, l->job->settings->rotate_keep, &fd);

	if (e)
		done.code = e == ERR_SYSTEM ? (uint32_t)errno : e == ERR_NOMEM ? ENOMEM : EBADMSG;
	answer(l, MSG_ROTATED, &done, &fd, e == OK);
	if (fd >= 0)
		close(fd);
}

/* In an asker, since it takes a reader's time. What the source is kept as is what a reader makes of
 * it, whatever was said. */
static void keep_source(void *arg, int source, struct asked *out)
{
	const struct file_order *o = arg;
	struct reader_job job = { .file = o->file, .source = source,
				  .settings = o->l->job->settings,
				  .programs = o->l->job->programs };
	struct policy *p = NULL;
	const char *why = "does not load";
	int image = -1;
	enum err e;

	out->code = EBADMSG;
	if (!reader_sealed(source)) {
		why = "can still be changed";
	} else if (reader_compile(&job, &image, NULL, NULL) && policy_map(&image, 1, &p) == OK) {
		why = "is another's";
		if (str_eq(policy_digest(p), str_of(o->digest))) {
			e = policy_store_put(o->l->job->log_path, str_of(o->digest), source);
			out->code = e ? EIO : 0;
			why = e == ERR_SYSTEM ? strerror(errno) : err_text(e);
		}
	}
	snprintf(out->text, sizeof(out->text), "%s", why);
}

static void tell_kept(struct str file, const struct asked *asked)
{
	if (asked->code)
		fprintf(stderr, "exeat: the source of the policy %.*s is not kept beside the log: %s\n",
			STR_ARG(file),
			asked->text[0] ? asked->text
				       : asked->code == ETIMEDOUT ? "it takes too long"
								  : asked_why(asked->code));
}

static void source_kept(void *arg, struct asked *asked)
{
	struct file_order *o = arg;

	tell_kept(str_of(o->file), asked);
	free(o);
}

static void keep_policy(struct launcher *l, const struct msg_keep_policy *m, int source)
{
	const struct asker_job job = { .ask = keep_source, .done = source_kept, .fd = source,
				       .patience_ms = KEEP_PATIENCE_MS };
	struct asked none = { .fd = -1 };
	struct file_order *o;

	if (policy_store_renew(l->job->log_path, m->digest) == OK)
		return;
	o = file_order_new(l, 0, m->file);
	if (o)
		snprintf(o->digest, sizeof(o->digest), "%.*s", STR_ARG(m->digest));
	none.code = o ? ask_file(o, &job) : ENOMEM;
	if (none.code) {
		tell_kept(m->file, &none);
		free(o);
	}
}

/* ---- life ---- */

static void on_message(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	struct launcher *l = arg;
	const struct msg_ping *ping = msg;

	switch (type) {
	case MSG_PING:
		answer(l, MSG_PONG, ping, NULL, 0);
		break;
	case MSG_LAUNCH:
		launch(l, msg);
		break;
	case MSG_WIRE:
		wire(l, msg, n_fds ? fds[0] : -1);
		break;
	case MSG_BOX:
		make_box(l, msg, fds);
		break;
	case MSG_SOURCE:
		source(l, msg);
		break;
	case MSG_ROTATE:
		rotate(l);
		break;
	case MSG_KEEP_POLICY:
		keep_policy(l, msg, fds[0]);
		break;
	}
	channel_close_fds(fds, n_fds);
}

static void on_closed(void *arg, const char *why)
{
	struct launcher *l = arg;

	(void)why;
	event_base_loopbreak(l->base);
}

static void on_children(evutil_socket_t fd, short what, void *arg)
{
	struct launcher *l = arg;
	struct signalfd_siginfo info;
	pid_t pid;

	(void)what;
	(void)!read(fd, &info, sizeof(info));
	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		askers_reap(l->askers, pid);
}

static bool watch_children(struct launcher *l)
{
	struct event *e;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	l->children = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	e = event_new(l->base, l->children, EV_READ | EV_PERSIST, on_children, l);
	return l->children >= 0 && e && event_add(e, NULL) == 0;
}

/* What a terminal sends is the command's. */
static void ignore_signals(void)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
}

/* The child. Everything it needs lies in memory that was copied; of the descriptors it keeps its
 * own. */
static void run(const struct launcher_job *job, int fd, pid_t parent)
{
	struct launcher l = { .job = job };
	struct channel_peer peer = { .self = ROLE_LAUNCHER, .other = ROLE_SUPERVISOR,
				     .table = exeat_messages, .on_message = on_message,
				     .on_closed = on_closed, .arg = &l };
	struct wire_error why;

	prctl(PR_SET_NAME, "exeat-launcher");
	ignore_signals();
	broker_start_close(job->not_its_own);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
		_exit(1);
	if (wire_gateway_rejoin(job->gateway, &why) != OK) {
		fprintf(stderr, "exeat: launcher: %s: %s\n", why.what, strerror(why.code));
		_exit(1);
	}
	l.base = event_base_new();
	l.channel = l.base ? channel_new(l.base, fd, &peer) : NULL;
	l.askers = l.base ? askers_new(l.base) : NULL;
	if (!l.channel || !l.askers || !watch_children(&l))
		_exit(1);
	channel_set_phase(l.channel, PHASE_RUN);
	box_ask_version();
	answer(&l, MSG_READY, &(struct msg_ready){ 0 }, NULL, 0);
	event_base_dispatch(l.base);
	_exit(0);
}

enum err launcher_start(const struct launcher_job *job, int *channel_fd, pid_t *pid)
{
	return start_launcher(job, false, channel_fd, pid);
}
