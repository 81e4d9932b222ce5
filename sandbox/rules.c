/* Theory of operation
 *
 * Goal: what a box sends is steered to its worker, refused so that it sees it, or dropped because
 * the sender is forged. Nothing here lets anything out: the gateway has no uplink (wire.h), so that
 * with every rule gone a box loses the network.
 *
 * One chain at prerouting, mangle priority, in this order:
 *
 *   loopback                      accept   the kernel's own RST and ICMP
 *   forged source                 drop     the reverse route does not lead back to this veth. A
 *                                          refusal would go to whoever's address it is
 *   port 53, destination local    accept   the worker's sockets on 0.0.0.0:53 of this veth: every
 *                                          address but the boxes' own is local
 *   a transparent connection      accept   what was steered once stays steered
 *   in the set                    tproxy   interface . address . port
 *   everything else               log      per box: an interface's chain with its rate and group
 *     TCP                         RST      an ICMP error is noticed after a second only
 *     echo to the gateway         accept
 *     UDP                         port unreachable
 *     the rest                    administratively prohibited
 *
 * Two sets: "admitted" (interface name . IPv4 . port), and the map "refusals" from interface name to
 * a chain of two rules: what its rate lets through is logged, what is beyond it is counted. A box
 * adds elements, that chain and its counter. The chain is its own because one netlink socket only
 * may bind a log group, and because one box's refusals must not use up another's rate.
 *
 * The table is of the inet family, so that an IPv6 packet meets the refusals, too. None should
 * come: IPv6 is off at both ends of each veth, which also keeps neighbour discovery out of the log.
 */
#include "sandbox/rules.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <libnftnl/chain.h>
#include <libnftnl/expr.h>
#include <libnftnl/object.h>
#include <libnftnl/rule.h>
#include <libnftnl/set.h>
#include <libnftnl/table.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter_ipv4.h>
#include <linux/rtnetlink.h>
#include <netinet/ip_icmp.h>

#define CHAIN "from-boxes"
#define ADMITTED "admitted"
#define REFUSALS "refusals"
#define ADMITTED_ID 1u
#define REFUSALS_ID 2u
#define LOG_BYTES 96u	/* an IPv4 header with options, and the ports */
#define ELEMENTS_PER_MESSAGE 64

/* How the nft tool numbers the types of keys, six bits each, so that it can print the sets. */
#define TYPE_IPV4 7u
#define TYPE_PORT 13u
#define TYPE_IFNAME 41u

/* Registers, of four bytes: a name takes four, an address and a port one each. */
#define REG_NAME NFT_REG32_00
#define REG_ADDRESS NFT_REG32_04
#define REG_PORT NFT_REG32_05
#define NAME_BYTES 16
#define KEY_BYTES 24

static struct nlmsghdr *message(struct netlink *n, uint8_t type, unsigned flags, const char *what)
{
	return netlink_nf_message(n, NFNL_SUBSYS_NFTABLES, type, NFPROTO_INET, flags, what);
}

static enum err out_of_memory(struct wire_error *why)
{
	*why = (struct wire_error){ .what = "nf_tables", .code = ENOMEM };
	return ERR_NOMEM;
}

/* ---- a rule, expression by expression; memory that runs out is told at the end ---- */

struct rule {
	struct nftnl_rule *r;
	bool failed;
};

static struct nftnl_expr *add(struct rule *rule, const char *kind)
{
	struct nftnl_expr *e = rule->failed ? NULL : nftnl_expr_alloc(kind);

	if (!e) {
		rule->failed = true;
		return NULL;
	}
	nftnl_rule_add_expr(rule->r, e);
	return e;
}

static void set32(struct nftnl_expr *e, uint16_t attribute, uint32_t v)
{
	if (e)
		nftnl_expr_set_u32(e, attribute, v);
}

static void set_bytes(struct rule *rule, struct nftnl_expr *e, uint16_t attribute, const void *p,
		      uint32_t n)
{
	if (e && nftnl_expr_set(e, attribute, p, n) < 0)
		rule->failed = true;
}

static struct rule rule_begin(const char *chain)
{
	struct rule rule = { .r = nftnl_rule_alloc() };

	if (!rule.r || nftnl_rule_set_str(rule.r, NFTNL_RULE_TABLE, RULES_TABLE) < 0 ||
	    nftnl_rule_set_str(rule.r, NFTNL_RULE_CHAIN, chain) < 0)
		rule.failed = true;
	return rule;
}

static bool rule_end(struct rule *rule, struct netlink *n, const char *what)
{
	if (!rule->failed)
		nftnl_rule_nlmsg_build_payload(message(n, NFT_MSG_NEWRULE,
						       NLM_F_CREATE | NLM_F_APPEND, what), rule->r);
	if (rule->r)
		nftnl_rule_free(rule->r);
	return !rule->failed;
}

static void load_meta(struct rule *rule, uint32_t key, uint32_t reg)
{
	struct nftnl_expr *e = add(rule, "meta");

	set32(e, NFTNL_EXPR_META_KEY, key);
	set32(e, NFTNL_EXPR_META_DREG, reg);
}

static void load_payload(struct rule *rule, uint32_t base, uint32_t at, uint32_t n, uint32_t reg)
{
	struct nftnl_expr *e = add(rule, "payload");

	set32(e, NFTNL_EXPR_PAYLOAD_BASE, base);
	set32(e, NFTNL_EXPR_PAYLOAD_OFFSET, at);
	set32(e, NFTNL_EXPR_PAYLOAD_LEN, n);
	set32(e, NFTNL_EXPR_PAYLOAD_DREG, reg);
}

static void compare(struct rule *rule, const void *value, uint32_t n)
{
	struct nftnl_expr *e = add(rule, "cmp");

	set32(e, NFTNL_EXPR_CMP_SREG, NFT_REG_1);
	set32(e, NFTNL_EXPR_CMP_OP, NFT_CMP_EQ);
	set_bytes(rule, e, NFTNL_EXPR_CMP_DATA, value, n);
}

static void match_u8(struct rule *rule, uint32_t meta_key, uint8_t value)
{
	load_meta(rule, meta_key, NFT_REG_1);
	compare(rule, &value, sizeof(value));
}

static void match_protocol(struct rule *rule, uint8_t protocol)
{
	match_u8(rule, NFT_META_L4PROTO, protocol);
}

static void match_port(struct rule *rule, uint16_t port)
{
	uint16_t wire_order = htons(port);

	load_payload(rule, NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, NFT_REG_1);
	compare(rule, &wire_order, sizeof(wire_order));
}

static void match_fib(struct rule *rule, uint32_t flags, uint32_t result, uint32_t value)
{
	struct nftnl_expr *e = add(rule, "fib");

	set32(e, NFTNL_EXPR_FIB_FLAGS, flags);
	set32(e, NFTNL_EXPR_FIB_RESULT, result);
	set32(e, NFTNL_EXPR_FIB_DREG, NFT_REG_1);
	compare(rule, &value, sizeof(value));
}

static void match_socket(struct rule *rule, uint32_t key, uint8_t value)
{
	struct nftnl_expr *e = add(rule, "socket");

	set32(e, NFTNL_EXPR_SOCKET_KEY, key);
	set32(e, NFTNL_EXPR_SOCKET_DREG, NFT_REG_1);
	compare(rule, &value, sizeof(value));
}

static void verdict(struct rule *rule, uint32_t v)
{
	struct nftnl_expr *e = add(rule, "immediate");

	set32(e, NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT);
	set32(e, NFTNL_EXPR_IMM_VERDICT, v);
}

static void reject(struct rule *rule, uint32_t type, uint8_t code)
{
	struct nftnl_expr *e = add(rule, "reject");

	set32(e, NFTNL_EXPR_REJECT_TYPE, type);
	if (e)
		nftnl_expr_set_u8(e, NFTNL_EXPR_REJECT_CODE, code);
}

static void look_up(struct rule *rule, const char *set, uint32_t id)
{
	struct nftnl_expr *e = add(rule, "lookup");

	set32(e, NFTNL_EXPR_LOOKUP_SREG, REG_NAME);
	if (e && nftnl_expr_set_str(e, NFTNL_EXPR_LOOKUP_SET, set) < 0)
		rule->failed = true;
	set32(e, NFTNL_EXPR_LOOKUP_SET_ID, id);
	if (id == REFUSALS_ID)
		set32(e, NFTNL_EXPR_LOOKUP_DREG, NFT_REG_VERDICT);
}

static void redirect_to_worker(struct rule *rule)
{
	uint16_t port = htons(WIRE_TPROXY_PORT);
	struct nftnl_expr *e = add(rule, "immediate");

	set32(e, NFTNL_EXPR_IMM_DREG, NFT_REG_1);
	set_bytes(rule, e, NFTNL_EXPR_IMM_DATA, &port, sizeof(port));
	e = add(rule, "tproxy");
	set32(e, NFTNL_EXPR_TPROXY_FAMILY, NFPROTO_IPV4);
	set32(e, NFTNL_EXPR_TPROXY_REG_PORT, NFT_REG_1);
}

/* ---- the rules ---- */

static bool rule_loopback(struct netlink *n)
{
	struct rule rule = rule_begin(CHAIN);
	uint32_t lo = 1;	/* the first interface of every namespace */

	load_meta(&rule, NFT_META_IIF, NFT_REG_1);
	compare(&rule, &lo, sizeof(lo));
	verdict(&rule, NF_ACCEPT);
	return rule_end(&rule, n, "nf_tables: rule for loopback");
}

static bool rule_forged(struct netlink *n)
{
	struct rule rule = rule_begin(CHAIN);

	match_fib(&rule, NFTA_FIB_F_SADDR | NFTA_FIB_F_IIF, NFT_FIB_RESULT_OIF, 0);
	verdict(&rule, NF_DROP);
	return rule_end(&rule, n, "nf_tables: rule for forged sources");
}

/* No outgoing interface is what a local address has. A box's own one has a veth. */
static bool rule_dns(struct netlink *n, uint8_t protocol)
{
	struct rule rule = rule_begin(CHAIN);

	match_protocol(&rule, protocol);
	match_port(&rule, 53);
	match_fib(&rule, NFTA_FIB_F_DADDR, NFT_FIB_RESULT_OIF, 0);
	verdict(&rule, NF_ACCEPT);
	return rule_end(&rule, n, "nf_tables: rule for DNS");
}

static bool rule_established(struct netlink *n)
{
	struct rule rule = rule_begin(CHAIN);

	match_protocol(&rule, IPPROTO_TCP);
	match_socket(&rule, NFT_SOCKET_TRANSPARENT, 1);
	match_socket(&rule, NFT_SOCKET_WILDCARD, 0);
	verdict(&rule, NF_ACCEPT);
	return rule_end(&rule, n, "nf_tables: rule for open connections");
}

static bool rule_admitted(struct netlink *n)
{
	struct rule rule = rule_begin(CHAIN);

	match_u8(&rule, NFT_META_NFPROTO, NFPROTO_IPV4);
	match_protocol(&rule, IPPROTO_TCP);
	load_meta(&rule, NFT_META_IIFNAME, REG_NAME);
	load_payload(&rule, NFT_PAYLOAD_NETWORK_HEADER, 16, 4, REG_ADDRESS);
	load_payload(&rule, NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, REG_PORT);
	look_up(&rule, ADMITTED, ADMITTED_ID);
	redirect_to_worker(&rule);
	verdict(&rule, NF_ACCEPT);
	return rule_end(&rule, n, "nf_tables: rule for admitted addresses");
}

static bool rule_refusals(struct netlink *n)
{
	struct rule rule = rule_begin(CHAIN);

	match_u8(&rule, NFT_META_NFPROTO, NFPROTO_IPV4);
	load_meta(&rule, NFT_META_IIFNAME, REG_NAME);
	look_up(&rule, REFUSALS, REFUSALS_ID);
	return rule_end(&rule, n, "nf_tables: rule for the log");
}

static bool rule_reset(struct netlink *n)
{
	struct rule rule = rule_begin(CHAIN);

	match_protocol(&rule, IPPROTO_TCP);
	reject(&rule, NFT_REJECT_TCP_RST, 0);
	return rule_end(&rule, n, "nf_tables: rule for refused TCP");
}

static bool rule_echo(struct netlink *n)
{
	struct rule rule = rule_begin(CHAIN);
	uint8_t echo = ICMP_ECHO;

	match_protocol(&rule, IPPROTO_ICMP);
	load_payload(&rule, NFT_PAYLOAD_TRANSPORT_HEADER, 0, 1, NFT_REG_1);
	compare(&rule, &echo, sizeof(echo));
	match_fib(&rule, NFTA_FIB_F_DADDR | NFTA_FIB_F_IIF, NFT_FIB_RESULT_ADDRTYPE, RTN_LOCAL);
	verdict(&rule, NF_ACCEPT);
	return rule_end(&rule, n, "nf_tables: rule for echo");
}

static bool rule_unreachable(struct netlink *n)
{
	struct rule rule = rule_begin(CHAIN);

	match_protocol(&rule, IPPROTO_UDP);
	reject(&rule, NFT_REJECT_ICMPX_UNREACH, NFT_REJECT_ICMPX_PORT_UNREACH);
	return rule_end(&rule, n, "nf_tables: rule for refused UDP");
}

static bool rule_rest(struct netlink *n)
{
	struct rule rule = rule_begin(CHAIN);

	reject(&rule, NFT_REJECT_ICMPX_UNREACH, NFT_REJECT_ICMPX_ADMIN_PROHIBITED);
	return rule_end(&rule, n, "nf_tables: rule for the rest");
}

/* ---- table, chains, sets ---- */

static bool add_table(struct netlink *n)
{
	struct nftnl_table *t = nftnl_table_alloc();

	if (!t)
		return false;
	nftnl_table_set_str(t, NFTNL_TABLE_NAME, RULES_TABLE);
	nftnl_table_nlmsg_build_payload(message(n, NFT_MSG_NEWTABLE, NLM_F_CREATE,
						"nf_tables: table"), t);
	nftnl_table_free(t);
	return true;
}

/* @base: at the hook; otherwise one that is jumped to. */
static bool chain_message(struct netlink *n, uint8_t type, const char *name, bool base)
{
	struct nftnl_chain *c = nftnl_chain_alloc();

	if (!c)
		return false;
	nftnl_chain_set_str(c, NFTNL_CHAIN_TABLE, RULES_TABLE);
	nftnl_chain_set_str(c, NFTNL_CHAIN_NAME, name);
	if (base) {
		nftnl_chain_set_u32(c, NFTNL_CHAIN_HOOKNUM, NF_INET_PRE_ROUTING);
		nftnl_chain_set_s32(c, NFTNL_CHAIN_PRIO, NF_IP_PRI_MANGLE);
		nftnl_chain_set_str(c, NFTNL_CHAIN_TYPE, "filter");
	}
	nftnl_chain_nlmsg_build_payload(
		message(n, type, type == NFT_MSG_NEWCHAIN ? NLM_F_CREATE : 0, "nf_tables: chain"),
		c);
	nftnl_chain_free(c);
	return true;
}

static struct nftnl_set *set_alloc(const char *name)
{
	struct nftnl_set *s = nftnl_set_alloc();

	if (!s)
		return NULL;
	nftnl_set_set_str(s, NFTNL_SET_TABLE, RULES_TABLE);
	nftnl_set_set_str(s, NFTNL_SET_NAME, name);
	return s;
}

static void set_send(struct netlink *n, struct nftnl_set *s)
{
	nftnl_set_set_u32(s, NFTNL_SET_FAMILY, NFPROTO_INET);
	nftnl_set_nlmsg_build_payload(message(n, NFT_MSG_NEWSET, NLM_F_CREATE, "nf_tables: set"), s);
	nftnl_set_free(s);
}

static bool add_set_admitted(struct netlink *n)
{
	static const uint8_t lengths[] = { NAME_BYTES, 4, 2 };
	struct nftnl_set *s = set_alloc(ADMITTED);

	if (!s)
		return false;
	nftnl_set_set_u32(s, NFTNL_SET_ID, ADMITTED_ID);
	nftnl_set_set_u32(s, NFTNL_SET_FLAGS, NFT_SET_CONCAT);
	nftnl_set_set_u32(s, NFTNL_SET_KEY_TYPE, TYPE_IFNAME << 12 | TYPE_IPV4 << 6 | TYPE_PORT);
	nftnl_set_set_u32(s, NFTNL_SET_KEY_LEN, KEY_BYTES);
	nftnl_set_set_data(s, NFTNL_SET_DESC_CONCAT, lengths, sizeof(lengths));
	set_send(n, s);
	return true;
}

static bool add_map_refusals(struct netlink *n)
{
	struct nftnl_set *s = set_alloc(REFUSALS);

	if (!s)
		return false;
	nftnl_set_set_u32(s, NFTNL_SET_ID, REFUSALS_ID);
	nftnl_set_set_u32(s, NFTNL_SET_FLAGS, NFT_SET_MAP);
	nftnl_set_set_u32(s, NFTNL_SET_KEY_TYPE, TYPE_IFNAME);
	nftnl_set_set_u32(s, NFTNL_SET_KEY_LEN, NAME_BYTES);
	nftnl_set_set_u32(s, NFTNL_SET_DATA_TYPE, NFT_DATA_VERDICT);
	nftnl_set_set_u32(s, NFTNL_SET_DATA_LEN, 0);
	set_send(n, s);
	return true;
}

static enum err commit(struct netlink *nft, bool built, struct wire_error *why)
{
	if (!built) {
		netlink_discard(nft);
		return out_of_memory(why);
	}
	netlink_nf_end(nft);
	return netlink_commit(nft, why);
}

enum err rules_install(struct netlink *nft, struct wire_error *why)
{
	bool built;

	netlink_nf_begin(nft);
	built = add_table(nft) && add_set_admitted(nft) && add_map_refusals(nft) &&
		chain_message(nft, NFT_MSG_NEWCHAIN, CHAIN, true) && rule_loopback(nft) &&
		rule_forged(nft) && rule_dns(nft, IPPROTO_UDP) && rule_dns(nft, IPPROTO_TCP) &&
		rule_established(nft) && rule_admitted(nft) && rule_refusals(nft) &&
		rule_reset(nft) && rule_echo(nft) && rule_unreachable(nft) && rule_rest(nft);
	return commit(nft, built, why);
}

/* ---- what a box adds ---- */

static bool rule_log(struct netlink *n, const char *chain, uint16_t group)
{
	struct rule rule = rule_begin(chain);
	struct nftnl_expr *e = add(&rule, "limit");

	if (e) {
		nftnl_expr_set_u64(e, NFTNL_EXPR_LIMIT_RATE, RULES_LOG_PER_SECOND);
		nftnl_expr_set_u64(e, NFTNL_EXPR_LIMIT_UNIT, 1);
		nftnl_expr_set_u32(e, NFTNL_EXPR_LIMIT_BURST, RULES_LOG_BURST);
		nftnl_expr_set_u32(e, NFTNL_EXPR_LIMIT_TYPE, NFT_LIMIT_PKTS);
	}
	e = add(&rule, "log");
	if (e) {
		nftnl_expr_set_u16(e, NFTNL_EXPR_LOG_GROUP, group);
		nftnl_expr_set_u32(e, NFTNL_EXPR_LOG_SNAPLEN, LOG_BYTES);
		nftnl_expr_set_u16(e, NFTNL_EXPR_LOG_QTHRESHOLD, 1);
	}
	verdict(&rule, (uint32_t)NFT_RETURN);
	return rule_end(&rule, n, "nf_tables: rule for a box's log");
}

static bool rule_beyond(struct netlink *n, const char *chain)
{
	struct rule rule = rule_begin(chain);
	struct nftnl_expr *e = add(&rule, "objref");

	set32(e, NFTNL_EXPR_OBJREF_IMM_TYPE, NFT_OBJECT_COUNTER);
	if (e && nftnl_expr_set_str(e, NFTNL_EXPR_OBJREF_IMM_NAME, chain) < 0)
		rule.failed = true;
	return rule_end(&rule, n, "nf_tables: rule beyond a box's log");
}

static struct nlmsghdr *counter_message(struct netlink *n, uint8_t type, const char *ifname)
{
	struct nftnl_obj *o = nftnl_obj_alloc();
	struct nlmsghdr *h;

	if (!o)
		return NULL;
	nftnl_obj_set_str(o, NFTNL_OBJ_TABLE, RULES_TABLE);
	nftnl_obj_set_str(o, NFTNL_OBJ_NAME, ifname);
	nftnl_obj_set_u32(o, NFTNL_OBJ_TYPE, NFT_OBJECT_COUNTER);
	if (type == NFT_MSG_NEWOBJ)
		nftnl_obj_set_u64(o, NFTNL_OBJ_CTR_PKTS, 0);
	h = message(n, type, type == NFT_MSG_NEWOBJ ? NLM_F_CREATE : 0, "nf_tables: a box's counter");
	nftnl_obj_nlmsg_build_payload(h, o);
	nftnl_obj_free(o);
	return h;
}

static bool refusals_element(struct netlink *n, uint8_t type, const char *ifname)
{
	struct nftnl_set *s = set_alloc(REFUSALS);
	struct nftnl_set_elem *e = s ? nftnl_set_elem_alloc() : NULL;
	char key[NAME_BYTES] = { 0 };

	if (!e) {
		if (s)
			nftnl_set_free(s);
		return false;
	}
	memcpy(key, ifname, strnlen(ifname, sizeof(key) - 1));
	nftnl_set_elem_set(e, NFTNL_SET_ELEM_KEY, key, sizeof(key));
	nftnl_set_elem_set_u32(e, NFTNL_SET_ELEM_VERDICT, (uint32_t)NFT_JUMP);
	nftnl_set_elem_set_str(e, NFTNL_SET_ELEM_CHAIN, ifname);
	nftnl_set_elem_add(s, e);
	nftnl_set_elems_nlmsg_build_payload(message(n, type,
						    type == NFT_MSG_NEWSETELEM ? NLM_F_CREATE : 0,
						    "nf_tables: a box's log"), s);
	nftnl_set_free(s);
	return true;
}

static bool flush_chain(struct netlink *n, const char *chain)
{
	struct nftnl_rule *r = nftnl_rule_alloc();

	if (!r)
		return false;
	nftnl_rule_set_str(r, NFTNL_RULE_TABLE, RULES_TABLE);
	nftnl_rule_set_str(r, NFTNL_RULE_CHAIN, chain);
	nftnl_rule_nlmsg_build_payload(message(n, NFT_MSG_DELRULE, 0, "nf_tables: a box's log"), r);
	nftnl_rule_free(r);
	return true;
}

/* The key as the registers hold it: name, address, and the port in the first half of its four. */
static void make_key(char key[KEY_BYTES], const char *ifname, const struct rules_pair *pair)
{
	uint32_t address = htonl(pair->address);
	uint16_t port = htons(pair->port);

	memset(key, 0, KEY_BYTES);
	memcpy(key, ifname, strnlen(ifname, NAME_BYTES - 1));
	memcpy(key + NAME_BYTES, &address, sizeof(address));
	memcpy(key + NAME_BYTES + 4, &port, sizeof(port));
}

static bool admitted_elements(struct netlink *n, uint8_t type, const char *ifname,
			      const struct rules_pair *pairs, size_t n_pairs)
{
	struct nftnl_set *s = set_alloc(ADMITTED);
	bool built = s != NULL;

	for (size_t i = 0; built && i < n_pairs; i++) {
		struct nftnl_set_elem *e = nftnl_set_elem_alloc();
		char key[KEY_BYTES];

		built = e != NULL;
		if (!built)
			break;
		make_key(key, ifname, &pairs[i]);
		nftnl_set_elem_set(e, NFTNL_SET_ELEM_KEY, key, sizeof(key));
		nftnl_set_elem_add(s, e);
	}
	if (built)
		nftnl_set_elems_nlmsg_build_payload(
			message(n, type, type == NFT_MSG_NEWSETELEM ? NLM_F_CREATE : 0,
				"nf_tables: admitted addresses"), s);
	if (s)
		nftnl_set_free(s);
	return built;
}

enum err rules_add_box(struct netlink *nft, const char *ifname, uint16_t group,
		       struct rules_pair own, struct wire_error *why)
{
	bool built;

	netlink_nf_begin(nft);
	built = chain_message(nft, NFT_MSG_NEWCHAIN, ifname, false) &&
		counter_message(nft, NFT_MSG_NEWOBJ, ifname) &&
		rule_log(nft, ifname, group) && rule_beyond(nft, ifname) &&
		refusals_element(nft, NFT_MSG_NEWSETELEM, ifname) &&
		admitted_elements(nft, NFT_MSG_NEWSETELEM, ifname, &own, 1);
	return commit(nft, built, why);
}

enum err rules_remove_box(struct netlink *nft, const char *ifname, struct rules_pair own,
			  struct wire_error *why)
{
	bool built;

	netlink_nf_begin(nft);
	built = admitted_elements(nft, NFT_MSG_DELSETELEM, ifname, &own, 1) &&
		refusals_element(nft, NFT_MSG_DELSETELEM, ifname) && flush_chain(nft, ifname) &&
		chain_message(nft, NFT_MSG_DELCHAIN, ifname, false) &&
		counter_message(nft, NFT_MSG_DELOBJ, ifname);
	return commit(nft, built, why);
}

static void take_count(void *arg, const struct nlmsghdr *h)
{
	struct nftnl_obj *o = nftnl_obj_alloc();
	uint64_t *packets = arg;

	if (o && nftnl_obj_nlmsg_parse(h, o) == 0)
		*packets = nftnl_obj_get_u64(o, NFTNL_OBJ_CTR_PKTS);
	if (o)
		nftnl_obj_free(o);
}

enum err rules_beyond_log(struct netlink *nft, const char *ifname, uint64_t *packets,
			  struct wire_error *why)
{
	enum err e;

	*packets = 0;
	if (!counter_message(nft, NFT_MSG_GETOBJ, ifname))
		return out_of_memory(why);
	netlink_on_answer(nft, take_count, packets);
	e = netlink_commit(nft, why);
	netlink_on_answer(nft, NULL, NULL);
	return e;
}

static enum err change_admitted(struct netlink *nft, uint8_t type, const char *ifname,
				const struct rules_pair *pairs, size_t n, struct wire_error *why)
{
	bool built = true;

	if (n > RULES_PORTS_MAX) {
		*why = (struct wire_error){ .what = "nf_tables: admitted addresses", .code = E2BIG };
		return ERR_LIMIT;
	}
	netlink_nf_begin(nft);
	for (size_t i = 0; i < n && built; i += ELEMENTS_PER_MESSAGE) {
		size_t some = n - i < ELEMENTS_PER_MESSAGE ? n - i : ELEMENTS_PER_MESSAGE;

		built = admitted_elements(nft, type, ifname, pairs + i, some);
	}
	return commit(nft, built, why);
}

enum err rules_admit(struct netlink *nft, const char *ifname, const struct rules_pair *pairs,
		     size_t n, struct wire_error *why)
{
	return change_admitted(nft, NFT_MSG_NEWSETELEM, ifname, pairs, n, why);
}

enum err rules_withdraw(struct netlink *nft, const char *ifname, const struct rules_pair *pairs,
			size_t n, struct wire_error *why)
{
	return change_admitted(nft, NFT_MSG_DELSETELEM, ifname, pairs, n, why);
}
