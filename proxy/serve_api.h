/* proxy/serve_api.h - what the control socket's routes do with an appliance
 *
 * One handler for each row of CONTROL_ROUTES (proxy/control_api.h). What takes time (a policy that
 * is compiled, a sandbox that starts or ends) is answered when it is done; what was asked for goes
 * on if the asker has left meanwhile. A change that cannot be recorded is refused.
 *
 * Ownership   borrows the appliance and the listener, and has events on the appliance's loop:
 *             serve_api_close() in its on_end hook.
 * Blocking    never.
 * Failure     serve_api_open(): NULL, why has been said on stderr. Requests are refused with a
 *             problem; a record that cannot be written is told on stderr.
 * Limits      SERVE_ENDED_MAX sandboxes that have ended are remembered.
 * Tests       tests/e2e/test_control.py
 */
#ifndef PROXY_SERVE_API_H
#define PROXY_SERVE_API_H

#include "proxy/appliance.h"

#define SERVE_ENDED_MAX 100u

struct serve_api;

struct serve_api_config {
	struct appliance *a;		/* opened, not confined yet */
	int listener;			/* control_listen() */
	gid_t group;			/* who may ask beside root; (gid_t)-1: nobody */
	const char *policies;		/* the directory that a policy's name means */
};

struct serve_api *serve_api_open(const struct serve_api_config *config);
void serve_api_close(struct serve_api *api);
/* The appliance's hooks have to call these. */
void serve_api_started(struct serve_api *api, struct sandbox *s);
void serve_api_ended(struct serve_api *api, struct sandbox *s);
/* @last: the appliance is about to end. */
void serve_api_tick(struct serve_api *api, bool last);

#endif
