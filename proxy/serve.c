#include "proxy/serve.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "proxy/aftermath.h"
#include "proxy/appliance.h"
#include "proxy/clock.h"
#include "proxy/control.h"
#include "proxy/serve_api.h"
#include "sandbox/notify.h"

struct serve {
	const struct serve_spec *spec;
	struct serve_api *api;
	uint64_t alive_ms;	/* when the service manager was last told so */
	unsigned reloads;	/* SIGHUP's that are not over */
	bool done;
};

static void on_sandbox_start(struct appliance *a, struct sandbox *s)
{
	struct serve *serve = a->user;

	serve_api_started(serve->api, s);
}

static void on_sandbox_end(struct appliance *a, struct sandbox *s)
{
	struct serve *serve = a->user;

	serve_api_ended(serve->api, s);
}

/* Who waited for a sandbox's end has been answered by now. */
static void on_end(struct appliance *a)
{
	struct serve *serve = a->user;

	serve_api_close(serve->api);
	serve->api = NULL;
}

static void on_reloaded(void *arg, const struct reload_report *report)
{
	struct serve *serve = arg;

	serve->reloads--;
	notify_send(serve->spec->notify, "READY=1");
	if (report->waiting)
		fprintf(stderr, "exeat: %u sandboxes' roles have not taken their new policy yet\n",
			report->waiting);
	if (report->ok)
		fprintf(stderr, "exeat: policies are read again: %u of %u sandboxes have another one\n",
			report->changed, report->sandboxes);
	else
		fprintf(stderr, "exeat: a policy does not load, nothing is changed:\n%.*s",
			STR_ARG(report->diagnostics));
}

/* One that waits for another reads what is there when it begins: a third would find nothing new. */
static void reload(struct appliance *a, struct serve *serve)
{
	if (serve->reloads == 2)
		return;
	notify_reloading(serve->spec->notify);
	serve->reloads++;
	if (policies_reload(a, NULL, on_reloaded, serve))
		return;
	serve->reloads--;
	fprintf(stderr, "exeat: no memory to read policies again\n");
}

static void on_signal(struct appliance *a, int sig, bool typed)
{
	struct serve *serve = a->user;

	(void)typed;
	if (sig == SIGTERM || sig == SIGINT) {
		notify_send(serve->spec->notify, "STOPPING=1");
		serve->done = true;
	} else if (sig == SIGHUP) {
		reload(a, serve);
	}
}

/* The manager's watchdog: the loop turns. */
static void on_tick(struct appliance *a)
{
	struct serve *serve = a->user;
	uint64_t now = clock_ms();

	if (serve->api)
		serve_api_tick(serve->api, false);
	if (serve->spec->watchdog_ms == 0 || now - serve->alive_ms < serve->spec->watchdog_ms / 3)
		return;
	serve->alive_ms = now;
	notify_send(serve->spec->notify, "WATCHDOG=1");
}

/* The socket is there before this process can make none any more, and answers once all is ready. */
static bool run(struct appliance *a, struct serve *serve, const struct serve_spec *spec,
		int listener)
{
	if (!appliance_open(a, NULL) || a->bad_secrets)
		return false;
	serve->api = serve_api_open(&(struct serve_api_config){ .a = a, .listener = listener,
								.group = spec->group,
								.policies = spec->policies });
	if (!serve->api || !appliance_confine(a))
		return false;
	fprintf(stderr, "exeat: ready: %s\n", spec->socket);
	notify_send(spec->notify, "READY=1\nSTATUS=ready");
	appliance_run(a, &serve->done);
	return serve->done;
}

static bool serve_listening(const struct serve_spec *spec, struct str found, int listener)
{
	struct serve serve = { .spec = spec };
	struct appliance a = { .settings = spec->settings, .found = found,
			       .log_path = spec->log_path, .log = spec->log,
			       .on_sandbox_start = on_sandbox_start,
			       .on_sandbox_end = on_sandbox_end, .on_end = on_end,
			       .on_signal = on_signal,
			       .on_tick = on_tick, .user = &serve };
	bool ok = run(&a, &serve, spec, listener);

	if (serve.api)
		serve_api_tick(serve.api, true);
	return appliance_close(&a, ok ? "told to end" : "not started") && ok;
}

bool serve_run(const struct serve_spec *spec)
{
	struct buf found;
	int state = -1, listener;
	bool ok;

	if (!control_listen(spec->socket, spec->group, &listener))	/* makes the folder, too */
		return false;
	buf_init(&found, AFTERMATH_FOUND_MAX);
	ok = aftermath_begin(spec->socket, &state, &found);
	if (ok) {
		if (found.n)
			fprintf(stderr, "exeat: %.*s\n", STR_ARG(buf_str(&found)));
		ok = serve_listening(spec, buf_str(&found), listener);
		aftermath_end(state);
	}
	close(listener);
	if (state >= 0)
		close(state);
	buf_free(&found);
	return ok;
}
