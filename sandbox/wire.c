/* Theory of operation
 *
 * The gateway namespace: loopback up, "local 0.0.0.0/0 dev lo" (in table main, so that the boxes' own
 * routes are the more specific ones), no other interface but the boxes' veths, forwarding off. What
 * comes in is therefore for us, whatever address it bears, and what nobody listens for is refused.
 *
 * A box: a namespace with loopback and eth0, a /30 in the middle of which the two ends stand. The
 * gateway's end holds its address with the box's as the peer, not the /30: the route back leads to
 * exactly one address, which makes the check for forged sources exact.
 *
 * A namespace is made by unshare(), kept as a descriptor, and left by setns(). Two netlink sockets
 * stay open in the gateway namespace (a socket belongs to the namespace that it was made in), so
 * that admitting an address moves nobody.
 *
 * Neither end asks for the other's hardware address: both are fixed, and told. All namespaces of a
 * machine share one table of what was asked for, which one of them can fill; what is told takes no
 * place in it.
 *
 * The gateway's end of a veth is up before the box's: otherwise the box's first SYN may be lost,
 * and is sent again a second later only.
 */
#include "sandbox/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <netinet/if_ether.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conf/sort.h"
#include "sandbox/netlink.h"
#include "sandbox/rules.h"
#include "sandbox/wire_sysctls.h"

#define BOX_IFNAME "eth0"
#define LOOPBACK 1
#define LINK_BITS 30
#define NFLOG_BYTES 96
#define NFLOG_BUFFER (256 * 1024)

struct wire_gateway {
	int home;		/* the namespace we came from */
	int netns;
	struct netlink *route, *nft;
};

struct wire_admitted {
	size_t n, cap;
	struct rules_pair *pairs;
	/* Between wire_admit_anew() and wire_admit_done(): what was admitted before, sorted. */
	size_t n_before;
	struct rules_pair *before;
};

static enum err failed(struct wire_error *why, const char *what)
{
	why->what = what;
	why->code = errno;
	return ERR_SYSTEM;
}

/* ---- namespaces ---- */

static int netns_of_thread(void)
{
	return open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
}

static enum err enter(int netns, struct wire_error *why)
{
	return setns(netns, CLONE_NEWNET) == 0 ? OK : failed(why, "setns");
}

/* Going on in a namespace of somebody else's would be worse than ending. */
static void go_home(const struct wire_gateway *g)
{
	int saved = errno;

	if (setns(g->home, CLONE_NEWNET) < 0)
		abort();
	errno = saved;
}

/* Done: the thread is in the new namespace. Failed: it is where it was. */
static enum err make_netns(const struct wire_gateway *g, int *fd, struct wire_error *why)
{
	enum err e;

	if (unshare(CLONE_NEWNET) < 0)
		return failed(why, "network namespace");
	*fd = netns_of_thread();
	if (*fd >= 0)
		return OK;
	e = failed(why, "network namespace");
	go_home(g);
	return e;
}

/* ---- rtnetlink messages ---- */

static struct ifinfomsg *put_ifinfo(struct nlmsghdr *h, uint32_t index)
{
	struct ifinfomsg *m = mnl_nlmsg_put_extra_header(h, sizeof(*m));

	m->ifi_family = AF_UNSPEC;
	m->ifi_index = (int)index;
	return m;
}

static void add_link_up(struct netlink *n, uint32_t index, const char *what)
{
	struct ifinfomsg *m = put_ifinfo(netlink_message(n, RTM_NEWLINK, 0, what), index);

	m->ifi_flags = m->ifi_change = IFF_UP;
}

static void add_address(struct netlink *n, uint32_t index, uint32_t local, uint32_t peer,
			uint8_t bits, const char *what)
{
	struct nlmsghdr *h = netlink_message(n, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, what);
	struct ifaddrmsg *m = mnl_nlmsg_put_extra_header(h, sizeof(*m));

	m->ifa_family = AF_INET;
	m->ifa_prefixlen = bits;
	m->ifa_index = index;
	mnl_attr_put_u32(h, IFA_LOCAL, htonl(local));
	mnl_attr_put_u32(h, IFA_ADDRESS, htonl(peer));
}

static struct nlmsghdr *add_default_route(struct netlink *n, uint32_t index, uint8_t type,
					  uint8_t scope, const char *what)
{
	struct nlmsghdr *h = netlink_message(n, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, what);
	struct rtmsg *m = mnl_nlmsg_put_extra_header(h, sizeof(*m));

	m->rtm_family = AF_INET;
	m->rtm_table = RT_TABLE_MAIN;
	m->rtm_protocol = RTPROT_STATIC;
	m->rtm_type = type;
	m->rtm_scope = scope;
	mnl_attr_put_u32(h, RTA_OIF, index);
	return h;
}

/* Hardware addresses of one's own making, unicast. */
struct ends {
	uint8_t gateway[ETH_ALEN], box[ETH_ALEN];
};

static struct ends ends_of(uint32_t index)
{
	const uint8_t high = (uint8_t)(index >> 8), low = (uint8_t)index;

	return (struct ends){ .gateway = { 0x02, 'e', 'x', 1, high, low },
			      .box = { 0x02, 'e', 'x', 2, high, low } };
}

static void add_neighbour(struct netlink *n, uint32_t index, uint32_t address,
			  const uint8_t hardware[ETH_ALEN], const char *what)
{
	struct nlmsghdr *h = netlink_message(n, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, what);
	struct ndmsg *m = mnl_nlmsg_put_extra_header(h, sizeof(*m));

	m->ndm_family = AF_INET;
	m->ndm_ifindex = (int)index;
	m->ndm_state = NUD_PERMANENT;
	mnl_attr_put_u32(h, NDA_DST, htonl(address));
	mnl_attr_put(h, NDA_LLADDR, ETH_ALEN, hardware);
}

static void add_veth(struct netlink *n, const char *name, int peer_netns, const struct ends *ends)
{
	struct nlmsghdr *h = netlink_message(n, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, "veth");
	struct nlattr *info, *data, *peer;

	(void)put_ifinfo(h, 0);
	mnl_attr_put_strz(h, IFLA_IFNAME, name);
	mnl_attr_put(h, IFLA_ADDRESS, ETH_ALEN, ends->gateway);
	info = mnl_attr_nest_start(h, IFLA_LINKINFO);
	mnl_attr_put_strz(h, IFLA_INFO_KIND, "veth");
	data = mnl_attr_nest_start(h, IFLA_INFO_DATA);
	peer = mnl_attr_nest_start(h, VETH_INFO_PEER);
	(void)put_ifinfo(h, 0);
	mnl_attr_put_strz(h, IFLA_IFNAME, BOX_IFNAME);
	mnl_attr_put(h, IFLA_ADDRESS, ETH_ALEN, ends->box);
	mnl_attr_put_u32(h, IFLA_NET_NS_FD, (uint32_t)peer_netns);
	mnl_attr_nest_end(h, peer);
	mnl_attr_nest_end(h, data);
	mnl_attr_nest_end(h, info);
}

/* ---- the gateway ---- */

static enum err furnish_gateway(struct wire_gateway *g, struct wire_error *why)
{
	enum err e = wire_sysctls_gateway(why);

	if (e == OK && netlink_open(NETLINK_ROUTE, &g->route) != OK)
		e = failed(why, "rtnetlink socket");
	if (e == OK && netlink_open(NETLINK_NETFILTER, &g->nft) != OK)
		e = failed(why, "nf_tables socket");
	if (e != OK)
		return e;
	/* The rules before the first route: at no time is there a way without them. */
	e = rules_install(g->nft, why);
	if (e != OK)
		return e;
	add_link_up(g->route, LOOPBACK, "gateway: loopback");
	add_default_route(g->route, LOOPBACK, RTN_LOCAL, RT_SCOPE_HOST, "gateway: local route");
	return netlink_commit(g->route, why);
}

enum err wire_gateway_open(struct wire_gateway **out, struct wire_error *why)
{
	struct wire_gateway *g = calloc(1, sizeof(*g));
	enum err e;

	if (!g)
		return ERR_NOMEM;
	g->netns = -1;
	g->home = netns_of_thread();
	if (g->home < 0) {
		e = failed(why, "/proc/thread-self/ns/net");
		goto out;
	}
	e = make_netns(g, &g->netns, why);
	if (e != OK)
		goto out;
	e = furnish_gateway(g, why);
	go_home(g);
out:
	if (e == OK)
		*out = g;
	else
		wire_gateway_close(g);
	return e;
}

enum err wire_gateway_rejoin(struct wire_gateway *g, struct wire_error *why)
{
	enum err e = enter(g->netns, why);

	if (e != OK)
		return e;
	netlink_close(g->route);
	netlink_close(g->nft);
	g->route = g->nft = NULL;
	if (netlink_open(NETLINK_ROUTE, &g->route) != OK ||
	    netlink_open(NETLINK_NETFILTER, &g->nft) != OK)
		e = failed(why, "netlink sockets");
	go_home(g);
	return e;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void wire_gateway_close(struct wire_gateway *g)
{
	if (!g)
		return;
	netlink_close(g->route);
	netlink_close(g->nft);
	close_fd(&g->netns);
	close_fd(&g->home);
	free(g);
}

int wire_gateway_netns(const struct wire_gateway *g)
{
	return g->netns;
}

/* ---- a box ---- */

/* In the namespace that the thread is in. */
static enum err only_loopback(struct wire_error *why)
{
	struct if_nameindex *all = if_nameindex();
	bool other = false;

	if (!all)
		return failed(why, "interfaces of the namespace");
	for (const struct if_nameindex *i = all; i->if_index != 0; i++)
		other = other || strcmp(i->if_name, "lo") != 0;
	if_freenameindex(all);
	if (!other)
		return OK;
	errno = EEXIST;
	return failed(why, "the namespace has an interface beside loopback");
}

static enum err enter_given(int netns, struct wire_box *b, struct wire_error *why)
{
	b->netns = fcntl(netns, F_DUPFD_CLOEXEC, 0);
	return b->netns < 0 || setns(b->netns, CLONE_NEWNET) < 0 ? failed(why, WIRE_GIVEN) : OK;
}

static enum err make_box_netns(struct wire_gateway *g, int given, struct wire_box *b,
			       struct netlink **route, struct wire_error *why)
{
	enum err e = given < 0 ? make_netns(g, &b->netns, why) : enter_given(given, b, why);

	if (e != OK)
		return e;
	if (given >= 0)
		e = only_loopback(why);
	if (e == OK)
		e = wire_sysctls_box(why);
	if (e == OK && netlink_open(NETLINK_ROUTE, route) != OK)
		e = failed(why, "box: rtnetlink socket");
	go_home(g);
	return e;
}

static enum err index_in(struct wire_gateway *g, int netns, const char *ifname, uint32_t *index,
			 struct wire_error *why)
{
	enum err e = enter(netns, why);

	if (e != OK)
		return e;
	*index = if_nametoindex(ifname);
	go_home(g);
	return *index != 0 ? OK : failed(why, "interface index");
}

static enum err lay_veth(struct wire_gateway *g, struct wire_box *b, const struct ends *ends,
			 struct netlink *box_route, struct wire_error *why)
{
	struct nlmsghdr *h;
	uint32_t eth0 = 0;
	enum err e;

	add_veth(g->route, b->ifname, b->netns, ends);
	e = netlink_commit(g->route, why);
	if (e == OK)
		e = index_in(g, g->netns, b->ifname, &b->ifindex, why);
	if (e == OK)
		e = index_in(g, b->netns, BOX_IFNAME, &eth0, why);
	if (e != OK)
		return e;
	add_address(g->route, b->ifindex, b->gateway, b->address, 32, "gateway: address of the veth");
	add_link_up(g->route, b->ifindex, "gateway: veth up");
	add_neighbour(g->route, b->ifindex, b->address, ends->box, "gateway: the box's end");
	e = netlink_commit(g->route, why);
	if (e != OK)
		return e;
	add_link_up(box_route, LOOPBACK, "box: loopback");
	add_address(box_route, eth0, b->address, b->address, LINK_BITS, "box: address");
	add_link_up(box_route, eth0, "box: eth0 up");
	add_neighbour(box_route, eth0, b->gateway, ends->gateway, "box: the gateway's end");
	h = add_default_route(box_route, eth0, RTN_UNICAST, RT_SCOPE_UNIVERSE, "box: default route");
	mnl_attr_put_u32(h, RTA_GATEWAY, htonl(b->gateway));
	return netlink_commit(box_route, why);
}

/* ---- the worker's sockets, made inside the gateway namespace ---- */

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
		return failed(why, "worker's socket");
	if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, b->ifname, (socklen_t)strlen(b->ifname)) <
	    0)
		return failed(why, "worker's socket: bind to the veth");
	if (!set_one(fd, SOL_SOCKET, SO_REUSEADDR) ||
	    (transparent && !set_one(fd, SOL_IP, IP_TRANSPARENT)) ||
	    (type == SOCK_STREAM && !keep_alive(fd)) ||
	    (type == SOCK_DGRAM && !set_one(fd, SOL_IP, IP_PKTINFO)))
		return failed(why, "worker's socket: options");
	if (bind(fd, (struct sockaddr *)&any, sizeof(any)) < 0)
		return failed(why, "worker's socket: bind");
	if (type == SOCK_STREAM && listen(fd, WIRE_LISTEN_BACKLOG) < 0)
		return failed(why, "worker's socket: listen");
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
		return failed(why, "nflog socket");
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
		return failed(why, "nflog: socket options");
	return OK;
}

static enum err open_sockets(struct wire_gateway *g, struct wire_box *b, uint16_t group,
			     struct wire_error *why)
{
	enum err e = enter(g->netns, why);

	if (e != OK)
		return e;
	e = open_socket(b, SOCK_STREAM, WIRE_TPROXY_PORT, &b->tproxy, why);
	if (e == OK)
		e = open_socket(b, SOCK_DGRAM, 53, &b->dns_udp, why);
	if (e == OK)
		e = open_socket(b, SOCK_STREAM, 53, &b->dns_tcp, why);
	if (e == OK)
		e = open_nflog(b, group, why);
	go_home(g);
	return e;
}

/* Where the box is told what is what: admitted as long as it is there, whatever a policy says. */
static struct rules_pair own_pair(const struct wire_box *b)
{
	return (struct rules_pair){ .address = b->gateway, .port = WIRE_NOTICE_PORT };
}

uint32_t wire_links(const struct addr_range *pool)
{
	uint64_t links = pool->net.family == 4 && pool->bits <= LINK_BITS ?
			 UINT64_C(1) << (LINK_BITS - pool->bits) : 0;

	return links < WIRE_BOXES_MAX ? (uint32_t)links : WIRE_BOXES_MAX;
}

static enum err number_box(uint32_t index, const struct addr_range *pool, struct wire_box *b,
			   struct wire_error *why)
{
	if (index >= wire_links(pool)) {
		*why = (struct wire_error){ .what = "link pool: no room for another box",
					    .code = ENOSPC };
		return ERR_FULL;
	}
	b->gateway = addr_to_v4(&pool->net) + 4 * index + 1;
	b->address = b->gateway + 1;
	snprintf(b->ifname, sizeof(b->ifname), "ex-%u", index);
	return OK;
}

enum err wire_box_adopt(struct wire_box *b)
{
	b->admitted = calloc(1, sizeof(*b->admitted));
	return b->admitted ? OK : ERR_NOMEM;
}

enum err wire_box_open(struct wire_gateway *g, uint32_t index, const struct addr_range *link_pool,
		       int netns, struct wire_box *out, struct wire_error *why)
{
	struct wire_box b = {
		.netns = -1, .tproxy = -1, .dns_udp = -1, .dns_tcp = -1, .nflog = -1
	};
	uint16_t group = (uint16_t)(WIRE_NFLOG_GROUP + index);
	const struct ends ends = ends_of(index);
	struct netlink *box_route = NULL;
	enum err e = number_box(index, link_pool, &b, why);

	if (e != OK)
		return e;
	e = wire_box_adopt(&b);
	if (e != OK)
		return e;
	e = make_box_netns(g, netns, &b, &box_route, why);
	if (e == OK)
		e = lay_veth(g, &b, &ends, box_route, why);
	if (e == OK)
		e = open_sockets(g, &b, group, why);
	if (e == OK)
		e = rules_add_box(g->nft, b.ifname, group, own_pair(&b), why);
	netlink_close(box_route);
	if (e == OK)
		*out = b;
	else
		wire_box_close(g, &b);
	return e;
}

struct counted {
	uint64_t up, down;
	bool seen;
};

static int count_attribute(const struct nlattr *a, void *arg)
{
	const size_t wanted = offsetof(struct rtnl_link_stats64, rx_errors);
	struct rtnl_link_stats64 stats;
	struct counted *c = arg;

	if (mnl_attr_get_type(a) == IFLA_STATS64 && mnl_attr_get_payload_len(a) >= wanted) {
		memcpy(&stats, mnl_attr_get_payload(a), wanted);
		/* The gateway's end receives what the box sends. */
		*c = (struct counted){ .up = stats.rx_bytes, .down = stats.tx_bytes, .seen = true };
	}
	return MNL_CB_OK;
}

static void count(void *arg, const struct nlmsghdr *h)
{
	if (h->nlmsg_type == RTM_NEWLINK)
		(void)mnl_attr_parse(h, sizeof(struct ifinfomsg), count_attribute, arg);
}

enum err wire_box_bytes(struct wire_gateway *g, const struct wire_box *b, uint64_t *up,
			uint64_t *down, struct wire_error *why)
{
	struct counted c = { 0 };
	enum err e;

	put_ifinfo(netlink_message(g->route, RTM_GETLINK, 0, "veth: bytes"), b->ifindex);
	netlink_on_answer(g->route, count, &c);
	e = netlink_commit(g->route, why);
	netlink_on_answer(g->route, NULL, NULL);
	if (e == OK && !c.seen)
		e = failed(why, "veth: bytes");
	*up = c.up;
	*down = c.down;
	return e;
}

enum err wire_box_untold(struct wire_gateway *g, const struct wire_box *b, uint64_t *packets,
			 struct wire_error *why)
{
	return rules_beyond_log(g->nft, b->ifname, packets, why);
}

void wire_box_release(struct wire_box *b)
{
	close_fd(&b->tproxy);
	close_fd(&b->dns_udp);
	close_fd(&b->dns_tcp);
	close_fd(&b->nflog);
	close_fd(&b->netns);
	if (b->admitted) {
		free(b->admitted->pairs);
		free(b->admitted->before);
	}
	free(b->admitted);
	b->admitted = NULL;
}

static enum err withdraw(struct wire_gateway *g, const struct wire_box *b,
			 const struct rules_pair *pairs, size_t n, struct wire_error *why)
{
	enum err e = OK;

	for (size_t i = 0; i < n && e == OK; i += RULES_PORTS_MAX) {
		size_t some = n - i < RULES_PORTS_MAX ? n - i : RULES_PORTS_MAX;

		e = rules_withdraw(g->nft, b->ifname, pairs + i, some, why);
	}
	return e;
}

/* A number may be used again: nothing of what this box was admitted to may be left for the next.
 * Fails only where somebody else has taken the table away. */
static void withdraw_all(struct wire_gateway *g, struct wire_box *b)
{
	struct wire_error ignored;

	if (!b->admitted)
		return;
	(void)!withdraw(g, b, b->admitted->pairs, b->admitted->n, &ignored);
	(void)!withdraw(g, b, b->admitted->before, b->admitted->n_before, &ignored);
}

void wire_box_close(struct wire_gateway *g, struct wire_box *b)
{
	struct wire_error ignored;

	withdraw_all(g, b);
	wire_box_release(b);
	if (b->ifindex == 0)
		return;
	(void)!rules_remove_box(g->nft, b->ifname, own_pair(b), &ignored);
	(void)put_ifinfo(netlink_message(g->route, RTM_DELLINK, 0, "veth"), b->ifindex);
	(void)!netlink_commit(g->route, &ignored);
	b->ifindex = 0;
}

/* ---- admitting ---- */

static enum err remember(struct wire_admitted *a, size_t n)
{
	struct rules_pair *p;
	size_t cap = a->cap;

	if (n > WIRE_ADMIT_MAX - a->n)
		return ERR_FULL;
	while (cap < a->n + n)
		cap = cap ? 2 * cap : 64;
	if (cap == a->cap)
		return OK;
	p = realloc(a->pairs, cap * sizeof(*p));
	if (!p)
		return ERR_NOMEM;
	a->pairs = p;
	a->cap = cap;
	return OK;
}

static bool is_admitted(const struct wire_admitted *a, uint32_t address, uint16_t port)
{
	for (size_t i = 0; i < a->n; i++)
		if (a->pairs[i].address == address && a->pairs[i].port == port)
			return true;
	return false;
}

static int compare(const void *a, const void *b)
{
	const struct rules_pair *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return (x->port > y->port) - (x->port < y->port);
}

static bool was_admitted(const struct wire_admitted *a, const struct rules_pair *p)
{
	return a->before && bsearch(p, a->before, a->n_before, sizeof(*p), compare);
}

/* Puts what is new of it at the end of the list, first what the kernel does not have yet: so many
 * are returned. */
static size_t list(const struct wire_box *b, uint32_t address, const uint16_t *ports, size_t n)
{
	const struct rules_pair own = own_pair(b);
	struct wire_admitted *a = b->admitted;
	size_t unknown = a->n;

	for (size_t i = 0; i < n; i++) {
		struct rules_pair p = { .address = address, .port = ports[i] };

		if (is_admitted(a, address, ports[i]) || compare(&p, &own) == 0)
			continue;
		a->pairs[a->n++] = p;
		if (!was_admitted(a, &p)) {
			a->pairs[a->n - 1] = a->pairs[unknown];
			a->pairs[unknown++] = p;
		}
	}
	return unknown;
}

enum err wire_admit(struct wire_gateway *g, const struct wire_box *b, uint32_t address,
		    const uint16_t *ports, size_t n, struct wire_error *why)
{
	struct wire_admitted *a = b->admitted;
	size_t before = a->n, unknown;
	enum err e;

	*why = (struct wire_error){ .what = "admitted addresses", .code = ENOSPC };
	if (n > RULES_PORTS_MAX)
		return ERR_LIMIT;
	e = remember(a, n);
	if (e != OK)
		return e;
	unknown = list(b, address, ports, n);
	if (unknown == before)
		return OK;
	e = rules_admit(g->nft, b->ifname, a->pairs + before, unknown - before, why);
	if (e != OK)
		a->n = before;
	return e;
}

void wire_admit_anew(struct wire_box *b)
{
	struct wire_admitted *a = b->admitted;

	free(a->before);
	a->before = a->pairs;
	a->n_before = a->n;
	a->pairs = NULL;
	a->n = a->cap = 0;
	if (a->n_before)
		sort_items(a->before, a->n_before, sizeof(*a->before), compare);
}

enum err wire_admit_done(struct wire_gateway *g, struct wire_box *b, struct wire_error *why)
{
	struct wire_admitted *a = b->admitted;
	size_t gone = 0;
	enum err e;

	if (a->n)
		sort_items(a->pairs, a->n, sizeof(*a->pairs), compare);
	for (size_t i = 0; i < a->n_before; i++)
		if (!a->n || !bsearch(&a->before[i], a->pairs, a->n, sizeof(*a->pairs), compare))
			a->before[gone++] = a->before[i];
	e = withdraw(g, b, a->before, gone, why);
	free(a->before);
	a->before = NULL;
	a->n_before = 0;
	return e;
}
