#include "sandbox/wire_sysctls.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

struct sysctl {
	const char *path, *value;
	bool may_lack;		/* where the kernel was built without it */
};

static const struct sysctl gateway_sysctls[] = {
	{ "/proc/sys/net/ipv4/ip_forward", "0", false },
	{ "/proc/sys/net/ipv4/icmp_ratelimit", "0", false },
	{ "/proc/sys/net/ipv4/icmp_msgs_per_sec", "100000", true },
	{ "/proc/sys/net/ipv4/icmp_msgs_burst", "10000", true },
	{ "/proc/sys/net/ipv6/conf/all/disable_ipv6", "1", true },
	{ "/proc/sys/net/ipv6/conf/default/disable_ipv6", "1", true },
	{ NULL, NULL, false },
};

/* A box has no capability: what a program there listens on must not need one. A socket that a
 * program there has closed is soon gone, so that asking after it tells (see keep_alive()). */
static const struct sysctl box_sysctls[] = {
	{ "/proc/sys/net/ipv4/tcp_fin_timeout", "2", false },
	{ "/proc/sys/net/ipv6/conf/all/disable_ipv6", "1", true },
	{ "/proc/sys/net/ipv6/conf/default/disable_ipv6", "1", true },
	{ "/proc/sys/net/ipv4/ip_unprivileged_port_start", "0", true },
	{ "/proc/sys/net/ipv4/ping_group_range", "0 2147483647", true },
	{ NULL, NULL, false },
};

static enum err failed(struct wire_error *why, const char *what)
{
	*why = (struct wire_error){ what, errno };
	return ERR_SYSTEM;
}

static enum err set_sysctl(const struct sysctl *s, struct wire_error *why)
{
	int fd = open(s->path, O_WRONLY | O_CLOEXEC);
	ssize_t want = (ssize_t)strlen(s->value), done;

	if (fd < 0)
		return errno == ENOENT && s->may_lack ? OK : failed(why, s->path);
	done = write(fd, s->value, (size_t)want);
	close(fd);
	if (done == want || (errno == EACCES && s->may_lack))
		return OK;
	return failed(why, s->path);
}

static enum err set_sysctls(const struct sysctl *s, struct wire_error *why)
{
	enum err e = OK;

	for (; s->path && e == OK; s++)
		e = set_sysctl(s, why);
	return e;
}

enum err wire_sysctls_gateway(struct wire_error *why)
{
	return set_sysctls(gateway_sysctls, why);
}

enum err wire_sysctls_box(struct wire_error *why)
{
	return set_sysctls(box_sysctls, why);
}
