/* Theory of operation
 *
 * A handler that can answer does. The others leave a struct waiter: whose request it is, and what
 * is waited for: that a sandbox runs, or that it has ended. The appliance tells both. A sandbox is
 * gone from the appliance once it has ended; what there was to say of it is kept here for a while,
 * so that somebody who asks too late learns how it ended.
 *
 * Only who waits for an end and nothing else (inspect) is forgotten when he leaves: what starts or
 * stops goes on, and its record says what came of it.
 */
#include "proxy/serve_api.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "proxy/access_show.h"
#include "proxy/access_table.h"
#include "proxy/clock.h"
#include "proxy/control.h"
#include "proxy/control_records.h"
#include "proxy/serve_view.h"
#include "proxy/supervisor_records.h"

#define STATUS_MAX (64u << 10)

enum waits_for { WAITS_FOR_START, WAITS_FOR_END };

struct waiter {
	struct waiter *next;
	struct serve_api *api;
	struct sandbox *sandbox;
	enum waits_for what;
	struct control_request *rq;
};

struct serve_api {
	struct serve_api_config config;
	struct control *control;
	struct control_records records;
	struct waiter *waiters;
	struct serve_view *ended[SERVE_ENDED_MAX];	/* newest first */
	int nothing;			/* /dev/null: a box's input, and output that is not kept */
	const char *runtime;
	uint64_t started_us;
};

/* ---- answers ---- */

static void answer_json(struct control_request *rq, unsigned status, const struct buf *json)
{
	if (json->failed)
		control_refuse(rq, 500, "the answer is too large, or memory ran out");
	else
		control_answer(rq, status, buf_str(json));
}

static void answer_view(struct control_request *rq, unsigned status, const struct serve_view *view)
{
	struct buf out;
	struct json j;

	buf_init(&out, CONTROL_ANSWER_MAX);
	json_init(&j, &out);
	control_write_sandbox(&j, &view->v);
	answer_json(rq, status, &out);
	buf_free(&out);
}

static void answer_sandbox(struct serve_api *api, struct control_request *rq, unsigned status,
			   struct sandbox *s)
{
	struct serve_view view;

	serve_view_fill(&view, s, api->config.policies);
	answer_view(rq, status, &view);
}

static void no_such(struct control_request *rq, struct str name)
{
	control_refuse(rq, 404, "there is no sandbox \"%.*s\": exeat sandbox list shows those that are there",
		       STR_ARG(name));
}

/* What is not on record does not happen, and nothing begins at the end. */
static bool can_change(const struct serve_api *api, struct control_request *rq)
{
	if (api->config.a->closing) {
		control_refuse(rq, 503, "the appliance is about to end");
		return false;
	}
	if (!api->config.a->log_unwritable)
		return true;
	control_refuse(rq, 503, "the audit log cannot be written: nothing is changed until it can");
	return false;
}

/* ---- waiting ---- */

static void on_gone(void *arg)
{
	struct waiter *w = arg, **at = &w->api->waiters;
	struct control_request *rq = w->rq;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	free(w);
	control_answer(rq, 200, STR("{}"));
}

static void wait_for(struct serve_api *api, struct control_request *rq, struct sandbox *s,
		     enum waits_for what, bool while_there)
{
	struct waiter *w = calloc(1, sizeof(*w));

	if (!w) {
		control_refuse(rq, 503, "out of memory");
		return;
	}
	*w = (struct waiter){ .next = api->waiters, .api = api, .sandbox = s, .what = what,
			      .rq = rq };
	api->waiters = w;
	if (while_there)
		control_on_gone(rq, on_gone, w);
}

/* Takes one that waits for this out of the list; NULL: there is no other. */
static struct waiter *next_waiter(struct serve_api *api, const struct sandbox *s, bool ended)
{
	for (struct waiter **at = &api->waiters, *w; (w = *at); at = &w->next) {
		if (w->sandbox != s || (!ended && w->what == WAITS_FOR_END))
			continue;
		*at = w->next;
		return w;
	}
	return NULL;
}

void serve_api_started(struct serve_api *api, struct sandbox *s)
{
	struct waiter *w;

	while ((w = next_waiter(api, s, false))) {
		answer_sandbox(api, w->rq, 201, s);
		free(w);
	}
}

/* The oldest that is remembered gives its place. */
static void remember(struct serve_api *api, struct sandbox *s)
{
	struct serve_view *place = api->ended[SERVE_ENDED_MAX - 1];

	if (!place)
		place = calloc(1, sizeof(*place));
	if (!place)
		return;
	memmove(api->ended + 1, api->ended, sizeof(api->ended) - sizeof(api->ended[0]));
	api->ended[0] = place;
	serve_view_fill(place, s, api->config.policies);
}

static const struct serve_view *find_ended(const struct serve_api *api, struct str name)
{
	for (size_t i = 0; i < SERVE_ENDED_MAX && api->ended[i]; i++)
		if (str_eq(api->ended[i]->v.name, name))
			return api->ended[i];
	return NULL;
}

void serve_api_ended(struct serve_api *api, struct sandbox *s)
{
	struct waiter *w;

	remember(api, s);
	while ((w = next_waiter(api, s, true))) {
		if (w->what == WAITS_FOR_START)
			control_refuse(w->rq, 422, "it did not start: %s", s->why[0] ? s->why : "it was stopped");
		else
			answer_sandbox(api, w->rq, 200, s);
		free(w);
	}
}

/* ---- asking ---- */

static void serve_status(struct control_request *rq, const void *args, void *arg)
{
	struct serve_api *api = arg;
	struct buf out;
	struct json j;

	(void)args;
	buf_init(&out, STATUS_MAX);
	json_init(&j, &out);
	serve_view_status(&j, api->config.a, api->started_us);
	answer_json(rq, 200, &out);
	buf_free(&out);
}

static void put_sandboxes(struct serve_api *api, struct json *j)
{
	struct serve_view view;

	json_array(j);
	for (struct sandbox *s = api->config.a->sandboxes; s; s = s->next) {
		if (s->state == SANDBOX_ENDED)	/* it is remembered */
			continue;
		serve_view_fill(&view, s, api->config.policies);
		control_write_sandbox(j, &view.v);
	}
	for (size_t i = 0; i < SERVE_ENDED_MAX && api->ended[i]; i++)
		if (!sandbox_find(api->config.a, api->ended[i]->v.name))
			control_write_sandbox(j, &api->ended[i]->v);
	json_array_end(j);
}

static void serve_sandbox_list(struct control_request *rq, const void *args, void *arg)
{
	struct serve_api *api = arg;
	struct buf out;
	struct json j;

	(void)args;
	buf_init(&out, CONTROL_ANSWER_MAX);
	json_init(&j, &out);
	json_object(&j);
	json_key(&j, "sandboxes");
	put_sandboxes(api, &j);
	json_object_end(&j);
	answer_json(rq, 200, &out);
	buf_free(&out);
}

static void serve_sandbox_inspect(struct control_request *rq, const void *args, void *arg)
{
	const struct control_sandbox_inspect_args *a = args;
	struct serve_api *api = arg;
	struct sandbox *s = sandbox_find(api->config.a, a->name);
	const struct serve_view *ended = s ? NULL : find_ended(api, a->name);

	control_about(rq, a->name);
	if (s && a->wait)
		wait_for(api, rq, s, WAITS_FOR_END, true);
	else if (s)
		answer_sandbox(api, rq, 200, s);
	else if (ended)
		answer_view(rq, 200, ended);
	else
		no_such(rq, a->name);
}

/* ---- starting ---- */

/* What a request for a start says, as a specification of a sandbox wants it. */
struct start_job {
	struct serve_api *api;
	struct control_request *rq;
	struct arena arena;
	struct sandbox_spec spec;
	const char *policy_path;
	unsigned reloads_begun;	/* when it began to be compiled */
};

static void start_free(struct start_job *job)
{
	arena_free(&job->arena);
	free(job);
}

/* NULL for an empty text. */
static const char *word(struct start_job *job, struct str s)
{
	return s.n ? arena_copy(&job->arena, s).p : NULL;
}

static const char *path_of_policy(struct start_job *job, const struct control_sandbox_start_args *a)
{
	char path[MSG_PATH_MAX];

	if (a->policy_file.n)
		return word(job, a->policy_file);
	snprintf(path, sizeof(path), "%s/%.*s.yaml", job->api->config.policies, STR_ARG(a->policy));
	return word(job, str_of(path));
}

static void put_command(struct start_job *job, const struct control_texts *words)
{
	char **command;

	if (!words->n)
		return;
	command = arena_take(&job->arena, words->n + 1, sizeof(*command));
	for (size_t i = 0; command && i < words->n; i++)
		command[i] = (char *)arena_copy(&job->arena, words->items[i]).p;
	job->spec.command = command;
}

/* NULL: out of memory. */
static struct start_job *start_new(struct serve_api *api, struct control_request *rq,
				   const struct control_sandbox_start_args *a)
{
	struct start_job *job = calloc(1, sizeof(*job));
	int nothing = api->nothing;

	if (!job)
		return NULL;
	job->api = api;
	job->rq = rq;
	job->policy_path = path_of_policy(job, a);
	job->spec = (struct sandbox_spec){ .name = word(job, a->name),
					   .rootfs = word(job, a->rootfs),
					   .workspace = word(job, a->workspace),
					   .output = word(job, a->output),
					   .stdio = { nothing, nothing, nothing }, .netns = -1,
					   .netns_path = word(job, a->netns) };
	put_command(job, &a->command);
	if (!job->arena.failed)
		return job;
	start_free(job);
	return NULL;
}

static void on_policy(void *arg, const char *path, struct policy_file *file,
		      struct str diagnostics);

/* A reload that has begun meanwhile is not followed by a policy that was read before it. */
static bool compile(struct start_job *job)
{
	struct appliance *a = job->api->config.a;

	job->reloads_begun = a->reloads_begun;
	return policies_compile(a, job->policy_path, on_policy, job);
}

static void on_policy(void *arg, const char *path, struct policy_file *file,
		      struct str diagnostics)
{
	struct start_job *job = arg;
	struct serve_api *api = job->api;
	struct appliance *a = api->config.a;
	char why[256] = "";
	struct sandbox *s = NULL;

	if (file && job->reloads_begun != a->reloads_begun && compile(job))
		return;
	if (!file) {
		if (put_policy_reject(a->ring, job->spec.name, path, diagnostics) != OK)
			fprintf(stderr, "exeat: a policy that does not load cannot be recorded\n");
		control_refuse(job->rq, 422, "its policy does not load:\n%.*s", STR_ARG(diagnostics));
	} else if (can_change(api, job->rq)) {
		job->spec.policy = file;
		s = sandbox_create(a, &job->spec, why, sizeof(why));
		if (!s)
			control_refuse(job->rq, 409, "%s: %s", job->spec.name, why);
	}
	if (s && s->state == SANDBOX_ENDED)
		control_refuse(job->rq, 422, "it did not start: %s", s->why);
	else if (s)
		wait_for(api, job->rq, s, WAITS_FOR_START, false);
	start_free(job);
}

static void serve_sandbox_start(struct control_request *rq, const void *args, void *arg)
{
	const struct control_sandbox_start_args *a = args;
	struct serve_api *api = arg;
	struct start_job *job;

	control_about(rq, a->name);
	if (!can_change(api, rq))
		return;
	if (sandbox_find(api->config.a, a->name)) {
		control_refuse(rq, 409, "a sandbox \"%.*s\" is there: stop it, or choose another name",
			       STR_ARG(a->name));
		return;
	}
	job = start_new(api, rq, a);
	if (job && compile(job))
		return;
	if (job)
		start_free(job);
	control_refuse(rq, 503, "out of memory");
}

/* ---- changing ---- */

static void serve_sandbox_stop(struct control_request *rq, const void *args, void *arg)
{
	const struct control_sandbox_stop_args *a = args;
	struct serve_api *api = arg;
	struct sandbox *s = sandbox_find(api->config.a, a->name);

	control_about(rq, a->name);
	if (!s) {
		no_such(rq, a->name);
		return;
	}
	/* First, since it can have ended before sandbox_stop() returns. */
	wait_for(api, rq, s, WAITS_FOR_END, false);
	sandbox_stop(s, a->kill, "stopped over the control socket");
}

static void serve_sandbox_exec(struct control_request *rq, const void *args, void *arg)
{
	const struct control_sandbox_exec_args *a = args;
	struct serve_api *api = arg;
	struct sandbox *s = sandbox_find(api->config.a, a->name);
	struct control_exec answer = { .runtime = str_of(api->runtime) };
	char state[BOX_STATE_MAX];
	struct buf out;
	struct json j;

	control_about(rq, a->name);
	if (!can_change(api, rq))
		return;
	if (!s) {
		no_such(rq, a->name);
		return;
	}
	if (s->state != SANDBOX_RUNNING || !s->box || !api->runtime) {
		control_refuse(rq, 409, "nothing can be run in \"%s\": it has no box that runs", s->name);
		return;
	}
	box_state(s->box_id, state);
	answer.container = str_of(s->box_id);
	answer.state = str_of(state);
	buf_init(&out, STATUS_MAX);
	json_init(&j, &out);
	control_write_exec(&j, &answer);
	answer_json(rq, 200, &out);
	buf_free(&out);
}

struct reload_job {
	struct serve_api *api;
	struct control_request *rq;
};

static void on_reloaded(void *arg, const struct reload_report *report)
{
	struct reload_job *job = arg;
	struct buf out;
	struct json j;

	buf_init(&out, CONTROL_ANSWER_MAX);
	json_init(&j, &out);
	json_object(&j);
	json_put_u64(&j, "files", report->files);
	json_put_u64(&j, "sandboxes", report->sandboxes);
	json_put_u64(&j, "changed", report->changed);
	json_put_u64(&j, "waiting", report->waiting);
	json_object_end(&j);
	if (report->ok)
		answer_json(job->rq, 200, &out);
	else
		control_refuse(job->rq, 422, "nothing is changed: a policy does not load:\n%.*s",
			       STR_ARG(report->diagnostics));
	buf_free(&out);
	free(job);
}

static void serve_policy_reload(struct control_request *rq, const void *args, void *arg)
{
	const struct control_policy_reload_args *a = args;
	struct serve_api *api = arg;
	struct sandbox *only = a->sandbox.n ? sandbox_find(api->config.a, a->sandbox) : NULL;
	struct reload_job *job;

	control_about(rq, a->sandbox);
	if (!can_change(api, rq))
		return;
	if (a->sandbox.n && !only) {
		no_such(rq, a->sandbox);
		return;
	}
	job = calloc(1, sizeof(*job));
	if (job)
		*job = (struct reload_job){ api, rq };
	if (job && policies_reload(api->config.a, only, on_reloaded, job))
		return;
	free(job);
	control_refuse(rq, 503, "out of memory");
}

/* ---- requests for access ---- */

static void serve_request_list(struct control_request *rq, const void *args, void *arg)
{
	const struct control_request_list_args *a = args;
	struct serve_api *api = arg;
	struct buf out;
	struct json j;

	buf_init(&out, CONTROL_ANSWER_MAX);
	json_init(&j, &out);
	json_object(&j);
	json_key(&j, "requests");
	access_show_list(api->config.a->access, a->closed, &j);
	json_object_end(&j);
	answer_json(rq, 200, &out);
	buf_free(&out);
}

static void answer_access(struct serve_api *api, struct control_request *rq, uint64_t number)
{
	const struct access *one = access_table_find(api->config.a->access, (uint32_t)number);
	const struct sandbox *s;
	struct buf out;
	struct json j;

	if (!one) {
		control_refuse(rq, 404, "there is no request %u: exeat request list shows those that are there",
			       (unsigned)number);
		return;
	}
	control_about(rq, one->sandbox);
	s = sandbox_find(api->config.a, one->sandbox);
	buf_init(&out, CONTROL_ANSWER_MAX);
	json_init(&j, &out);
	access_show_one(one, s ? s->policy->map : NULL, &j);
	answer_json(rq, 200, &out);
	buf_free(&out);
}

static void serve_request_show(struct control_request *rq, const void *args, void *arg)
{
	const struct control_request_show_args *a = args;

	answer_access(arg, rq, a->number);
}

static void serve_request_close(struct control_request *rq, const void *args, void *arg)
{
	const struct control_request_close_args *a = args;
	struct serve_api *api = arg;
	struct appliance *app = api->config.a;
	enum err e;

	if (!can_change(api, rq))
		return;
	e = access_table_close(app->access, app->ring, (uint32_t)a->number, a->note,
			       clock_wall_us());
	if (e == ERR_NOTFOUND)
		control_refuse(rq, 404, "there is no request %u that is open", (unsigned)a->number);
	else if (e)
		control_refuse(rq, 503, "that it is closed cannot be recorded (%s): it stays open", err_text(e));
	else
		answer_access(api, rq, a->number);
}

/* ---- the whole ---- */

static void on_done(void *arg, const struct control_done *done)
{
	struct serve_api *api = arg;

	control_records_done(&api->records, done);
}

void serve_api_tick(struct serve_api *api, bool last)
{
	control_records_tell(&api->records, last);
}

static const struct control_route routes[] = {
#define X(name, verb, path, root, together) \
	{ .method = verb, .pattern = path, .root_only = root, \
	  .args_size = sizeof(struct control_##name##_args), .fields = control_##name##_fields, \
	  .handler = serve_##name, .check = together },
	CONTROL_ROUTES(X)
#undef X
	{ 0 },
};

struct serve_api *serve_api_open(const struct serve_api_config *config)
{
	struct serve_api *api = calloc(1, sizeof(*api));
	const struct control_config control = { .base = config->a->base,
						.listener = config->listener,
						.group = config->group, .routes = routes,
						.on_done = on_done, .arg = api };

	if (!api)
		return NULL;
	api->config = *config;
	control_records_init(&api->records, config->a->ring);
	api->started_us = clock_wall_us();
	api->runtime = box_runtime_path();
	api->nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (api->nothing >= 0)
		api->control = control_new(&control);
	if (api->control)
		return api;
	fprintf(stderr, "exeat: the control socket cannot be served: no memory, or no /dev/null\n");
	serve_api_close(api);
	return NULL;
}

void serve_api_close(struct serve_api *api)
{
	if (!api)
		return;
	control_free(api->control);
	while (api->waiters) {
		struct waiter *w = api->waiters;

		api->waiters = w->next;
		control_answer(w->rq, 503, STR("{}"));	/* nobody hears it: it is freed */
		free(w);
	}
	for (size_t i = 0; i < SERVE_ENDED_MAX; i++)
		free(api->ended[i]);
	if (api->nothing >= 0)
		close(api->nothing);
	free(api);
}
