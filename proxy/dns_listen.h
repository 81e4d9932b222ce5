/* proxy/dns_listen.h - port 53 of every address: packets in, answers out, over UDP and TCP
 *
 * Knows nothing of DNS but its framing (RFC 1035 4.2, RFC 7766): each packet is handed up with an
 * asker, the way back to whoever sent it. UDP answers leave from the address that was asked
 * (IP_PKTINFO); TCP connections may pipeline, and are answered in any order.
 *
 * Ownership   takes both descriptors over; an asker is the handler's until dns_reply(), which
 *             ends it.
 * Blocking    never.
 * Failure     a UDP answer that the socket does not take is lost, as UDP answers are; a TCP
 *             connection that breaks the framing, is idle or does not take its answers is closed.
 * Limits      DNS_TCP_MAX connections (one more is closed at once), DNS_QUERY_MAX bytes a query,
 *             DNS_PIPELINE_MAX unanswered queries a connection and DNS_TCP_OUT_MAX bytes not taken
 *             (then it is not read from), DNS_TCP_IDLE_MS between queries.
 * Tests       tests/unit/proxy/test_dns_listen.c
 */
#ifndef PROXY_DNS_LISTEN_H
#define PROXY_DNS_LISTEN_H

#include "proxy/dns_msg.h"

#define DNS_TCP_MAX 64
#define DNS_QUERY_MAX 4096u
#define DNS_PIPELINE_MAX 32
#define DNS_TCP_OUT_MAX 32768u
#define DNS_TCP_IDLE_MS 5000

struct event_base;
struct dns_listen;
struct dns_asker;

typedef void dns_packet_fn(void *arg, struct dns_asker *from, struct str packet);

/* @ifindex: packets from elsewhere are dropped; 0 takes all. */
struct dns_listen *dns_listen_new(struct event_base *base, int udp, int tcp, uint32_t ifindex,
				  dns_packet_fn *fn, void *arg);
/* All askers must have been replied to. */
void dns_listen_free(struct dns_listen *l);
/* The longest answer that this asker takes, its query being @q. */
size_t dns_asker_max(const struct dns_asker *a, const struct dns_query *q);
/* @n 0: no answer. */
void dns_reply(struct dns_asker *a, const uint8_t *answer, size_t n);

#endif
