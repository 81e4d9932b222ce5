/* Theory of operation
 *
 * Five stages, in this order since each needs what a later one takes away:
 *
 *   limits      no core file, no debugger, few descriptors, no processes
 *   namespaces  mounts, IPC, host name of its own; most roles an empty network
 *   root        an empty read-only tmpfs: there is no file to open and no /proc to read
 *   identity    a user and a group of the role's own, no capability in any set, no way back
 *   calls       the filter of confine_rules.c
 *
 * What a stage must leave behind is checked, not assumed. The supervisor keeps user, mounts and
 * five capabilities, since it makes what the others are given; it takes the other stages.
 *
 * Changing the user makes the kernel forget two things, so they are said again afterwards: that the
 * process may not be dumped, and that it dies with its parent.
 *
 * A call without a rule kills the process. In a debug build (no optimisation) or under
 * AddressSanitizer the process names the call on stderr first, and then dies the same death.
 */
#include "sandbox/confine.h"

#include <cap-ng.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sandbox/confine_rules.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#define SECRET_MEMORY (8ul << 20)
#define SOME_DESCRIPTORS 4096
#define FEW_DESCRIPTORS 64

/* What of the stages differs from role to role. */
struct plan {
	bool own_network;	/* an empty network namespace */
	bool keeps_host;	/* user, mounts and the supervisor's capabilities */
	rlim_t descriptors;	/* 0: as they are */
	rlim_t locked;
};

static const struct plan plans[ROLE_CONFINED_LAST + 1] = {
	[ROLE_SUPERVISOR] = { .keeps_host = true },
	[ROLE_WORKER] = { .own_network = true,
			  .descriptors = CONFINE_MANY_DESCRIPTORS,
			  .locked = SECRET_MEMORY },
	[ROLE_DIALER] = { .descriptors = CONFINE_MANY_DESCRIPTORS },
	[ROLE_BROKER] = { .own_network = true,
			  .descriptors = SOME_DESCRIPTORS,
			  .locked = SECRET_MEMORY },
	[ROLE_RECORDER] = { .own_network = true, .descriptors = SOME_DESCRIPTORS },
	[ROLE_READER] = { .own_network = true, .descriptors = FEW_DESCRIPTORS },
};

/* ---- limits ---- */

/* As much as is wanted and can be had, and never more again. */
static bool set_limit(__rlimit_resource_t which, rlim_t want)
{
	struct rlimit r;

	if (getrlimit(which, &r) < 0)
		return false;
	if (r.rlim_max < want && setrlimit(which, &(struct rlimit){ want, want }) == 0)
		return true;
	r.rlim_max = r.rlim_max < want ? r.rlim_max : want;
	r.rlim_cur = r.rlim_max;
	return setrlimit(which, &r) == 0;
}

static bool limits(enum role role, const struct plan *p)
{
	(void)role;
	umask(077);
	/* A library that formats a time later would look for the zone's file. */
	tzset();
	if (!set_limit(RLIMIT_CORE, 0) || prctl(PR_SET_DUMPABLE, 0) < 0)
		return false;
	if (p->keeps_host)
		return true;
	return set_limit(RLIMIT_NOFILE, p->descriptors) && set_limit(RLIMIT_MEMLOCK, p->locked) &&
	       set_limit(RLIMIT_NPROC, 0);
}

/* ---- namespaces ---- */

static bool namespaces(enum role role, const struct plan *p)
{
	(void)role;
	if (p->keeps_host)
		return true;
	return unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS |
		       (p->own_network ? CLONE_NEWNET : 0)) == 0;
}

/* ---- root ---- */

/* pivot_root(".", ".") stacks the old root on the new one, whence it is taken away (pivot_root(2)). */
static bool empty_root(enum role role, const struct plan *p)
{
	(void)role;
	if (p->keeps_host)
		return true;
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("none", "/tmp", "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
		     "size=4096,nr_inodes=1,mode=0555") == 0 &&
	       chdir("/tmp") == 0 && syscall(SYS_pivot_root, ".", ".") == 0 &&
	       umount2(".", MNT_DETACH) == 0 && chdir("/") == 0;
}

/* ---- identity ---- */

static bool keep_five_capabilities(void)
{
	capng_type_t sets = (capng_type_t)(CAPNG_EFFECTIVE | CAPNG_PERMITTED | CAPNG_BOUNDING_SET);

	capng_clear(CAPNG_SELECT_ALL);
	return capng_updatev(CAPNG_ADD, sets, CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_SETUID, CAP_SETGID,
			     CAP_KILL, -1) == 0 &&
	       capng_apply(CAPNG_SELECT_ALL) == 0;
}

static bool no_capability_left(void)
{
	return capng_get_caps_process() == 0 &&
	       capng_have_capabilities(CAPNG_SELECT_ALL) == CAPNG_NONE &&
	       capng_have_capabilities(CAPNG_SELECT_AMBIENT) == CAPNG_NONE;
}

/* The bounding set first: it takes a capability to cut it. */
static bool become_nobody_else(uid_t id)
{
	uid_t u[3];
	gid_t g[3];

	capng_clear(CAPNG_SELECT_ALL);
	if (capng_apply(CAPNG_SELECT_BOUNDS) != 0 || setgroups(0, NULL) < 0 ||
	    setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0)
		return false;
	capng_clear(CAPNG_SELECT_ALL);
	if (capng_apply(CAPNG_SELECT_CAPS) != 0 || !no_capability_left())
		return false;
	return getresuid(&u[0], &u[1], &u[2]) == 0 && getresgid(&g[0], &g[1], &g[2]) == 0 &&
	       u[0] == id && u[1] == id && u[2] == id && g[0] == id && g[1] == id && g[2] == id;
}

static bool identity(enum role role, const struct plan *p)
{
	pid_t parent = getppid();

	if (!(p->keeps_host ? keep_five_capabilities() : become_nobody_else(ROLE_UID_BASE + role)))
		return false;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0)
		return false;
	if (p->keeps_host)
		return true;
	return prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent;
}

/* ---- calls ---- */

#if !defined(__OPTIMIZE__) || defined(__SANITIZE_ADDRESS__)
#define CALLS_NAMED 512

static enum role confined_role;
static char *call_names[CALLS_NAMED];	/* looked up before: a signal handler cannot allocate */

/* SIGSYS is blocked in its own handler: the second refused call is the end. */
static void name_refused_call(int sig, siginfo_t *info, void *context)
{
	unsigned call = (unsigned)info->si_syscall;
	const char *name = call < CALLS_NAMED && call_names[call] ? call_names[call] : "?";
	char text[128];
	int n = snprintf(text, sizeof(text), "exeat-%s: system call %s (%u) is not one of its own\n",
			 role_name(confined_role), name, call);

	(void)sig;
	(void)context;
	if (n > 0 && write(STDERR_FILENO, text, (size_t)n) < 0)
		syscall(SYS_acct, NULL);
	syscall(SYS_acct, NULL);
}

/* The action for calls without a rule. */
static uint32_t prepare_refusal(enum role role)
{
	struct sigaction act = { .sa_sigaction = name_refused_call, .sa_flags = SA_SIGINFO };

	confined_role = role;
	for (int i = 0; i < CALLS_NAMED; i++)
		if (!call_names[i])
			call_names[i] = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, i);
	return sigaction(SIGSYS, &act, NULL) < 0 ? SCMP_ACT_KILL_PROCESS : SCMP_ACT_TRAP;
}
#else
static uint32_t prepare_refusal(enum role role)
{
	(void)role;
	return SCMP_ACT_KILL_PROCESS;
}
#endif

static bool add_rule(scmp_filter_ctx filter, const struct confine_rule *r)
{
	struct scmp_arg_cmp own = { 0, SCMP_CMP_MASKED_EQ, 0xffffffffu, (scmp_datum_t)getpid() };
	uint32_t action =
		r->refused_with ? SCMP_ACT_ERRNO((uint32_t)r->refused_with) : SCMP_ACT_ALLOW;

	if (r->own_process)
		return seccomp_rule_add_array(filter, action, r->call, 1, &own) == 0;
	return seccomp_rule_add_array(filter, action, r->call, r->n_args, r->args) == 0;
}

static bool calls(enum role role, const struct plan *p)
{
	scmp_filter_ctx filter = seccomp_init(prepare_refusal(role));
	bool ok = filter &&
		  seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) == 0 &&
		  seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1) == 0 &&
		  seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2) == 0;

	(void)p;
	for (size_t i = 0; ok && i < confine_rules_n; i++)
		if (confine_rules[i].roles & (1u << role))
			ok = add_rule(filter, &confine_rules[i]);
	ok = ok && seccomp_load(filter) == 0;
	if (filter)
		seccomp_release(filter);
	return ok;
}

/* ---- all of them ---- */

static const struct {
	const char *name;
	bool (*enter)(enum role role, const struct plan *p);
} stages[] = {
	{ "limits", limits },
	{ "namespaces", namespaces },
	{ "empty root", empty_root },
	{ "user and capabilities", identity },
	{ "system calls", calls },
};

#ifdef __SANITIZE_ADDRESS__
static bool confined;

/* Looking for leaks at the end needs ptrace and clone. */
int __lsan_is_turned_off(void)
{
	return confined;
}

static void note_confined(void)
{
	confined = true;
}
#else
static void note_confined(void)
{
}
#endif

enum err confine_enter(enum role role, const char **what)
{
	if (role > ROLE_CONFINED_LAST)
		return ERR_BUG;
	for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++) {
		*what = stages[i].name;
		if (!stages[i].enter(role, &plans[role]))
			return ERR_SYSTEM;
	}
	note_confined();
	return OK;
}
