#include "proxy/serve.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "proxy/appliance.h"
#include "proxy/control.h"
#include "proxy/serve_api.h"

struct serve {
	struct serve_api *api;
	bool done;
	int signal;
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

static void on_reloaded(void *arg, const struct reload_report *report)
{
	(void)arg;
	if (report->ok)
		fprintf(stderr, "exeat: policies are read again: %u of %u sandboxes have another one\n",
			report->changed, report->sandboxes);
	else
		fprintf(stderr, "exeat: a policy does not load, nothing is changed:\n%.*s",
			STR_ARG(report->diagnostics));
}

static void on_signal(struct appliance *a, int sig)
{
	struct serve *serve = a->user;

	if (sig == SIGTERM || sig == SIGINT) {
		serve->signal = sig;
		serve->done = true;
	} else if (sig == SIGHUP && !policies_reload(a, NULL, on_reloaded, NULL)) {
		fprintf(stderr, "exeat: no memory to read policies again\n");
	}
}

/* The socket is there before this process can make none any more, and answers once all is ready. */
static bool run(struct appliance *a, struct serve *serve, const struct serve_spec *spec, int listener)
{
	if (!appliance_open(a, NULL) || a->bad_secrets)
		return false;
	serve->api = serve_api_open(&(struct serve_api_config){ .a = a, .listener = listener,
								.group = spec->group,
								.policies = spec->policies });
	if (!serve->api || !appliance_confine(a))
		return false;
	fprintf(stderr, "exeat: ready: %s\n", spec->socket);
	appliance_run(a, &serve->done);
	return serve->done;
}

bool serve_run(const struct serve_spec *spec)
{
	struct serve serve = { 0 };
	struct appliance a = { .settings = spec->settings, .log_path = spec->log_path,
			       .log = spec->log, .on_sandbox_start = on_sandbox_start,
			       .on_sandbox_end = on_sandbox_end, .on_signal = on_signal,
			       .user = &serve };
	int listener;
	bool ok;

	if (!control_listen(spec->socket, spec->group, &listener))
		return false;
	ok = run(&a, &serve, spec, listener);
	ok = appliance_close(&a, ok ? "told to end" : "not started") && ok;
	serve_api_close(serve.api);
	close(listener);
	return ok;
}
