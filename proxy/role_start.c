#include "proxy/role_start.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "proxy/messages.h"

enum err start_recorder(struct channel *c, const char *log_path, int log)
{
	struct msg_recorder_start msg = { .path = str_of(log_path) };

	return channel_send(c, MSG_RECORDER_START, &msg, &log, 1);
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
					.timeout_ms = s->resolver_timeout_ms };
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

/* ---- broker ---- */

/* The variable's value in a pipe, and its text in our environment overwritten: it is in the memory
 * that /proc/PID/environ shows, which outlives unsetenv(). */
static int env_source(const char *name)
{
	char *value = getenv(name);
	size_t n = value ? strlen(value) : 0;
	int ends[2];

	if (!value || n > 16384) {
		errno = value ? EFBIG : ENOENT;
		return -1;
	}
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	if (write(ends[1], value, n) != (ssize_t)n) {
		close(ends[0]);
		ends[0] = -1;
	}
	close(ends[1]);
	return ends[0];
}

static void env_forget(const char *name)
{
	char *value = getenv(name);

	if (value)
		explicit_bzero(value, strlen(value));
	unsetenv(name);
}

static enum err send_secret(struct channel *c, const struct settings_secret *s)
{
	bool from_env = s->env.n != 0;
	char *where = strndup(from_env ? s->env.p : s->file.p, from_env ? s->env.n : s->file.n);
	int fd = !where ? -1 : from_env ? env_source(where)
			       : open(where, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct msg_secret msg = { .name = s->name, .where = str_of(where),
				  .source = from_env ? SECRET_FROM_ENV : SECRET_FROM_FILE };
	struct buf hosts;
	enum err e = ERR_NOTFOUND;

	if (fd < 0) {
		fprintf(stderr, "exeat: secret \"%.*s\": %s %s: %s\n", STR_ARG(s->name),
			from_env ? "environment variable" : "file", where ? where : "",
			from_env && errno == ENOENT ? "is not set" : strerror(errno));
		free(where);
		return ERR_NOTFOUND;
	}
	buf_init(&hosts, MESSAGE_MAX / 2);
	for (size_t i = 0; i < s->n_hosts; i++)
		buf_printf(&hosts, "%s%.*s", i ? " " : "", STR_ARG(s->hosts[i]));
	msg.hosts = buf_str(&hosts);
	e = hosts.failed ? ERR_LIMIT : channel_send(c, MSG_SECRET, &msg, &fd, 1);
	close(fd);
	buf_free(&hosts);
	free(where);
	return e;
}

/* Does one of the policy's credentials name it? */
static bool is_used(const struct policy *p, const struct settings_secret *s)
{
	for (uint16_t image = 0; image < policy_images(p); image++)
		for (uint32_t c = 0; c < policy_credentials(p, image); c++)
			if (str_eq(policy_credential(p, image, c).secret, s->name))
				return true;
	return false;
}

enum err start_broker(struct channel *c, const struct settings *s, const struct policy *p,
		      const struct ring_fds *ring)
{
	struct msg_broker_start msg = { .secrets = 0 };
	int fds[3] = { ring->memory, ring->wake, ring->room };
	enum err e, worst;

	for (size_t i = 0; i < s->n_secrets; i++)
		msg.secrets += is_used(p, &s->secrets[i]);
	worst = e = channel_send(c, MSG_BROKER_START, &msg, fds, 3);
	for (size_t i = 0; i < s->n_secrets && !e; i++) {
		enum err one = is_used(p, &s->secrets[i]) ? send_secret(c, &s->secrets[i]) : OK;

		worst = one ? one : worst;
	}
	for (size_t i = 0; i < s->n_secrets; i++) {
		char *name = strndup(s->secrets[i].env.p ? s->secrets[i].env.p : "", s->secrets[i].env.n);

		if (name && *name)
			env_forget(name);
		free(name);
	}
	return worst;
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
