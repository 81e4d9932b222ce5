#include "proxy/role.h"

#include <event2/event.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "sandbox/confine.h"
#include "sandbox/spawn.h"

#ifdef __SANITIZE_ADDRESS__
const char *__asan_default_options(void);

/* A fatal signal kills at once, as it does without the sanitizer: its report of one needs calls
 * that a confined process does not have, and can hang. Who watches the role tells the signal. */
const char *__asan_default_options(void)
{
	return "handle_segv=0:handle_sigbus=0:handle_sigill=0:handle_sigfpe=0:handle_abort=0";
}
#endif

struct life {
	const struct role_program *role;
	struct role_env env;
	bool running;
};

void role_fatal(const struct role_program *role, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "exeat-%s: ", role_name(role->self));
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

void role_tell(struct role_env *env, uint16_t type, const void *msg)
{
	if (channel_send(env->supervisor, type, msg, NULL, 0) != OK)
		event_base_loopbreak(env->base);
}

void role_lose_sandbox(void *env, uint32_t sandbox, uint32_t join, const char *why)
{
	const struct msg_sandbox_lost m = { .sandbox = sandbox, .join = join,
					    .why = str_of(why) };

	role_tell(env, MSG_SANDBOX_LOST, &m);
}

void role_peer_taken(struct role_env *env, const struct msg_peer *m, enum err e)
{
	if (e != OK && e != ERR_NOTFOUND)
		role_lose_sandbox(env, m->sandbox, m->join, err_text(e));
}

void role_policy_taken(struct role_env *env, uint32_t sandbox, enum err e)
{
	const struct msg_policy_taken m = { .sandbox = sandbox,
					    .ok = e == OK || e == ERR_NOTFOUND };

	role_tell(env, MSG_POLICY_TAKEN, &m);
}

static void confine_and_serve(struct life *life)
{
	const char *what = "";
	struct msg_ready ready = { 0 };

	if (life->role->self <= ROLE_CONFINED_LAST &&
	    confine_enter(life->role->self, &what) != OK)
		role_fatal(life->role, "cannot confine itself (%s); it does not serve", what);
	life->running = true;
	channel_set_phase(life->env.supervisor, PHASE_RUN);
	if (life->role->on_confined)
		life->role->on_confined(&life->env);
	if (channel_send(life->env.supervisor, MSG_READY, &ready, NULL, 0) != OK)
		event_base_loopbreak(life->env.base); /* the supervisor is gone, and has said why */
}

/* The supervisor asks whether the loop still turns. */
static void answer_ping(struct life *life, const struct msg_ping *m)
{
	if (channel_send(life->env.supervisor, MSG_PONG, m, NULL, 0) != OK)
		event_base_loopbreak(life->env.base); /* the supervisor is gone, and has said why */
}

static void on_message(void *arg, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	struct life *life = arg;

	if (type == MSG_PING)
		answer_ping(life, msg);
	else if (life->running)
		life->role->on_message(&life->env, type, msg, fds, n_fds);
	else if (life->role->on_start(&life->env, type, msg, fds, n_fds))
		confine_and_serve(life);
}

static void on_closed(void *arg, const char *why)
{
	struct life *life = arg;

	(void)why;
	event_base_loopbreak(life->env.base);
}

/* The event loop without what a confined process cannot have, and without surprises from the
 * environment. */
static struct event_base *make_base(void)
{
	struct event_config *config = event_config_new();
	struct event_base *base = NULL;

	if (config && event_config_set_flag(config, EVENT_BASE_FLAG_IGNORE_ENV) == 0)
		base = event_base_new_with_config(config);
	if (config)
		event_config_free(config);
	return base;
}

int role_live(const struct role_program *role, int channel, void *inherited)
{
	struct life life = { .role = role, .env.inherited = inherited };
	struct channel_peer peer = { .self = role->self, .other = ROLE_SUPERVISOR,
				     .table = exeat_messages, .on_message = on_message,
				     .on_closed = on_closed, .arg = &life };

	signal(SIGPIPE, SIG_IGN);
	life.env.base = make_base();
	if (!life.env.base)
		role_fatal(role, "no event loop");
	life.env.supervisor = channel_new(life.env.base, channel, &peer);
	if (!life.env.supervisor)
		role_fatal(role, "is started by exeat, not by hand");
	event_base_dispatch(life.env.base);
	if (role->on_end)
		role->on_end(&life.env);
	channel_free(life.env.supervisor);
	event_base_free(life.env.base);
	return 0;
}

int role_main(const struct role_program *role)
{
	return role_live(role, ROLE_CHANNEL_FD, NULL);
}
