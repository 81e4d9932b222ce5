/* Theory of operation
 *
 * Three things start side by side: the wire (launcher), the worker, and, when both and the dialer
 * and the broker are there, the three are joined (succession.c). The broker answers with the
 * sandbox's certificate authority; with it the launcher makes the box. When box and worker are
 * ready and this process is confined, the start goes on record and the command runs.
 *
 * The end is in order, too: the box is removed, then the worker ends (it records how its
 * connections ended), then the wire is closed, then the end goes on record. sandbox_step() knows
 * both ways: it is called whenever something has come, and does what can be done by then.
 */
#include "proxy/appliance.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proxy/asker.h"
#include "proxy/clock.h"
#include "proxy/launcher.h"
#include "proxy/supervisor_records.h"

/* What a sandbox takes here for good is about half of it; the rest is handed on while it starts. */
#define SANDBOX_DESCRIPTORS 24
#define DESCRIPTORS_KEPT_MAX ((size_t)SANDBOX_DESCRIPTORS * 64)	/* looked for at once */

/* ---- finding ---- */

struct sandbox *sandbox_find(struct appliance *a, struct str name)
{
	struct sandbox *s = a->sandboxes;

	while (s && !(s->state != SANDBOX_ENDED && str_eq(str_of(s->name), name)))
		s = s->next;
	return s;
}

struct sandbox *sandbox_by_number(struct appliance *a, uint32_t number)
{
	struct sandbox *s = a->sandboxes;

	while (s && !(s->state != SANDBOX_ENDED && s->number == number))
		s = s->next;
	return s;
}

/* The next one that is free: what is still said of one that has ended does not hit another. */
static uint32_t free_number(struct appliance *a)
{
	uint32_t links = wire_links(&a->settings->link_pool);
	uint32_t number = a->last_sandbox;

	for (uint32_t tried = 1; tried < links; tried++) {
		number = number % (links - 1) + 1;
		if (!sandbox_by_number(a, number))
			return a->last_sandbox = number;
	}
	return links;	/* there is none: its wire will say so */
}

/* ---- making ---- */

/* The command's arguments in memory that is handed on: they can be more than a message takes. */
static int write_texts(char *const *command, uint32_t *n)
{
	int fd = memfd_create("command", MFD_CLOEXEC);

	for (*n = 0; fd >= 0 && command[*n]; (*n)++) {
		size_t bytes = strlen(command[*n]) + 1;

		if (write(fd, command[*n], bytes) == (ssize_t)bytes)
			continue;
		close(fd);
		return -1;
	}
	return fd;
}

static int dup_or_none(int fd)
{
	return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

static char *copy_or_none(const char *text)
{
	return text ? strdup(text) : NULL;
}

static bool copy_spec(struct sandbox *s, const struct sandbox_spec *spec)
{
	bool ok = true;

	s->texts = -1;
	s->netns = dup_or_none(spec->netns);
	s->rootfs = copy_or_none(spec->rootfs);
	s->workspace = copy_or_none(spec->workspace);
	s->output = copy_or_none(spec->output);
	s->netns_path = copy_or_none(spec->netns_path);
	s->program = spec->command ? copy_or_none(spec->command[0]) : NULL;
	s->terminal = spec->terminal;
	if (spec->command) {
		s->texts = write_texts(spec->command, &s->n_arguments);
		ok = s->texts >= 0;
	}
	for (int i = 0; i < 3; i++) {
		s->stdio[i] = spec->command ? dup_or_none(spec->stdio[i]) : -1;
		ok = ok && (!spec->command || s->stdio[i] >= 0);
	}
	return ok && (spec->netns < 0 || s->netns >= 0);
}

static struct sandbox *make(struct appliance *a, const struct sandbox_spec *spec)
{
	struct sandbox *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->a = a;
	s->number = free_number(a);
	s->started_at = time(NULL);
	s->created_ms = clock_ms();
	s->status = 125;
	s->leases_fd = -1;
	s->wire = (struct wire_box){
		.netns = -1, .tproxy = -1, .dns_udp = -1, .dns_tcp = -1, .nflog = -1
	};
	snprintf(s->name, sizeof(s->name), "%s", spec->name);
	snprintf(s->box_id, sizeof(s->box_id), "run-%d-%u", (int)getpid(), s->number);
	if (!spec->command)	/* of a box, the runtime says it */
		snprintf(s->isolation, sizeof(s->isolation), "attached");
	s->policy = policy_file_hold(spec->policy);
	s->policy_read = a->reloads_begun;
	buf_init(&s->ca_pem, MSG_PEM_MAX);
	buf_init(&s->ca_sealed, MSG_SEALED_MAX);
	part_init(a, &s->worker, ROLE_WORKER, &worker_hooks, s);
	s->next = a->sandboxes;
	a->sandboxes = s;
	a->n_sandboxes++;
	if (copy_spec(s, spec))
		s->ring = rings_add(a, ROLE_WORKER, s->name, str_of(s->policy->digest));
	return s;
}

bool descriptors_left(int sample, size_t wanted)
{
	int held[DESCRIPTORS_KEPT_MAX];
	size_t n = 0;
	bool room;

	if (wanted > DESCRIPTORS_KEPT_MAX)
		wanted = DESCRIPTORS_KEPT_MAX;
	while (n < wanted && (held[n] = fcntl(sample, F_DUPFD_CLOEXEC, 0)) >= 0)
		n++;
	room = n == wanted;
	while (n)
		close(held[--n]);
	return room;
}

/* For all that its start and those under way take. */
static bool has_room(const struct appliance *a, int sample)
{
	size_t wanted = SANDBOX_DESCRIPTORS;

	for (const struct sandbox *s = a->sandboxes; s; s = s->next)
		if (s->state == SANDBOX_STARTING)
			wanted += SANDBOX_DESCRIPTORS;
	return descriptors_left(sample, wanted);
}

struct sandbox *sandbox_create(struct appliance *a, const struct sandbox_spec *spec, char *why,
			       size_t why_size)
{
	struct sandbox *s;

	if (sandbox_find(a, str_of(spec->name))) {
		snprintf(why, why_size, "a sandbox of that name is there");
		return NULL;
	}
	if (a->n_sandboxes >= a->settings->max_sandboxes) {
		snprintf(why, why_size, "limits.sandboxes allows %u at once, and so many are there",
			 (unsigned)a->settings->max_sandboxes);
		return NULL;
	}
	if (!has_room(a, spec->policy->image)) {
		snprintf(why, why_size,
			 "too few descriptors are left for one more (ulimit -n; LimitNOFILE in the service's unit)");
		return NULL;
	}
	s = make(a, spec);
	if (!s) {
		snprintf(why, why_size, "out of memory");
		return NULL;
	}
	part_want(&s->worker);
	if (!s->ring || put_policy_load(a->ring, s->name, s->policy, "") != OK)
		sandbox_fail(s, "no descriptors or memory for it, or no room in the audit log");
	sandbox_step(s);
	return s;
}

/* ---- the wire ---- */

struct literal_run {
	struct sandbox *s;
	struct addr addr;
	uint16_t ports[POLICY_PORTS_MAX];
	size_t n;
	bool failed;
};

static bool admit(struct sandbox *s, uint32_t address, const uint16_t *ports, size_t n)
{
	struct wire_error why;

	return n == 0 || wire_admit(s->a->gateway, &s->wire, address, ports, n, &why) == OK;
}

static void admit_literal(struct literal_run *l)
{
	if (!admit(l->s, addr_to_v4(&l->addr), l->ports, l->n))
		l->failed = true;
	l->n = 0;
}

/* Pairs come grouped by address. */
static bool on_literal(void *arg, struct addr addr, uint16_t port)
{
	struct literal_run *l = arg;

	if (addr.family != 4)
		return true;	/* the box speaks IPv4 only */
	if (l->n == POLICY_PORTS_MAX || (l->n && !addr_eq(&addr, &l->addr)))
		admit_literal(l);
	l->addr = addr;
	l->ports[l->n++] = port;
	return !l->failed;
}

/* What the box may reach before it has resolved a name: the explicit proxy, addresses that rules
 * name, and with "refusal: explain" the refusal address, so that it can be told why. */
static bool admit_fixed(struct sandbox *s)
{
	static const uint16_t web[] = { 80, 443 };
	const uint16_t *proxy = &s->a->settings->proxy_port;
	struct literal_run *l = calloc(1, sizeof(*l));
	bool ok;

	if (!l)
		return false;
	l->s = s;
	policy_literals(s->policy->map, on_literal, l);
	admit_literal(l);
	ok = !l->failed && admit(s, s->wire.gateway, proxy, *proxy ? 1 : 0);
	free(l);
	if (ok && policy_explains(s->policy->map))
		ok = admit(s, lease_refusal_address(&s->a->settings->synthetic_pool), web, 2);
	return ok;
}

static bool admit_leases(struct sandbox *s)
{
	uint16_t ports[POLICY_PORTS_MAX];
	bool ok = true;

	for (size_t i = 0; ok && i < lease_count(s->leases); i++) {
		uint32_t address = lease_address(&s->a->settings->synthetic_pool, i);
		struct str name;

		if (lease_name(s->leases, address, &name))
			ok = admit(s, address, ports,
				   policy_ports(s->policy->map, name, ports, POLICY_PORTS_MAX));
	}
	return ok;
}

bool sandbox_admit_all(struct sandbox *s)
{
	struct wire_error why;

	wire_admit_anew(&s->wire);
	return admit_fixed(s) && admit_leases(s) &&
	       wire_admit_done(s->a->gateway, &s->wire, &why) == OK;
}

static struct sandbox *waiting(const struct part *from, uint32_t order, bool wire)
{
	struct sandbox *s = from->a->sandboxes;

	while (s && !(s->maker == from && (wire ? s->wire_order : s->box_order) == order))
		s = s->next;
	return s;
}

const char *wire_advice(int code)
{
	if (code == EPERM)
		return " (needs root and CAP_NET_ADMIN)";
	if (code == ENOENT || code == EOPNOTSUPP || code == EPROTONOSUPPORT)
		return " (the kernel lacks it: nf_tables with tproxy, socket, fib and log, and veth are needed)";
	return "";
}

static void take_wire(struct sandbox *s, const struct msg_wired *m, int *fds)
{
	s->wire.ifindex = m->ifindex;
	s->wire.gateway = m->gateway;
	s->wire.address = m->box;
	snprintf(s->wire.ifname, sizeof(s->wire.ifname), "%.*s", STR_ARG(m->link));
	s->wire.netns = fds[FD_WIRED_NETNS];
	s->wire.tproxy = fds[FD_WIRED_TPROXY];
	s->wire.dns_udp = fds[FD_WIRED_DNS_UDP];
	s->wire.dns_tcp = fds[FD_WIRED_DNS_TCP];
	s->wire.nflog = fds[FD_WIRED_NFLOG];
	s->wired = true;
}

static void wire_failed(struct sandbox *s, const struct msg_wired *m)
{
	int code = (int)m->code;

	if (!str_eq(m->what, STR(WIRE_GIVEN)))
		sandbox_fail(s, "network: %.*s: %s%s", STR_ARG(m->what), strerror(code),
			     wire_advice(code));
	else
		sandbox_fail(s, "%.*s: %s", STR_ARG(m->what),
			     code == EINVAL ? "it is no network namespace" : asked_why(code));
}

void sandbox_wired(struct part *from, const struct msg_wired *m, int *fds, size_t n_fds)
{
	struct sandbox *s = waiting(from, m->id, true);

	if (!s || (m->code == 0 && n_fds != FD_WIRED_N)) {
		channel_close_fds(fds, n_fds);
		part_lose(from, "a wire that was not ordered");
		return;
	}
	s->wire_order = 0;
	s->maker = NULL;
	if (m->code) {
		channel_close_fds(fds, n_fds);
		wire_failed(s, m);
		sandbox_step(s);	/* one that is being stopped has waited for this */
		return;
	}
	take_wire(s, m, fds);
	if (wire_box_adopt(&s->wire) != OK ||
	    lease_table_create(&s->a->settings->synthetic_pool, &s->leases, &s->leases_fd) != OK ||
	    !admit_fixed(s))
		sandbox_fail(s, "network: what the policy names cannot be admitted");
	sandbox_step(s);
}

/* ---- the box ---- */

static void order_box(struct sandbox *s)
{
	struct appliance *a = s->a;
	/* Where the box could write to these, it would say what the next one may do. */
	struct str kept[2] = { str_of(s->policy->path), a->settings->path };
	struct msg_box m = { .id = ++a->last_order, .name = str_of(s->box_id),
			     .rootfs = str_of(s->rootfs ? s->rootfs : ""),
			     .workspace = str_of(s->workspace ? s->workspace : ""),
			     .output = str_of(s->output ? s->output : ""),
			     .kept = { kept, a->settings->path.n ? 2 : 1 },
			     .nameserver = s->wire.gateway, .ca_pem = buf_str(&s->ca_pem),
			     .arguments = s->n_arguments, .terminal = s->terminal,
			     .memory = a->settings->max_memory,
			     .processes = a->settings->max_processes };
	int fds[FD_BOX_N] = { [FD_BOX_NETNS] = s->wire.netns, [FD_BOX_TEXTS] = s->texts,
			      [FD_BOX_IN] = s->stdio[0], [FD_BOX_OUT] = s->stdio[1],
			      [FD_BOX_ERR] = s->stdio[2] };

	s->box_order = m.id;
	if (part_send(s->maker, MSG_BOX, &m, fds, FD_BOX_N) != OK)
		sandbox_fail(s, "the launcher died when it was to make its box");
}

static void box_over(struct sandbox *s)
{
	event_free(s->box_event);
	s->box_event = NULL;
	s->cpu_ms = box_cpu_ms(s->box);
	if (s->started && !s->failed)
		s->status = box_status(s->box);
	box_free(s->box);
	s->box = NULL;
}

static void on_box(evutil_socket_t fd, short what, void *arg)
{
	struct sandbox *s = arg;

	(void)fd;
	(void)what;
	switch (box_hear(s->box)) {
	case BOX_NOTHING:
		return;
	case BOX_READY:
		snprintf(s->limits, sizeof(s->limits), "%s", box_text(s->box));
		s->box_ready = true;
		break;
	case BOX_FAILED:
		sandbox_fail(s, "%s", box_text(s->box));
		box_over(s);
		break;
	case BOX_ENDED:
		if (s->state != SANDBOX_STOPPING && !s->started)
			sandbox_fail(s, "the box's keeper is gone");
		box_over(s);
		s->state = SANDBOX_STOPPING;
		break;
	}
	sandbox_step(s);
}

void sandbox_boxed(struct part *from, const struct msg_boxed *m, int *fds, size_t n_fds)
{
	struct sandbox *s = waiting(from, m->id, false);

	if (!s || m->ok != (n_fds == 1)) {
		channel_close_fds(fds, n_fds);
		part_lose(from, "a box that was not ordered");
		return;
	}
	s->box_order = 0;
	s->maker = NULL;
	if (!m->ok) {
		sandbox_fail(s, "%.*s", STR_ARG(m->text));
		sandbox_step(s);	/* likewise */
		return;
	}
	snprintf(s->isolation, sizeof(s->isolation), "%.*s", STR_ARG(m->text));
	s->box = box_take(fds[0]);
	if (s->box)
		s->box_event = event_new(s->a->base, box_fd(s->box), EV_READ | EV_PERSIST, on_box,
					 s);
	if (!s->box_event || event_add(s->box_event, NULL) < 0)
		sandbox_fail(s, "out of memory");
	else if (s->state == SANDBOX_STOPPING)
		box_end(s->box);
}

void sandboxes_maker_lost(struct appliance *a, const struct part *maker)
{
	for (struct sandbox *s = a->sandboxes; s; s = s->next) {
		if (s->maker != maker)
			continue;
		s->maker = NULL;
		s->wire_order = s->box_order = 0;
		if (a->confined)	/* else nothing is run, which is told once */
			sandbox_fail(s, "the launcher died while it made its wire or box");
		sandbox_step(s);	/* one that was being stopped has waited for the answer */
	}
}

/* ---- the certificate authority ---- */

/* A broker's successor makes none anew: it is asked to go on with the one that the box trusts.
 * Where a worker died before the first answer was here, the broker was asked twice, and has the
 * second. */
void sandbox_ca(struct part *from, const struct msg_sandbox_ca *m)
{
	struct sandbox *s = sandbox_by_number(from->a, m->sandbox);

	if (!s)
		return;		/* ended meanwhile */
	if (s->ca_awaited && --s->ca_awaited)
		return;
	if (m->pem.n == 0) {
		sandbox_fail(s, "the broker made no certificate");
	} else if (s->ca_pem.n == 0) {
		buf_put_str(&s->ca_pem, m->pem);
		buf_put_str(&s->ca_sealed, m->sealed);
		sandbox_step(s);
	} else if (!str_eq(buf_str(&s->ca_pem), m->pem)) {
		sandbox_fail(s, "the broker has lost its certificate authority");
	}
}

/* ---- steps ---- */

static void order_wire(struct sandbox *s)
{
	struct msg_wire m = { .id = ++s->a->last_order, .index = s->number,
			      .netns = str_of(s->netns_path ? s->netns_path : "") };

	s->wire_order = m.id;
	if (part_send(s->maker, MSG_WIRE, &m, &s->netns, s->netns >= 0) != OK)
		sandbox_fail(s, "the launcher died when it was to make its wire");
}

static bool roles_are_ready(const struct appliance *a)
{
	return a->dialer.state == PART_READY && a->broker.state == PART_READY;
}

static void start(struct sandbox *s)
{
	bool box = s->texts >= 0;

	if (put_sandbox_start(s) != OK) {
		sandbox_fail(s, "the audit log takes no record of its start");
		return;
	}
	if (box && box_start(s->box) != OK) {
		sandbox_fail(s, "the box's keeper is gone");
		return;
	}
	s->started = true;
	s->state = SANDBOX_RUNNING;
	if (s->a->on_sandbox_start)
		s->a->on_sandbox_start(s->a, s);
}

static void step_forward(struct sandbox *s)
{
	bool box = s->texts >= 0;

	if (s->wired && !s->join && s->worker.state == PART_STARTING && roles_are_ready(s->a) &&
	    !sandbox_join(s))
		sandbox_fail(s, "its roles could not be joined");
	if (s->state == SANDBOX_STARTING && !s->maker && !s->box) {
		s->maker = part_launcher(s->a);
		if (s->maker && !s->wired)
			order_wire(s);
		else if (s->maker && box && s->ca_pem.n)
			order_box(s);
		else
			s->maker = NULL;
	}
	if (s->state == SANDBOX_STARTING && s->a->confined && s->worker.state == PART_READY &&
	    s->ca_pem.n && (!box || s->box_ready))
		start(s);
}

static void finish(struct sandbox *s)
{
	struct appliance *a = s->a;

	sandbox_forget(s);
	sandbox_count(s);
	if (s->wired)
		wire_box_close(a->gateway, &s->wire);
	s->wired = false;
	if (s->ring)
		rings_end(a, s->ring);
	s->ring = NULL;
	s->ended_at = time(NULL);
	s->state = SANDBOX_ENDED;
	a->n_sandboxes--;
	if (s->started && put_sandbox_stop(s) != OK)
		fprintf(stderr, "exeat: the end of %s cannot be recorded\n", s->name);
	a->on_sandbox_end(a, s);
}

static void step_back(struct sandbox *s)
{
	if (s->box || s->box_order || s->wire_order)
		return;		/* until the launcher has said what became of it */
	if (s->worker.state == PART_NONE)
		finish(s);
	else if (!s->worker.asked_to_end)
		part_end(&s->worker);
}

void sandbox_step(struct sandbox *s)
{
	if (s->state == SANDBOX_STARTING || s->state == SANDBOX_RUNNING)
		step_forward(s);
	if (s->state == SANDBOX_STOPPING)
		step_back(s);
}

/* ---- the end ---- */

static void end_now(struct sandbox *s)
{
	s->state = SANDBOX_STOPPING;
	if (s->box)
		box_end(s->box);
	sandbox_step(s);
}

void sandbox_fail(struct sandbox *s, const char *fmt, ...)
{
	va_list ap;

	if (s->state == SANDBOX_STOPPING || s->state == SANDBOX_ENDED)
		return;
	va_start(ap, fmt);
	vsnprintf(s->why, sizeof(s->why), fmt, ap);
	va_end(ap);
	s->failed = true;
	fprintf(stderr, "exeat: %s: %s\n", s->name, s->why);
	end_now(s);
}

void sandbox_stop(struct sandbox *s, bool kill, const char *why)
{
	if (s->state == SANDBOX_ENDED)
		return;
	if (!s->why[0])
		snprintf(s->why, sizeof(s->why), "%s", why);
	if (s->state == SANDBOX_RUNNING && s->box && !kill) {
		box_signal(s->box, SIGTERM);
		if (!s->kill_at_ms)
			s->kill_at_ms = clock_ms() + STOP_GRACE_MS;
	} else {
		end_now(s);
	}
}

static const char *awaited(const struct sandbox *s)
{
	if (!s->wired)
		return "its wire is not there";
	if (s->worker.state != PART_READY)
		return "its worker is not ready";
	return s->ca_pem.n ? "its box is not there" : "the broker has made no certificate";
}

void sandbox_tick(struct sandbox *s, uint64_t now)
{
	if (s->state == SANDBOX_RUNNING && s->kill_at_ms && now >= s->kill_at_ms)
		end_now(s);
	else if (s->state == SANDBOX_STARTING && s->a->confined &&
		 now - s->created_ms >= SANDBOX_START_MS)
		sandbox_fail(s, "not started within %d s: %s", SANDBOX_START_MS / 1000, awaited(s));
}

void sandbox_count(struct sandbox *s)
{
	struct wire_error why;

	if (s->wired &&
	    (wire_box_bytes(s->a->gateway, &s->wire, &s->bytes_up, &s->bytes_down, &why) != OK ||
			 wire_box_untold(s->a->gateway, &s->wire, &s->untold, &why) != OK))
		fprintf(stderr, "exeat: %s: network: %s: %s\n", s->name, why.what,
			strerror(why.code));
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

void sandbox_free(struct sandbox *s)
{
	struct sandbox **at = &s->a->sandboxes;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	part_remove(&s->worker);
	wire_box_release(&s->wire);
	lease_table_free(s->leases);
	close_fd(s->leases_fd);
	close_fd(s->texts);
	close_fd(s->netns);
	for (int i = 0; i < 3; i++)
		close_fd(s->stdio[i]);
	buf_free(&s->ca_pem);
	buf_wipe(&s->ca_sealed);
	policy_file_release(s->policy);
	free(s->rootfs);
	free(s->workspace);
	free(s->output);
	free(s->netns_path);
	free(s->program);
	free(s);
}
