/* Theory of operation
 *
 * A policy file is read by a launcher's child, since the disk that it lies on may hang, and
 * compiled by a reader that the launcher starts; what it leaves is a sealed image, mapped and
 * validated here and by each role that is given it. What was read is sealed, too: what the launcher
 * keeps beside the log is what was compiled. A reload compiles every file that is in use, once
 * each; only when all of them load is anything changed. Reloads of all go one after the other, and
 * those of one sandbox; one that waits for a disk holds up no reload of another sandbox. What was
 * read later is in force later: a reload passes over a sandbox whose policy was read after it had
 * begun.
 *
 * A sandbox's policy is put in force in steps, so that what both policies allow is allowed at every
 * moment of it, and what only one of them allows is refused in words:
 *
 *	1. The recorder is told the digest that the worker's records may name from now on, and
 *	   dialer and broker are given the image.
 *	2. When both have taken it (or are gone: a successor is told of the sandbox with its new
 *	   policy), the worker is given it. Until then it asks them for nothing that the new policy
 *	   does not allow, unless the old one did, too.
 *	3. When the worker has taken it, the kernel's set is gone through anew: what the worker has
 *	   asked leases for under the old policy has come by then.
 *
 * A worker that was told its start, but is not ready, is given it when it is. Who has asked for the
 * reload is answered after the third step of all sandboxes, or after RELOAD_TAKEN_MS.
 */
#include "proxy/appliance.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proxy/clock.h"
#include "proxy/reader_client.h"
#include "proxy/supervisor_records.h"

#define COMPILE_DESCRIPTORS 3	/* of ours, while a file is read and compiled */

/* ---- files ---- */

struct policy_file *policy_file_new(const char *path, int image)
{
	struct policy_file *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->refs = 1;
	f->image = fcntl(image, F_DUPFD_CLOEXEC, 0);
	f->path = strdup(path);
	if (!f->path || f->image < 0 || policy_map(&f->image, 1, &f->map) != OK) {
		policy_file_release(f);
		return NULL;
	}
	snprintf(f->digest, sizeof(f->digest), "%.*s", STR_ARG(policy_digest(f->map)));
	return f;
}

struct policy_file *policy_file_hold(struct policy_file *f)
{
	f->refs++;
	return f;
}

void policy_file_release(struct policy_file *f)
{
	if (!f || --f->refs)
		return;
	policy_free(f->map);
	if (f->image >= 0)
		close(f->image);
	free(f->path);
	free(f);
}

/* ---- compiling ---- */

struct compile {
	struct compile *next;
	struct appliance *a;
	struct part *asked;		/* to read it: what it sends is waited for */
	uint32_t order;
	struct part reader;		/* once it is read */
	char *path;
	int fds[2];		/* source, image */
	bool good;
	struct buf diagnostics;
	policy_loaded_fn *fn;
	void *arg;
};

static void compile_free(struct compile *c)
{
	struct compile **at = &c->a->compiles;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	for (int i = 0; i < 2; i++)
		if (c->fds[i] >= 0)
			close(c->fds[i]);
	buf_free(&c->diagnostics);
	free(c->path);
	free(c);
}

/* What it was made of stays beside the log; one that is lost with its launcher is no reason to
 * refuse it. */
static void keep_source(struct compile *c, const struct policy_file *f)
{
	struct msg_keep_policy m = { .digest = str_of(f->digest), .file = str_of(f->path) };
	struct part *launcher = part_launcher(c->a);

	if (launcher)
		(void)!part_send(launcher, MSG_KEEP_POLICY, &m, &c->fds[0], 1);
}

static void compile_done(struct compile *c)
{
	struct policy_file *f = NULL;

	if (c->a->closing)
		buf_put_str(&c->diagnostics, STR("the appliance ends\n"));
	else if (c->good && reader_sealed(c->fds[1]))
		f = policy_file_new(c->path, c->fds[1]);
	if (f)
		keep_source(c, f);
	if (!f && c->diagnostics.n == 0)
		buf_printf(&c->diagnostics, "%s: the reader ended before it was done\n", c->path);
	c->fn(c->arg, c->path, f, buf_str(&c->diagnostics));
	policy_file_release(f);
	part_remove(&c->reader);
	compile_free(c);
}

static bool reader_started(struct part *p)
{
	struct compile *c = p->owner;

	return reader_ask(p->channel, c->path, p->a->settings, true, c->fds) == OK;
}

static void reader_message(struct part *p, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	const struct msg_read_done *done = msg;
	struct compile *c = p->owner;

	channel_close_fds(fds, n_fds);
	if (type != MSG_READ_DONE) {
		part_lose(p, "message in the wrong direction");
		return;
	}
	c->good = done->ok;
	buf_put_str(&c->diagnostics, done->diagnostics);
	part_end(p);
}

static void reader_lost(struct part *p)
{
	struct compile *c = p->owner;

	c->good = false;
	compile_done(c);
}

static void reader_ended(struct part *p)
{
	compile_done(p->owner);
}

static const struct part_hooks reader_hooks = { .started = reader_started,
						.message = reader_message,
						.lost = reader_lost,
						.ended = reader_ended };

/* It was not read. */
static void not_read(struct compile *c, struct str why)
{
	buf_printf(&c->diagnostics, "%.*s\n", STR_ARG(why));
	c->fn(c->arg, c->path, NULL, buf_str(&c->diagnostics));
	compile_free(c);
}

static bool is_read(const struct compile *c)
{
	return c->fds[0] >= 0;
}

static void ask_source(struct compile *c)
{
	struct msg_source m = { .id = ++c->a->last_order, .file = str_of(c->path) };

	c->asked = part_launcher(c->a);
	c->order = m.id;
	if (c->asked)	/* one that is not there any more will be lost */
		(void)!part_send(c->asked, MSG_SOURCE, &m, NULL, 0);
}

void policies_ask_sources(struct appliance *a, const struct part *gone)
{
	for (struct compile *c = a->compiles; c; c = c->next)
		if (!is_read(c) && (!c->asked || c->asked == gone))
			ask_source(c);
}

void policies_source(struct part *from, const struct msg_source_is *m, int *fds, size_t n_fds)
{
	struct compile *c = from->a->compiles;

	while (c && !(!is_read(c) && c->asked == from && c->order == m->id))
		c = c->next;
	if (!c) {
		channel_close_fds(fds, n_fds);
		if (!from->a->closing)
			part_lose(from, "a file that was not ordered");
	} else if (n_fds == 0) {
		not_read(c, m->why);
	} else {
		c->fds[0] = fds[0];
		part_init(c->a, &c->reader, ROLE_READER, &reader_hooks, c);
		part_want(&c->reader);
	}
}

void policies_stop_asking(struct appliance *a)
{
	for (struct compile *c = a->compiles, *next; c; c = next) {
		next = c->next;
		if (!is_read(c))
			not_read(c, STR("the appliance ends"));
	}
}

/* Its source and its reader's channel, those under way included. */
static bool has_room(const struct compile *c)
{
	size_t n = 0;

	for (const struct compile *o = c->a->compiles; o; o = o->next)
		n += COMPILE_DESCRIPTORS;
	return descriptors_left(c->fds[1], n);
}

bool policies_compile(struct appliance *a, const char *path, policy_loaded_fn *fn, void *arg)
{
	struct compile *c = calloc(1, sizeof(*c));

	if (!c)
		return false;
	buf_init(&c->diagnostics, MSG_DIAGNOSTICS_MAX);
	c->a = a;
	c->next = a->compiles;
	a->compiles = c;
	c->path = strdup(path);
	c->fn = fn;
	c->arg = arg;
	c->fds[0] = -1;
	c->fds[1] = memfd_create("policy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (c->fds[1] < 0 || !c->path || !has_room(c)) {
		not_read(c, STR("out of memory, or too few descriptors are left (ulimit -n; LimitNOFILE in the service's unit)"));
		return true;
	}
	ask_source(c);
	return true;
}

/* ---- putting in force ---- */

static struct part *holder(struct appliance *a, size_t i)
{
	return i == 0 ? &a->dialer : &a->broker;
}

static bool is_settled(const struct sandbox *s)
{
	return s->state == SANDBOX_STOPPING || s->state == SANDBOX_ENDED ||
	       (!s->awaited[0] && !s->awaited[1] && !s->worker_owed && !s->worker_awaited &&
		!s->admission_owed);
}

static bool give_policy(struct part *to, uint32_t sandbox, const struct sandbox *s)
{
	struct msg_policy m = { .sandbox = sandbox };

	return to->state == PART_READY &&
	       part_send(to, MSG_POLICY, &m, &s->policy->image, 1) == OK;
}

/* The second and the third step, as far as they can be done by now. */
static void go_on(struct sandbox *s)
{
	if (is_settled(s) || s->awaited[0] || s->awaited[1])
		return;
	if (s->worker_owed && give_policy(&s->worker, 0, s)) {
		s->worker_owed = false;
		s->worker_awaited++;
	}
	if (s->worker_owed || s->worker_awaited || !s->admission_owed)
		return;
	s->admission_owed = false;
	if (s->wired && !sandbox_admit_all(s))
		sandbox_fail(s, "what its new policy names cannot be admitted");
}

static void put_in_force(struct sandbox *s, struct policy_file *f)
{
	struct appliance *a = s->a;
	struct policy_file *before = s->policy;

	if (put_policy_load(a->ring, s->name, f, before->digest) != OK)
		fprintf(stderr, "exeat: a new policy of %s cannot be recorded\n", s->name);
	s->policy = policy_file_hold(f);
	policy_file_release(before);
	if (s->ring)
		rings_set_policy(a, s->ring, str_of(f->digest));
	s->admission_owed = true;
	/* Who is not there yet will be told of the sandbox with its new policy. */
	s->worker_owed = s->join &&
			 (s->worker.state == PART_STARTING || s->worker.state == PART_READY);
	for (size_t i = 0; s->join && i < 2; i++)
		s->awaited[i] += give_policy(holder(a, i), s->number, s);
	go_on(s);
}

void policies_taken(struct part *from, const struct msg_policy_taken *m)
{
	bool worker = from->role == ROLE_WORKER;
	struct sandbox *s = worker ? from->owner : sandbox_by_number(from->a, m->sandbox);
	unsigned *awaited = !s ? NULL : worker ? &s->worker_awaited
					       : &s->awaited[from == &from->a->broker];

	if (!worker && from->role != ROLE_DIALER && from->role != ROLE_BROKER) {
		part_lose(from, "message in the wrong direction");
		return;
	}
	if (!m->ok) {
		part_lose(from, "does not take a policy that is valid");
		return;
	}
	if (awaited && *awaited)
		--*awaited;
	if (s)
		go_on(s);
	policies_step(from->a);
}

void policies_worker_ready(struct sandbox *s)
{
	go_on(s);
}

void policies_lost(const struct part *p)
{
	struct appliance *a = p->a;

	for (struct sandbox *s = a->sandboxes; s; s = s->next) {
		if (p == &s->worker) {
			s->worker_owed = false;
			s->worker_awaited = 0;
		} else if (p == &a->dialer || p == &a->broker) {
			s->awaited[p == &a->broker] = 0;
		}
		go_on(s);
	}
	policies_step(a);
}

/* ---- reloading ---- */

struct reload {
	struct reload *next;
	struct appliance *a;
	uint32_t only;			/* this sandbox's number; 0: all */
	char only_name[MSG_SANDBOX_NAME_MAX + 1];
	struct policy_file **files;	/* compiled anew */
	size_t n, awaited;
	unsigned begun;			/* the number of its beginning; 0: it waits for others */
	bool applied;
	uint64_t report_by;
	struct buf diagnostics;
	struct reload_report report;
	policy_reloaded_fn *fn;
	void *arg;
};

static void reload_free(struct reload *r)
{
	for (size_t i = 0; i < r->n; i++)
		policy_file_release(r->files[i]);
	free(r->files);
	buf_free(&r->diagnostics);
	free(r);
}

static bool concerns(const struct reload *r, const struct sandbox *s)
{
	return s->state != SANDBOX_ENDED && s->state != SANDBOX_STOPPING &&
	       (!r->only || (r->only == s->number && strcmp(r->only_name, s->name) == 0));
}

static void apply(struct reload *r)
{
	for (struct sandbox *s = r->a->sandboxes; s; s = s->next) {
		if (!concerns(r, s))
			continue;
		r->report.sandboxes++;
		if (s->policy_read >= r->begun)
			continue;
		s->policy_read = r->begun;
		for (size_t i = 0; i < r->n; i++) {
			if (strcmp(r->files[i]->path, s->policy->path) != 0 ||
			    strcmp(r->files[i]->digest, s->policy->digest) == 0)
				continue;
			r->report.changed++;
			put_in_force(s, r->files[i]);
			break;
		}
	}
}

/* All files are compiled. */
static void compiled(struct reload *r)
{
	r->report.files = (unsigned)r->n;
	if (r->report.ok)
		apply(r);
	r->applied = true;
	r->report_by = clock_ms() + RELOAD_TAKEN_MS;
	policies_step(r->a);
}

static void on_file(void *arg, const char *path, struct policy_file *f, struct str diagnostics)
{
	struct reload *r = arg;

	if (f) {
		r->files[r->n++] = policy_file_hold(f);
	} else {
		r->report.ok = false;
		buf_put_str(&r->diagnostics, diagnostics);
		if (put_policy_reject(r->a->ring, r->only_name, path, diagnostics) != OK)
			fprintf(stderr, "exeat: a policy that does not load cannot be recorded\n");
	}
	if (--r->awaited == 0)
		compiled(r);
}

/* Is it the first sandbox with this file? Each is compiled once. */
static bool first_with_its_file(const struct reload *r, const struct sandbox *s)
{
	for (const struct sandbox *o = r->a->sandboxes; o != s; o = o->next)
		if (concerns(r, o) && strcmp(o->policy->path, s->policy->path) == 0)
			return false;
	return true;
}

static void no_memory(struct reload *r)
{
	r->report.ok = false;
	buf_put_str(&r->diagnostics, STR("out of memory\n"));
}

static void begin(struct reload *r)
{
	struct appliance *a = r->a;
	size_t n = 0;

	r->begun = ++a->reloads_begun;
	r->awaited = 1;		/* this function itself: an answer may come from within it */
	for (struct sandbox *s = a->sandboxes; s; s = s->next)
		n += concerns(r, s);
	r->files = calloc(n + 1, sizeof(*r->files));
	if (!r->files)
		no_memory(r);
	for (struct sandbox *s = a->sandboxes; r->files && s; s = s->next) {
		if (!concerns(r, s) || !first_with_its_file(r, s))
			continue;
		r->awaited++;
		if (!policies_compile(a, s->policy->path, on_file, r)) {
			no_memory(r);
			r->awaited--;
		}
	}
	if (--r->awaited == 0)
		compiled(r);
}

/* Does it wait for one before it? */
static bool waits(const struct reload *r)
{
	for (const struct reload *o = r->a->reloads; o != r; o = o->next)
		if (!r->only || r->only == o->only)
			return true;
	return false;
}

static void begin_waiting(struct appliance *a)
{
	struct reload *r = a->reloads;

	while (r) {
		if (r->begun || waits(r)) {
			r = r->next;
		} else {
			begin(r);
			r = a->reloads;		/* it may be over */
		}
	}
}

bool policies_reload(struct appliance *a, struct sandbox *only, policy_reloaded_fn *fn, void *arg)
{
	struct reload *r = calloc(1, sizeof(*r)), **at = &a->reloads;

	if (!r)
		return false;
	*r = (struct reload){ .a = a, .report = { .ok = true }, .fn = fn, .arg = arg };
	if (only) {
		r->only = only->number;
		snprintf(r->only_name, sizeof(r->only_name), "%s", only->name);
	}
	buf_init(&r->diagnostics, MSG_DIAGNOSTICS_MAX);
	while (*at)
		at = &(*at)->next;
	*at = r;
	begin_waiting(a);
	return true;
}

static unsigned unsettled(const struct reload *r)
{
	unsigned n = 0;

	for (const struct sandbox *s = r->a->sandboxes; s; s = s->next)
		n += concerns(r, s) && !is_settled(s);
	return n;
}

static bool is_over(struct reload *r)
{
	if (!r->applied)
		return false;
	r->report.waiting = unsettled(r);
	return r->report.waiting == 0 || clock_ms() >= r->report_by;
}

void policies_step(struct appliance *a)
{
	struct reload **at = &a->reloads, *r;

	while ((r = *at)) {
		if (!is_over(r)) {
			at = &r->next;
			continue;
		}
		*at = r->next;
		r->report.diagnostics = buf_str(&r->diagnostics);
		r->fn(r->arg, &r->report);
		reload_free(r);
		at = &a->reloads;	/* who was told may have asked for another */
	}
	if (!a->closing)
		begin_waiting(a);
}

void policies_abandon(struct appliance *a)
{
	while (a->reloads) {
		struct reload *r = a->reloads;

		a->reloads = r->next;
		r->report.ok = false;
		r->report.diagnostics = STR("the appliance ends\n");
		r->fn(r->arg, &r->report);
		reload_free(r);
	}
}
