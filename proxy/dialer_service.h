/* proxy/dialer_service.h - the dialer: resolves and connects for workers, by their sandboxes'
 * policies
 *
 * A sandbox comes with a channel to its worker, one to the broker, and its policy, and goes when
 * the supervisor says so or its worker breaks the rules of its channel. The dialer believes
 * nothing that a worker says: it reads the policy itself before anything goes out, vets each
 * address, vouches for each connection to the broker with a ticket before the worker has it, and
 * records each dial before its outcome is told.
 *
 * Ownership   dialer_sandbox(), dialer_peer() and dialer_policy() take all descriptors over,
 *             whatever they return.
 * Blocking    dialer_new() reads resolv.conf; then never.
 * Failure     a message that cannot be served is answered with its status; a worker that does not
 *             take its answers loses its sandbox. dialer_policy(): the policy in force stays.
 *             dialer_peer(), dialer_policy(): ERR_NOTFOUND where there is no such sandbox, which
 *             was given up then.
 * Limits      a sandbox: DIALER_RESOLVES_MAX and the start's dials under way, DIALER_TICKETS_MAX
 *             connections open; past them RESOLVE_QUOTA and DIAL_QUOTA. The start's bytes wait for
 *             a worker that does not read; then its sandbox is given up.
 *             DIALER_SANDBOXES_MAX sandboxes.
 * Tests       tests/unit/proxy/test_dialer_service.c, test_dialer_successors.c
 */
#ifndef PROXY_DIALER_SERVICE_H
#define PROXY_DIALER_SERVICE_H

#include "proxy/dialer_tickets.h"
#include "proxy/messages.h"

#define DIALER_RESOLVES_MAX 256
#define DIALER_SANDBOXES_MAX 4096
/* Under way, of all sandboxes together: past half of it, one that has its share or more gets no
 * other, and each still gets its share. */
#define DIALER_DIALS_ALL 4096
#define DIALER_OWN_MAX 128

struct event_base;
struct ring;
struct dialer;

/* Borrows @ring, copies from @start. NULL: *why says it. */
struct dialer *dialer_new(struct event_base *base, const struct msg_dialer_start *start,
			  struct ring *ring, const char **why);
void dialer_free(struct dialer *d);
/* Is told of each sandbox that is given up because its worker, or its broker, broke the rules of
 * its channel or takes no message; not of one whose worker has just gone. */
typedef void dialer_lost_fn(void *arg, uint32_t sandbox, uint32_t join, const char *why);
void dialer_on_lost(struct dialer *d, dialer_lost_fn *fn, void *arg);
/* A sandbox whose number is known already takes that one's place. */
must_use enum err dialer_sandbox(struct dialer *d, const struct msg_sandbox *m, int *fds,
				 size_t n_fds);
/* All of it is forgotten; none of that number: nothing to do. */
void dialer_sandbox_gone(struct dialer *d, uint32_t number);
/* The channel to the broker's successor: it is told the sandbox's tickets. */
must_use enum err dialer_peer(struct dialer *d, const struct msg_peer *m, int fd);
must_use enum err dialer_policy(struct dialer *d, const struct msg_policy *m, int *fds,
				size_t n_fds);
size_t dialer_sandboxes(const struct dialer *d);

#endif
