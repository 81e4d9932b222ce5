/* Theory of operation
 *
 * Messages stand one behind the other in a buffer. The one that is still growing is the last: its
 * length is settled when the next one is begun, or at the commit. Each that asks for an
 * acknowledgement has a sequence number, in rising order without holes, so that the number of an
 * answer says which step it is about. Answers with a number before the batch's first are what an
 * earlier, failed batch left behind: skipped.
 *
 * The kernel works on a request inside sendto() and has queued every answer when it returns.
 * Reading needs no waiting, therefore, and an empty queue while answers are missing is an error.
 *
 * nf_tables: a transaction that fails at its commit is answered with the number of its begin
 * message. That one asks for no acknowledgement, so it stands as step 0 and any answer to it is a
 * failure.
 */
#include "sandbox/netlink.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nfnetlink.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef NETLINK_CAP_ACK
#define NETLINK_CAP_ACK 10
#endif

#define ANSWER_BYTES 8192

struct step {
	const char *what;
	bool acknowledged;	/* asks for it */
};

struct netlink {
	int fd;
	uint32_t seq;		/* of the last message made */
	uint32_t first;		/* of the batch's first message */
	bool overflow;
	size_t n;		/* bytes of settled messages */
	size_t steps, awaited;
	struct nlmsghdr *last;	/* still growing */
	void (*hear)(void *arg, const struct nlmsghdr *h);
	void *hear_arg;
	struct step step[NETLINK_BATCH_STEPS];
	_Alignas(struct nlmsghdr) char bytes[NETLINK_BATCH_BYTES];
};

enum err netlink_open(int bus, struct netlink **out)
{
	struct sockaddr_nl me = { .nl_family = AF_NETLINK };
	struct netlink *n = calloc(1, sizeof(*n));
	int one = 1;

	if (!n)
		return ERR_NOMEM;
	n->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, bus);
	if (n->fd < 0 || bind(n->fd, (struct sockaddr *)&me, sizeof(me)) < 0) {
		netlink_close(n);
		return ERR_SYSTEM;
	}
	/* Answers without a copy of the request: a large one would not fit the socket's queue. */
	(void)setsockopt(n->fd, SOL_NETLINK, NETLINK_CAP_ACK, &one, sizeof(one));
	*out = n;
	return OK;
}

void netlink_close(struct netlink *n)
{
	int saved = errno;

	if (!n)
		return;
	if (n->fd >= 0)
		close(n->fd);
	free(n);
	errno = saved;
}

int netlink_take_fd(struct netlink *n)
{
	int fd = n->fd;

	n->fd = -1;
	netlink_close(n);
	return fd;
}

static void settle(struct netlink *n)
{
	if (!n->last)
		return;
	if (n->last->nlmsg_len > NETLINK_MESSAGE_MAX)
		n->overflow = true;
	else
		n->n += NLMSG_ALIGN((size_t)n->last->nlmsg_len);
	n->last = NULL;
}

/* A batch that does not fit goes on being written at its start: it is never sent. */
struct nlmsghdr *netlink_message(struct netlink *n, uint16_t type, unsigned flags, const char *what)
{
	struct nlmsghdr *h;

	settle(n);
	if (n->n + NETLINK_MESSAGE_MAX > sizeof(n->bytes) || n->steps == NETLINK_BATCH_STEPS)
		n->overflow = true;
	if (n->overflow)
		n->n = n->steps = 0;
	/* The helpers that write behind the header ask for no room: there must be enough. */
	h = mnl_nlmsg_put_header(n->bytes + n->n);
	h->nlmsg_type = type;
	h->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | NLM_F_ACK | flags);
	h->nlmsg_seq = ++n->seq;
	if (n->steps == 0)
		n->first = n->seq;
	n->step[n->steps++] = (struct step){ .what = what, .acknowledged = true };
	n->last = h;
	return h;
}

struct nlmsghdr *netlink_nf_message(struct netlink *n, uint8_t subsystem, uint8_t type,
				    uint8_t family, unsigned flags, const char *what)
{
	struct nlmsghdr *h = netlink_message(n, (uint16_t)(subsystem << 8 | type), flags, what);
	struct nfgenmsg *g = mnl_nlmsg_put_extra_header(h, sizeof(*g));

	g->nfgen_family = family;
	g->version = NFNETLINK_V0;
	return h;
}

static void batch_mark(struct netlink *n, uint16_t type, const char *what)
{
	struct nlmsghdr *h = netlink_message(n, type, 0, what);
	struct nfgenmsg *g = mnl_nlmsg_put_extra_header(h, sizeof(*g));

	h->nlmsg_flags = NLM_F_REQUEST;
	n->step[n->steps - 1].acknowledged = false;
	g->nfgen_family = AF_UNSPEC;
	g->version = NFNETLINK_V0;
	g->res_id = htons(NFNL_SUBSYS_NFTABLES);
}

void netlink_nf_begin(struct netlink *n)
{
	batch_mark(n, NFNL_MSG_BATCH_BEGIN, "nf_tables: transaction");
}

void netlink_nf_end(struct netlink *n)
{
	batch_mark(n, NFNL_MSG_BATCH_END, "nf_tables: end of transaction");
}

static enum err failed(struct wire_error *why, const char *what, int code)
{
	why->what = what;
	why->code = code;
	errno = code;
	return ERR_SYSTEM;
}

/* One answer of the kernel's: an acknowledgement is an error message whose error is 0. */
static enum err take_answer(struct netlink *n, const struct nlmsghdr *h, struct wire_error *why)
{
	const struct nlmsgerr *e = mnl_nlmsg_get_payload(h);
	uint32_t at = h->nlmsg_seq - n->first;

	if (h->nlmsg_type != NLMSG_ERROR && n->hear)
		n->hear(n->hear_arg, h);
	if (h->nlmsg_type != NLMSG_ERROR || mnl_nlmsg_get_payload_len(h) < sizeof(e->error) ||
	    at >= n->steps)
		return OK;
	if (e->error != 0)
		return failed(why, n->step[at].what, -e->error);
	if (n->step[at].acknowledged) {
		n->step[at].acknowledged = false;
		n->awaited--;
	}
	return OK;
}

static enum err take_answers(struct netlink *n, struct wire_error *why)
{
	_Alignas(struct nlmsghdr) char bytes[ANSWER_BYTES];
	enum err e = OK;

	while (n->awaited > 0) {
		ssize_t got = recv(n->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
		int left = (int)got;

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return failed(why, "netlink: acknowledgement", errno);
		for (const struct nlmsghdr *h = (const struct nlmsghdr *)bytes;
		     mnl_nlmsg_ok(h, left) && e == OK; h = mnl_nlmsg_next(h, &left))
			e = take_answer(n, h, why);
		if (e != OK)
			return e;
	}
	return OK;
}

static enum err send_batch(struct netlink *n, struct wire_error *why)
{
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	ssize_t sent;

	do
		sent = sendto(n->fd, n->bytes, n->n, 0, (struct sockaddr *)&kernel, sizeof(kernel));
	while (sent < 0 && errno == EINTR);
	if (sent < 0)
		return failed(why, "netlink: send", errno);
	return take_answers(n, why);
}

void netlink_on_answer(struct netlink *n, void (*hear)(void *arg, const struct nlmsghdr *h),
		       void *arg)
{
	n->hear = hear;
	n->hear_arg = arg;
}

void netlink_discard(struct netlink *n)
{
	n->last = NULL;
	n->n = n->steps = n->awaited = 0;
	n->overflow = false;
}

enum err netlink_commit(struct netlink *n, struct wire_error *why)
{
	enum err e = OK;

	settle(n);
	n->awaited = 0;
	for (size_t i = 0; i < n->steps; i++)
		n->awaited += n->step[i].acknowledged;
	if (n->overflow) {
		(void)failed(why, "netlink: batch too large", EMSGSIZE);
		e = ERR_LIMIT;
	} else if (n->steps > 0) {
		e = send_batch(n, why);
	}
	netlink_discard(n);
	return e;
}
