/* Theory of operation
 *
 * c-ares is driven by its socket state callback: one event a socket it has open, one timer for its
 * next deadline. Its sockets are closed whenever nothing is under way, so that each burst of
 * queries has new source ports.
 *
 * A query is two questions, A and AAAA. It is over when both have their answers, or QUERY_GRACE_MS
 * after one family has addresses (RFC 8305 3: a server that swallows AAAA must not hold up A). It
 * then calls back, and stays as a shell until c-ares has let go of both.
 */
#include "proxy/resolver_query.h"

#include <ares.h>
#include <ares_nameser.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>

#include "proxy/clock.h"

#define SERVERS_TEXT_MAX 1024
#define PORT_DNS 53
#define EDNS_SIZE 1232
#define QR_BIT 0x80

struct watch {
	struct watch *next;
	struct resolver_net *net;
	ares_socket_t fd;
	struct event *event;
	short interest;
};

struct resolver_net {
	struct event_base *base;
	ares_channel channel;
	bool closing;
	struct event *timer;
	struct watch *watches;
	struct query *queries;
	char server[ADDR_PORT_TEXT_MAX];	/* for the record */
};

enum { FAMILY_4, FAMILY_6, FAMILIES };

/* What one family's question came to. */
struct half {
	struct query *query;
	bool done;
	enum resolve_status status;
	struct addr addrs[RESOLVER_ADDRS_MAX];
	size_t n;
	uint32_t ttl;
};

struct query {
	struct query *next, **prev;
	struct resolver_net *net;
	struct name name;
	resolver_query_fn *fn;
	void *arg;
	bool begun, called;
	uint64_t since;
	struct event *timer;
	struct half halves[FAMILIES];
};

/* ---- c-ares on the loop ---- */

static void arm_timer(struct resolver_net *n)
{
	struct timeval tv, *next = ares_timeout(n->channel, NULL, &tv);

	if (next)
		event_add(n->timer, next);
	else
		event_del(n->timer);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct resolver_net *n = arg;

	(void)fd;
	(void)what;
	ares_process_fd(n->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	arm_timer(n);
}

static void on_socket(evutil_socket_t fd, short what, void *arg)
{
	struct watch *w = arg;
	struct resolver_net *n = w->net;

	/* The watch may be gone when this returns. */
	ares_process_fd(n->channel, what & EV_READ ? fd : ARES_SOCKET_BAD,
			what & EV_WRITE ? fd : ARES_SOCKET_BAD);
	arm_timer(n);
}

static void unwatch(struct resolver_net *n, ares_socket_t fd)
{
	struct watch **at = &n->watches, *w;

	while ((w = *at) != NULL && w->fd != fd)
		at = &w->next;
	if (!w)
		return;
	*at = w->next;
	event_free(w->event);
	free(w);
}

static void on_interest(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct resolver_net *n = arg;
	short interest = (short)((readable ? EV_READ : 0) | (writable ? EV_WRITE : 0));
	struct watch *w;

	unwatch(n, fd);
	if (!interest)
		return;
	w = calloc(1, sizeof(*w));
	if (!w)
		return;	/* its deadline ends the query */
	w->net = n;
	w->fd = fd;
	w->event = event_new(n->base, fd, (short)(interest | EV_PERSIST), on_socket, w);
	if (!w->event || event_add(w->event, NULL) < 0) {
		if (w->event)
			event_free(w->event);
		free(w);
		return;
	}
	w->next = n->watches;
	n->watches = w;
}

/* ---- servers ---- */

static bool server_text(const struct str_list *servers, struct buf *csv, const char **why)
{
	for (size_t i = 0; i < servers->n; i++) {
		struct addr a;
		uint16_t port;
		char text[ADDR_TEXT_MAX];

		if (!addr_port_parse(servers->v[i], PORT_DNS, &a, &port)) {
			*why = "a DNS server that is no address";
			return false;
		}
		buf_printf(csv, a.family == 6 ? "%s[%s]:%u" : "%s%s:%u", i ? "," : "", addr_format(&a, text),
			   port);
	}
	buf_put_c(csv, '\0');
	return !csv->failed;
}

static bool set_servers(struct resolver_net *n, const struct str_list *servers, const char **why)
{
	struct buf csv;
	bool ok = true;

	buf_init(&csv, SERVERS_TEXT_MAX);
	if (servers->n) {
		*why = "the list of DNS servers is too long";
		ok = server_text(servers, &csv, why);
		if (ok && ares_set_servers_ports_csv(n->channel, csv.p) != ARES_SUCCESS) {
			*why = "the DNS servers cannot be set";
			ok = false;
		}
	}
	buf_free(&csv);
	return ok;
}

/* Which of several answered c-ares does not tell: the record has the first and how many more. */
static void name_servers(struct resolver_net *n)
{
	struct ares_addr_port_node *list = NULL, *s;
	struct addr a = { 0 };
	char text[ADDR_TEXT_MAX];
	uint8_t more = 0;
	int port;

	if (ares_get_servers_ports(n->channel, &list) != ARES_SUCCESS || !list)
		return;
	a.family = list->family == AF_INET6 ? 6 : 4;
	memcpy(a.b, &list->addr, addr_len(&a));
	port = list->udp_port ? list->udp_port : PORT_DNS;
	for (s = list->next; s && more < UINT8_MAX; s = s->next)
		more++;
	addr_format(&a, text);
	if (port == PORT_DNS && more)
		snprintf(n->server, sizeof(n->server), "%s +%u", text, more);
	else
		snprintf(n->server, sizeof(n->server), a.family == 6 ? "[%s]:%d" : "%s:%d", text, port);
	ares_free_data(list);
}

static bool open_channel(struct resolver_net *n, uint32_t timeout_ms)
{
	char lookups[] = "b";
	struct ares_options o = { .flags =
					  ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES | ARES_FLAG_EDNS,
				  .timeout = (int)timeout_ms,
				  .tries = QUERY_TRIES,
				  .ndots = 0,
				  .ednspsz = EDNS_SIZE,
				  .lookups = lookups,
				  .domains = NULL,
				  .ndomains = 0,
				  .sock_state_cb = on_interest,
				  .sock_state_cb_data = n };

	return ares_init_options(&n->channel, &o,
				 ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES |
					 ARES_OPT_NDOTS | ARES_OPT_EDNSPSZ | ARES_OPT_LOOKUPS |
					 ARES_OPT_DOMAINS | ARES_OPT_SOCK_STATE_CB) == ARES_SUCCESS;
}

struct resolver_net *resolver_net_new(struct event_base *base, const struct str_list *servers,
				      uint32_t timeout_ms, const char **why)
{
	struct resolver_net *n = calloc(1, sizeof(*n));

	*why = "out of memory";
	if (!n)
		return NULL;
	n->base = base;
	n->timer = event_new(base, -1, 0, on_timer, n);
	if (!n->timer || !open_channel(n, timeout_ms)) {
		*why = "c-ares does not start";
		if (n->timer)
			event_free(n->timer);
		free(n);
		return NULL;
	}
	if (!set_servers(n, servers, why)) {
		resolver_net_free(n);
		return NULL;
	}
	name_servers(n);
	return n;
}

/* ---- one query ---- */

static enum resolve_status status_of(int ares)
{
	switch (ares) {
	case ARES_SUCCESS:
		return RESOLVE_OK;
	case ARES_ENODATA:
		return RESOLVE_NODATA;
	case ARES_ENOTFOUND:
		return RESOLVE_NXDOMAIN;
	case ARES_ETIMEOUT:
		return RESOLVE_TIMEOUT;
	default: /* ARES_ECONNREFUSED among them: c-ares says it when every server said SERVFAIL */
		return RESOLVE_SERVFAIL;
	}
}

static void add_addr(struct half *h, uint8_t family, const void *bytes, int ttl)
{
	struct addr *a = &h->addrs[h->n++];

	*a = (struct addr){ .family = family };
	memcpy(a->b, bytes, addr_len(a));
	if (h->n == 1 || (uint32_t)ttl < h->ttl)
		h->ttl = ttl < 0 ? 0 : (uint32_t)ttl;
}

static int take_v4(struct half *h, const unsigned char *abuf, int alen)
{
	struct ares_addrttl ttls[RESOLVER_ADDRS_MAX];
	int n = RESOLVER_ADDRS_MAX, status = ares_parse_a_reply(abuf, alen, NULL, ttls, &n);

	for (int i = 0; status == ARES_SUCCESS && i < n; i++)
		add_addr(h, 4, &ttls[i].ipaddr, ttls[i].ttl);
	return status;
}

static int take_v6(struct half *h, const unsigned char *abuf, int alen)
{
	struct ares_addr6ttl ttls[RESOLVER_ADDRS_MAX];
	int n = RESOLVER_ADDRS_MAX, status = ares_parse_aaaa_reply(abuf, alen, NULL, ttls, &n);

	for (int i = 0; status == ARES_SUCCESS && i < n; i++)
		add_addr(h, 6, &ttls[i].ip6addr, ttls[i].ttl);
	return status;
}

/* Why the name has no addresses. It does not exist only where nobody says that it does. */
static enum resolve_status joined_failure(const struct half *a, const struct half *b)
{
	static const enum resolve_status worst_first[] = { RESOLVE_SERVFAIL, RESOLVE_TIMEOUT,
							   RESOLVE_NODATA, RESOLVE_NXDOMAIN };

	/* One word of NXDOMAIN outweighs the other question's getting no answer (RFC 8020 2). */
	if ((a->status == RESOLVE_NXDOMAIN && b->status != RESOLVE_NODATA) ||
	    (b->status == RESOLVE_NXDOMAIN && a->status != RESOLVE_NODATA))
		return RESOLVE_NXDOMAIN;
	for (size_t i = 0; i < sizeof(worst_first) / sizeof(worst_first[0]); i++)
		if (a->status == worst_first[i] || b->status == worst_first[i])
			return worst_first[i];
	return RESOLVE_SERVFAIL;
}

static void take_half(struct resolver_answer *out, const struct half *h, size_t most)
{
	size_t n = h->n < most ? h->n : most;

	if (n == 0)
		return;
	memcpy(out->addrs + out->n, h->addrs, n * sizeof(struct addr));
	if (out->n == 0 || h->ttl < out->ttl)
		out->ttl = h->ttl;
	out->n += n;
}

static void call_back(struct query *q)
{
	const struct half *v4 = &q->halves[FAMILY_4], *v6 = &q->halves[FAMILY_6];
	struct resolver_answer a = { .server = q->net->server };

	q->called = true;
	event_del(q->timer);
	a.ms = (uint32_t)(clock_ms() - q->since);
	/* Neither family may crowd the other out. */
	take_half(&a, v6, v4->n ? RESOLVER_ADDRS_MAX / 2 : RESOLVER_ADDRS_MAX);
	take_half(&a, v4, RESOLVER_ADDRS_MAX - a.n);
	a.status = a.n ? RESOLVE_OK : joined_failure(v4, v6);
	q->fn(q->arg, &a);
}

static void query_free(struct query *q)
{
	*q->prev = q->next;
	if (q->next)
		q->next->prev = q->prev;
	event_free(q->timer);
	free(q);
}

static void half_done(struct half *h)
{
	const struct timeval grace = { .tv_usec = QUERY_GRACE_MS * 1000 };
	struct query *q = h->query;
	bool all = q->halves[FAMILY_4].done && q->halves[FAMILY_6].done;

	if (q->net->closing)
		q->called = true;
	if (!q->called && all)
		call_back(q);
	else if (!q->called && h->n)
		event_add(q->timer, &grace);
	if (all)
		query_free(q);
}

/* c-ares holds id, question and server to what was asked, but not the QR bit (RFC 1035 4.1.1). */
static bool is_response(const unsigned char *abuf, int alen)
{
	return alen >= NS_HFIXEDSZ && (abuf[2] & QR_BIT);
}

static void on_answer(void *arg, int status, int timeouts, unsigned char *abuf, int alen)
{
	struct half *h = arg;

	(void)timeouts;
	if (status == ARES_SUCCESS && !is_response(abuf, alen))
		status = ARES_EBADRESP;
	if (status == ARES_SUCCESS)
		status = h == &h->query->halves[FAMILY_4] ? take_v4(h, abuf, alen)
							  : take_v6(h, abuf, alen);
	/* Aliases alone: the name exists and has no address. */
	h->status = status == ARES_SUCCESS && h->n == 0 ? RESOLVE_NODATA : status_of(status);
	h->done = true;
	half_done(h);
}

/* Asks from the loop, since c-ares may call back from inside ares_query(). The second such call may
 * free the query. */
static void begin(struct query *q)
{
	struct resolver_net *n = q->net;
	char name[NAME_MAX_LEN + 1];

	memcpy(name, q->name.s, sizeof(name));
	q->begun = true;
	ares_query(n->channel, name, C_IN, T_A, on_answer, &q->halves[FAMILY_4]);
	ares_query(n->channel, name, C_IN, T_AAAA, on_answer, &q->halves[FAMILY_6]);
	arm_timer(n);
}

static void on_query_timer(evutil_socket_t fd, short what, void *arg)
{
	struct query *q = arg;

	(void)fd;
	(void)what;
	if (q->begun)
		call_back(q);
	else
		begin(q);
}

enum err resolver_net_ask(struct resolver_net *n, struct str name, resolver_query_fn *fn, void *arg)
{
	const struct timeval now = { 0 };
	struct query *q;

	if (name.n == 0 || name.n > NAME_MAX_LEN)
		return ERR_LIMIT;
	q = calloc(1, sizeof(*q));
	if (!q)
		return ERR_NOMEM;
	q->timer = event_new(n->base, -1, 0, on_query_timer, q);
	if (!q->timer) {
		free(q);
		return ERR_NOMEM;
	}
	q->net = n;
	q->fn = fn;
	q->arg = arg;
	q->since = clock_ms();
	q->name.n = (uint8_t)name.n;
	memcpy(q->name.s, name.p, name.n);
	q->halves[FAMILY_4].query = q->halves[FAMILY_6].query = q;
	q->next = n->queries;
	q->prev = &n->queries;
	if (q->next)
		q->next->prev = &q->next;
	n->queries = q;
	event_add(q->timer, &now);
	return OK;
}

void resolver_net_free(struct resolver_net *n)
{
	struct query *q, *next;

	if (!n)
		return;
	n->closing = true;
	for (q = n->queries; q; q = next) {
		next = q->next;
		if (!q->begun)
			query_free(q);
	}
	ares_destroy(n->channel);
	while (n->watches)
		unwatch(n, n->watches->fd);
	event_free(n->timer);
	free(n);
}
