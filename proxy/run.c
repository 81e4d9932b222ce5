#include "proxy/run.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "proxy/appliance.h"
#include "proxy/supervisor_records.h"

struct run {
	const struct run_spec *spec;
	struct policy_file *policy;
	struct sandbox *sandbox;
	bool over, ran;
	int signal;		/* came before there was a command to have it */
	int status;
};

static void on_sandbox_end(struct appliance *a, struct sandbox *s)
{
	struct run *r = a->user;

	r->over = true;
	r->ran = s->started && !s->failed;
	r->status = s->status;
	r->sandbox = NULL;
}

/* What is typed at a terminal has reached the runtime, too; only what was sent to this process is
 * passed on. */
static void on_signal(struct appliance *a, int sig, bool typed)
{
	struct run *r = a->user;

	if (!r->sandbox)
		return;
	if (r->sandbox->started) {
		if (!typed && r->sandbox->box)
			box_signal(r->sandbox->box, sig);
	} else if (sig != SIGWINCH) {
		r->signal = sig;
		sandbox_stop(r->sandbox, true, "ended by a signal before its start");
	}
}

/* While the roles start: nothing of it runs before they are ready and this process is confined. */
static void create(struct appliance *a)
{
	struct run *r = a->user;
	struct sandbox_spec spec = { .name = r->spec->name, .policy = r->policy,
				     .rootfs = r->spec->rootfs, .workspace = r->spec->workspace,
				     .command = r->spec->command, .stdio = { 0, 1, 2 },
				     .terminal = isatty(0) && isatty(1), .netns = -1 };
	char why[256] = "";

	r->sandbox = sandbox_create(a, &spec, why, sizeof(why));
	if (!r->sandbox) {
		fprintf(stderr, "exeat: %s\n", why);
		appliance_fail(a, "not started");
	}
}

/* The policy does not load: that goes on record, and no more. */
static void reject(struct appliance *a, const struct run_spec *spec)
{
	a->log_only = true;
	if (appliance_open(a, NULL) &&
	    put_policy_reject(a->ring, spec->name, spec->policy_file, spec->rejected) != OK)
		fprintf(stderr, "exeat: that cannot be recorded\n");
	(void)!appliance_close(a, "not started");
}

static bool run(struct appliance *a, struct run *r)
{
	if (!appliance_open(a, create) || a->bad_secrets || r->over || !appliance_confine(a))
		return false;
	appliance_run(a, &r->over);
	return r->ran;
}

int run_sandbox(const struct run_spec *spec)
{
	struct run r = { .spec = spec, .status = RUN_FAILED };
	struct appliance a = { .settings = spec->settings, .log_path = spec->log_path,
			       .log = spec->log, .on_sandbox_end = on_sandbox_end,
			       .on_signal = on_signal, .user = &r };
	bool ran;

	if (spec->policy < 0) {
		reject(&a, spec);
		return RUN_FAILED;
	}
	r.policy = policy_file_new(spec->policy_file, spec->policy);
	if (!r.policy) {
		fprintf(stderr, "exeat: %s: the compiled policy is not valid\n", spec->policy_file);
		return RUN_FAILED;
	}
	a.secrets_of = r.policy->map;
	ran = run(&a, &r);
	ran = appliance_close(&a, ran ? "the command has ended" : r.ran ? "ended" : "not started") && ran;
	policy_file_release(r.policy);
	if (r.signal)
		return 128 + r.signal;
	return ran ? r.status : RUN_FAILED;
}
