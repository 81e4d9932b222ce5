/* proxy/role.h - the common life of a role's program: start, confine, serve, end
 *
 * role_main() opens the channel on ROLE_CHANNEL_FD, waits for the role's start message, lets the
 * role prepare all that it will not be able to open later, confines the process (roles.h: not all
 * are confined), tells READY and runs the loop until the supervisor's channel closes. While it
 * runs, PING is answered with PONG here.
 *
 * Ownership   @fds given to on_start and on_message are the role's to keep or close.
 * Blocking    the loop; on_start may read files.
 * Failure     one line on stderr and exit 1: a role that cannot confine itself does not serve.
 * Tests       tests/confine, tests/e2e
 */
#ifndef PROXY_ROLE_H
#define PROXY_ROLE_H

#include "proxy/messages.h"
#include "sandbox/channel.h"

struct event_base;

struct role_env {
	struct event_base *base;
	struct channel *supervisor;
	void *state;			/* the role's own */
	void *inherited;		/* role_live()'s */
};

struct role_program {
	enum role self;
	/* Start-phase messages. Returns true when the role is prepared: then it is confined. */
	bool (*on_start)(struct role_env *env, uint16_t type, const void *msg, int *fds,
			 size_t n_fds);
	/* Right after confinement, before READY is sent. May be NULL. */
	void (*on_confined)(struct role_env *env);
	/* Run-phase messages from the supervisor. */
	void (*on_message)(struct role_env *env, uint16_t type, const void *msg, int *fds,
			   size_t n_fds);
	/* The supervisor is gone or says stop: last words (may be NULL). */
	void (*on_end)(struct role_env *env);
};

/* The process is the role's: its channel is ROLE_CHANNEL_FD. */
int role_main(const struct role_program *role);
/* The same for a process that was forked, with what its parent has prepared for it. Takes @channel
 * over. */
int role_live(const struct role_program *role, int channel, void *inherited);
/* To the supervisor. One that is gone ends the loop: it has said why. */
void role_tell(struct role_env *env, uint16_t type, const void *msg);
/* Tells the supervisor that a sandbox's worker, the one of that join, has broken the rules. @env:
 * the role's. */
void role_lose_sandbox(void *env, uint32_t sandbox, uint32_t join, const char *why);
/* What became of a PEER and of a POLICY for a sandbox. ERR_NOTFOUND: it was given up, and the
 * supervisor has been told; it goes on under no policy. */
void role_peer_taken(struct role_env *env, const struct msg_peer *m, enum err e);
void role_policy_taken(struct role_env *env, uint32_t sandbox, enum err e);
/* One line on stderr, "exeat-worker: ...", exit 1. */
_Noreturn void role_fatal(const struct role_program *role, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
