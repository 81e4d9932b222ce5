/* sandbox/box.h - a container on a prepared wire, through an OCI runtime
 *
 * box_prepare() forks the keeper, a child that makes the read-only root (of a given folder, or of
 * the host's /usr), the lock-down of the OCI config, the CA in the places where a box looks for it,
 * and a writable workspace. After box_start() the keeper runs runc or crun, waits, tells how it
 * ended, and, when its parent is gone by whatever way, kills what is left and removes every trace.
 * All that needs privileges happens in box_prepare() or in the keeper: afterwards the caller may
 * confine itself.
 *
 * Ownership   struct box_spec is borrowed for the call of box_prepare(); its netns stays the
 *             caller's, the keeper has one of its own. The standard descriptors of the moment of
 *             box_prepare() are the command's. box_free() ends the keeper.
 * Blocking    box_prepare() does file work (tens of milliseconds), box_free() waits for the
 *             keeper's removal. The others do not block.
 * Failure     box_error() is one line for the operator: what is missing, what to install.
 * After confinement  send, recv, poll, close, wait4 on the keeper: nothing else.
 * Tests       tests/unit/sandbox/test_box.c, tests/e2e
 */
#ifndef SANDBOX_BOX_H
#define SANDBOX_BOX_H

#include <sys/types.h>

#include "conf/err.h"
#include "conf/str.h"

#define BOX_LIMITS_MAX 240	/* bytes of box_limits() */

struct box;

struct box_spec {
	const char *id;			/* "run-<pid>": container name and folder under /run/exeat;
					 * letters, digits, - and _ */
	const char *rootfs;		/* NULL: made of the host's /usr */
	const char *workspace;		/* NULL: one of its own, gone at the end */
	const char *const *kept;	/* NULL-ended files that the box must not change, even where
					 * the workspace holds them; may be NULL */
	const char *init;		/* path of the static exeat-init program */
	char *const *command;		/* NULL-ended */
	int netns;			/* descriptor of the box's network namespace */
	uint32_t nameserver;		/* host order */
	struct str ca_pem;		/* Exeat's certificate for this sandbox */
	const char *const *environment;	/* NULL-ended "K=V", beside the usual ones; may be NULL */
	bool terminal;
};

/* "runc" or "crun" as found on PATH (static), or NULL. */
const char *box_runtime(void);
must_use enum err box_prepare(const struct box_spec *spec, struct box **out);
/* The last failure of box_prepare() or box_start(). */
const char *box_error(void);
/* Starts the command. box_fd() becomes readable when it has ended. */
must_use enum err box_start(struct box *b);
int box_fd(const struct box *b);
/* ERR_AGAIN while it runs. *status as from a shell: exit code, or 128 + signal. */
must_use enum err box_ended(struct box *b, int *status);
void box_signal(struct box *b, int sig);
/* "container/runc 1.1.5", for the log. */
const char *box_isolation(const struct box *b);
/* "memory 1024 MiB, processes 1024, ", for the log. */
const char *box_limits(const struct box *b);
/* Processor time of all that ran in it, once box_ended() has said how it ended; else 0. */
uint64_t box_cpu_ms(const struct box *b);
/* Kills what runs, removes what was made, waits for both. */
void box_free(struct box *b);

#endif
