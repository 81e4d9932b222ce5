#include "proxy/role_start.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "proxy/messages.h"
#include "sandbox/held_secret.h"

enum err start_recorder(struct channel *c, const struct recorder_start *r)
{
	struct msg_recorder_start msg = { .path = str_of(r->log_path),
					  .synced = r->settings->log_synced,
					  .rotate_bytes = r->settings->rotate_bytes,
					  .rotate_seconds = r->settings->rotate_seconds,
					  .sandbox_bytes = r->settings->max_log_bytes };

	return channel_send(c, MSG_RECORDER_START, &msg, (int[2]){ r->log, r->key }, 2);
}

/* ---- dialer ---- */

/* Texts for a list field, owned until the message is sent. */
struct texts {
	struct buf text[START_LISTS_MAX];
	struct str list[START_LISTS_MAX];
	size_t n;
	bool failed;
};

static struct buf *texts_next(struct texts *t)
{
	if (t->n == START_LISTS_MAX) {
		t->failed = true;
		return NULL;
	}
	buf_init(&t->text[t->n], 4096);
	return &t->text[t->n++];
}

static struct str_list texts_list(struct texts *t)
{
	for (size_t i = 0; i < t->n; i++) {
		t->list[i] = buf_str(&t->text[i]);
		t->failed |= t->text[i].failed;
	}
	return (struct str_list){ t->list, t->n };
}

static void texts_free(struct texts *t)
{
	for (size_t i = 0; i < t->n; i++)
		buf_free(&t->text[i]);
}

static void put_range(struct texts *t, const struct addr *net, unsigned bits)
{
	char text[ADDR_TEXT_MAX];
	struct buf *b = texts_next(t);

	if (b)
		buf_printf(b, "%s/%u", addr_format(net, text), bits);
}

/* What must never be dialled whatever a name resolves to: this host and the pools. */
static void own_ranges(const struct settings *s, struct texts *t)
{
	struct ifaddrs *all = NULL;
	struct addr a;
	uint16_t port;

	put_range(t, &s->link_pool.net, s->link_pool.bits);
	put_range(t, &s->synthetic_pool.net, s->synthetic_pool.bits);
	if (getifaddrs(&all) < 0) {
		t->failed = true;
		return;
	}
	for (struct ifaddrs *i = all; i; i = i->ifa_next)
		if (i->ifa_addr && addr_from_sockaddr(i->ifa_addr, &a, &port))
			put_range(t, &a, a.family == 4 ? 32 : 128);
	freeifaddrs(all);
}

static void given_names(const struct settings *s, struct texts *t)
{
	char text[ADDR_TEXT_MAX];

	for (size_t i = 0; i < s->n_names; i++) {
		struct buf *b = texts_next(t);

		if (!b)
			return;
		buf_put_str(b, s->names[i].name);
		for (size_t k = 0; k < s->names[i].n_addrs; k++)
			buf_printf(b, "%c%s", k ? ',' : '=', addr_format(&s->names[i].addrs[k], text));
	}
}

enum err start_dialer(struct channel *c, const struct settings *s, const struct ring_fds *ring)
{
	struct texts *names = calloc(2, sizeof(*names)), *own = names ? names + 1 : NULL;
	struct msg_dialer_start msg = { .servers = { s->servers, s->n_servers },
					.timeout_ms = s->resolver_timeout_ms,
					.dials = s->max_dials, .queued = s->max_queued };
	int fds[3] = { ring->memory, ring->wake, ring->room };
	enum err e;

	if (!names)
		return ERR_NOMEM;
	given_names(s, names);
	own_ranges(s, own);
	msg.names = texts_list(names);
	msg.own = texts_list(own);
	e = names->failed || own->failed ? ERR_LIMIT
					 : channel_send(c, MSG_DIALER_START, &msg, fds, 3);
	texts_free(names);
	texts_free(own);
	free(names);
	return e;
}

/* ---- broker: what is held for it ---- */

/* The variable's value, held; its text in our environment is overwritten, since it is in the memory
 * that /proc/PID/environ shows, which outlives unsetenv(). -1: errno says why. */
static int hold_variable(const char *name)
{
	char *value = getenv(name);
	int held;

	if (!value) {
		errno = ENOENT;
		return -1;
	}
	held = held_secret_new(value, strlen(value));
	explicit_bzero(value, strlen(value));
	unsetenv(name);
	return held;
}

/* Does one of the policy's credentials name it? Of no policy in particular: it may be asked for. */
static bool is_used(const struct policy *p, const struct settings_secret *s)
{
	if (!p)
		return true;
	for (uint16_t image = 0; image < policy_images(p); image++)
		for (uint32_t c = 0; c < policy_credentials(p, image); c++)
			if (str_eq(policy_credential(p, image, c).secret, s->name))
				return true;
	return false;
}

static int hold_seal_key(void)
{
	unsigned char key[32];
	int held = -1;

	if (getrandom(key, sizeof(key), 0) == sizeof(key))
		held = held_secret_new(key, sizeof(key));
	explicit_bzero(key, sizeof(key));
	return held;
}

/* Two secrets may come from one variable. */
static enum err hold_secret(struct broker_start *b, size_t at)
{
	const struct settings_secret *all = b->settings->secrets;
	char *variable;
	int held;

	for (size_t i = 0; i < at; i++) {
		if (!str_eq(all[i].env, all[at].env))
			continue;
		errno = b->held[i] < 0 ? -b->held[i] : 0;
		held = b->held[i] < 0 ? -1 : held_secret_copy(b->held[i]);
		b->held[at] = held < 0 ? -errno : held;
		return OK;
	}
	variable = strndup(all[at].env.p, all[at].env.n);
	if (!variable)
		return ERR_NOMEM;
	held = hold_variable(variable);
	b->held[at] = held < 0 ? -errno : held;
	free(variable);
	return OK;
}

enum err broker_start_open(struct broker_start *b, const struct settings *s)
{
	enum err e = OK;

	*b = (struct broker_start){ .settings = s, .seal_key = hold_seal_key() };
	if (b->seal_key < 0)
		return ERR_SYSTEM;
	b->held = calloc(s->n_secrets + 1, sizeof(*b->held));
	if (!b->held) {
		broker_start_close(b);
		return ERR_NOMEM;
	}
	for (size_t i = 0; i < s->n_secrets; i++)
		b->held[i] = -ENOENT;
	for (size_t i = 0; i < s->n_secrets && !e; i++)
		e = s->secrets[i].env.n ? hold_secret(b, i) : OK;
	if (e)
		broker_start_close(b);
	return e;
}

void broker_start_close(struct broker_start *b)
{
	for (size_t i = 0; b->held && i < b->settings->n_secrets; i++)
		if (b->held[i] >= 0)
			close(b->held[i]);
	free(b->held);
	b->held = NULL;
	if (b->settings && b->seal_key >= 0)
		close(b->seal_key);
	b->seal_key = -1;
}

/* ---- broker: what it is told ---- */

/* @where: variable or path, NUL-ended. */
static int open_source(const struct broker_start *b, size_t at, const char *where)
{
	int held = b->held[at];

	if (!b->settings->secrets[at].env.n)
		return open(where, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (held >= 0)
		return held_secret_copy(held);
	errno = -held;
	return -1;
}

/* -1: it is told on stderr. */
static int open_secret(const struct broker_start *b, size_t at)
{
	const struct settings_secret *s = &b->settings->secrets[at];
	bool from_env = s->env.n != 0;
	char *where = strndup(from_env ? s->env.p : s->file.p, from_env ? s->env.n : s->file.n);
	int fd = where ? open_source(b, at, where) : -1;

	if (fd < 0)
		fprintf(stderr, "exeat: secret \"%.*s\": %s %s: %s\n", STR_ARG(s->name),
			from_env ? "environment variable" : "file", where ? where : "",
			from_env && errno == ENOENT  ? "is not set"
			: from_env && errno == E2BIG ? "is too long"
						     : strerror(errno));
	free(where);
	return fd;
}

static enum err send_secret(struct channel *c, const struct settings_secret *s, int fd)
{
	struct msg_secret msg = { .name = s->name, .where = s->env.n ? s->env : s->file,
				  .source = s->env.n ? SECRET_FROM_ENV : SECRET_FROM_FILE };
	struct buf hosts;
	enum err e;

	buf_init(&hosts, MESSAGE_MAX / 2);
	for (size_t i = 0; i < s->n_hosts; i++)
		buf_printf(&hosts, "%s%.*s", i ? " " : "", STR_ARG(s->hosts[i]));
	msg.hosts = buf_str(&hosts);
	e = hosts.failed ? ERR_LIMIT : channel_send(c, MSG_SECRET, &msg, &fd, 1);
	buf_free(&hosts);
	return e;
}

static enum err send_start(struct channel *c, const struct broker_start *b, uint32_t secrets,
			   const struct ring_fds *ring)
{
	struct msg_broker_start msg = { .secrets = secrets, .grants = b->settings->max_grants,
					.queued = b->settings->max_queued };
	int fds[4] = { ring->memory, ring->wake, ring->room, held_secret_copy(b->seal_key) };
	enum err e = ERR_SYSTEM;

	if (fds[3] >= 0) {
		e = channel_send(c, MSG_BROKER_START, &msg, fds, 4);
		close(fds[3]);
	}
	return e;
}

/* The sources are opened first: how many there are is said before them. */
enum err start_broker(struct channel *c, const struct broker_start *b, const struct policy *p,
		      const struct ring_fds *ring)
{
	const struct settings *s = b->settings;
	int *fds = calloc(s->n_secrets + 1, sizeof(*fds));
	uint32_t there = 0;
	bool all = true;
	enum err e;

	if (!fds)
		return ERR_NOMEM;
	for (size_t i = 0; i < s->n_secrets; i++) {
		bool used = is_used(p, &s->secrets[i]);

		fds[i] = used ? open_secret(b, i) : -1;
		there += fds[i] >= 0;
		all = all && (fds[i] >= 0 || !used);
	}
	e = send_start(c, b, there, ring);
	for (size_t i = 0; i < s->n_secrets; i++) {
		if (fds[i] < 0)
			continue;
		e = e ? e : send_secret(c, &s->secrets[i], fds[i]);
		close(fds[i]);
	}
	free(fds);
	return e ? e : all ? OK : ERR_NOTFOUND;
}

/* ---- nursery, worker ---- */

enum err start_nursery(struct channel *c, const struct settings *s)
{
	struct msg_nursery_start msg = { .trust_system = s->trust_system,
					 .trust_files = { s->trust_add, s->n_trust_add } };

	return channel_send(c, MSG_NURSERY_START, &msg, NULL, 0);
}

enum err start_worker(struct channel *c, const struct worker_start *w)
{
	const struct settings *s = w->settings;
	char net[ADDR_TEXT_MAX], pool[ADDR_PORT_TEXT_MAX];
	struct msg_worker_start msg = {
		.sandbox = str_of(w->sandbox),
		.link = str_of(w->wire->ifname),
		.ifindex = w->wire->ifindex,
		.gateway = w->wire->gateway,
		.box = w->wire->address,
		.max_connections = s->max_connections,
		.max_headers = s->max_headers,
		.idle_ms = s->idle_ms,
		.proxy_port = s->proxy_port,
		.contact = s->notice_contact,
		.memory = s->max_worker_memory,
		.synced = s->log_synced,
	};
	int fds[FD_WORKER_POLICY + 1] = {
		[FD_WORKER_TPROXY] = w->wire->tproxy, [FD_WORKER_DNS_UDP] = w->wire->dns_udp,
		[FD_WORKER_DNS_TCP] = w->wire->dns_tcp, [FD_WORKER_NFLOG] = w->wire->nflog,
		[FD_WORKER_LEASES] = w->leases, [FD_WORKER_RING] = w->ring->memory,
		[FD_WORKER_RING + 1] = w->ring->wake, [FD_WORKER_RING + 2] = w->ring->room,
		[FD_WORKER_DIALER] = w->dialer, [FD_WORKER_BROKER] = w->broker,
		[FD_WORKER_POLICY] = w->policy,
	};

	snprintf(pool, sizeof(pool), "%s/%u", addr_format(&s->synthetic_pool.net, net),
		 s->synthetic_pool.bits);
	msg.pool = str_of(pool);
	return channel_send(c, MSG_WORKER_START, &msg, fds, FD_WORKER_POLICY + 1);
}
