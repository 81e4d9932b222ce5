/* proxy/role_start.h - the first words to each role: what it may know of the operator's settings
 *
 * Each may be said again, to a role's successor, by a supervisor that is confined by then.
 *
 * Ownership   borrows all arguments for the call; descriptors stay the caller's.
 *             broker_start_close() closes what broker_start_open() holds.
 * Blocking    start_broker() opens the secrets' files (it does not read them).
 * Failure     by return value; a secret's source that cannot be opened is told on stderr.
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

struct recorder_start {
	const struct settings *settings;
	const char *log_path;
	int log, key;		/* the file; the key that checkpoints are signed with */
};

must_use enum err start_recorder(struct channel *c, const struct recorder_start *r);
must_use enum err start_dialer(struct channel *c, const struct settings *s,
			       const struct ring_fds *ring);

/* What the supervisor holds for its broker and that one's successors, in pipes that it does not
 * read (sandbox/held_secret.h). */
struct broker_start {
	const struct settings *settings;
	int seal_key;		/* what CAs are sealed with */
	int *held;		/* for each of the settings' secrets; < 0: -errno */
};

/* Once, before anything else is started: takes the secrets' variables out of the environment. */
must_use enum err broker_start_open(struct broker_start *b, const struct settings *s);
void broker_start_close(struct broker_start *b);
/* Only the secrets that the policy names are opened: the others stay where they are. @p NULL: all.
 * ERR_NOTFOUND: a source could not be opened; the broker starts without it. */
must_use enum err start_broker(struct channel *c, const struct broker_start *b,
			       const struct policy *p, const struct ring_fds *ring);

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
