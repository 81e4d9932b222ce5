/* Theory of operation
 *
 * What a box's processes may not ask of the kernel. Everything else is allowed: the walls are the
 * namespaces, the missing capabilities and no_new_privs; this takes away what reaches beyond them
 * or what kernel faults are usually found in. Refused calls fail with EPERM, so that a program that
 * can do without goes on; ENOSYS and EAFNOSUPPORT where programs have a second way for that.
 *
 *   - making or joining namespaces and mounts: a box is not built inside a box
 *   - kernel objects without a namespace: keys, BPF, perf, modules, kexec, swap, quota, clocks
 *   - io_uring: does what the filter refuses, unseen by it
 *   - sockets of other families than unix, IPv4, IPv6 and netlink: vsock reaches the hypervisor
 *     whatever the network namespace says. Of these families, protocols that lead nowhere here, and
 *     for which the kernel would load a module
 *   - setuid and setgid bits: a workspace lies on the host's disk, where they would count
 *   - putting characters into a terminal's input
 *
 * Programs of another architecture (32 bit, x32) are ended: no list is given for theirs.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/stat.h>

#include "conf/json.h"
#include "sandbox/bundle.h"

#define TIOCSTI_NUMBER 0x5412u
#define TIOCLINUX_NUMBER 0x541cu
#define FAMILY_UNIX 1u
#define FAMILY_IPV4 2u
#define FAMILY_IPV6 10u
#define FAMILY_NETLINK 16u
#define NETLINK_PROTOCOLS 32u
#define CONDITIONS_MAX 2
#define L2TP 115u	/* not in every netinet/in.h */

static const char *const refused[] = {
	"_sysctl", "acct", "add_key", "adjtimex", "bpf", "clock_adjtime", "clock_adjtime64",
	"clock_settime", "clock_settime64", "create_module", "delete_module", "fanotify_init",
	"finit_module", "fsconfig", "fsmount", "fsopen", "fspick", "get_kernel_syms", "init_module",
	"io_uring_enter", "io_uring_register", "io_uring_setup", "ioperm", "iopl", "kcmp",
	"kexec_file_load", "kexec_load", "keyctl", "lookup_dcookie", "mount", "mount_setattr",
	"move_mount", "move_pages", "nfsservctl", "open_by_handle_at", "open_tree",
	"perf_event_open", "pivot_root", "query_module", "quotactl", "quotactl_fd", "reboot",
	"request_key", "setdomainname", "sethostname", "setns", "settimeofday", "stime", "swapoff",
	"swapon", "sysfs", "syslog", "umount", "umount2", "unshare", "uselib", "userfaultfd",
	"ustat", "vhangup", "vm86", "vm86old", NULL,
};

/* openat2 and clone3 have their flags in memory, where a filter cannot look. */
static const char *const unknown[] = { "clone3", "openat2", NULL };

static const uint64_t namespace_flags[] = {
	CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID,
	CLONE_NEWNET, 0,
};

/* Which argument holds the mode, and which the flags that say whether the mode means anything (for
 * the calls that have such flags). */
#define NO_FLAGS 0u

static const struct {
	const char *call;
	unsigned mode, flags;
} with_mode[] = {
	{ "chmod", 1, NO_FLAGS },   { "fchmod", 1, NO_FLAGS }, { "fchmodat", 2, NO_FLAGS },
	{ "fchmodat2", 2, NO_FLAGS }, { "creat", 1, NO_FLAGS }, { "mknod", 1, NO_FLAGS },
	{ "mknodat", 2, NO_FLAGS }, { "open", 2, 1 },	       { "openat", 3, 2 },
};

/* op(argument & mask), as libseccomp has it: of MASKED_EQ the first value is the mask. */
struct condition {
	unsigned argument;
	enum scmp_compare op;
	uint64_t value, value_two;
};

/* Where the rules go: into the configuration, or into a filter of our own. Conditions of one rule
 * must all hold. */
struct out {
	void (*rule)(void *arg, const char *const *names, int error, const struct condition *c,
		     size_t n);
	void *arg;
};

static void put_rule(const struct out *o, const char *const *names, int error,
		     const struct condition *c, size_t n)
{
	o->rule(o->arg, names, error, c, n);
}

static void put_one(const struct out *o, const char *call, int error, struct condition c)
{
	const char *const names[] = { call, NULL };

	put_rule(o, names, error, &c, 1);
}

static struct condition has_bits(unsigned argument, uint64_t bits)
{
	return (struct condition){ argument, SCMP_CMP_MASKED_EQ, bits, bits };
}

/* Interfaces and routes, sockets, devices: what programs look at. The others are the operator's. */
static bool is_read_by_programs(uint32_t netlink_protocol)
{
	return netlink_protocol == NETLINK_ROUTE || netlink_protocol == NETLINK_SOCK_DIAG ||
	       netlink_protocol == NETLINK_KOBJECT_UEVENT;
}

/* The kernel takes the low half of the register: compared whole, one bit above would get past. */
static struct condition low_half_is(unsigned argument, uint32_t value)
{
	return (struct condition){ argument, SCMP_CMP_MASKED_EQ, UINT32_MAX, value };
}

static void put_mode(const struct out *o, const char *call, unsigned mode, unsigned flags)
{
	static const uint64_t bits[] = { S_ISUID, S_ISGID }, makes[] = { O_CREAT, O_TMPFILE };
	const char *const names[] = { call, NULL };

	for (size_t i = 0; i < 2; i++) {
		struct condition c[2] = { has_bits(mode, bits[i]) };

		if (flags == NO_FLAGS) {
			put_rule(o, names, EPERM, c, 1);
			continue;
		}
		for (size_t k = 0; k < 2; k++) {
			c[1] = has_bits(flags, makes[k]);
			put_rule(o, names, EPERM, c, 2);
		}
	}
}

static void put_sockets(const struct out *o)
{
	for (uint64_t family = 0; family < FAMILY_NETLINK; family++)
		if (family != FAMILY_UNIX && family != FAMILY_IPV4 && family != FAMILY_IPV6)
			put_one(o, "socket", EAFNOSUPPORT,
				(struct condition){ 0, SCMP_CMP_EQ, family, 0 });
	/* Compared whole: what has a bit above the low half is over the last family, too. */
	put_one(o, "socket", EAFNOSUPPORT, (struct condition){ 0, SCMP_CMP_GT, FAMILY_NETLINK, 0 });
}

/* Unix sockets have no protocol, so the numbers of the other families can be told apart. */
static void put_protocols(const struct out *o)
{
	static const uint32_t tunnels[] = { IPPROTO_DCCP, IPPROTO_SCTP, L2TP };
	static const char *const names[] = { "socket", NULL };

	for (size_t i = 0; i < sizeof(tunnels) / sizeof(*tunnels); i++)
		put_one(o, "socket", EPROTONOSUPPORT, low_half_is(2, tunnels[i]));
	for (uint32_t protocol = 0; protocol < NETLINK_PROTOCOLS; protocol++) {
		const struct condition c[] = { low_half_is(0, FAMILY_NETLINK),
					       low_half_is(2, protocol) };

		if (!is_read_by_programs(protocol))
			put_rule(o, names, EPROTONOSUPPORT, c, 2);
	}
}

static void put_calls(const struct out *o)
{
	put_rule(o, refused, EPERM, NULL, 0);
	put_rule(o, unknown, ENOSYS, NULL, 0);
	for (size_t i = 0; namespace_flags[i] != 0; i++)
		put_one(o, "clone", EPERM, has_bits(0, namespace_flags[i]));
	for (size_t i = 0; i < sizeof(with_mode) / sizeof(*with_mode); i++)
		put_mode(o, with_mode[i].call, with_mode[i].mode, with_mode[i].flags);
	put_sockets(o);
	put_protocols(o);
	put_one(o, "ioctl", EPERM, low_half_is(1, TIOCSTI_NUMBER));
	put_one(o, "ioctl", EPERM, low_half_is(1, TIOCLINUX_NUMBER));
}

/* ---- as JSON ---- */

static const char *name_of(enum scmp_compare op)
{
	return op == SCMP_CMP_MASKED_EQ ? "SCMP_CMP_MASKED_EQ" : op == SCMP_CMP_GT ? "SCMP_CMP_GT"
										: "SCMP_CMP_EQ";
}

static void put_condition(struct json *j, const struct condition *c)
{
	json_object(j);
	json_put_u64(j, "index", c->argument);
	json_put_u64(j, "value", c->value);
	json_put_u64(j, "valueTwo", c->value_two);
	json_put_str(j, "op", str_of(name_of(c->op)));
	json_object_end(j);
}

static void json_rule(void *arg, const char *const *names, int error, const struct condition *c,
		      size_t n)
{
	struct json *j = arg;

	json_object(j);
	json_key(j, "names");
	json_array(j);
	for (; *names; names++)
		json_str(j, str_of(*names));
	json_array_end(j);
	json_put_str(j, "action", STR("SCMP_ACT_ERRNO"));
	json_put_u64(j, "errnoRet", (uint64_t)error);
	if (n > 0) {
		json_key(j, "args");
		json_array(j);
		for (size_t i = 0; i < n; i++)
			put_condition(j, &c[i]);
		json_array_end(j);
	}
	json_object_end(j);
}

void seccomp_profile_write(struct json *j)
{
	const struct out o = { json_rule, j };

	json_object(j);
	json_put_str(j, "defaultAction", STR("SCMP_ACT_ALLOW"));
	json_key(j, "syscalls");
	json_array(j);
	put_calls(&o);
	json_array_end(j);
	json_object_end(j);
}

/* ---- as a filter ---- */

struct filter {
	scmp_filter_ctx ctx;
	bool failed;
};

/* A name that this machine's kernel has no number for is none that could be called. */
static void filter_rule(void *arg, const char *const *names, int error, const struct condition *c,
			size_t n)
{
	const uint32_t action = SCMP_ACT_ERRNO((uint16_t)error);
	struct scmp_arg_cmp args[CONDITIONS_MAX];
	struct filter *f = arg;

	for (size_t i = 0; i < n && i < CONDITIONS_MAX; i++)
		args[i] = (struct scmp_arg_cmp){ c[i].argument, c[i].op, c[i].value,
						 c[i].value_two };
	for (; *names && !f->failed; names++) {
		int call = seccomp_syscall_resolve_name(*names);

		if (call != __NR_SCMP_ERROR)
			f->failed = n > CONDITIONS_MAX ||
				    seccomp_rule_add_array(f->ctx, action, call, (unsigned)n,
							   args) != 0;
	}
}

enum err seccomp_profile_load(void)
{
	struct filter f = { .ctx = seccomp_init(SCMP_ACT_ALLOW) };
	const struct out o = { filter_rule, &f };

	if (!f.ctx)
		return ERR_NOMEM;
	put_calls(&o);
	f.failed = f.failed || seccomp_load(f.ctx) != 0;
	seccomp_release(f.ctx);
	return f.failed ? ERR_SYSTEM : OK;
}
