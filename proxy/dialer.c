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
		role_lose_sandbox(env, m->sandbox, m->join, err_text(e));
}

static void on_message(struct role_env *env, uint16_t type, const void *msg, int *fds, size_t n_fds)
{
	const struct msg_sandbox_gone *gone = msg;
	const struct msg_policy *policy = msg;
	const struct msg_peer *peer = msg;

	if (type == MSG_SANDBOX)
		take_sandbox(env, msg, fds, n_fds);
	else if (type == MSG_SANDBOX_GONE)
		dialer_sandbox_gone(env->state, gone->sandbox);
	else if (type == MSG_PEER)
		role_peer_taken(env, peer, dialer_peer(env->state, peer, fds[0]));
	else if (type == MSG_POLICY)
		role_policy_taken(env, policy->sandbox,
				  dialer_policy(env->state, policy, fds, n_fds));
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
