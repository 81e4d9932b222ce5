/* A DNS server on loopback that answers as its script says, over UDP and TCP, in the test's own loop. */
#ifndef TEST_DNS_SERVER_H
#define TEST_DNS_SERVER_H

#include "tests/unit/proxy/dns_packets.h"
#include "tests/unit/proxy/names_world.h"

struct dns_server;

/* Writes the records of the answer with server_a() and its kin; says the rcode, or SERVER_SILENT. */
#define SERVER_SILENT (-1)
typedef int server_script_fn(struct dns_server *s, const struct dns_query *q);

struct dns_server {
	struct world *world;
	int udp, listener, tcp;
	uint16_t port;
	char address[32];		/* "127.0.0.1:PORT" */
	struct event *on_udp, *on_listener, *on_tcp;
	server_script_fn *script;
	unsigned queries, tcp_queries, a_queries;
	bool over_tcp;			/* while the script runs: how it was asked */
	bool cut;			/* set by the script: TC */
	struct packet_out out;
	unsigned n_answers;
};

static inline void server_record(struct dns_server *s, const char *owner, uint16_t type, uint32_t ttl,
				 const void *data, size_t n)
{
	if (owner)
		put_dotted(&s->out, owner);
	else
		put_int(&s->out, 2, 0xc00c);
	put_int(&s->out, 2, type);
	put_int(&s->out, 2, 1);
	put_int(&s->out, 4, ttl);
	put_int(&s->out, 2, (uint32_t)n);
	for (size_t i = 0; i < n; i++)
		put_int(&s->out, 1, ((const uint8_t *)data)[i]);
	s->n_answers++;
}

static inline void server_a(struct dns_server *s, const char *owner, const char *addr, uint32_t ttl)
{
	struct addr a;

	assert_true(addr_parse(str_of(addr), &a));
	server_record(s, owner, a.family == 6 ? DNS_AAAA : DNS_A, ttl, a.b, a.family == 6 ? 16 : 4);
}

static inline void server_cname(struct dns_server *s, const char *owner, const char *target)
{
	static struct packet_out name;

	name.n = 0;
	put_dotted(&name, target);
	server_record(s, owner, DNS_CNAME, 60, name.p, name.n);
}

/* False: no answer. */
static inline bool server_answer(struct dns_server *s, struct str packet, bool tcp)
{
	struct dns_query q;
	enum dns_rcode rcode;
	int said;

	assert_int_equal(dns_parse(packet, &q, &rcode), DNS_QUERY);
	s->queries++;
	s->tcp_queries += tcp;
	s->a_queries += q.type == DNS_A;
	s->over_tcp = tcp;
	s->cut = false;
	s->n_answers = 0;
	s->out.n = 12;
	memcpy(s->out.p + 12, q.question, q.question_n);
	s->out.n += q.question_n;
	said = s->script(s, &q);
	if (said == SERVER_SILENT)
		return false;
	s->out.p[0] = (uint8_t)(q.id >> 8);
	s->out.p[1] = (uint8_t)q.id;
	s->out.p[2] = (uint8_t)(0x81 | (s->cut ? 2 : 0));
	s->out.p[3] = (uint8_t)(0x80 | said);
	memset(s->out.p + 4, 0, 8);
	s->out.p[5] = 1;
	s->out.p[6] = (uint8_t)(s->n_answers >> 8);
	s->out.p[7] = (uint8_t)s->n_answers;
	return true;
}

static inline void server_on_udp(evutil_socket_t fd, short what, void *arg)
{
	struct dns_server *s = arg;
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);
	char packet[2048];
	ssize_t n = recvfrom(fd, packet, sizeof(packet), MSG_DONTWAIT, (struct sockaddr *)&from, &len);

	(void)what;
	if (n > 0 && server_answer(s, str_n(packet, (size_t)n), false))
		assert_true(sendto(fd, s->out.p, s->out.n, 0, (struct sockaddr *)&from, len) > 0);
}

/* Queries come in one piece here: one query in flight, from one client on loopback. */
static inline void server_on_tcp(evutil_socket_t fd, short what, void *arg)
{
	struct dns_server *s = arg;
	char packet[2048];
	ssize_t n = recv(fd, packet, sizeof(packet), MSG_DONTWAIT);
	size_t at = 0;
	uint8_t head[2];

	(void)what;
	if (n <= 0)
		event_del(s->on_tcp);
	while (n > 0 && at < (size_t)n) {
		size_t len = (size_t)(uint8_t)packet[at] << 8 | (uint8_t)packet[at + 1];

		assert_true(at + 2 + len <= (size_t)n);
		if (server_answer(s, str_n(packet + at + 2, len), true)) {
			head[0] = (uint8_t)(s->out.n >> 8);
			head[1] = (uint8_t)s->out.n;
			assert_int_equal(send(fd, head, 2, MSG_NOSIGNAL), 2);
			assert_int_equal(send(fd, s->out.p, s->out.n, MSG_NOSIGNAL), (ssize_t)s->out.n);
		}
		at += 2 + len;
	}
}

static inline void server_on_listener(evutil_socket_t fd, short what, void *arg)
{
	struct dns_server *s = arg;

	(void)what;
	if (s->on_tcp) {
		event_free(s->on_tcp);
		close(s->tcp);
	}
	s->tcp = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	assert_true(s->tcp >= 0);
	s->on_tcp = event_new(s->world->base, s->tcp, EV_READ | EV_PERSIST, server_on_tcp, s);
	event_add(s->on_tcp, NULL);
}

static inline void server_open(struct dns_server *s, struct world *w, server_script_fn *script)
{
	memset(s, 0, sizeof(*s));
	s->world = w;
	s->script = script;
	bound_pair(&s->port, &s->udp, &s->listener);
	snprintf(s->address, sizeof(s->address), "127.0.0.1:%u", s->port);
	s->on_udp = event_new(w->base, s->udp, EV_READ | EV_PERSIST, server_on_udp, s);
	s->on_listener = event_new(w->base, s->listener, EV_READ | EV_PERSIST, server_on_listener, s);
	event_add(s->on_udp, NULL);
	event_add(s->on_listener, NULL);
}

static inline void server_close(struct dns_server *s)
{
	event_free(s->on_udp);
	event_free(s->on_listener);
	if (s->on_tcp) {
		event_free(s->on_tcp);
		close(s->tcp);
	}
	close(s->udp);
	close(s->listener);
}

#endif
