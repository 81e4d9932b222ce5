/* sandbox/keeper.h - the process that runs a box, and outlives whatever happens to who asked for it
 *
 * keeper_start() forks it from who has the powers. It makes the box's root, tells that it is ready,
 * runs the runtime when told to, hands on signals, and tells how it ended after it has removed
 * everything. All that goes over a channel, whose other end is the director's (box.h): no child of
 * it, and no parent. The end of the channel, however the director ended, means: kill and remove.
 *
 * Ownership   the keeper has its copies of @job's descriptors; the parent closes its own of
 *             @channel and @folder.
 * Blocking    keeper_start() does not; keeper_remove() waits for the runtime's own removal.
 * Failure     ERR_SYSTEM with errno. What goes wrong inside comes as KEEPER_FAILED with a text.
 * Tests       tests/unit/sandbox/test_box.c
 */
#ifndef SANDBOX_KEEPER_H
#define SANDBOX_KEEPER_H

#include "sandbox/box.h"

#define KEEPER_FOLDER "/run/exeat"
#define KEEPER_TEXT_MAX BOX_LIMITS_MAX

enum keeper_kind {
	KEEPER_READY = 1, /* to the director: the root is made; text says the box's limits */
	KEEPER_FAILED, /* to the director: text says why; it has removed everything and is gone */
	KEEPER_ENDED, /* to the director: value is the status; as above */
	KEEPER_START, /* to the keeper */
	KEEPER_SIGNAL, /* to the keeper: value is the signal */
};

struct keeper_message {
	int kind, value;
	uint64_t cpu_ms;	/* KEEPER_ENDED: what the box has used */
	char text[KEEPER_TEXT_MAX];
};

struct keeper_job {
	const struct box_spec *spec;
	const char *runtime;	/* path of runc or crun */
	int channel;		/* SOCK_SEQPACKET, the keeper's end */
	int folder;		/* KEEPER_FOLDER/<id>, locked: who holds the lock is alive */
};

must_use enum err keeper_start(const struct keeper_job *job, pid_t *pid);
/* Kills the container of that name, if there is one, and removes KEEPER_FOLDER/<id>. */
void keeper_remove(const char *runtime, const char *id);

#endif
