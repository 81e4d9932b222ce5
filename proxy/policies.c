/* Theory of operation
 *
 * A policy file is compiled by a reader that the launcher starts; what it leaves is a sealed image,
 * mapped and validated here and by each role that is given it. A reload compiles every file that is
 * in use, once each; only when all of them load is anything changed. Then, for each sandbox whose
 * policy became another: the recorder is told the digest that its worker's records may name from
 * now on, broker, dialer and worker get the image, and the kernel's set is gone through anew. What
 * both policies allow is allowed at every moment of it.
 */
#include "proxy/appliance.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proxy/reader_client.h"
#include "proxy/supervisor_records.h"

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
	struct part reader;
	char *path;
	int fds[2];		/* source, image */
	bool good;
	struct buf diagnostics;
	policy_loaded_fn *fn;
	void *arg;
};

static void compile_free(struct compile *c)
{
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
	struct msg_keep_policy m = { .digest = str_of(f->digest) };
	struct appliance *a = c->reader.a;

	for (size_t i = 0; i < 2; i++)
		if (a->launcher[i].state == PART_READY &&
		    part_send(&a->launcher[i], MSG_KEEP_POLICY, &m, &c->fds[0], 1) == OK)
			return;
}

static void compile_done(struct compile *c)
{
	struct policy_file *f = NULL;

	if (c->good && reader_image_sealed(c->fds[1]))
		f = policy_file_new(c->path, c->fds[1]);
	if (f)
		keep_source(c, f);
	if (!f && c->diagnostics.n == 0)
		buf_printf(&c->diagnostics, "%s: the reader ended before it was done\n", c->path);
	c->fn(c->arg, f, buf_str(&c->diagnostics));
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

bool policies_compile(struct appliance *a, const char *path, policy_loaded_fn *fn, void *arg)
{
	struct compile *c = calloc(1, sizeof(*c));

	if (!c)
		return false;
	buf_init(&c->diagnostics, MSG_DIAGNOSTICS_MAX);
	c->path = strdup(path);
	c->fn = fn;
	c->arg = arg;
	c->fds[0] = reader_open(path, &c->diagnostics);
	c->fds[1] = memfd_create("policy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (c->fds[0] < 0 || c->fds[1] < 0 || !c->path) {
		fn(arg, NULL, c->diagnostics.n ? buf_str(&c->diagnostics) : STR("out of memory"));
		compile_free(c);
		return true;
	}
	part_init(a, &c->reader, ROLE_READER, &reader_hooks, c);
	part_want(&c->reader);
	return true;
}

/* ---- putting in force ---- */

static void give_policy(struct part *to, uint32_t sandbox, struct sandbox *s)
{
	struct msg_policy m = { .sandbox = sandbox };

	/* Who is not there yet will be told of the sandbox with its new policy. */
	if (to->state == PART_READY && part_send(to, MSG_POLICY, &m, &s->policy->image, 1) == OK)
		s->policy_awaited++;
}

static void put_in_force(struct sandbox *s, struct policy_file *f)
{
	struct appliance *a = s->a;
	struct policy_file *before = s->policy;

	if (put_policy_load(a->ring, s->name, f, before->digest) != OK)
		fprintf(stderr, "exeat: a new policy of %s cannot be recorded\n", s->name);
	s->policy = policy_file_hold(f);
	policy_file_release(before);
	s->policy_awaited = 0;
	if (s->ring)
		rings_set_policy(a, s->ring, str_of(f->digest));
	if (!s->joined)
		return;
	give_policy(&a->broker, s->number, s);
	give_policy(&a->dialer, s->number, s);
	give_policy(&s->worker, 0, s);
	if (!sandbox_admit_all(s))
		sandbox_fail(s, "what its new policy names cannot be admitted");
}

/* ---- reloading ---- */

struct reload {
	struct appliance *a;
	/* The one that it is for, which may end meanwhile; 0: all. */
	uint32_t only;
	char name[MSG_SANDBOX_NAME_MAX + 1];
	struct policy_file **files;	/* compiled anew */
	size_t n, awaited;
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
	       (!r->only || (r->only == s->number && strcmp(r->name, s->name) == 0));
}

static void apply(struct reload *r)
{
	for (struct sandbox *s = r->a->sandboxes; s; s = s->next) {
		if (!concerns(r, s))
			continue;
		r->report.sandboxes++;
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

static void reload_done(struct reload *r)
{
	r->report.files = (unsigned)r->n;
	if (r->report.ok)
		apply(r);
	r->report.diagnostics = buf_str(&r->diagnostics);
	r->fn(r->arg, &r->report);
	reload_free(r);
}

static void on_file(void *arg, struct policy_file *f, struct str diagnostics)
{
	struct reload *r = arg;

	if (f) {
		r->files[r->n++] = policy_file_hold(f);
	} else {
		r->report.ok = false;
		buf_put_str(&r->diagnostics, diagnostics);
		if (put_policy_reject(r->a->ring, r->name, "", diagnostics) != OK)
			fprintf(stderr, "exeat: a policy that does not load cannot be recorded\n");
	}
	if (--r->awaited == 0)
		reload_done(r);
}

/* Is it the first sandbox with this file? Each is compiled once. */
static bool first_with_its_file(const struct reload *r, const struct sandbox *s)
{
	for (const struct sandbox *o = r->a->sandboxes; o != s; o = o->next)
		if (concerns(r, o) && strcmp(o->policy->path, s->policy->path) == 0)
			return false;
	return true;
}

bool policies_reload(struct appliance *a, struct sandbox *only, policy_reloaded_fn *fn, void *arg)
{
	struct reload *r = calloc(1, sizeof(*r));
	size_t n = 0;

	if (!r)
		return false;
	*r = (struct reload){ .a = a, .only = only ? only->number : 0, .report = { .ok = true },
			      .fn = fn, .arg = arg };
	if (only)
		snprintf(r->name, sizeof(r->name), "%s", only->name);
	buf_init(&r->diagnostics, MSG_DIAGNOSTICS_MAX);
	for (struct sandbox *s = a->sandboxes; s; s = s->next)
		n += concerns(r, s);
	r->files = calloc(n + 1, sizeof(*r->files));
	if (!r->files) {
		reload_free(r);
		return false;
	}
	r->awaited = 1;		/* this loop itself: an answer may come from within it */
	for (struct sandbox *s = a->sandboxes; s; s = s->next) {
		if (!concerns(r, s) || !first_with_its_file(r, s))
			continue;
		r->awaited++;
		if (!policies_compile(a, s->policy->path, on_file, r))
			on_file(r, NULL, STR("out of memory"));
	}
	if (--r->awaited == 0)
		reload_done(r);
	return true;
}

void policies_taken(struct part *from, const struct msg_policy_taken *m)
{
	struct sandbox *s = from->role == ROLE_WORKER ? from->owner
						       : sandbox_by_number(from->a, m->sandbox);

	if (!m->ok) {
		part_lose(from, "does not take a policy that is valid");
		return;
	}
	if (s && s->policy_awaited)
		s->policy_awaited--;
}
