/* proxy/role_start.h - the first words to each role: what it may know of the operator's settings
 *
 * Ownership   borrows all arguments for the call; descriptors stay the caller's.
 * Blocking    start_broker() opens the secrets' files (it does not read them).
 * Failure     by return value; a secret's file that cannot be opened is told on stderr.
 * Tests       tests/e2e
 */
#ifndef PROXY_ROLE_START_H
#define PROXY_ROLE_START_H

#include "policy/policy.h"
#include "proxy/settings.h"
#include "sandbox/channel.h"
#include "sandbox/ring.h"
#include "sandbox/wire.h"

#define START_LISTS_MAX MESSAGE_LIST_MAX

must_use enum err start_recorder(struct channel *c, const char *log_path, int log);
must_use enum err start_dialer(struct channel *c, const struct settings *s,
			       const struct ring_fds *ring);
/* Only the secrets that the policy names are opened: the others stay where they are. */
must_use enum err start_broker(struct channel *c, const struct settings *s, const struct policy *p,
			       const struct ring_fds *ring);

must_use enum err start_nursery(struct channel *c, const struct settings *s);

struct worker_start {
	const struct settings *settings;
	const char *sandbox;
	const struct wire_box *wire;
	const struct ring_fds *ring;
	int leases, dialer, broker, policy;
};

must_use enum err start_worker(struct channel *c, const struct worker_start *w);

#endif
