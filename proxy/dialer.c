/* The dialer's program: what it is given at the start, and which sandboxes come. */
#include <stdio.h>

#include "proxy/dialer_service.h"
#include "proxy/role.h"
#include "sandbox/channel.h"
#include "sandbox/ring.h"

static const struct role_program dialer_program;
static struct ring *ring;

static bool on_start(struct role_env *env, uint16_t type, const void *msg, int *fds, size_t n_fds);

static void on_message(struct role_env *env, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	enum err e;

	if (type != MSG_SANDBOX) {
		channel_close_fds(fds, n_fds);
		return;
	}
	e = dialer_sandbox(env->state, msg, fds, n_fds);
	/* Its worker finds its channel closed and is told nothing else. */
	if (e != OK)
		fprintf(stderr, "exeat-dialer: a sandbox cannot be served: %s\n", err_text(e));
}

static void on_end(struct role_env *env)
{
	dialer_free(env->state);
	ring_close(ring);
}

static const struct role_program dialer_program = {
	.self = ROLE_DIALER, .on_start = on_start, .on_message = on_message, .on_end = on_end,
};

static bool on_start(struct role_env *env, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	const char *why = "";

	if (type != MSG_DIALER_START || n_fds != 3) {
		channel_close_fds(fds, n_fds);
		return false;
	}
	if (ring_open_writer(&(struct ring_fds){ fds[0], fds[1], fds[2] }, &ring) != OK)
		role_fatal(&dialer_program, "the audit ring cannot be opened");
	env->state = dialer_new(env->base, msg, ring, &why);
	if (!env->state)
		role_fatal(&dialer_program, "%s", why);
	dialer_on_lost(env->state, role_lose_sandbox, env);
	return true;
}

int main(void)
{
	return role_main(&dialer_program);
}
