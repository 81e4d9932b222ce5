/* Each role, confined for real in a child of its own: what it looks like from outside, and one act
 * after another, each in a fresh child: allowed, refused with the errno that the table says, or the
 * end of the process. Needs root. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "conf/str.h"
#include "sandbox/confine.h"

#define S (1u << ROLE_SUPERVISOR)
#define W (1u << ROLE_WORKER)
#define D (1u << ROLE_DIALER)
#define B (1u << ROLE_BROKER)
#define R (1u << ROLE_RECORDER)
#define P (1u << ROLE_READER)
#define ALL (S | W | D | B | R | P)
#define NONE 0u
#ifdef __SANITIZE_ADDRESS__
#define SANITIZED ALL
#else
#define SANITIZED NONE
#endif

#define EXIT_OPEN 90	/* the confinement itself failed */

/* What a role has before it is confined. */
static struct {
	int tcp, udp, listener, pair[2], memfd, sealable, epoll, netns;
	struct sockaddr_in nowhere;
} have;

static int passed, failed;

static void verdict(bool ok, enum role role, const char *what, const char *how)
{
	printf("%-6s %-10s %s: %s\n", ok ? "ok" : "FAILED", role_name(role), what, how);
	if (ok)
		passed++;
	else
		failed++;
}

/* ---- acts: 0, or the errno that was met ---- */

static int result(long r)
{
	return r < 0 ? errno : 0;
}

/* Where only the attempt matters: it came through to the kernel. */
static int reached(long r)
{
	(void)r;
	return 0;
}

static int act_write(void) { return result(write(have.pair[0], "x", 1)); }
static int act_map(void)
{
	return result(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
				      MAP_FAILED ? -1 : 0);
}
static int act_sendmsg(void)
{
	struct iovec v = { (void *)(uintptr_t)"x", 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	return result(sendmsg(have.pair[0], &m, MSG_NOSIGNAL));
}
static int act_epoll(void)
{
	struct epoll_event e = { 0 };

	return result(epoll_wait(have.epoll, &e, 1, 0));
}
static int act_dup(void) { return result(fcntl(have.pair[0], F_DUPFD_CLOEXEC, 10)); }
static int act_open(void) { return result(open("/etc/passwd", O_RDONLY)); }
static int act_open_root(void) { return result(open("/", O_RDONLY | O_DIRECTORY)); }
static int act_open_proc(void) { return result(open("/proc/self/mem", O_RDONLY)); }
static int act_create(void) { return result(open("/tmp/exeat-confine-test", O_WRONLY | O_CREAT, 0600)); }
static int act_old_open(void) { return result(syscall(SYS_open, "/etc/passwd", O_RDONLY)); }
static int act_openat2(void) { return result(syscall(SYS_openat2, -1, "/", NULL, 0)); }
static int act_stat(void)
{
	struct stat st;

	return result(fstatat(AT_FDCWD, "/etc/passwd", &st, 0));
}
static int act_fstat(void)
{
	struct stat st;

	return result(fstat(have.memfd, &st));
}
static int act_unlink(void) { return result(unlink("/nothing-of-that-name")); }
static int act_mkdir(void) { return result(mkdir("/exeat-confine-test", 0700)); }
static int act_rename(void) { return reached(rename("/nothing-of-that-name", "/nor-of-that")); }
static int act_chmod(void) { return reached(chmod("/nothing-of-that-name", 0600)); }
static int act_open_to_write(void) { return result(open("/dev/null", O_WRONLY)); }
static int act_list(void) { return reached(syscall(SYS_getdents64, -1, NULL, 0)); }
static int act_readlink(void)
{
	char b[8];

	return result(readlink("/proc/self/exe", b, sizeof(b)));
}
static int act_tcp(void) { return result(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }
static int act_udp6(void) { return result(socket(AF_INET6, SOCK_DGRAM, 0)); }
static int act_unix(void) { return result(socket(AF_UNIX, SOCK_STREAM, 0)); }
static int act_raw(void) { return result(socket(AF_INET, SOCK_RAW, IPPROTO_ICMP)); }
static int act_packet(void) { return result(socket(AF_PACKET, SOCK_RAW, 0)); }
static int act_netlink(void) { return result(socket(AF_NETLINK, SOCK_RAW, 0)); }
static int act_vsock(void) { return result(socket(AF_VSOCK, SOCK_STREAM, 0)); }
static int act_connect(void)
{
	return reached(connect(have.tcp, (struct sockaddr *)&have.nowhere, sizeof(have.nowhere)));
}
static int act_bind(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET };

	return reached(bind(have.tcp, (struct sockaddr *)&any, sizeof(any)));
}
static int act_listen(void) { return reached(listen(have.tcp, 1)); }
static int act_accept4(void) { return reached(accept4(have.listener, NULL, NULL, SOCK_NONBLOCK)); }
static int act_accept(void) { return reached(syscall(SYS_accept, have.listener, NULL, NULL)); }
static int act_shutdown(void) { return reached(shutdown(have.tcp, SHUT_WR)); }
static int act_getsockname(void) { return reached(getsockname(have.tcp, NULL, NULL)); }
static int act_getpeername(void) { return reached(getpeername(have.tcp, NULL, NULL)); }
static int act_channel(void)
{
	return result(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, (int[2]){ -1, -1 }));
}
static int act_stream_pair(void)
{
	return result(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, (int[2]){ -1, -1 }));
}
static int act_fastopen(void)
{
	return reached(sendto(have.tcp, "x", 1, MSG_FASTOPEN | MSG_NOSIGNAL,
			      (struct sockaddr *)&have.nowhere, sizeof(have.nowhere)));
}
static int act_fastopen_msg(void)
{
	struct iovec v = { (void *)(uintptr_t)"x", 1 };
	struct msghdr m = { .msg_name = &have.nowhere, .msg_namelen = sizeof(have.nowhere),
			    .msg_iov = &v, .msg_iovlen = 1 };

	return reached(sendmsg(have.tcp, &m, MSG_FASTOPEN | MSG_NOSIGNAL));
}
static int act_sendmmsg(void) { return reached(sendmmsg(have.udp, NULL, 0, 0)); }
static int act_option(int level, int option)
{
	int one = 1;

	return reached(setsockopt(have.tcp, level, option, &one, sizeof(one)));
}
static int act_nodelay(void) { return act_option(IPPROTO_TCP, TCP_NODELAY); }
static int act_keepalive(void) { return act_option(SOL_SOCKET, SO_KEEPALIVE); }
static int act_bindtodevice(void) { return act_option(SOL_SOCKET, SO_BINDTODEVICE); }
static int act_mark(void) { return act_option(SOL_SOCKET, SO_MARK); }
static int act_transparent(void) { return act_option(IPPROTO_IP, IP_TRANSPARENT); }
static int act_fastopen_connect(void) { return act_option(IPPROTO_TCP, TCP_FASTOPEN_CONNECT); }
static int act_ulp(void) { return act_option(IPPROTO_TCP, TCP_ULP); }
static int act_fionread(void)
{
	int n;

	return result(ioctl(have.pair[0], FIONREAD, &n));
}
static int act_tcgets(void)
{
	struct termios t;

	return result(ioctl(have.pair[0], TCGETS, &t));
}
static int act_tiocsti(void) { return reached(ioctl(have.pair[0], TIOCSTI, "x")); }
static int act_ioctl_other(void) { return reached(ioctl(have.tcp, 0x8912 /* SIOCGIFCONF */, NULL)); }
static int act_setown(void) { return reached(fcntl(have.pair[0], F_SETOWN, getpid())); }
static int act_setpipe(void) { return reached(fcntl(have.pair[0], F_SETPIPE_SZ, 4096)); }
static int act_nonblock(void) { return result(fcntl(have.pair[0], F_SETFL, O_NONBLOCK)); }
static int act_block(void) { return reached(fcntl(have.pair[0], F_SETFL, 0)); }
static int act_fionbio(void) { return reached(ioctl(have.pair[0], FIONBIO, &(int){ 0 })); }
static int act_seal(void) { return result(fcntl(have.sealable, F_ADD_SEALS, F_SEAL_GROW)); }
static int act_memfd(void) { return result(memfd_create("x", MFD_CLOEXEC)); }
static int act_ftruncate(void) { return result(ftruncate(have.memfd, 4096)); }
static int act_flock(void) { return result(flock(have.memfd, LOCK_EX)); }
static int act_fdatasync(void) { return result(fdatasync(have.memfd)); }
static int act_mlock(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return result(p == MAP_FAILED ? -1 : syscall(SYS_mlock, p, 4096));
}
static int act_execve(void)
{
	char *const v[] = { (char *)(uintptr_t)"true", NULL };

	return reached(execve("/bin/true", v, v + 1));
}
static int act_execveat(void) { return reached(syscall(SYS_execveat, have.memfd, "", NULL, NULL, AT_EMPTY_PATH)); }
static int act_fork(void) { return reached(syscall(SYS_fork)); }
static int act_vfork(void) { return reached(syscall(SYS_vfork)); }
static int act_clone(void) { return reached(syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL)); }
static int act_clone3(void) { return reached(syscall(SYS_clone3, NULL, 0)); }
static int act_ptrace(void) { return reached(ptrace(PTRACE_ATTACH, getppid(), NULL, NULL)); }
static int act_vm_read(void) { return reached(syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0)); }
static int act_map_exec(void)
{
	return reached((long)(intptr_t)mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}
static int act_protect_exec(void)
{
	void *p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return reached(mprotect(p, 4096, PROT_READ | PROT_EXEC));
}
static int act_setuid(void) { return reached(syscall(SYS_setuid, 0)); }
static int act_setresgid(void) { return reached(syscall(SYS_setresgid, 0, 0, 0)); }
static int act_capset(void) { return reached(syscall(SYS_capset, NULL, NULL)); }
static int act_mount(void) { return reached(mount("none", "/", "tmpfs", 0, NULL)); }
static int act_umount(void) { return reached(umount2("/nothing-of-that-name", 0)); }
static int act_unshare(void) { return reached(unshare(CLONE_NEWUSER)); }
static int act_setns(void) { return reached(setns(have.netns, CLONE_NEWNET)); }
static int act_setns_user(void) { return reached(setns(have.netns, CLONE_NEWUSER)); }
static int act_chroot(void) { return reached(chroot("/nothing-of-that-name")); }
static int act_kill(void) { return reached(kill(getppid(), 0)); }
static int act_wait(void) { return reached(waitpid(-1, NULL, WNOHANG)); }
static int act_pidfd(void) { return result(syscall(SYS_pidfd_open, getppid(), 0)); }
static int act_pidfd_signal(void) { return reached(syscall(SYS_pidfd_send_signal, -1, 0, NULL, 0)); }
static int act_pidfd_take(void) { return reached(syscall(SYS_pidfd_getfd, -1, 0, 0)); }
static int act_tgkill_self(void) { return result(syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), 0)); }
static int act_tgkill_other(void) { return reached(syscall(SYS_tgkill, getppid(), getppid(), 0)); }
static int act_dumpable(void) { return reached(prctl(PR_SET_DUMPABLE, 1)); }
static int act_prctl_get(void) { return reached(prctl(PR_GET_DUMPABLE)); }
static int act_rlimit(void)
{
	struct rlimit r = { 1, 1 };

	return reached(syscall(SYS_prlimit64, 0, RLIMIT_CORE, &r, NULL));
}
static int act_personality(void) { return reached(syscall(SYS_personality, 0x400000)); }
static int act_uring(void) { return reached(syscall(SYS_io_uring_setup, 0, NULL)); }
static int act_bpf(void) { return reached(syscall(SYS_bpf, 0, NULL, 0)); }
static int act_perf(void) { return reached(syscall(SYS_perf_event_open, NULL, 0, 0, 0, 0)); }
static int act_userfault(void) { return reached(syscall(SYS_userfaultfd, 0)); }
static int act_keyctl(void) { return reached(syscall(SYS_keyctl, 0, 0, 0, 0, 0)); }
static int act_shm(void) { return reached(syscall(SYS_shmget, 0, 0, 0)); }
static int act_tee(void) { return reached(tee(-1, -1, 1, SPLICE_F_NONBLOCK)); }
static int act_pipe(void) { return result(pipe2((int[2]){ -1, -1 }, O_CLOEXEC | O_NONBLOCK)); }
static int act_waiting_pipe(void) { return result(pipe2((int[2]){ -1, -1 }, O_CLOEXEC)); }
static int act_vmsplice(void) { return reached(syscall(SYS_vmsplice, -1, NULL, 0, 0)); }
static int act_sendfile(void) { return reached(syscall(SYS_sendfile, -1, -1, NULL, 0)); }
static int act_copy_range(void) { return reached(syscall(SYS_copy_file_range, -1, NULL, -1, NULL, 0, 0)); }
static int act_eventfd(void) { return result(syscall(SYS_eventfd2, 0, O_CLOEXEC)); }
static int act_splice(void) { return reached(syscall(SYS_splice, -1, NULL, -1, NULL, 0, 0)); }
static int act_handle(void) { return reached(syscall(SYS_open_by_handle_at, -1, NULL, 0)); }
static int act_x32(void) { return reached(syscall(0x40000000L | SYS_getpid)); }
static int act_seccomp(void) { return reached(syscall(SYS_seccomp, 0, 0, NULL)); }

struct act {
	const char *name;
	int (*fn)(void);
	unsigned allowed;
	unsigned refused;	/* with .code */
	int code;
};

#define A(name, fn, allowed) { name, act_##fn, allowed, NONE, 0 }
#define E(name, fn, allowed, refused, code) { name, act_##fn, allowed, refused, code }

static const struct act acts[] = {
	A("write to a descriptor", write, ALL),
	A("map memory", map, ALL),
	A("send a packet on a channel", sendmsg, ALL),
	A("wait for events", epoll, ALL),
	A("duplicate a descriptor", dup, ALL),
	E("open a file", open, S, SANITIZED & ~S ? ALL & ~S : D, ENOENT),
	E("open the root", open_root, S, SANITIZED & ~S ? ALL & ~S : D, ENOENT),
	E("open /proc/self/mem", open_proc, S, SANITIZED & ~S ? ALL & ~S : D, ENOENT),
	E("create a file", create, NONE, SANITIZED & ~S ? ALL & ~S : D, ENOENT),
	E("open a file to write", open_to_write, NONE, SANITIZED & ~S ? ALL & ~S : D, ENOENT),
	E("open by the old call", old_open, NONE, SANITIZED, ENOENT),
	A("openat2", openat2, NONE),
	E("look at a file", stat, S, ALL & ~S, ENOENT),
	A("look at a descriptor", fstat, ALL),
	A("remove a file", unlink, NONE),
	A("rename a file", rename, NONE),
	A("change a file's mode", chmod, NONE),
	A("make a folder", mkdir, NONE),
	A("list a folder", list, S),
	E("read a link", readlink, NONE, SANITIZED, ENOENT),
	A("open by handle", handle, NONE),
	A("make a TCP socket", tcp, D),
	A("make a UDP socket over IPv6", udp6, D),
	A("make a UNIX socket", unix, NONE),
	A("make a raw socket", raw, NONE),
	A("make a packet socket", packet, NONE),
	A("make a vsock socket", vsock, NONE),
	A("make a netlink socket", netlink, S),
	A("connect", connect, D),
	A("bind", bind, S),
	A("listen", listen, NONE),
	A("accept4", accept4, S | W),
	A("accept", accept, NONE),
	A("shutdown", shutdown, S | W | D),
	A("getsockname", getsockname, S | W | D),
	A("getpeername", getpeername, W | D),
	A("make a channel", channel, S),
	A("make a pair of streams", stream_pair, NONE),
	A("connect by sendto MSG_FASTOPEN", fastopen, NONE),
	A("connect by sendmsg MSG_FASTOPEN", fastopen_msg, NONE),
	A("sendmmsg", sendmmsg, NONE),
	A("splice", splice, NONE),
	A("vmsplice", vmsplice, NONE),
	A("sendfile", sendfile, NONE),
	A("copy_file_range", copy_range, NONE),
	A("tee", tee, S),
	A("make an eventfd", eventfd, S),
	A("make a pipe", pipe, S),
	A("make a pipe that can wait", waiting_pipe, NONE),
	A("set TCP_NODELAY", nodelay, W | D),
	A("set SO_KEEPALIVE", keepalive, W | D),
	A("set SO_BINDTODEVICE", bindtodevice, NONE),
	A("set SO_MARK", mark, NONE),
	A("set IP_TRANSPARENT", transparent, NONE),
	A("set TCP_FASTOPEN_CONNECT", fastopen_connect, NONE),
	A("set TCP_ULP", ulp, NONE),
	A("ioctl FIONREAD", fionread, S | W | D),
	E("ioctl TCGETS on no terminal", tcgets, NONE, ALL, ENOTTY),
	A("ioctl TIOCSTI", tiocsti, NONE),
	A("ioctl SIOCGIFCONF", ioctl_other, NONE),
	A("fcntl F_SETOWN", setown, NONE),
	A("fcntl F_SETPIPE_SZ", setpipe, NONE),
	A("make a descriptor non-blocking", nonblock, ALL),
	A("make a descriptor blocking", block, NONE),
	A("make a descriptor blocking by FIONBIO", fionbio, NONE),
	A("seal a memfd", seal, S | P),
	A("make a memfd", memfd, S),
	A("set a file's size", ftruncate, S | R | P),
	A("lock a file", flock, R),
	A("sync a file", fdatasync, R),
	A("lock memory", mlock, W | B),
	A("execve", execve, NONE),
	A("execveat", execveat, NONE),
	A("fork", fork, NONE),
	A("vfork", vfork, NONE),
	A("clone", clone, NONE),
	A("clone3", clone3, NONE),
	A("ptrace", ptrace, NONE),
	A("read another's memory", vm_read, NONE),
	A("map executable memory", map_exec, NONE),
	A("make memory executable", protect_exec, NONE),
	A("setuid back", setuid, NONE),
	A("setresgid back", setresgid, NONE),
	A("capset", capset, NONE),
	A("mount", mount, NONE),
	A("umount", umount, NONE),
	A("unshare a user namespace", unshare, NONE),
	A("enter a network namespace", setns, S),
	A("enter a user namespace", setns_user, NONE),
	A("chroot", chroot, NONE),
	A("kill another", kill, S),
	A("wait for a child", wait, S),
	A("open another process", pidfd, S),
	A("signal an open process", pidfd_signal, S),
	A("take an open process's descriptor", pidfd_take, NONE),
	A("signal itself", tgkill_self, ALL),
	A("tgkill another", tgkill_other, NONE),
	A("become dumpable", dumpable, NONE),
	A("prctl", prctl_get, NONE),
	A("change a limit", rlimit, SANITIZED),
	A("personality", personality, NONE),
	A("io_uring", uring, NONE),
	A("bpf", bpf, NONE),
	A("perf", perf, NONE),
	A("userfaultfd", userfault, NONE),
	A("keyctl", keyctl, NONE),
	A("System V shared memory", shm, NONE),
	A("x32 calls", x32, NONE),
	A("another filter", seccomp, NONE),
};

/* ---- the acts, one child each ---- */

static void prepare(void)
{
	int one = 1;

	have.tcp = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	have.udp = socket(AF_INET, SOCK_DGRAM, 0);
	have.listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	have.memfd = memfd_create("confine", 0);
	have.sealable = memfd_create("sealable", MFD_ALLOW_SEALING);
	have.epoll = epoll_create1(0);
	have.netns = open("/proc/self/ns/net", O_RDONLY);
	have.nowhere = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(1),
					     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (have.tcp < 0 || have.udp < 0 || have.listener < 0 || have.memfd < 0 || have.sealable < 0 ||
	    have.epoll < 0 || have.netns < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, have.pair) < 0 ||
	    setsockopt(have.listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    listen(have.listener, 1) < 0) {
		perror("cannot prepare");
		exit(1);
	}
}

static _Noreturn void act_confined(enum role role, const struct act *act)
{
	const char *what = "";
	int null = open("/dev/null", O_WRONLY);
	int code;

	if (null < 0 || dup2(null, STDERR_FILENO) < 0 || confine_enter(role, &what) != OK)
		_exit(EXIT_OPEN);
	code = act->fn();
	_exit(code < EXIT_OPEN ? code : EXIT_OPEN - 1);
}

static void try_act(enum role role, const struct act *act)
{
	unsigned bit = 1u << role;
	pid_t child = fork();
	char how[64];
	int status;
	bool ok;

	if (child == 0)
		act_confined(role, act);
	if (child < 0 || waitpid(child, &status, 0) != child) {
		verdict(false, role, act->name, "no child");
		return;
	}
	if (WIFSIGNALED(status))
		snprintf(how, sizeof(how), "killed by signal %d", WTERMSIG(status));
	else if (WEXITSTATUS(status) == EXIT_OPEN)
		snprintf(how, sizeof(how), "could not be confined");
	else if (WEXITSTATUS(status))
		snprintf(how, sizeof(how), "refused: %s", strerror(WEXITSTATUS(status)));
	else
		snprintf(how, sizeof(how), "allowed");
	if (act->allowed & bit)
		ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
	else if (act->refused & bit)
		ok = WIFEXITED(status) && WEXITSTATUS(status) == act->code;
	else
		ok = WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS;
	verdict(ok, role, act->name, how);
}

/* ---- what a confined process looks like from outside ---- */

static size_t slurp(pid_t pid, const char *file, char *out, size_t n)
{
	char path[64];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	fd = open(path, O_RDONLY);
	got = fd < 0 ? 0 : read(fd, out, n - 1);
	if (fd >= 0)
		close(fd);
	out[got > 0 ? got : 0] = '\0';
	return got > 0 ? (size_t)got : 0;
}

static void status_says(enum role role, pid_t pid, const char *what, const char *line)
{
	char text[8192];
	bool found;

	slurp(pid, "status", text, sizeof(text));
	found = strstr(text, line) != NULL;
	snprintf(text, sizeof(text), "%.*s", (int)strcspn(line + 1, "\n"), line + 1);
	verdict(found, role, what, found ? text : "otherwise");
}

static bool same_namespace(pid_t pid, const char *name)
{
	char path[64];
	struct stat its, ours;

	snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, name);
	if (stat(path, &its) < 0)
		return false;
	snprintf(path, sizeof(path), "/proc/self/ns/%s", name);
	return stat(path, &ours) == 0 && its.st_ino == ours.st_ino;
}

static void look_at_root(enum role role, pid_t pid)
{
	char path[64], mounts[4096];
	size_t entries = 0, lines = 0;
	struct dirent *d;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/root", pid);
	dir = opendir(path);
	while (dir && (d = readdir(dir)))
		entries += strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0;
	verdict(dir && entries == 0, role, "root", entries ? "has entries" : "empty");
	if (dir)
		closedir(dir);
	slurp(pid, "mountinfo", mounts, sizeof(mounts));
	for (const char *p = mounts; *p; p++)
		lines += *p == '\n';
	verdict(lines == 1 && strstr(mounts, " ro,") && strstr(mounts, " tmpfs "), role, "mounts",
		lines == 1 ? "one, read-only" : "more than one, or none");
}

static void look_at(enum role role, pid_t pid)
{
	char limits[4096], line[96], path[64];
	struct stat st;

	status_says(role, pid, "no new privileges", "\nNoNewPrivs:\t1\n");
	status_says(role, pid, "filter", "\nSeccomp:\t2\n");
	status_says(role, pid, "umask", "\nUmask:\t0077\n");
	slurp(pid, "limits", limits, sizeof(limits));
	verdict(strstr(limits, "Max core file size        0                    0 ") != NULL, role,
		"core files", "none");
	if (role == ROLE_SUPERVISOR) {
		status_says(role, pid, "capabilities", "\nCapPrm:\t00000000002010e0\n");
		status_says(role, pid, "bounding set", "\nCapBnd:\t00000000002010e0\n");
		return;
	}
	/* What belongs to a process that may not be dumped belongs to root (proc(5)). */
	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	verdict(stat(path, &st) == 0 && st.st_uid == 0, role, "not dumpable", "as its files in /proc say");
	snprintf(line, sizeof(line), "\nUid:\t%u\t%u\t%u\t%u\n", ROLE_UID_BASE + role, ROLE_UID_BASE + role,
		 ROLE_UID_BASE + role, ROLE_UID_BASE + role);
	status_says(role, pid, "user", line);
	line[1] = 'G';
	status_says(role, pid, "group", line);
	status_says(role, pid, "other groups", "\nGroups:\t \n");
	for (size_t i = 0; i < 5; i++) {
		static const char *const sets[] = { "Inh", "Prm", "Eff", "Bnd", "Amb" };

		snprintf(line, sizeof(line), "\nCap%s:\t0000000000000000\n", sets[i]);
		status_says(role, pid, "capabilities", line);
	}
	verdict(!same_namespace(pid, "mnt") && !same_namespace(pid, "ipc") && !same_namespace(pid, "uts"),
		role, "mounts, IPC, host name", "of its own");
	verdict(same_namespace(pid, "net") == (role == ROLE_DIALER), role, "network",
		role == ROLE_DIALER ? "the host's" : "an empty one");
	look_at_root(role, pid);
}

/* Confined, says so on @ready, and waits until @end is closed. */
static _Noreturn void wait_confined(enum role role, int ready, int end)
{
	const char *what = "";
	char c = 'r';

	if (confine_enter(role, &what) != OK) {
		dprintf(STDERR_FILENO, "%s: cannot be confined: %s: %s\n", role_name(role), what,
			strerror(errno));
		_exit(EXIT_OPEN);
	}
	if (write(ready, &c, 1) != 1 || read(end, &c, 1) < 0)
		_exit(1);
	_exit(0);
}

static void try_look(enum role role)
{
	int ready[2], end[2], status = -1;
	pid_t child;
	char c;

	if (pipe(ready) < 0 || pipe(end) < 0)
		exit(1);
	child = fork();
	if (child == 0) {
		close(end[1]);
		close(ready[0]);
		wait_confined(role, ready[1], end[0]);
	}
	close(ready[1]);
	close(end[0]);
	if (read(ready[0], &c, 1) == 1)
		look_at(role, child);
	close(ready[0]);
	close(end[1]);
	waitpid(child, &status, 0);
	verdict(WIFEXITED(status) && WEXITSTATUS(status) == 0, role, "confined, and ends as asked", "yes");
}

/* A role whose parent is gone is gone: the pipe that only it holds ends. */
static void try_orphan(enum role role)
{
	int alive[2], ready[2], end[2];
	pid_t middle;
	char c;

	if (pipe(alive) < 0 || pipe(ready) < 0 || pipe(end) < 0)
		exit(1);
	middle = fork();
	if (middle == 0) {
		pid_t child = fork();

		if (child == 0)
			wait_confined(role, ready[1], end[0]);
		_exit(child > 0 && read(ready[0], &c, 1) == 1 ? 0 : 1);
	}
	close(alive[1]);
	close(ready[1]);
	close(end[0]);
	waitpid(middle, NULL, 0);
	verdict(poll(&(struct pollfd){ .fd = alive[0], .events = POLLIN }, 1, 10000) == 1 &&
		read(alive[0], &c, 1) == 0, role, "dies with its parent", "yes");
	close(alive[0]);
	close(ready[0]);
	close(end[1]);
}

int main(void)
{
	if (geteuid() != 0) {
		fprintf(stderr, "confine_test: needs root\n");
		return 1;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	prepare();
	for (enum role role = 0; role <= ROLE_CONFINED_LAST; role++) {
		try_look(role);
		if (role != ROLE_SUPERVISOR)
			try_orphan(role);
		for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++)
			try_act(role, &acts[i]);
	}
	printf("%d passed, %d failed\n", passed, failed);
	return failed ? 1 : 0;
}
