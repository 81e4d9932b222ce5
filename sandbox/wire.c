/* Theory of operation
 *
 * The gateway namespace: loopback up, "local 0.0.0.0/0 dev lo" (in table main, so that the boxes'
 * own routes are the more specific ones), no other interface but the boxes' veths, forwarding off.
 * What comes in is therefore for us, whatever address it bears, and what nobody listens for is
 * refused.
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
 * machine share one table of what has been asked for, which one of them can fill; what is told
 * takes no place in it.
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
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <netinet/if_ether.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox/netlink.h"
#include "sandbox/rules.h"
#include "sandbox/wire_state.h"

#define BOX_IFNAME "eth0"
#define LOOPBACK 1
#define LINK_BITS 30

enum err wire_failed(struct wire_error *why, const char *what)
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
	return setns(netns, CLONE_NEWNET) == 0 ? OK : wire_failed(why, "entering the network namespace");
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
		return wire_failed(why, "network namespace");
	*fd = netns_of_thread();
	if (*fd >= 0)
		return OK;
	e = wire_failed(why, "network namespace");
	go_home(g);
	return e;
}

/* ---- sysctls, of the namespace that the thread is in ---- */

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

static enum err set_sysctl(const struct sysctl *s, struct wire_error *why)
{
	int fd = open(s->path, O_WRONLY | O_CLOEXEC);
	ssize_t want = (ssize_t)strlen(s->value), done;

	if (fd < 0)
		return errno == ENOENT && s->may_lack ? OK : wire_failed(why, s->path);
	done = write(fd, s->value, (size_t)want);
	close(fd);
	if (done == want || (errno == EACCES && s->may_lack))
		return OK;
	return wire_failed(why, s->path);
}

static enum err set_sysctls(const struct sysctl *s, struct wire_error *why)
{
	enum err e = OK;

	for (; s->path && e == OK; s++)
		e = set_sysctl(s, why);
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
	enum err e = set_sysctls(gateway_sysctls, why);

	if (e == OK && netlink_open(NETLINK_ROUTE, &g->route) != OK)
		e = wire_failed(why, "rtnetlink socket");
	if (e == OK && netlink_open(NETLINK_NETFILTER, &g->nft) != OK)
		e = wire_failed(why, "nf_tables socket");
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
		e = wire_failed(why, "/proc/thread-self/ns/net");
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
		e = wire_failed(why, "netlink sockets");
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
		return wire_failed(why, "interfaces of the namespace");
	for (const struct if_nameindex *i = all; i->if_index != 0; i++)
		other = other || strcmp(i->if_name, "lo") != 0;
	if_freenameindex(all);
	if (!other)
		return OK;
	errno = EEXIST;
	return wire_failed(why, "the namespace has an interface beside loopback");
}

static enum err enter_given(int netns, struct wire_box *b, struct wire_error *why)
{
	b->netns = fcntl(netns, F_DUPFD_CLOEXEC, 0);
	if (b->netns < 0 || setns(b->netns, CLONE_NEWNET) < 0)
		return wire_failed(why, WIRE_GIVEN);
	return OK;
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
		e = set_sysctls(box_sysctls, why);
	if (e == OK && netlink_open(NETLINK_ROUTE, route) != OK)
		e = wire_failed(why, "box: rtnetlink socket");
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
	return *index != 0 ? OK : wire_failed(why, "interface index");
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

/* Made inside the gateway namespace. */
static enum err open_sockets(struct wire_gateway *g, struct wire_box *b, uint16_t group,
			     struct wire_error *why)
{
	enum err e = enter(g->netns, why);

	if (e != OK)
		return e;
	e = wire_open_sockets(b, group, why);
	go_home(g);
	return e;
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
		e = rules_add_box(g->nft, b.ifname, group, wire_own_pair(&b), why);
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
		e = wire_failed(why, "veth: bytes");
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
	wire_admitted_free(b);
}

void wire_box_close(struct wire_gateway *g, struct wire_box *b)
{
	struct wire_error ignored;

	wire_withdraw_all(g, b);
	wire_box_release(b);
	if (b->ifindex == 0)
		return;
	(void)!rules_remove_box(g->nft, b->ifname, wire_own_pair(b), &ignored);
	(void)put_ifinfo(netlink_message(g->route, RTM_DELLINK, 0, "veth"), b->ifindex);
	(void)!netlink_commit(g->route, &ignored);
	b->ifindex = 0;
}

