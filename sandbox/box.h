/* sandbox/box.h - a container on a prepared wire, through an OCI runtime
 *
 * Two sides. Who has the powers (the launcher) makes a box: box_make() forks the keeper, which
 * makes the read-only root (of a given folder, or of the host's /usr), the lock-down of the OCI
 * config, the CA in the places where a box looks for it, and a writable workspace. Who directs it
 * (the supervisor) is given the keeper's channel: it hears when the box is ready, starts it, and
 * hears how it ended. When that channel ends by whatever way, the keeper kills what is left and
 * removes every trace.
 *
 * Ownership   struct box_spec is borrowed for the call; its netns and standard descriptors stay the
 *             caller's. box_take() takes the channel over. The keeper is box_make()'s caller's
 *             child, to be waited for.
 * Blocking    box_make(): for other boxes that are being made or removed, some milliseconds. The
 *             director's calls do not block.
 * Failure     box_error() is one line for the operator: what is missing, what to install.
 * After confinement  the director's side: send, recv, shutdown, close.
 * Tests       tests/unit/sandbox/test_box.c, tests/e2e
 */
#ifndef SANDBOX_BOX_H
#define SANDBOX_BOX_H

#include <sys/types.h>

#include "conf/err.h"
#include "conf/str.h"

#define BOX_LIMITS_MAX 240	/* bytes of the text that BOX_READY brings */

struct box;

struct box_spec {
	const char *id;			/* "run-<pid>": container name and folder under /run/exeat;
					 * letters, digits, - and _ */
	const char *rootfs;		/* NULL: made of the host's /usr. No link is followed */
	const char *workspace;		/* NULL: one of its own, gone at the end. Likewise */
	const char *const *kept;	/* NULL-ended files that the box must not change, even where
					 * the workspace holds them; may be NULL */
	const char *init;		/* path of the static exeat-init program */
	char *const *command;		/* NULL-ended */
	int netns;			/* descriptor of the box's network namespace */
	uint32_t nameserver;		/* host order */
	struct str ca_pem;		/* Exeat's certificate for this sandbox */
	const char *const *environment;	/* NULL-ended "K=V", beside the usual ones; may be NULL */
	int stdio[3];			/* the command's */
	bool terminal;
	uint64_t memory;		/* bytes; 0: three quarters of the machine's */
	uint32_t processes;
};

/* "runc" or "crun" as found on PATH (static), or NULL. */
const char *box_runtime(void);
/* Its whole path (static), or NULL. */
const char *box_runtime_path(void);
#define BOX_STATE_MAX 128
/* The folder where the runtime keeps what it knows of a box, with two files of the keeper's: the
 * number of the box's first process, and what its commands are told (sandbox/enter.h). */
#define BOX_FIRST_PROCESS "pid"
#define BOX_ENVIRONMENT "environment.json"
void box_state(const char *id, char out[BOX_STATE_MAX]);

/* ---- who makes it ---- */

/* Starts to ask the runtime for its version, which takes as long as a start. */
void box_ask_version(void);
/* "container/runc 1.1.5" */
#define BOX_ISOLATION_MAX 64
must_use enum err box_make(const struct box_spec *spec, int *channel,
			   char isolation[BOX_ISOLATION_MAX]);
/* Removes what boxes have left whose keepers were killed; how many. */
unsigned box_remove_dead(void);
/* The last failure of box_make(). */
const char *box_error(void);

/* ---- who directs it ---- */

enum box_news {
	BOX_NOTHING,
	BOX_READY,	/* box_text(): its limits, "memory 1024 MiB, processes 1024, " */
	BOX_FAILED,	/* box_text(): why; everything is removed */
	BOX_ENDED,	/* box_status(), box_cpu_ms(); everything is removed */
};

struct box *box_take(int channel);
/* Readable when there is news. */
int box_fd(const struct box *b);
/* The next news. BOX_FAILED and BOX_ENDED come once, and nothing after them. */
enum box_news box_hear(struct box *b);
const char *box_text(const struct box *b);
/* As from a shell: exit code, or 128 + signal. */
int box_status(const struct box *b);
/* Processor time of all that ran in it. */
uint64_t box_cpu_ms(const struct box *b);
/* Starts the command. */
must_use enum err box_start(struct box *b);
void box_signal(struct box *b, int sig);
/* Has it killed and removed: news of the end follow. */
void box_end(struct box *b);
void box_free(struct box *b);

#endif
