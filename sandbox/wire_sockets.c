/* A worker's sockets: bound to the gateway's end of its box's veth, they hear nobody else. */
#include "sandbox/wire_state.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netfilter/nfnetlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#define NFLOG_BYTES 96
#define NFLOG_BUFFER (256 * 1024)

static bool set_one(int fd, int level, int option)
{
	int one = 1;

	return setsockopt(fd, level, option, &one, sizeof(one)) == 0;
}

static bool set_number(int fd, int option, int value)
{
	return setsockopt(fd, SOL_TCP, option, &value, sizeof(value)) == 0;
}

/* A client that has closed its socket and one that has closed its half alone, and waits for its
 * answer, send the same. Asked after, the second one's kernel acknowledges and the first one's
 * resets. Connections have it from their listener. */
static bool keep_alive(int fd)
{
	return set_one(fd, SOL_SOCKET, SO_KEEPALIVE) &&
	       set_number(fd, TCP_KEEPIDLE, WIRE_ASK_AFTER_S) &&
	       set_number(fd, TCP_KEEPINTVL, WIRE_ASK_AGAIN_S) &&
	       set_number(fd, TCP_KEEPCNT, WIRE_ASK_TIMES);
}

static enum err open_socket(const struct wire_box *b, int type, uint16_t port, int *out,
			    struct wire_error *why)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(port) };
	bool transparent = port == WIRE_TPROXY_PORT;
	int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	*out = fd;
	if (fd < 0)
		return wire_failed(why, "worker's socket");
	if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, b->ifname, (socklen_t)strlen(b->ifname)) <
	    0)
		return wire_failed(why, "worker's socket: bind to the veth");
	if (!set_one(fd, SOL_SOCKET, SO_REUSEADDR) ||
	    (transparent && !set_one(fd, SOL_IP, IP_TRANSPARENT)) ||
	    (type == SOCK_STREAM && !keep_alive(fd)) ||
	    (type == SOCK_DGRAM && !set_one(fd, SOL_IP, IP_PKTINFO)))
		return wire_failed(why, "worker's socket: options");
	if (bind(fd, (struct sockaddr *)&any, sizeof(any)) < 0)
		return wire_failed(why, "worker's socket: bind");
	if (type == SOCK_STREAM && listen(fd, WIRE_LISTEN_BACKLOG) < 0)
		return wire_failed(why, "worker's socket: listen");
	return OK;
}

static struct nlmsghdr *nflog_config(struct netlink *n, uint16_t group, const char *what)
{
	struct nlmsghdr *h =
		netlink_nf_message(n, NFNL_SUBSYS_ULOG, NFULNL_MSG_CONFIG, AF_UNSPEC, 0, what);
	struct nfgenmsg *g = mnl_nlmsg_get_payload(h);

	g->res_id = htons(group);
	return h;
}

/* Without a queue in the kernel (threshold 1): a refusal is told when it happens. What does not fit
 * the socket's buffer is lost and not waited for (ENOBUFS is no news to the reader). */
static enum err open_nflog(struct wire_box *b, uint16_t group, struct wire_error *why)
{
	struct nfulnl_msg_config_cmd bind_group = { .command = NFULNL_CFG_CMD_BIND };
	struct nfulnl_msg_config_mode mode = { .copy_range = htonl(NFLOG_BYTES),
					       .copy_mode = NFULNL_COPY_PACKET };
	int bytes = NFLOG_BUFFER;
	struct netlink *n;
	struct nlmsghdr *h;
	enum err e;

	if (netlink_open(NETLINK_NETFILTER, &n) != OK)
		return wire_failed(why, "nflog socket");
	mnl_attr_put(nflog_config(n, group, "nflog: bind the group"), NFULA_CFG_CMD,
		     sizeof(bind_group), &bind_group);
	h = nflog_config(n, group, "nflog: mode");
	mnl_attr_put(h, NFULA_CFG_MODE, sizeof(mode), &mode);
	mnl_attr_put_u32(h, NFULA_CFG_QTHRESH, htonl(1));
	e = netlink_commit(n, why);
	if (e != OK) {
		netlink_close(n);
		return e;
	}
	b->nflog = netlink_take_fd(n);
	if (!set_one(b->nflog, SOL_NETLINK, NETLINK_NO_ENOBUFS) ||
	    setsockopt(b->nflog, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)) < 0 ||
	    fcntl(b->nflog, F_SETFL, O_NONBLOCK) < 0)
		return wire_failed(why, "nflog: socket options");
	return OK;
}

enum err wire_open_sockets(struct wire_box *b, uint16_t group, struct wire_error *why)
{
	enum err e = open_socket(b, SOCK_STREAM, WIRE_TPROXY_PORT, &b->tproxy, why);

	if (e == OK)
		e = open_socket(b, SOCK_DGRAM, 53, &b->dns_udp, why);
	if (e == OK)
		e = open_socket(b, SOCK_STREAM, 53, &b->dns_tcp, why);
	return e == OK ? open_nflog(b, group, why) : e;
}
