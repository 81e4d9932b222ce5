/* proxy/appliance.h - the supervisor's own state, and what its parts do with it
 *
 * One appliance: the roles that all sandboxes share, and the sandboxes. "exeat run" is an appliance
 * of one sandbox that ends with it; "exeat serve" one that an operator speaks to.
 *
 *   supervisor.c	start, confinement, the loop, signals, the end
 *   parts.c		a role's process: ordered, started, heard, lost, ended
 *   succession.c	what a role is told when it starts, and who else is told of a successor
 *   rings.c		the rings that records go through, and the recorder that reads them
 *   sandboxes.c	a sandbox from its first order to its last record
 *   sandbox_worker.c	what its worker says: leases; and the worker's successor
 *   policies.c		policy files: compiled by a reader, in force, replaced
 *
 * Everything is asynchronous: an order goes to the launcher, its answer comes from the loop. What
 * has to wait for several things is a function that looks whether all are there (sandbox_step()),
 * called whenever one of them has come.
 *
 * Ownership   struct appliance owns all that hangs on it; a part's hooks borrow.
 * Blocking    never, but in appliance_open() and appliance_close(), bounded.
 * Failure     bool: false has told why on stderr (or in a text that is given for it).
 * Limits      settings' limits.sandboxes; the named ones below.
 * Tests       tests/unit/proxy/test_parts.c, test_rings.c, test_policies.c, test_sandboxes.c;
 *             tests/e2e
 */
#ifndef PROXY_APPLIANCE_H
#define PROXY_APPLIANCE_H

#include <sys/types.h>
#include <time.h>

#include "policy/policy.h"
#include "proxy/launcher.h"
#include "proxy/messages.h"
#include "proxy/role_start.h"
#include "proxy/settings.h"
#include "sandbox/box.h"
#include "sandbox/channel.h"
#include "sandbox/lease.h"
#include "sandbox/ring.h"
#include "sandbox/wire.h"

struct access_table;
struct compile;
struct event;
struct event_base;
struct reload;

#define ROLE_READY_MS 10000	/* from exec to confined */
#define ROLE_END_MS 5000	/* from "stop" to gone, and for the recorder to write down all */
#define TICK_MS 250		/* how often ages are looked at */
#define PING_MS 1000
#define PING_PATIENCE_MS 5000	/* a role that has not answered for so long hangs */
#define CRASH_WINDOW_MS 60000
#define WORKER_CRASHES_MAX 3	/* in the window: its sandbox is stopped */
#define SHARED_CRASHES_MAX 5	/* in the window: the appliance ends */
#define RELOAD_TAKEN_MS 15000	/* from "this is the policy" to the last role's "taken" */
#define STOP_GRACE_MS 10000	/* from SIGTERM to the end of a box */
#define SANDBOX_START_MS 30000	/* from its order until its command runs */

/* ---- parts.c ---- */

enum part_state {
	PART_NONE,	/* no process, none wanted */
	PART_WANTED,	/* none yet: ordered, or to be ordered when there is who starts it */
	PART_STARTING,	/* told what it has to know, not confined yet */
	PART_READY,
	PART_ENDING,	/* asked to end, or killed: waited for */
};

struct appliance;
struct sandbox;
struct part;

/* What differs from role to role. Each may be NULL. */
struct part_hooks {
	/* Started: its start message. False: it cannot be told, and is given up. */
	bool (*started)(struct part *p);
	void (*ready)(struct part *p);
	void (*message)(struct part *p, uint16_t type, const void *msg, int *fds, size_t n_fds);
	/* Gone without having been asked to: the record is written. */
	void (*lost)(struct part *p);
	/* Gone as asked. */
	void (*ended)(struct part *p);
};

struct part {
	struct part *next;		/* all of the appliance's */
	struct appliance *a;
	enum role role;
	const struct part_hooks *hooks;
	void *owner;			/* a worker's sandbox, a reader's job */
	enum part_state state;
	struct part *orderer;		/* PART_WANTED: who was asked to start it, or NULL */
	unsigned promised;		/* it was asked to start so many, and has not answered */
	uint32_t order;
	pid_t pid;			/* 0: there is no process */
	pid_t gone;			/* lost(): the process that is gone; 0: none came to be */
	struct channel *channel;
	bool waiting;			/* STARTING: others have to come before it is told */
	bool asked_to_end;
	const char *why;		/* it is being killed for that; static, or @why_text */
	char why_text[128];
	int status;			/* as waitpid() gave it */
	uint64_t since_ms;		/* in this state */
	uint64_t pinged_ms;		/* when the PING went that is not answered; 0: none */
	uint64_t crashes[SHARED_CRASHES_MAX];
};

void part_init(struct appliance *a, struct part *p, enum role role, const struct part_hooks *hooks,
	       void *owner);
/* Forgets it; it must be PART_NONE. */
void part_remove(struct part *p);
/* The first launcher that is ready, or NULL: launcher_hooks' ready() comes when there is one. */
struct part *part_launcher(struct appliance *a);
/* Orders its process. */
void part_want(struct part *p);
/* It was started by ourselves. lost() may come from within. */
void part_adopt(struct part *p, int channel, pid_t pid);
/* One that was @waiting has been told its start now. */
void part_told(struct part *p);
/* It is gone, or broke the rules, or hangs: its process is killed, and when that is over lost() is
 * called. @why: copied. */
void part_lose(struct part *p, const char *why);
/* Asks it to end; ended() is called when it has. */
void part_end(struct part *p);
must_use enum err part_send(struct part *p, uint16_t type, const void *msg, const int *fds,
			    size_t n);
/* Has it been lost @max times within CRASH_WINDOW_MS, now included? */
bool part_crashed(struct part *p, unsigned max);
/* Orders all that is wanted and was not ordered: someone who starts parts is ready. */
void parts_order_wanted(struct appliance *a);
/* LAUNCHED came from @from. */
void parts_launched(struct part *from, const struct msg_launched *m, int *fds, size_t n_fds);
/* SIGCHLD: who has ended or is stopped. */
void parts_reap(struct appliance *a);
/* Ages: pings, starts that take too long, ends that take too long. */
void parts_tick(struct appliance *a);

/* ---- rings.c ---- */

struct ring_slot {
	struct ring_slot *next;
	uint32_t number;
	struct ring_fds fds;
	enum role writer;
	char sandbox[MSG_SANDBOX_NAME_MAX + 1];
	char policy[65], policy_before[65];
	bool ending;
};

struct ring_slot *rings_add(struct appliance *a, enum role writer, const char *sandbox,
			    struct str policy);
/* A digest that its writer's records may name from now on. */
void rings_set_policy(struct appliance *a, struct ring_slot *r, struct str policy);
/* Its writer is gone: read to its end, then freed. */
void rings_end(struct appliance *a, struct ring_slot *r);
void rings_ended(struct appliance *a, uint32_t number);
/* To a recorder that is ready. */
void rings_give_all(struct appliance *a);
void rings_free(struct appliance *a);

/* ---- policies.c ---- */

/* A compiled policy file. Counted: sandboxes hold it. */
struct policy_file {
	unsigned refs;
	char *path;
	int image;
	struct policy *map;
	char digest[65];
};

struct policy_file *policy_file_new(const char *path, int image);
struct policy_file *policy_file_hold(struct policy_file *f);
void policy_file_release(struct policy_file *f);

/* @file NULL: @path does not load, @diagnostics say why. The callee holds what it keeps. */
typedef void policy_loaded_fn(void *arg, const char *path, struct policy_file *file,
			      struct str diagnostics);
/* Has a launcher read @path, and a reader compile it. False: out of memory. */
bool policies_compile(struct appliance *a, const char *path, policy_loaded_fn *fn, void *arg);

struct reload_report {
	unsigned files, sandboxes;
	unsigned changed;	/* sandboxes whose policy is another now */
	unsigned waiting;	/* of those: not taken by all roles in RELOAD_TAKEN_MS */
	bool ok;
	struct str diagnostics;	/* of what does not load; nothing was changed then */
};
typedef void policy_reloaded_fn(void *arg, const struct reload_report *report);
/* Compiles the file of one sandbox (or of all: NULL) anew, and puts all in force where all load.
 * @fn is called when all roles have taken them. */
bool policies_reload(struct appliance *a, struct sandbox *only, policy_reloaded_fn *fn, void *arg);
void policies_source(struct part *from, const struct msg_source_is *m, int *fds, size_t n_fds);
/* A launcher is there, or one is gone: who is asked for what has not been read. */
void policies_ask_sources(struct appliance *a, const struct part *gone);
/* The appliance is closing: who waits for a file hears so. */
void policies_stop_asking(struct appliance *a);
void policies_taken(struct part *from, const struct msg_policy_taken *m);
/* A role that held policies is gone: its successor is given those in force. */
void policies_lost(const struct part *p);
/* A worker that was told its start is ready now. */
void policies_worker_ready(struct sandbox *s);
/* Goes on where what was waited for is there, or takes too long. */
void policies_step(struct appliance *a);
/* The appliance ends: who waits for a reload hears so. */
void policies_abandon(struct appliance *a);

/* ---- sandboxes.c ---- */

enum sandbox_state {
	SANDBOX_STARTING,
	SANDBOX_RUNNING,
	SANDBOX_STOPPING,	/* its box is being ended, or its worker */
	SANDBOX_ENDED,		/* all is recorded, nothing is left but this */
};

struct sandbox_spec {
	const char *name;
	struct policy_file *policy;
	const char *rootfs, *workspace;		/* or NULL */
	const char *output;			/* a file, instead of stdio[1] and [2]; or NULL */
	char *const *command;			/* NULL-ended; NULL: attached, there is no box */
	int stdio[3];				/* the command's */
	bool terminal;
	int netns;				/* to attach to; else -1 */
	const char *netns_path;			/* likewise, for the launcher to open; or NULL */
};

struct sandbox {
	struct sandbox *next;
	struct appliance *a;
	uint32_t number;		/* of its wire, and what other roles call it */
	char name[MSG_SANDBOX_NAME_MAX + 1];
	char box_id[40];
	struct policy_file *policy;
	char *rootfs, *workspace, *output, *program, *netns_path;	/* or NULL */
	int texts;			/* the command's arguments; -1: attached */
	uint32_t n_arguments;
	int stdio[3], netns;
	bool terminal;

	enum sandbox_state state;
	bool wired, box_ready, started, failed;
	uint32_t join;			/* of its worker with dialer and broker; 0: not joined */
	uint32_t wire_order, box_order;
	struct part *maker;		/* whose answer to these is waited for */
	struct wire_box wire;
	struct lease_table *leases;
	int leases_fd;
	struct ring_slot *ring;
	struct part worker;
	unsigned policy_read;		/* so many reloads had begun when it was */
	unsigned awaited[2];		/* POLICY_TAKEN that have not come from dialer and broker */
	unsigned worker_awaited;	/* and from the worker */
	bool worker_owed;		/* it is to be given the new policy, when others have it */
	bool admission_owed;		/* the kernel's set is the old policy's */
	unsigned ca_awaited;		/* answers that the broker owes: the last one counts */
	struct buf ca_pem, ca_sealed;
	struct box *box;
	struct event *box_event;
	char isolation[BOX_ISOLATION_MAX], limits[BOX_LIMITS_MAX];
	time_t started_at, ended_at;
	uint64_t created_ms;
	uint64_t kill_at_ms;		/* its box is ended then; 0: not asked to stop */
	int status;			/* as from a shell */
	uint64_t cpu_ms, bytes_up, bytes_down;
	uint64_t untold;	/* refused packets that no record tells one by one */
	char why[256];			/* it failed, or was stopped */
};

/* Starts what leads to a running sandbox. NULL: @why says what is wrong with it. Takes none of the
 * specification's descriptors over. */
struct sandbox *sandbox_create(struct appliance *a, const struct sandbox_spec *spec, char *why,
			       size_t why_size);
struct sandbox *sandbox_find(struct appliance *a, struct str name);
struct sandbox *sandbox_by_number(struct appliance *a, uint32_t number);
/* Goes on where what was waited for is there. */
void sandbox_step(struct sandbox *s);
/* Ends it closed: its box is killed. @why goes on record; printf's. */
void sandbox_fail(struct sandbox *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Asks its command to end (SIGTERM), and ends it after STOP_GRACE_MS or, with @kill, at once. */
void sandbox_stop(struct sandbox *s, bool kill, const char *why);
void sandbox_tick(struct sandbox *s, uint64_t now);
/* Bytes on its wire up to now. */
void sandbox_count(struct sandbox *s);
void sandbox_wired(struct part *from, const struct msg_wired *m, int *fds, size_t n_fds);
void sandbox_boxed(struct part *from, const struct msg_boxed *m, int *fds, size_t n_fds);
void sandbox_ca(struct part *from, const struct msg_sandbox_ca *m);
/* The launcher that worked for it is gone. */
void sandboxes_maker_lost(struct appliance *a, const struct part *maker);
extern const struct part_hooks worker_hooks;
/* Admits what the policy in force could allow, and nothing else any more. */
bool sandbox_admit_all(struct sandbox *s);
void sandbox_free(struct sandbox *s);
/* Is there room for so many? A message whose descriptors find none costs the channel that it came
 * on, and with it a role: so what will bring some begins only where there is. */
bool descriptors_left(int sample, size_t wanted);
/* What an error of the network's calls may mean. */
const char *wire_advice(int code);

/* ---- succession.c ---- */

extern const struct part_hooks launcher_hooks, nursery_hooks, recorder_hooks, broker_hooks,
	dialer_hooks;
/* Tells dialer and broker of a sandbox, and its worker of them. */
bool sandbox_join(struct sandbox *s);
void sandbox_forget(struct sandbox *s);
/* Workers share the nursery's address layout: after one has crashed the next come from another. */
void nursery_renew(struct appliance *a);
/* On stderr and on record: a part is gone, and what follows. */
void tell_lost(const struct part *p, const char *what_now);

/* ---- supervisor.c ---- */

struct appliance {
	const struct settings *settings;
	struct str found;		/* what the one before has left, for the record */
	const char *log_path;
	int log;			/* the caller's */
	int log_key, log_next;		/* its key; the file that it was rotated to, or -1 */
	struct event_base *base;
	char programs[4096];
	struct wire_gateway *gateway;
	struct launcher_job job;
	struct part *parts;
	struct part *rotator;		/* the launcher that was asked to rotate the log, or NULL */
	struct part launcher[2], nursery, recorder, broker, dialer;
	struct ring_slot *rings, *own_ring, *broker_ring, *dialer_ring;
	struct ring *ring;		/* the supervisor's own, for writing */
	uint32_t last_ring, last_order, last_sandbox, last_join;
	struct access_table *access;	/* what boxes have asked for */
	struct compile *compiles;	/* files that are being read or compiled */
	struct reload *reloads;		/* under way, and such as wait for one before them */
	unsigned reloads_begun;		/* who compiles a file beside one may have read it before */
	struct sandbox *sandboxes;
	unsigned n_sandboxes;		/* those that have not ended */
	struct event *tick, *signal_event;
	int signals;
	struct broker_start broker_start;
	const struct policy *secrets_of;	/* only those that it names are opened; NULL: all */
	unsigned bad_secrets;
	bool log_only;			/* nothing will run: no broker, no dialer */
	bool started;			/* there are processes to end, and records to write */
	bool confined, closing, drained, log_unwritable;
	bool failed;			/* it cannot go on: ends closed */
	const char *fatal;		/* why */
	/* Called once for each sandbox, when it runs (may be NULL), and when it has ended. */
	void (*on_sandbox_start)(struct appliance *a, struct sandbox *s);
	/* All has ended, and the loop's base goes next. May be NULL. */
	void (*on_end)(struct appliance *a);
	void (*on_sandbox_end)(struct appliance *a, struct sandbox *s);
	/* @typed: it comes from a terminal, which has sent it to its whole foreground group. */
	void (*on_signal)(struct appliance *a, int sig, bool typed);
	void (*on_tick)(struct appliance *a);	/* every TICK_MS; may be NULL */
	void *user;
};

/* Starts the shared roles; true: all are ready. Sandboxes may be created once this has returned
 * (or, where @early is given, from within it, so that they start side by side). */
bool appliance_open(struct appliance *a, void (*early)(struct appliance *a));
/* Confines this process. */
bool appliance_confine(struct appliance *a);
/* Runs until *done or the appliance fails. */
void appliance_run(struct appliance *a, const bool *done);
/* Ends everything in order; @how goes on record. False: not all could be written down. */
bool appliance_close(struct appliance *a, const char *how);
/* It cannot go on. @why is static. */
void appliance_fail(struct appliance *a, const char *why);

#endif
