/* The dialer's program: what it is given at the start, and what the supervisor says of its
 * sandboxes. */
#include <event2/event.h>

#include "proxy/dialer_service.h"
#include "proxy/role.h"
#include "sandbox/channel.h"
#include "sandbox/ring.h"

static const struct role_program dialer_program;
static struct ring *ring;

static bool on_start(struct role_env *env, uint16_t type, const void *msg, int *fds, size_t n_fds);

static void take_sandbox(struct role_env *env, const struct msg_sandbox *m, int *fds, size_t n_fds)
{
	enum err e = dialer_sandbox(env->state, m, fds, n_fds);

	if (e != OK)
		role_lose_sandbox(env, m->sandbox, err_text(e));
}

static void take_policy(struct role_env *env, const struct msg_policy *m, int *fds, size_t n_fds)
{
	enum err e = dialer_policy(env->state, m, fds, n_fds);
	/* A sandbox that was given up goes on under no policy. */
	const struct msg_policy_taken taken = { .sandbox = m->sandbox,
						.ok = e == OK || e == ERR_NOTFOUND };

	if (channel_send(env->supervisor, MSG_POLICY_TAKEN, &taken, NULL, 0) != OK)
		event_base_loopbreak(env->base);	/* it is gone, and has said why */
}

/* A sandbox that is not there was given up, and the supervisor has been told. */
static void take_peer(struct role_env *env, const struct msg_peer *m, int fd)
{
	enum err e = dialer_peer(env->state, m, fd);

	if (e != OK && e != ERR_NOTFOUND)
		role_lose_sandbox(env, m->sandbox, err_text(e));
}

static void on_message(struct role_env *env, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	if (type == MSG_SANDBOX)
		take_sandbox(env, msg, fds, n_fds);
	else if (type == MSG_SANDBOX_GONE)
		dialer_sandbox_gone(env->state, ((const struct msg_sandbox_gone *)msg)->sandbox);
	else if (type == MSG_PEER)
		take_peer(env, msg, fds[0]);
	else if (type == MSG_POLICY)
		take_policy(env, msg, fds, n_fds);
	else
		channel_close_fds(fds, n_fds);
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
