/* proxy/dns_msg.h - DNS messages: a query read, an answer built (RFC 1035, 6891, 8914)
 *
 * Ownership   plain structs; output goes into the caller's array.       Blocking  never.
 * Failure     dns_parse() says with which RCODE the message is to be answered, or that it cannot be
 *             answered at all (an answer itself, shorter than a header).
 * Limits      DNS_MESSAGE_MAX; UDP answers as EDNS allows, at most DNS_UDP_MAX, 512 without.
 * Tests       tests/unit/proxy/test_dns_msg.c, fuzz/fuzz_dns.c
 */
#ifndef PROXY_DNS_MSG_H
#define PROXY_DNS_MSG_H

#include "policy/name.h"

#define DNS_MESSAGE_MAX 65535u
#define DNS_UDP_MAX 1232u
#define DNS_UDP_PLAIN 512u

enum dns_rcode {
	DNS_NOERROR = 0,
	DNS_FORMERR = 1,
	DNS_SERVFAIL = 2,
	DNS_NXDOMAIN = 3,
	DNS_NOTIMP = 4,
	DNS_REFUSED = 5,
	DNS_BADVERS = 16
};
enum dns_type {
	DNS_A = 1,
	DNS_NS = 2,
	DNS_CNAME = 5,
	DNS_SOA = 6,
	DNS_PTR = 12,
	DNS_MX = 15,
	DNS_TXT = 16,
	DNS_AAAA = 28,
	DNS_SRV = 33,
	DNS_OPT = 41,
	DNS_SVCB = 64,
	DNS_HTTPS = 65,
	DNS_ANY = 255
};
enum dns_ede { EDE_NONE = -1, EDE_OTHER = 0, EDE_BLOCKED = 15, EDE_NO_REACHABLE_AUTHORITY = 22,
	       EDE_NETWORK_ERROR = 23 };

struct dns_query {
	uint16_t id;
	uint8_t opcode;
	bool rd, cd;
	uint16_t type, class;
	struct name name;	/* canonical, where the name is a host name */
	bool name_ok; /* false: a name that no host has (bytes, root); answered, never asked
			 upstream */
	char shown[1024];	/* the name for the log, escaped */
	uint8_t question[260];	/* as it came, for the answer */
	uint16_t question_n;
	bool edns;
	uint16_t udp_size;	/* what the asker takes */
};

enum dns_parse_result {
	DNS_QUERY,		/* ask on */
	DNS_ANSWER_ERROR,	/* answer with *rcode */
	DNS_IGNORE,		/* not even that */
};

enum dns_parse_result dns_parse(struct str packet, struct dns_query *q, enum dns_rcode *rcode);

struct dns_answer {
	enum dns_rcode rcode;
	uint32_t ttl;
	struct addr addr;	/* one A, where family is 4 */
	struct str ptr;		/* one PTR, where not empty */
	bool soa;		/* NODATA and NXDOMAIN: SOA in authority (RFC 2308) */
	enum dns_ede ede;
	struct str ede_text;
	bool truncated;		/* forced TC, nothing else */
};

/* Returns the answer's length. @max: what may be sent (the query's UDP size, or DNS_MESSAGE_MAX);
 * what does not fit gives TC with the question alone. */
size_t dns_build(const struct dns_query *q, const struct dns_answer *a, uint8_t *out, size_t max);
const char *dns_type_name(uint16_t type, char out[16]);
const char *dns_rcode_name(enum dns_rcode rcode);

#endif
