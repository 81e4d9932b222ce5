/* Theory of operation
 *
 * What no listener takes, the kernel refuses by itself (RST, port unreachable) and copies the
 * packet's head to this socket. The box has its answer already; here it becomes a record: which
 * address, which port, which protocol, and the rule. Where the address is leased, the name behind
 * it is the destination. A policy that does not deny what was refused (a port that no rule names
 * after all, UDP, an address never leased) leaves the default as what decided.
 *
 * Identical refusals are counted (proxy/tally.h). The socket may lose packets when a box floods it
 * (ENOBUFS): each time that happens is counted as one suppressed.
 */
#include <errno.h>
#include <event2/event.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/audit.h"
#include "proxy/refusal_list.h"
#include "proxy/tally.h"
#include "proxy/worker.h"
#include "sandbox/nflog.h"

#define DATAGRAMS_PER_WAKEUP 32
#define DATAGRAMS_AT_END 4096	/* more than the socket holds */
#define DATAGRAM_MAX 65536u

/* What makes two refused packets the same. */
struct packet_key {
	uint8_t protocol, family;
	uint16_t port;
	uint8_t to[16];
};

struct refused {
	struct worker *w;
	int fd;
	struct event *readable;
	struct tally *tally;
	char datagram[DATAGRAM_MAX];
};

static const char *protocol_name(uint8_t protocol, char out[16])
{
	switch (protocol) {
	case IPPROTO_TCP:
		return "tcp";
	case IPPROTO_UDP:
		return "udp";
	case IPPROTO_ICMP:
		return "icmp";
	default:
		snprintf(out, 16, "ip/%u", protocol);
		return out;
	}
}

static bool name_behind(const struct refused *r, const struct addr *to, struct str *name)
{
	return to->family == 4 && lease_name(r->w->leases, addr_to_v4(to), name);
}

/* The rule that denies it, or the default. */
static struct decision decide(const struct refused *r, const struct refused_packet *p)
{
	struct facts f = { .port = p->port };
	struct decision d;

	if (!name_behind(r, &p->to, &f.host)) {
		f.literal = true;
		f.addr = p->to;
	}
	d = policy_decide(r->w->policy, &f);
	if (d.verdict != VERDICT_DENY)
		d = (struct decision){ VERDICT_DENY, { 0, RULE_DEFAULT } };
	return d;
}

static enum err record(struct refused *r, const struct tally_line *line)
{
	struct record rec;
	struct packet_key key;
	struct addr to = { 0 };
	struct str name;
	char text[ADDR_TEXT_MAX], protocol[16];

	memcpy(&key, line->key.p, sizeof(key));
	to.family = key.family;
	memcpy(to.b, key.to, sizeof(to.b));
	addr_format(&to, text);
	record_begin(&rec, RECORD_connect);
	audit_decision(&rec, line->policy, line->decision);
	record_str(&rec, REC_refusal, str_of(line->id));
	if (name_behind(r, &to, &name)) {
		record_str(&rec, REC_destination, name);
		record_str(&rec, REC_synthetic, str_of(text));
	} else {
		record_str(&rec, REC_destination, str_of(text));
	}
	if (key.port)
		record_u64(&rec, REC_port, key.port);
	record_str(&rec, REC_protocol, str_of(protocol_name(key.protocol, protocol)));
	record_u64(&rec, REC_count, line->count ? line->count : 1);
	return audit_commit(r->w, line->policy, &rec);
}

static bool tell_repeats(void *arg, const struct tally_line *line, uint64_t suppressed)
{
	struct refused *r = arg;
	struct record rec;

	if (line)
		return record(r, line) == OK;
	record_begin(&rec, RECORD_connect);
	record_str(&rec, REC_verdict, STR("deny"));
	record_u64(&rec, REC_suppressed, suppressed);
	return audit_commit(r->w, r->w->policy, &rec) == OK;
}

/* For the box's own list. */
static void list_refusal(struct refused *r, const struct refused_packet *p,
			 struct decision decision, const char *id)
{
	const struct rule_info rule = policy_rule(r->w->policy, decision.rule);
	char text[ADDR_TEXT_MAX], protocol[16];
	struct refusal_note note = { .step = REFUSED_CONNECT, .id = id, .port = p->port,
				     .rule = rule.id, .reason = rule.reason, .retry = "ask" };

	if (!name_behind(r, &p->to, &note.host))
		note.host = str_of(addr_format(&p->to, text));
	note.protocol = str_of(protocol_name(p->protocol, protocol));
	if (p->protocol == IPPROTO_UDP) {
		note.reason = STR("UDP does not leave here");
		note.retry = "never";
	} else if (p->to.family == 4 && addr_to_v4(&p->to) == r->w->refusal_address) {
		note.reason = STR("the name that led to this address was refused, see step dns");
	} else if (note.reason.n == 0) {
		note.reason = STR("no rule allows this port of this host or address");
	}
	refusal_list_note(r->w->refusals, &note);
}

static struct packet_key key_of(const struct refused_packet *p)
{
	struct packet_key key;

	memset(&key, 0, sizeof(key));
	key.protocol = p->protocol;
	key.family = p->to.family;
	key.port = p->port;
	memcpy(key.to, p->to.b, sizeof(key.to));
	return key;
}

static void note(struct refused *r, const struct refused_packet *p)
{
	const struct packet_key key = key_of(p);
	const struct str bytes = str_n((const char *)&key, sizeof(key));
	const struct decision decision = decide(r, p);
	const struct tally_line *line = NULL;
	struct refusal refusal = { 0 };

	refusal_id(&refusal);
	if (tally_note(r->tally, bytes, decision, refusal.id, &line) == TALLY_FIRST &&
	    record(r, line) != OK)
		tally_retry(r->tally, bytes);
	list_refusal(r, p, decision, line ? line->id : refusal.id);
}

static void take_datagram(struct refused *r, struct str datagram)
{
	struct refused_packet p;

	while (nflog_next(&datagram, &p) == OK)
		if (r->w->ifindex == 0 || p.ifindex == r->w->ifindex)
			note(r, &p);
}

/* One datagram. False when there is none. */
static bool read_datagram(struct refused *r)
{
	struct sockaddr_nl from = { 0 };
	socklen_t len = sizeof(from);
	ssize_t n = recvfrom(r->fd, r->datagram, sizeof(r->datagram), MSG_DONTWAIT,
			     (struct sockaddr *)&from, &len);

	if (n < 0 && errno == ENOBUFS)
		tally_suppress(r->tally, 1);
	if (n < 0)
		return errno == ENOBUFS || errno == EINTR;
	/* The kernel's port is 0: nobody else speaks for it. */
	if (len >= sizeof(from) && from.nl_family == AF_NETLINK && from.nl_pid != 0)
		return true;
	take_datagram(r, str_n(r->datagram, (size_t)n));
	return n > 0;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	for (unsigned i = 0; i < DATAGRAMS_PER_WAKEUP && read_datagram(arg); i++)
		;
}

struct refused *refused_new(struct worker *w, int nflog)
{
	struct refused *r = calloc(1, sizeof(*r));

	if (!r) {
		close(nflog);
		return NULL;
	}
	r->w = w;
	r->fd = nflog;
	r->tally = tally_new(w->base, &w->policy, tell_repeats, r);
	r->readable = event_new(w->base, nflog, EV_READ | EV_PERSIST, on_readable, r);
	if (!r->tally || !r->readable || event_add(r->readable, NULL) < 0) {
		refused_free(r);
		return NULL;
	}
	return r;
}

void refused_free(struct refused *r)
{
	if (!r)
		return;
	if (r->readable)
		event_free(r->readable);
	/* The box is gone; what it met last may not have been read. */
	for (unsigned i = 0; r->tally && i < DATAGRAMS_AT_END && read_datagram(r); i++)
		;
	if (r->tally)
		tally_flush(r->tally);
	tally_free(r->tally);
	close(r->fd);
	free(r);
}
