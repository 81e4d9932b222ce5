/* Theory of operation
 *
 * The table is read from top to bottom by people, not by the kernel: libseccomp makes one filter a
 * role of the rows that name it. Rows of one call are alternatives. Nothing here opens: no row
 * allows execve, clone, fork, ptrace, mount, unshare, chroot, bpf, perf, io_uring, userfaultfd,
 * keyctl or a second way to send (sendmmsg, splice), and no row lets memory become executable.
 *
 * MSG_FASTOPEN would make a send into a connect. setsockopt() is by level and option, since some
 * options are powers (SO_BINDTODEVICE, SO_MARK, TCP_ULP, IP_TRANSPARENT, TCP_FASTOPEN_CONNECT).
 * O_NONBLOCK can be set and not cleared, and FIONBIO is no way round it: the flag belongs to what
 * two roles share (an eventfd of a ring), and who clears it would make the other one wait.
 */
#include "sandbox/confine_rules.h"

#include <asm/termbits.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define S (1u << ROLE_SUPERVISOR)
#define W (1u << ROLE_WORKER)
#define D (1u << ROLE_DIALER)
#define B (1u << ROLE_BROKER)
#define R (1u << ROLE_RECORDER)
#define P (1u << ROLE_READER)
#define ALL (S | W | D | B | R | P)
#define CONFINED (ALL & ~S)

#define IS(arg, value) { (arg), SCMP_CMP_MASKED_EQ, 0xffffffffu, (value) }
#define HAS(arg, mask, value) { (arg), SCMP_CMP_MASKED_EQ, (mask), (value) }
#define LACKS(arg, mask) { (arg), SCMP_CMP_MASKED_EQ, (mask), 0 }

#define ALLOW(name, who) { .call = SCMP_SYS(name), .roles = (who) }
#define ALLOW_IF(name, who, one) \
	{ .call = SCMP_SYS(name), .roles = (who), .n_args = 1, .args = { one } }
#define ALLOW_IF2(name, who, one, two) \
	{ .call = SCMP_SYS(name), .roles = (who), .n_args = 2, .args = { one, two } }
#define OWN(name, who) { .call = SCMP_SYS(name), .roles = (who), .own_process = true }
#define REFUSE(name, who, code) \
	{ .call = SCMP_SYS(name), .roles = (who), .refused_with = (code) }
#define REFUSE_IF(name, who, code, one) \
	{ .call = SCMP_SYS(name), .roles = (who), .refused_with = (code), .n_args = 1, .args = { one } }

#define SOCKET_TYPE 0xfu	/* without SOCK_CLOEXEC and SOCK_NONBLOCK */
#define SOCKET(who, family, type) ALLOW_IF2(socket, who, IS(0, family), HAS(1, SOCKET_TYPE, type))
#define OPTION(who, level, option) ALLOW_IF2(setsockopt, who, IS(1, level), IS(2, option))
#define FCNTL(who, command) ALLOW_IF(fcntl, who, IS(1, command))

#ifdef __SANITIZE_ADDRESS__
/* What AddressSanitizer's runtime needs to live and, when it has found something, to say so. */
#define SANITIZER_RULES                                                                           \
	ALLOW(sigaltstack, ALL), ALLOW(sched_yield, ALL), ALLOW(sched_getaffinity, ALL),          \
	ALLOW(prlimit64, ALL), ALLOW(getrusage, CONFINED),                                        \
	ALLOW_IF(ioctl, CONFINED, IS(1, TCGETS)), REFUSE(readlink, ALL, ENOENT),                  \
	REFUSE(open, ALL, ENOENT), REFUSE(openat, CONFINED, ENOENT),
#else
#define SANITIZER_RULES
#endif

const struct confine_rule confine_rules[] = {
	/* ---- living: memory, time, chance, ending ---- */
	ALLOW(brk, ALL),
	ALLOW_IF(mmap, ALL, LACKS(2, PROT_EXEC)),
	ALLOW_IF(mprotect, ALL, LACKS(2, PROT_EXEC)),
	ALLOW(munmap, ALL),
	ALLOW(mremap, ALL),
	ALLOW(madvise, ALL),
	ALLOW(mlock, W | B),
	ALLOW(mlock2, W | B),
	ALLOW(munlock, W | B),
	ALLOW(futex, ALL),
	ALLOW(clock_gettime, ALL),
	ALLOW(clock_getres, ALL),
	ALLOW(gettimeofday, ALL),
	ALLOW(time, ALL),
	ALLOW(getrandom, ALL),
	ALLOW(rt_sigaction, ALL),
	ALLOW(rt_sigprocmask, ALL),
	ALLOW(rt_sigreturn, ALL),
	ALLOW(restart_syscall, ALL),
	ALLOW(getpid, ALL),
	ALLOW(getppid, ALL),
	ALLOW(gettid, ALL),
	OWN(tgkill, ALL),		/* abort() */
	ALLOW(exit, ALL),
	ALLOW(exit_group, ALL),

	/* ---- descriptors that are there ---- */
	ALLOW(read, ALL),
	ALLOW(write, ALL),
	ALLOW(readv, ALL),
	ALLOW(writev, ALL),
	ALLOW(close, ALL),
	ALLOW(fstat, ALL),
	ALLOW_IF(newfstatat, ALL, HAS(3, AT_EMPTY_PATH, AT_EMPTY_PATH)),
	/* OpenSSL looks for an unknown issuer's file wherever default paths were asked for. */
	REFUSE_IF(newfstatat, CONFINED, ENOENT, LACKS(3, AT_EMPTY_PATH)),
	ALLOW_IF(newfstatat, S, LACKS(3, AT_EMPTY_PATH)),
	ALLOW(lseek, S | B | R | P),
	ALLOW(pread64, S | B | R | P),
	ALLOW(pwrite64, P),
	FCNTL(ALL, F_GETFD),
	FCNTL(ALL, F_SETFD),
	FCNTL(ALL, F_GETFL),
	ALLOW_IF2(fcntl, ALL, IS(1, F_SETFL), HAS(2, O_NONBLOCK, O_NONBLOCK)),
	FCNTL(ALL, F_DUPFD_CLOEXEC),
	FCNTL(ALL, F_GET_SEALS),
	ALLOW_IF(ioctl, S | W | D, IS(1, FIONREAD)),
	ALLOW_IF(ioctl, S, IS(1, TIOCGWINSZ)),
	ALLOW_IF(ioctl, S, IS(1, TCGETS)),
#ifndef __SANITIZE_ADDRESS__
	REFUSE_IF(ioctl, CONFINED, ENOTTY, IS(1, TCGETS)),	/* stdio asks whether it is a terminal */
#endif

	/* ---- the event loop and channels ---- */
	ALLOW(epoll_wait, ALL),
	ALLOW(epoll_pwait, ALL),
	ALLOW(epoll_ctl, ALL),
	ALLOW(poll, S | D | R),
	ALLOW(recvmsg, ALL),
	ALLOW_IF(sendmsg, ALL, LACKS(2, MSG_FASTOPEN)),
	ALLOW(recvfrom, S | W | D),
	ALLOW_IF(sendto, S | W | D, LACKS(3, MSG_FASTOPEN)),

	/* ---- connections ---- */
	ALLOW(accept4, S | W),		/* S: of the control socket, and no other listens */
	ALLOW(shutdown, S | W | D),
	ALLOW(getsockname, S | W | D),
	ALLOW(getpeername, W | D),
	ALLOW(getsockopt, S | W | D),
	OPTION(W | D, IPPROTO_TCP, TCP_NODELAY),
	OPTION(W | D, IPPROTO_TCP, TCP_KEEPIDLE),
	OPTION(W | D, IPPROTO_TCP, TCP_KEEPINTVL),
	OPTION(W | D, IPPROTO_TCP, TCP_KEEPCNT),
	OPTION(W | D, IPPROTO_TCP, TCP_QUICKACK),
	OPTION(W | D, IPPROTO_TCP, TCP_USER_TIMEOUT),
	OPTION(W | D, SOL_SOCKET, SO_KEEPALIVE),
	OPTION(W | D, SOL_SOCKET, SO_LINGER),
	OPTION(W | D, SOL_SOCKET, SO_RCVLOWAT),
	OPTION(W | D, SOL_SOCKET, SO_RCVBUF),
	OPTION(W | D, SOL_SOCKET, SO_SNDBUF),
	SOCKET(D, AF_INET, SOCK_STREAM),
	SOCKET(D, AF_INET, SOCK_DGRAM),
	SOCKET(D, AF_INET6, SOCK_STREAM),
	SOCKET(D, AF_INET6, SOCK_DGRAM),
	ALLOW(connect, D),
	REFUSE(openat, D, ENOENT),	/* c-ares looks for /etc/hosts and its kin */
	REFUSE(uname, D, EPERM),

	/* ---- the log ---- */
	ALLOW(ftruncate, S | R | P),
	ALLOW(fdatasync, R),
	ALLOW(fsync, R),
	ALLOW(flock, R),

	/* ---- the reader's image, and what the supervisor makes for others ---- */
	FCNTL(S | P, F_ADD_SEALS),
	ALLOW(memfd_create, S),
	ALLOW(eventfd2, S),
	ALLOW_IF(pipe2, S, HAS(1, O_CLOEXEC | O_NONBLOCK, O_CLOEXEC | O_NONBLOCK)),
	ALLOW(tee, S),			/* what is held for a role's successor, unread */
	ALLOW_IF2(socketpair, S, IS(0, AF_UNIX), HAS(1, SOCKET_TYPE, SOCK_SEQPACKET)),
	SOCKET(S, AF_NETLINK, SOCK_RAW),
	SOCKET(S, AF_NETLINK, SOCK_DGRAM),
	ALLOW(bind, S),			/* of netlink sockets: it can make no others */
	ALLOW_IF(setsockopt, S, IS(1, SOL_NETLINK)),
	ALLOW_IF(setns, S, IS(1, CLONE_NEWNET)),
	ALLOW_IF(openat, S, LACKS(2, O_ACCMODE | O_CREAT | O_TRUNC)),	/* reads files, writes none */
	ALLOW(getdents64, S),
	ALLOW(wait4, S),
	ALLOW(waitid, S),
	ALLOW(kill, S),
	ALLOW(pidfd_open, S),
	ALLOW(pidfd_send_signal, S),
	ALLOW(getrusage, S),
	SANITIZER_RULES
};

const size_t confine_rules_n = sizeof(confine_rules) / sizeof(confine_rules[0]);
